/* SPDX-License-Identifier: Apache-2.0 */
/* --dlrover-set=vetted-every: one older version stays in memory where it is, at its ranks' nodes and at
 * their partners, for the day when newer ones turn out to be bad. Which one, is said with each
 * commit, which frees all other older ones. A version that is being written to the disk is that
 * one from then on until it is written: a node has one slot for both.
 */
#include <errno.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/disk/persist_periodic.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define AUTO_STEPS 100 /* --dlrover-set=vetted-every=auto */

static unsigned every(const struct dlr_sup *s)
{
    if (s->sets.rows > 0)
        return 0;
    return s->conf.vetted_every == DLR_COUNT_AUTO ? AUTO_STEPS : s->conf.vetted_every;
}

int dlr_sup_vetted_check(struct dlr_sup *s, struct dlr_err *err)
{
    if (!s->sets.rows || !s->conf.vetted_every)
        return 0;
    if (s->conf.vetted_every != DLR_COUNT_AUTO)
        return dlr_fail(
            err, -EINVAL,
            "--dlrover-set=vetted-every=%u: parity is of the newest versions "
            "only: say --dlrover-redundancy=partner, or "
            "--dlrover-set=vetted-every=0",
            s->conf.vetted_every);
    if (!s->took_over)
        dlr_sup_say(
            s->io,
            "no older version is kept in memory (--dlrover-set=vetted-every=auto): "
            "parity is of the newest versions only; --dlrover-persist "
            "keeps older ones on the disk, --dlrover-set=vetted-every=0 ends this "
            "line");
    return 0;
}

/* A node has no room for it: one line for the run, the journal has the first of each supervisor. */
void dlr_sup_on_unvetted(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *where = s->members->list[node].node.name, *why = "";
    uint64_t round;

    if (s->unvetted_told || dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != dlr_policy_round(s->policy))
        return;
    s->unvetted_told = true;
    dlr_msg_str(msg, "why", &why);
    dlr_journal_note(dlr_sup_journal(s->io), "unvetted", "s:s,s:s", "node", where,
                     "why", why);
    if (!s->took_over)
        dlr_sup_say(
            s->io,
            "no older version is kept in memory (--dlrover-set=vetted-every=auto): "
            "%s: %s; --dlrover-set=vetted-every=%u demands it, 0 ends this line",
            where, why, AUTO_STEPS);
}

/* Marked bad, or newer than what a round went back to. */
static bool is_void(const struct dlr_sup *s, struct dlr_version v)
{
    return dlr_sup_is_bad(s, s->vetted) || dlr_version_cmp(s->vetted, v) >= 0 ||
           s->vetted.step > v.step;
}

static void take(struct dlr_sup *s, struct dlr_version v)
{
    s->has_vetted = true;
    s->vetted = v;
    dlr_sup_keep(s);
}

void dlr_sup_vetted_commit(struct dlr_sup *s, struct dlr_version v)
{
    if (!every(s) || (s->has_vetted && dlr_sup_periodic_writes(s)))
        return;
    if (!s->has_vetted || is_void(s, v) || v.step - s->vetted.step >= every(s))
        take(s, v);
}

void dlr_sup_vetted_write(struct dlr_sup *s, struct dlr_version v)
{
    if (every(s))
        take(s, v);
}

void dlr_sup_vetted_round(struct dlr_sup *s)
{
    if (s->has_vetted &&
        (!s->plan->restore || dlr_version_cmp(s->vetted, s->plan->version) > 0))
        s->has_vetted = false; /* its slots are dropped */
}

void dlr_sup_vetted_say(const struct dlr_sup *s, json_t *msg)
{
    if (!every(s) || !s->has_vetted)
        return;
    json_object_set_new(msg, "kept",
                        json_pack("{s:I,s:I}", "vround", (json_int_t)s->vetted.round,
                                  "step", (json_int_t)s->vetted.step));
}

void dlr_sup_vetted_take(struct dlr_sup *s, const json_t *state)
{
    const json_t *v = json_object_get(state, "vetted");

    s->has_vetted = json_array_size(v) == 2 && dlr_sup_version_read(v, &s->vetted);
}
