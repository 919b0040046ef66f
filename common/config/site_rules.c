/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/site_rules.h"

#include <errno.h>
#include <string.h>

#include "common/base/str.h"

#define NAME_ROOM 64

bool dlr_site_rules_has(const char *name)
{
    if (dlr_opt_find(dlr_job_config_opts, name))
        return false; /* max-restarts is a setting */
    return dlr_streq(name, "forbid") || dlr_after(name, "min-") ||
           dlr_after(name, "max-");
}

static int find_row(const char *name, size_t *ret_row, struct dlr_err *err)
{
    const struct dlr_opt *opt = dlr_opt_find(dlr_job_config_opts, name);

    if (!opt)
        return dlr_opt_set(dlr_job_config_opts, name, "", NULL,
                           err); /* says what is known */
    if (opt - dlr_job_config_opts >= DLR_SITE_RULES_ROWS)
        return dlr_fail(err, -ENOSPC, "no room for a rule about '%s'", name);
    *ret_row = (size_t)(opt - dlr_job_config_opts);
    return 0;
}

static int forbid(struct dlr_site_rules *rules, const char *list, struct dlr_err *err)
{
    int worst = 0;

    if (!*list)
        return dlr_fail(err, -EINVAL, "must be names with commas between");
    while (list) {
        const char *comma = strchr(list, ',');
        size_t len = comma ? (size_t)(comma - list) : strlen(list);
        char name[NAME_ROOM];
        size_t row;
        int rc;

        if (dlr_format(name, sizeof(name), "%.*s", (int)(len < NAME_ROOM ? len : 0),
                       list) < 0)
            return -EINVAL;
        rc = find_row(name, &row, err);
        if (rc == 0)
            rules->forbidden[row] = true;
        else
            worst = rc;
        list = comma ? comma + 1 : NULL;
    }
    return worst;
}

static bool has_order(const struct dlr_opt *opt)
{
    uint64_t number;
    struct dlr_job_config conf = {0};

    return dlr_opt_number(opt, &conf, &number) == 0;
}

static int limit(struct dlr_job_config *bounds, bool *has, const char *name,
                 const char *value, struct dlr_err *err)
{
    size_t row;
    int rc = find_row(name, &row, err);

    if (rc < 0)
        return rc;
    if (!has_order(&dlr_job_config_opts[row]))
        return dlr_fail(err, -EINVAL,
                        "'%s' is no number and no time: forbid=%s is what there is",
                        name, name);
    rc = dlr_opt_set(dlr_job_config_opts, name, value, bounds, err);
    if (rc == 0)
        has[row] = true;
    return rc;
}

int dlr_site_rules_set(struct dlr_site_rules *rules, const char *name,
                       const char *value, struct dlr_err *err)
{
    const char *of;

    if (dlr_streq(name, "forbid"))
        return forbid(rules, value, err);
    if ((of = dlr_after(name, "min-")))
        return limit(&rules->min, rules->has_min, of, value, err);
    if ((of = dlr_after(name, "max-")))
        return limit(&rules->max, rules->has_max, of, value, err);
    return dlr_fail(err, -ENOENT, "unknown rule '%.64s'", name);
}

static bool same(const struct dlr_opt *opt, const struct dlr_job_config *a,
                 const struct dlr_job_config *b)
{
    char left[DLR_OPT_TEXT + 1], right[DLR_OPT_TEXT + 1];

    return dlr_opt_show(opt, a, left, sizeof(left)) == 0 &&
           dlr_opt_show(opt, b, right, sizeof(right)) == 0 && dlr_streq(left, right);
}

static int outside(const struct dlr_opt *opt, const struct dlr_job_config *wanted,
                   const struct dlr_job_config *bound, const char *relation,
                   const char *most, struct dlr_err *err)
{
    char value[DLR_OPT_TEXT + 1], end[DLR_OPT_TEXT + 1];

    dlr_opt_show(opt, wanted, value, sizeof(value));
    dlr_opt_show(opt, bound, end, sizeof(end));
    if (opt->type == DLR_OPT_BEAT)
        end[strcspn(end, ":")] = '\0';
    return dlr_fail(err, -EPERM, "%.100s is %s than this site allows: %s %.100s", value,
                    relation, most, end);
}

int dlr_site_rules_check(const struct dlr_site_rules *rules, size_t row,
                         const struct dlr_job_config *wanted,
                         const struct dlr_job_config *site, struct dlr_err *err)
{
    const struct dlr_opt *opt = &dlr_job_config_opts[row];
    uint64_t value, bound;
    char own[DLR_OPT_TEXT + 1];

    if (row >= DLR_SITE_RULES_ROWS)
        return 0;
    if (rules->forbidden[row] && !same(opt, wanted, site)) {
        dlr_opt_show(opt, site, own, sizeof(own));
        return dlr_fail(err, -EPERM,
                        "this site does not let jobs set it; it is '%.200s' here", own);
    }
    if (dlr_opt_number(opt, wanted, &value) < 0)
        return 0;
    if (rules->has_min[row] && dlr_opt_number(opt, &rules->min, &bound) == 0 &&
        value < bound)
        return outside(opt, wanted, &rules->min, "less", "at least", err);
    if (rules->has_max[row] && dlr_opt_number(opt, &rules->max, &bound) == 0 &&
        value > bound)
        return outside(opt, wanted, &rules->max, "more", "at most", err);
    return 0;
}

void dlr_site_rules_fit(const struct dlr_site_rules *rules, struct dlr_job_config *conf)
{
    for (size_t row = 0; row < DLR_SITE_RULES_ROWS && dlr_job_config_opts[row].name;
         row++) {
        const struct dlr_opt *opt = &dlr_job_config_opts[row];
        uint64_t value, bound;

        if (dlr_opt_number(opt, conf, &value) < 0)
            continue;
        if (rules->has_min[row] && dlr_opt_number(opt, &rules->min, &bound) == 0 &&
            value < bound)
            dlr_opt_put_number(opt, conf, bound);
        if (rules->has_max[row] && dlr_opt_number(opt, &rules->max, &bound) == 0 &&
            value > bound)
            dlr_opt_put_number(opt, conf, bound);
    }
}
