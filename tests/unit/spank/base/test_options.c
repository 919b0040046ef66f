/* SPDX-License-Identifier: Apache-2.0 */
/* Where a setting comes from, and what a site may say about it. */
#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "spank/base/options.h"

/* Four values of each type, none of them a default. */
static const char *const values[][4] = {
    [DLR_OPT_SWITCH] = {"on", "off", "on", "off"},
    [DLR_OPT_UINT] = {"11", "12", "13", "14"},
    [DLR_OPT_DURATION] = {"11s", "12s", "13s", "14s"},
    [DLR_OPT_SIZE] = {"11m", "12m", "13m", "14m"},
    [DLR_OPT_PATH] = {"/site", "/env", "/script", "/cli"},
    [DLR_OPT_WORD] = {"memory", "cpu", "disk", "clock"},
    [DLR_OPT_NAME] = {"site", "env", "script", "cli"},
    [DLR_OPT_SHARE] = {"11%", "12m", "13%", "14g"},
    [DLR_OPT_BEAT] = {"11ms:3", "12ms:4", "13ms:5", "14ms:6"},
    [DLR_OPT_EVERY] = {"11", "12s", "13", "14s"},
    [DLR_OPT_COPIES] = {"none", "partner:2", "xor:4", "rs:8+2"},
    [DLR_OPT_SPAN] = {"11s", "12s", "off", "500ms"},
    [DLR_OPT_RATE] = {"11m", "auto", "off", "14k"},
    [DLR_OPT_COUNT] = {"11", "auto", "0", "14"},
    [DLR_OPT_PPM] = {"1.1%", "2%", "off", "0.0003%"},
    [DLR_OPT_SAVE] = {"1.1%", "2%", "always", "0.0003%"},
    [DLR_OPT_NODES] = {"2", "2:4", "0:9", "7:7"},
    [DLR_OPT_RATIO] = {"11", "12/60s", "13/1800s", "14"},
    [DLR_OPT_FAILURES] = {"exit-17:stop", "node:requeue", "process:elsewhere",
                          "exit-3:restart,node:stop"},
    [DLR_OPT_TRANSPORT] = {"stream", "ucx", "auto", "stream"},
    [DLR_OPT_BIND] = {"numa", "cores", "off", "cores"},
    [DLR_OPT_WATCH] = {"all", "off", "auto", "all"},
    [DLR_OPT_HANG] = {"act", "off", "name", "act"},
    [DLR_OPT_REORDER] = {"always", "auto", "never", "auto"},
    [DLR_OPT_ROUNDS] = {"first", "always", "off", "always"},
};

/* A row is set by an option of its own, or as one of the settings. */
static size_t option_of(size_t row)
{
    return row < DLR_OPTIONS_SET ? row : DLR_OPTIONS_SET;
}

static void value_of(size_t row, const char *value, char text[128])
{
    if (row < DLR_OPTIONS_SET)
        dlr_format(text, 128, "%s", value);
    else
        dlr_format(text, 128, "%s=%s", dlr_job_config_opts[row].name, value);
}

static int set(struct dlr_spank_conf *conf, size_t row, const char *value,
               struct dlr_err *err)
{
    char text[128];

    value_of(row, value, text);
    return dlr_options_set(conf, option_of(row), text, err);
}

static void variable(size_t row, char name[DLR_OPTIONS_NAME])
{
    dlr_options_name(option_of(row), name);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
}

static const char *shown(const struct dlr_spank_conf *conf, size_t row)
{
    static char text[DLR_OPT_TEXT + 1];

    assert_int_equal(
        dlr_opt_show(&dlr_job_config_opts[row], &conf->job, text, sizeof(text)), 0);
    return text;
}

enum { SITE = 1, ENV = 2, SCRIPT = 4, CLI = 8 };

/* As Slurm does it: the plugin's words at init, then the environment, then #SBATCH
 * lines (in srun: what Slurm kept of them), then the command line.
 */
static void gather(struct dlr_spank_conf *conf, size_t row, unsigned sources)
{
    const struct dlr_opt *opt = &dlr_job_config_opts[row];
    const char *const *value = values[opt->type];
    char word[128], text[128], name[DLR_OPTIONS_NAME];
    char *words[] = {word};

    variable(row, name);
    unsetenv(name);
    value_of(row, value[1], text);
    if (sources & ENV)
        setenv(name, text, 1);
    dlr_format(word, sizeof(word), "%s=%s", opt->name, value[0]);
    dlr_options_init(conf);
    dlr_options_site(conf, sources & SITE ? 1 : 0, words, NULL);
    dlr_options_env(conf, environ, NULL);
    if (sources & SCRIPT)
        assert_int_equal(set(conf, row, value[2], NULL), 0);
    if (sources & CLI)
        assert_int_equal(set(conf, row, value[3], NULL), 0);
    unsetenv(name);
}

static void every_setting_is_taken_from_its_highest_source(void **state)
{
    for (size_t row = 0; dlr_job_config_opts[row].name; row++) {
        const struct dlr_opt *opt = &dlr_job_config_opts[row];
        struct dlr_spank_conf plain;

        dlr_options_init(&plain);
        for (unsigned sources = 0; sources < 16; sources++) {
            struct dlr_spank_conf conf;
            char want[DLR_OPT_TEXT + 1];

            dlr_format(want, sizeof(want), "%s",
                       sources ? values[opt->type][31 - __builtin_clz(sources)]
                               : shown(&plain, row));
            gather(&conf, row, sources);
            if (!dlr_streq(shown(&conf, row), want))
                print_error("%s from sources %x: %s instead of %s\n", opt->name,
                            sources, shown(&conf, row), want);
            assert_string_equal(shown(&conf, row), want);
        }
    }
}

/* Everything that was said, line by line. */
static char said[2048];

static void say(const struct dlr_err *err)
{
    size_t used = strlen(said);

    snprintf(said + used, sizeof(said) - used, "%s\n", err->text);
}

#define WORDS 4

static void a_site_may_keep_settings_to_itself(void **state)
{
    static const struct {
        const char *site[WORDS];
        const char *name, *value;
        const char *text; /* NULL: it is taken */
    } rows[] = {
        {{"forbid=spares"},
         "spares",
         "2",
         "--dlrover-spares: this site does not let jobs set it; it is '0' here"},
        {{"forbid=spares"}, "spares", "0", NULL}, /* what it is anyway */
        {{"forbid=spares", "spares=2"}, "spares", "2", NULL},
        {{"spares=2", "forbid=checks,spares"},
         "spares",
         "1",
         "--dlrover-spares: this site does not let jobs set it; it is '2' here"},
        {{"forbid=spares"}, "max-restarts", "9", NULL},
        {{"enable=on", "forbid=enable"}, "enable", "on", NULL},
        {{"enable=on", "forbid=enable"},
         "enable",
         "off",
         "--dlrover: this site does not let jobs set it; it is 'on' here"},
        {{"forbid=state-dir", "state-dir=/scratch"},
         "state-dir",
         "/tmp",
         "--dlrover-state-dir: this site does not let jobs set it; it is '/scratch' "
         "here"},
        {{"max-spares=2"}, "spares", "2", NULL},
        {{"max-spares=2"},
         "spares",
         "3",
         "--dlrover-spares: 3 is more than this site allows: at most 2"},
        {{"max-max-restarts=5"},
         "max-restarts",
         "6",
         "--dlrover-max-restarts: 6 is more than this site allows: at most 5"},
        {{"max-max-restarts=10"}, "max-restarts", "5/30m", NULL},
        {{"max-max-restarts=10"},
         "max-restarts",
         "5/29m",
         "--dlrover-max-restarts: 5/1740s is more than this site allows: at most 10"},
        {{"min-heartbeat=100ms"}, "heartbeat", "100ms:2", NULL},
        {{"min-heartbeat=100ms"},
         "heartbeat",
         "50ms:9",
         "--dlrover-set: heartbeat: 50ms:9 is less than this site allows: at least "
         "100ms"},
        {{"min-launch-timeout=1m", "max-launch-timeout=2m"},
         "launch-timeout",
         "30s",
         "--dlrover-set: launch-timeout: 30s is less than this site allows: at least "
         "60s"},
        {{"min-launch-timeout=1m", "max-launch-timeout=2m"},
         "launch-timeout",
         "3m",
         "--dlrover-set: launch-timeout: 180s is more than this site allows: at most "
         "120s"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct dlr_opt *opt = dlr_opt_find(dlr_job_config_opts, rows[i].name);
        struct dlr_spank_conf conf;
        struct dlr_err err = {0};
        int words = 0;

        while (words < WORDS && rows[i].site[words])
            words++;
        said[0] = '\0';
        dlr_options_init(&conf);
        dlr_options_site(&conf, words, (char *const *)rows[i].site, say);
        assert_string_equal(said, "");
        assert_int_equal(
            set(&conf, (size_t)(opt - dlr_job_config_opts), rows[i].value, &err),
            rows[i].text ? -EPERM : 0);
        assert_string_equal(err.text, rows[i].text ? rows[i].text : "");
        if (rows[i].text)
            assert_memory_equal(&conf.job, &conf.site, sizeof(conf.job));
    }
}

static void the_environment_is_no_way_round(void **state)
{
    char *const words[] = {"forbid=checks", "max-spares=2", "checks=memory"};
    struct dlr_spank_conf conf;

    said[0] = '\0';
    setenv("DLROVER_SET", "pace=auto,checks=none", 1);
    setenv("DLROVER_SPARES", "9", 1);
    dlr_options_init(&conf);
    dlr_options_site(&conf, 3, words, say);
    dlr_options_env(&conf, environ, say);
    unsetenv("DLROVER_SET");
    unsetenv("DLROVER_SPARES");
    assert_string_equal(conf.job.checks, "memory");
    assert_int_equal(conf.job.pace, 0); /* of a list all, or nothing */
    assert_int_equal(conf.job.spares, 0);
    assert_string_equal(
        said,
        "ignoring DLROVER_SPARES in the environment: 9 is more than this site allows: "
        "at most 2\n"
        "ignoring DLROVER_SET in the environment: checks: this site does not let jobs "
        "set it; it is 'memory' here\n");
}

/* slurmstepd reads a step's environment as root: nothing in it says where root mounts
 * what, or runs what.
 */
static void what_root_does_is_for_the_site_alone_to_say(void **state)
{
    static const char *const hostile[] = {"prefix=/tmp/evil", "libexec=/tmp/evil",
                                          "job-tmpfs=off", "job-tmpfs-size=4t",
                                          "job-tmpfs-keep=9h"};
    char *const words[] = {"prefix=/opt/site", "job-tmpfs-size=1m"};
    struct dlr_spank_conf conf;
    struct dlr_err err;

    dlr_options_init(&conf);
    dlr_options_site(&conf, 2, words, say);
    for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
        char var[128], set[128];
        char *const env[] = {var, set, NULL};

        dlr_format(set, sizeof(set), "DLROVER_SET=%s", hostile[i]);
        dlr_format(var, sizeof(var), "DLROVER_%s", hostile[i]);
        for (char *c = var; *c && *c != '='; c++)
            *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        dlr_options_env(&conf, env, NULL);
        assert_true(dlr_options_set(&conf, DLR_OPTIONS_SET, hostile[i], &err) < 0);
    }
    assert_string_equal(conf.libexec, "/opt/site/libexec/dlrover");
    assert_true(conf.job_tmpfs);
    assert_string_equal(conf.job_tmpfs_size, "1m");
    assert_int_equal(conf.job_tmpfs_keep_ms, 0);
}

static void a_default_outside_of_the_limits_becomes_the_limit(void **state)
{
    char *const words[] = {"min-heartbeat=1s", "max-max-restarts=2", "min-spares=1",
                           "max-launch-timeout=10s"};
    struct dlr_spank_conf conf;

    dlr_options_init(&conf);
    dlr_options_site(&conf, 4, words, NULL);
    assert_int_equal(conf.job.beat.every_ms, 1000);
    assert_int_equal(conf.job.beat.missed, 5);
    assert_int_equal(conf.job.max_restarts.count, 2);
    assert_int_equal(conf.job.spares, 1);
    assert_int_equal(conf.job.launch_timeout_ms, 10000);
}

static void a_bad_rule_is_said_and_a_slip_opens_nothing(void **state)
{
    static const struct {
        const char *word, *text;
    } rows[] = {
        {"forbid=", "ignoring 'forbid=' in plugstack.conf: must be names with commas "
                    "between\n"},
        {"max-checks=all",
         "ignoring 'max-checks=all' in plugstack.conf: 'checks' is no number and no "
         "time: forbid=checks is what there is\n"},
        {"max-spares=few", "ignoring 'max-spares=few' in plugstack.conf: option "
                           "'spares': bad value 'few': must be a whole number from 0 "
                           "to 4294967295\n"},
    };
    struct dlr_spank_conf conf;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char *const words[] = {(char *)rows[i].word};

        said[0] = '\0';
        dlr_options_init(&conf);
        dlr_options_site(&conf, 1, words, say);
        assert_string_equal(said, rows[i].text);
    }
    said[0] = '\0';
    dlr_options_init(&conf);
    dlr_options_site(&conf, 1, (char *[]){"forbid=chekcs,spares"}, say);
    assert_non_null(strstr(said, "unknown option 'chekcs'"));
    assert_int_equal(dlr_options_set(&conf, 1, "1", NULL), -EPERM);
}

static void a_job_inside_a_job_starts_without_its_options(void **state)
{
    setenv("SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_dlrover", "on", 1);
    setenv("SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_dlrover_max_restarts", "1", 1);
    setenv("SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_dlrover_set", "pace=auto", 1);
    setenv("SLURM_SPANK__SLURM_SPANK_OPTION_other_dlrover", "theirs", 1);
    dlr_options_disown();
    assert_null(getenv("SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_dlrover"));
    assert_null(getenv("SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_dlrover_max_restarts"));
    assert_null(getenv("SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_dlrover_set"));
    assert_non_null(getenv("SLURM_SPANK__SLURM_SPANK_OPTION_other_dlrover"));
}

static void lists_of_settings_add_up_and_the_last_word_on_each_holds(void **state)
{
    static const struct {
        const char *lists[WORDS];
        const char *all; /* what the job's sruns are given; NULL: nothing */
    } rows[] = {
        {{"pace=auto"}, "pace=auto"},
        {{"pace=auto,checks=none", "heartbeat=1s"},
         "heartbeat=1s:5,checks=none,pace=auto"},
        {{"pace=auto,pace=off,pace=1m"}, "pace=1m"},
        {{"net=eth0,eth1,pace=auto", "pace=off"}, "pace=off,net=eth0,eth1"},
        {{"checks=memory,disk", "checks=clock"}, "checks=clock"},
        {{"net=", "checks="}, "checks=,net="},
        {{NULL}, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_spank_conf conf;
        char *all;

        setenv("DLROVER_SET", "persist-count=9", 1); /* is the job's anyway */
        dlr_options_init(&conf);
        dlr_options_env(&conf, environ, NULL);
        unsetenv("DLROVER_SET");
        for (size_t k = 0; k < WORDS && rows[i].lists[k]; k++)
            assert_int_equal(
                dlr_options_set(&conf, DLR_OPTIONS_SET, rows[i].lists[k], NULL), 0);
        all = dlr_options_settings(&conf);
        if (rows[i].all)
            assert_string_equal(all, rows[i].all);
        else
            assert_null(all);
        if (all) /* and they mean the same there */
            assert_int_equal(dlr_options_set(&conf, DLR_OPTIONS_SET, all, NULL), 0);
        free(all);
    }
}

static void a_bad_list_is_one_line_and_changes_nothing(void **state)
{
    static const struct {
        const char *list, *text;
        int rc;
    } rows[] = {
        {"hartbeat=1s",
         "--dlrover-set: unknown setting 'hartbeat', did you mean 'heartbeat'?",
         -ENOENT},
        {"pace=auto,presist-count=3",
         "--dlrover-set: unknown setting 'presist-count', did you mean "
         "'persist-count'?",
         -ENOENT},
        {"colour=red",
         "--dlrover-set: unknown setting 'colour': see 'dlrover help settings'",
         -ENOENT},
        {"net=/dev/a,b=c",
         "--dlrover-set: unknown setting 'b': see 'dlrover help settings'", -ENOENT},
        {"spares=1",
         "--dlrover-set: 'spares' is an option of its own: --dlrover-spares=N",
         -EINVAL},
        {"enable=on",
         "--dlrover-set: 'enable' is an option of its own: --dlrover=on|off", -EINVAL},
        {"heartbeat", "--dlrover-set: heartbeat needs a value: heartbeat=TIME[:MISSED]",
         -EINVAL},
        {"pace=auto,heartbeat=fast",
         "--dlrover-set: heartbeat: bad value 'fast': must be TIME[:MISSED], a time "
         "from 10ms to 1m and a count from 2 to 1000, such as '200ms:5'",
         -EINVAL},
        {"pace=auto,", "--dlrover-set: a comma too many in 'pace=auto,'", -EINVAL},
        {"net=a,,b", "--dlrover-set: a comma too many in 'net=a,,b'", -EINVAL},
        {"", "--dlrover-set: unknown setting '': see 'dlrover help settings'", -ENOENT},
        {NULL, "--dlrover-set needs a value: --dlrover-set=KEY=VALUE,...", -EINVAL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_spank_conf conf, before;
        struct dlr_err err = {0};

        dlr_options_init(&conf);
        before = conf;
        assert_int_equal(dlr_options_set(&conf, DLR_OPTIONS_SET, rows[i].list, &err),
                         rows[i].rc);
        assert_string_equal(err.text, rows[i].text);
        assert_memory_equal(&conf, &before, sizeof(conf));
    }
}

static void who_has_thought_of_spares_is_not_told_of_them(void **state)
{
    static const struct {
        const char *site, *on, *spares, *nodes;
        bool lacks;
    } rows[] = {
        {NULL, "on", NULL, NULL, true},         {NULL, NULL, NULL, NULL, false},
        {"enable=on", NULL, NULL, NULL, false}, {"enable=on", "on", NULL, NULL, true},
        {NULL, "off", NULL, NULL, false},       {NULL, "on", "0", NULL, false},
        {NULL, "on", "1", NULL, false},         {NULL, "on", NULL, "3", false},
        {"spares=1", "on", NULL, NULL, false},  {NULL, "on", NULL, "0:3", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_spank_conf conf;

        dlr_options_init(&conf);
        dlr_options_site(&conf, rows[i].site != NULL, (char *[]){(char *)rows[i].site},
                         NULL);
        if (rows[i].on)
            dlr_options_set(&conf, 0, rows[i].on, NULL);
        if (rows[i].spares)
            dlr_options_set(&conf, 1, rows[i].spares, NULL);
        if (rows[i].nodes)
            dlr_options_set(&conf, 2, rows[i].nodes, NULL);
        assert_int_equal(dlr_options_lack_spare(&conf), rows[i].lacks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_is_taken_from_its_highest_source),
        cmocka_unit_test(a_site_may_keep_settings_to_itself),
        cmocka_unit_test(the_environment_is_no_way_round),
        cmocka_unit_test(what_root_does_is_for_the_site_alone_to_say),
        cmocka_unit_test(a_default_outside_of_the_limits_becomes_the_limit),
        cmocka_unit_test(a_bad_rule_is_said_and_a_slip_opens_nothing),
        cmocka_unit_test(a_job_inside_a_job_starts_without_its_options),
        cmocka_unit_test(lists_of_settings_add_up_and_the_last_word_on_each_holds),
        cmocka_unit_test(a_bad_list_is_one_line_and_changes_nothing),
        cmocka_unit_test(who_has_thought_of_spares_is_not_told_of_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
