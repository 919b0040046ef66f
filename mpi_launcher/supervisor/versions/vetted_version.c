/* SPDX-License-Identifier: Apache-2.0 */
/* --dlrover-set=vetted-every: one older version stays in memory where it is, at its
 * ranks' nodes and at their partners, for the day when newer ones turn out to be bad.
 * Which one, is said with each commit, which frees all other older ones. A version that
 * is being written to the disk is that one from then on until it is written: a node has
 * one slot for both.
 */
#include <errno.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/versions/versions_state.h"

#define AUTO_STEPS 100 /* --dlrover-set=vetted-every=auto */

static unsigned every(const struct dlr_sup_versions *versions)
{
    if (dlr_sup_parity_rows(versions->env.planning) > 0)
        return 0;
    return versions->env.conf->vetted_every == DLR_COUNT_AUTO
               ? AUTO_STEPS
               : versions->env.conf->vetted_every;
}

int dlr_sup_vetted_check(struct dlr_sup_versions *versions, struct dlr_err *err)
{
    if (!dlr_sup_parity_rows(versions->env.planning) ||
        !versions->env.conf->vetted_every)
        return 0;
    if (versions->env.conf->vetted_every != DLR_COUNT_AUTO)
        return dlr_fail(
            err, -EINVAL,
            "--dlrover-set=vetted-every=%u: parity is of the newest versions "
            "only: say --dlrover-redundancy=partner, or "
            "--dlrover-set=vetted-every=0",
            versions->env.conf->vetted_every);
    if (!*versions->env.took_over)
        dlr_user_line(
            versions->env.io,
            "no older version is kept in memory (--dlrover-set=vetted-every=auto): "
            "parity is of the newest versions only; --dlrover-persist "
            "keeps older ones on the disk, --dlrover-set=vetted-every=0 ends this "
            "line");
    return 0;
}

/* A node has no room for it: one line for the run, the journal has the first of each
 * supervisor.
 */
void dlr_sup_on_no_vetted_slot(struct dlr_sup_versions *versions, unsigned node,
                               const json_t *msg)
{
    const char *where = versions->members->list[node].node.name, *why = "";
    uint64_t round;

    if (versions->no_vetted_slot_reported ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != dlr_policy_round(versions->policy))
        return;
    versions->no_vetted_slot_reported = true;
    dlr_msg_str(msg, "why", &why);
    dlr_journal_note(dlr_sup_journal(versions->env.io), "no_vetted_slot", "s:s,s:s",
                     "node", where, "why", why);
    if (!*versions->env.took_over)
        dlr_user_line(
            versions->env.io,
            "no older version is kept in memory (--dlrover-set=vetted-every=auto): "
            "%s: %s; --dlrover-set=vetted-every=%u demands it, 0 ends this line",
            where, why, AUTO_STEPS);
}

/* Marked bad, or newer than what a round went back to. */
static bool is_void(const struct dlr_sup_versions *versions, struct dlr_version v)
{
    return dlr_sup_is_bad(versions, versions->vetted) ||
           dlr_version_cmp(versions->vetted, v) >= 0 || versions->vetted.step > v.step;
}

static void take(struct dlr_sup_versions *versions, struct dlr_version v)
{
    versions->has_vetted = true;
    versions->vetted = v;
    versions->ops->changed(versions->arg, false);
}

void dlr_sup_vetted_commit(struct dlr_sup_versions *versions, struct dlr_version v)
{
    if (!every(versions) ||
        (versions->has_vetted && versions->ops->writes(versions->arg)))
        return;
    if (!versions->has_vetted || is_void(versions, v) ||
        v.step - versions->vetted.step >= every(versions))
        take(versions, v);
}

void dlr_sup_vetted_write(struct dlr_sup_versions *versions, struct dlr_version v)
{
    if (every(versions))
        take(versions, v);
}

void dlr_sup_vetted_round(struct dlr_sup_versions *versions)
{
    if (versions->has_vetted &&
        (!versions->env.plan->restore ||
         dlr_version_cmp(versions->vetted, versions->env.plan->version) > 0))
        versions->has_vetted = false; /* its slots are dropped */
}

bool dlr_sup_vetted(const struct dlr_sup_versions *versions, struct dlr_version *ret)
{
    if (versions->has_vetted)
        *ret = versions->vetted;
    return versions->has_vetted;
}

void dlr_sup_vetted_say(const struct dlr_sup_versions *versions, json_t *msg)
{
    if (!every(versions) || !versions->has_vetted)
        return;
    json_object_set_new(msg, "vetted",
                        json_pack("{s:I,s:I}", "vround",
                                  (json_int_t)versions->vetted.round, "step",
                                  (json_int_t)versions->vetted.step));
}

void dlr_sup_vetted_take(struct dlr_sup_versions *versions, const json_t *state)
{
    const json_t *v = json_object_get(state, "vetted");

    versions->has_vetted =
        json_array_size(v) == 2 && dlr_sup_version_take(v, &versions->vetted);
}
