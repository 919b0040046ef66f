/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/config/job_config.h"

#define KEYS_MAX 64

static int unknown(const char *key, struct dlr_err *err)
{
    const char *keys[KEYS_MAX], *near;
    size_t n = 0;

    for (const struct dlr_opt *opt = dlr_job_config_opts + DLR_JOB_CONFIG_OPTIONS;
         opt->name && n < KEYS_MAX; opt++)
        keys[n++] = opt->name;
    near = dlr_nearest(key, keys, n);
    if (near)
        return dlr_fail(err, -ENOENT, "unknown setting '%.64s', did you mean '%s'?",
                        key, near);
    return dlr_fail(err, -ENOENT,
                    "unknown setting '%.64s': see 'dlrover help settings'", key);
}

/* Ends the setting that begins at text, and finds the next one, or NULL. */
static char *split(char *text)
{
    for (char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
        if (comma[1 + strcspn(comma + 1, ",=")] != '=')
            continue;
        *comma = '\0';
        return comma + 1;
    }
    return NULL;
}

static int read_one(char *word, dlr_settings_fn fn, void *arg, struct dlr_err *err)
{
    const struct dlr_opt *opt;
    char *value = strchr(word, '=');
    size_t row, n = strlen(word);

    if (value)
        *value++ = '\0';
    opt = dlr_opt_find(dlr_job_config_opts, word);
    if (!opt)
        return unknown(word, err);
    row = (size_t)(opt - dlr_job_config_opts);
    if (row == 0)
        return dlr_fail(err, -EINVAL, "'enable' is an option of its own: --dlrover=%s",
                        opt->arg);
    if (row < DLR_JOB_CONFIG_OPTIONS)
        return dlr_fail(err, -EINVAL, "'%s' is an option of its own: --dlrover-%s=%s",
                        word, word, opt->arg);
    if (!value)
        return dlr_fail(err, -EINVAL, "%s needs a value: %s=%s", word, word, opt->arg);
    if (strstr(value, ",,") || (*value && word[n - 1] == ','))
        return dlr_fail(err, -EINVAL, "a comma too many in '%s=%.64s'", word, value);
    return fn(arg, row, value, err);
}

int dlr_settings_read(const char *text, dlr_settings_fn fn, void *arg,
                      struct dlr_err *err)
{
    DLR_AUTO_FREE char *copy = strdup(text);
    int rc = 0;

    if (!copy)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (char *word = copy, *next; rc == 0 && word; word = next) {
        next = split(word);
        rc = read_one(word, fn, arg, err);
    }
    return rc;
}
