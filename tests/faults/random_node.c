/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/random_node.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"
#include "ckpt/supervised/supervised.h"
#include "common/base/clock.h"
#include "common/base/str.h"

#define MOST (UINT64_C(3) << 20) /* bytes of a state */

struct world world;
static unsigned char state[MOST], expected[MOST];

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t random_below(uint64_t n)
{
    world.random_state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(world.random_state) % n;
}

/* What a rank holds at a step, which is all that is needed to know it. */
static uint64_t fill(unsigned char *to, int rank, uint64_t step)
{
    uint64_t x = mix(world.seed + step * 2 + (uint64_t)rank),
             bytes = x % (MOST / 8 - 1) * 8 + 8;

    for (uint64_t i = 0; i < bytes; i += 8, x += UINT64_C(0x9e3779b97f4a7c15))
        memcpy(to + i, &x, 8);
    return bytes;
}

/* Restores, then saves each step that comes through orders. Its exit code says what was
 * wrong.
 */
static int work(struct node *n, int orders)
{
    struct dlr_ckpt *ck;
    struct supervised *sup;
    uint64_t step = 0, bytes;

    if (dlr_ckpt_open(NULL, &ck) < 0)
        return 2;
    dlr_ckpt_add_array(ck, "state", DLR_CKPT_BLOB, "u8", 1, state, MOST);
    if (dlr_ckpt_restore(ck, &step) != world.has ||
        step != (world.has ? world.newest.step : 0))
        return 3;
    bytes = fill(expected, n->rank, step);
    if (world.has && memcmp(state, expected, bytes) != 0)
        return 4;
    if (dlr_ckpt_begin(ck, step + 1, NULL) != 0) /* asks for slots */
        return 5;
    sup = ck->mode;
    for (unsigned got = 0; got == 0; sched_yield()) {
        pthread_mutex_lock(&sup->lock);
        got = sup->nslots;
        pthread_mutex_unlock(&sup->lock);
    }
    while (read(orders, &step, sizeof(step)) == sizeof(step)) {
        dlr_ckpt_blob_size(ck, "state", fill(state, n->rank, step));
        if (dlr_ckpt_begin(ck, step, NULL) != 1 || dlr_ckpt_fence(ck, NULL) < 0)
            return 6;
    }
    return 0;
}

/* Connections of the last worker that nobody has answered. */
static void drop_waiting(struct node *n)
{
    struct pollfd p = {n->listener, POLLIN, 0};

    while (poll(&p, 1, 0) == 1)
        close(accept4(n->listener, NULL, NULL, SOCK_CLOEXEC));
}

void node_start_worker(struct node *n)
{
    int orders[2];
    char text[16];

    drop_waiting(n);

    n->restored = n->sealed = n->copied = n->failed = false;
    n->conn = -1;
    n->page->round = world.round;
    n->page->rank = n->rank;
    atomic_store(&n->page->begun_step, DLR_PAGE_NEVER);
    dlr_page_clear_orders(n->page);
    assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
    dlr_format(text, sizeof(text), "%u", world.round);
    setenv("DLROVER_ROUND", text, 1);
    setenv("DLROVER_AGENT_SOCKET", n->path, 1);
    setenv("RANK", n->rank ? "1" : "0", 1);
    n->worker = fork();
    if (n->worker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(orders[1]);
        _exit(work(n, orders[0]));
    }
    close(orders[0]);
    n->orders = orders[1];
    n->pidfd = (int)syscall(SYS_pidfd_open, n->worker, 0);
}

bool node_sealed(struct dlr_slot *slot, struct dlr_version *ret)
{
    enum dlr_slot_state s = slot ? dlr_slot_state(slot) : DLR_SLOT_FREE;
    struct dlr_slot_info info;

    if ((s != DLR_SLOT_SEALED && s != DLR_SLOT_COMMITTED) ||
        dlr_slot_info(slot, &info) < 0)
        return false;
    *ret = info.version;
    return true;
}

bool node_whole(struct dlr_slot *slot, struct dlr_version *ret)
{
    return node_sealed(slot, ret) && dlr_slot_verify(slot, NULL) == 0;
}

int node_find(struct node *n, int rank, struct dlr_version v)
{
    struct dlr_version held;

    for (int k = 0; k < 2; k++)
        if (node_whole(n->slots[rank][k], &held) && dlr_version_eq(held, v))
            return k;
    return -1;
}

void node_config(struct node *n)
{
    rig_config_own(&n->data, world.round, RIG_TOKEN, "[0,1]", n->rank ? "[1]" : "[0]");
}

void node_settle(struct node *n)
{
    rig_order(&n->data, DLR_LOCAL_D_SEND, world.round, 99, world.newest, ++world.id,
              "00");
    n->data_dead = rig_done_or_dead(&n->data, world.id) < 0; /* that there is not */
}

void node_tell(struct node *n, enum dlr_local_type type, struct dlr_version v)
{
    rig_order(&n->data, type, world.round, -1, v, 0, "");
    node_settle(n);
}

static void map_slots(struct node *n)
{
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(rig_reserve(&n->data, rank, world.slot_bytes), 0);
        for (unsigned k = 0; k < 2; k++) {
            dlr_slot_unmap(n->slots[rank][k]);
            n->slots[rank][k] = rig_slot(&n->data, rank, k);
        }
    }
}

static int slot_fd(struct node *n, unsigned k)
{
    char path[128];
    int fd;

    dlr_format(path, sizeof(path), "%s/r%d.s%u", n->data.dir, n->rank, k);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void welcome(struct node *n)
{
    int fds[3] = {n->page_fd, -1, -1};
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_WELCOME);
    dlr_local_text(&msg, RIG_KEY);
    if (world.has) {
        msg.arg[0] = 1;
        msg.arg[1] = world.newest.round;
        msg.arg[2] = (uint64_t)node_find(n, n->rank, world.newest);
        msg.step = world.newest.step;
        fds[1] = slot_fd(n, 0);
        fds[2] = slot_fd(n, 1);
    }
    dlr_local_send(n->conn, &msg, fds, world.has ? 3 : 1);
    for (unsigned k = 1; world.has && k < 3; k++)
        close(fds[k]);
}

static void give_slots(struct node *n, uint64_t bytes)
{
    struct dlr_local_msg msg;
    int fds[2];

    world.slot_bytes = bytes;
    if (!n->slots[0][0]) {
        map_slots(&world.nodes[0]);
        map_slots(&world.nodes[1]);
    }
    fds[0] = slot_fd(n, 0);
    fds[1] = slot_fd(n, 1);
    dlr_local_init(&msg, DLR_LOCAL_SLOTS);
    msg.arg[0] = 2;
    dlr_local_send(n->conn, &msg, fds, 2);
    close(fds[0]);
    close(fds[1]);
}

static void go(void)
{
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_GO);
    for (unsigned i = 0; i < 2; i++)
        dlr_local_send(world.nodes[i].conn, &msg, NULL, 0);
}

static void from_worker(struct node *n)
{
    struct dlr_local_msg m;
    int fds[DLR_LOCAL_FDS];
    unsigned nfds;

    if (dlr_local_recv(n->conn, &m, fds, &nfds) <= 0) {
        close(n->conn);
        n->conn = -1;
        n->failed = true;
        return;
    }
    if (m.type == DLR_LOCAL_HELLO) {
        welcome(n);
    } else if (m.type == DLR_LOCAL_RESERVE) {
        give_slots(n, m.arg[0]);
    } else if (m.type == DLR_LOCAL_RESTORED) {
        if (m.arg[1] != 0)
            fail_msg("seed %" PRIu64 ": %s", world.seed, m.text);
        n->restored = true;
        if (world.nodes[0].restored && world.nodes[1].restored)
            go();
    } else if (m.type == DLR_LOCAL_SEALED) {
        n->sealed = true;
        n->sending = ++world.id;
        rig_order(&n->data, DLR_LOCAL_D_SEND, world.round, n->rank,
                  (struct dlr_version){world.round, m.step}, n->sending,
                  world.nodes[1 - n->rank].data.address);
    }
}

static void from_data(struct node *n)
{
    struct dlr_local_msg m;
    int fds[DLR_LOCAL_FDS];
    unsigned nfds = 0;

    if (dlr_local_recv(n->data.fd, &m, fds, &nfds) <= 0)
        n->data_dead = true;
    else if (m.type == DLR_LOCAL_D_DONE && m.arg[1] == n->sending)
        *(m.arg[2] == 0 ? &n->copied : &n->failed) = true;
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
}

void nodes_pump(int64_t until_ns)
{
    struct pollfd all[6], *fds[2] = {all, all + 3};
    int64_t left = until_ns - dlr_now_ns();
    struct timespec wait = {0};

    for (unsigned i = 0; i < 2; i++) {
        struct node *n = &world.nodes[i];

        fds[i][0] = (struct pollfd){n->conn >= 0 ? n->conn : n->listener, POLLIN, 0};
        fds[i][1] = (struct pollfd){n->data_dead ? -1 : n->data.fd, POLLIN, 0};
        fds[i][2] = (struct pollfd){n->pidfd, POLLIN, 0};
    }
    if (left > 0)
        wait = (struct timespec){left / 1000000000, left % 1000000000};
    if (ppoll(all, 6, &wait, NULL) <= 0)
        return;
    for (unsigned i = 0; i < 2; i++) {
        struct node *n = &world.nodes[i];

        if (fds[i][0].revents && n->conn >= 0)
            from_worker(n);
        else if (fds[i][0].revents)
            n->conn = accept4(n->listener, NULL, NULL, SOCK_CLOEXEC);
        else if (fds[i][2].revents) /* and all that it said is heard */
            n->failed = true;
        if (fds[i][1].revents)
            from_data(n);
    }
}

static void flip(struct node *n)
{
    struct dlr_slot *slot = n->slots[random_below(2)][random_below(2)];
    struct dlr_version v;
    struct dlr_slot_info info;
    const void *meta;
    size_t bytes;

    if (!node_whole(slot, &v))
        return;
    dlr_slot_info(slot, &info);
    dlr_slot_meta(slot, &meta, &bytes);
    bytes = random_below(4) == 0 ? random_below(bytes)
                                 : (size_t)random_below(info.data_bytes) + bytes;
    ((unsigned char *)dlr_slot_base(slot))[DLR_SLOT_PAGE + bytes] ^=
        (unsigned char)(1 << random_below(8));
}

void node_strike(enum fault fault, struct node *n)
{
    if (fault == FLIP)
        flip(n);
    if (fault == FLIP || fault == KILL_WORKER || fault == KILL_NODE)
        kill(n->worker, SIGKILL);
    if (fault == KILL_DATA || fault == KILL_NODE)
        kill(n->data.pid, SIGKILL);
}

void node_data_again(struct node *n, bool lost)
{
    rig_kill(&n->data);
    if (lost)
        rig_remove(&n->data);
    rig_start(&n->data, lost ? NULL : n->data.dir, NULL);
    node_config(n);
    n->data_dead = false;
    if (world.slot_bytes)
        map_slots(n);
}

void node_end_worker(struct node *n)
{
    int status;

    kill(n->worker, SIGKILL);
    assert_int_equal(waitpid(n->worker, &status, 0), n->worker);
    if (WIFEXITED(status))
        fail_msg("seed %" PRIu64 ": rank %d ended with %d in round %u", world.seed,
                 n->rank, WEXITSTATUS(status), world.round);
    close(n->orders);
    close(n->pidfd);
    if (n->conn >= 0)
        close(n->conn);
    n->conn = -1;
}

void node_start(struct node *n, int rank)
{
    n->rank = rank;
    rig_start(&n->data, NULL, NULL);
    node_config(n);
    dlr_format(n->path, sizeof(n->path), "/tmp/dlr-kill-%d-%d.sock", (int)getpid(),
               rank);
    assert_int_equal(dlr_local_listen(n->path, &n->listener, NULL), 0);
    n->page_fd = memfd_create("page", MFD_CLOEXEC);
    assert_int_equal(ftruncate(n->page_fd, DLR_PAGE_SIZE), 0);
    n->page =
        mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, n->page_fd, 0);
    n->page->magic = DLR_PAGE_MAGIC;
    n->page->size = DLR_PAGE_SIZE;
}

void node_end(struct node *n)
{
    kill(n->worker, SIGKILL);
    waitpid(n->worker, NULL, 0);
    unlink(n->path);
    rig_kill(&n->data);
    rig_remove(&n->data);
    for (unsigned k = 0; k < 4; k++)
        dlr_slot_unmap(n->slots[k / 2][k % 2]);
}
