/* SPDX-License-Identifier: Apache-2.0 */
/* A munged for one test, with a key and a socket of its own; MUNGE_SOCKET names it. */
#ifndef DLR_TESTS_SUPPORT_PRIVATE_MUNGED_H
#define DLR_TESTS_SUPPORT_PRIVATE_MUNGED_H

#include <stdbool.h>

void dlr_test_munged_start(void);
void dlr_test_munged_stop(void);
bool dlr_test_munged_runs(
    void); /* false where munged is not installed or did not start */

#endif
