/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/alone_start.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/slot.h"
#include "common/str.h"

#define TEXT_OUT                                                                       \
    "dlrover-start 1\njob %" PRId64 "\nstep %" PRId64 "\nport %" PRId64                \
    "\nspace %016" PRIx64 "\nworld %" PRIu32 "\n"
#define TEXT_IN                                                                        \
    "dlrover-start 1 job %20" SCNd64 " step %20" SCNd64 " port %20" SCNd64             \
    " space %16" SCNx64 " world %10" SCNu32

static int64_t number(const char *name)
{
    const char *text = getenv(name);
    unsigned value;

    return text && dlr_parse_uint(text, UINT32_MAX, &value) == 0 ? (int64_t)value : -1;
}

void dlr_alone_start_get(int world, struct dlr_alone_start *ret)
{
    const char *space = getenv("PMIX_NAMESPACE");

    *ret = (struct dlr_alone_start){.job = number("SLURM_JOB_ID"),
                                    .step = -1,
                                    .port = number("MASTER_PORT"),
                                    .world = (uint32_t)world};
    /* Several sruns or mpiruns may start the nodes of one program. */
    if (number("SLURM_STEP_NUM_TASKS") == world)
        ret->step = number("SLURM_STEP_ID");
    if (space && number("OMPI_COMM_WORLD_SIZE") == world)
        ret->space = dlr_slot_key(space);
}

static bool both(int64_t a, int64_t b)
{
    return a >= 0 && b >= 0;
}

bool dlr_alone_start_differs(const struct dlr_alone_start *a,
                             const struct dlr_alone_start *b)
{
    if (a->world != b->world || (both(a->job, b->job) && a->job != b->job) ||
        (both(a->port, b->port) && a->port != b->port))
        return true;
    if (both(a->step, b->step) && a->step != b->step)
        return true;
    return a->space && b->space && a->space != b->space;
}

void dlr_alone_start_text(const struct dlr_alone_start *start,
                          char buf[DLR_ALONE_START_MAX])
{
    dlr_format(buf, DLR_ALONE_START_MAX, TEXT_OUT, start->job, start->step, start->port,
               start->space, start->world);
}

int dlr_alone_start_parse(const char *text, struct dlr_alone_start *ret)
{
    char again[DLR_ALONE_START_MAX];
    struct dlr_alone_start s;

    if (sscanf(text, TEXT_IN, &s.job, &s.step, &s.port, &s.space, &s.world) != 5)
        return -EBADMSG;
    dlr_alone_start_text(&s, again);
    if (!dlr_streq(again, text))
        return -EBADMSG;
    *ret = s;
    return 0;
}
