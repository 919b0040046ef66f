/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* Which steps are saved where nobody says: rank 0's learning, what others make of its
 * word, and ranks of different speeds, each a process.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "ckpt/standalone/save_interval.h"
#include "common/base/file.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define MS INT64_C(1000000)
#define PPM 1000 /* 0.1 % */

/* A rank in time of its own. */
struct rank {
    struct dlr_save_interval s;
    struct dlr_save_interval_cost cost;
    int64_t now_ns, file_ns; /* the last file is written then */
    int dirfd;
};

static void begin(struct rank *r, int rank, int world)
{
    memset(r, 0, sizeof(*r));
    r->dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_true(r->dirfd >= 0);
    dlr_save_interval_init(&r->s, 0, PPM, r->dirfd, rank, world);
}

static void end(struct rank *r)
{
    close(r->dirfd);
}

/* True when it was saved. */
static bool pass(struct rank *r, uint64_t step, int64_t step_ms, int64_t save_ms)
{
    bool due = dlr_save_interval_due(&r->s, step);

    dlr_save_interval_begin(&r->s, step, r->now_ns, &r->cost);
    r->now_ns += (step_ms + (due ? save_ms : 0)) * MS;
    r->cost.saves += due;
    r->cost.blocked_ns += (uint64_t)((due ? save_ms : 0) * MS);
    return due;
}

static unsigned count(struct rank *r, uint64_t from, uint64_t to, int64_t step_ms,
                      int64_t save_ms)
{
    unsigned saved = 0;

    for (uint64_t step = from; step < to; step++)
        saved += pass(r, step, step_ms, save_ms);
    return saved;
}

static void saves_keep_to_the_budget(void **state)
{
    static const struct {
        const char *name;
        int64_t step_ms, save_ms;
        unsigned every;
    } rows[] = {
        {"free", 100, 0, 1},
        {"just too dear", 1000, 2, 2},
        {"dear", 100, 1, 16},
        {"short", 1, 10, 16384},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rank r;

        print_message("row '%s'\n", rows[i].name);
        begin(&r, 0, 1);
        count(&r, 1, 64, rows[i].step_ms, rows[i].save_ms);
        assert_int_equal(r.s.every, rows[i].every);
        end(&r);
    }
}

/* The others' fences take longer, and rank 0 waits for them in the step that follows.
 */
static void what_a_slower_ranks_saves_take_counts(void **state)
{
    struct rank r;

    begin(&r, 0, 4);
    for (uint64_t step = 1; step < 100000; step++) {
        if (pass(&r, step, 100, 5))
            r.now_ns += 495 * MS;
    }
    assert_int_equal(r.s.every, 8192); /* 500 ms of 100 ms are 0.1 % of 5,000 steps */
    end(&r);
}

static void saves_that_cost_little_are_each_second_step_of_several_ranks(void **state)
{
    struct rank r;

    begin(&r, 0, 4);
    count(&r, 1, 64, 100, 0);
    assert_int_equal(r.s.every, 2);
    end(&r);
}

static void each_step_is_saved_until_the_cost_is_known(void **state)
{
    struct rank r;

    begin(&r, 0, 1);
    assert_int_equal(count(&r, 1, 9, 100, 1), 8);
    assert_int_equal(count(&r, 9, 13, 100, 1), 4); /* others have time to look */
    assert_int_equal(count(&r, 13, 16, 100, 1), 0);
    assert_true(pass(&r, 16, 100, 1));
    assert_int_equal(count(&r, 17, 1025, 100, 1), 1008 / 16);
    end(&r);
}

static void steps_that_are_left_out_do_not_count(void **state)
{
    unsigned saved = 0;
    struct rank r;

    begin(&r, 0, 1);
    for (uint64_t step = 5; step < 3205; step += 10) /* never a multiple of 16 */
        saved += pass(&r, step, 1000, 1 * 10);       /* as 100 ms a step */
    assert_int_equal(r.s.every, 128);
    assert_true(saved > 3200 / 128);
    assert_true(saved < 3200 / 128 + 30);
    end(&r);
}

static void dearer_saves_are_rarer_and_cheaper_ones_more_frequent(void **state)
{
    struct rank r;

    begin(&r, 0, 1);
    count(&r, 1, 500, 100, 1);
    assert_int_equal(r.s.every, 16);
    count(&r, 500, 10000, 100, 20);
    assert_int_equal(r.s.every, 256);
    count(&r, 10000, 50000, 100, 1);
    assert_true(r.s.every <= 32);
    end(&r);
}

/* The file of a save is written for write_ms beside the steps that follow it; a save
 * that comes earlier waits.
 */
static bool pass_beside_file(struct rank *r, uint64_t step, int64_t step_ms,
                             int64_t write_ms)
{
    bool due = dlr_save_interval_due(&r->s, step);
    int64_t wait_ns = due && r->now_ns < r->file_ns ? r->file_ns - r->now_ns : 0;

    r->cost.writing = r->now_ns < r->file_ns;
    pass(r, step, step_ms, 0);
    r->now_ns += wait_ns;
    r->cost.blocked_ns += (uint64_t)wait_ns;
    r->cost.waited_ns += (uint64_t)wait_ns;
    if (due) {
        r->file_ns = r->now_ns + write_ms * MS;
        r->cost.write_ns = write_ms * MS;
    }
    return due;
}

static void a_save_is_no_sooner_than_the_file_before_it_is_written(void **state)
{
    static const struct {
        const char *name;
        int64_t step_ms, write_ms;
        unsigned every;
    } rows[] = {
        {"none", 100, 0, 1},
        {"within a step", 100, 99, 1},
        {"of three steps", 100, 300, 8},
        {"of four steps", 100, 400, 8},
        {"longer than four", 100, 401, 16},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rank r;

        print_message("row '%s'\n", rows[i].name);
        begin(&r, 0, 1);
        for (uint64_t step = 1; step < 500; step++)
            pass_beside_file(&r, step, rows[i].step_ms, rows[i].write_ms);
        assert_int_equal(r.s.every, rows[i].every);
        end(&r);
    }
}

/* No budget: each step is saved, whatever a file takes. */
static void without_a_budget_a_file_makes_no_save_rarer(void **state)
{
    struct rank r;

    begin(&r, 0, 1);
    dlr_save_interval_init(&r.s, 0, 0, r.dirfd, 0, 1);
    for (uint64_t step = 1; step < 500; step++)
        assert_true(pass_beside_file(&r, step, 100, 1000));
    end(&r);
}

/* Steps beside a file that take longer are what its save has cost. */
static void steps_that_a_file_makes_longer_count(void **state)
{
    struct rank r;

    begin(&r, 0, 1);
    for (uint64_t step = 1; step < 5000; step++) {
        bool beside = r.now_ns < r.file_ns;

        pass_beside_file(&r, step, 100, 400);
        r.now_ns += beside ? 10 * MS : 0;
    }
    assert_true(r.s.every >= 256 && r.s.every <= 512); /* some 40 ms of 100 ms steps */
    end(&r);
}

/* Else a program whose first steps are short would save nothing for hours. */
static void longer_steps_are_noticed_before_the_next_save(void **state)
{
    struct rank r;

    begin(&r, 0, 1);
    count(&r, 1, 100, 1, 50);
    assert_int_equal(r.s.every, 65536);
    assert_int_equal(count(&r, 100, 300, 1000, 50), 200 / 64);
    assert_int_equal(r.s.every, 64);
    end(&r);
}

static void a_number_is_kept_to(void **state)
{
    struct rank r;

    begin(&r, 0, 1);
    dlr_save_interval_init(&r.s, 7, PPM, r.dirfd, 0, 1);
    for (uint64_t step = 1; step < 100; step++)
        assert_int_equal(pass(&r, step, 1, 50), step % 7 == 0);
    for (uint64_t step = 105; step < 1000; step += 10) /* some of them are left out */
        assert_int_equal(pass(&r, step, 1, 50), 1);
    dlr_save_interval_init(&r.s, 20, PPM, r.dirfd, 0, 1);
    for (uint64_t step = 5; step < 1000; step += 10) /* never a multiple */
        assert_int_equal(pass(&r, step, 1, 50), step % 20 == 5 && step > 20);
    end(&r);
}

/* Rank 1 looks when rank 0 has passed the step from which its word holds. */
static void who_hears_late_still_saves_what_counts(void **state)
{
    bool saved[2][4096] = {{false}};
    struct rank r[2];

    for (int i = 0; i < 2; i++)
        begin(&r[i], i, 2);
    for (unsigned step = 1; step < 2000; step++) {
        saved[0][step] = pass(&r[0], step, 100, step < 1000 ? 1 : 40);
        if (step > 100)
            saved[1][step - 100] = pass(&r[1], step - 100, 100, 1);
    }
    assert_int_equal(r[0].s.every, 256);
    for (unsigned step = 1; step < 1900; step++) {
        assert_true(!saved[0][step] || saved[1][step]);
        if (step < 1000 || step >= 1400) /* rank 1 has heard the last word */
            assert_int_equal(saved[0][step], saved[1][step]);
    }
    for (int i = 0; i < 2; i++)
        end(&r[i]);
}

static void write_word(const char *text)
{
    struct iovec part = {(char *)text, strlen(text)};
    int fd = open(dir, O_RDONLY | O_DIRECTORY);

    assert_int_equal(dlr_file_replace(fd, "cadence", 0600, &part, 1, NULL), 0);
    close(fd);
}

static void what_is_no_word_of_rank_0_is_passed_over(void **state)
{
    static const struct {
        const char *text;
        unsigned every;
    } rows[] = {
        {"dlrover-cadence 1\nfrom 3\nevery 64\nblocked_ms 5\n", 64},
        {"dlrover-cadence 1\nfrom 3\nevery 64\n", 64},
        {"dlrover-cadence 1\nfrom 3\nevery 64", 1},
        {"dlrover-cadence 2\nfrom 3\nevery 64\n", 1},
        {"dlrover-cadence 1\nfrom 3\nevery 63\n", 1},
        {"dlrover-cadence 1\nfrom 3\nevery 0\n", 1},
        {"dlrover-cadence 1\nfrom 3\nevery 2097152\n", 1},
        {"dlrover-cadence 1\nfrom 3\nevery 99999999\n", 1},
        {"dlrover-cadence 1\nfrom -3\nevery 64\n", 1},
        {"", 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rank r;

        print_message("row %zu\n", i);
        write_word(rows[i].text);
        begin(&r, 1, 2);
        count(&r, 1, 5, 1, 1);
        assert_int_equal(r.s.every, rows[i].every);
        end(&r);
    }
}

static void what_an_earlier_start_has_left_is_removed(void **state)
{
    struct rank r;

    write_word("dlrover-cadence 1\nfrom 3\nevery 64\n");
    begin(&r, 1, 2);
    dlr_save_interval_forget(&r.s); /* not for this rank to do */
    assert_int_equal(faccessat(r.dirfd, "cadence", F_OK, 0), 0);
    end(&r);
    begin(&r, 0, 2);
    dlr_save_interval_forget(&r.s);
    assert_int_equal(faccessat(r.dirfd, "cadence", F_OK, 0), -1);
    end(&r);
}

/* --- processes -------------------------------------------------------------------- */

#define WORLD 4
#define STEPS 300

struct shared {
    pthread_barrier_t all;
    bool saved[WORLD][STEPS + 1];
};

static void nap(unsigned us)
{
    const struct timespec t = {0, us * 1000};

    nanosleep(&t, NULL);
}

/* Together: each step ends for all at once, as with a collective. */
static void run_rank(struct shared *sh, int rank, bool together)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .rank = rank, .world = WORLD};
    uint32_t data[1000] = {0};
    unsigned seed = (unsigned)rank;
    struct dlr_ckpt *ck;

    if (dlr_ckpt_open(&conf, &ck) < 0 ||
        dlr_ckpt_add_array(ck, "data", DLR_CKPT_LOCAL, "u32", 4, data, 1000) < 0)
        _exit(99);
    for (uint64_t step = 1; step <= STEPS; step++) {
        nap((unsigned)rand_r(&seed) % (together ? 500 : 200 * ((unsigned)rank + 1)));
        if (together)
            pthread_barrier_wait(&sh->all);
        data[0] = (uint32_t)step;
        int due = dlr_ckpt_due(ck, step), rc = dlr_ckpt_begin(ck, step, NULL);

        if (rc < 0 || (step > 1 && due != rc) || dlr_ckpt_fence(ck, NULL) < 0) {
            print_message("rank %d, step %d: %d, %s\n", rank, (int)step, rc,
                          dlr_ckpt_error(ck));
            _exit(98);
        }
        sh->saved[rank][step] = rc > 0;
    }
    dlr_ckpt_close(ck);
    _exit(0);
}

static struct shared *run_all(bool together)
{
    struct shared *sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attr;
    pid_t pids[WORLD];
    int status;

    assert_true(sh != MAP_FAILED);
    unsetenv("DLROVER_CKPT_EVERY");
    setenv("DLROVER_CKPT_BUDGET", "10%", 1);
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&sh->all, &attr, WORLD);
    for (int rank = 0; rank < WORLD; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0)
            run_rank(sh, rank, together);
    }
    for (int rank = 0; rank < WORLD; rank++) {
        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        assert_int_equal(status, 0);
    }
    unsetenv("DLROVER_CKPT_BUDGET");
    return sh;
}

static unsigned saves_of(const struct shared *sh, int rank)
{
    unsigned n = 0;

    for (unsigned step = 1; step <= STEPS; step++)
        n += sh->saved[rank][step];
    print_message("rank %d: %u saves\n", rank, n);
    return n;
}

static void ranks_that_work_together_save_the_same_steps(void **state)
{
    struct shared *sh = run_all(true);
    unsigned saves = saves_of(sh, 0);

    assert_true(saves >= DLR_CADENCE_LEARN && saves < STEPS);
    for (int rank = 1; rank < WORLD; rank++)
        assert_memory_equal(sh->saved[rank], sh->saved[0], sizeof(sh->saved[0]));
    munmap(sh, sizeof(*sh));
}

/* Each at its own pace: some hear of a stride late, and still there is a version to
 * begin from.
 */
static void ranks_that_do_not_still_leave_whole_versions(void **state)
{
    struct shared *sh = run_all(false);
    struct dlr_ckpt_version list[8];
    const struct dlr_ckpt_conf conf = {.dir = dir, .rank = 0, .world = WORLD};
    struct dlr_ckpt *ck;

    for (int rank = 0; rank < WORLD; rank++)
        saves_of(sh, rank);
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    assert_true(dlr_ckpt_list(ck, list, 8) > 0);
    for (int rank = 0; rank < WORLD; rank++)
        assert_true(sh->saved[rank][list[0].step]);
    dlr_ckpt_close(ck);
    munmap(sh, sizeof(*sh));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, standalone_setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        T(saves_keep_to_the_budget),
        T(what_a_slower_ranks_saves_take_counts),
        T(saves_that_cost_little_are_each_second_step_of_several_ranks),
        T(each_step_is_saved_until_the_cost_is_known),
        T(steps_that_are_left_out_do_not_count),
        T(dearer_saves_are_rarer_and_cheaper_ones_more_frequent),
        T(a_save_is_no_sooner_than_the_file_before_it_is_written),
        T(without_a_budget_a_file_makes_no_save_rarer),
        T(steps_that_a_file_makes_longer_count),
        T(longer_steps_are_noticed_before_the_next_save),
        T(a_number_is_kept_to),
        T(who_hears_late_still_saves_what_counts),
        T(what_is_no_word_of_rank_0_is_passed_over),
        T(what_an_earlier_start_has_left_is_removed),
        T(ranks_that_work_together_save_the_same_steps),
        T(ranks_that_do_not_still_leave_whole_versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
