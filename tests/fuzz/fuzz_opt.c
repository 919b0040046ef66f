/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=spank/node,spank/command */
/* Settings as users and sites write them. Each line is a word NAME=VALUE; what the
 * table takes must come out of it as text that it takes again, to the same value.
 * Reaches dlr_opt_value_parse(), dlr_settings_read(), dlr_parse_duration_ms(),
 * dlr_parse_size(), dlr_parse_uint(), dlr_failure_rules_parse().
 */
#include "common/config/job_config.h"
#include "spank/base/options.h"
#include "tests/fuzz/fuzz.h"

static void ignore(const struct dlr_err *err)
{
    FUZZ_CHECK(memchr(err->text, '\0', sizeof(err->text)));
}

static void check_round_trip(const struct dlr_opt *opt,
                             const struct dlr_job_config *conf)
{
    char text[DLR_OPT_TEXT + 1], again[DLR_OPT_TEXT + 1];
    struct dlr_job_config copy = *conf;

    FUZZ_CHECK(dlr_opt_show(opt, conf, text, sizeof(text)) == 0);
    for (const char *c = text; *c; c++)
        FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
    FUZZ_CHECK(dlr_opt_set(dlr_job_config_opts, opt->name, text, &copy, NULL) == 0);
    FUZZ_CHECK(dlr_opt_show(opt, &copy, again, sizeof(again)) == 0);
    FUZZ_CHECK(strcmp(text, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dlr_spank_conf site; /* large */
    static struct dlr_job_config conf;
    char *all = fuzz_text(data, size), *rest = all, *line;

    dlr_job_config_init(&conf);
    dlr_options_init(&site);
    while ((line = fuzz_line(&rest))) {
        const char *equals = strchr(line, '=');
        struct dlr_err err = {0};

        if (dlr_opt_set_word(dlr_job_config_opts, line, &conf, &err) < 0)
            ignore(&err);
        for (size_t row = 0; equals && row < DLR_OPTIONS_SET; row++)
            if (dlr_options_set(&site, row, equals + 1, &err) < 0)
                ignore(&err);
        if (dlr_options_set(&site, DLR_OPTIONS_SET, line, &err) < 0)
            ignore(&err);
        dlr_options_site(&site, 1, (char *[]){line}, ignore);
    }
    for (const struct dlr_opt *opt = dlr_job_config_opts; opt->name; opt++) {
        check_round_trip(opt, &conf);
        check_round_trip(opt, &site.job);
    }
    free(all);
    return 0;
}
