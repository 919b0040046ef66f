/* SPDX-License-Identifier: Apache-2.0 */
/* To be preloaded: the time of day jumps, every second, an hour ahead, back, and an
 * hour behind. No namespace has a CLOCK_REALTIME of its own, and to set the machine's
 * is not for a test. Not for srun itself: Slurm measures the launch of its tasks by it
 * ("timeout waiting for task launch").
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define HOUR 3600

static time_t jumped(void)
{
    struct timespec up;

    if (strcmp(program_invocation_short_name, "srun") == 0)
        return 0;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &up);
    return (up.tv_sec % 3 - 1) * HOUR;
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ret);

    if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        ret->tv_sec += jumped();
    return rc;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    ret->tv_sec = now.tv_sec;
    ret->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}
