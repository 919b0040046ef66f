/* SPDX-License-Identifier: Apache-2.0 */
/* Checks against recorded nodes, and against sockets and clocks of this one. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "health/health.h"

#define GIB (1ull << 30)

/* --- file systems: statvfs of the C library is replaced by this table ------------- */

struct fs {
    const char *path;
    int error;
    unsigned long flag;
    uint64_t free_bytes, files, files_free;
};

static const struct fs file_systems[] = {
    {"/big", 0, 0, 100 * GIB, 1000000, 900000},
    {"/shm", 0, 0, 2 * GIB, 1000000, 900000},
    {"/small", 0, 0, 8 << 20, 1000000, 900000},
    {"/full", 0, 0, 0, 1000000, 900000},
    {"/noinodes", 0, 0, GIB, 1000000, 0},
    {"/fewinodes", 0, 0, GIB, 1000000, 5},
    {"/ro", 0, ST_RDONLY, GIB, 1000000, 900000},
    {"/btrfs", 0, 0, GIB, 0, 0},
    {"/stale", ESTALE, 0, 0, 0, 0},
    {"/private", EACCES, 0, 0, 0, 0},
};

static unsigned polls_in_vain;

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    struct timespec limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    int rc = ppoll(fds, n, timeout_ms < 0 ? NULL : &limit, NULL);

    polls_in_vain += rc == 0;
    return rc;
}

static pthread_mutex_t server_gone = PTHREAD_MUTEX_INITIALIZER;

int statvfs(const char *path, struct statvfs *ret)
{
    size_t i;

    if (dlr_streq(path, "/hung")) {
        pthread_mutex_lock(&server_gone);
        pthread_mutex_unlock(&server_gone);
    }
    for (i = 0; i < sizeof(file_systems) / sizeof(file_systems[0]); i++) {
        const struct fs *fs = &file_systems[i];

        if (!dlr_streq(fs->path, path))
            continue;
        errno = fs->error;
        memset(ret, 0, sizeof(*ret));
        ret->f_flag = fs->flag;
        ret->f_frsize = 1;
        ret->f_bavail = fs->free_bytes;
        ret->f_files = fs->files;
        ret->f_favail = fs->files_free;
        return fs->error ? -1 : 0;
    }
    errno = ENOENT;
    return -1;
}

/* --- tables ----------------------------------------------------------------------- */

static void run_one(const struct dlr_health_env *env, const char *check,
                    struct dlr_health_result *ret)
{
    assert_int_equal(dlr_health_run(env, check, ret, 1, NULL), 1);
    assert_string_equal(ret->check, check);
}

static void recorded_nodes_get_their_verdict(void **state)
{
    static const struct {
        const char *root, *check;
        uint64_t need;
        enum dlr_health_verdict want;
        const char *reason;
    } rows[] = {
        {"good", "memory", 0, DLR_HEALTH_OK, "58.59 of 64.00 GiB available"},
        {"good", "memory", 58 * GIB, DLR_HEALTH_OK, "58.59 of 64.00 GiB available"},
        {"good", "memory", 59 * GIB, DLR_HEALTH_FAIL,
         "58.59 GiB available, snapshots need 59.00 GiB"},
        {"bad_ram", "memory", 0, DLR_HEALTH_OK, "58.59 of 64.00 GiB available"},
        {"bad_ram", "edac", 0, DLR_HEALTH_DRAIN,
         "7 uncorrected memory errors since boot, limit 0"},
        {"low_memory", "memory", 0, DLR_HEALTH_WARN, "0.98 of 64.00 GiB available"},
        {"strange", "memory", 0, DLR_HEALTH_SKIP, "/proc/meminfo cannot be read"},
        {"absent", "memory", 0, DLR_HEALTH_SKIP, "/proc/meminfo cannot be read"},
        {"good", "cpu", 0, DLR_HEALTH_OK, "8 of 8 CPUs are ours, load 1.25"},
        {"busy", "cpu", 0, DLR_HEALTH_WARN, "3 of 8 CPUs are ours, load 33.10"},
        {"strange", "cpu", 0, DLR_HEALTH_SKIP,
         "/sys/devices/system/cpu cannot be read"},
        {"absent", "cpu", 0, DLR_HEALTH_SKIP, "/sys/devices/system/cpu cannot be read"},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_health_result got;
        struct dlr_health_env env;
        char root[256];

        print_message("  %s %s\n", rows[i].root, rows[i].check);
        dlr_health_env_init(&env);
        dlr_format(root, sizeof(root), "tests/nodes/%s", rows[i].root);
        env.root = root;
        env.shm_need_bytes = rows[i].need;
        run_one(&env, rows[i].check, &got);
        assert_string_equal(got.reason, rows[i].reason);
        assert_int_equal(got.verdict, rows[i].want);
    }
}

static void disks_get_their_verdict(void **state)
{
    static const struct {
        const char *disk, *shm;
        uint64_t need;
        enum dlr_health_verdict want;
        const char *reason;
    } rows[] = {
        {"/big", "/shm", GIB, DLR_HEALTH_OK,
         "'/big' has 102400 MiB free; '/shm' has 2048 MiB free"},
        {"/big", "/shm", 3 * GIB, DLR_HEALTH_FAIL,
         "'/shm' has 2048 MiB free, 3072 are needed"},
        {"/big", NULL, 0, DLR_HEALTH_OK, "'/big' has 102400 MiB free"},
        {NULL, "/shm", 0, DLR_HEALTH_OK, "'/shm' has 2048 MiB free"},
        {NULL, NULL, 0, DLR_HEALTH_SKIP, "no directory to look at"},
        {"/small", NULL, 0, DLR_HEALTH_WARN,
         "'/small' has 8 MiB and 900000 inodes free"},
        {"/fewinodes", "/shm", 0, DLR_HEALTH_WARN,
         "'/fewinodes' has 1024 MiB and 5 inodes free"},
        {"/full", "/shm", 0, DLR_HEALTH_FAIL, "'/full' has 0 MiB free, 0 are needed"},
        {"/noinodes", "/shm", 0, DLR_HEALTH_FAIL, "'/noinodes' has no inode free"},
        {"/ro", "/shm", 0, DLR_HEALTH_FAIL, "'/ro' is read-only"},
        {"/btrfs", NULL, 0, DLR_HEALTH_OK, "'/btrfs' has 1024 MiB free"},
        {"/stale", "/shm", 0, DLR_HEALTH_FAIL, "'/stale': Stale file handle"},
        {"/private", "/shm", 0, DLR_HEALTH_WARN, "'/private': Permission denied"},
        {"/nowhere", "/shm", 0, DLR_HEALTH_WARN,
         "'/nowhere': No such file or directory"},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_health_result got;
        struct dlr_health_env env;

        print_message("  %s %s\n", rows[i].disk ? rows[i].disk : "-",
                      rows[i].shm ? rows[i].shm : "-");
        dlr_health_env_init(&env);
        env.disk_path = rows[i].disk;
        env.shm_path = rows[i].shm;
        env.shm_need_bytes = rows[i].need;
        run_one(&env, "disk", &got);
        assert_string_equal(got.reason, rows[i].reason);
        assert_int_equal(got.verdict, rows[i].want);
    }
}

static void a_file_system_that_does_not_answer_fails_in_time(void **state)
{
    struct dlr_health_result got;
    struct dlr_health_env env;
    int64_t t0 = dlr_now_ms();

    dlr_health_env_init(&env);
    env.disk_path = "/hung";
    pthread_mutex_lock(&server_gone);
    run_one(&env, "disk", &got);
    pthread_mutex_unlock(&server_gone);
    assert_int_equal(got.verdict, DLR_HEALTH_FAIL);
    assert_string_equal(got.reason, "'/hung' does not answer within 1000 ms");
    assert_true(dlr_now_ms() - t0 >= 1000);
}

static void clocks_get_their_verdict(void **state)
{
    static const struct {
        int64_t off_ms, error_ms;
        enum dlr_health_verdict want;
    } rows[] = {
        {0, 1, DLR_HEALTH_OK},        {900, 1, DLR_HEALTH_OK},
        {-900, 1, DLR_HEALTH_OK},     {1500, 1, DLR_HEALTH_WARN},
        {-1500, 1, DLR_HEALTH_WARN},  {1500, 600, DLR_HEALTH_OK},
        {59000, 1, DLR_HEALTH_WARN},  {62000, 1, DLR_HEALTH_FAIL},
        {-62000, 1, DLR_HEALTH_FAIL}, {62000, 5000, DLR_HEALTH_WARN},
    };
    struct dlr_health_result got;
    struct dlr_health_env env;
    size_t i;

    dlr_health_env_init(&env);
    run_one(&env, "clock", &got);
    assert_int_equal(got.verdict, DLR_HEALTH_SKIP);
    assert_string_equal(got.reason, "no clock to compare with");
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("  %+lld ms\n", (long long)rows[i].off_ms);
        env.ref_taken_ns = dlr_now_ns();
        env.ref_wall_ns = dlr_wall_ns() - rows[i].off_ms * 1000000;
        env.ref_error_ns = rows[i].error_ms * 1000000;
        run_one(&env, "clock", &got);
        assert_int_equal(got.verdict, rows[i].want);
        assert_non_null(strstr(got.reason, " s off the batch host's, +/- "));
    }
}

/* --- reachability ----------------------------------------------------------------- */

/* A listening socket whose port is written to addr; its backlog takes one connection
 * and nobody accepts, so that connections after the first ones stay silent.
 */
static int listen_here(int backlog, char *addr, size_t size)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t n = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &n), 0);
    if (backlog >= 0)
        assert_int_equal(listen(fd, backlog), 0);
    dlr_format(addr, size, "127.0.0.1:%u", ntohs(in.sin_port));
    return fd;
}

/* Fills the queue of a listening socket; further connections get no answer. */
static void fill(const char *addr, int *fds, unsigned n)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    unsigned port = 0, i;

    assert_int_equal(sscanf(addr, "127.0.0.1:%u", &port), 1);
    in.sin_port = htons((uint16_t)port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (i = 0; i < n; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(fds[i], (struct sockaddr *)&in, sizeof(in));
    }
}

static void silent_nodes_are_named_within_one_limit(void **state)
{
    char open_addr[64], closed_addr[64], full_addr[64];
    int open_fd = listen_here(8, open_addr, sizeof(open_addr));
    int closed_fd = listen_here(-1, closed_addr, sizeof(closed_addr));
    int full_fd = listen_here(0, full_addr, sizeof(full_addr)), filler[4];
    const char *const peers[] = {open_addr, closed_addr, full_addr,
                                 full_addr, "nonsense",  NULL};
    const char *const names[] = {"n1", "n2", "n3", "n4", "n5"};
    unsigned char silent[5] = {0};
    struct dlr_health_result got;
    struct dlr_health_env env;
    unsigned i;

    fill(full_addr, filler, 4);
    dlr_health_env_init(&env);
    env.peers = peers;
    env.peer_names = names;
    env.silent = silent;
    env.peer_timeout_ms = 1000;
    polls_in_vain = 0;
    run_one(&env, "reach", &got);
    assert_in_range(polls_in_vain, 0, 1); /* not one limit for each */
    assert_int_equal(got.verdict, DLR_HEALTH_WARN);
    assert_string_equal(got.reason, "cannot reach n3, n4, n5 (no address) (3 of 5)");
    assert_memory_equal(silent, "\0\0\1\1\1", 5);
    for (i = 0; i < 4; i++)
        close(filler[i]);
    close(open_fd);
    close(closed_fd);
    close(full_fd);
}

static void nodes_that_answer_or_refuse_are_reached(void **state)
{
    char open_addr[64], closed_addr[64], v6[] = "[::1]:1";
    int open_fd = listen_here(8, open_addr, sizeof(open_addr));
    int closed_fd = listen_here(-1, closed_addr, sizeof(closed_addr));
    const char *peers[] = {open_addr, closed_addr, v6, NULL};
    struct dlr_health_result got;
    struct dlr_health_env env;

    dlr_health_env_init(&env);
    run_one(&env, "reach", &got);
    assert_int_equal(got.verdict, DLR_HEALTH_SKIP);
    assert_string_equal(got.reason, "no other nodes are known");
    if (access("/proc/net/if_inet6", R_OK) < 0)
        peers[2] = NULL;
    env.peers = peers;
    run_one(&env, "reach", &got);
    assert_string_equal(got.reason,
                        peers[2] ? "3 of 3 nodes answer" : "2 of 2 nodes answer");
    assert_int_equal(got.verdict, DLR_HEALTH_OK);
    close(open_fd);
    close(closed_fd);
}

/* --- running ---------------------------------------------------------------------- */

static void lists_select_checks_in_table_order(void **state)
{
    static const struct {
        const char *list, *want;
        int rc;
    } rows[] = {
        {"none", "", 0},
        {"clock,memory", "memory clock ", 2},
        {"cpu,cpu", "cpu ", 1},
        {"none,cpu", "cpu ", 1},
        {"cpu,-all", "", 0},
        {"cpu,clock,-cpu", "clock ", 1},
        {"-quick,-full,disk", "disk ", 1},
        {"", "", -EINVAL},
        {"cpu,", "", -EINVAL},
        {"cpu,-", "", -EINVAL},
        {"--cpu", "", -EINVAL},
        {"gas", "", -EINVAL},
    };
    struct dlr_health_result got[8];
    struct dlr_health_env env;
    size_t i;
    int k;

    dlr_health_env_init(&env);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_err err = {0};
        char names[64] = "";
        int n = dlr_health_run(&env, rows[i].list, got, 8, &err);

        print_message("  '%s'\n", rows[i].list);
        assert_int_equal(n, rows[i].rc);
        for (k = 0; k < n; k++)
            strcat(strcat(names, got[k].check), " ");
        assert_string_equal(names, rows[i].want);
        if (dlr_streq(rows[i].list, "gas"))
            assert_non_null(dlr_after(err.text, "unknown check 'gas'; known are all, "
                                                "quick, none, memory "));
    }
    assert_int_equal(dlr_health_run(&env, "all", got, 2, NULL), 2);
}

static int count(const char *list)
{
    struct dlr_health_result got[DLR_HEALTH_CHECKS_MAX];
    struct dlr_health_env env;

    dlr_health_env_init(&env);
    env.root = "tests/nodes/absent";
    return dlr_health_run(&env, list, got, DLR_HEALTH_CHECKS_MAX, NULL);
}

static void levels_select_what_is_of_them(void **state)
{
    int quick = 0, all = 0;

    for (const struct dlr_health_check *c = dlr_health_checks; c->name; c++, all++)
        quick += c->level == DLR_HEALTH_QUICK;
    assert_int_equal(count("quick"), quick);
    assert_int_equal(count("quick,-memory,-cpu"), quick - 2);
    assert_int_equal(count("-quick"), all - quick);
    assert_int_equal(count("quick,-all"), 0);
}

static void skip_is_not_worse_than_ok(void **state)
{
    struct dlr_health_result r[3] = {{.verdict = DLR_HEALTH_SKIP}};

    assert_int_equal(dlr_health_worst(r, 0), DLR_HEALTH_OK);
    assert_int_equal(dlr_health_worst(r, 2), DLR_HEALTH_OK);
    r[1].verdict = DLR_HEALTH_FAIL;
    r[2].verdict = DLR_HEALTH_WARN;
    assert_int_equal(dlr_health_worst(r, 3), DLR_HEALTH_FAIL);
    assert_int_equal(dlr_health_verdict_parse("warn"), DLR_HEALTH_WARN);
    r[0].verdict = DLR_HEALTH_DRAIN;
    assert_int_equal(dlr_health_worst(r, 3), DLR_HEALTH_DRAIN);
    assert_int_equal(dlr_health_verdict_parse("drain"), DLR_HEALTH_DRAIN);
    assert_int_equal(dlr_health_verdict_parse("bad"), -EINVAL);
    assert_string_equal(dlr_health_verdict_name(DLR_HEALTH_SKIP), "skip");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_nodes_get_their_verdict),
        cmocka_unit_test(disks_get_their_verdict),
        cmocka_unit_test(a_file_system_that_does_not_answer_fails_in_time),
        cmocka_unit_test(clocks_get_their_verdict),
        cmocka_unit_test(silent_nodes_are_named_within_one_limit),
        cmocka_unit_test(nodes_that_answer_or_refuse_are_reached),
        cmocka_unit_test(lists_select_checks_in_table_order),
        cmocka_unit_test(levels_select_what_is_of_them),
        cmocka_unit_test(skip_is_not_worse_than_ok),
    };

    return cmocka_run_group_tests_name("health", tests, NULL, NULL);
}
