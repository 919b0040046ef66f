/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for a journal to grow, for a signal, or for a time to pass. */
#ifndef DLR_MPI_LAUNCHER_CLI_BASE_WATCH_H
#define DLR_MPI_LAUNCHER_CLI_BASE_WATCH_H

#include <signal.h>
#include <stdint.h>

#include "common/base/err.h"

enum dlr_cli_news {
    DLR_CLI_QUIET,   /* the time is over */
    DLR_CLI_CHANGED, /* the file has changed */
    DLR_CLI_RESIZED, /* the terminal has */
    DLR_CLI_SUSPEND, /* Ctrl-Z */
    DLR_CLI_STOP,    /* Ctrl-C and its like */
};

struct dlr_cli_watch {
    int inotify_fd; /* -1: none left in the system; time alone is watched then */
    int signal_fd;
    sigset_t before; /* to be restored */
    int signal;      /* that said STOP */
};

/* Blocks SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP and SIGWINCH in this thread until
 * done.
 */
int dlr_cli_watch_init(struct dlr_cli_watch *w, const char *path, struct dlr_err *err);
void dlr_cli_watch_done(struct dlr_cli_watch *w);

/* Blocks for timeout_ms at most. Changes made by another host are not seen by inotify:
 * the caller looks again when the time is over.
 */
enum dlr_cli_news dlr_cli_watch_wait(struct dlr_cli_watch *w, int64_t timeout_ms);

#endif
