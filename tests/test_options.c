/* SPDX-License-Identifier: Apache-2.0 */
/* Where a setting comes from, and what a site may say about it. */
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

#include "common/str.h"
#include "spank/options.h"

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
    [DLR_OPT_SPAN] = {"11m", "12m", "off", "500ms"},
    [DLR_OPT_RATE] = {"11m", "auto", "off", "14k"},
    [DLR_OPT_COUNT] = {"11", "auto", "0", "14"},
    [DLR_OPT_PPM] = {"1.1%", "2%", "off", "0.0003%"},
};

static void variable(size_t row, char name[DLR_OPTIONS_NAME])
{
    dlr_options_name(row, name);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
}

static const char *shown(const struct dlr_spank_conf *conf, size_t row)
{
    static char text[DLR_OPT_TEXT + 1];

    assert_int_equal(
        dlr_opt_show(&dlr_jobconf_opts[row], &conf->job, text, sizeof(text)), 0);
    return text;
}

enum { SITE = 1, ENV = 2, SCRIPT = 4, CLI = 8 };

/* As Slurm does it: the plugin's words at init, then the environment, then #SBATCH lines (in
 * srun: what Slurm kept of them), then the command line.
 */
static void gather(struct dlr_spank_conf *conf, size_t row, unsigned sources)
{
    const struct dlr_opt *opt = &dlr_jobconf_opts[row];
    const char *const *value = values[opt->type];
    char word[128], name[DLR_OPTIONS_NAME];
    char *words[] = {word};

    variable(row, name);
    unsetenv(name);
    if (sources & ENV)
        setenv(name, value[1], 1);
    dlr_format(word, sizeof(word), "%s=%s", opt->name, value[0]);
    dlr_options_init(conf);
    dlr_options_site(conf, sources & SITE ? 1 : 0, words, NULL);
    dlr_options_env(conf, environ, NULL);
    if (sources & SCRIPT)
        assert_int_equal(dlr_options_set(conf, row, value[2], NULL), 0);
    if (sources & CLI)
        assert_int_equal(dlr_options_set(conf, row, value[3], NULL), 0);
    unsetenv(name);
}

static void every_setting_is_taken_from_its_highest_source(void **state)
{
    for (size_t row = 0; row < dlr_options_count(); row++) {
        const struct dlr_opt *opt = &dlr_jobconf_opts[row];
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
        {{"min-heartbeat=100ms"}, "heartbeat", "100ms:2", NULL},
        {{"min-heartbeat=100ms"},
         "heartbeat",
         "50ms:9",
         "--dlrover-heartbeat: 50ms:9 is less than this site allows: at least 100ms"},
        {{"min-launch-timeout=1m", "max-launch-timeout=2m"},
         "launch-timeout",
         "30s",
         "--dlrover-launch-timeout: 30s is less than this site allows: at least 60s"},
        {{"min-launch-timeout=1m", "max-launch-timeout=2m"},
         "launch-timeout",
         "3m",
         "--dlrover-launch-timeout: 180s is more than this site allows: at most 120s"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct dlr_opt *opt = dlr_opt_find(dlr_jobconf_opts, rows[i].name);
        struct dlr_spank_conf conf;
        struct dlr_err err = {0};
        int words = 0;

        while (words < WORDS && rows[i].site[words])
            words++;
        said[0] = '\0';
        dlr_options_init(&conf);
        dlr_options_site(&conf, words, (char *const *)rows[i].site, say);
        assert_string_equal(said, "");
        assert_int_equal(dlr_options_set(&conf, (size_t)(opt - dlr_jobconf_opts),
                                         rows[i].value, &err),
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
    setenv("DLROVER_CHECKS", "none", 1);
    setenv("DLROVER_SPARES", "9", 1);
    dlr_options_init(&conf);
    dlr_options_site(&conf, 3, words, say);
    dlr_options_env(&conf, environ, say);
    unsetenv("DLROVER_CHECKS");
    unsetenv("DLROVER_SPARES");
    assert_string_equal(conf.job.checks, "memory");
    assert_int_equal(conf.job.spares, 0);
    assert_string_equal(
        said,
        "ignoring DLROVER_SPARES in the environment: 9 is more than this site allows: "
        "at most 2\n"
        "ignoring DLROVER_CHECKS in the environment: this site does not let jobs set "
        "it; it is 'memory' here\n");
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
    assert_int_equal(conf.job.max_restarts, 2);
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
    setenv("SLURM_SPANK__SLURM_SPANK_OPTION_other_dlrover", "theirs", 1);
    dlr_options_disown();
    assert_null(getenv("SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_dlrover"));
    assert_null(getenv("SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_dlrover_max_restarts"));
    assert_non_null(getenv("SLURM_SPANK__SLURM_SPANK_OPTION_other_dlrover"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_is_taken_from_its_highest_source),
        cmocka_unit_test(a_site_may_keep_settings_to_itself),
        cmocka_unit_test(the_environment_is_no_way_round),
        cmocka_unit_test(a_default_outside_of_the_limits_becomes_the_limit),
        cmocka_unit_test(a_bad_rule_is_said_and_a_slip_opens_nothing),
        cmocka_unit_test(a_job_inside_a_job_starts_without_its_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
