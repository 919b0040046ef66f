/* SPDX-License-Identifier: Apache-2.0 */
/* Where the running program is installed, so that it finds the programs beside it. */
#ifndef DLR_COMMON_BASE_INSTALL_PATH_H
#define DLR_COMMON_BASE_INSTALL_PATH_H

#include <stddef.h>

/* Writes the path of the program called name in the directory of the running one. 0 or
 * -ENAMETOOLONG, -errno of readlink(2).
 */
int dlr_install_path_sibling(const char *name, char *buf, size_t size);

/* From now on memory and descriptors of this process are closed to others of the same
 * user (no ptrace, no /proc/PID/mem, no core dump): it holds a secret key. An exec ends
 * it.
 */
int dlr_process_keep_secrets(void);

/* The program and its libraries as they are mapped now stay in memory: a file system
 * under them that hangs does not stop this process. Where the limit of locked memory is
 * too low all is as before: -errno, which is nobody's failure. Not for memory that is
 * mapped later; an exec ends it, a fork has nothing of it.
 */
int dlr_process_keep_code(void);

#endif
