/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/clock.h"

#include <stdio.h>
#include <time.h>

#define NS_PER_S 1000000000LL
#define NS_PER_MS 1000000LL

static int64_t now(clockid_t id)
{
    struct timespec ts = {0};

    clock_gettime(id, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t dlr_now_ns(void)
{
    return now(CLOCK_BOOTTIME);
}

int64_t dlr_now_ms(void)
{
    return dlr_now_ns() / NS_PER_MS;
}

int64_t dlr_thread_ns(void)
{
    return now(CLOCK_THREAD_CPUTIME_ID);
}

struct timespec dlr_monotonic_in(int64_t ns)
{
    int64_t at = now(CLOCK_MONOTONIC) + ns;

    return (struct timespec){at / NS_PER_S, at % NS_PER_S};
}

int64_t dlr_wall_ns(void)
{
    return now(CLOCK_REALTIME);
}

void dlr_wall_text(int64_t wall_ns, char *buf, size_t size)
{
    time_t seconds = wall_ns / NS_PER_S;
    int64_t rest_ns = wall_ns % NS_PER_S;
    char day[24] = "";
    struct tm tm;

    if (rest_ns < 0) { /* before 1970: count up from the second below */
        seconds--;
        rest_ns += NS_PER_S;
    }
    if (gmtime_r(&seconds, &tm))
        strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf, size, "%s.%03dZ", day, (int)(rest_ns / NS_PER_MS));
}
