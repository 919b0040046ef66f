/* SPDX-License-Identifier: Apache-2.0 */
/* The words this process was started with, which Slurm does not hand to a plugin. */
#ifndef DLR_SPANK_CMDLINE_H
#define DLR_SPANK_CMDLINE_H

#include <stddef.h>

#include "common/err.h"

/* Loads /proc/self/cmdline. *ret_argv ends with NULL, points into *ret_text, and both are the
 * caller's to free. 0 or -errno.
 */
int dlr_cmdline_load(char **ret_text, char ***ret_argv, struct dlr_err *err);

/* Cuts size bytes of NUL-terminated words into an argv over them; the caller frees the array.
 * NULL when out of memory. text[size] must be readable and is made NUL.
 */
char **dlr_cmdline_split(char *text, size_t size);

#endif
