/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a node's tasks alone, for its tests: they play the slurmstepd, and
 * nobody keeps snapshots.
 */
#ifndef DLR_TESTS_SUPPORT_AGENT_TASKS_RIG_H
#define DLR_TESTS_SUPPORT_AGENT_TASKS_RIG_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/fetch.h"
#include "mpi_launcher/agent/snapshots/ranks.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"
#include "tests/support/agent_loop.h"

static struct rig {
    struct dlr_agent_base *base;
    struct dlr_agent_tasks *tasks;
    struct dlr_agent_self self;
    struct dlr_agent_round round;
    char dir[64], socket[96];
    int fd; /* of the slurmstepd, or of a worker */
    pid_t task;
    bool serves;   /* the snapshots know the worker */
    int32_t saves; /* the rank with a checkpoint, which says: */
    uint64_t step;
    bool restoring;
    char said[1024];
    const char *awaited; /* the message after which the loop ends */
} rig;

/* --- instead of the supervisor, and of the snapshots ------------------------------ */

void __wrap_dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg);
void __wrap_dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg)
{
    const char *type = json_is_false(json_object_get(msg, "here"))
                           ? "left" /* of stepd */
                           : json_string_value(json_object_get(msg, "t"));
    const json_t *status = json_object_get(msg, "status"),
                 *killed = json_object_get(msg, "killed"),
                 *processes = json_object_get(msg, "processes"),
                 *waiting = json_object_get(msg, "waiting"),
                 *lines = json_object_get(msg, "text");
    size_t at = strlen(rig.said);
    char *text = waiting ? json_dumps(waiting, JSON_COMPACT)
                 : lines ? strdup(json_string_value(lines))
                         : NULL;

    at += (size_t)snprintf(rig.said + at, sizeof(rig.said) - at, "%s", type);
    status = status ? status : killed ? killed : processes;
    if (status)
        at += (size_t)snprintf(rig.said + at, sizeof(rig.said) - at, " %d",
                               (int)json_integer_value(status));
    snprintf(rig.said + at, sizeof(rig.said) - at, "%s%s;", text ? " " : "",
             text ? text : "");
    if (dlr_streq(type, rig.awaited))
        dlr_agent_end(rig.base);
    free(text);
    json_decref(msg);
}

bool dlr_agent_ranks_expects(struct dlr_agent_snapshots *s, int32_t rank)
{
    return rank == 4 && !rig.serves;
}

int dlr_agent_ranks_left(struct dlr_agent_snapshots *s, int32_t rank)
{
    return 0;
}

void dlr_agent_ranks_hello(struct dlr_agent_snapshots *s, struct dlr_agent_conn *c)
{
    rig.serves = true;
    dlr_agent_end(rig.base);
}

bool dlr_agent_ranks_told(struct dlr_agent_snapshots *s, int32_t rank,
                          uint64_t *ret_step, uint64_t *ret_ns, bool *ret_restoring)
{
    *ret_step = rig.step;
    *ret_ns = 2000;
    *ret_restoring = rig.restoring;
    return rank == rig.saves;
}

bool dlr_agent_ranks_serves(const struct dlr_agent_snapshots *s,
                            const struct dlr_agent_conn *c)
{
    return rig.serves && c->rank == 4;
}

void dlr_agent_ranks_leave(struct dlr_agent_snapshots *s,
                           const struct dlr_agent_conn *c)
{
}

void dlr_agent_ranks_gone(struct dlr_agent_snapshots *s, const struct dlr_agent_conn *c)
{
    rig.serves = false;
}

void dlr_agent_fetch_gone(struct dlr_agent_snapshots *s, const struct dlr_agent_conn *c)
{
}

/* ---------------------------------------------------------------------------------- */

static inline int setup(void **state)
{
    rig = (struct rig){.fd = -1,
                       .saves = -1,
                       .dir = "/dev/shm/dlr-test-tasks.XXXXXX",
                       .round = {.known = true, .round = 2}};
    if (!mkdtemp(rig.dir))
        return -1;
    dlr_format(rig.self.conf.memory, DLR_OPT_TEXT, "%s", rig.dir);
    /* of this program alone: the sweep finds processes by it */
    dlr_format(rig.self.run.job, sizeof(rig.self.run.job), "no job %d", (int)getpid());
    dlr_format(rig.socket, sizeof(rig.socket), "%s/agent.sock", rig.dir);
    rig.base = dlr_agent_base_new(NULL, NULL);
    rig.tasks = dlr_agent_tasks_new(rig.base, &rig.self, &rig.round, NULL);
    return rig.base && rig.tasks && dlr_agent_tasks_start(rig.tasks, NULL) == 0 ? 0
                                                                                : -1;
}

static inline int teardown(void **state)
{
    if (rig.task > 0) {
        kill(rig.task, SIGKILL);
        waitpid(rig.task, NULL, 0);
    }
    if (rig.fd >= 0)
        close(rig.fd);
    dlr_agent_tasks_stop(rig.tasks);
    rig.tasks = dlr_agent_tasks_free(rig.tasks);
    rig.base = dlr_agent_base_free(rig.base);
    unlink(rig.socket);
    return rmdir(rig.dir);
}

/* One loop a test: an engine's end is its last event. */
static inline void run_until(const char *message)
{
    rig.awaited = message;
    if (!agent_loop_ends(rig.base))
        fail_msg("not said: %s; but %s", message, rig.said);
}

#endif
