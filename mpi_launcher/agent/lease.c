/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/lease.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/auth_failures.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/wire/heartbeat.h"

#define MS 1000000ll        /* nanoseconds */
#define LAG_MS 100          /* of our own reactor */
#define LEASE_MAX_MS 600000 /* a longer one is a malformed one */
#define WORKER_EXTRA_MS 20  /* we kill first, where we still can, and say why */
#define HELD DLR_AGENT_LEASE_HELD

struct dlr_agent_lease {
    struct dlr_agent_base *base;
    const struct dlr_agent_self *self;
    const struct dlr_agent_round *round;
    const struct dlr_agent_lease_ops *ops;
    void *arg;
    unsigned every_ms;
    int64_t dead_ms;
    int fd, timer;              /* -1: off */
    uint32_t seq, answered_seq; /* of the last beat that went, of the newest lease */
    uint32_t held_beats;        /* that were due since and did not go */
    int64_t beat_ns;            /* when the last beat was due */
    int64_t answered_ns; /* when the last lease came, own lag added; 0: none yet */
    int64_t heard_ns;    /* the same, nothing added */
    int64_t leased_ns;   /* when the beat was sent that the newest lease answers */
    int64_t until_ns;
    int64_t awake_ns; /* a hold that was asked for before does not count any more */
    bool former;      /* it is a former agent's still: no word of ours has come */
};

/* The supervisor does not know that it was not heard here: it must not take this for a
 * fault of the program.
 */
static void say_lease_expired(struct dlr_agent_lease *l, int64_t silent_ms,
                              unsigned killed)
{
    dlr_agent_send_supervisor(
        l->base, json_pack("{s:i, s:s, s:I, s:I, s:i}", "v", DLR_MSG_VERSION, "t",
                           "lease_expired", "round", (json_int_t)l->round->round,
                           "silent_ms", (json_int_t)silent_ms, "killed", (int)killed));
}

/* The supervisor may have declared this node dead. */
static void run_out(struct dlr_agent_lease *l)
{
    unsigned left = l->ops->tasks(l->arg);

    if (left > 0) {
        int64_t silent_ms = (dlr_now_ns() - l->leased_ns) / MS;

        dlr_warn("%s: no word from the supervisor for %lld ms: killing %u workers",
                 l->self->node, (long long)silent_ms, left);
        say_lease_expired(l, silent_ms, left);
    }
    l->ops->over(l->arg);
}

static int lease_over(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent_lease *l = arg;
    uint64_t times;

    (void)!read(l->fd, &times, sizeof(times));
    if (dlr_now_ns() >= l->until_ns)
        run_out(l);
    return 0;
}

void dlr_agent_lease_look(struct dlr_agent_lease *l)
{
    if (l->until_ns && dlr_now_ns() >= l->until_ns)
        run_out(l);
}

void dlr_agent_lease_show(const struct dlr_agent_lease *l, struct dlr_page *page)
{
    int64_t until_ns = l->until_ns;

    if (!l->self->job.lease_timer || !until_ns)
        return;
    atomic_store(&page->lease_ns, until_ns == HELD
                                      ? DLR_PAGE_HELD
                                      : (uint64_t)(until_ns + WORKER_EXTRA_MS * MS));
    atomic_fetch_add(&page->lease_seq, 1);
    syscall(SYS_futex, &page->lease_seq, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void set_lease(struct dlr_agent_lease *l, int64_t until_ns)
{
    struct itimerspec when = {0}; /* all zero: never */

    l->until_ns = until_ns;
    dlr_kept_put_lease(dlr_agent_kept(l->base), until_ns);
    if (until_ns != HELD)
        when.it_value = (struct timespec){until_ns / 1000000000, until_ns % 1000000000};
    timerfd_settime(l->fd, TFD_TIMER_ABSTIME, &when, NULL);
    l->ops->changed(l->arg);
}

void dlr_agent_lease_adopt(struct dlr_agent_lease *l, int64_t until_ns)
{
    l->former = true;
    l->leased_ns = until_ns - l->dead_ms * MS;
    set_lease(l, until_ns);
}

void dlr_agent_lease_extend(struct dlr_agent_lease *l, int64_t until_ns)
{
    if (l->until_ns != HELD && until_ns > l->until_ns)
        set_lease(l, until_ns);
}

void dlr_agent_lease_unhold(struct dlr_agent_lease *l, int64_t grace_ms)
{
    l->awake_ns = dlr_now_ns();
    if (l->until_ns != HELD)
        return; /* the supervisor did not agree: this was a freeze */
    l->heard_ns = l->answered_ns = l->leased_ns = l->awake_ns;
    set_lease(l, l->awake_ns + grace_ms * MS);
}

void dlr_agent_lease_take(struct dlr_agent_lease *l, const void *data, size_t size)
{
    int64_t now = dlr_now_ns(), until;
    struct dlr_heartbeat lease;

    if (dlr_heartbeat_unpack(data, size, &lease) < 0 || lease.kind != DLR_LEASE ||
        lease.gen != l->self->run.gen || lease.sent_ns > (uint64_t)now ||
        (lease.lease_ms > LEASE_MAX_MS && lease.lease_ms != DLR_LEASE_HELD))
        return;
    if (l->former) /* the node may have been declared dead, and be back */
        dlr_agent_lease_look(l);
    l->former = false;
    l->answered_seq = lease.seq;
    if (lease.lease_ms == DLR_LEASE_HELD && (int64_t)lease.sent_ns < l->awake_ns)
        return;
    l->answered_ns = l->heard_ns = now;
    l->leased_ns =
        (int64_t)lease.sent_ns; /* one that was read late, after a freeze, is old */
    until = lease.lease_ms == DLR_LEASE_HELD
                ? HELD
                : (int64_t)lease.sent_ns + lease.lease_ms * MS;
    if (until > l->until_ns || l->until_ns == HELD)
        set_lease(l, until);
    l->ops->answered(l->arg);
}

/* An agent that was stopped itself (a suspended job, a busy node) has heard nothing
 * either: that time is no silence of the supervisor's. The workers' lease knows no such
 * mercy.
 */
static void compensate_loop_delay(struct dlr_agent_lease *l, int64_t now_ns)
{
    int64_t late_ns = now_ns - l->beat_ns - l->every_ms * MS;

    if (l->beat_ns && l->answered_ns && late_ns > LAG_MS * MS)
        l->answered_ns += late_ns;
    l->beat_ns = now_ns;
}

static void send_beat(struct dlr_agent_lease *l, struct dlr_heartbeat *b, bool direct)
{
    unsigned char buf[DLR_HEARTBEAT_BYTES];

    b->seq = ++l->seq;
    l->held_beats = 0;
    l->ops->steps(l->arg, &b->step_min, &b->step_max);
    if (!direct && l->ops->elsewhere(l->arg, b))
        return;
    dlr_heartbeat_pack(b, buf);
    dlr_agent_send_supervisor_bytes(l->base, buf, sizeof(buf));
}

static void beat(struct dlr_agent_lease *l, bool always)
{
    uint32_t missed = (uint32_t)(l->dead_ms / l->every_ms);
    struct dlr_heartbeat b = {.kind = DLR_HEARTBEAT,
                              .gen = l->self->run.gen,
                              .sent_ns = (uint64_t)dlr_now_ns(),
                              .round = l->round->known ? l->round->round : 0};

    compensate_loop_delay(l, (int64_t)b.sent_ns);
    if (always || dlr_heartbeat_goes(l->seq - l->answered_seq, l->held_beats, missed))
        send_beat(l, &b, always);
    else
        l->held_beats++;
    dlr_agent_auth_failures(l->base);
    l->ops->beat(l->arg);
    if (l->answered_ns && (int64_t)b.sent_ns - l->answered_ns > l->dead_ms * MS / 2)
        l->ops->silent(l->arg);
}

void dlr_agent_lease_beat(struct dlr_agent_lease *l)
{
    beat(l, true);
}

static int beat_due(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_lease *l = arg;

    dlr_agent_server_tend(l->base, dlr_now_ms());
    beat(l, false);
    return 0;
}

int dlr_agent_lease_start(struct dlr_agent_lease *l, struct dlr_err *err)
{
    l->fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (l->fd < 0)
        return dlr_fail(err, -errno, "timerfd_create: %s", strerror(errno));
    dlr_agent_watch(l->base, l->fd, lease_over, l);
    dlr_agent_timer_every(l->base, &l->timer, l->every_ms, beat_due, l);
    return 0;
}

void dlr_agent_lease_stop(struct dlr_agent_lease *l)
{
    dlr_agent_timer_end(l->base, &l->timer);
    if (l->fd < 0)
        return;
    dlr_agent_unwatch(l->base, l->fd);
    close(l->fd);
    l->fd = -1;
}

void dlr_agent_lease_welcome(struct dlr_agent_lease *l, int64_t dead_ms)
{
    l->dead_ms = dead_ms;
    l->answered_seq = l->seq;
}

int64_t dlr_agent_lease_dead_ms(const struct dlr_agent_lease *l)
{
    return l->dead_ms;
}

int64_t dlr_agent_lease_unheard_ms(const struct dlr_agent_lease *l)
{
    return (dlr_now_ns() - l->heard_ns) / MS;
}

int64_t dlr_agent_lease_silent_ms(const struct dlr_agent_lease *l)
{
    return (dlr_now_ns() - l->answered_ns) / MS;
}

struct dlr_agent_lease *dlr_agent_lease_new(struct dlr_agent_base *base,
                                            const struct dlr_agent_self *self,
                                            const struct dlr_agent_round *round,
                                            const struct dlr_agent_lease_ops *ops,
                                            void *arg)
{
    struct dlr_agent_lease *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->base = base;
    l->self = self;
    l->round = round;
    l->ops = ops;
    l->arg = arg;
    l->every_ms = self->job.beat.every_ms;
    l->dead_ms = dlr_job_config_dead_ms(&self->job);
    l->fd = l->timer = -1;
    return l;
}

struct dlr_agent_lease *dlr_agent_lease_free(struct dlr_agent_lease *l)
{
    free(l);
    return NULL;
}
