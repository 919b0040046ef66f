/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/command/allocator.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "spank/base/options.h"
#include "spank/base/script_env.h"
#include "spank/command/cmdline.h"
#include "spank/command/open_mode.h"

/* Set name to value unless the user has set name or its opposite. no-kill takes "set"
 * only.
 */
static const struct {
    const char *name, *value, *opposite;
} vars[] = {
    {"SBATCH_NO_KILL", "set", NULL},
    {"SBATCH_REQUEUE", "", "SBATCH_NO_REQUEUE"}, /* 26.05 refuses a 1 */
    {"SBATCH_OPEN_MODE", "append", NULL},
    {"SALLOC_NO_KILL", "set", NULL},
};
#define NVARS (sizeof(vars) / sizeof(*vars))
#define OPEN_MODE 2 /* its row */

/* Options of sbatch and salloc that never take an argument from the next word: flags,
 * and those whose argument is optional (it must then be in the same word).
 */
static const char short_flags[] = "hHIkKOQsuvVWX";
/* clang-format off */
static const char *const long_flags[] = {
    "bell", "contiguous", "exclusive", "external", "get-user-env", "help", "hold",
    "ignore-pbs", "immediate", "kill-command", "nice", "no-bell", "no-kill", "no-requeue",
    "no-shell", "overcommit", "oversubscribe", "parsable", "propagate", "quiet", "reboot",
    "requeue", "resv-ports", "share", "spread-job", "stepmgr", "test-only", "usage",
    "use-min-nodes", "verbose", "version", "wait", "x11",
};
/* clang-format on */

/* A job that a task of a round submits is a job of its own. */
static void forget_round(void)
{
    static const char *const names[] = {"RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "GROUP_RANK",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        ("SLURM_SPANK_" DLR_BATCH_OPEN_MODE),
                                        "GROUP_WORLD_SIZE",
                                        "DLROVER_RUN",
                                        "DLROVER_KEY",
                                        "DLROVER_MASTER_PORT",
                                        "DLROVER_AGENT_SOCKET",
                                        "DLROVER_AGENT_FD",
                                        "DLROVER_SUPERVISED",
                                        "DLROVER_ROUND"};

    for (size_t i = 0; getenv("DLROVER_ROUND") && i < sizeof(names) / sizeof(*names);
         i++)
        unsetenv(names[i]);
}

static bool is_long_flag(const char *name)
{
    for (size_t i = 0; i < sizeof(long_flags) / sizeof(*long_flags); i++)
        if (dlr_streq(name, long_flags[i]))
            return true;
    return false;
}

/* Whether the word after this option is its argument. */
static bool takes_next(const char *word)
{
    if (dlr_after(word, "--"))
        return !strchr(word, '=') && !is_long_flag(word + 2);
    for (const char *c = word + 1; *c; c++)
        if (!strchr(short_flags, *c))
            return c[1] == '\0'; /* else the rest of the word is the argument */
    return false;
}

/* Words up to the script or program, their arguments included. */
static size_t own_words(char *const argv[], int *ret_dlrover)
{
    size_t i = argv[0] ? 1 : 0;

    for (; argv[i]; i++) {
        const char *value = dlr_after(argv[i], "--dlrover=");
        bool on;

        if (argv[i][0] != '-' || dlr_streq(argv[i], "-") || dlr_streq(argv[i], "--"))
            break;
        if (dlr_streq(argv[i], "--dlrover"))
            value = argv[i + 1];
        if (value && dlr_options_switch(value, &on) == 0)
            *ret_dlrover = on;
        if (takes_next(argv[i]) && argv[i + 1])
            i++;
    }
    return i;
}

int dlr_allocator_scan(char *const argv[])
{
    int found = DLR_ALLOCATOR_UNKNOWN;

    own_words(argv, &found);
    return found;
}

int dlr_allocator_cli(void)
{
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_FREE char **argv = NULL;

    if (dlr_cmdline_argv(&text, &argv, NULL) < 0)
        return DLR_ALLOCATOR_UNKNOWN;
    return dlr_allocator_scan(argv);
}

static void apply(struct dlr_allocator *alloc, bool on)
{
    for (size_t i = 0; i < NVARS; i++) {
        unsigned bit = 1u << i;

        if (on && !(alloc->set & bit) && !getenv(vars[i].name) &&
            !(vars[i].opposite && getenv(vars[i].opposite))) {
            if (setenv(vars[i].name, vars[i].value, 0) == 0)
                alloc->set |= bit;
        } else if (!on && (alloc->set & bit)) {
            unsetenv(vars[i].name);
            alloc->set &= ~bit;
        }
    }
}

void dlr_allocator_start(struct dlr_allocator *alloc, int cli, bool before)
{
    const char *mode = getenv("SLURM_OPEN_MODE");

    forget_round();
    alloc->cli = cli;
    if (!mode || dlr_format(alloc->open_mode, sizeof(alloc->open_mode), "%s", mode) < 0)
        alloc->open_mode[0] = '\0';
    apply(alloc, cli == DLR_ALLOCATOR_UNKNOWN ? before : cli);
}

void dlr_allocator_option(struct dlr_allocator *alloc, bool on)
{
    if (alloc->cli == DLR_ALLOCATOR_UNKNOWN)
        apply(alloc, on);
}

/* sbatch has made SLURM_OPEN_MODE of ours. */
static const char *restore_open_mode(const struct dlr_allocator *alloc)
{
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_FREE char **argv = NULL;
    int dlrover = 0;

    if (!(alloc->set & (1u << OPEN_MODE)) || dlr_cmdline_argv(&text, &argv, NULL) < 0 ||
        dlr_open_mode_said(argv, own_words(argv, &dlrover)))
        return NULL;
    if (alloc->open_mode[0])
        setenv("SLURM_OPEN_MODE", alloc->open_mode, 1);
    else
        unsetenv("SLURM_OPEN_MODE");
    return alloc->open_mode;
}

const char *dlr_allocator_end(struct dlr_allocator *alloc)
{
    const char *mode = restore_open_mode(alloc);

    apply(alloc, false);
    return mode;
}
