/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/gpu_node.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ckpt/base/page.h"
#include "ckpt/slot/slot.h"
#include "ckpt/slot/store.h"
#include "common/base/str.h"
#include "common/local/message.h"
#include "tests/support/data_rig.h"

#define ROUND 1
#define RANK 0
#define AHEAD 8u  /* steps that are ordered before they begin */
#define LOOK_MS 2 /* a step of which this is a part gets all its orders */

struct gpu_node {
    struct rig_data own, partner;
    struct dlr_page *page;
    int page_fd, listener;
    char path[sizeof((struct rig_data){0}.dir) + 16];
    unsigned every;
    uint64_t sends;
    /* of own, NULL before the worker wants any */
    struct dlr_slot *slots[DLR_STORE_SLOTS];
    bool offer;
    unsigned offer_slot;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct dlr_version committed; /* step 0: none yet */
};

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "gpu: the played node: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void unmap(struct gpu_node *node)
{
    for (unsigned k = 0; k < DLR_STORE_SLOTS; k++)
        node->slots[k] = dlr_slot_unmap(node->slots[k]);
}

/* All that is to be saved of the steps that the rank is about to begin. */
static void order(struct gpu_node *node)
{
    uint64_t begun = atomic_load(&node->page->begun_step);
    uint64_t from = begun == DLR_PAGE_NEVER ? 0 : begun + 1;

    for (uint64_t step = from; node->every && step < from + AHEAD; step++)
        if (step % node->every == 0)
            atomic_store(dlr_page_order(node->page, step), step);
}

/* A worker may have closed meanwhile. */
static void answer(int conn, const struct dlr_local_msg *msg, const int *fds,
                   unsigned n)
{
    errno = -dlr_local_send(conn, msg, fds, n);
    need(errno == 0 || errno == EPIPE || errno == ECONNRESET, "an answer");
}

static void send_slots(int conn, struct dlr_local_msg *msg, struct rig_data *own,
                       unsigned nother, int other)
{
    int fds[DLR_LOCAL_FDS];
    unsigned n = 0;

    if (nother)
        fds[n++] = other;
    for (unsigned k = 0; k < DLR_STORE_SLOTS; k++) {
        char path[sizeof(own->dir) + 32], name[32];

        need(dlr_store_name(RANK, k, name, sizeof(name)) >= 0 &&
                 dlr_format(path, sizeof(path), "%s/%s", own->dir, name) >= 0,
             "a slot's name");
        fds[n++] = open(path, O_RDWR | O_CLOEXEC);
        need(fds[n - 1] >= 0, path);
    }
    answer(conn, msg, fds, n);
    while (n > nother)
        close(fds[--n]);
}

static void welcome(struct gpu_node *node, int conn)
{
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_WELCOME);
    dlr_local_text(&msg, "%s", RIG_KEY);
    if (!node->offer) {
        answer(conn, &msg, &node->page_fd, 1);
        return;
    }
    msg.arg[0] = 1;
    msg.arg[1] = node->committed.round;
    msg.arg[2] = node->offer_slot;
    msg.step = node->committed.step;
    send_slots(conn, &msg, &node->own, 1, node->page_fd);
}

static void reserve(struct gpu_node *node, int conn, uint64_t bytes)
{
    struct dlr_local_msg msg;

    unmap(node);
    errno = rig_reserve(&node->own, RANK, bytes);
    need(errno == 0, "memory for slots");
    errno = rig_reserve(&node->partner, RANK, bytes);
    need(errno == 0, "memory for the partner's slots");
    for (unsigned k = 0; k < DLR_STORE_SLOTS; k++)
        node->slots[k] = rig_slot(&node->own, RANK, k);
    dlr_local_init(&msg, DLR_LOCAL_SLOTS);
    msg.arg[0] = DLR_STORE_SLOTS;
    send_slots(conn, &msg, &node->own, 0, -1);
}

/* To the partner; committed when it has it, which makes the slot before free. */
static void protect(struct gpu_node *node, const struct dlr_local_msg *msg)
{
    struct dlr_version v = {ROUND, msg->step};
    unsigned k = (unsigned)msg->arg[0];

    rig_order(&node->own, DLR_LOCAL_D_SEND, ROUND, RANK, v, node->sends,
              node->partner.address);
    errno = rig_done(&node->own, node->sends++, NULL, 0);
    need(errno == 0, "the copy to the partner");
    rig_order(&node->partner, DLR_LOCAL_D_COMMIT, ROUND, -1, v, 0, "");
    dlr_slot_set_state(node->slots[k], DLR_SLOT_COMMITTED);
    for (unsigned i = 0; i < DLR_STORE_SLOTS; i++)
        if (i != k && dlr_slot_state(node->slots[i]) == DLR_SLOT_COMMITTED)
            dlr_slot_set_state(node->slots[i], DLR_SLOT_FREE);
    atomic_store(&node->page->committed_step, v.step);
    pthread_mutex_lock(&node->lock);
    node->committed = v;
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
}

static void serve(struct gpu_node *node, int conn)
{
    struct pollfd p = {conn, POLLIN, 0};
    struct dlr_local_msg msg, go;
    int fds[DLR_LOCAL_FDS];
    unsigned nfds = 0;

    dlr_local_init(&go, DLR_LOCAL_GO);
    for (;;) {
        order(node);
        if (poll(&p, 1, LOOK_MS) == 0)
            continue;
        if (dlr_local_recv(conn, &msg, fds, &nfds) != 1)
            return;
        if (msg.type == DLR_LOCAL_HELLO)
            welcome(node, conn);
        else if (msg.type == DLR_LOCAL_RESTORED)
            answer(conn, &go, NULL, 0);
        else if (msg.type == DLR_LOCAL_RESERVE)
            reserve(node, conn, msg.arg[0]);
        else if (msg.type == DLR_LOCAL_SEALED)
            protect(node, &msg);
    }
}

static void *agent(void *arg)
{
    struct gpu_node *node = arg;
    int conn;

    while ((conn = accept4(node->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        serve(node, conn);
        close(conn);
    }
    return NULL;
}

static void clear_page(struct dlr_page *page)
{
    memset(page, 0, DLR_PAGE_SIZE);
    page->magic = DLR_PAGE_MAGIC;
    page->size = DLR_PAGE_SIZE;
    page->rank = RANK;
    page->round = ROUND;
    atomic_store(&page->begun_step, DLR_PAGE_NEVER);
    atomic_store(&page->committed_step, DLR_PAGE_NEVER);
    dlr_page_clear_orders(page);
}

struct gpu_node *gpu_node_start(unsigned every)
{
    struct gpu_node *node = calloc(1, sizeof(*node));
    struct dlr_err err = {0};

    need(node, "memory");
    node->every = every;
    pthread_mutex_init(&node->lock, NULL);
    pthread_cond_init(&node->changed, NULL);
    rig_start(&node->own, NULL, NULL);
    rig_start(&node->partner, NULL, NULL);
    rig_config(&node->own, ROUND, RIG_TOKEN, "[0]");
    rig_config(&node->partner, ROUND, RIG_TOKEN, "[0]");
    node->page_fd = memfd_create("page", MFD_CLOEXEC);
    need(node->page_fd >= 0 && ftruncate(node->page_fd, DLR_PAGE_SIZE) == 0, "a page");
    node->page =
        mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, node->page_fd, 0);
    need(node->page != MAP_FAILED, "a page");
    clear_page(node->page);
    dlr_format(node->path, sizeof(node->path), "%s/agent.sock", node->own.dir);
    errno = -dlr_local_listen(node->path, &node->listener, &err);
    need(errno == 0, "a socket");
    setenv("DLROVER_AGENT_SOCKET", node->path, 1);
    setenv("DLROVER_ROUND", "1", 1);
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    need(pthread_create(&node->thread, NULL, agent, node) == 0, "a thread");
    return node;
}

uint64_t gpu_node_committed(struct gpu_node *node, uint64_t step)
{
    struct timespec until;
    uint64_t is;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += GPU_NODE_MS / 1000;
    pthread_mutex_lock(&node->lock);
    while (rc == 0 && node->committed.step < step)
        rc = pthread_cond_clockwait(&node->changed, &node->lock, CLOCK_MONOTONIC,
                                    &until);
    is = node->committed.step;
    pthread_mutex_unlock(&node->lock);
    errno = rc;
    need(rc == 0, "a version was not committed");
    return is;
}

void gpu_node_replace(struct gpu_node *node)
{
    struct dlr_slot_info info;

    for (unsigned k = 0; k < DLR_STORE_SLOTS; k++)
        dlr_slot_set_state(node->slots[k], DLR_SLOT_DEAD);
    rig_order(&node->partner, DLR_LOCAL_D_SEND, ROUND, RANK, node->committed,
              node->sends, node->own.address);
    errno = rig_done(&node->partner, node->sends++, NULL, 0);
    need(errno == 0, "the copy back");
    node->offer = false;
    for (unsigned k = 0; k < DLR_STORE_SLOTS; k++)
        if (dlr_slot_state(node->slots[k]) == DLR_SLOT_SEALED &&
            dlr_slot_info(node->slots[k], &info) == 0 &&
            dlr_version_eq(info.version, node->committed)) {
            node->offer = true;
            node->offer_slot = k;
        }
    errno = ENOENT;
    need(node->offer, "the copy that came back");
    clear_page(node->page);
}

void gpu_node_report(struct gpu_node *node)
{
    struct dlr_page *page = node->page;
    uint64_t saves = atomic_load(&page->saves), plain = atomic_load(&page->plain_steps),
             beside = atomic_load(&page->saved_steps);

    printf("saves: %" PRIu64 ", of them given up %" PRIu64 ", skipped %" PRIu64
           ", last on both nodes: step %" PRIu64 "\n",
           saves, atomic_load(&page->given_up), atomic_load(&page->skipped),
           node->committed.step);
    printf("step without a save: %.3f ms (%" PRIu64 "), beside one: %.3f ms (%" PRIu64
           "), host blocked per save: %.3f ms\n",
           plain ? (double)atomic_load(&page->plain_ns) / 1e6 / (double)plain : 0,
           plain,
           beside ? (double)atomic_load(&page->saved_ns) / 1e6 / (double)beside : 0,
           beside,
           saves ? (double)atomic_load(&page->blocked_ns) / 1e6 / (double)saves : 0);
}

struct gpu_node *gpu_node_end(struct gpu_node *node)
{
    if (!node)
        return NULL;
    shutdown(node->listener, SHUT_RDWR);
    pthread_join(node->thread, NULL);
    close(node->listener);
    unmap(node);
    rig_end(&node->own);
    rig_end(&node->partner);
    rig_remove(&node->own);
    rig_remove(&node->partner);
    munmap(node->page, DLR_PAGE_SIZE);
    close(node->page_fd);
    unsetenv("DLROVER_AGENT_SOCKET");
    unsetenv("DLROVER_ROUND");
    free(node);
    return NULL;
}
