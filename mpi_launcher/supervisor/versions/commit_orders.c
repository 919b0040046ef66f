/* SPDX-License-Identifier: Apache-2.0 */
/* What the commit engine is told while a round runs, and what it decides. */
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/versions/versions_state.h"

#define SAVE_MARGIN 2 /* steps ahead that a save is announced */
#define SAVE_MARGIN_MAX 64
#define SAVE_ALONE 2    /* first versions, of which one is open at a time */
#define DECIDE_MS 10000 /* an undecided version is aborted after this */

/* --- what it decides -------------------------------------------------------------- */

void dlr_sup_decide(struct dlr_sup_versions *versions, const char *type,
                    struct dlr_version v)
{
    json_t *msg = dlr_msg_new(type);

    json_object_set_new(msg, "round", json_integer(v.round));
    json_object_set_new(msg, "step", json_integer(v.step));
    if (!dlr_streq(type, "abort")) /* these free older versions */
        dlr_sup_vetted_say(versions, msg);
    dlr_sup_send_all(versions->env.nodes, msg);
}

static void on_save_at(void *arg, struct dlr_version v)
{
    struct dlr_sup_versions *versions = arg;

    if (!versions->saving_reported) {
        int64_t took_ms = dlr_sup_now() - versions->ops->launched(versions->arg);
        json_t *row = json_pack("{s:I,s:I}", "round", (json_int_t)v.round, "took_ms",
                                (json_int_t)took_ms);

        if (row)
            dlr_sup_memory_tell(versions, row);
        dlr_journal_event(dlr_sup_journal(versions->env.io), "saving", row);
        versions->saving_reported = true;
        versions->ops->changed(versions->arg, false);
    }
    dlr_sup_decide(versions, "save_at", v);
}

static void on_commit(void *arg, struct dlr_version v, int64_t took_ms)
{
    struct dlr_sup_versions *versions = arg;

    versions->commits++;
    versions->commit_ms = dlr_sup_now();
    versions->ops->committed(versions->arg, v);
    dlr_sup_vetted_commit(versions, v);
    dlr_sup_decide(versions, "commit", v);
    dlr_redundancy_restored(versions->env.copies);
    dlr_sup_cadence_commit(versions, v, took_ms);
    versions->ops->told(versions->arg, v);
}

static void on_abort(void *arg, struct dlr_version v, const char *why)
{
    struct dlr_sup_versions *versions = arg;
    bool begun = !dlr_after(why, DLR_COMMIT_WITHDRAWN);

    if (begun)
        versions->aborted[versions->aborts++ % DLR_SUP_ABORTED] = v;
    /* Those that are late, or too soon, come often and mean little. */
    if (begun && !dlr_after(why, DLR_COMMIT_LATE) && !dlr_after(why, DLR_COMMIT_BUSY))
        dlr_journal_note(dlr_sup_journal(versions->env.io), "save_failed", "s:o,s:s",
                         "version", dlr_sup_version(&v), "why", why);
    dlr_sup_decide(versions, "abort", v);
}

int dlr_sup_versions_open(struct dlr_sup_versions *versions,
                          const struct dlr_policy *policy, struct dlr_err *err)
{
    static const struct dlr_commit_ops ops = {
        .save_at = on_save_at, .commit = on_commit, .abort = on_abort};
    const struct dlr_commit_conf conf = {
        .copies = dlr_sup_copies(versions->env.copies),
        .decide_ms = DECIDE_MS,
        .margin_steps = SAVE_MARGIN,
        .margin_max = SAVE_MARGIN_MAX,
        .beat_ms = versions->env.conf->beat.every_ms,
        .alone = SAVE_ALONE,
    };
    int rc = dlr_commit_new(&conf, &ops, versions, &versions->commit, err);

    versions->policy = policy;
    if (rc == 0)
        dlr_sup_cadence_start(versions);
    return rc;
}

struct dlr_commit *dlr_sup_commit(const struct dlr_sup_versions *versions)
{
    return versions->commit;
}

/* --- what it is told -------------------------------------------------------------- */

void dlr_sup_versions_tick(struct dlr_sup_versions *versions, int64_t now_ms)
{
    if (now_ms >= dlr_commit_deadline_ms(versions->commit))
        dlr_commit_tick(versions->commit, now_ms);
}

void dlr_sup_versions_progress(struct dlr_sup_versions *versions, uint32_t round,
                               uint64_t step, int64_t now_ms)
{
    dlr_commit_progress(versions->commit, round, step, now_ms);
}

void dlr_sup_versions_sealed(struct dlr_sup_versions *versions, unsigned rank,
                             struct dlr_version v, const json_t *msg)
{
    uint64_t at = 0;

    dlr_msg_uint(msg, "at", INT64_MAX, &at);
    dlr_sup_cadence_sealed(versions, msg);
    dlr_commit_sealed(versions->commit, rank, v, at, dlr_sup_now());
}

void dlr_sup_versions_copied(struct dlr_sup_versions *versions, unsigned node,
                             unsigned rank, unsigned holder, struct dlr_version v,
                             const json_t *msg)
{
    dlr_sup_cadence_copied(versions, node, msg);
    dlr_commit_copied(versions->commit, rank, holder, v, dlr_sup_now());
}

void dlr_sup_versions_missed(struct dlr_sup_versions *versions, unsigned rank,
                             struct dlr_version v, const json_t *msg)
{
    const char *why = "";

    dlr_msg_str(msg, "why", &why);
    dlr_commit_missed(versions->commit, rank, v, why, dlr_sup_now());
}

void dlr_sup_on_wanted(struct dlr_sup_versions *versions, unsigned node,
                       const json_t *msg)
{
    uint64_t round, step;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) == 0 &&
        dlr_msg_uint(msg, "step", INT64_MAX, &step) == 0)
        dlr_commit_want(versions->commit, (uint32_t)round, step, dlr_sup_now());
}

/* --- what is known of it ---------------------------------------------------------- */

bool dlr_sup_newest(const struct dlr_sup_versions *versions, struct dlr_version *ret)
{
    return dlr_commit_newest(versions->commit, ret);
}

void dlr_sup_newest_put(const struct dlr_sup_versions *versions, json_t *row)
{
    struct dlr_version v;
    bool has = dlr_commit_newest(versions->commit, &v);

    json_object_set_new(row, "committed", dlr_sup_version(has ? &v : NULL));
    has = dlr_commit_pending(versions->commit, &v);
    json_object_set_new(row, "pending", dlr_sup_version(has ? &v : NULL));
}

void dlr_sup_saves_put(const struct dlr_sup_versions *versions, int64_t now_ms,
                       json_t *row)
{
    struct dlr_version v;
    bool known = versions->commit_ms && dlr_commit_newest(versions->commit, &v);

    dlr_sup_newest_put(versions, row);
    json_object_set_new(row, "commit_age_ms",
                        json_integer(known ? now_ms - versions->commit_ms : -1));
    json_object_set_new(row, "at_stake_ms",
                        json_integer(dlr_sup_cadence_at_stake_ms(versions, now_ms)));
    json_object_set_new(row, "commits", json_integer(versions->commits));
    json_object_set_new(row, "aborts", json_integer(versions->aborts));
    json_object_set_new(row, "asked", json_integer(dlr_commit_asked(versions->commit)));
}
