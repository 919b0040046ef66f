/* SPDX-License-Identifier: Apache-2.0 */
/* Files: whole reads and writes, and the only durable replace of the project. */
#ifndef DLR_COMMON_BASE_FILE_H
#define DLR_COMMON_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/base/err.h"

/* Writes or reads all of it, through EINTR and short counts. 0 or -errno (-ENODATA when
 * the file ends early). Blocking.
 */
int dlr_write_all(int fd, const void *buf, size_t size);
int dlr_read_all(int fd, void *buf, size_t size);
/* Reads from byte at of the file; where fd stands is as before. */
int dlr_read_at(int fd, void *buf, size_t size, uint64_t at);

/* Replaces dirfd/name (name may be a path) by the concatenation of parts so that a
 * crash at any moment leaves the old file or the new one: temporary file, write, fsync,
 * renameat, fsync of the directory, each checked. mode as in open(2). Blocking. 0 or
 * -errno with text.
 */
int dlr_file_replace(int dirfd, const char *name, mode_t mode,
                     const struct iovec *parts, unsigned nparts, struct dlr_err *err);

/* Writes the new contents to fd, whose file will be called name; 0 or -errno with text.
 */
typedef int (*dlr_file_fill_fn)(int fd, const char *name, void *arg,
                                struct dlr_err *err);

/* dlr_file_replace() with contents that fill writes, in any order, over the blocks of a
 * file that nobody needs: old, beside it, durably of a name that nobody looks for
 * (NULL, or not there: none). It is gone in any case. A new file is made where somebody
 * still has the old one, by another name or open, or where that cannot be told: the
 * file system is not this node's own. fill finds the old contents.
 */
int dlr_file_replace_over(int dirfd, const char *name, mode_t mode, const char *old,
                          dlr_file_fill_fn fill, void *arg, struct dlr_err *err);

/* Reads a whole file of at most max bytes into a NUL-terminated heap buffer owned by
 * the caller. -EFBIG when larger.
 */
int dlr_file_load(int dirfd, const char *name, size_t max, char **ret_text,
                  size_t *ret_size, struct dlr_err *err);

/* The same of a file that this suite has written: something else by its name (a FIFO,
 * for which open would wait) is -EINVAL.
 */
int dlr_file_load_own(int dirfd, const char *name, size_t max, char **ret_text,
                      size_t *ret_size, struct dlr_err *err);

/* Creates path and its missing parents, each with mode. 0 also when it is there
 * already.
 */
int dlr_mkdirs(const char *path, mode_t mode, struct dlr_err *err);

/* True when fd is a regular file. Asks neither its server, which may hang, nor for its
 * position, which somebody who hangs in a write may hold.
 */
bool dlr_is_file(int fd);

#endif
