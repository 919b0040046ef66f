/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=spank_dlrover.so */
/* What dlrover doctor reads: plugstack.conf, libraries, logind.conf, /proc, Slurm's
 * settings.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "mpi_launcher/doctor/doctor.h"
#include "mpi_launcher/doctor/mark.h"

#define PLUGIN_MAX (16u << 20)

/* --- plugstack.conf --------------------------------------------------------------- */

static void includes_are_followed_as_slurm_does(void **state)
{
    static const struct {
        const char *conf, *plugin, *words;
        unsigned line;
        bool required;
    } want[] = {
        {"/etc/slurm/plugstack.conf", "/usr/lib/slurm/spank_limits.so", "soft=1", 2,
         true},
        {"/etc/slurm/plugstack.conf.d/../dlrover.line",
         "/usr/lib/slurm/spank_dlrover.so", "spares=1 forbid=checks", 1, false},
        {"/etc/slurm/plugstack.conf", "pyxis.so", "sbatch_support=1 runtime_path=/run",
         5, false},
    };
    struct dlr_plugstack stack;

    assert_int_equal(dlr_plugstack_load("tests/doctor/includes",
                                        "/etc/slurm/plugstack.conf",
                                        "/nowhere:/usr/lib/slurm", &stack, NULL),
                     0);
    assert_int_equal(stack.n, 3);
    assert_string_equal(stack.bad, "");
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(stack.lines[i].conf, want[i].conf);
        assert_string_equal(stack.lines[i].plugin, want[i].plugin);
        assert_string_equal(stack.lines[i].words, want[i].words);
        assert_int_equal(stack.lines[i].line, want[i].line);
        assert_int_equal(stack.lines[i].required, want[i].required);
    }
    dlr_plugstack_done(&stack);
}

static void what_is_not_there_or_not_right_is_told_apart(void **state)
{
    struct dlr_plugstack stack;
    struct dlr_err err = {0};

    assert_int_equal(
        dlr_plugstack_load("tests/doctor/none", "/plugstack.conf", NULL, &stack, &err),
        0);
    assert_int_equal(stack.n, 0);
    assert_int_equal(dlr_plugstack_load("tests/doctor/bad", "/etc/slurm/plugstack.conf",
                                        NULL, &stack, &err),
                     0);
    assert_int_equal(stack.n, 0);
    assert_string_equal(stack.bad, "/etc/slurm/plugstack.conf:2");
    assert_int_equal(dlr_plugstack_load("tests/doctor/circle",
                                        "/etc/slurm/plugstack.conf", NULL, &stack,
                                        &err),
                     -ELOOP);
}

/* --- a root with a plugin in it --------------------------------------------------- */

static char root[64], plugin_path[PATH_MAX];
static char *plugin;
static size_t plugin_size;

static void put(const char *path, const void *text, size_t size)
{
    struct iovec part = {(void *)text, size};
    char full[PATH_MAX], *slash;

    dlr_format(full, sizeof(full), "%s%s", root, path);
    slash = strrchr(full, '/');
    *slash = '\0';
    assert_int_equal(dlr_mkdirs(full, 0755, NULL), 0);
    *slash = '/';
    assert_int_equal(dlr_file_replace(AT_FDCWD, full, 0755, &part, 1, NULL), 0);
}

static void put_text(const char *path, const char *text)
{
    put(path, text, strlen(text));
}

static int make_root(void **state)
{
    char dir[PATH_MAX];

    dlr_format(root, sizeof(root), "/tmp/dlr_doctor.XXXXXX");
    if (dlr_install_path_sibling("../spank_dlrover.so", dir, sizeof(dir)) < 0 ||
        dlr_file_load(AT_FDCWD, dir, PLUGIN_MAX, &plugin, &plugin_size, NULL) < 0 ||
        !mkdtemp(root))
        return -1;
    dlr_format(plugin_path, sizeof(plugin_path), "%s/lib/spank_dlrover.so", root);
    return 0;
}

static int remove_root(void **state)
{
    char command[128];

    free(plugin);
    dlr_format(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static struct dlr_doctor doctor(const char *words)
{
    struct dlr_doctor d = {
        .root = root, .plugstack = "/plugstack.conf", .release = "22.05.8"};
    char line[256];

    dlr_format(line, sizeof(line), "%s\n", words);
    put_text("/plugstack.conf", line);
    return d;
}

/* The plugin as built, but for the Slurm release in it. */
static void put_plugin(const char *release)
{
    struct dlr_marks marks;
    char name[] = "@(#)spank_dlrover ", *at = memmem(plugin, plugin_size, name, 18);

    dlr_marks_find(plugin, plugin_size, &marks);
    assert_int_equal(strlen(marks.slurm), strlen(release));
    assert_non_null(at);
    at = memmem(at, 32, marks.slurm, strlen(release));
    memcpy(at, release, strlen(release));
    put("/lib/spank_dlrover.so", plugin, plugin_size);
    memcpy(at, marks.slurm, strlen(release));
}

static void assert_says(const struct dlr_doctor_result *r,
                        enum dlr_doctor_verdict verdict, const char *part)
{
    if (r->verdict != verdict || !strstr(r->text, part))
        print_error("%s: %s\ninstead of %s: ...%s...\n",
                    dlr_doctor_verdict_name(r->verdict), r->text,
                    dlr_doctor_verdict_name(verdict), part);
    assert_true(r->verdict == verdict && strstr(r->text, part));
}

static void the_line_is_judged(void **state)
{
    static const struct {
        const char *line;
        enum dlr_doctor_verdict verdict;
        const char *part;
    } rows[] = {
        {"optional /lib/spank_dlrover.so", DLR_DOCTOR_OK,
         "/plugstack.conf:1 loads '/lib/spank_dlrover.so'"},
        {"optional /lib/spank_dlrover.so spares=1 forbid=checks min-heartbeat=1s "
         "prefix=/x",
         DLR_DOCTOR_OK, "with spares=1"},
        {"# optional /lib/spank_dlrover.so", DLR_DOCTOR_PROBLEM,
         "has no line that loads the plugin: add 'optional "},
        {"required /lib/spank_dlrover.so", DLR_DOCTOR_PROBLEM, "write 'optional'"},
        {"optional /lib/spank_dlrover.so spares=few", DLR_DOCTOR_PROBLEM,
         "the plugin ignores 'spares=few': "},
        {"optional /lib/spank_dlrover.so max-colour=1", DLR_DOCTOR_PROBLEM,
         "the plugin ignores 'max-colour=1': unknown option 'colour'"},
        {"optional /lib/spank_dlrover.so\noptional /lib/spank_dlrover.so",
         DLR_DOCTOR_PROBLEM, "2 lines load the plugin"},
        {"optional /lib/spank_dlrover.so\nmaybe x.so", DLR_DOCTOR_PROBLEM,
         "Slurm cannot read /plugstack.conf:2"},
    };

    put_plugin("22.05");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_doctor d = doctor(rows[i].line);
        struct dlr_doctor_result r = {0};

        dlr_doctor_plugstack(&d, &r);
        assert_says(&r, rows[i].verdict, rows[i].part);
    }
}

static void the_file_must_fit_the_release(void **state)
{
    static const struct {
        const char *built, *running;
        enum dlr_doctor_verdict verdict;
        const char *part;
    } rows[] = {
        {"22.05", "22.05.8", DLR_DOCTOR_OK, "for Slurm 22.05, this is 22.05.8"},
        {"22.05", "22.05.11", DLR_DOCTOR_OK, "for Slurm 22.05"},
        {"23.02", "22.05.8", DLR_DOCTOR_PROBLEM,
         "was built for Slurm 23.02 and loads into no other, this is 22.05.8"},
        {"22.05", "", DLR_DOCTOR_SKIP, "is for Slurm 22.05"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_doctor d = doctor("optional /lib/spank_dlrover.so");
        struct dlr_doctor_result r = {0};

        put_plugin(rows[i].built);
        dlr_format(d.release, sizeof(d.release), "%s", rows[i].running);
        dlr_doctor_plugin(&d, &r);
        assert_says(&r, rows[i].verdict, rows[i].part);
    }
}

static void a_file_that_is_no_library_is_named(void **state)
{
    struct dlr_doctor d = doctor("optional /lib/spank_dlrover.so");
    struct dlr_doctor_result r = {0};

    put_text("/lib/spank_dlrover.so", "text");
    dlr_doctor_plugin(&d, &r);
    assert_says(&r, DLR_DOCTOR_PROBLEM,
                "is no library of this machine: install the plugin");
    unlink(plugin_path);
    dlr_doctor_plugin(&d, &r);
    assert_says(&r, DLR_DOCTOR_PROBLEM, "No such file or directory");
}

static void a_library_says_its_version_and_cut_anywhere_does_no_harm(void **state)
{
    char path[PATH_MAX], slurm[16];
    const unsigned *slurms_own;
    struct dlr_marks marks;
    void *loaded;

    assert_int_equal(
        dlr_install_path_sibling("../spank_dlrover.so", path, sizeof(path)), 0);
    assert_int_equal(dlr_marks_load(path, &marks, NULL), 0);
    assert_string_equal(marks.version, DLR_VERSION);
    loaded = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    assert_non_null(loaded);
    slurms_own = dlsym(loaded, "plugin_version");
    dlr_format(slurm, sizeof(slurm), "%u.%02u", *slurms_own >> 16 & 0xff,
               *slurms_own >> 8 & 0xff);
    assert_string_equal(marks.slurm, slurm);
    dlclose(loaded);
    for (size_t size = 0; size < plugin_size; size += 997) {
        char *copy = malloc(size ? size : 1);

        memcpy(copy, plugin, size);
        dlr_marks_find(copy, size, &marks);
        free(copy);
    }
}

/* --- slurmd ----------------------------------------------------------------------- */

static void put_slurmd(const char *maps, long long started_s)
{
    char text[512];

    put_text("/proc/stat", "cpu 1 2\nbtime 1000\n");
    put_text("/proc/77/comm", "slurmd\n");
    dlr_format(text, sizeof(text),
               "77 (slurm d) S 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 %lld 1 1",
               (started_s - 1000) * sysconf(_SC_CLK_TCK));
    put_text("/proc/77/stat", text);
    put_text("/proc/77/maps", maps);
}

static void an_slurmd_without_this_plugin_is_seen(void **state)
{
    struct dlr_doctor d = doctor("optional /lib/spank_dlrover.so");
    struct dlr_doctor_result r = {0};
    char maps[512];
    struct stat st;

    put_text("/proc/1/comm", "systemd\n");
    put_plugin("23.02");
    dlr_doctor_slurmd(&d, &r);
    assert_says(&r, DLR_DOCTOR_SKIP, "slurmd cannot load the plugin");
    put_plugin("22.05");
    dlr_doctor_slurmd(&d, &r);
    assert_says(&r, DLR_DOCTOR_SKIP, "no slurmd runs here");
    assert_int_equal(stat(plugin_path, &st), 0);
    dlr_format(maps, sizeof(maps), "7f00-7f01 r--p 00000000 fe:00 9   %s\n",
               plugin_path);
    put_slurmd(maps, st.st_ctime + 5);
    dlr_doctor_slurmd(&d, &r);
    assert_says(&r, DLR_DOCTOR_OK, "slurmd (pid 77) has loaded the plugin");
    put_slurmd(maps, st.st_ctime - 5); /* the file was written over since */
    dlr_doctor_slurmd(&d, &r);
    assert_says(&r, DLR_DOCTOR_PROBLEM, "has not loaded the plugin as it is now");
    dlr_format(maps, sizeof(maps), "7f00-7f01 r--p 0 fe:00 9   %s (deleted)\n",
               plugin_path);
    put_slurmd(maps, st.st_ctime + 5);
    dlr_doctor_slurmd(&d, &r);
    assert_says(&r, DLR_DOCTOR_PROBLEM, "restart slurmd");
    put_slurmd("", st.st_ctime + 5); /* maps of another user are empty */
    dlr_doctor_slurmd(&d, &r);
    assert_says(&r, DLR_DOCTOR_OK, "was started since the plugin was installed");
    put_slurmd("", st.st_ctime - 5);
    dlr_doctor_slurmd(&d, &r);
    assert_says(&r, DLR_DOCTOR_PROBLEM, "was started before the plugin was installed");
}

static void rdma_needs_memory_that_may_be_locked(void **state)
{
    const char *const limits =
        "Limit  Soft  Hard  Units\nMax locked memory   65536   %s   "
        "bytes\nMax file locks  1 1 locks\n";
    struct dlr_doctor d = {.root = root};
    struct dlr_doctor_result r = {0};
    char text[256];

    put_text("/proc/77/comm", "slurmd\n");
    dlr_format(text, sizeof(text), limits, "8388608");
    put_text("/proc/77/limits", text);
    dlr_doctor_memlock(&d, &r);
    assert_says(&r, DLR_DOCTOR_OK, "slurmd, and so a job, may lock 8192 KiB");
    put_text("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    dlr_doctor_memlock(&d, &r);
    assert_says(&r, DLR_DOCTOR_PROBLEM, "LimitMEMLOCK=infinity for slurmd");
    dlr_format(text, sizeof(text), limits, "unlimited");
    put_text("/proc/77/limits", text);
    dlr_doctor_memlock(&d, &r);
    assert_says(&r, DLR_DOCTOR_OK, "may lock any amount");
}

static void the_jobs_tmpfs_is_judged(void **state)
{
    static const struct {
        const char *words, *caps;
        mode_t mode; /* of /run/dlrover, 0: it is not there */
        enum dlr_doctor_verdict verdict;
        const char *text;
    } rows[] = {
        {"", "000001ffffffffff", 0, DLR_DOCTOR_OK,
         "job-tmpfs-size=100% of a job's memory, job-tmpfs-keep=off; 0 here"},
        {" job-tmpfs-size=50% job-tmpfs-keep=10m", "000001ffffffffff", 0755,
         DLR_DOCTOR_OK,
         "job-tmpfs-size=50% of a job's memory, job-tmpfs-keep=10m; 2 here, 1 of them"},
        {" job-tmpfs=off", "000001ffffffffff", 0755, DLR_DOCTOR_NOTE,
         "take the argument out"},
        {"", "000001ffffffffff", 0777, DLR_DOCTOR_PROBLEM, "chmod 755 /run/dlrover"},
        {"", "00000000a80425fb", 0755, DLR_DOCTOR_PROBLEM, "no CAP_SYS_ADMIN"},
    };
    char line[128], text[64], run[PATH_MAX];

    if (geteuid() != 0)
        skip(); /* whose it is counts */
    put_text("/proc/77/comm", "slurmd\n");
    dlr_format(run, sizeof(run), "%s/run/dlrover", root);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_doctor_result r = {0};
        struct dlr_doctor d;

        print_message("row '%s' %o\n", rows[i].words, (unsigned)rows[i].mode);
        dlr_format(line, sizeof(line), "optional /lib/spank_dlrover.so%s",
                   rows[i].words);
        d = doctor(line);
        dlr_format(text, sizeof(text), "Name:\tslurmd\nCapEff:\t%s\n", rows[i].caps);
        put_text("/proc/77/status", text);
        if (rows[i].mode) {
            put_text("/run/dlrover/.lock", "");
            put_text("/run/dlrover/3001-7/.keep", "");
            put_text("/run/dlrover/3001-8/.keep", "");
            put_text("/run/dlrover/3001-8.kept", "1 3001\n");
            assert_int_equal(chmod(run, rows[i].mode), 0);
        }
        dlr_doctor_tmpfs(&d, &r);
        assert_says(&r, rows[i].verdict, rows[i].text);
    }
}

/* --- settings --------------------------------------------------------------------- */

static void logind_is_read_as_systemd_does(void **state)
{
    static const struct {
        const char *root;
        int value, built_in;
    } rows[] = {
        {"tests/doctor/logind_yes", 1, 0},
        {"tests/doctor/logind_no", 0, -1},
        {"tests/doctor/logind_default", -ENOENT, 0},
        {"tests/doctor/none", -ENOENT, -1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        int built_in;

        assert_int_equal(dlr_doctor_remove_ipc(rows[i].root, &built_in), rows[i].value);
        assert_int_equal(built_in, rows[i].built_in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(includes_are_followed_as_slurm_does),
        cmocka_unit_test(what_is_not_there_or_not_right_is_told_apart),
        cmocka_unit_test(the_line_is_judged),
        cmocka_unit_test(the_file_must_fit_the_release),
        cmocka_unit_test(a_file_that_is_no_library_is_named),
        cmocka_unit_test(a_library_says_its_version_and_cut_anywhere_does_no_harm),
        cmocka_unit_test(an_slurmd_without_this_plugin_is_seen),
        cmocka_unit_test(the_jobs_tmpfs_is_judged),
        cmocka_unit_test(rdma_needs_memory_that_may_be_locked),
        cmocka_unit_test(logind_is_read_as_systemd_does),
    };

    return cmocka_run_group_tests(tests, make_root, remove_root);
}
