/* SPDX-License-Identifier: Apache-2.0 */
/* The journal: every event of a run is one line of JSON in events.jsonl. It is the only
 * record; status, report and tests read nothing else. Lines are written by a process of
 * their own behind a bounded queue, so that a file system that hangs stops no beat and
 * holds nobody who is killed meanwhile. That process goes on until all that has reached
 * it is written.
 */
#ifndef DLR_MPI_LAUNCHER_JOURNAL_JOURNAL_H
#define DLR_MPI_LAUNCHER_JOURNAL_JOURNAL_H

#include <jansson.h>
#include <stdint.h>

#include "common/base/err.h"
#include "mpi_launcher/process/fork_server.h"

struct dlr_journal;

/* Opens path for appending (created with mode 0644) in a writer that apart starts.
 * Waits a moment at most: a file system that hangs longer is waited for by the writer
 * alone. turns is a descriptor, -1: none; writers of one file of turns write one after
 * the other, the next when the one before has written all and ended. apart and turns
 * must live as long as the journal.
 */
int dlr_journal_open(struct dlr_fork_server *fork_server, int turns, const char *path,
                     struct dlr_journal **ret, struct dlr_err *err);

/* Adds {"time":"<UTC>","event":name, ...fields}. fields may be NULL; it is taken over.
 * Does not block: when the queue is full the line is dropped, and the next line that
 * fits says how many were. j may be NULL (nothing happens).
 */
void dlr_journal_event(struct dlr_journal *j, const char *name, json_t *fields);

/* Same for a line that ends the journal: it is left out when somebody else has written
 * into the file since our newest line. A supervisor that was deposed must not have the
 * last word.
 */
void dlr_journal_last(struct dlr_journal *j, const char *name, json_t *fields);

/* Writes the event end of a run that a former supervisor has ended: it is left out when
 * the journal has one behind its newest start.
 */
void dlr_journal_end_missing(struct dlr_journal *j, json_t *fields);

/* Same as the first with jansson's json_pack() format of an object's body: "s:i,s:s",
 * ...
 */
void dlr_journal_note(struct dlr_journal *j, const char *name, const char *fmt, ...);

/* Replaces the file at path by text, durably, by the same writer and in the same order
 * as the lines. Does not block; dropped like a line when the queue is full.
 */
void dlr_journal_replace(struct dlr_journal *j, const char *path, const char *text);

/* Same, but text and a newline are added to the file at path (created with mode 0644).
 */
void dlr_journal_append(struct dlr_journal *j, const char *path, const char *text);

/* Gives the writer what it had no room for, hears what it complains of. To be called
 * now and then.
 */
void dlr_journal_tick(struct dlr_journal *j);

/* Waits at most timeout_ms for what is queued to be written. Accepts NULL, returns
 * NULL.
 */
struct dlr_journal *dlr_journal_close(struct dlr_journal *j, int64_t timeout_ms);

#endif
