/* SPDX-License-Identifier: Apache-2.0 */
/* The value of --dlrover-set: KEY=VALUE[,KEY=VALUE]..., each a row of
 * common/config/job_config.h that is no option of its own. A part without '=' belongs
 * to the value before it: "net=eth0,eth1,pace=auto".
 */
#ifndef DLR_COMMON_CONFIG_SETTINGS_H
#define DLR_COMMON_CONFIG_SETTINGS_H

#include <stddef.h>

#include "common/base/err.h"

/* Takes the value of a row; it is valid during the call. 0, or -errno, which ends the
 * reading.
 */
typedef int (*dlr_settings_fn)(void *arg, size_t row, const char *value,
                               struct dlr_err *err);

/* Calls fn for each setting, in order: of a key that is there twice the last one holds.
 * 0, what fn has returned, -ENOENT for an unknown key, -EINVAL for what is no such
 * list, -ENOMEM; with a text that names the key. Foreign bytes: fuzz target opt.
 */
int dlr_settings_read(const char *text, dlr_settings_fn fn, void *arg,
                      struct dlr_err *err);

#endif
