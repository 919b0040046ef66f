/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a journal line by line and goes on where it stopped when the file has grown. */
#ifndef DLR_MPI_LAUNCHER_JOURNAL_READER_H
#define DLR_MPI_LAUNCHER_JOURNAL_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* a longer line is skipped: 131,072 nodes fit a plan */
#define DLR_CLI_LINE_MAX (32u << 20)

struct dlr_cli_reader {
    const char *path; /* the caller's */
    int fd;           /* -1: to be opened, also after each end of the file */
    uint64_t dev, ino;
    uint64_t at; /* of the next byte to read */
    char *buf;
    size_t size, start, end; /* buf[start, end) is not yet handed out */
    bool skipping;           /* inside a line that is too long */
    unsigned skipped;        /* such lines */
};

/* Accept and reach nothing on disk; done accepts a zeroed reader. */
void dlr_cli_reader_init(struct dlr_cli_reader *r, const char *path);
void dlr_cli_reader_done(struct dlr_cli_reader *r);

/* The next whole line without its end, NUL-terminated, valid until the next call. 1; 0:
 * no further one now (half a line waits for its rest); -ESTALE: the file is another one
 * or shorter, the next call starts with its first line; other -errno. Blocking: file
 * system.
 */
int dlr_cli_reader_next(struct dlr_cli_reader *r, char **ret_line, size_t *ret_size,
                        struct dlr_err *err);

/* An event: an object with strings "time" and "event". A line that begins with the half
 * of another (its writer was killed) yields the whole one. NULL: neither. The caller's.
 * Foreign bytes: fuzz target journal.
 */
json_t *dlr_cli_event_parse(const char *line, size_t size);

/* True when the line is certainly a 'progress' event, without parsing it: nearly all of
 * a long journal, of which most readers need the last one.
 */
bool dlr_cli_is_progress(const char *line, size_t size);

/* For such a line: whether its time is before one written the same way ("": never). */
bool dlr_cli_is_before(const char *line, const char *time);

#endif
