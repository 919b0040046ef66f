/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/thread.h"

#include <signal.h>
#include <string.h>

int dlr_thread_start(const char *name, void *(*run)(void *arg), void *arg,
                     pthread_t *ret_thread, struct dlr_err *err)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = -pthread_create(ret_thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc < 0)
        return dlr_fail(err, rc, "cannot start a thread: %s", strerror(-rc));
    pthread_setname_np(*ret_thread, name);
    return 0;
}
