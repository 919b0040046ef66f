/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of an event, and keeping them. */
#ifndef DLR_MPI_LAUNCHER_JOURNAL_EVENT_FIELDS_H
#define DLR_MPI_LAUNCHER_JOURNAL_EVENT_FIELDS_H

#include <jansson.h>
#include <stdint.h>

/* The event's; NULL when there is no such text. */
const char *dlr_cli_event_text(const json_t *e, const char *key);

int64_t dlr_cli_event_int(const json_t *e, const char *key, int64_t fallback);

/* Has *text, which it frees, be a copy of value; NULL when that is NULL or empty. */
void dlr_cli_set_text(char **text, const char *value);

#endif
