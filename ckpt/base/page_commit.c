/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/base/page_commit.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void dlr_page_commit(struct dlr_page *page, uint64_t step)
{
    atomic_store(&page->committed_step, step);
    atomic_fetch_add(&page->committed_seq, 1);
    syscall(SYS_futex, &page->committed_seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void dlr_page_commit_wait(struct dlr_page *page, uint32_t seq, int64_t timeout_ms)
{
    const struct timespec wait = {(time_t)(timeout_ms / 1000),
                                  (long)(timeout_ms % 1000) * 1000000};

    syscall(SYS_futex, &page->committed_seq, FUTEX_WAIT, seq, &wait, NULL, 0);
}
