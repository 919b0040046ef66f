/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_agent_send_supervisor,dlr_agent_peers_send,dlr_agent_peers_send_all,dlr_agent_done stand-ins */
/* What an agent does without a supervisor, alone: no lease, no tasks, no snapshots,
 * peers that are packets.
 */
#include <czmq.h>
#include <errno.h>
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

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/save.h"
#include "mpi_launcher/agent/succession/succession.h"
#include "mpi_launcher/agent/tasks/tasks.h"
#include "mpi_launcher/process/process_id.h"
#include "tests/support/agent_loop.h"

static struct rig {
    struct dlr_agent_base *base;
    struct dlr_agent_succession *su;
    struct dlr_agent_self self;
    struct dlr_agent_round round;
    int64_t silent; /* for so many milliseconds no lease has come */
    int64_t held_ns;
    unsigned reports, kills;
    char heard[1024]; /* what others were told, and who: "node:type;" */
} rig;

/* --- instead of the others -------------------------------------------------------- */

static void note(const char *to, json_t *msg)
{
    size_t at = strlen(rig.heard);

    snprintf(rig.heard + at, sizeof(rig.heard) - at, "%s:%s;", to,
             json_string_value(json_object_get(msg, "t")));
    json_decref(msg);
}

void __wrap_dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg);
void __wrap_dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg)
{
    note("supervisor", msg);
}

void __wrap_dlr_agent_peers_send(struct dlr_agent_base *base, const char *node,
                                 json_t *msg);
void __wrap_dlr_agent_peers_send(struct dlr_agent_base *base, const char *node,
                                 json_t *msg)
{
    note(node, msg);
}

void __wrap_dlr_agent_peers_send_all(struct dlr_agent_base *base, const char *but,
                                     json_t *msg);
void __wrap_dlr_agent_peers_send_all(struct dlr_agent_base *base, const char *but,
                                     json_t *msg)
{
    assert_string_equal(but, "n2");
    note("all", msg);
}

void __wrap_dlr_agent_done(struct dlr_agent_base *base,
                           const struct dlr_agent_origin *to, int rc, const char *why);
void __wrap_dlr_agent_done(struct dlr_agent_base *base,
                           const struct dlr_agent_origin *to, int rc, const char *why)
{
    assert_int_equal(to->id, 7);
    note("asker", dlr_msg_new(rc == -EBUSY ? "busy" : "done"));
}

unsigned dlr_agent_tasks_left(const struct dlr_agent_tasks *tasks)
{
    return 0;
}

void dlr_agent_tasks_kill_with_srun(struct dlr_agent_tasks *tasks)
{
    rig.kills++;
}

bool dlr_agent_save_has_commit(const struct dlr_agent_snapshots *s)
{
    return false;
}

/* --- what it asks ----------------------------------------------------------------- */

static int64_t dead_ms(void *arg)
{
    assert_ptr_equal(arg, &rig);
    return 100;
}

static int64_t silent_ms(void *arg)
{
    return rig.silent;
}

static bool suspended(void *arg)
{
    return false;
}

static void hold(void *arg, int64_t until_ns)
{
    rig.held_ns = until_ns;
}

static void report(void *arg, const struct dlr_agent_origin *from)
{
    rig.reports++;
}

static const struct dlr_agent_succession_ops ops = {
    .dead_ms = dead_ms,
    .unheard_ms = silent_ms,
    .silent_ms = silent_ms,
    .suspended = suspended,
    .hold = hold,
    .report = report,
};

/* ---------------------------------------------------------------------------------- */

/* This node is n2; the supervisor is on n1. */
static int setup(void **state)
{
    DLR_AUTO_JSON json_t *peers =
        json_loads("{\"whole\":true,\"batch\":\"n1\",\"peers\":[[\"n1\",\"a1\",\"k1\"],"
                   "[\"n2\",\"a2\",\"k2\"],[\"n3\",\"a3\",\"k3\"]]}",
                   0, NULL);

    rig = (struct rig){0};
    dlr_job_config_init(&rig.self.job);
    dlr_format(rig.self.node, sizeof(rig.self.node), "n2");
    rig.self.run.gen = 1;
    rig.base = dlr_agent_base_new(NULL, NULL);
    rig.su = dlr_agent_succession_new(rig.base, &rig.self, &rig.round, NULL, NULL, &ops,
                                      &rig);
    return rig.base && rig.su && dlr_agent_succession_peers(rig.su, peers) == 0 ? 0
                                                                                : -1;
}

static int teardown(void **state)
{
    dlr_agent_end(rig.base);
    dlr_agent_succession_stop(rig.su);
    rig.su = dlr_agent_succession_free(rig.su);
    rig.base = dlr_agent_base_free(rig.base);
    return 0;
}

static void run(void)
{
    assert_true(agent_loop_ends(rig.base));
}

static void hear(const char *key, const char *text)
{
    struct dlr_packet p = {.data = text, .size = strlen(text)};

    dlr_format(p.key, sizeof(p.key), "%s", key);
    dlr_agent_on_peer(rig.su, &p);
}

/* Nobody writes where nothing is committed; the tasks may take their time. */
static void after_sigterm_the_lease_is_held_and_the_supervisor_told(void **state)
{
    assert_false(dlr_agent_in_grace(rig.su));
    dlr_agent_grace(rig.su);
    assert_true(dlr_agent_in_grace(rig.su));
    assert_true(rig.held_ns > dlr_now_ns());
    assert_string_equal(rig.heard, "supervisor:term;");
    assert_false(dlr_agent_leaves(rig.base));
}

static void the_sigterm_of_a_requeue_is_the_end(void **state)
{
    dlr_agent_succession_given(rig.su, true);
    dlr_agent_grace(rig.su);
    assert_false(dlr_agent_in_grace(rig.su));
    assert_true(dlr_agent_leaves(rig.base));
    assert_string_equal(rig.heard, "");
}

static void a_peer_is_obeyed_only_while_the_supervisor_is_missed(void **state)
{
    hear("nobody", "{\"v\":2,\"t\":\"report\",\"gen\":1,\"id\":7}");
    hear("k3", "{\"v\":2,\"t\":\"report\",\"gen\":2,\"id\":7}");
    assert_string_equal(rig.heard, "");
    hear("k3", "{\"v\":2,\"t\":\"report\",\"gen\":1,\"id\":7}");
    assert_string_equal(rig.heard, "asker:busy;"); /* the supervisor answers here */
    assert_int_equal(rig.reports, 0);
    dlr_agent_grace(rig.su);
    hear("k3", "{\"v\":2,\"t\":\"report\",\"gen\":1,\"id\":7}");
    assert_int_equal(rig.reports, 1);
}

static void only_the_supervisors_host_may_end_the_run(void **state)
{
    hear("k3", "{\"v\":2,\"t\":\"over\",\"gen\":1}");
    assert_false(dlr_agent_ends(rig.base));
    hear("k1", "{\"v\":2,\"t\":\"over\",\"gen\":1}");
    assert_true(dlr_agent_ends(rig.base));
}

/* The child that writes the journal's last line is this program, which does nothing. */
static void the_keepers_end_with_a_silent_supervisor_ends_the_run(void **state)
{
    struct dlr_procid id;
    pid_t pid = fork();
    char text[DLR_PROCID_TEXT];

    if (pid == 0)
        for (;;)
            pause();
    assert_int_equal(dlr_procid_of(pid, &id), 0);
    dlr_procid_show(&id, text);
    dlr_agent_keeper_watch(rig.su, text);
    rig.silent = 1000;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    run();
    assert_int_equal(rig.kills, 1);
    assert_string_equal(rig.heard, "all:over;");
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(after_sigterm_the_lease_is_held_and_the_supervisor_told),
        T(the_sigterm_of_a_requeue_is_the_end),
        T(a_peer_is_obeyed_only_while_the_supervisor_is_missed),
        T(only_the_supervisors_host_may_end_the_run),
        T(the_keepers_end_with_a_silent_supervisor_ends_the_run),
    };

    if (argc > 1 && dlr_streq(argv[1], "--succeed"))
        return 0;
    dlr_endpoint_prepare();
    zsys_handler_set(NULL);
    return cmocka_run_group_tests_name("agent_succession", tests, NULL, NULL);
}
