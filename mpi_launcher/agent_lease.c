/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "mpi_launcher/agent.h"
#include "mpi_launcher/beat.h"

#define MS 1000000ll        /* nanoseconds */
#define LAG_MS 100          /* of our own reactor */
#define LEASE_MAX_MS 600000 /* a longer one is a malformed one */

/* The supervisor may have declared this node dead: nothing of the round may go on here. */
static int lease_over(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent *a = arg;
    uint64_t times;

    (void)!read(a->lease_fd, &times, sizeof(times));
    if (dlr_now_ns() < a->lease_until_ns)
        return 0;
    if (dlr_agent_tasks_left(a) > 0)
        dlr_warn("%s: no word from the supervisor for %lld ms: killing %u workers",
                 a->node, (long long)((dlr_now_ns() - a->answered_ns) / MS),
                 dlr_agent_tasks_left(a));
    dlr_agent_tasks_kill_all(a);
    return 0;
}

static void extend(struct dlr_agent *a, int64_t until_ns)
{
    struct itimerspec when = {
        .it_value = {until_ns / 1000000000, until_ns % 1000000000}};

    if (until_ns <= a->lease_until_ns)
        return;
    a->lease_until_ns = until_ns;
    timerfd_settime(a->lease_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void dlr_agent_lease_take(struct dlr_agent *a, const void *data, size_t size)
{
    int64_t now = dlr_now_ns();
    struct dlr_beat lease;

    if (dlr_beat_unpack(data, size, &lease) < 0 || lease.kind != DLR_LEASE ||
        lease.gen != a->run.gen || lease.lease_ms > LEASE_MAX_MS ||
        lease.sent_ns > (uint64_t)now) {
        a->dropped++;
        return;
    }
    a->answered_ns = now;
    extend(a, (int64_t)lease.sent_ns + lease.lease_ms * MS);
    dlr_agent_watchdog_answered(a);
}

/* An agent that was stopped itself (a suspended job, a busy node) has heard nothing either: that
 * time is no silence of the supervisor's. The workers' lease knows no such mercy.
 */
static void forgive_own_lag(struct dlr_agent *a, int64_t now_ns)
{
    int64_t late_ns = now_ns - a->beat_ns - a->every_ms * MS;

    if (a->beat_ns && a->answered_ns && late_ns > LAG_MS * MS)
        a->answered_ns += late_ns;
    a->beat_ns = now_ns;
}

static int beat(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent *a = arg;
    unsigned char buf[DLR_BEAT_BYTES];
    struct dlr_beat b = {.kind = DLR_BEAT,
                         .gen = a->run.gen,
                         .seq = ++a->seq,
                         .sent_ns = (uint64_t)dlr_now_ns(),
                         .round = a->round.known ? a->round.round : 0};

    forgive_own_lag(a, (int64_t)b.sent_ns);
    dlr_agent_ranks_steps(a, &b.step_min, &b.step_max);
    dlr_beat_pack(&b, buf);
    dlr_client_send(a->control, buf, sizeof(buf));
    if (a->answered_ns && (int64_t)b.sent_ns - a->answered_ns > a->dead_ms * MS)
        dlr_agent_watchdog_silence(a);
    return 0;
}

void dlr_agent_lease_pace(struct dlr_agent *a)
{
    if (a->beat_timer >= 0)
        zloop_timer_end(a->loop, a->beat_timer);
    a->beat_timer = zloop_timer(a->loop, a->every_ms, 0, beat, a);
}

int dlr_agent_lease_start(struct dlr_agent *a, struct dlr_err *err)
{
    a->lease_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (a->lease_fd < 0)
        return dlr_fail(err, -errno, "timerfd_create: %s", strerror(errno));
    dlr_agent_watch(a, a->lease_fd, lease_over, a);
    dlr_agent_lease_pace(a);
    return 0;
}

void dlr_agent_lease_stop(struct dlr_agent *a)
{
    dlr_agent_timer_end(a, &a->beat_timer);
    if (a->lease_fd < 0)
        return;
    dlr_agent_unwatch(a, a->lease_fd);
    close(a->lease_fd);
    a->lease_fd = -1;
}
