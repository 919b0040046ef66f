/* SPDX-License-Identifier: Apache-2.0 */
/* What each event of the journal means in plain words: one table. */
#ifndef DLR_MPI_LAUNCHER_JOURNAL_EVENT_TEXT_H
#define DLR_MPI_LAUNCHER_JOURNAL_EVENT_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* a buffer that holds what an event is worth saying */
#define DLR_JOURNAL_EVENT_TEXT 1024

/* Writes the event as one line of printable text, cut where buf ends. An event that is
 * not in the table is shown by its name and fields.
 */
void dlr_journal_event_text(const json_t *event, char *buf, size_t size);

/* The names in the table, in the order in which events usually happen; NULL at the end.
 */
const char *dlr_cli_event_name(size_t i);

#endif
