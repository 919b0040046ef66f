/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover-stacks: where every thread is, of processes or of a job's ranks on this node.
 * It stops a thread only while it copies its registers and the end of its stack.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/stacks/stack_rows.h"
#include "mpi_launcher/unwind/process.h"
#include "mpi_launcher/unwind/tasks.h"

#define READ_MS 5000  /* all processes, unless --seconds says otherwise */
#define READ_MAX_S 60 /* that --seconds may say */
#define GRACE_S 3     /* after it the kernel ends us: a file server hangs */

static const char usage[] =
    "usage: dlrover-stacks [--seconds N] PID...\n"
    "       dlrover-stacks [--seconds N] --job ID [--run NAME] [--ranks LIST]\n\n"
    "Prints one JSON object for each process: the frames of all its threads, compiled\n"
    "and Python's, and what each waits in. With --job one tree of all ranks that run "
    "on\n"
    "this node, in lines of JSON, for 'dlrover stacks'. The processes go on "
    "unharmed.\n";

struct words {
    unsigned seconds;
    const char *job, *run; /* run NULL: all of the job */
    struct dlr_rank_set ranks;
    bool all;
};

static int complain(const char *text, const char *word)
{
    fprintf(stderr, "dlrover-stacks: %s '%.64s' (see --help)\n", text, word);
    return 2;
}

static int read_processes(char **pids, const struct words *w)
{
    int64_t deadline_ms = dlr_now_ms() + (int64_t)w->seconds * 1000;
    int code = 0;

    for (; *pids; pids++) {
        DLR_AUTO_FREE char *text = NULL;
        json_t *j;
        unsigned pid;
        int rc;

        if (dlr_parse_uint(*pids, INT32_MAX, &pid) < 0 || pid == 0)
            return complain("no process id:", *pids);
        j = dlr_unwind_json((pid_t)pid, deadline_ms, &rc);
        text = j ? json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
        if (rc < 0 || !text) {
            const char *why =
                json_string_value(json_array_get(json_object_get(j, "notes"), 0));

            fprintf(stderr, "dlrover-stacks: %s\n", why ? why : "out of memory");
            code = 1;
        } else {
            printf("%s\n", text);
            fflush(stdout);
        }
        json_decref(j);
    }
    return code;
}

/* As Slurm calls this node. */
static const char *node_name(char *buf, size_t size)
{
    const char *name = getenv("SLURMD_NODENAME");

    if (name && name[0])
        return name;
    return gethostname(buf, size) == 0 && memchr(buf, '\0', size) ? buf : "?";
}

static int read_job(const struct words *w)
{
    int64_t deadline_ms = dlr_now_ms() + (int64_t)w->seconds * 1000;
    DLR_AUTO_FREE struct dlr_unwind_task *tasks =
        calloc(DLR_UNWIND_TASKS, sizeof(*tasks));
    struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);
    DLR_AUTO_JSON json_t *notes = json_array();
    unsigned more = 0;
    char host[64];
    size_t n, i;
    json_t *note;

    if (!tasks || !tree) {
        dlr_stack_tree_free(tree);
        return complain("out of memory", "");
    }
    n = dlr_unwind_find_tasks("", w->job, w->run, tasks, &more);
    for (i = 0; i < n && dlr_now_ms() < deadline_ms; i++)
        if (w->all || dlr_rank_set_has(&w->ranks, tasks[i].rank))
            dlr_unwind_into(tree, tasks[i].pid, tasks[i].rank, deadline_ms, notes);
    if (n == 0)
        json_array_append_new(notes,
                              json_string("no task of the job runs here as this user"));
    if (more || i < n)
        json_array_append_new(
            notes, json_string("not all processes were read: there are too many"));
    dlr_stack_rows_write(tree, stdout);
    json_array_foreach(notes, i, note) if (i < DLR_STACK_NOTES)
        dlr_stack_rows_note(stdout, json_string_value(note));
    dlr_stack_rows_end(stdout, node_name(host, sizeof(host)));
    dlr_stack_tree_free(tree);
    return fflush(stdout) ? 1 : 0;
}

/* The words before the process ids; -1 to go on, else the exit code. */
static int take_words(int argc, char **argv, struct words *w, int *ret_next)
{
    struct dlr_err err = {0};
    int i = 1;

    for (; i < argc && argv[i][0] == '-'; i++) {
        const char *value = argv[i + 1];

        if (dlr_streq(argv[i], "--help")) {
            fputs(usage, stdout);
            return 0;
        }
        if (!value)
            return complain("no value behind", argv[i]);
        i++;
        if (dlr_streq(argv[i - 1], "--seconds")) {
            if (dlr_parse_uint(value, READ_MAX_S, &w->seconds) < 0 || !w->seconds)
                return complain("not 1 to 60 seconds:", value);
        } else if (dlr_streq(argv[i - 1], "--job")) {
            w->job = value;
        } else if (dlr_streq(argv[i - 1], "--run")) {
            w->run = value;
        } else if (dlr_streq(argv[i - 1], "--ranks")) {
            w->all = false;
            if (dlr_rank_set_parse(value, &w->ranks, &err) < 0)
                return complain(err.text, value);
        } else {
            return complain("unknown option", argv[i - 1]);
        }
    }
    *ret_next = i;
    if (w->job ? i < argc : i == argc)
        return complain(i < argc ? "one word too many:" : "neither processes nor",
                        i < argc ? argv[i] : "--job");
    return -1;
}

/* Whatever we have inherited: SIGCHLD tells that a thread has stopped, SIGALRM ends us,
 * and a terminal does not stop us while we hold one.
 */
static void set_signals(void)
{
    sigset_t set;

    signal(SIGCHLD, SIG_DFL);
    signal(SIGALRM, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTSTP);
    sigaddset(&set, SIGTTIN);
    sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
    struct words w = {.seconds = READ_MS / 1000, .all = true};
    int next, code = take_words(argc, argv, &w, &next);

    if (code >= 0)
        return code;
    setenv("DEBUGINFOD_URLS", "", 1);
    set_signals();
    alarm(w.seconds + GRACE_S);
    code = w.job ? read_job(&w) : read_processes(argv + next, &w);
    dlr_rank_set_done(&w.ranks);
    return code;
}
