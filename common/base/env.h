/* SPDX-License-Identifier: Apache-2.0 */
/* Reading an environment that need not be this process's own. */
#ifndef DLR_COMMON_BASE_ENV_H
#define DLR_COMMON_BASE_ENV_H

/* The value of name in env, a list of "NAME=value" that ends with NULL, or may be NULL itself. NULL when
 * it is not there. The value belongs to env.
 */
const char *dlr_env_get(char *const env[], const char *name);

#endif
