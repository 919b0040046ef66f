/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/base/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/env.h"
#include "common/base/str.h"
#include "common/config/settings.h"

#define FIELD(f) offsetof(struct dlr_spank_conf, f)

/* clang-format off */
static const struct dlr_opt site_opts[] = {
    {"libexec", DLR_OPT_PATH, FIELD(libexec), DLR_LIBEXECDIR, "DIR",
     "where dlrover-keeper and dlrover-stderr are"},
    {"prefix", DLR_OPT_PATH, FIELD(prefix), "", "DIR",
     "where the suite is installed: libexec is DIR/libexec/dlrover"},
    {"job-tmpfs", DLR_OPT_SWITCH, FIELD(job_tmpfs), "on", "on|off",
     "each supervised job has a tmpfs of its own in /run/dlrover on its nodes"},
    {"job-tmpfs-size", DLR_OPT_SHARE, FIELD(job_tmpfs_size), "100%", "SIZE|PERCENT",
     "how large it may grow, of the memory that the job has on the node"},
    {"job-tmpfs-keep", DLR_OPT_SPAN, FIELD(job_tmpfs_keep_ms), "off", "TIME|off",
     "how long it stays for the job when that is requeued and no other comes"},
    DLR_OPT_END,
};
/* clang-format on */

void dlr_options_init(struct dlr_spank_conf *conf)
{
    memset(conf, 0, sizeof(*conf));
    dlr_job_config_init(&conf->job);
    conf->site = conf->job;
    if (dlr_opt_defaults(site_opts, conf, NULL) < 0)
        conf->libexec[0] = '\0'; /* built with a bad DLR_LIBEXECDIR: nothing is found */
}

/* The table's reason without its "option 'NAME': ": how the user wrote it is said
 * already.
 */
static const char *reason(const struct dlr_err *why, const char *name)
{
    char lead[DLR_OPTIONS_NAME + 16];
    const char *rest = NULL;

    if (dlr_format(lead, sizeof(lead), "option '%s': ", name) == 0)
        rest = dlr_after(why->text, lead);
    return rest ? rest : why->text;
}

static int set_site(struct dlr_spank_conf *conf, const char *word, struct dlr_err *err)
{
    struct dlr_err why = {0};
    char name[DLR_OPTIONS_NAME] = "";
    size_t len = strcspn(word, "=");
    int rc;

    if (word[len] != '=' || dlr_format(name, sizeof(name), "%.*s", (int)len, word) < 0)
        return dlr_fail(err, -EINVAL, "ignoring '%s' in plugstack.conf: not NAME=VALUE",
                        word);
    if (dlr_opt_find(site_opts, name))
        rc = dlr_opt_set_word(site_opts, word, conf, &why);
    else if (dlr_site_rules_has(name))
        rc = dlr_site_rules_set(&conf->rules, name, word + len + 1, &why);
    else
        rc = dlr_opt_set_word(dlr_job_config_opts, word, &conf->job, &why);
    if (rc < 0)
        return dlr_fail(err, rc, "ignoring '%s' in plugstack.conf: %s", word,
                        reason(&why, name));
    if (conf->prefix[0] && dlr_format(conf->libexec, sizeof(conf->libexec),
                                      "%s/libexec/dlrover", conf->prefix) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "prefix in plugstack.conf is too long");
    return 0;
}

void dlr_options_site(struct dlr_spank_conf *conf, int count, char *const words[],
                      dlr_options_bad_fn bad)
{
    for (int i = 0; i < count; i++) {
        struct dlr_err err = {0};

        if (set_site(conf, words[i], &err) < 0 && bad)
            bad(&err);
    }
    dlr_site_rules_fit(&conf->rules, &conf->job);
    conf->site = conf->job;
}

void dlr_options_name(size_t option, char name[DLR_OPTIONS_NAME])
{
    if (option == DLR_OPTIONS_SET)
        dlr_format(name, DLR_OPTIONS_NAME, "dlrover-set");
    else if (option == 0)
        dlr_format(name, DLR_OPTIONS_NAME, "dlrover");
    else
        dlr_format(name, DLR_OPTIONS_NAME, "dlrover-%s",
                   dlr_job_config_opts[option].name);
}

const char *dlr_options_arg(size_t option)
{
    return option == DLR_OPTIONS_SET ? "KEY=VALUE,..."
                                     : dlr_job_config_opts[option].arg;
}

/* "dlrover-max-restarts" is read from DLROVER_MAX_RESTARTS. */
static void env_name(size_t option, char name[DLR_OPTIONS_NAME])
{
    dlr_options_name(option, name);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : toupper((unsigned char)*c);
}

void dlr_options_kept(size_t option, char name[DLR_OPTIONS_NAME])
{
    char own[DLR_OPTIONS_NAME];

    dlr_options_name(option, own);
    for (char *c = own; *c; c++)
        *c = *c == '-' ? '_' : *c;
    dlr_format(name, DLR_OPTIONS_NAME, "_SLURM_SPANK_OPTION_dlrover_%.40s", own);
}

void dlr_options_disown(void)
{
    for (size_t option = 0; option < DLR_OPTIONS_COUNT; option++) {
        char name[DLR_OPTIONS_NAME], var[DLR_OPTIONS_NAME + 16];

        dlr_options_kept(option, name);
        dlr_format(var, sizeof(var), "SLURM_SPANK_%s", name);
        unsetenv(var);
    }
}

char *dlr_options_usage(size_t option)
{
    const struct dlr_opt *opt = &dlr_job_config_opts[option];

    if (option == DLR_OPTIONS_SET)
        return strdup("all other settings: 'dlrover help settings' lists them");
    return dlr_format_new("%s (default %s)", opt->help,
                          opt->value[0] ? opt->value : "empty");
}

static int set_row(struct dlr_spank_conf *conf, size_t row, const char *value,
                   enum dlr_options_by by, struct dlr_err *err)
{
    const struct dlr_opt *opt = &dlr_job_config_opts[row];
    struct dlr_job_config wanted = conf->job;
    int rc = dlr_opt_set(dlr_job_config_opts, opt->name, value, &wanted, err);

    if (rc == 0)
        rc = dlr_site_rules_check(&conf->rules, row, &wanted, &conf->site, err);
    if (rc < 0)
        return rc;
    conf->job = wanted;
    conf->by[row] = by;
    return 0;
}

struct list {
    struct dlr_spank_conf *conf;
    enum dlr_options_by by;
};

static int set_setting(void *arg, size_t row, const char *value, struct dlr_err *err)
{
    struct list *list = arg;
    const char *name = dlr_job_config_opts[row].name;
    struct dlr_err why = {0};
    int rc = set_row(list->conf, row, value, list->by, &why);

    return rc < 0 ? dlr_fail(err, rc, "%s: %s", name, reason(&why, name)) : 0;
}

/* All of a list, or nothing. The text is without the option's name. */
static int set_option(struct dlr_spank_conf *conf, size_t option, const char *value,
                      enum dlr_options_by by, struct dlr_err *err)
{
    struct dlr_err why = {0};
    int rc;

    if (option == DLR_OPTIONS_SET) {
        DLR_AUTO_FREE struct dlr_spank_conf *wanted = malloc(sizeof(*wanted));

        if (!wanted)
            return dlr_fail(err, -ENOMEM, "out of memory");
        *wanted = *conf;
        rc = dlr_settings_read(value, set_setting, &(struct list){wanted, by}, err);
        if (rc == 0)
            *conf = *wanted;
        return rc;
    }
    rc = set_row(conf, option, value, by, &why);
    return rc < 0
               ? dlr_fail(err, rc, "%s", reason(&why, dlr_job_config_opts[option].name))
               : 0;
}

void dlr_options_env(struct dlr_spank_conf *conf, char *const env[],
                     dlr_options_bad_fn bad)
{
    for (size_t option = 0; option < DLR_OPTIONS_COUNT; option++) {
        struct dlr_err err = {0}, why = {0};
        char name[DLR_OPTIONS_NAME];
        const char *value;
        int rc;

        env_name(option, name);
        value = dlr_env_get(env, name);
        if (!value)
            continue;
        rc = set_option(conf, option, value, DLR_BY_ENV, &why);
        if (rc < 0 && bad) {
            dlr_fail(&err, rc, "ignoring %s in the environment: %s", name, why.text);
            bad(&err);
        }
    }
}

int dlr_options_set(struct dlr_spank_conf *conf, size_t option, const char *value,
                    struct dlr_err *err)
{
    struct dlr_err why = {0};
    char name[DLR_OPTIONS_NAME];
    int rc;

    if (option >= DLR_OPTIONS_COUNT)
        return dlr_fail(err, -EINVAL, "Slurm handed over an option the plugin has not");
    dlr_options_name(option, name);
    if (!value || dlr_streq(value, "(null)"))
        return dlr_fail(err, -EINVAL, "--%s needs a value: --%s=%s", name, name,
                        dlr_options_arg(option));
    rc = set_option(conf, option, value, DLR_BY_OPTION, &why);
    return rc < 0 ? dlr_fail(err, rc, "--%s: %s", name, why.text) : 0;
}

char *dlr_options_settings(const struct dlr_spank_conf *conf)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    for (size_t row = DLR_OPTIONS_SET; dlr_job_config_opts[row].name; row++) {
        const struct dlr_opt *opt = &dlr_job_config_opts[row];
        char value[DLR_OPT_TEXT + 1];

        if (conf->by[row] == DLR_BY_OPTION &&
            dlr_opt_show(opt, &conf->job, value, sizeof(value)) == 0)
            fprintf(out, "%s%s=%s", ftell(out) > 0 ? "," : "", opt->name, value);
    }
    if (fclose(out) != 0 || size == 0) {
        free(text);
        return NULL;
    }
    return text;
}

bool dlr_options_lack_spare(const struct dlr_spank_conf *conf)
{
    const struct dlr_opt *opt = dlr_opt_find(dlr_job_config_opts, "spares");
    const struct dlr_job_config *job = &conf->job;

    return job->enable && conf->by[0] != DLR_BY_SITE && job->spares == 0 &&
           conf->by[opt - dlr_job_config_opts] == DLR_BY_SITE && !job->nodes.min &&
           !job->nodes.max;
}

int dlr_options_switch(const char *value, bool *ret_on)
{
    struct dlr_job_config conf;
    int rc;

    dlr_job_config_init(&conf);
    rc = dlr_opt_set(dlr_job_config_opts, "enable", value, &conf, NULL);
    if (rc == 0)
        *ret_on = conf.enable;
    return rc;
}
