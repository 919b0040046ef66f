/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"
#include "mpi_launcher/wire/heartbeat.h"

#define MS 1000000ll        /* nanoseconds */
#define LAG_MS 100          /* of our own reactor */
#define LEASE_MAX_MS 600000 /* a longer one is a malformed one */
#define WORKER_EXTRA_MS 20  /* we kill first, where we still can, and say why */
#define HELD INT64_MAX      /* of lease_until_ns: until further word */

/* The supervisor does not know that it was not heard here: it must not take this for a fault of
 * the program.
 */
static void say_lapsed(struct dlr_agent *a, int64_t silent_ms, unsigned killed)
{
    dlr_agent_say(a->base,
                  json_pack("{s:i, s:s, s:I, s:I, s:i}", "v", DLR_MSG_VERSION, "t",
                            "lapsed", "round", (json_int_t)a->round.round, "silent_ms",
                            (json_int_t)silent_ms, "killed", (int)killed));
}

/* The supervisor may have declared this node dead: nothing of the round may go on here. */
static int lease_over(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent *a = arg;
    unsigned left = dlr_agent_tasks_left(a->tasks);
    uint64_t times;

    (void)!read(a->lease_fd, &times, sizeof(times));
    if (dlr_now_ns() < a->lease_until_ns)
        return 0;
    if (left > 0) {
        int64_t silent_ms = (dlr_now_ns() - a->leased_ns) / MS;

        dlr_warn("%s: no word from the supervisor for %lld ms: killing %u workers",
                 a->self.node, (long long)silent_ms, left);
        say_lapsed(a, silent_ms, left);
    }
    dlr_agent_tasks_kill_with_srun(a->tasks);
    return 0;
}

void dlr_agent_lease_show(void *arg, struct dlr_page *page)
{
    const struct dlr_agent *a = arg;
    int64_t until_ns = a->lease_until_ns;

    if (!a->self.job.lease_timer || !until_ns)
        return;
    atomic_store(&page->lease_ns, until_ns == HELD
                                      ? DLR_PAGE_HELD
                                      : (uint64_t)(until_ns + WORKER_EXTRA_MS * MS));
    atomic_fetch_add(&page->lease_seq, 1);
    syscall(SYS_futex, &page->lease_seq, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void set_lease(struct dlr_agent *a, int64_t until_ns)
{
    struct itimerspec when = {0}; /* all zero: never */

    a->lease_until_ns = until_ns;
    if (until_ns != HELD)
        when.it_value = (struct timespec){until_ns / 1000000000, until_ns % 1000000000};
    timerfd_settime(a->lease_fd, TFD_TIMER_ABSTIME, &when, NULL);
    dlr_agent_ranks_pages(a->snapshots, dlr_agent_lease_show, a);
}

void dlr_agent_lease_extend(struct dlr_agent *a, int64_t until_ns)
{
    if (a->lease_until_ns != HELD && until_ns > a->lease_until_ns)
        set_lease(a, until_ns);
}

void dlr_agent_lease_unhold(struct dlr_agent *a, int64_t grace_ms)
{
    a->awake_ns = dlr_now_ns();
    if (a->lease_until_ns != HELD)
        return; /* the supervisor did not agree: this was a freeze */
    a->heard_ns = a->answered_ns = a->leased_ns = a->awake_ns;
    set_lease(a, a->awake_ns + grace_ms * MS);
}

void dlr_agent_lease_take(struct dlr_agent *a, const void *data, size_t size)
{
    int64_t now = dlr_now_ns(), until;
    struct dlr_beat lease;

    if (dlr_beat_unpack(data, size, &lease) < 0 || lease.kind != DLR_LEASE ||
        lease.gen != a->self.run.gen || lease.sent_ns > (uint64_t)now ||
        (lease.lease_ms > LEASE_MAX_MS && lease.lease_ms != DLR_LEASE_HELD))
        return;
    a->answered_seq = lease.seq;
    if (lease.lease_ms == DLR_LEASE_HELD && (int64_t)lease.sent_ns < a->awake_ns)
        return;
    a->answered_ns = a->heard_ns = now;
    a->leased_ns =
        (int64_t)lease.sent_ns; /* one that was read late, after a freeze, is old */
    until = lease.lease_ms == DLR_LEASE_HELD
                ? HELD
                : (int64_t)lease.sent_ns + lease.lease_ms * MS;
    if (until > a->lease_until_ns || a->lease_until_ns == HELD)
        set_lease(a, until);
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

static void send_beat(struct dlr_agent *a, struct dlr_beat *b)
{
    unsigned char buf[DLR_BEAT_BYTES];

    b->seq = ++a->seq;
    a->held_beats = 0;
    dlr_agent_ranks_steps(a->snapshots, &b->step_min, &b->step_max);
    dlr_beat_pack(b, buf);
    dlr_agent_say_bytes(a->base, buf, sizeof(buf));
}

static void beat(struct dlr_agent *a, bool always)
{
    uint32_t missed = (uint32_t)(a->dead_ms / a->every_ms);
    struct dlr_beat b = {.kind = DLR_BEAT,
                         .gen = a->self.run.gen,
                         .sent_ns = (uint64_t)dlr_now_ns(),
                         .round = a->round.known ? a->round.round : 0};

    forgive_own_lag(a, (int64_t)b.sent_ns);
    if (always || dlr_beat_goes(a->seq - a->answered_seq, a->held_beats, missed))
        send_beat(a, &b);
    else
        a->held_beats++;
    dlr_agent_strangers(a->base);
    dlr_agent_pace_look(a->snapshots);
    if (a->answered_ns && (int64_t)b.sent_ns - a->answered_ns > a->dead_ms * MS &&
        !dlr_agent_in_grace(a))
        dlr_agent_watchdog_silence(a);
}

void dlr_agent_lease_beat(struct dlr_agent *a)
{
    beat(a, true);
}

static int beat_due(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent *a = arg;

    dlr_agent_server_tend(a->base, dlr_now_ms());
    beat(a, false);
    return 0;
}

void dlr_agent_lease_pace(struct dlr_agent *a)
{
    dlr_agent_timer_every(a->base, &a->beat_timer, a->every_ms, beat_due, a);
}

int dlr_agent_lease_start(struct dlr_agent *a, struct dlr_err *err)
{
    a->lease_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (a->lease_fd < 0)
        return dlr_fail(err, -errno, "timerfd_create: %s", strerror(errno));
    dlr_agent_watch(a->base, a->lease_fd, lease_over, a);
    dlr_agent_lease_pace(a);
    return 0;
}

void dlr_agent_lease_stop(struct dlr_agent *a)
{
    dlr_agent_timer_end(a->base, &a->beat_timer);
    if (a->lease_fd < 0)
        return;
    dlr_agent_unwatch(a->base, a->lease_fd);
    close(a->lease_fd);
    a->lease_fd = -1;
}
