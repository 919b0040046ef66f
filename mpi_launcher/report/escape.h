/* SPDX-License-Identifier: Apache-2.0 */
/* The only way to a page: what somebody else wrote stays text there. */
#ifndef DLR_MPI_LAUNCHER_REPORT_ESCAPE_H
#define DLR_MPI_LAUNCHER_REPORT_ESCAPE_H

#include <stdio.h>

/* Writes fmt, markup of ours, with these in it and nothing else of printf(3):
 *   %s  const char *, escaped; NULL is nothing. Bytes that are no UTF-8, controls and
 *       characters that turn the direction of writing are '?'
 *   %d  int64_t      %f  double, two digits behind the point      %%  '%'
 * All that comes out is printable ASCII and line ends of fmt.
 */
void dlr_page(FILE *out, const char *fmt, ...);

#endif
