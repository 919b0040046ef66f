/* SPDX-License-Identifier: Apache-2.0 */
/* The elected agent has the supervisor's will: it starts a supervisor here, which goes
 * on in the same allocation, and leads the other agents to it. The key pair is the
 * former one's: the others know it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/succession/succession_state.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/process/spawn.h"

#define LOOK_MS 20     /* from one look for its address to the next */
#define START_MS 10000 /* to listen; else the job is requeued */
#define ENOUGH_MAX 131072
/* Dead-times for an agent that has not voted yet: where enough have, where not. */
#define WAIT_ENOUGH 1
#define WAIT_FEW 3

/* --- the will --------------------------------------------------------------------- */

static bool is_start(const json_t *start)
{
    const char *text;

    return json_array_size(json_object_get(start, "argv")) > 0 &&
           json_is_array(json_object_get(start, "env")) &&
           dlr_msg_str(start, "keys", &text) == 0 &&
           strlen(text) == 2 * DLR_IDENTITY_BYTES &&
           dlr_msg_str(start, "cwd", &text) == 0 &&
           dlr_msg_str(start, "in", &text) == 0 &&
           dlr_msg_str(start, "out", &text) == 0 &&
           dlr_msg_str(start, "err", &text) == 0;
}

/* The whole state, or what has changed of the one that we have. */
static bool is_state(const struct dlr_agent_succession *su, const json_t *msg)
{
    return json_is_object(json_object_get(msg, "state")) ||
           (su->heir.state && json_is_object(json_object_get(msg, "changed")) &&
            json_is_array(json_object_get(msg, "gone")));
}

static void take_state(struct dlr_agent_succession *su, const json_t *msg)
{
    json_t *state = json_object_get(msg, "state"), *name;
    size_t i;

    if (state) {
        json_decref(su->heir.state);
        su->heir.state = json_incref(state);
        return;
    }
    json_object_update(su->heir.state, json_object_get(msg, "changed"));
    json_array_foreach(json_object_get(msg, "gone"), i, name)
    {
        if (json_is_string(name))
            json_object_del(su->heir.state, json_string_value(name));
    }
}

int dlr_agent_take_over_will(struct dlr_agent_succession *su, const json_t *msg)
{
    json_t *start = json_object_get(msg, "start");
    uint64_t nth, enough;

    if (dlr_msg_uint(msg, "nth", INT32_MAX, &nth) < 0 || nth != su->heir.nth ||
        dlr_msg_uint(msg, "enough", ENOUGH_MAX, &enough) < 0 || enough == 0 ||
        !is_state(su, msg) || (start && !is_start(start)) ||
        (!start && !su->heir.start))
        return -EBADMSG;
    if (start) {
        json_decref(su->heir.start);
        su->heir.start = json_incref(start);
    }
    take_state(su, msg);
    su->heir.enough = (unsigned)enough;
    return 0;
}

/* --- the others ------------------------------------------------------------------- */

static json_t *follow_msg(const struct dlr_agent_succession *su)
{
    return json_pack("{s:i, s:s, s:I, s:i, s:s}", "v", DLR_MSG_VERSION, "t", "follow",
                     "gen", (json_int_t)su->self->run.gen, "nth", (int)su->heir.nth,
                     "address", su->heir.address);
}

static bool follow(struct dlr_agent_succession *su, unsigned nth, const char *address)
{
    if (dlr_format(su->heir.address, sizeof(su->heir.address), "%s", address) < 0 ||
        !su->ops->follow(su->arg, address))
        return false;
    dlr_warn("%s: following the supervisor at %s", su->self->node, address);
    su->heir.nth = nth;
    dlr_agent_changed(su->base);
    return true;
}

bool dlr_agent_has_followed(const struct dlr_agent_succession *su)
{
    return su->heir.nth > 0;
}

int dlr_agent_take_over_follow(struct dlr_agent_succession *su, const json_t *msg)
{
    const char *address;
    uint64_t nth;

    if (dlr_msg_uint(msg, "nth", INT32_MAX, &nth) < 0 ||
        dlr_msg_str(msg, "address", &address) < 0)
        return -EBADMSG;
    if (nth <= su->heir.nth || su->ops->unheard_ms(su->arg) < dlr_agent_dead_ms(su) / 2)
        return 0; /* of one that is gone; or ours lives */
    return follow(su, (unsigned)nth, address) ? 0 : -EBADMSG;
}

void dlr_agent_take_over_lead(struct dlr_agent_succession *su, const char *node)
{
    if (su->heir.address[0] && su->ops->unheard_ms(su->arg) < dlr_agent_dead_ms(su))
        dlr_agent_peers_send(su->base, node, follow_msg(su));
}

/* --- the supervisor here ---------------------------------------------------------- */

static void forget(struct dlr_agent_succession *su)
{
    dlr_agent_timer_end(su->base, &su->heir.timer);
    if (su->heir.fd >= 0)
        close(su->heir.fd);
    su->heir.fd = -1;
    if (su->heir.pidfd < 0)
        return;
    dlr_agent_unwatch(su->base, su->heir.pidfd);
    close(su->heir.pidfd);
    su->heir.pidfd = -1;
}

/* Where nobody has followed it, the way is the one without a will. */
static void give_up(struct dlr_agent_succession *su, const char *why)
{
    dlr_error("%s: %s: the job is requeued", su->self->node, why);
    dlr_agent_take_over_cancel(su);
    dlr_agent_succeed(su);
}

static int on_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent_succession *su = arg;
    bool early = su->heir.until_ms != 0;
    int status, pidfd = su->heir.pidfd;

    dlr_agent_unwatch(su->base, pidfd);
    if (dlr_spawn_reap(pidfd, &status) == -EAGAIN)
        close(pidfd);
    su->heir.pidfd = -1;
    forget(su);
    if (early)
        give_up(su, "the supervisor that was started here has ended");
    return 0;
}

/* Its host is this one, as the others know it. */
static bool read_address(const struct dlr_agent_succession *su, char *buf, size_t size)
{
    DLR_AUTO_JSON json_t *state = NULL;
    const char *mine = dlr_agent_peers_addr(su->base), *colon = strrchr(mine, ':');
    const char *address, *port;
    struct dlr_err err;

    if (!colon || dlr_takeover_state_load(su->heir.fd, &state, &err) < 0 ||
        dlr_msg_str(state, "address", &address) < 0)
        return false;
    port = strrchr(address, ':');
    return port &&
           dlr_format(buf, size, "%.*s%s", (int)(colon - mine), mine, port) == 0;
}

static int look(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_succession *su = arg;
    char address[DLR_AGENT_ADDR];

    su->heir.timer = -1;
    if (read_address(su, address, sizeof(address))) {
        if (!follow(su, su->heir.nth + 1, address)) {
            give_up(su, "the supervisor that was started here is not to be reached");
            return 0;
        }
        su->heir.until_ms = 0;
        dlr_agent_peers_send_all(su->base, su->self->node, follow_msg(su));
        close(su->heir.fd);
        su->heir.fd = -1;
    } else if (dlr_now_ms() >= su->heir.until_ms) {
        give_up(su, "the supervisor that was started here does not listen");
    } else {
        dlr_agent_timer(su->base, &su->heir.timer, LOOK_MS, look, su);
    }
    return 0;
}

/* Nodes that take part from now on, this one too; the others go into dead. All: none is
 * missed but the batch host.
 */
static unsigned count_here(const struct dlr_agent_succession *su, json_t *dead,
                           bool *ret_all)
{
    const struct dlr_peer_list *list = dlr_agent_peer_list(su->base);
    int64_t now = dlr_now_ms();
    unsigned n = 0;

    *ret_all = true;
    for (unsigned i = 0; i < list->n; i++) {
        const char *node = list->all[i].node;
        bool batch = dlr_streq(node, su->batch);

        if (!batch && dlr_election_agrees(su->election, node, now)) {
            n++;
            continue;
        }
        *ret_all &= batch;
        json_array_append_new(dead, json_string(node));
    }
    return n;
}

static int write_keys(int fd, const char *text)
{
    unsigned char keys[DLR_IDENTITY_BYTES];
    unsigned byte;
    ssize_t n;

    for (unsigned i = 0; i < sizeof(keys); i++) {
        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return -EBADMSG;
        keys[i] = (unsigned char)byte;
    }
    n = pwrite(fd, keys, sizeof(keys), 0);
    explicit_bzero(keys, sizeof(keys));
    return n == sizeof(keys) ? 0 : -EIO;
}

static int write_state(const struct dlr_agent_succession *su, json_t *dead, int fd,
                       struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *state = json_deep_copy(su->heir.state);
    const char *keys = "", *out = "";

    dlr_msg_str(su->heir.start, "keys", &keys);
    dlr_msg_str(su->heir.start, "out", &out);
    json_object_set_new(
        state, "succession",
        json_pack("{s:i,s:s,s:s,s:I,s:O,s:s}", "nth", (int)su->heir.nth + 1, "node",
                  su->self->node, "from", su->batch, "silent_ms",
                  (json_int_t)su->ops->silent_ms(su->arg), "dead", dead, "out", out));
    if (write_keys(fd, keys) < 0)
        return dlr_fail(err, -EBADMSG, "the will has no key pair");
    return dlr_takeover_state_save(fd, state, err);
}

static int start(struct dlr_agent_succession *su, json_t *dead, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = memfd_create("dlrover-state", MFD_CLOEXEC);
    int rc = fd < 0 ? dlr_fail(err, -errno, "no memory file") : 0;
    pid_t pid;

    if (rc == 0)
        rc = write_state(su, dead, fd, err);
    if (rc == 0)
        rc = dlr_agent_start_supervisor(su, su->heir.start, fd, &pid, &su->heir.pidfd,
                                        err);
    if (rc < 0)
        return rc;
    su->heir.fd = dlr_steal_fd(&fd);
    su->heir.until_ms = dlr_now_ms() + START_MS;
    dlr_agent_watch(su->base, su->heir.pidfd, on_ended, su);
    dlr_agent_timer(su->base, &su->heir.timer, LOOK_MS, look, su);
    return 0;
}

/* A majority was enough to be elected. Who is a moment late is not dead: where just
 * enough nodes are left, the job would be requeued for it.
 */
static int gather(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_succession *su = arg;
    DLR_AUTO_JSON json_t *dead = json_array();
    int64_t waited_ms = dlr_now_ms() - su->heir.won_ms, dead_ms = dlr_agent_dead_ms(su);
    struct dlr_err err = {0};
    bool all, enough;

    su->heir.timer = -1;
    if (!su->election)
        return 0;
    enough = count_here(su, dead, &all) >= su->heir.enough;
    if (!all && waited_ms < (enough ? WAIT_ENOUGH : WAIT_FEW) * dead_ms) {
        dlr_agent_timer(su->base, &su->heir.timer, LOOK_MS, gather, su);
        return 0;
    }
    if (!enough) {
        dlr_agent_succeed(su);
        return 0;
    }
    dlr_warn("%s: elected to go on for the supervisor on %s: starting another here",
             su->self->node, su->batch);
    if (start(su, dead, &err) < 0)
        give_up(su, err.text);
    return 0;
}

bool dlr_agent_take_over(struct dlr_agent_succession *su)
{
    if (!su->heir.start || su->heir.pidfd >= 0 ||
        json_is_integer(json_object_get(su->heir.state, "ended")))
        return false; /* all that is missing of a run that has ended is the requeue */
    su->heir.won_ms = dlr_now_ms();
    dlr_agent_timer(su->base, &su->heir.timer, 0, gather, su);
    return true;
}

void dlr_agent_take_over_cancel(struct dlr_agent_succession *su)
{
    dlr_agent_timer_end(su->base, &su->heir.timer);
    if (su->heir.until_ms == 0)
        return; /* there is none, or it is the supervisor now */
    su->heir.until_ms = 0;
    if (su->heir.pidfd >= 0)
        syscall(SYS_pidfd_send_signal, su->heir.pidfd, SIGKILL, NULL, 0);
    forget(su);
}

void dlr_agent_take_over_stop(struct dlr_agent_succession *su)
{
    dlr_agent_take_over_cancel(su);
    forget(su);
}
