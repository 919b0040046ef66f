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
    if (job->gpus > DLR_CHUNK_GPUS_MAX)
        return dlr_fail(err, -EINVAL, "%u GPUs: it must be %u at most", job->gpus,
                        DLR_CHUNK_GPUS_MAX);
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

/* bytes += n * each; false: more than can be counted, also with a sign. */
static bool add(uint64_t *bytes, uint64_t n, uint64_t each)
{
    uint64_t product;

    return !__builtin_mul_overflow(n, each, &product) &&
           !__builtin_add_overflow(*bytes, product, bytes) && *bytes <= INT64_MAX;
}

/* Frames for versions, of which two are kept: the newest committed one, and the next.
 * Parity is as mpi_launcher/plan deals it out: sets of equal size, with the holders
 * outside; a holder has a shard of each rank of a node, and gets all of its set for it.
 */
static bool protect(const struct dlr_chunk_job *job, struct dlr_chunk_capacity *c)
{
    const uint64_t room = job->nodes - job->copies,
                   members = job->members < room ? job->members : room;
    uint64_t parts = job->copies, size = 1; /* on the fullest node; nodes of a set */

    if (job->members > 0) {
        const uint64_t sets = ceil_of(job->nodes, members);

        parts = ceil_of(sets * job->copies, job->nodes);
        size = ceil_of(job->nodes, sets);
    }
    c->before = c->live;
    c->spares = ceil_of(c->live * job->spare_percent, 100);
    c->others = 2 * c->live * parts;
    return add(&c->sent, c->live * job->copies, c->frame_bytes) &&
           add(&c->received, c->live * parts * size, c->frame_bytes);
}

static bool count_node(const struct dlr_chunk_job *job, struct dlr_chunk_capacity *c)
{
    const uint64_t extra = c->chunks % job->gpus;

    c->ranks = (unsigned)ceil_of(job->gpus, job->nodes);
    c->params = c->live =
        c->ranks * (c->chunks / job->gpus) + (extra < c->ranks ? extra : c->ranks);
    if (!job->unprotected && !protect(job, c))
        return false;
    if (!add(&c->node_bytes, c->params, c->param_bytes) ||
        !add(&c->node_bytes, c->live + c->before + c->spares + c->others,
             c->frame_bytes))
        return false;
    c->margin_bytes = ceil_of(c->node_bytes, DLR_CHUNK_MARGIN);
    return add(&c->node_bytes, 1, c->margin_bytes) &&
           add(&c->node_bytes, c->ranks, job->program_bytes);
}

static void count_device(const struct dlr_chunk_job *job, struct dlr_chunk_capacity *c)
{
    c->layer = ceil_of(ceil_of(job->params, job->layers), c->elems);
    c->margin = ceil_of(c->layer + DLR_CHUNK_AHEAD, DLR_CHUNK_MARGIN);
    c->device_least = (c->layer + DLR_CHUNK_AHEAD + c->margin) * c->param_bytes;
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
    if (!count_node(job, &c))
        return dlr_fail(err, -EOVERFLOW, "a node would need more bytes than there are");
    count_device(job, &c);
    *ret = c;
    return 0;
}
