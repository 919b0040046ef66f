/* SPDX-License-Identifier: Apache-2.0 */
/* What the commit engine decides while a round runs. */
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/disk/persist_periodic.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/cadence.h"

void dlr_sup_decide(struct dlr_sup *s, const char *type, struct dlr_version v)
{
    json_t *msg = dlr_msg_new(type);

    json_object_set_new(msg, "round", json_integer(v.round));
    json_object_set_new(msg, "step", json_integer(v.step));
    if (!dlr_streq(type, "abort")) /* these free older versions */
        dlr_sup_vetted_say(s, msg);
    dlr_sup_send_all(s->nodes, msg);
}

static void on_save_at(void *arg, struct dlr_version v)
{
    struct dlr_sup *s = arg;

    if (!s->saving_told) {
        json_t *row = json_pack("{s:I,s:I}", "round", (json_int_t)v.round, "took_ms",
                                (json_int_t)(dlr_sup_now() - s->launch_ms));

        if (row)
            dlr_sup_memory_tell(s, row);
        dlr_journal_event(dlr_sup_journal(s->io), "saving", row);
        s->saving_told = true;
        dlr_sup_keep(s);
    }
    dlr_sup_decide(s, "save_at", v);
}

static void on_commit(void *arg, struct dlr_version v, int64_t took_ms)
{
    struct dlr_sup *s = arg;

    s->commits++;
    s->commit_ms = dlr_sup_now();
    dlr_policy_committed(s->policy, v.step);
    dlr_sup_vetted_commit(s, v);
    dlr_sup_decide(s, "commit", v);
    dlr_sup_covered(s);
    dlr_sup_cadence_commit(s, v, took_ms);
    dlr_sup_periodic_commit(s, v);
}

static void on_abort(void *arg, struct dlr_version v, const char *why)
{
    struct dlr_sup *s = arg;
    bool begun = !dlr_after(why, DLR_COMMIT_WITHDRAWN);

    if (begun)
        s->aborted[s->aborts++ % DLR_SUP_ABORTED] = v;
    /* Those that are late, or too soon, come often and mean little. */
    if (begun && !dlr_after(why, DLR_COMMIT_LATE) && !dlr_after(why, DLR_COMMIT_BUSY))
        dlr_journal_note(dlr_sup_journal(s->io), "save_failed", "s:o,s:s", "version",
                         dlr_sup_version(&v), "why", why);
    dlr_sup_decide(s, "abort", v);
}

const struct dlr_commit_ops dlr_sup_commit_ops = {
    .save_at = on_save_at, .commit = on_commit, .abort = on_abort};
