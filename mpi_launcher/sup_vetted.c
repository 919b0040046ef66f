/* SPDX-License-Identifier: Apache-2.0 */
/* --dlrover-vetted-every: one older version stays in memory where it is, at its ranks' nodes and at
 * their partners, for the day when newer ones turn out to be bad. Which one, is said with each
 * commit, which frees all other older ones.
 */
#include "common/msg.h"
#include "mpi_launcher/sup.h"

static bool is_wanted(const struct dlr_sup *s)
{
    return s->conf.vetted_every > 0 && s->sets.rows == 0;
}

/* Marked bad, or newer than what a round went back to. */
static bool is_void(const struct dlr_sup *s, struct dlr_version v)
{
    return dlr_sup_is_bad(s, s->vetted) || dlr_version_cmp(s->vetted, v) >= 0 ||
           s->vetted.step > v.step;
}

void dlr_sup_vetted_commit(struct dlr_sup *s, struct dlr_version v)
{
    if (!is_wanted(s))
        return;
    if (s->has_vetted && !is_void(s, v) &&
        v.step - s->vetted.step < s->conf.vetted_every)
        return;
    s->has_vetted = true;
    s->vetted = v;
    dlr_sup_keep(s);
}

void dlr_sup_vetted_round(struct dlr_sup *s)
{
    if (s->has_vetted &&
        (!s->plan.restore || dlr_version_cmp(s->vetted, s->plan.version) > 0))
        s->has_vetted = false; /* its slots are dropped */
}

void dlr_sup_vetted_say(const struct dlr_sup *s, json_t *msg)
{
    if (!is_wanted(s) || !s->has_vetted)
        return;
    json_object_set_new(msg, "kept",
                        json_pack("{s:I,s:I}", "vround", (json_int_t)s->vetted.round,
                                  "step", (json_int_t)s->vetted.step));
}

void dlr_sup_vetted_take(struct dlr_sup *s, const json_t *state)
{
    const json_t *v = json_object_get(state, "vetted");
    json_int_t round = json_integer_value(json_array_get(v, 0));
    json_int_t step = json_integer_value(json_array_get(v, 1));

    s->has_vetted =
        json_array_size(v) == 2 && round >= 0 && round <= UINT32_MAX && step >= 0;
    if (s->has_vetted)
        s->vetted = (struct dlr_version){(uint32_t)round, (uint64_t)step};
}
