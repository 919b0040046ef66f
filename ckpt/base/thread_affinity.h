/* SPDX-License-Identifier: Apache-2.0 */
/* Puts helper threads where the node's agent says that they are in nobody's way. */
#ifndef DLR_CKPT_BASE_THREAD_AFFINITY_H
#define DLR_CKPT_BASE_THREAD_AFFINITY_H

#include <pthread.h>
#include <stdint.h>

#include "ckpt/base/page.h"

/* Lets the thread run on these CPUs (struct dlr_page.helper_cpus) as far as its job's
 * cpuset has them. All 0, or none of them there: it stays where it is.
 */
void dlr_thread_affinity(pthread_t thread, const uint64_t cpus[DLR_PAGE_CPUS / 64]);

#endif
