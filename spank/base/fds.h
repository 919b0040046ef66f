/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors across an exec. */
#ifndef DLR_SPANK_BASE_FDS_H
#define DLR_SPANK_BASE_FDS_H

/* Marks every open descriptor from first on close-on-exec. 0 or -errno. */
int dlr_fds_close_on_exec(int first);

#endif
