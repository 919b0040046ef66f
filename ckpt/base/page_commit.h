/* SPDX-License-Identifier: Apache-2.0 */
/* A commit on the progress page, and the wait for one, which costs no CPU time. */
#ifndef DLR_CKPT_BASE_PAGE_COMMIT_H
#define DLR_CKPT_BASE_PAGE_COMMIT_H

#include "ckpt/base/page.h"

/* The newest committed step, to all that wait for it, in other processes too. */
void dlr_page_commit(struct dlr_page *page, uint64_t step);

/* Waits until another commit than those that seq counts (committed_seq, loaded before
 * committed_step), at most timeout_ms. It may return early, for nothing.
 */
void dlr_page_commit_wait(struct dlr_page *page, uint32_t seq, int64_t timeout_ms);

#endif
