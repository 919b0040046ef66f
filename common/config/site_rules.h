/* SPDX-License-Identifier: Apache-2.0 */
/* What a site lets its users set: arguments of plugstack.conf beside the settings
 * themselves.
 *
 *   forbid=NAME[,NAME]...   these are the site's; a job may only repeat the site's
 *   value
 *   min-NAME=VALUE          the least a job may set a number or a time to
 *   max-NAME=VALUE          the most
 *
 * NAME is a row of common/config/job_config.h. Of a heartbeat the time between beats is
 * compared. This is policy for those who use the plugin, not protection: see
 * spank_dlrover(8).
 */
#ifndef DLR_COMMON_CONFIG_SITE_RULES_H
#define DLR_COMMON_CONFIG_SITE_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"
#include "common/config/job_config.h"

#define DLR_SITE_RULES_ROWS 64 /* room; rules about a row beyond are refused */

/* All zero: everything is allowed. */
struct dlr_site_rules {
    bool forbidden[DLR_SITE_RULES_ROWS];
    bool has_min[DLR_SITE_RULES_ROWS];
    bool has_max[DLR_SITE_RULES_ROWS];
    struct dlr_job_config min, max; /* the rows that has_min, has_max name */
};

/* Whether name is a rule's and not a setting's. */
bool dlr_site_rules_has(const char *name);

/* Takes one rule. -ENOENT for an unknown name, -EINVAL for a bad value or a setting
 * that has no order. Of a list with an unknown name the others are forbidden all the
 * same: a slip must not open what was meant to be shut.
 */
int dlr_site_rules_set(struct dlr_site_rules *rules, const char *name,
                       const char *value, struct dlr_err *err);

/* Whether a job may have this row of wanted where the site has site. -EPERM with the
 * reason.
 */
int dlr_site_rules_check(const struct dlr_site_rules *rules, size_t row,
                         const struct dlr_job_config *wanted,
                         const struct dlr_job_config *site, struct dlr_err *err);

/* Moves what lies outside of the limits, such as a default, to the limit. */
void dlr_site_rules_fit(const struct dlr_site_rules *rules,
                        struct dlr_job_config *conf);

#endif
