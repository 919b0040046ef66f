/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options: from text to what a configuration struct holds, and back. For
 * common/config/opt.c.
 */
#ifndef DLR_COMMON_CONFIG_OPT_VALUE_H
#define DLR_COMMON_CONFIG_OPT_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/config/failure_rules.h"
#include "common/config/opt.h"

/* One value of any type. */
union dlr_opt_value {
    bool on;
    unsigned number;
    int64_t ms;
    uint64_t bytes;
    struct dlr_heartbeat_conf beat;
    struct dlr_every_conf every;
    struct dlr_redundancy_conf redundancy;
    struct dlr_nodes_conf nodes;
    struct dlr_ratio_conf ratio;
    struct dlr_failure_rules failures;
    enum dlr_transport transport;
    enum dlr_bind bind;
    enum dlr_watch_calls watch;
    enum dlr_rounds rounds;
    enum dlr_reorder reorder;
    char text[DLR_OPT_TEXT];
};

/* Reads a value; *ret may be changed on failure, -EINVAL or -ERANGE.
 * Foreign bytes: fuzz target opt.
 */
int dlr_opt_value_parse(enum dlr_opt_type type, const char *text,
                        union dlr_opt_value *ret);

/* Bytes of a value in a configuration struct; of text DLR_OPT_TEXT, whatever its
 * length.
 */
size_t dlr_opt_value_size(enum dlr_opt_type type);

/* What would be right, for a message: "'on' or 'off'". */
const char *dlr_opt_value_want(enum dlr_opt_type type);

/* The value at this place as text that dlr_opt_value_parse() would take. */
int dlr_opt_value_show(enum dlr_opt_type type, const void *at, char *buf, size_t size);

#endif
