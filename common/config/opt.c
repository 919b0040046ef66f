/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/opt.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/config/opt_value.h"

#define NAME_ROOM 64 /* of a row's name in "name=value" */

const struct dlr_opt *dlr_opt_find(const struct dlr_opt *table, const char *name)
{
    for (const struct dlr_opt *opt = table; opt->name; opt++)
        if (dlr_streq(opt->name, name))
            return opt;
    return NULL;
}

static int unknown(const struct dlr_opt *table, const char *name, struct dlr_err *err)
{
    char known[DLR_ERR_TEXT / 2 + 64] = "";
    size_t used = 0;

    for (const struct dlr_opt *opt = table; opt->name && used < sizeof(known); opt++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                 used ? ", " : "", opt->name);
    return dlr_fail(err, -ENOENT, "unknown option '%.64s': known are %s", name, known);
}

int dlr_opt_set(const struct dlr_opt *table, const char *name, const char *value,
                void *conf, struct dlr_err *err)
{
    const struct dlr_opt *opt = dlr_opt_find(table, name ? name : "");
    union dlr_opt_value parsed;
    int rc;

    if (!opt)
        return unknown(table, name ? name : "", err);
    if (!value)
        return dlr_fail(err, -EINVAL, "option '%s' needs a value: %s", opt->name,
                        dlr_opt_value_want(opt->type));
    rc = dlr_opt_value_parse(opt->type, value, &parsed);
    if (rc < 0)
        return dlr_fail(err, -EINVAL, "option '%s': bad value '%.64s'%s: must be %s",
                        opt->name, value, strlen(value) > 64 ? "..." : "",
                        dlr_opt_value_want(opt->type));
    if (dlr_opt_value_size(opt->type) == DLR_OPT_TEXT)
        strcpy((char *)conf + opt->offset, parsed.text);
    else
        memcpy((char *)conf + opt->offset, &parsed, dlr_opt_value_size(opt->type));
    return 0;
}

int dlr_opt_set_word(const struct dlr_opt *table, const char *word, void *conf,
                     struct dlr_err *err)
{
    const char *equals = strchr(word, '=');
    char name[NAME_ROOM];

    if (!equals)
        return dlr_opt_set(table, word, NULL, conf, err);
    if (dlr_format(name, sizeof(name), "%.*s", (int)(equals - word), word) < 0)
        return unknown(table, word, err);
    return dlr_opt_set(table, name, equals + 1, conf, err);
}

int dlr_opt_defaults(const struct dlr_opt *table, void *conf, struct dlr_err *err)
{
    for (const struct dlr_opt *opt = table; opt->name; opt++) {
        int rc = dlr_opt_set(table, opt->name, opt->value, conf, err);

        if (rc < 0)
            return rc;
    }
    return 0;
}

uint64_t dlr_opt_share(const char *share, uint64_t whole)
{
    size_t n = strlen(share);
    uint64_t bytes, percent;

    if (n > 0 && share[n - 1] == '%') {
        percent = strtoul(share, NULL, 10);
        return whole ? whole / 100 * percent + whole % 100 * percent / 100 : UINT64_MAX;
    }
    return dlr_parse_size(share, &bytes) < 0 ? UINT64_MAX : bytes;
}

int dlr_opt_show(const struct dlr_opt *opt, const void *conf, char *buf, size_t size)
{
    return dlr_opt_value_show(opt->type, (const char *)conf + opt->offset, buf, size);
}

int dlr_opt_number(const struct dlr_opt *opt, const void *conf, uint64_t *ret_number)
{
    const void *at = (const char *)conf + opt->offset;
    const struct dlr_ratio_conf *ratio = at;
    uint64_t per_ms;

    switch (opt->type) {
    case DLR_OPT_UINT:
        *ret_number = *(const unsigned *)at;
        return 0;
    case DLR_OPT_DURATION:
        *ret_number = (uint64_t) * (const int64_t *)at;
        return 0;
    case DLR_OPT_SIZE:
        *ret_number = *(const uint64_t *)at;
        return 0;
    case DLR_OPT_BEAT:
        *ret_number = ((const struct dlr_heartbeat_conf *)at)->every_ms;
        return 0;
    case DLR_OPT_RATIO: /* part of one is more than none */
        per_ms = ratio->per_ms ? ratio->per_ms : DLR_RATIO_MS;
        *ret_number = ((uint64_t)ratio->count * DLR_RATIO_MS + per_ms - 1) / per_ms;
        return 0;
    default:
        return -EINVAL;
    }
}

void dlr_opt_put_number(const struct dlr_opt *opt, void *conf, uint64_t number)
{
    void *at = (char *)conf + opt->offset;

    if (opt->type == DLR_OPT_UINT)
        *(unsigned *)at = (unsigned)number;
    else if (opt->type == DLR_OPT_DURATION)
        *(int64_t *)at = (int64_t)number;
    else if (opt->type == DLR_OPT_SIZE)
        *(uint64_t *)at = number;
    else if (opt->type == DLR_OPT_BEAT)
        ((struct dlr_heartbeat_conf *)at)->every_ms = (unsigned)number;
    else if (opt->type == DLR_OPT_RATIO)
        *(struct dlr_ratio_conf *)at =
            (struct dlr_ratio_conf){(unsigned)number, DLR_RATIO_MS};
}

static int left_column(const struct dlr_opt *opt, const char *prefix)
{
    return (int)(strlen("  --=") + strlen(prefix) + strlen(opt->name) +
                 strlen(opt->arg));
}

void dlr_opt_help(const struct dlr_opt *table, const char *prefix, FILE *out)
{
    int width = 0;

    for (const struct dlr_opt *opt = table; opt->name; opt++)
        if (left_column(opt, prefix) > width)
            width = left_column(opt, prefix);
    for (const struct dlr_opt *opt = table; opt->name; opt++) {
        fprintf(out, "  --%s%s=%s%*s  %s", prefix, opt->name, opt->arg,
                width - left_column(opt, prefix), "", opt->help);
        if (*opt->value)
            fprintf(out, " (default %s)", opt->value);
        fputc('\n', out);
    }
}

static int wider(int width, const char *text)
{
    int len = (int)strlen(text);

    return len > width ? len : width;
}

void dlr_opt_table(const struct dlr_opt *table, FILE *out)
{
    int name = (int)strlen("KEY"), value = (int)strlen("DEFAULT"),
        arg = (int)strlen("VALUE");

    for (const struct dlr_opt *opt = table; opt->name; opt++) {
        name = wider(name, opt->name);
        value = wider(value, opt->value);
        arg = wider(arg, opt->arg);
    }
    fprintf(out, "%-*s  %-*s  %-*s  %s\n", name, "KEY", value, "DEFAULT", arg, "VALUE",
            "MEANING");
    for (const struct dlr_opt *opt = table; opt->name; opt++)
        fprintf(out, "%-*s  %-*s  %-*s  %s\n", name, opt->name, value,
                *opt->value ? opt->value : "-", arg, opt->arg, opt->help);
}
