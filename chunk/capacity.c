/* SPDX-License-Identifier: Apache-2.0 */
#include "chunk/capacity.h"

#include <errno.h>
#include <inttypes.h>

#include "chunk/map.h"

#define FRAME_ELEM 12 /* bytes: master, momentum, variance */

static uint64_t ceil_of(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static int check(const struct dlr_chunk_job *job, struct dlr_err *err)
{
    if (job->params == 0 || job->params > DLR_CHUNK_ELEMS_MAX)
        return dlr_fail(err, -EINVAL,
                        "%" PRIu64 " parameters: it must be 1 to %" PRIu64, job->params,
                        DLR_CHUNK_ELEMS_MAX);
    if (job->nodes == 0 || job->gpus < job->nodes)
        return dlr_fail(err, -EINVAL, "%u GPUs on %u nodes: each node has one at least",
                        job->gpus, job->nodes);
    if (job->layers == 0)
        return dlr_fail(err, -EINVAL, "a model has 1 layer at least");
    if (job->spare_percent > 100)
        return dlr_fail(err, -EINVAL,
                        "%u %% of frames to spare: 100 is all that is used",
                        job->spare_percent);
    if (!job->unprotected && job->copies >= job->nodes)
        return dlr_fail(
            err, -EINVAL,
            "copies on %u other nodes need more than %u nodes: redundancy none "
            "needs no other",
            job->copies, job->nodes);
    return 0;
}

/* As the search for a chunk's size is bounded: 16 chunks, or of the usual size. */
static uint64_t choose_elems(uint64_t params)
{
    const uint64_t elems = params / 16 / DLR_CHUNK_UNIT * DLR_CHUNK_UNIT;

    if (elems > DLR_CHUNK_USUAL)
        return DLR_CHUNK_USUAL;
    return elems ? elems : DLR_CHUNK_UNIT;
}

/* Frames for versions, of which two are kept: the newest committed one, and the next. */
static void protect(const struct dlr_chunk_job *job, struct dlr_chunk_capacity *c)
{
    /* The holders lie outside of the set that shares parity. */
    const unsigned room = job->nodes - job->copies,
                   members = job->members < room ? job->members : room;

    c->before = c->live;
    c->spares = ceil_of(c->live * job->spare_percent, 100);
    c->others = 2 * c->live * job->copies;
    if (job->members > 0)
        c->others = ceil_of(c->others, members);
    c->save_bytes = c->live * job->copies * c->frame_bytes;
}

int dlr_chunk_capacity(const struct dlr_chunk_job *job, struct dlr_chunk_capacity *ret,
                       struct dlr_err *err)
{
    struct dlr_chunk_capacity c = {.elems = choose_elems(job->params)};
    int rc = check(job, err);

    if (rc < 0)
        return rc;
    c.param_bytes = 2 * c.elems;
    c.frame_bytes = FRAME_ELEM * c.elems;
    c.chunks = ceil_of(job->params, c.elems);
    c.rank_chunks = ceil_of(c.chunks, job->gpus);
    c.ranks = (unsigned)ceil_of(job->gpus, job->nodes);
    c.params = c.live = c.ranks * c.rank_chunks;
    if (!job->unprotected)
        protect(job, &c);
    c.node_bytes = c.params * c.param_bytes +
                   (c.live + c.before + c.spares + c.others) * c.frame_bytes +
                   c.ranks * job->program_bytes;
    c.layer = ceil_of(ceil_of(job->params, job->layers), c.elems);
    c.device_least = (c.layer + DLR_CHUNK_AHEAD) * c.param_bytes;
    *ret = c;
    return 0;
}
