/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"
#include "spank/task_env.h"

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
    dlr_jobconf_init(&conf->job);
    conf->site = conf->job;
    if (dlr_opt_defaults(site_opts, conf, NULL) < 0)
        conf->libexec[0] = '\0'; /* built with a bad DLR_LIBEXECDIR: nothing is found */
}

/* The table's reason without its "option 'NAME': ": how the user wrote it is said already. */
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
    else if (dlr_jobrules_has(name))
        rc = dlr_jobrules_set(&conf->rules, name, word + len + 1, &why);
    else
        rc = dlr_opt_set_word(dlr_jobconf_opts, word, &conf->job, &why);
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
    dlr_jobrules_fit(&conf->rules, &conf->job);
    conf->site = conf->job;
}

size_t dlr_options_count(void)
{
    size_t n = 0;

    while (dlr_jobconf_opts[n].name)
        n++;
    return n;
}

void dlr_options_name(size_t row, char name[DLR_OPTIONS_NAME])
{
    const char *own = dlr_jobconf_opts[row].name;

    if (dlr_streq(own, "enable"))
        dlr_format(name, DLR_OPTIONS_NAME, "dlrover");
    else
        dlr_format(name, DLR_OPTIONS_NAME, "dlrover-%s", own);
}

/* "dlrover-max-restarts" is read from DLROVER_MAX_RESTARTS. */
static void env_name(size_t row, char name[DLR_OPTIONS_NAME])
{
    dlr_options_name(row, name);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : toupper((unsigned char)*c);
}

void dlr_options_disown(void)
{
    for (size_t row = 0; dlr_jobconf_opts[row].name; row++) {
        char name[DLR_OPTIONS_NAME], var[DLR_OPTIONS_NAME + 64];

        dlr_options_name(row, name);
        for (char *c = name; *c; c++)
            *c = *c == '-' ? '_' : *c;
        if (dlr_format(var, sizeof(var), "SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_%s",
                       name) == 0)
            unsetenv(var);
    }
}

char *dlr_options_usage(size_t row)
{
    const struct dlr_opt *opt = &dlr_jobconf_opts[row];
    char *text = NULL;

    if (asprintf(&text, "%s (default %s)", opt->help,
                 opt->value[0] ? opt->value : "empty") < 0)
        return NULL;
    return text;
}

static int set_row(struct dlr_spank_conf *conf, size_t row, const char *value,
                   struct dlr_err *err)
{
    const struct dlr_opt *opt = &dlr_jobconf_opts[row];
    struct dlr_jobconf wanted = conf->job;
    int rc = dlr_opt_set(dlr_jobconf_opts, opt->name, value, &wanted, err);

    if (rc == 0)
        rc = dlr_jobrules_check(&conf->rules, row, &wanted, &conf->site, err);
    if (rc < 0)
        return rc;
    conf->job = wanted;
    if (dlr_streq(opt->name, "enable"))
        conf->asked = true;
    return 0;
}

void dlr_options_env(struct dlr_spank_conf *conf, char *const env[],
                     dlr_options_bad_fn bad)
{
    for (size_t row = 0; dlr_jobconf_opts[row].name; row++) {
        struct dlr_err err = {0}, why = {0};
        char name[DLR_OPTIONS_NAME];
        const char *value;
        int rc;

        env_name(row, name);
        value = dlr_task_getenv(env, name);
        if (!value)
            continue;
        rc = set_row(conf, row, value, &why);
        if (rc < 0 && bad) {
            dlr_fail(&err, rc, "ignoring %s in the environment: %s", name,
                     reason(&why, dlr_jobconf_opts[row].name));
            bad(&err);
        }
    }
}

int dlr_options_set(struct dlr_spank_conf *conf, size_t row, const char *value,
                    struct dlr_err *err)
{
    struct dlr_err why = {0};
    char name[DLR_OPTIONS_NAME];
    int rc;

    if (row >= dlr_options_count())
        return dlr_fail(err, -EINVAL, "Slurm handed over an option the plugin has not");
    dlr_options_name(row, name);
    if (!value || dlr_streq(value, "(null)"))
        return dlr_fail(err, -EINVAL, "--%s needs a value: --%s=%s", name, name,
                        dlr_jobconf_opts[row].arg);
    rc = set_row(conf, row, value, &why);
    if (rc < 0)
        return dlr_fail(err, rc, "--%s: %s", name,
                        reason(&why, dlr_jobconf_opts[row].name));
    return 0;
}

int dlr_options_switch(const char *value, bool *ret_on)
{
    struct dlr_jobconf conf;
    int rc;

    dlr_jobconf_init(&conf);
    rc = dlr_opt_set(dlr_jobconf_opts, "enable", value, &conf, NULL);
    if (rc == 0)
        *ret_on = conf.enable;
    return rc;
}
