/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a library in somebody else's program. */
#ifndef DLR_COMMON_BASE_THREAD_H
#define DLR_COMMON_BASE_THREAD_H

#include <pthread.h>

#include "common/base/err.h"

/* Starts run(arg) in a thread called name (15 letters), in which every signal is
 * blocked: signals are the program's business. -errno, with text in err.
 */
int dlr_thread_start(const char *name, void *(*run)(void *arg), void *arg,
                     pthread_t *ret_thread, struct dlr_err *err);

#endif
