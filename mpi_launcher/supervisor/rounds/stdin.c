/* SPDX-License-Identifier: Apache-2.0 */
/* The standard input of each round: from its beginning, as far as that can be had. */
#include <assert.h>
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/rounds/stdin_spool.h"

static_assert(DLR_SPOOL_AT > DLR_TAKEOVER_STATE_MAX + (1 << 20),
              "both are in one file");

/* "all" and a task's number; a file's name and "none" leave stdin to others, such as
 * the loop that reads it in the script.
 */
static bool means_stdin(const char *input)
{
    return !input || !input[0] || dlr_streq(input, "all") ||
           isdigit((unsigned char)input[0]);
}

static bool reads_stdin(const struct dlr_sup_rounds *rounds)
{
    const char *input = getenv("SLURM_STDINMODE");

    for (unsigned i = 0; i < rounds->env.step->noptions; i++) {
        const char *word = rounds->env.step->options[i],
                   *after = dlr_after(word, "--inp");
        const char *equals = after ? strchr(after, '=') : NULL;

        if (equals)
            input = equals + 1;
        else if ((after || dlr_streq(word, "-i")) && i + 1 < rounds->env.step->noptions)
            input = rounds->env.step->options[i + 1];
        else if (dlr_after(word, "-i") && word[2])
            input = word + 2;
    }
    return means_stdin(input);
}

static int keep_fd(struct dlr_sup_rounds *rounds)
{
    static int own = -1; /* without a keeper */

    if (*rounds->env.state_fd >= 0)
        return *rounds->env.state_fd;
    if (own < 0)
        own = memfd_create("dlrover-stdin", MFD_CLOEXEC);
    return own;
}

static int from_spool(struct dlr_sup_rounds *rounds, bool first)
{
    struct dlr_err err;
    int fd = -1, rc;

    rc = dlr_spool_feed(0, keep_fd(rounds), rounds->env.conf->stdin_spool, &fd, &err);
    if (rc == 0)
        return fd;
    if (first)
        return dup(0);
    dlr_user_line(rounds->env.io,
                  "this round gets no standard input: %s, and no more is kept "
                  "(--dlrover-set=stdin-spool)",
                  err.text);
    return -1;
}

void dlr_sup_stdin_start(struct dlr_sup_rounds *rounds)
{
    rounds->stdin_at = lseek(0, 0, SEEK_CUR);
}

void dlr_sup_stdin_state(const struct dlr_sup_rounds *rounds, json_t *state)
{
    json_object_set_new(state, "stdin_at", json_integer(rounds->stdin_at));
}

void dlr_sup_stdin_take(struct dlr_sup_rounds *rounds, const json_t *state)
{
    uint64_t at = 0;

    dlr_msg_uint(state, "stdin_at", INT64_MAX, &at);
    if (rounds->stdin_at >= 0)
        rounds->stdin_at = (int64_t)at;
}

int dlr_sup_stdin(struct dlr_sup_rounds *rounds)
{
    bool first = !rounds->launched && !*rounds->env.took_over;
    struct stat st;

    if (fstat(0, &st) < 0)
        return -1;
    if (S_ISREG(st.st_mode) && !first && rounds->stdin_at >= 0)
        lseek(0, rounds->stdin_at, SEEK_SET);
    if (!dlr_spool_is_for(0) || !reads_stdin(rounds))
        return fcntl(0, F_DUPFD_CLOEXEC, 3);
    if (rounds->env.conf->stdin_spool)
        return from_spool(rounds, first);
    return first ? fcntl(0, F_DUPFD_CLOEXEC, 3) : -1;
}
