/* SPDX-License-Identifier: Apache-2.0 */
/* Versions that a program found bad though every byte of them is as it was saved: numbers that
 * are none. They and what followed from them are struck off, for this run and after a requeue.
 */
#include <string.h>

#include "common/msg.h"
#include "mpi_launcher/sup.h"

#define KEPT 64u /* marks in the state; older ones are of versions that are gone */

bool dlr_sup_is_bad(const struct dlr_sup *s, struct dlr_version v)
{
    for (unsigned i = 0; i < s->nstruck; i++)
        if (s->struck[i].later && !s->struck[i].passing &&
            s->struck[i].version.round >= v.round &&
            s->struck[i].version.step <= v.step)
            return true;
    return false;
}

static void strike(struct dlr_sup *s, struct dlr_version v)
{
    unsigned n = s->nstruck;

    dlr_sup_strike(s, "*", -1, v);
    if (s->nstruck > n)
        s->struck[n].later = true;
}

void dlr_sup_mark_bad(struct dlr_sup *s, struct dlr_version v, const char *why)
{
    if (dlr_sup_is_bad(s, v))
        return;
    strike(s, v);
    dlr_journal_note(s->journal, "marked_bad", "s:o,s:s", "version",
                     dlr_sup_version(&v), "why", why);
    dlr_sup_say(s, "step %llu and later ones are not restored any more: %s",
                (unsigned long long)v.step, why);
    dlr_sup_save_state(s);
}

void dlr_sup_on_bad(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t round, rank, step;
    char why[300];

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0 ||
        round > dlr_policy_round(s->policy))
        return;
    snprintf(why, sizeof(why), "rank %u on %.200s said so", (unsigned)rank,
             s->members.list[node].node.name);
    dlr_sup_mark_bad(s, (struct dlr_version){(uint32_t)round, step}, why);
}

json_t *dlr_sup_bad_state(const struct dlr_sup *s)
{
    json_t *list = json_array();

    for (unsigned i = s->nstruck; i-- > 0 && json_array_size(list) < KEPT;)
        if (s->struck[i].later && !s->struck[i].passing)
            json_array_append_new(list, dlr_sup_version(&s->struck[i].version));
    return list;
}

void dlr_sup_bad_take(struct dlr_sup *s, const json_t *state)
{
    const json_t *list = json_object_get(state, "bad");

    for (size_t i = 0; i < json_array_size(list) && i < KEPT; i++) {
        json_int_t round =
            json_integer_value(json_array_get(json_array_get(list, i), 0));
        json_int_t step =
            json_integer_value(json_array_get(json_array_get(list, i), 1));

        if (round >= 0 && round <= UINT32_MAX && step >= 0)
            strike(s, (struct dlr_version){(uint32_t)round, (uint64_t)step});
    }
}
