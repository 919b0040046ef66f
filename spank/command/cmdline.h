/* SPDX-License-Identifier: Apache-2.0 */
/* The words and the environment this process was started with. Slurm hands a plugin
 * neither the words nor the environment as it was before options were parsed.
 */
#ifndef DLR_SPANK_COMMAND_CMDLINE_H
#define DLR_SPANK_COMMAND_CMDLINE_H

#include <stddef.h>

#include "common/base/err.h"

/* Loads /proc/self/cmdline, /proc/self/environ. *ret_words ends with NULL, points into
 * *ret_text, and both are the caller's to free. 0 or -errno.
 */
int dlr_cmdline_argv(char **ret_text, char ***ret_words, struct dlr_err *err);
int dlr_cmdline_environ(char **ret_text, char ***ret_words, struct dlr_err *err);

/* Cuts size bytes of NUL-terminated words into an array over them; the caller frees the
 * array. NULL when out of memory. text[size] must be writable and is made NUL.
 */
char **dlr_cmdline_split(char *text, size_t size);

#endif
