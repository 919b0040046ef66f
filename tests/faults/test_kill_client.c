/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=common/base */
/* The library killed at every step of it: opening, restoring, a snapshot, its seal, the
 * word about it, the file of a program alone. Whoever comes next finds the old version
 * or the new one whole, on every rank the same, and never less than what was committed.
 */
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/store.h"
#include "ckpt/supervised/supervised.h"
#include "common/base/str.h"
#include "tests/faults/kill_points.h"
#include "tests/support/played_agent.h"

#define RANKS 2      /* of the program alone */
#define WORDS 137500 /* of a rank: two blocks */
#define BYTES (WORDS * sizeof(uint64_t))
#define FIRST 10 /* the step of the first version */

/* How a life ended that was not killed. */
enum { WENT_WELL = 10, WRONG_BYTES, NOT_RESTORED, NOT_SAVED };

static char dir[64], table[80];
static uint64_t state_of_rank[WORDS], expected[WORDS];

/* The state of a step: what the program would compute again. */
static void fill(uint64_t *to, int rank, uint64_t step)
{
    for (uint64_t i = 0; i < WORDS; i++)
        to[i] = (i ^ step << 40 ^ (uint64_t)rank << 32) * UINT64_C(0x9e3779b97f4a7c15);
}

static void compute(int rank, uint64_t step)
{
    fill(state_of_rank, rank, step);
}

static bool is_state(int rank, uint64_t step)
{
    fill(expected, rank, step);
    return memcmp(state_of_rank, expected, BYTES) == 0;
}

/* --- lives: child processes that end with a word or by a kill --------------------- */

/* The child's end as a word, -1 when it was killed. */
static int end_of(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    kill_points_off();
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return -1;
}

static void regions(struct dlr_ckpt *ck)
{
    dlr_ckpt_add_array(ck, "state", DLR_CKPT_LOCAL, "u64", 8, state_of_rank, WORDS);
}

/* --- alone ------------------------------------------------------------------------ */

/* Restores rank; *ret_step 0 when there was nothing. */
static int alone_open(int rank, struct dlr_ckpt **ret, uint64_t *ret_step)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .rank = rank, .world = RANKS};

    *ret_step = 0;
    if (dlr_ckpt_open(&conf, ret) < 0)
        return NOT_RESTORED;
    regions(*ret);
    if (dlr_ckpt_restore(*ret, ret_step) < 0)
        return NOT_RESTORED;
    return *ret_step == 0 || is_state(rank, *ret_step) ? WENT_WELL : WRONG_BYTES;
}

/* One life of all ranks, each after the other: restore, the next step, its save. */
static int alone_life(void)
{
    struct dlr_ckpt *ck[RANKS];
    uint64_t step[RANKS];
    int rc = WENT_WELL;

    for (int r = 0; rc == WENT_WELL && r < RANKS; r++)
        rc = alone_open(r, &ck[r], &step[r]);
    if (rc == WENT_WELL && step[0] != step[1])
        return NOT_RESTORED;
    for (int r = 0; rc == WENT_WELL && r < RANKS; r++) {
        compute(r, step[r] + FIRST);
        if (dlr_ckpt_begin(ck[r], step[r] + FIRST, NULL) != 1 ||
            dlr_ckpt_fence(ck[r], NULL) < 0)
            rc = NOT_SAVED;
    }
    for (int r = 0; rc == WENT_WELL && r < RANKS; r++)
        dlr_ckpt_close(ck[r]);
    return rc;
}

/* The step that all ranks restore now. */
static uint64_t alone_found(void)
{
    uint64_t step[RANKS];

    for (int r = 0; r < RANKS; r++) {
        struct dlr_ckpt *ck;

        if (alone_open(r, &ck, &step[r]) != WENT_WELL)
            fail_msg("rank %d: %s", r, dlr_ckpt_error(ck));
        dlr_ckpt_close(ck);
    }
    assert_int_equal(step[0], step[1]);
    return step[0];
}

/* One life that is killed at a point; RECORD: left alone, and its points are noted. */
static int alone_run(int point)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        kill_points_arm(point);
        _exit(alone_life());
    }
    return end_of(pid);
}

static void a_program_alone(void **state)
{
    unsigned seen[2] = {0}, points;
    uint64_t old, now = FIRST;

    assert_int_equal(alone_run(KILL_POINTS_OFF), WENT_WELL);
    assert_int_equal(alone_run(KILL_POINTS_RECORD), WENT_WELL);
    points = kill_points_count();
    now = alone_found();
    for (unsigned i = 0; i < points; i += KILL_POINTS_STRIDE) {
        int end = alone_run((int)i);

        old = now;
        now = alone_found();
        if (end != -1 && end != WENT_WELL)
            fail_msg("point %u: the life ended with %d", i, end);
        if (now != old + FIRST && (now != old || end == WENT_WELL))
            fail_msg("point %u: step %llu where %llu was", i, (unsigned long long)now,
                     (unsigned long long)old);
        if (end == -1)
            seen[now != old]++;
    }
    print_message("%u points: %u kills left the old version, %u the new one\n", points,
                  seen[0], seen[1]);
    assert_true(seen[0] > points / KILL_POINTS_STRIDE / 2 && seen[1] > 0);
}

/* --- under a job ------------------------------------------------------------------ */

struct job {
    struct played *f; /* the agent is this process, without its thread */
    bool has;
    uint64_t step; /* of the version that is restored next */
    unsigned slot; /* that has it */
};

static void wait_for_slots(struct supervised *sup)
{
    for (unsigned n = 0; n == 0; sched_yield()) {
        pthread_mutex_lock(&sup->lock);
        n = sup->nslots;
        pthread_mutex_unlock(&sup->lock);
    }
}

static int job_life(struct job *j)
{
    struct played *f = j->f;
    uint64_t step = 0, next;

    if (dlr_ckpt_open(NULL, &f->ck) < 0)
        return NOT_RESTORED;
    regions(f->ck);
    if (dlr_ckpt_restore(f->ck, &step) < 0 || (step != 0) != j->has)
        return NOT_RESTORED;
    if (step != 0 && (step != j->step || !is_state(2, step)))
        return WRONG_BYTES;
    next = step + FIRST;
    if (dlr_ckpt_begin(f->ck, step + 1, NULL) != 0) /* asks for slots */
        return NOT_SAVED;
    wait_for_slots(f->ck->mode);
    compute(2, next);
    played_order(f, next, j->has ? 1 - j->slot : 0);
    if (dlr_ckpt_begin(f->ck, next, NULL) != 1 || dlr_ckpt_fence(f->ck, NULL) < 0)
        return NOT_SAVED;
    dlr_ckpt_close(f->ck);
    return WENT_WELL;
}

/* A sealed slot is whole, whoever looks at it and whenever. */
static uint64_t sealed_step(struct dlr_slot *slot)
{
    struct dlr_slot_info info;
    struct dlr_err err;

    if (dlr_slot_verify(slot, &err) < 0)
        fail_msg("a sealed slot: %s", err.text);
    assert_int_equal(dlr_slot_info(slot, &info), 0);
    return info.version.step;
}

/* The supervisor's word, as the agent marks it. */
static void commit(struct job *j, unsigned k)
{
    struct dlr_slot **slots = j->f->agent.slots;

    j->step = sealed_step(slots[k]);
    j->slot = k;
    j->has = true;
    dlr_slot_set_state(slots[k], DLR_SLOT_COMMITTED);
    dlr_slot_set_state(slots[1 - k], DLR_SLOT_FREE);
}

static void welcome(struct job *j)
{
    struct played_agent *a = &j->f->agent;
    int fds[3] = {a->page_fd, -1, -1};
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_WELCOME);
    dlr_local_text(&msg, "%s", a->key);
    if (j->has) {
        msg.arg[0] = 1;
        msg.arg[1] = PLAYED_ROUND;
        msg.arg[2] = j->slot;
        msg.step = j->step;
        fds[1] = dlr_slot_fd(a->slots[0]);
        fds[2] = dlr_slot_fd(a->slots[1]);
    }
    dlr_local_send(a->conn, &msg, fds, j->has ? 3 : 1);
}

static void give_slots(struct job *j)
{
    struct played_agent *a = &j->f->agent;
    struct dlr_local_msg msg;
    int fds[2];

    for (unsigned k = 0; k < 2; k++) {
        char name[32];

        dlr_store_name(2, k, name, sizeof(name));
        if (!a->slots[k])
            assert_int_equal(
                dlr_slot_create(a->dirfd, name, a->msg.arg[0], &a->slots[k], NULL), 0);
        fds[k] = dlr_slot_fd(a->slots[k]);
    }
    dlr_local_init(&msg, DLR_LOCAL_SLOTS);
    msg.arg[0] = 2;
    dlr_local_send(a->conn, &msg, fds, 2);
}

/* The worker's next message; it may be dead before it has the answer. */
static void answer(struct job *j)
{
    struct played_agent *a = &j->f->agent;
    struct dlr_local_msg go;

    if (played_receive(a) <= 0) {
        close(a->conn);
        a->conn = -1;
        return;
    }
    if (a->msg.type == DLR_LOCAL_HELLO)
        welcome(j);
    else if (a->msg.type == DLR_LOCAL_RESERVE)
        give_slots(j);
    else if (a->msg.type == DLR_LOCAL_SEALED)
        commit(j, (unsigned)a->msg.arg[0]);
    else if (a->msg.type == DLR_LOCAL_RESTORED) {
        assert_int_equal(a->msg.arg[1], 0);
        dlr_local_init(&go, DLR_LOCAL_GO);
        dlr_local_send(a->conn, &go, NULL, 0);
    }
}

/* Plays the agent until the worker is dead and all that it said is heard. */
static void serve(struct job *j, pid_t pid)
{
    struct played_agent *a = &j->f->agent;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    for (;;) {
        struct pollfd fds[] = {{a->conn >= 0 ? a->conn : a->listener, POLLIN, 0},
                               {pidfd, POLLIN, 0}};

        assert_true(poll(fds, 2, PLAYED_WAIT_MS) > 0);
        if (!fds[0].revents)
            break;
        if (a->conn >= 0)
            answer(j);
        else
            a->conn = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);
    }
    close(pidfd);
}

static int job_run(struct job *j, int point)
{
    pid_t pid;

    atomic_store(&j->f->agent.page->begun_step, DLR_PAGE_NEVER);
    dlr_page_clear_orders(j->f->agent.page);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        kill_points_arm(point);
        _exit(job_life(j));
    }
    serve(j, pid);
    return end_of(pid);
}

/* What a dead worker sealed and could not say is a copy like others: the supervisor
 * restores it or has it dropped.
 */
static void settle(struct job *j, bool restore)
{
    unsigned k = 1 - j->slot;
    struct dlr_slot *slot = j->f->agent.slots[k];

    assert_int_equal(dlr_slot_state(j->f->agent.slots[j->slot]), DLR_SLOT_COMMITTED);
    assert_int_equal(sealed_step(j->f->agent.slots[j->slot]), j->step);
    if (dlr_slot_state(slot) == DLR_SLOT_SEALED && restore)
        commit(j, k);
    else
        dlr_slot_set_state(slot, DLR_SLOT_DEAD);
}

static void a_worker_under_a_job(void **state)
{
    struct job *j = *state;
    unsigned seen[2] = {0}, points;

    assert_int_equal(job_run(j, KILL_POINTS_OFF), WENT_WELL);
    assert_int_equal(job_run(j, KILL_POINTS_RECORD), WENT_WELL);
    points = kill_points_count();
    for (unsigned i = 0; i < points; i += KILL_POINTS_STRIDE) {
        uint64_t old = j->step;
        int end = job_run(j, (int)i);

        settle(j, i % 2);
        if (end != -1 && end != WENT_WELL)
            fail_msg("point %u: the life ended with %d", i, end);
        if (j->step != old + FIRST && (j->step != old || end == WENT_WELL))
            fail_msg("point %u: step %llu where %llu was", i,
                     (unsigned long long)j->step, (unsigned long long)old);
        if (end == -1)
            seen[j->step != old]++;
        old = j->step; /* and the next life finds it */
        assert_int_equal(job_run(j, KILL_POINTS_OFF), WENT_WELL);
        assert_int_equal(j->step, old + FIRST);
    }
    print_message("%u points: %u kills left the old version, %u the new one\n", points,
                  seen[0], seen[1]);
    assert_true(seen[0] > points / KILL_POINTS_STRIDE / 2 && seen[1] > 0);
}

/* --- all -------------------------------------------------------------------------- */

static int set_up(void **state)
{
    setenv("DLROVER_CKPT_AGREE_MS", "0", 1); /* ranks come one after the other */
    dlr_format(dir, sizeof(dir), "/dev/shm/dlr-test-kill-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    dlr_format(table, sizeof(table), "%s.points", dir);
    kill_points_new(table, true);
    return 0;
}

static int tear_down(void **state)
{
    unlink(table);
    return dlr_store_remove(dir, NULL);
}

static int job_up(void **state)
{
    struct job *j = calloc(1, sizeof(*j));

    *state = j;
    return set_up(NULL) < 0 ? -1 : played_setup((void **)&j->f);
}

static int job_down(void **state)
{
    struct job *j = *state;

    played_teardown((void **)&j->f);
    free(j);
    return tear_down(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_program_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_worker_under_a_job, job_up, job_down),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
