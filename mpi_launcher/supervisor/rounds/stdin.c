/* SPDX-License-Identifier: Apache-2.0 */
/* The standard input of each round: from its beginning, as far as that can be had. */
#include <assert.h>
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/supervisor/rounds/stdin_spool.h"
#include "mpi_launcher/supervisor/supervisor.h"

static_assert(DLR_SPOOL_AT > DLR_KEEPSTATE_MAX + (1 << 20), "both are in one file");

/* "all" and a task's number; a file's name and "none" leave stdin to others, such as the loop
 * that reads it in the script.
 */
static bool means_stdin(const char *input)
{
    return !input || !input[0] || dlr_streq(input, "all") ||
           isdigit((unsigned char)input[0]);
}

static bool reads_stdin(const struct dlr_sup *s)
{
    const char *input = getenv("SLURM_STDINMODE");

    for (unsigned i = 0; i < s->step->noptions; i++) {
        const char *word = s->step->options[i], *after = dlr_after(word, "--inp");
        const char *equals = after ? strchr(after, '=') : NULL;

        if (equals)
            input = equals + 1;
        else if ((after || dlr_streq(word, "-i")) && i + 1 < s->step->noptions)
            input = s->step->options[i + 1];
        else if (dlr_after(word, "-i") && word[2])
            input = word + 2;
    }
    return means_stdin(input);
}

static int keep_fd(struct dlr_sup *s)
{
    static int own = -1; /* without a keeper */

    if (s->state_fd >= 0)
        return s->state_fd;
    if (own < 0)
        own = memfd_create("dlrover-stdin", MFD_CLOEXEC);
    return own;
}

static int from_spool(struct dlr_sup *s, bool first)
{
    struct dlr_err err;
    int fd = -1, rc;

    rc = dlr_spool_feed(0, keep_fd(s), s->conf.stdin_spool, &fd, &err);
    if (rc == 0)
        return fd;
    if (first)
        return dup(0);
    dlr_sup_say(s->io,
                "this round gets no standard input: %s, and no more is kept "
                "(--dlrover-set=stdin-spool)",
                err.text);
    return -1;
}

void dlr_sup_stdin_start(struct dlr_sup *s)
{
    s->stdin_at = lseek(0, 0, SEEK_CUR);
}

int dlr_sup_stdin(struct dlr_sup *s)
{
    bool first = !s->launched && !s->took_over;
    struct stat st;

    if (fstat(0, &st) < 0)
        return -1;
    if (S_ISREG(st.st_mode) && !first && s->stdin_at >= 0)
        lseek(0, s->stdin_at, SEEK_SET);
    if (!dlr_spool_is_for(0) || !reads_stdin(s))
        return fcntl(0, F_DUPFD_CLOEXEC, 3);
    if (s->conf.stdin_spool)
        return from_spool(s, first);
    return first ? fcntl(0, F_DUPFD_CLOEXEC, 3) : -1;
}
