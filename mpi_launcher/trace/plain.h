/* SPDX-License-Identifier: Apache-2.0 */
/* Text of strangers as a viewer takes it. Private to the folder. */
#ifndef DLR_MPI_LAUNCHER_TRACE_PLAIN_H
#define DLR_MPI_LAUNCHER_TRACE_PLAIN_H

#include <stddef.h>

/* text as UTF-8 without control characters, in buf, which is returned; cut where that
 * ends. NULL is empty. Foreign bytes: fuzz target account.
 */
const char *dlr_trace_plain(const char *text, char *buf, size_t size);

#endif
