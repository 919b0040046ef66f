/* SPDX-License-Identifier: Apache-2.0 */
/* Times, spans and strangers' text as a person reads them. */
#ifndef DLR_MPI_LAUNCHER_JOURNAL_TEXT_H
#define DLR_MPI_LAUNCHER_JOURNAL_TEXT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Replaces control characters, those beyond ASCII too, by '?' and line ends by blanks:
 * what a program wrote to its stderr must not speak to the terminal.
 */
void dlr_cli_clean(char *text);

/* "0.84 s", "12.3 s", "4 min 12 s", "3 h 5 min", "2 d 4 h". Negative counts as 0. */
void dlr_cli_span(int64_t ms, char *buf, size_t size);

/* Milliseconds since the epoch of "2026-11-21T03:04:05.678Z". -EINVAL. */
int dlr_cli_time_parse(const char *text, int64_t *ret_ms);

/* A time as a user types it, local unless it ends in Z: "2026-11-21",
 * "2026-11-21T03:04", "2026-11-21 03:04:05", "03:04" (today), or a span before now_ms:
 * "90s", "10m", "2h".
 */
int dlr_cli_since_parse(const char *text, int64_t now_ms, int64_t *ret_ms);

/* Local time: "2026-11-21 03:04:05.678", or "03:04:05" of a day within the last 18
 * hours and "11-21 03:04" before when brief. buf >= 25 bytes.
 */
void dlr_cli_time_text(int64_t ms, char *buf, size_t size);
void dlr_cli_time_brief(int64_t ms, int64_t now_ms, char *buf, size_t size);

/* "2-3", "4", "0,4", "0-1,4-5": tasks ranks from first on, or those of list (NULL:
 * none), ascending. A list that is too long ends in "...".
 */
void dlr_cli_ranks(const json_t *list, int64_t first, int64_t tasks, char *buf,
                   size_t size);

int64_t dlr_cli_now_ms(void); /* since the epoch */

#endif
