/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/base/progress_bar.h"

#include <stdio.h>
#include <unistd.h>

#include "common/base/clock.h"

#define BAR 30
#define BAR_EVERY_MS 100

void dlr_cli_bar_pass(struct dlr_cli_bar *bar, uint64_t amount)
{
    int64_t now = dlr_now_ms();
    int full;

    bar->passed += amount;
    if (!isatty(STDERR_FILENO) ||
        (bar->passed < bar->total && now - bar->drawn_ms < BAR_EVERY_MS))
        return;
    bar->drawn_ms = now;
    full = bar->total ? (int)(bar->passed * BAR / bar->total) : BAR;
    full = full > BAR ? BAR : full;
    fprintf(stderr, "\r%s [%.*s%*s] %3d %%", bar->what, full,
            "##############################", BAR - full, "",
            bar->total ? (int)(bar->passed * 100 / bar->total) : 100);
}

void dlr_cli_bar_clear(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}
