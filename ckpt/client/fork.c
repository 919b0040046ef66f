/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/fork.h"

#include <errno.h>
#include <pthread.h>

#include "ckpt/client/client.h"

static unsigned forks;

static void in_child(void)
{
    forks++;
}

static void watch(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

unsigned dlr_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch);
    return forks;
}

bool dlr_forked(const struct dlr_ckpt *ck)
{
    return forks != ck->forks;
}

int dlr_fork_check(struct dlr_ckpt *ck)
{
    return dlr_forked(ck)
               ? dlr_fail(&ck->err, -EBUSY, "the checkpoint is the parent process's")
               : 0;
}
