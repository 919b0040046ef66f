/* SPDX-License-Identifier: Apache-2.0 */
/* The data process's engine alone; this program once more plays the process. */
#include <czmq.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "common/local/split.h"
#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/data/data_process.h"
#include "tests/support/agent_loop.h"

#define AGENT_FD 3

static struct rig {
    struct dlr_agent_base *base;
    struct dlr_agent_data *data;
    struct dlr_agent_self self;
    struct dlr_agent_round round;
    unsigned ready; /* hellos that the loop is to wait for */
    char heard[512];
} rig;

/* --- the process ------------------------------------------------------------------ */

static void reply(enum dlr_local_type type, const struct dlr_local_msg *to,
                  const char *text)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, type);
    m.rank = to->rank;
    m.arg[1] = to->arg[1];
    m.arg[2] = type == DLR_LOCAL_D_RESERVED ? to->arg[2] : 0;
    dlr_local_text(&m, "%s", text);
    dlr_local_send(AGENT_FD, &m, NULL, 0);
}

/* What it was told comes back as the devices that it uses. */
static void on_config(const struct dlr_local_msg *m)
{
    static struct dlr_split parts;
    DLR_AUTO_JSON json_t *conf =
        dlr_split_take(&parts, m) > 0 ? json_loads(parts.text, 0, NULL) : NULL;
    DLR_AUTO_JSON json_t *row =
        conf ? json_pack("{s:o*, s:o*}", "own",
                         json_incref(json_object_get(conf, "own")), "fetch",
                         json_incref(json_object_get(conf, "fetch")))
             : NULL;
    DLR_AUTO_FREE char *text = row ? json_dumps(row, JSON_COMPACT) : NULL;
    DLR_AUTO_JSON json_t *uses = text ? json_pack("{s:s}", "uses", text) : NULL;
    DLR_AUTO_FREE char *whole = uses ? json_dumps(uses, JSON_COMPACT) : NULL;

    if (whole)
        reply(DLR_LOCAL_D_USES, m, whole);
}

/* A file that it is to load is its end. */
static int play(void)
{
    struct dlr_local_msg m = {.rank = -1};
    int fds[DLR_LOCAL_FDS];
    unsigned nfds;

    reply(DLR_LOCAL_D_HELLO, &m, "an address");
    while (dlr_local_recv(AGENT_FD, &m, fds, &nfds) > 0) {
        if (m.type == DLR_LOCAL_D_LOAD)
            _exit(3);
        if (m.type == DLR_LOCAL_D_CONFIG)
            on_config(&m);
        else if (m.type == DLR_LOCAL_D_RESERVE)
            reply(DLR_LOCAL_D_RESERVED, &m, "");
        else if (m.type == DLR_LOCAL_D_SEND)
            reply(DLR_LOCAL_D_DONE, &m, "");
    }
    return 0;
}

/* --- what the engine says --------------------------------------------------------- */

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *fmt, ...)
{
    size_t at = strlen(rig.heard);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(rig.heard + at, sizeof(rig.heard) - at, fmt, ap);
    va_end(ap);
}

static void on_ready(void *arg)
{
    assert_ptr_equal(arg, &rig);
    note("ready %s;", dlr_agent_data_address(rig.data));
    if (--rig.ready == 0)
        dlr_agent_end(rig.base);
}

static void on_gone(void *arg, const char *why)
{
    assert_false(dlr_agent_data_runs(rig.data));
    note("gone;");
}

static void on_refused(void *arg, const char *why)
{
    fail_msg("%s", why);
}

static void on_changed(void *arg)
{
    note("changed%s;", dlr_agent_data_address(rig.data));
}

static void on_reserved(void *arg, int32_t rank, uint64_t slot, int rc, const char *why)
{
    note("reserved %d %d;", (int)rank, (int)slot);
    dlr_agent_end(rig.base);
}

static void on_copied(void *arg, int32_t rank)
{
    fail_msg("nothing was copied");
}

static void on_bad(void *arg, const struct dlr_local_msg *msg)
{
    fail_msg("no copy is bad");
}

static void on_uses(void *arg, json_t *msg)
{
    note("%s;", json_string_value(json_object_get(msg, "uses")));
    dlr_agent_end(rig.base);
}

static json_t *own(void *arg)
{
    return json_pack("[i, i]", 4, 5);
}

static json_t *fetch(void *arg)
{
    return json_pack("[i]", 9);
}

static const struct dlr_agent_data_ops ops = {
    .ready = on_ready,
    .gone = on_gone,
    .refused = on_refused,
    .changed = on_changed,
    .reserved = on_reserved,
    .copied = on_copied,
    .bad = on_bad,
    .uses = on_uses,
    .own = own,
    .fetch = fetch,
};

static void on_done(void *arg, int rc, const char *why)
{
    /* How it ended is not always known when its connection has. */
    note("done %d %s;", rc, dlr_after(why, "the data process ") ? "died" : why);
    if (arg)
        dlr_agent_end(rig.base);
}

/* ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
    rig = (struct rig){.ready = 1};
    dlr_job_config_init(&rig.self.job);
    dlr_format(rig.self.conf.data_program, DLR_OPT_TEXT, "/proc/self/exe");
    rig.base = dlr_agent_base_new(NULL, NULL);
    rig.data = dlr_agent_data_new(rig.base, &rig.self, &rig.round, &ops, &rig);
    return rig.base && rig.data ? 0 : -1;
}

static int teardown(void **state)
{
    dlr_agent_data_stop(rig.data);
    rig.data = dlr_agent_data_free(rig.data);
    rig.base = dlr_agent_base_free(rig.base);
    return 0;
}

static void run(void)
{
    assert_true(agent_loop_ends(rig.base));
}

static void request(enum dlr_local_type type, void *arg)
{
    const struct dlr_agent_request q = {
        .type = type, .text = "there", .done = on_done, .arg = arg};

    dlr_agent_data_request(rig.data, &q);
}

static void start(void)
{
    struct dlr_err err;

    assert_int_equal(dlr_agent_data_start(rig.data, &err), 0);
    assert_true(dlr_agent_data_runs(rig.data));
    assert_string_equal(dlr_agent_data_address(rig.data), "");
}

static void a_request_is_told_its_end(void **state)
{
    start();
    request(DLR_LOCAL_D_SEND, &rig);
    rig.ready = 2;
    run();
    assert_string_equal(rig.heard, "ready an address;done 0 ;");
}

static void without_a_process_it_is_told_at_once(void **state)
{
    rig.self.job.checkpoint = false;
    assert_int_equal(dlr_agent_data_start(rig.data, NULL), 0);
    assert_false(dlr_agent_data_runs(rig.data));
    assert_false(dlr_agent_data_comes(rig.data));
    request(DLR_LOCAL_D_SEND, NULL);
    assert_string_equal(rig.heard, "done -107 no data process on this node;");
}

static void one_that_dies_is_started_again_after_its_requests_have_failed(void **state)
{
    start();
    rig.ready = 2;
    request(DLR_LOCAL_D_LOAD, NULL);
    run();
    assert_string_equal(rig.heard, "ready an address;done -5 died;gone;"
                                   "changed;ready an address;");
}

static void what_is_told_of_a_round_is_asked_of_those_above(void **state)
{
    start();
    rig.ready = 2;
    dlr_agent_data_round(rig.data, true);
    run();
    assert_string_equal(rig.heard, "ready an address;{\"own\":[4,5],\"fetch\":[9]};");
}

static void slots_that_were_reserved_are_named(void **state)
{
    struct dlr_local_msg m;

    start();
    rig.ready = 2;
    dlr_local_init(&m, DLR_LOCAL_D_RESERVE);
    m.rank = 7;
    m.arg[2] = 3;
    dlr_agent_data_send(rig.data, &m);
    run();
    assert_string_equal(rig.heard, "ready an address;reserved 7 3;");
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_request_is_told_its_end),
        T(without_a_process_it_is_told_at_once),
        T(one_that_dies_is_started_again_after_its_requests_have_failed),
        T(what_is_told_of_a_round_is_asked_of_those_above),
        T(slots_that_were_reserved_are_named),
    };

    if (argc > 1 && dlr_after(argv[1], "--threads="))
        return play();
    dlr_endpoint_prepare();
    zsys_handler_set(NULL);
    return cmocka_run_group_tests_name("agent_data", tests, NULL, NULL);
}
