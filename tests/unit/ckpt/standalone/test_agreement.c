/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* Ranks without a job that start at about the same time, each a process: they load the
 * same version, and read no more of it than they must.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "ckpt/standalone/agreement.h"
#include "common/base/str.h"
#include "tests/support/flip.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define WORLD 4
#define ITEMS (1u << 20) /* of all ranks */
#define OLD 3
#define NEW 4
#define FOR_EVER_MS "1000000"
#define LONG_MS "60000" /* nobody waits so long where all do what they should */

static uint32_t item(uint64_t step, uint64_t i)
{
    return (uint32_t)(i * 2654435761u + step * 97);
}

/* A rank's share of one array. */
static struct dlr_ckpt *join(int rank, int world, uint32_t **ret_data, uint64_t *ret_n)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .rank = rank, .world = world};
    const uint64_t n = ITEMS / (uint64_t)world;
    const struct dlr_ckpt_region region = {.name = "data",
                                           .kind = DLR_CKPT_SHARD,
                                           .dtype = "u32",
                                           .item_size = 4,
                                           .ndim = 1,
                                           .global_shape = {ITEMS},
                                           .offset = {n * (uint64_t)rank},
                                           .local_shape = {n},
                                           .addr = *ret_data = calloc(n, 4)};
    struct dlr_ckpt *ck;

    *ret_n = n;
    if (dlr_ckpt_open(&conf, &ck) < 0 || dlr_ckpt_add(ck, &region) < 0)
        _exit(99);
    return ck;
}

/* Each rank's files of OLD and NEW. */
static void save_both(void)
{
    setenv("DLROVER_CKPT_AGREE_MS", "0", 1);
    for (int rank = 0; rank < WORLD; rank++) {
        uint32_t *data;
        uint64_t n;
        struct dlr_ckpt *ck = join(rank, WORLD, &data, &n);

        for (uint64_t step = OLD; step <= NEW; step++) {
            for (uint64_t i = 0; i < n; i++)
                data[i] = item(step, n * (uint64_t)rank + i);
            assert_int_equal(dlr_ckpt_begin(ck, step, NULL), 1);
            assert_int_equal(dlr_ckpt_flush(ck), 0);
        }
        dlr_ckpt_close(ck);
        free(data);
    }
}

/* Bytes that this process has read; 0 where the kernel does not say. */
static uint64_t bytes_read(void)
{
    FILE *file = fopen("/proc/self/io", "r");
    unsigned long long n = 0;

    if (file && fscanf(file, "rchar: %llu", &n) != 1)
        n = 0;
    if (file)
        fclose(file);
    return n;
}

struct result {
    int rank, rc;
    uint64_t step, read;
};

/* In a process of its own; what it loaded is what was saved, or the process fails. */
static pid_t start(int rank, int world, const char *limit_ms, int out)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    setenv("DLROVER_CKPT_AGREE_MS", limit_ms, 1);
    uint64_t n, before = bytes_read();
    struct result r = {.rank = rank};
    uint32_t *data;
    struct dlr_ckpt *ck = join(rank, world, &data, &n);

    r.rc = dlr_ckpt_restore(ck, &r.step);
    r.read = bytes_read() - before;
    for (uint64_t i = 0; r.rc == 1 && i < n; i++)
        if (data[i] != item(r.step, n * (uint64_t)rank + i))
            _exit(98);
    dlr_ckpt_close(ck);
    _exit(write(out, &r, sizeof(r)) != sizeof(r));
}

struct start {
    const char *name;
    int world;         /* that restores */
    unsigned absent;   /* bits of ranks that never come */
    const char *spoil; /* file */
    const char *limit_ms;
    uint64_t step;  /* all get; 0: nothing */
    double at_most; /* files' worth that a rank reads; 0: no matter */
    int rc;         /* of all: less than 0 */
};

static void run(const struct start *s)
{
    pid_t pids[WORLD] = {0};
    int fds[2], status;
    struct result r;

    assert_int_equal(pipe(fds), 0);
    for (int rank = 0; rank < s->world; rank++)
        if (!(s->absent >> rank & 1))
            pids[rank] = start(rank, s->world, s->limit_ms, fds[1]);
    close(fds[1]);
    while (read(fds[0], &r, sizeof(r)) == sizeof(r)) {
        print_message("  rank %d: %d, step %d, %.2f files read\n", r.rank, r.rc,
                      (int)r.step, (double)r.read / ITEMS);
        assert_int_equal(r.rc, s->rc < 0 ? s->rc : s->step != 0);
        assert_int_equal(r.step, s->step);
        if (s->at_most > 0 && (double)r.read > s->at_most * ITEMS)
            fail_msg("rank %d has read %.2f files' worth", r.rank,
                     (double)r.read / ITEMS);
    }
    close(fds[0]);
    for (int rank = 0; rank < s->world; rank++)
        if (pids[rank] > 0) {
            assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
            assert_int_equal(status, 0);
        }
}

/* A file of a rank has ITEMS bytes, as long as ITEMS 4-byte items are shared by four.
 * Its own is read twice, to be checked and to be loaded; heads and words are little.
 */
static const struct start starts[] = {
    {"all is well", 4, 0, NULL, LONG_MS, NEW, 2.2},
    {"a rank's newest is corrupt", 4, 0, "r2-4.safetensors", LONG_MS, OLD, 3.2},
    {"rank 0's newest is corrupt", 4, 0, "r0-4.safetensors", LONG_MS, OLD, 3.2},
    {"two load what four saved", 2, 0, NULL, LONG_MS, NEW, 4.2},
    {"and one of them is corrupt", 2, 0, "r3-4.safetensors", LONG_MS, OLD, 6.2},
    {"a rank never comes", 4, 1u << 3, NULL, "500", NEW, 0},
    {"nor does one whose newest is corrupt", 4, 1u << 3, "r3-4.safetensors", "500", OLD,
     0},
    {"rank 0 never comes", 4, 1, "r1-4.safetensors", "300", OLD, 0},
    {"each for itself", 4, 0, NULL, "0", NEW, 0},
    {"each for itself, past a corrupt file", 4, 0, "r3-4.safetensors", "0", OLD, 0},
};

static void all_load_the_same_version(void **state)
{
    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
        print_message("%s\n", starts[i].name);
        save_both();
        if (starts[i].spoil)
            flip_bit(dir, starts[i].spoil, 200000);
        run(&starts[i]);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(standalone_setup(NULL), 0);
    }
}

static void remove_files(int rank)
{
    for (int step = OLD; step <= NEW; step++) {
        char path[128];

        dlr_format(path, sizeof(path), "%s/r%d-%d.safetensors", dir, rank, step);
        assert_int_equal(unlink(path), 0);
    }
}

static void
nothing_there_is_a_fresh_start_for_all_and_nothing_whole_an_error(void **state)
{
    static const struct start bad = {"nothing whole", 4, 0, NULL,
                                     LONG_MS,         0, 0, -EBADMSG};
    static const struct start s = {"nothing", 4, 0, NULL, LONG_MS, 0, 0};
    static const struct start late = {"rank 0 is ahead", 4, 1, NULL, FOR_EVER_MS, 0, 0};

    run(&s); /* an empty directory: nobody waits */
    save_both();
    for (int rank = 1; rank < WORLD; rank++)
        remove_files(rank);
    run(&late); /* what rank 0 has written since is no version */
    save_both();
    flip_bit(dir, "r1-3.safetensors", 200000);
    flip_bit(dir, "r0-4.safetensors", 100); /* its head */
    run(&bad);
    setenv("DLROVER_CKPT_FRESH", "on", 1);
    run(&s);
    unsetenv("DLROVER_CKPT_FRESH");
}

static bool is_there(const char *name)
{
    char path[128];

    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* Rank 0's decision is still there; the file was whole then. */
static void a_decision_of_an_earlier_start_is_not_believed(void **state)
{
    static const struct start well = {"well", 4, 0, NULL, LONG_MS, NEW, 0},
                              headless = {"without rank 0", 4, 1, NULL, "300", OLD, 0},
                              all = {"all", 4, 0, NULL, LONG_MS, OLD, 0};

    save_both();
    run(&well);
    flip_bit(dir, "r1-4.safetensors", 200000);
    assert_true(is_there(".agree-0"));
    run(&headless);
    run(&all);
}

static void an_answer_of_a_killed_rank_is_not_believed(void **state)
{
    static const struct start corrupt = {"without it", 4, 1u << 1, NULL, "600", OLD, 0};
    int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), fds[2];
    struct pollfd p = {watch, POLLIN, 0};
    char events[4096];
    pid_t pids[2];

    save_both();
    assert_true(inotify_add_watch(watch, dir, IN_MOVED_TO) >= 0);
    assert_int_equal(pipe(fds), 0);
    for (int rank = 0; rank < 2; rank++) /* rank 0 waits for the others */
        pids[rank] = start(rank, WORLD, LONG_MS, fds[1]);
    while (!is_there(".agree-1")) {
        assert_true(poll(&p, 1, 60000) > 0);
        assert_true(read(watch, events, sizeof(events)) > 0);
    }
    for (int rank = 0; rank < 2; rank++) {
        kill(pids[rank], SIGKILL);
        waitpid(pids[rank], NULL, 0);
    }
    close(watch);
    close(fds[0]);
    close(fds[1]);
    assert_true(is_there(".agree-0") && is_there(".agree-1"));
    flip_bit(dir, "r1-4.safetensors", 200000);
    run(&corrupt);
}

/* Rank 0 restores with the others and saves NEW again; then all are killed, before
 * another has begun.
 */
static void write_new_as_rank_0(const char *limit_ms, uint64_t restores)
{
    struct dlr_ckpt *ck;
    uint32_t *data;
    uint64_t n, step = 0;
    pid_t pids[WORLD];
    int fds[2], status;

    assert_int_equal(pipe(fds), 0);
    for (int rank = 1; rank < WORLD; rank++)
        pids[rank] = start(rank, WORLD, limit_ms, fds[1]);
    setenv("DLROVER_CKPT_AGREE_MS", limit_ms, 1);
    ck = join(0, WORLD, &data, &n);
    assert_int_equal(dlr_ckpt_restore(ck, &step), restores != 0);
    assert_int_equal(step, restores);
    for (int rank = 1; rank < WORLD; rank++) {
        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        assert_int_equal(status, 0);
    }
    assert_false(is_there("r0-4.safetensors"));
    assert_int_equal(dlr_ckpt_begin(ck, NEW, NULL), 1);
    assert_int_equal(dlr_ckpt_flush(ck), 0);
    assert_true(is_there("r0-4.safetensors"));
    dlr_ckpt_close(ck);
    free(data);
    close(fds[0]);
    close(fds[1]);
}

static void no_version_is_of_two_lines_of_steps(void **state)
{
    static const struct {
        const char *name, *limit_ms;
        const char *spoil[2];
        uint64_t step;
    } rows[] = {
        {"agreed", LONG_MS, {"r0-4.safetensors"}, OLD},
        {"another's is corrupt", LONG_MS, {"r2-4.safetensors"}, OLD},
        {"nothing is whole", LONG_MS, {"r0-4.safetensors", "r0-3.safetensors"}, 0},
        {"each for itself", "0", {"r0-4.safetensors"}, OLD},
        {"nothing, each for itself", "0", {"r0-4.safetensors", "r0-3.safetensors"}, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct start again = {"again", WORLD, 0, NULL, LONG_MS, rows[i].step, 0};

        print_message("%s\n", rows[i].name);
        save_both();
        for (int k = 0; k < 2 && rows[i].spoil[k]; k++)
            flip_bit(dir, rows[i].spoil[k], 200000);
        setenv("DLROVER_CKPT_FRESH", rows[i].step ? "off" : "on", 1);
        write_new_as_rank_0(rows[i].limit_ms, rows[i].step);
        run(&again);
        unsetenv("DLROVER_CKPT_FRESH");
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(standalone_setup(NULL), 0);
    }
}

/* A program may refuse to go on from what restore found. */
static void a_restore_removes_nothing(void **state)
{
    static const struct start s = {"old",   WORLD, 0, "r1-4.safetensors",
                                   LONG_MS, OLD,   0};
    char from[128], to[128];

    save_both();
    flip_bit(dir, s.spoil, 200000);
    run(&s);
    for (int rank = 0; rank < WORLD; rank++) {
        dlr_format(from, sizeof(from), "%s/r%d-4.safetensors.aside-1", dir, rank);
        dlr_format(to, sizeof(to), "%s/r%d-4.safetensors", dir, rank);
        assert_int_equal(rename(from, to), 0);
    }
    flip_bit(dir, s.spoil, 200000); /* mended */
    run(&starts[0]);
}

/* --- the talk alone --------------------------------------------------------------- */

#define SLOW_LIMIT_MS 4000
#define SLOW_BLOCKS 24 /* each a sixteenth of the limit */

static int made_by_all(void *arg, uint64_t step, uint32_t *ret_world)
{
    *ret_world = WORLD;
    return 0;
}

/* The files of ranks 0 and 2 are read for longer than the limit. */
static int check_slowly(void *arg, int rank, uint64_t step, uint32_t world,
                        const struct dlr_alive *alive)
{
    unsigned *checked = arg;

    ++*checked;
    for (int i = 0; rank % 2 == 0 && i < SLOW_BLOCKS; i++) {
        poll(NULL, 0, SLOW_LIMIT_MS / 16);
        alive->f(alive->arg);
    }
    return 0;
}

static int settle_nothing(void *arg, uint64_t from)
{
    return from == NEW + 1 ? 0 : -EINVAL;
}

static int talk_of(int dirfd, int rank)
{
    unsigned checked = 0;
    const struct dlr_agreement with = {dirfd,          rank,        WORLD,
                                       SLOW_LIMIT_MS,  made_by_all, check_slowly,
                                       settle_nothing, &checked};
    const uint64_t steps[] = {NEW};
    uint64_t step = 0;
    uint32_t world = 0;
    struct dlr_err err;

    if (dlr_agreement_choose(&with, steps, 1, &step, &world, &err) != 1 || step != NEW)
        return 1;
    return checked == 1 ? 0 : 2;
}

static void who_reads_for_long_is_waited_for(void **state)
{
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), status;
    pid_t pids[WORLD];

    assert_true(dirfd >= 0);
    for (int rank = 0; rank < WORLD; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0)
            _exit(talk_of(dirfd, rank));
    }
    for (int rank = 0; rank < WORLD; rank++) {
        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        assert_int_equal(status, 0);
    }
    close(dirfd);
}

static void words_of_ranks_that_are_no_more_go(void **state)
{
    static const struct start fewer = {"two", 2, 0, NULL, LONG_MS, NEW, 0};
    static const struct {
        const char *name;
        bool stays;
    } rows[] = {{".agree-2", false},      {".agree-3.new", false}, {".agree-17", false},
                {".agree-02", true},      {".agree-2.old", true},  {".agree-x", true},
                {".agree-2.new.1", true}, {".agree-", true}};
    char path[128];

    save_both();
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        dlr_format(path, sizeof(path), "%s/%s", dir, rows[i].name);
        assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    }
    run(&fewer);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("  %s\n", rows[i].name);
        assert_int_equal(is_there(rows[i].name), rows[i].stays);
    }
}

static void words_go_when_one_rank_goes_on(void **state)
{
    static const struct start s = {"two", 2, 0, NULL, LONG_MS, NEW, 0};
    struct dlr_ckpt *ck;
    uint32_t *data;
    uint64_t n, step;
    char path[128];

    save_both();
    run(&s);
    assert_true(is_there(".agree-0"));
    dlr_format(path, sizeof(path), "%s/.agree-1", dir); /* of one that was killed */
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    ck = join(0, 1, &data, &n);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    assert_true(is_there(".agree-0"));
    assert_int_equal(dlr_ckpt_begin(ck, NEW + 1, NULL), 1);
    assert_int_equal(dlr_ckpt_flush(ck), 0);
    assert_false(is_there(".agree-0") || is_there(".agree-1"));
    dlr_ckpt_close(ck);
    free(data);
}

static void words_are_gone_once_all_have_gone_on(void **state)
{
    struct dlr_ckpt *ck[2];
    uint32_t *data[2];
    uint64_t n, step;
    pid_t pid;
    int fds[2];

    save_both();
    assert_int_equal(pipe(fds), 0);
    setenv("DLROVER_CKPT_AGREE_MS", LONG_MS, 1);
    pid = start(1, 2, LONG_MS, fds[1]);
    ck[0] = join(0, 2, &data[0], &n);
    assert_int_equal(dlr_ckpt_restore(ck[0], &step), 1);
    waitpid(pid, NULL, 0);
    assert_true(is_there(".agree-0") && !is_there(".agree-1"));
    setenv("DLROVER_CKPT_AGREE_MS", "0", 1);
    ck[1] = join(1, 2, &data[1], &n);
    assert_int_equal(dlr_ckpt_restore(ck[1], &step), 1);
    for (step = NEW + 1; step < NEW + 3; step++)
        for (int k = 0; k < 2; k++) {
            assert_int_equal(dlr_ckpt_begin(ck[k], step, NULL), 1);
            assert_int_equal(dlr_ckpt_flush(ck[k]), 0);
            assert_int_equal(is_there(".agree-0"), step == NEW + 1);
        }
    for (int k = 0; k < 2; k++) {
        dlr_ckpt_close(ck[k]);
        free(data[k]);
    }
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, standalone_setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        T(all_load_the_same_version),
        T(nothing_there_is_a_fresh_start_for_all_and_nothing_whole_an_error),
        T(a_decision_of_an_earlier_start_is_not_believed),
        T(an_answer_of_a_killed_rank_is_not_believed),
        T(words_are_gone_once_all_have_gone_on),
        T(words_of_ranks_that_are_no_more_go),
        T(words_go_when_one_rank_goes_on),
        T(no_version_is_of_two_lines_of_steps),
        T(a_restore_removes_nothing),
        T(who_reads_for_long_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
