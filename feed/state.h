/* SPDX-License-Identifier: Apache-2.0 */
/* A sequence as bytes: what it was made of, and its changes. All numbers are little
 * endian; dlr_ckpt(5) draws them.
 */
#ifndef DLR_FEED_STATE_H
#define DLR_FEED_STATE_H

#include <stddef.h>

#include "feed/sequence.h"

#define DLR_FEED_STATE_MAX 16384
#define DLR_FEED_STATE_HEAD 24 /* another one, other bytes */

/* Bytes that s takes, with change besides (may be NULL). */
size_t dlr_feed_state_size(const struct dlr_sequence *s,
                           const struct dlr_change *change);

/* How many were written. -ENOSPC: more than room. */
int dlr_feed_state_write(const struct dlr_sequence *s, void *ret, size_t room);

/* *ret: dlr_sequence_free(). -EBADMSG: these are no such bytes, or spoilt ones; -EPROTO:
 * of a later release. Foreign bytes: fuzz target feed.
 */
int dlr_feed_state_read(const void *bytes, size_t size, struct dlr_sequence **ret,
                        struct dlr_err *err);

/* Whether what is read here goes on with what stored has read: 0; 1: it has more
 * records at the end. -EBADMSG: err has what is different, with both values.
 */
int dlr_feed_state_compare(const struct dlr_sequence *stored,
                           const struct dlr_sequence *here, struct dlr_err *err);

#endif
