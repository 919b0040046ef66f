/* SPDX-License-Identifier: Apache-2.0 */
/* How many descriptors this process may have: as many as it may at all, while its
 * children get what the user set.
 */
#ifndef DLR_COMMON_BASE_OPEN_FILES_H
#define DLR_COMMON_BASE_OPEN_FILES_H

#include "common/base/err.h"

/* Raises the soft limit to the hard one. The limit that is in force. */
unsigned dlr_open_files_raise(void);

/* In a child, before exec: the soft limit is what it was before dlr_open_files_raise().
 * Async-signal-safe.
 */
void dlr_open_files_restore(void);

/* -EMFILE with one line for the user when limit is too low for a process with so many
 * connections.
 */
int dlr_open_files_check(unsigned limit, unsigned connections, struct dlr_err *err);

/* Descriptors of a daemon that are no connections of others. */
#define DLR_OPEN_FILES_OWN 64

#endif
