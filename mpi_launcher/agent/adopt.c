/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/adopt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/kept.h"

/* --- what the next one must know -------------------------------------------------- */

static const char *find_obstacle(const struct dlr_agent *a)
{
    if (dlr_agent_leaves(a->base) || dlr_agent_ends(a->base) ||
        dlr_agent_in_grace(a->succession) || dlr_agent_succeed_holds(a->succession))
        return "the run was ending";
    if (dlr_agent_has_followed(a->succession))
        return "another supervisor had taken over";
    return dlr_agent_is_suspended(a->suspend) ? "the job was suspended" : NULL;
}

static json_t *make_note(const struct dlr_agent *a)
{
    const char *why = find_obstacle(a);
    json_t *tasks = why ? NULL : dlr_agent_tasks_note(a->tasks, &why);
    json_t *snapshots = tasks ? dlr_agent_snapshots_note(a->snapshots, &why) : NULL;

    if (snapshots)
        return json_pack("{s:o, s:o}", "tasks", tasks, "snapshots", snapshots);
    json_decref(tasks);
    return json_pack("{s:s}", "why", why);
}

void dlr_agent_note(void *arg)
{
    struct dlr_agent *a = arg;
    DLR_AUTO_JSON json_t *note = a->round.known ? make_note(a) : NULL;
    DLR_AUTO_FREE char *text = note ? json_dumps(note, JSON_COMPACT) : NULL;

    dlr_kept_put_note(a->kept, text);
}

/* --- in the next one -------------------------------------------------------------- */

static int adopt_round(struct dlr_agent *a, const char *text)
{
    const struct dlr_agent_round none = {0};
    DLR_AUTO_JSON json_t *msg = json_loads(text, 0, NULL);

    return dlr_agent_round_parse(&none, a->self.node, msg, &a->round);
}

static int adopt_notes(struct dlr_agent *a, const struct dlr_kept_note *former,
                       struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *note = json_loads(former->note, 0, NULL);
    const char *why;
    int rc;

    if (former->lease_ns == DLR_AGENT_LEASE_HELD)
        return dlr_fail(err, -EBUSY, "its lease was held");
    if (dlr_msg_str(note, "why", &why) == 0)
        return dlr_fail(err, -EBUSY, "%s", why);
    rc = adopt_round(a, former->round);
    if (rc == 0)
        rc =
            dlr_agent_snapshots_adopt(a->snapshots, json_object_get(note, "snapshots"));
    return rc < 0 ? rc
                  : dlr_agent_tasks_adopt(a->tasks, json_object_get(note, "tasks"));
}

/* What was begun cannot be taken back; the next agent finds us in the middle of it. */
static void give_up(const struct dlr_agent *a, int rc)
{
    dlr_error("%s: what the former agent has noted cannot be used: %s", a->self.node,
              strerror(-rc));
    raise(SIGKILL);
}

static int adopt(struct dlr_agent *a, struct dlr_err *err)
{
    struct dlr_kept_note former = {0};
    int rc = dlr_kept_former(a->kept, &former, err);

    if (rc < 0)
        return rc;
    rc = adopt_notes(a, &former, err);
    if (rc == 0) {
        a->former_lease_ns = former.lease_ns;
        a->former_died_ns = former.died_ns;
    }
    dlr_kept_note_done(&former);
    return rc;
}

bool dlr_agent_adopt(struct dlr_agent *a)
{
    struct dlr_err err = {0};
    int rc = adopt(a, &err);

    if (rc == -EIO || rc == -EBUSY)
        dlr_warn("%s: the round's tasks are started again, since the agent's place "
                 "cannot be taken: %s",
                 a->self.node, err.text);
    else if (rc < 0 && rc != -ENOENT && rc != -ENODATA)
        give_up(a, rc);
    if (rc < 0)
        dlr_kept_forget(a->kept);
    dlr_kept_settle(a->kept);
    return rc == 0;
}

void dlr_agent_adopt_lease(struct dlr_agent *a)
{
    if (a->former_died_ns && a->former_lease_ns)
        dlr_agent_lease_adopt(a->lease, a->former_lease_ns);
}
