/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/process/restart_delay.h"

#include <string.h>
#include <sys/wait.h>

#include "common/base/str.h"

int64_t dlr_restart_delay_pause_ms(struct dlr_restart_delay *d, int64_t now_ms,
                                   bool *ret_rests)
{
    unsigned at = d->n++ % DLR_RESTART_DELAY_MAX, before = 0;

    d->at_ms[at] = now_ms;
    for (unsigned i = 0; i < DLR_RESTART_DELAY_MAX && i < d->n; i++)
        before += i != at && now_ms - d->at_ms[i] < DLR_RESTART_DELAY_WINDOW_MS;
    *ret_rests = before == DLR_RESTART_DELAY_MAX - 1;
    if (*ret_rests) /* the next one's place is the oldest one's */
        return d->at_ms[d->n % DLR_RESTART_DELAY_MAX] + DLR_RESTART_DELAY_WINDOW_MS -
               now_ms;
    return DLR_RESTART_DELAY_PAUSE_MS << before;
}

void dlr_restart_delay_describe(int status, char *buf, size_t size)
{
    if (status < 0)
        dlr_format(buf, size, "ended its connection");
    else if (WIFSIGNALED(status))
        dlr_format(buf, size, "was killed by signal %d (%s)", WTERMSIG(status),
                   strsignal(WTERMSIG(status)));
    else
        dlr_format(buf, size, "exited with code %d", WEXITSTATUS(status));
}
