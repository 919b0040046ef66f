/* SPDX-License-Identifier: Apache-2.0 */
/* What the journal's writer, a process apart, does with lines: journal.c's alone. */
#ifndef DLR_MPI_LAUNCHER_JOURNAL_WRITER_H
#define DLR_MPI_LAUNCHER_JOURNAL_WRITER_H

/* Of dlr_offload_fn, with a struct dlr_work_line. The first: path is the journal, fd
 * whose turn it is, or none. fd is the journal then, -1 when it did not open.
 */
int dlr_journal_start(void *arg, int *fd);
int dlr_journal_write(void *arg, int *fd);
int dlr_journal_write_last(void *arg, int *fd);    /* unless path has others' lines */
int dlr_journal_write_missing(void *arg, int *fd); /* unless path has an end */
int dlr_journal_replace_file(void *arg, int *fd);
int dlr_journal_append_file(void *arg, int *fd);

#endif
