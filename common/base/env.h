/* SPDX-License-Identifier: Apache-2.0 */
/* Reading an environment that need not be this process's own. */
#ifndef DLR_COMMON_BASE_ENV_H
#define DLR_COMMON_BASE_ENV_H

/* What follows "name=" in entry, NULL when it is not of that name. */
const char *dlr_env_value(const char *entry, const char *name);

/* The value of name in env, a list of "NAME=value" that ends with NULL, or may be NULL
 * itself. NULL when it is not there. The value belongs to env.
 */
const char *dlr_env_get(char *const env[], const char *name);

#endif
