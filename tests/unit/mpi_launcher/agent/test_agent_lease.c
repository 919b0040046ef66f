/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_agent_send_supervisor,dlr_agent_send_supervisor_bytes */
/* The engine of beats and leases alone, and what holds a lease while the job is
 * suspended.
 */
#include <czmq.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/lease.h"
#include "mpi_launcher/agent/suspend.h"
#include "mpi_launcher/wire/heartbeat.h"
#include "tests/support/agent_loop.h"

#define EVERY_MS 5
#define LEASE_MS 60

static struct rig {
    struct dlr_agent_base *base;
    struct dlr_agent_lease *lease;
    struct dlr_agent_suspend *suspend;
    struct dlr_agent_self self;
    struct dlr_agent_round round;
    struct dlr_page page;
    unsigned answers;  /* beats that the supervisor goes on answering */
    uint32_t lease_ms; /* of the leases that it gives */
    unsigned beats, answered;
    bool by_group; /* beats have another way */
    unsigned elsewhere;
    bool over;
    uint64_t shown_ns; /* what the page said when the lease changed last */
    char said[256];
} rig;

/* --- the supervisor --------------------------------------------------------------- */

void __wrap_dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg);
void __wrap_dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg)
{
    size_t at = strlen(rig.said);

    snprintf(rig.said + at, sizeof(rig.said) - at, "%s;",
             json_string_value(json_object_get(msg, "t")));
    json_decref(msg);
}

/* It answers at once. */
void __wrap_dlr_agent_send_supervisor_bytes(struct dlr_agent_base *base,
                                            const void *data, size_t size);
void __wrap_dlr_agent_send_supervisor_bytes(struct dlr_agent_base *base,
                                            const void *data, size_t size)
{
    unsigned char buf[DLR_HEARTBEAT_BYTES];
    struct dlr_heartbeat b;

    rig.beats++;
    assert_int_equal(dlr_heartbeat_unpack(data, size, &b), 0);
    assert_int_equal(b.round, 2);
    assert_int_equal(b.step_min, 10);
    assert_int_equal(b.step_max, 11);
    if (rig.answers == 0)
        return;
    rig.answers--;
    b.kind = DLR_LEASE;
    b.lease_ms = rig.lease_ms;
    dlr_heartbeat_pack(&b, buf);
    dlr_agent_lease_take(rig.lease, buf, sizeof(buf));
}

/* --- events ----------------------------------------------------------------------- */

static void on_answered(void *arg)
{
    assert_ptr_equal(arg, &rig);
    rig.answered++;
}

static void on_silent(void *arg)
{
    assert_true(dlr_agent_lease_silent_ms(rig.lease) >=
                dlr_agent_lease_dead_ms(rig.lease) / 2);
    if (rig.over)
        dlr_agent_end(rig.base);
}

static void on_over(void *arg)
{
    rig.over = true;
}

static void on_changed(void *arg)
{
    dlr_agent_lease_show(rig.lease, &rig.page);
    rig.shown_ns = rig.page.lease_ns;
}

static void on_beat(void *arg)
{
}

static bool goes_elsewhere(void *arg, const struct dlr_heartbeat *beat)
{
    if (rig.by_group && ++rig.elsewhere == 3)
        dlr_agent_end(rig.base);
    return rig.by_group;
}

static void get_steps(void *arg, uint64_t *ret_min, uint64_t *ret_max)
{
    *ret_min = 10;
    *ret_max = 11;
}

static unsigned count_tasks(void *arg)
{
    return 3;
}

static const struct dlr_agent_lease_ops ops = {
    .answered = on_answered,
    .silent = on_silent,
    .over = on_over,
    .changed = on_changed,
    .beat = on_beat,
    .elsewhere = goes_elsewhere,
    .steps = get_steps,
    .tasks = count_tasks,
};

/* ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
    rig = (struct rig){
        .round = {.known = true, .round = 2}, .lease_ms = LEASE_MS, .answers = 3};
    dlr_job_config_init(&rig.self.job);
    rig.self.job.lease_timer = true;
    rig.self.job.beat.every_ms = EVERY_MS;
    rig.base = dlr_agent_base_new(NULL, NULL);
    rig.lease = dlr_agent_lease_new(rig.base, &rig.self, &rig.round, &ops, &rig);
    rig.suspend = dlr_agent_suspend_new(rig.base, &rig.self, &rig.round, rig.lease);
    return rig.base && rig.lease && rig.suspend &&
                   dlr_agent_lease_start(rig.lease, NULL) == 0
               ? 0
               : -1;
}

static int teardown(void **state)
{
    dlr_agent_lease_stop(rig.lease);
    rig.suspend = dlr_agent_suspend_free(rig.suspend);
    rig.lease = dlr_agent_lease_free(rig.lease);
    rig.base = dlr_agent_base_free(rig.base);
    return 0;
}

static void run(void)
{
    assert_true(agent_loop_ends(rig.base));
}

static void what_is_not_answered_any_more_ends_the_lease_and_is_silence(void **state)
{
    dlr_agent_lease_welcome(rig.lease, 2 * LEASE_MS);
    assert_int_equal(dlr_agent_lease_dead_ms(rig.lease), 2 * LEASE_MS);
    run();
    assert_int_equal(rig.answered, 3);
    assert_true(rig.over);
    assert_true(rig.beats > 3);
    assert_non_null(
        strstr(rig.said, "lease_expired;")); /* twice on a machine that stood still */
    assert_true(rig.shown_ns > 0);
}

/* The worker's own timer is 20 ms later: an agent that is later still must not take what
 * it did for the program's failure.
 */
static void a_task_that_ends_after_the_lease_has_the_lease_told_first(void **state)
{
    dlr_agent_lease_look(rig.lease); /* none has come */
    dlr_agent_lease_beat(rig.lease);
    dlr_agent_lease_look(rig.lease);
    assert_false(rig.over);
    assert_string_equal(rig.said, "");
    while ((uint64_t)dlr_now_ns() < rig.shown_ns)
        ; /* the reactor does not run */
    dlr_agent_lease_look(rig.lease);
    assert_true(rig.over);
    assert_string_equal(rig.said, "lease_expired;");
}

static void a_lease_that_ends_later_is_not_shortened(void **state)
{
    int64_t far_ns = dlr_now_ns() + INT64_C(3600) * 1000000000;
    uint64_t shown_ns;

    dlr_agent_lease_beat(rig.lease);
    shown_ns = rig.shown_ns;
    dlr_agent_lease_extend(rig.lease, far_ns);
    assert_true(rig.shown_ns > shown_ns);
    shown_ns = rig.shown_ns;
    dlr_agent_lease_beat(rig.lease);
    assert_int_equal(rig.answered, 2);
    assert_true(rig.shown_ns == shown_ns);
}

static void a_suspended_job_holds_its_lease_until_it_is_awake(void **state)
{
    rig.lease_ms = DLR_LEASE_HELD;
    dlr_agent_suspend(rig.suspend);
    assert_true(dlr_agent_is_suspended(rig.suspend));
    assert_true(rig.shown_ns == DLR_PAGE_HELD);
    rig.answers = 0;
    dlr_agent_suspend_awake(rig.suspend);
    assert_false(dlr_agent_is_suspended(rig.suspend));
    assert_true(rig.shown_ns != DLR_PAGE_HELD);
    dlr_agent_suspend_awake(rig.suspend); /* nothing */
    assert_string_equal(rig.said, "suspend;awake;");
}

/* One that is asked for goes to the supervisor whatever the group does. */
static void a_beat_that_has_gone_elsewhere_does_not_go_twice(void **state)
{
    rig.by_group = true;
    rig.answers = 1;
    run();
    assert_int_equal(rig.beats, 0);
    dlr_agent_lease_beat(rig.lease);
    assert_int_equal(rig.beats, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(what_is_not_answered_any_more_ends_the_lease_and_is_silence),
        T(a_task_that_ends_after_the_lease_has_the_lease_told_first),
        T(a_lease_that_ends_later_is_not_shortened),
        T(a_suspended_job_holds_its_lease_until_it_is_awake),
        T(a_beat_that_has_gone_elsewhere_does_not_go_twice),
    };

    dlr_endpoint_prepare();
    zsys_handler_set(NULL);
    return cmocka_run_group_tests_name("agent_lease", tests, NULL, NULL);
}
