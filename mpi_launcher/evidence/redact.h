/* SPDX-License-Identifier: Apache-2.0 */
/* Takes secrets out of text that leaves the user's hands: the value behind a word such
 * as token, password, secret or api_key, in arguments, JSON, headers and assignments.
 * What a program prints without such a word cannot be known.
 */
#ifndef DLR_MPI_LAUNCHER_EVIDENCE_REDACT_H
#define DLR_MPI_LAUNCHER_EVIDENCE_REDACT_H

#include <stddef.h>

/* Writes '*' over each character of such a value, in place: the length stays, and JSON
 * stays JSON. Returns how many values there were. Foreign bytes: fuzz target evidence.
 */
size_t dlr_evidence_redact(char *text, size_t size);

#endif
