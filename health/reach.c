/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the other nodes answer: all are asked at once, under one time limit. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "health/checks.h"

#define PEERS_MAX 512 /* asked by one node; each takes a descriptor */

enum answer {
    SILENT,
    ANSWERS,
    UNNAMED, /* its name has no address */
    UNASKED, /* we are out of descriptors */
};

struct peer {
    char host[256], port[16];
    struct sockaddr_storage addr;
    socklen_t size; /* 0: no address found */
};

struct peers {
    unsigned n;
    struct peer p[];
};

/* "host:port", "[v6]:port" */
static int split(const char *text, struct peer *p)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;

    if (n > 2 && text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    if (!n || dlr_format(p->host, sizeof(p->host), "%.*s", (int)n, text) < 0 ||
        dlr_format(p->port, sizeof(p->port), "%s", colon + 1) < 0)
        return -EINVAL;
    return 0;
}

/* Asks for the addresses; a name server that is gone makes this slow, so it is bounded.
 */
static void resolve(void *arg)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct peers *peers = arg;
    unsigned i;

    for (i = 0; i < peers->n; i++) {
        struct peer *p = &peers->p[i];
        struct addrinfo *found = NULL;

        if (!p->host[0] || getaddrinfo(p->host, p->port, &hints, &found) != 0)
            continue;
        memcpy(&p->addr, found->ai_addr, found->ai_addrlen);
        p->size = found->ai_addrlen;
        freeaddrinfo(found);
    }
}

/* A refusal comes from the node itself: it is there. */
static enum answer answer_of(int error)
{
    return error == 0 || error == ECONNREFUSED ? ANSWERS : SILENT;
}

/* Starts connecting; true while the answer is still to come. */
static bool ask(const struct peer *p, struct pollfd *pfd, enum answer *ret)
{
    pfd->fd = -1;
    pfd->events = POLLOUT;
    *ret = UNNAMED;
    if (!p->size)
        return false;
    pfd->fd = socket(p->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *ret = pfd->fd < 0 ? UNASKED : SILENT;
    if (pfd->fd < 0)
        return false;
    if (connect(pfd->fd, (const struct sockaddr *)&p->addr, p->size) == 0)
        *ret = ANSWERS;
    else if (errno == EINPROGRESS)
        return true;
    else
        *ret = answer_of(errno);
    return false;
}

static void take_answer(struct pollfd *pfd, enum answer *ret)
{
    int error = EIO;
    socklen_t size = sizeof(error);

    getsockopt(pfd->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    *ret = answer_of(error);
    close(pfd->fd);
    pfd->fd = -1;
}

static void ask_all(const struct peers *peers, struct pollfd *pfds,
                    enum answer *answers, int64_t deadline_ms)
{
    unsigned waiting = 0, i;

    for (i = 0; i < peers->n; i++) {
        if (ask(&peers->p[i], &pfds[i], &answers[i])) {
            waiting++;
        } else if (pfds[i].fd >= 0) {
            close(pfds[i].fd);
            pfds[i].fd = -1;
        }
    }
    while (waiting) {
        int64_t left = deadline_ms - dlr_now_ms();

        if (left <= 0 || (poll(pfds, peers->n, (int)left) < 0 && errno != EINTR))
            break;
        for (i = 0; i < peers->n; i++)
            if (pfds[i].fd >= 0 && pfds[i].revents) {
                take_answer(&pfds[i], &answers[i]);
                waiting--;
            }
    }
    for (i = 0; i < peers->n; i++)
        if (pfds[i].fd >= 0)
            close(pfds[i].fd);
}

static void report(const struct dlr_health_env *env, const struct peers *peers,
                   const enum answer *answers, struct dlr_health_result *ret)
{
    char names[160] = "";
    unsigned silent = 0, unasked = 0, shown = 0, i;

    for (i = 0; i < peers->n; i++) {
        const char *name = env->peer_names ? env->peer_names[i] : peers->p[i].host;
        size_t used = strlen(names);

        unasked += answers[i] == UNASKED;
        if (answers[i] != SILENT && answers[i] != UNNAMED)
            continue;
        silent++;
        if (env->silent)
            env->silent[i] = 1;
        if (shown + 1 == silent &&
            dlr_format(names + used, sizeof(names) - used, "%s%s%s", used ? ", " : "",
                       name, answers[i] == UNNAMED ? " (no address)" : "") == 0)
            shown++;
    }
    if (silent)
        dlr_health_say(ret, DLR_HEALTH_WARN, "cannot reach %s%s (%u of %u)", names,
                       shown < silent ? ", ..." : "", silent, peers->n);
    else if (unasked)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no descriptor left to ask %u of %u nodes",
                       unasked, peers->n);
    else
        dlr_health_say(ret, DLR_HEALTH_OK, "%u of %u nodes answer", peers->n, peers->n);
}

static struct peers *read_peers(const struct dlr_health_env *env)
{
    struct peers *peers;
    unsigned n = 0, i;

    while (n < PEERS_MAX && env->peers[n])
        n++;
    peers = calloc(1, sizeof(*peers) + n * sizeof(peers->p[0]));
    for (i = 0; peers && i < n; i++)
        if (split(env->peers[i], &peers->p[i]) < 0)
            peers->p[i].host[0] = '\0';
    if (peers)
        peers->n = n;
    return peers;
}

void dlr_health_reach(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    int64_t deadline_ms = dlr_now_ms() + env->peer_timeout_ms;
    DLR_AUTO_FREE struct pollfd *pfds = NULL;
    DLR_AUTO_FREE enum answer *answers = NULL;
    struct peers *peers;
    uint64_t silent;
    int rc;

    if (!env->peers || !env->peers[0]) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no other nodes are known");
        return;
    }
    peers = read_peers(env);
    pfds = peers ? calloc(peers->n, sizeof(*pfds)) : NULL;
    answers = peers ? calloc(peers->n, sizeof(*answers)) : NULL;
    rc = pfds && answers ? dlr_health_bounded(resolve, peers, env->peer_timeout_ms)
                         : -ENOMEM;
    if (rc == -ETIMEDOUT) { /* peers stay the thread's */
        dlr_health_say(ret, DLR_HEALTH_WARN,
                       "names of nodes have no answer within %lld ms",
                       (long long)env->peer_timeout_ms);
        return;
    }
    if (rc == 0) {
        ask_all(peers, pfds, answers, deadline_ms);
        if (dlr_health_injected_count(env, "reach.silent", &silent))
            for (unsigned i = 0; i < peers->n && i < silent; i++)
                answers[i] = SILENT;
        report(env, peers, answers, ret);
    } else {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "cannot check: %s", strerror(-rc));
    }
    free(peers);
}
