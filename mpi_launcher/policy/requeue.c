/* SPDX-License-Identifier: Apache-2.0 */
/* The state is written before the allocation is given back, and before a run that has
 * failed for the last time ends. Then the job is requeued, or the run ends.
 */
#include <stdio.h>

#include "mpi_launcher/policy/rule_actions.h"
#include "mpi_launcher/policy/state.h"

static void persist_for(struct dlr_policy *p, const char *why)
{
    snprintf(p->why, sizeof(p->why), "%s", why);
    p->ops.persist(p->arg);
}

/* Nothing more can be done here. */
DLR_ACTION(persist_to_requeue)
{
    persist_for(p, e->why);
}

DLR_ACTION(persist_too_few)
{
    persist_for(p, p->fit_why);
}

DLR_ACTION(persist_for_the_job)
{
    persist_for(p, "another run of the job needs the requeue");
}

/* The user wants no other round for it. */
DLR_ACTION(persist_as_it_failed)
{
    p->ops.persist(p->arg);
}

/* The program has failed for the last time: the script may try it again, and goes on
 * from what is written now.
 */
DLR_ACTION(persist_at_last)
{
    p->failed = true;
    p->ops.persist(p->arg);
}

DLR_ACTION(finish_failed)
{
    dlr_policy_finish(p, p->exit_code, p->failed_why);
}

DLR_ACTION(requeue)
{
    p->ops.requeue(p->arg, p->why);
}

DLR_ACTION(requeue_again)
{
    dlr_policy_count_fruitless(p, e->now_ms);
    p->ops.requeue(p->arg, p->why);
}

DLR_ACTION(finish_no_requeue)
{
    char text[640];

    snprintf(text, sizeof(text), "%s, and the job could not be requeued: %s", p->why,
             e->why);
    dlr_policy_finish(p, 1, text);
}
