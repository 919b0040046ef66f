/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks on two "nodes" of this machine: real programs with the real library, real data
 * processes, and this program in the place of agents and supervisor. 200 saves of states of random
 * size; at random moments a worker, a data process or a whole node is killed, or a bit of a copy
 * flips. After each the newest version that verified copies make whole is restored: never an older
 * one than was committed, the same on both ranks, with the bytes that the step's number gives.
 *
 * The seed is printed; DLR_TEST_SEED=N draws the same sizes, faults and moments again. Which
 * instruction a moment meets is up to the machine: tests/test_kill_*.c go through them one by one.
 */
#include <errno.h>
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

#include "ckpt/slot_meta.h"
#include "ckpt/supervised.h"
#include "common/clock.h"
#include "common/str.h"
#include "tests/data_rig.h"

#define SAVES 200
#define MOST (UINT64_C(3) << 20) /* bytes of a state */
#define DELAY_US 4000            /* a save of this machine is done by then, mostly */
#define WAIT_MS 30000
#define PULLS 3

enum fault { NOTHING, KILL_WORKER, KILL_DATA, KILL_NODE, FLIP, FAULTS };
static const char *const names[FAULTS] = {"nothing", "worker", "data process", "node",
                                          "flipped bit"};

struct node {
    int rank; /* its own; the other's copies come here */
    struct rig_data data;
    char path[96];
    int listener, conn, pidfd, orders, page_fd;
    struct dlr_page *page;
    struct dlr_slot *slots[2][2]; /* by rank */
    pid_t worker;
    uint64_t sending; /* request that copies its rank's snapshot */
    bool restored, sealed, copied, failed, data_dead;
};

static struct node nodes[2];
static uint64_t seed, random_state, id, slot_bytes;
static uint32_t round_now;
static struct dlr_version newest; /* committed, or restored by all */
static bool has;
static unsigned char state[MOST], expected[MOST];

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t below(uint64_t n)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(random_state) % n;
}

/* --- the program ------------------------------------------------------------------------------ */

/* What a rank holds at a step, which is all that is needed to know it. */
static uint64_t fill(unsigned char *to, int rank, uint64_t step)
{
    uint64_t x = mix(seed + step * 2 + (uint64_t)rank),
             bytes = x % (MOST / 8 - 1) * 8 + 8;

    for (uint64_t i = 0; i < bytes; i += 8, x += UINT64_C(0x9e3779b97f4a7c15))
        memcpy(to + i, &x, 8);
    return bytes;
}

/* Restores, then saves each step that comes through orders. Its exit code says what was wrong. */
static int work(struct node *n, int orders)
{
    struct dlr_ckpt *ck;
    struct supervised *sup;
    uint64_t step = 0, bytes;

    if (dlr_ckpt_open(NULL, &ck) < 0)
        return 2;
    dlr_ckpt_add_array(ck, "state", DLR_CKPT_BLOB, "u8", 1, state, MOST);
    if (dlr_ckpt_restore(ck, &step) != has || step != (has ? newest.step : 0))
        return 3;
    bytes = fill(expected, n->rank, step);
    if (has && memcmp(state, expected, bytes) != 0)
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

static void start_worker(struct node *n)
{
    int orders[2];
    char text[16];

    drop_waiting(n);

    n->restored = n->sealed = n->copied = n->failed = false;
    n->conn = -1;
    n->page->round = round_now;
    n->page->rank = n->rank;
    atomic_store(&n->page->begun_step, DLR_PAGE_NEVER);
    dlr_page_clear_orders(n->page);
    assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
    dlr_format(text, sizeof(text), "%u", round_now);
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

/* --- the agents ------------------------------------------------------------------------------- */

static bool whole(struct dlr_slot *slot, struct dlr_version *ret)
{
    enum dlr_slot_state s = slot ? dlr_slot_state(slot) : DLR_SLOT_FREE;
    struct dlr_slot_info info;

    if ((s != DLR_SLOT_SEALED && s != DLR_SLOT_COMMITTED) ||
        dlr_slot_verify(slot, NULL) < 0 || dlr_slot_info(slot, &info) < 0)
        return false;
    *ret = info.version;
    return true;
}

/* The slot of node n with a whole copy of rank's version v; -1. */
static int find(struct node *n, int rank, struct dlr_version v)
{
    struct dlr_version held;

    for (int k = 0; k < 2; k++)
        if (whole(n->slots[rank][k], &held) && dlr_version_eq(held, v))
            return k;
    return -1;
}

/* Waits until the data process has done what it was told, or is dead. */
static void settle(struct node *n)
{
    rig_order(&n->data, DLR_LOCAL_D_SEND, round_now, 99, newest, ++id, "00");
    n->data_dead = rig_done_or_dead(&n->data, id) < 0; /* that there is not */
}

static void tell(struct node *n, enum dlr_local_type type, struct dlr_version v)
{
    rig_order(&n->data, type, round_now, -1, v, 0, "");
    settle(n);
}

static void map_slots(struct node *n)
{
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(rig_reserve(&n->data, rank, slot_bytes), 0);
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
    if (has) {
        msg.arg[0] = 1;
        msg.arg[1] = newest.round;
        msg.arg[2] = (uint64_t)find(n, n->rank, newest);
        msg.step = newest.step;
        fds[1] = slot_fd(n, 0);
        fds[2] = slot_fd(n, 1);
    }
    dlr_local_send(n->conn, &msg, fds, has ? 3 : 1);
    for (unsigned k = 1; has && k < 3; k++)
        close(fds[k]);
}

static void give_slots(struct node *n, uint64_t bytes)
{
    struct dlr_local_msg msg;
    int fds[2];

    slot_bytes = bytes;
    if (!n->slots[0][0]) {
        map_slots(&nodes[0]);
        map_slots(&nodes[1]);
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
        dlr_local_send(nodes[i].conn, &msg, NULL, 0);
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
            fail_msg("seed %" PRIu64 ": %s", seed, m.text);
        n->restored = true;
        if (nodes[0].restored && nodes[1].restored)
            go();
    } else if (m.type == DLR_LOCAL_SEALED) {
        n->sealed = true;
        n->sending = ++id;
        rig_order(&n->data, DLR_LOCAL_D_SEND, round_now, n->rank,
                  (struct dlr_version){round_now, m.step}, n->sending,
                  nodes[1 - n->rank].data.address);
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

/* Takes what there is, or waits for something until the time is over. */
static void pump(int64_t until_ns)
{
    struct pollfd all[6], *fds[2] = {all, all + 3};
    int64_t left = until_ns - dlr_now_ns();
    struct timespec wait = {0};

    for (unsigned i = 0; i < 2; i++) {
        struct node *n = &nodes[i];

        fds[i][0] = (struct pollfd){n->conn >= 0 ? n->conn : n->listener, POLLIN, 0};
        fds[i][1] = (struct pollfd){n->data_dead ? -1 : n->data.fd, POLLIN, 0};
        fds[i][2] = (struct pollfd){n->pidfd, POLLIN, 0};
    }
    if (left > 0)
        wait = (struct timespec){left / 1000000000, left % 1000000000};
    if (ppoll(all, 6, &wait, NULL) <= 0)
        return;
    for (unsigned i = 0; i < 2; i++) {
        struct node *n = &nodes[i];

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

/* --- faults ------------------------------------------------------------------------------------ */

static void flip(struct node *n)
{
    struct dlr_slot *slot = n->slots[below(2)][below(2)];
    struct dlr_version v;
    struct dlr_slot_info info;
    const void *meta;
    size_t bytes;

    if (!whole(slot, &v))
        return;
    dlr_slot_info(slot, &info);
    dlr_slot_meta(slot, &meta, &bytes);
    bytes = below(4) == 0 ? below(bytes) : (size_t)below(info.data_bytes) + bytes;
    ((unsigned char *)dlr_slot_base(slot))[DLR_SLOT_PAGE + bytes] ^=
        (unsigned char)(1 << below(8));
}

static void strike(enum fault fault, struct node *n)
{
    if (fault == FLIP)
        flip(n);
    if (fault == FLIP || fault == KILL_WORKER || fault == KILL_NODE)
        kill(n->worker, SIGKILL);
    if (fault == KILL_DATA || fault == KILL_NODE)
        kill(n->data.pid, SIGKILL);
}

static void data_again(struct node *n, bool lost)
{
    rig_kill(&n->data);
    if (lost)
        rig_remove(&n->data);
    rig_start(&n->data, lost ? NULL : n->data.dir, NULL);
    rig_config(&n->data, round_now, RIG_TOKEN, "[0,1]");
    n->data_dead = false;
    if (slot_bytes)
        map_slots(n);
}

/* --- the supervisor ---------------------------------------------------------------------------- */

static void end_worker(struct node *n)
{
    int status;

    kill(n->worker, SIGKILL);
    assert_int_equal(waitpid(n->worker, &status, 0), n->worker);
    if (WIFEXITED(status))
        fail_msg("seed %" PRIu64 ": rank %d ended with %d in round %u", seed, n->rank,
                 WEXITSTATUS(status), round_now);
    close(n->orders);
    close(n->pidfd);
    if (n->conn >= 0)
        close(n->conn);
    n->conn = -1;
}

/* The newest version that has a whole copy of each rank somewhere. */
static bool restorable(struct dlr_version *ret)
{
    bool any = false;

    for (unsigned i = 0; i < 8; i++) {
        struct dlr_version v;

        if (!whole(nodes[i / 4].slots[i / 2 % 2][i % 2], &v) ||
            (any && dlr_version_cmp(v, *ret) <= 0) ||
            (find(&nodes[0], 0, v) < 0 && find(&nodes[1], 0, v) < 0) ||
            (find(&nodes[0], 1, v) < 0 && find(&nodes[1], 1, v) < 0))
            continue;
        *ret = v;
        any = true;
    }
    return any;
}

static bool is_network(int rc)
{
    return rc == ETIMEDOUT || rc == ECONNRESET;
}

/* Copies that are not sound are struck off; what node n lacks of rank comes from the other. UCX's
 * TCP now and then gives up a connection between processes that have just started.
 */
static void pull(struct node *n, int rank)
{
    struct node *from = &nodes[1 - n->rank];
    struct dlr_version v;
    int rc = ETIMEDOUT;

    if (find(n, rank, newest) >= 0)
        return;
    for (unsigned k = 0; k < 2; k++)
        if (!whole(n->slots[rank][k], &v))
            dlr_slot_set_state(n->slots[rank][k], DLR_SLOT_DEAD);
    for (unsigned turn = 0; is_network(rc) && turn < PULLS; turn++) {
        rig_order(&from->data, DLR_LOCAL_D_SEND, round_now, rank, newest, ++id,
                  n->data.address);
        rc = rig_done_or_dead(&from->data, id);
    }
    assert_int_equal(rc, 0);
    assert_true(find(n, rank, newest) >= 0);
}

/* Everything of the last round ends, and both ranks begin again from the newest version. */
static void next_round(bool lost_node, struct node *victim)
{
    static const struct dlr_version none = {UINT32_MAX, UINT64_MAX};
    struct dlr_version v = none;
    bool found;

    for (unsigned i = 0; round_now && i < 2; i++)
        end_worker(&nodes[i]);
    round_now++;
    for (unsigned i = 0; i < 2; i++) {
        rig_config(&nodes[i].data, round_now, RIG_TOKEN, "[0,1]");
        settle(&nodes[i]);
        if (nodes[i].data_dead || (lost_node && victim == &nodes[i]))
            data_again(&nodes[i], lost_node && victim == &nodes[i]);
    }
    found = restorable(&v);
    if (has && (!found || dlr_version_cmp(v, newest) < 0))
        fail_msg("seed %" PRIu64 ": version %u.%" PRIu64 " is lost", seed, newest.round,
                 newest.step);
    for (unsigned i = 0; i < 2; i++)
        tell(&nodes[i], DLR_LOCAL_D_DROP, v);
    has = found;
    newest = v;
    for (unsigned i = 0; found && i < 4; i++)
        pull(&nodes[i / 2], i % 2);
    for (unsigned i = 0; i < 2; i++) {
        if (found)
            tell(&nodes[i], DLR_LOCAL_D_COMMIT, v);
        start_worker(&nodes[i]);
    }
}

static bool over(void)
{
    return nodes[0].failed || nodes[1].failed || nodes[0].data_dead ||
           nodes[1].data_dead;
}

static bool copied(void)
{
    return nodes[0].copied && nodes[1].copied;
}

/* One slot at least, beside the undecided and the committed one. */
static void expect_room(const struct node *n)
{
    for (int k = 0; k < 2; k++)
        if (dlr_slot_state(n->slots[n->rank][k]) == DLR_SLOT_FREE ||
            dlr_slot_state(n->slots[n->rank][k]) == DLR_SLOT_DEAD)
            return;
    fail_msg("seed %" PRIu64 ": no slot is free", seed);
}

static void order(uint64_t step)
{
    for (unsigned i = 0; i < 2; i++) {
        struct node *n = &nodes[i];

        n->sealed = n->copied = false;
        if (n->slots[n->rank][0])
            expect_room(n);
        atomic_store(dlr_page_order(n->page, step), step);
        if (write(n->orders, &step, sizeof(step)) != sizeof(step))
            fail_msg("seed %" PRIu64 ": rank %d does not listen", seed, n->rank);
    }
}

/* The word, to each node as its agent has it: its own rank's slots, then the data process. */
static void commit(uint64_t step)
{
    newest = (struct dlr_version){round_now, step};
    has = true;
    for (unsigned i = 0; i < 2; i++) {
        struct node *n = &nodes[i];
        int k = find(n, n->rank, newest);

        if (k >= 0) { /* else a bit of it has flipped */
            dlr_slot_set_state(n->slots[n->rank][k], DLR_SLOT_COMMITTED);
            dlr_slot_set_state(n->slots[n->rank][1 - k], DLR_SLOT_FREE);
        }
        tell(n, DLR_LOCAL_D_COMMIT, newest);
    }
}

/* One save with a fault at some moment of it, before or after the commit. True: it was committed. */
static bool save(enum fault fault, struct node *victim)
{
    uint64_t step = (has ? newest.step : 0) + 2;
    int64_t limit = dlr_now_ns() + WAIT_MS * INT64_C(1000000);
    int64_t at = dlr_now_ns() + (int64_t)below(DELAY_US) * 1000;
    bool committed = false, struck = fault == NOTHING;

    order(step);
    while (!over() && !(committed && struck)) {
        int64_t now = dlr_now_ns();

        assert_true(now < limit);
        if (!struck && now >= at) {
            strike(fault, victim);
            struck = true;
        }
        if (!committed && copied()) {
            commit(step);
            committed = true;
        }
        if (!(committed && struck))
            pump(struck ? limit : at);
    }
    if (!struck)
        strike(fault, victim);
    return committed;
}

static void two_hundred_saves(void **state_of_test)
{
    unsigned count[FAULTS] = {0}, committed = 0;

    next_round(false, NULL);
    for (unsigned i = 0; i < SAVES; i++) {
        enum fault fault = below(2) ? NOTHING : (enum fault)below(FAULTS);
        struct node *victim = &nodes[below(2)];

        count[fault]++;
        committed += save(fault, victim);
        if (fault != NOTHING || over())
            next_round(fault == KILL_NODE, victim);
    }
    print_message("seed %" PRIu64 ": %u of %d saves committed, %u rounds", seed,
                  committed, SAVES, round_now);
    for (unsigned i = KILL_WORKER; i < FAULTS; i++)
        print_message(", %u x %s", count[i], names[i]);
    print_message("\n");
    assert_true(committed > SAVES / 2);
}

/* --- all -------------------------------------------------------------------------------------- */

static int set_up(void **state_of_test)
{
    const char *given = getenv("DLR_TEST_SEED");

    seed = given ? strtoull(given, NULL, 10) : (uint64_t)dlr_wall_ns() % 1000000;
    random_state = seed;
    print_message("DLR_TEST_SEED=%" PRIu64 " draws it again\n", seed);
    setenv("WORLD_SIZE", "2", 1);
    for (int i = 0; i < 2; i++) {
        struct node *n = &nodes[i];

        n->rank = i;
        rig_start(&n->data, NULL, NULL);
        rig_config(&n->data, 0, RIG_TOKEN, "[0,1]");
        dlr_format(n->path, sizeof(n->path), "/tmp/dlr-kill-%d-%d.sock", (int)getpid(),
                   i);
        assert_int_equal(dlr_local_listen(n->path, &n->listener, NULL), 0);
        n->page_fd = memfd_create("page", MFD_CLOEXEC);
        assert_int_equal(ftruncate(n->page_fd, DLR_PAGE_SIZE), 0);
        n->page = mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                       n->page_fd, 0);
        n->page->magic = DLR_PAGE_MAGIC;
        n->page->size = DLR_PAGE_SIZE;
    }
    return 0;
}

static int tear_down(void **state_of_test)
{
    for (int i = 0; i < 2; i++) {
        kill(nodes[i].worker, SIGKILL);
        waitpid(nodes[i].worker, NULL, 0);
        unlink(nodes[i].path);
        rig_kill(&nodes[i].data);
        rig_remove(&nodes[i].data);
        for (unsigned k = 0; k < 4; k++)
            dlr_slot_unmap(nodes[i].slots[k / 2][k % 2]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_hundred_saves, set_up, tear_down),
    };

    setenv("UCX_TLS", "tcp,self", 1); /* shared memory would hide the network */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
