/* SPDX-License-Identifier: Apache-2.0 */
/* The library under a job, against an agent played by this program: a thread while the library
 * waits for answers, the test itself after that.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "ckpt/oom.h"
#include "ckpt/page.h"
#include "ckpt/slot_meta.h"
#include "ckpt/store.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/local.h"
#include "common/log.h"
#include "common/str.h"

#define KEY "cluster.7.run"
#define ROUND 4
#define N 1000000 /* bytes of "weights": with the rest two chunks */
#define WAIT_MS 30000

struct agent {
    char dir[64], path[96];
    int dirfd, listener, conn;
    int page_fd;
    struct dlr_page *page;
    struct dlr_slot *slots[2];
    struct dlr_local_msg msg; /* the last one received */

    /* what the thread does */
    pthread_t thread;
    bool offer, no_go, hang_up;
    struct dlr_version version;
    uint64_t offer_slot;
    const char *key;
    struct dlr_local_msg restored;
};

struct fixture {
    struct agent agent;
    struct dlr_ckpt *ck;
    unsigned char *weights;
    uint64_t count;
    char warned[256];
    atomic_bool was_warned;
};

static int receive(struct agent *a)
{
    struct pollfd p = {a->conn, POLLIN, 0};
    int fds[DLR_LOCAL_FDS];
    unsigned nfds = 0;

    if (poll(&p, 1, WAIT_MS) != 1)
        return -ETIMEDOUT;
    return dlr_local_recv(a->conn, &a->msg, fds, &nfds);
}

static void *welcome(void *arg)
{
    struct agent *a = arg;
    int fds[3] = {a->page_fd, -1, -1};
    struct dlr_local_msg msg;

    a->conn = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);
    receive(a);
    dlr_local_init(&msg, DLR_LOCAL_WELCOME);
    dlr_local_text(&msg, "%s", a->key);
    if (a->offer) {
        msg.arg[0] = 1;
        msg.arg[1] = a->version.round;
        msg.arg[2] = a->offer_slot;
        msg.step = a->version.step;
        fds[1] = dlr_slot_fd(a->slots[0]);
        fds[2] = dlr_slot_fd(a->slots[1]);
    }
    dlr_local_send(a->conn, &msg, fds, a->offer ? 3 : 1);
    if (!a->offer)
        return NULL;
    receive(a);
    a->restored = a->msg;
    if (a->hang_up) {
        close(a->conn);
        a->conn = -1;
    } else if (!a->no_go) {
        dlr_local_init(&msg, DLR_LOCAL_GO);
        dlr_local_send(a->conn, &msg, NULL, 0);
    }
    return NULL;
}

static void make_page(struct agent *a)
{
    a->page_fd = memfd_create("page", MFD_CLOEXEC);
    assert_int_equal(ftruncate(a->page_fd, DLR_PAGE_SIZE), 0);
    a->page =
        mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a->page_fd, 0);
    a->page->magic = DLR_PAGE_MAGIC;
    a->page->size = DLR_PAGE_SIZE;
    a->page->rank = 2;
    a->page->round = ROUND;
    atomic_store(&a->page->begun_step, DLR_PAGE_NEVER);
    atomic_store(&a->page->save_at, DLR_PAGE_NEVER);
    atomic_store(&a->page->committed_step, DLR_PAGE_NEVER);
}

static void keep_warning(void *arg, enum dlr_log_level level, const char *text)
{
    struct fixture *f = arg;

    dlr_format(f->warned, sizeof(f->warned), "%s", text);
    atomic_store(&f->was_warned, true);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct agent *a = &f->agent;

    dlr_format(a->dir, sizeof(a->dir), "/dev/shm/dlr-test-client-XXXXXX");
    assert_non_null(mkdtemp(a->dir));
    dlr_format(a->path, sizeof(a->path), "%s/agent.sock", a->dir);
    a->dirfd = open(a->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(dlr_local_listen(a->path, &a->listener, NULL), 0);
    make_page(a);
    a->conn = -1;
    a->key = KEY;
    f->weights = malloc(N);
    setenv("DLROVER_AGENT_SOCKET", a->path, 1);
    setenv("DLROVER_ROUND", "4", 1);
    setenv("RANK", "2", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("DLROVER_RESTORE_MS", "30000", 1);
    setenv("DLROVER_CKPT_FENCE_MS", "30000", 1);
    dlr_log_to(keep_warning, f, DLR_LOG_WARN);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    struct agent *a = &f->agent;

    dlr_log_to(NULL, NULL, DLR_LOG_WARN);
    for (unsigned i = 0; i < 2; i++)
        dlr_slot_unmap(a->slots[i]);
    munmap(a->page, DLR_PAGE_SIZE);
    close(a->page_fd);
    close(a->listener);
    if (a->conn >= 0)
        close(a->conn);
    close(a->dirfd);
    free(f->weights);
    assert_int_equal(dlr_store_remove(a->dir, NULL), 0);
    free(f);
    return 0;
}

static void start_agent(struct fixture *f)
{
    assert_int_equal(pthread_create(&f->agent.thread, NULL, welcome, &f->agent), 0);
}

static void name_regions(struct fixture *f)
{
    assert_int_equal(
        dlr_ckpt_add_array(f->ck, "weights", DLR_CKPT_SHARD, "u8", 1, f->weights, N),
        0);
    assert_int_equal(
        dlr_ckpt_add_array(f->ck, "again", DLR_CKPT_REPLICATED, "u8", 1, f->weights, N),
        0);
    assert_int_equal(
        dlr_ckpt_add_array(f->ck, "count", DLR_CKPT_BLOB, "u64", 8, &f->count, 1), 0);
}

/* A program that has opened its checkpoint and named its regions. */
static void join(struct fixture *f)
{
    start_agent(f);
    assert_int_equal(dlr_ckpt_open(NULL, &f->ck), 0);
    name_regions(f);
    if (f->agent.offer)
        return;
    pthread_join(f->agent.thread, NULL);
    assert_int_equal(f->agent.msg.type, DLR_LOCAL_HELLO);
}

static void fill(struct fixture *f, uint64_t step)
{
    for (unsigned i = 0; i < N; i++)
        f->weights[i] = (unsigned char)(i * 31 + i / 256 + step);
    f->count = step * 1000;
}

static void assert_filled(struct fixture *f, uint64_t step)
{
    for (unsigned i = 0; i < N; i++)
        if (f->weights[i] != (unsigned char)(i * 31 + i / 256 + step))
            fail_msg("byte %u is wrong", i);
    assert_int_equal(f->count, step * 1000);
}

/* Answers RESERVE with two slots, and waits until the library has them. */
static void give_slots(struct fixture *f)
{
    struct agent *a = &f->agent;
    struct dlr_local_msg msg;
    int fds[2];

    assert_int_equal(receive(a), 1);
    assert_int_equal(a->msg.type, DLR_LOCAL_RESERVE);
    for (unsigned i = 0; i < 2; i++) {
        char name[32];

        dlr_store_name(2, i, name, sizeof(name));
        if (!a->slots[i])
            assert_int_equal(
                dlr_slot_create(a->dirfd, name, a->msg.arg[0], &a->slots[i], NULL), 0);
        fds[i] = dlr_slot_fd(a->slots[i]);
    }
    dlr_local_init(&msg, DLR_LOCAL_SLOTS);
    msg.arg[0] = 2;
    assert_int_equal(dlr_local_send(a->conn, &msg, fds, 2), 0);
}

static void order(struct fixture *f, uint64_t step, uint64_t slot)
{
    atomic_store(&f->agent.page->save_slot, slot);
    atomic_store(&f->agent.page->save_at, step);
}

/* Begins steps until one is saved: the slots may take a moment to arrive. Each step that was
 * ordered and not saved must be reported. Returns the saved step.
 */
static uint64_t save_from(struct fixture *f, uint64_t step, uint64_t slot)
{
    int64_t limit = dlr_now_ms() + WAIT_MS;

    for (; dlr_now_ms() < limit; step++) {
        int rc;

        order(f, step, slot);
        fill(f, step);
        rc = dlr_ckpt_begin(f->ck, step, NULL);
        if (rc == 1)
            return step;
        assert_int_equal(rc, -ENODEV);
        assert_int_equal(receive(&f->agent), 1);
        assert_int_equal(f->agent.msg.type, DLR_LOCAL_DEAD);
        assert_int_equal(f->agent.msg.step, step);
    }
    fail_msg("the slots never came");
    return 0;
}

static void expect(struct fixture *f, enum dlr_local_type type)
{
    assert_int_equal(receive(&f->agent), 1);
    assert_int_equal(f->agent.msg.type, type);
    assert_int_equal(f->agent.msg.round, ROUND);
    assert_int_equal(f->agent.msg.rank, 2);
}

/* A sealed snapshot of step in slot k, by a former life of this rank. */
static void former_life(struct fixture *f, uint64_t step, uint64_t k)
{
    join(f);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), 0);
    give_slots(f);
    save_from(f, 2, k); /* until the slots are there */
    expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    assert_int_equal(save_from(f, step, k), step);
    expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    dlr_ckpt_close(f->ck);
    close(f->agent.conn);
    memset(f->weights, 0, N);
    f->count = 0;
    atomic_store(&f->agent.page->begun_step, DLR_PAGE_NEVER);
    atomic_store(&f->agent.page->save_at, DLR_PAGE_NEVER);
}

/* The next life is offered this version, said to be in slot k. */
static void offer(struct fixture *f, uint64_t step, uint64_t k)
{
    f->agent.offer = true;
    f->agent.version = (struct dlr_version){ROUND, step};
    f->agent.offer_slot = k;
}

static int oom_score(void)
{
    FILE *f = fopen("/proc/self/oom_score_adj", "re");
    int score = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &score), 1);
    fclose(f);
    return score;
}

static void a_worker_goes_before_its_agent_when_memory_runs_out(void **state)
{
    struct fixture *f = *state;

    assert_true(oom_score() < DLR_OOM_SCORE);
    join(f);
    assert_true(oom_score() >= DLR_OOM_SCORE);
    dlr_ckpt_close(f->ck);
}

static void a_step_without_an_order_saves_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t step;

    join(f);
    assert_int_equal(f->agent.msg.arg[0], 8);
    assert_int_equal(dlr_ckpt_restore(f->ck, &step), 0);
    give_slots(f);
    for (step = 1; step < 100; step++) {
        assert_int_equal(dlr_ckpt_begin(f->ck, step, NULL), 0);
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
        assert_int_equal(atomic_load(&f->agent.page->begun_step), step);
    }
    assert_true(atomic_load(&f->agent.page->progress_ns) > 0);
    dlr_ckpt_close(f->ck);
    expect(f, DLR_LOCAL_BYE);
}

static void an_ordered_step_is_sealed_and_told(void **state)
{
    struct fixture *f = *state;
    struct agent *a = &f->agent;
    struct dlr_slot_info info;
    struct dlr_ckpt_stats stats;
    uint64_t step;

    join(f);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), 0);
    give_slots(f);
    step = save_from(f, 2, 1);
    expect(f, DLR_LOCAL_SEALED); /* before any fence */
    assert_int_equal(a->msg.step, step);
    assert_int_equal(a->msg.arg[0], 1);
    assert_int_equal(a->msg.arg[1], step);
    assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    assert_int_equal(dlr_slot_state(a->slots[1]), DLR_SLOT_SEALED);
    assert_int_equal(dlr_slot_verify(a->slots[1], NULL), 0);
    assert_int_equal(dlr_slot_info(a->slots[1], &info), 0);
    assert_int_equal(info.key, dlr_slot_key(KEY));
    assert_int_equal(info.version.round, ROUND);
    assert_int_equal(info.version.step, step);
    assert_int_equal(info.rank, 2);
    assert_int_equal(info.world, 8);
    assert_int_equal(dlr_slot_state(a->slots[0]), DLR_SLOT_FREE);
    atomic_store(&a->page->committed_step, step);
    dlr_ckpt_stats(f->ck, &stats);
    assert_int_equal(stats.saves, 1);
    assert_int_equal(stats.committed_step, step);
    assert_int_equal(stats.copied_bytes, info.data_bytes);
    dlr_ckpt_close(f->ck);
}

static void memory_may_change_after_the_fence(void **state)
{
    struct fixture *f = *state;
    uint64_t step;

    join(f);
    dlr_ckpt_begin(f->ck, 1, NULL);
    give_slots(f);
    step = save_from(f, 2, 0);
    for (unsigned round = 0; round < 20; round++) {
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
        memset(f->weights, 0xee, N);
        expect(f, DLR_LOCAL_SEALED);
        assert_int_equal(dlr_slot_verify(f->agent.slots[round % 2], NULL), 0);
        assert_int_equal(
            ((unsigned char *)dlr_slot_base(f->agent.slots[round % 2]))[8192 + 77],
            (unsigned char)(77 * 31 + step));
        step = save_from(f, step + 1, (round + 1) % 2);
    }
    dlr_ckpt_fence(f->ck, NULL);
    dlr_ckpt_close(f->ck);
}

static void an_audit_names_a_region_changed_before_its_fence(void **state)
{
    struct fixture *f = *state;
    struct dlr_ckpt_stats stats;
    uint64_t step = 1;

    setenv("DLROVER_CKPT_AUDIT", "2", 1);
    join(f);
    unsetenv("DLROVER_CKPT_AUDIT");
    dlr_ckpt_begin(f->ck, 1, NULL);
    give_slots(f);
    for (unsigned save = 0; save < 6;
         save++) { /* audited: the first, third and fifth */
        bool early = save == 1 || save == 2;

        step = save_from(f, step + 1, save % 2);
        expect(f, DLR_LOCAL_SEALED);
        f->weights[N - 1] ^= early;
        if (save != 2) {
            assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
            continue;
        }
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), -EBADMSG);
        assert_non_null(
            strstr(dlr_ckpt_error(f->ck), "region 'weights' (2 in all) changed"));
        assert_true(atomic_load(&f->was_warned));
        expect(f, DLR_LOCAL_DEAD);
        assert_int_equal(f->agent.msg.step, step);
        assert_string_equal(f->agent.msg.text, dlr_ckpt_error(f->ck));
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0); /* told once */
    }
    dlr_ckpt_stats(f->ck, &stats);
    assert_int_equal(stats.changed, 1);
    dlr_ckpt_close(f->ck);
}

static void an_order_before_the_slots_are_here_is_reported(void **state)
{
    struct fixture *f = *state;

    join(f);
    order(f, 1, 0);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), -ENODEV);
    expect(f, DLR_LOCAL_RESERVE);
    expect(f, DLR_LOCAL_DEAD);
    assert_int_equal(f->agent.msg.step, 1);
    assert_string_equal(f->agent.msg.text, "slot 0 of 0 is not here yet");
    assert_int_equal(dlr_ckpt_begin(f->ck, 2, NULL), 0);
    dlr_ckpt_close(f->ck);
}

static void a_step_that_is_only_reported_is_missed(void **state)
{
    struct fixture *f = *state;

    join(f);
    dlr_ckpt_begin(f->ck, 1, NULL);
    give_slots(f);
    order(f, 2, 0);
    assert_int_equal(dlr_ckpt_progress(f->ck, 2), 0);
    expect(f, DLR_LOCAL_DEAD);
    assert_string_equal(f->agent.msg.text, "this step was reported without begin");
    dlr_ckpt_close(f->ck);
}

/* 64 MiB are not copied in a millisecond, unless this thread sleeps before its fence. */
static void a_fence_beyond_its_budget_gives_up_and_tells_when_it_let_go(void **state)
{
    const struct dlr_ckpt_conf conf = {.fence_ms = 1, .rank = 2, .world = 8};
    enum { BIG = 64 << 20 };
    struct fixture *f = *state;
    unsigned char *big =
        mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct dlr_ckpt_stats stats;
    int rc = 0;

    start_agent(f);
    assert_int_equal(dlr_ckpt_open(&conf, &f->ck), 0);
    pthread_join(f->agent.thread, NULL);
    dlr_ckpt_add_array(f->ck, "big", DLR_CKPT_LOCAL, "u8", 1, big, BIG);
    name_regions(f);
    dlr_ckpt_begin(f->ck, 1, NULL);
    give_slots(f);
    for (uint64_t step = 2; (step = save_from(f, step, 0)) < 100; step++) {
        rc = dlr_ckpt_fence(f->ck, NULL);
        if (rc < 0)
            break;
        expect(f, DLR_LOCAL_SEALED);
    }
    assert_int_equal(rc, -ETIMEDOUT);
    munmap(big, BIG); /* nobody reads it any more */
    expect(f, DLR_LOCAL_DEAD);
    assert_int_equal(dlr_slot_state(f->agent.slots[0]), DLR_SLOT_DEAD);
    assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    dlr_ckpt_stats(f->ck, &stats);
    assert_true(stats.given_up >= 1);
    dlr_ckpt_close(f->ck);
}

static void a_restore_loads_what_was_sealed(void **state)
{
    struct fixture *f = *state;
    struct dlr_ckpt_version v[2];
    uint64_t step = 0;

    former_life(f, 7000, 1);
    offer(f, 7000, 1);
    join(f);
    assert_int_equal(dlr_ckpt_list(f->ck, v, 2), 1);
    assert_int_equal(v[0].round, ROUND);
    assert_int_equal(v[0].step, 7000);
    assert_int_equal(dlr_ckpt_restore(f->ck, &step), 1);
    pthread_join(f->agent.thread, NULL);
    assert_int_equal(step, 7000);
    assert_filled(f, 7000);
    assert_int_equal(f->agent.restored.type, DLR_LOCAL_RESTORED);
    assert_int_equal(f->agent.restored.step, 7000);
    assert_int_equal(f->agent.restored.arg[0], ROUND);
    assert_int_equal(f->agent.restored.arg[1], 0);
    give_slots(f); /* RESERVE comes after the restore, and saving goes on */
    save_from(f, 8000, 0);
    expect(f, DLR_LOCAL_SEALED);
    dlr_ckpt_close(f->ck);
}

/* What is done to the sealed slot, or said about it, and how it must be refused. */
struct fault {
    const char *name;
    off_t at; /* byte of the file whose bit is flipped, 0: none */
    const char *key;
    uint64_t step, slot;
    int state;
    const char *text;
};
static const struct fault faults[] = {
    {"head", 4096 + 57, KEY, 7000, 1, 0, "the snapshot's head is corrupt"},
    {"region table", 4096 + 130, KEY, 7000, 1, 0, "the meta block's checksum is wrong"},
    {"a chunk's checksum", 4096 + 369, KEY, 7000, 1, 0,
     "the meta block's checksum is wrong"},
    {"first chunk", 8192 + 1000, KEY, 7000, 1, 0, "chunk 0 of 2 is corrupt"},
    {"last chunk", 8192 + 1999999, KEY, 7000, 1, 0, "chunk 1 of 2 is corrupt"},
    {"another run", 0, "cluster.8.run", 7000, 1, 0, "the snapshot is another run's"},
    {"another version", 0, KEY, 8000, 1, 0,
     "the slot holds version 4.7000, not 4.8000"},
    {"a slot that was not sent", 0, KEY, 7000, 9, 0,
     "the agent did not send the slot it names"},
    {"an open slot", 0, KEY, 7000, 1, DLR_SLOT_OPEN,
     "the slot is in state 1, not sealed"},
};

static void refused(void **state)
{
    struct fixture *f = *state;

    former_life(f, 7000, 1);
    for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        const struct fault *x = &faults[i];
        unsigned char *byte = (unsigned char *)dlr_slot_base(f->agent.slots[1]) + x->at;
        uint64_t step = 99;

        print_message("  %s\n", x->name);
        if (x->at)
            *byte ^= 8;
        dlr_slot_set_state(f->agent.slots[1], x->state ? x->state : DLR_SLOT_COMMITTED);
        offer(f, x->step, x->slot);
        f->agent.key = x->key;
        f->agent.hang_up = true; /* the supervisor ends the round */
        join(f);
        assert_int_equal(dlr_ckpt_restore(f->ck, &step), -EBADMSG);
        pthread_join(f->agent.thread, NULL);
        assert_string_equal(dlr_ckpt_error(f->ck), x->text);
        assert_int_equal(f->agent.restored.type, DLR_LOCAL_RESTORED);
        assert_int_equal(f->agent.restored.arg[1], EBADMSG);
        assert_string_equal(f->agent.restored.text, x->text);
        assert_int_equal(step, 99);
        dlr_ckpt_close(f->ck);
        if (x->at)
            *byte ^= 8;
    }
}

static void another_world_is_refused(void **state)
{
    struct fixture *f = *state;
    uint64_t step;

    former_life(f, 7000, 1);
    setenv("WORLD_SIZE", "9", 1);
    offer(f, 7000, 1);
    f->agent.hang_up = true;
    join(f);
    assert_int_equal(dlr_ckpt_restore(f->ck, &step), -EBADMSG);
    assert_string_equal(dlr_ckpt_error(f->ck), "the snapshot is of 8 ranks, now 9 run");
    pthread_join(f->agent.thread, NULL);
    dlr_ckpt_close(f->ck);
}

static void a_go_that_never_comes_is_waited_for_within_the_limit(void **state)
{
    struct fixture *f = *state;
    uint64_t step;
    int64_t t0;

    former_life(f, 7000, 1);
    setenv("DLROVER_RESTORE_MS", "300", 1);
    offer(f, 7000, 1);
    f->agent.no_go = true;
    join(f);
    t0 = dlr_now_ms();
    assert_int_equal(dlr_ckpt_restore(f->ck, &step), -ETIMEDOUT);
    assert_true(dlr_now_ms() - t0 >= 290);
    pthread_join(f->agent.thread, NULL);
    dlr_ckpt_close(f->ck);
}

static void a_vanished_agent_ends_saving_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    int64_t limit = dlr_now_ms() + WAIT_MS;
    uint64_t step;

    join(f);
    dlr_ckpt_begin(f->ck, 1, NULL);
    give_slots(f);
    step = save_from(f, 2, 0);
    close(f->agent.conn);
    f->agent.conn = -1;
    for (step++; !atomic_load(&f->was_warned) && dlr_now_ms() < limit; step++) {
        order(f, step, 1);
        assert_true(dlr_ckpt_begin(f->ck, step, NULL) >= -EBUSY);
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    }
    assert_non_null(dlr_after(f->warned, "nothing is saved from now on: the agent of "
                                         "this node"));
    for (unsigned i = 0; i < 10; i++, step++) {
        order(f, step, 1);
        assert_int_equal(dlr_ckpt_begin(f->ck, step, NULL), 0);
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    }
    dlr_ckpt_close(f->ck);
}

static void refused_memory_ends_saving_with_the_reason(void **state)
{
    struct fixture *f = *state;
    struct dlr_local_msg msg;
    int64_t limit = dlr_now_ms() + WAIT_MS;
    uint64_t step = 1;

    join(f);
    dlr_ckpt_begin(f->ck, step++, NULL);
    expect(f, DLR_LOCAL_RESERVE);
    dlr_local_init(&msg, DLR_LOCAL_SLOTS);
    dlr_local_text(&msg, "no space in /dev/shm");
    dlr_local_send(f->agent.conn, &msg, NULL, 0);
    while (!atomic_load(&f->was_warned) && dlr_now_ms() < limit)
        assert_int_equal(dlr_ckpt_begin(f->ck, step++, NULL), 0);
    assert_string_equal(f->warned,
                        "nothing is saved from now on: no space in /dev/shm");
    dlr_ckpt_close(f->ck);
}

static void a_page_of_another_rank_or_no_agent_at_all_fails_open(void **state)
{
    struct fixture *f = *state;

    f->agent.page->rank = 3;
    start_agent(f);
    assert_int_equal(dlr_ckpt_open(NULL, &f->ck), -EBADMSG);
    assert_string_equal(dlr_ckpt_error(NULL),
                        "the progress page is not that of this rank");
    pthread_join(f->agent.thread, NULL);
    unlink(f->agent.path);
    assert_int_equal(dlr_ckpt_open(NULL, &f->ck), -ENOENT);
}

/* As in a container: the path is not there, or leads to a file that nobody listens on. */
static void an_agent_out_of_sight_is_reached_by_its_descriptor(void **state)
{
    struct fixture *f = *state;
    int fd = open(f->agent.path, O_PATH | O_CLOEXEC);
    char number[16];

    assert_true(fd >= 0);
    dlr_format(number, sizeof(number), "%d", fd);
    setenv("DLROVER_AGENT_FD", number, 1);
    setenv("DLROVER_AGENT_SOCKET", "/dev/shm/elsewhere/agent.sock", 1);
    join(f);
    close(fd);
    dlr_ckpt_close(f->ck);
    setenv("DLROVER_AGENT_FD", "0",
           1); /* closed long ago, and taken by something else */
    assert_true(dlr_ckpt_open(NULL, &f->ck) < 0);
    unsetenv("DLROVER_AGENT_FD");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_worker_goes_before_its_agent_when_memory_runs_out),
        T(a_step_without_an_order_saves_nothing),
        T(an_agent_out_of_sight_is_reached_by_its_descriptor),
        T(an_ordered_step_is_sealed_and_told),
        T(memory_may_change_after_the_fence),
        T(an_audit_names_a_region_changed_before_its_fence),
        T(an_order_before_the_slots_are_here_is_reported),
        T(a_step_that_is_only_reported_is_missed),
        T(a_fence_beyond_its_budget_gives_up_and_tells_when_it_let_go),
        T(a_restore_loads_what_was_sealed),
        T(refused),
        T(another_world_is_refused),
        T(a_go_that_never_comes_is_waited_for_within_the_limit),
        T(a_vanished_agent_ends_saving_and_nothing_else),
        T(refused_memory_ends_saving_with_the_reason),
        T(a_page_of_another_rank_or_no_agent_at_all_fails_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
