/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a succession that may block: the run's directory, its journal, slurmctld.
 * A process of its own, told by its parent on a descriptor; a requeue's SIGTERM does
 * not stop it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/manifest/manifest.h"
#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/install_path.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/succession/succession.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/process/spawn.h"

#define JOURNAL_MS 5000 /* for its last lines */
#define WORK_MAX (256u << 20)

static int make_persist_dir(const char *dir, struct dlr_err *err)
{
    char path[DLR_OPT_TEXT + 16];

    dlr_format(path, sizeof(path), "%s/persist", dir);
    return dlr_mkdirs(path, 0700, err);
}

static int prepare(const json_t *work, const char *dir, struct dlr_journal *journal,
                   struct dlr_err *err)
{
    const char *node, *batch;

    if (dlr_msg_str(work, "node", &node) < 0 || dlr_msg_str(work, "batch", &batch) < 0)
        return -EBADMSG;
    dlr_journal_note(journal, "takeover", "s:s,s:s,s:s", "node", node, "from", batch,
                     "why", "the batch host is silent");
    return make_persist_dir(dir, err);
}

static int read_file(const json_t *j, unsigned world, const struct dlr_version *v,
                     struct dlr_plan_file *ret)
{
    const char *layout, *path, *slice;
    uint64_t rank;

    if (dlr_msg_uint(j, "rank", world - 1, &rank) < 0 ||
        dlr_msg_str(j, "slice", &slice) < 0 ||
        dlr_slice_parse(slice, &ret->slice) < 0 ||
        dlr_msg_str(j, "layout", &layout) < 0 || dlr_msg_str(j, "path", &path) < 0)
        return -EBADMSG;
    ret->copy = (struct dlr_plan_copy){.rank = (int32_t)rank,
                                       .world = world,
                                       .version = *v,
                                       .bytes = ret->slice.room,
                                       .layout = strtoull(layout, NULL, 16)};
    return dlr_format(ret->path, sizeof(ret->path), "%s", path);
}

/* The manifest makes the files a checkpoint; without files the former one stays. */
static int save(const json_t *work, const char *dir, struct dlr_journal *journal,
                struct dlr_err *err)
{
    const json_t *list = json_object_get(work, "files");
    unsigned world = (unsigned)json_array_size(list);
    DLR_AUTO_FREE struct dlr_plan_file *files = calloc(world + 1, sizeof(*files));
    char path[DLR_OPT_TEXT + 16];
    uint64_t vround = 0, step = 0, bytes;
    unsigned count = 0;
    struct dlr_version v;
    int rc = 0;

    dlr_msg_uint(work, "vround", UINT32_MAX, &vround);
    dlr_msg_uint(work, "step", INT64_MAX, &step);
    v = (struct dlr_version){(uint32_t)vround, step};
    for (unsigned i = 0; files && rc == 0 && i < world; i++)
        rc = read_file(json_array_get(list, i), world, &v, &files[i]);
    dlr_format(path, sizeof(path), "%s/persist", dir);
    if (rc == 0 && files && world > 0)
        rc = dlr_persist_count(files, world, &count, &bytes, err);
    if (rc == 0 && files && world > 0)
        rc = dlr_persist_save(path, files, world, 0, err);
    if (world == 0 || rc < 0)
        dlr_journal_note(journal, "persist", "s:n,s:i,s:s", "version", "files", 0,
                         "why",
                         rc < 0 ? err->text : "no version is whole on the nodes left");
    else
        dlr_journal_note(journal, "persist", "s:[I,I],s:i,s:s", "version",
                         (json_int_t)vround, (json_int_t)step, "files", (int)count,
                         "why", "");
    return rc;
}

/* Of two halves that are cut from each other both may ask. NULL: not known. */
static const char *incarnation(char *buf, size_t size)
{
    const char *mark = getenv("DLROVER_SUPERVISED"); /* JOB.INCARNATION.RUN */
    const char *dot = mark ? strchr(mark, '.') : NULL;
    unsigned n;

    if (!dot || sscanf(dot, ".%u.", &n) != 1)
        return NULL;
    dlr_format(buf, size, "%u", n);
    return buf;
}

static int ask_slurmctld(const json_t *work, const char *dir, struct dlr_err *err)
{
    const char *job, *exclude;
    uint64_t min, max, timeout_ms;
    char program[4096], min_text[16], max_text[16], time_text[32];
    char of[16];
    const char *argv[] = {program,  "requeue", NULL,      NULL,
                          min_text, max_text,  time_text, incarnation(of, sizeof(of)),
                          dir,      NULL,      NULL};
    struct dlr_spawn spawn = {.argv = argv, .out_fd = STDERR_FILENO, .pass_fd = -1};
    int pidfd, status, rc;
    pid_t pid;

    if (dlr_msg_str(work, "job", &job) < 0 ||
        dlr_msg_str(work, "exclude", &exclude) < 0 ||
        dlr_msg_uint(work, "min", INT32_MAX, &min) < 0 ||
        dlr_msg_uint(work, "max", INT32_MAX, &max) < 0 ||
        dlr_msg_uint(work, "timeout_ms", INT32_MAX, &timeout_ms) < 0)
        return dlr_fail(err, -EBADMSG, "malformed work");
    argv[2] = job;
    if (json_is_true(json_object_get(work, "ended")))
        argv[9] = "lost"; /* else the host may be there again in a moment */
    argv[3] = *exclude ? exclude : "-";
    dlr_format(min_text, sizeof(min_text), "%u", (unsigned)min);
    dlr_format(max_text, sizeof(max_text), "%u", (unsigned)max);
    dlr_format(time_text, sizeof(time_text), "%ums", (unsigned)timeout_ms);
    rc = dlr_install_path_sibling("dlrover-slurm", program, sizeof(program));
    rc = rc < 0 ? rc : dlr_spawn(&spawn, &pid, &pidfd, err);
    if (rc < 0)
        return rc;
    close(pidfd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        return dlr_fail(err, -EIO, "dlrover-slurm failed");
    return 0;
}

static int requeue(const json_t *work, const char *dir, struct dlr_journal *journal,
                   struct dlr_err *err)
{
    const char *exclude = "", *node = "";
    uint64_t min = 0;
    int rc;

    dlr_msg_str(work, "exclude", &exclude);
    dlr_msg_str(work, "node", &node);
    dlr_msg_uint(work, "min", INT32_MAX, &min);
    if (save(work, dir, journal, err) < 0)
        dlr_error("%s: the checkpoint is not written: %s", node, err->text);
    dlr_journal_note(journal, "requeue", "s:s,s:[s],s:i,s:s", "why",
                     "the batch host is silent", "exclude", exclude, "min_nodes",
                     (int)min, "by", node);
    rc = ask_slurmctld(work, dir, err);
    if (rc < 0)
        dlr_journal_note(journal, "requeue_failed", "s:s", "why", err->text);
    return rc;
}

/* The supervisor may have told the end before it was killed. */
static bool has_end(const char *path)
{
    DLR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    char text[LINE_MAX] = "", *line;
    ssize_t n;

    n = end < 0 ? 0
                : pread(fd, text, sizeof(text) - 1,
                        end > LINE_MAX - 1 ? end - (LINE_MAX - 1) : 0);
    text[n > 0 ? n : 0] = '\0';
    if (n > 0 && text[n - 1] == '\n')
        text[n - 1] = '\0';
    line = strrchr(text, '\n');
    return strstr(line ? line : text, "\"event\":\"end\"");
}

/* As srun's death ends a step of a script. How long the run took, only its supervisor
 * knew.
 */
static void over(const json_t *work, const char *path, int sig, const char *why,
                 struct dlr_journal *journal)
{
    uint64_t rounds = 0;

    if (has_end(path))
        return;
    dlr_msg_uint(work, "rounds", INT64_MAX, &rounds);
    dlr_journal_note(journal, "end", "s:i,s:s,s:n,s:I", "code", 128 + sig, "why", why,
                     "wall_s", "rounds", (json_int_t)rounds);
}

/* Slurm ends the job, and its supervisor is gone. */
static int end(const json_t *work, const char *path, const char *dir,
               struct dlr_journal *journal, struct dlr_err *err)
{
    int rc = 0;

    if (json_array_size(json_object_get(work, "files")) > 0)
        rc = save(work, dir, journal, err);
    over(work, path, SIGTERM, "ended by signal 15 (Terminated)", journal);
    return rc;
}

static int work_on(const json_t *work, struct dlr_err *err)
{
    const char *what, *dir;
    char path[DLR_OPT_TEXT + 32];
    struct dlr_journal *journal = NULL;
    struct dlr_fork_server *fork_server = NULL;
    int rc;

    if (dlr_msg_str(work, "do", &what) < 0 || dlr_msg_str(work, "dir", &dir) < 0)
        return dlr_fail(err, -EBADMSG, "malformed work");
    dlr_format(path, sizeof(path), "%s/events.jsonl", dir);
    rc = dlr_fork_server_new(&fork_server, err);
    if (rc < 0 || dlr_journal_open(fork_server, -1, path, &journal, err) < 0)
        dlr_warn("%s", err->text); /* the job matters more than its record */
    rc = 0;
    if (dlr_streq(what, "over"))
        over(work, path, SIGKILL, "srun was killed, and its supervisor with it",
             journal);
    else if (dlr_streq(what, "end"))
        rc = end(work, path, dir, journal, err);
    else if (dlr_streq(what, "mkdirs"))
        rc = make_persist_dir(dir, err);
    else
        rc = dlr_streq(what, "requeue") ? requeue(work, dir, journal, err)
                                        : prepare(work, dir, journal, err);
    dlr_journal_close(journal, JOURNAL_MS);
    dlr_fork_server_free(fork_server);
    return rc;
}

int dlr_agent_succeed_main(int fd)
{
    DLR_AUTO_JSON json_t *work = NULL;
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_err err = {0};
    struct stat st;

    signal(SIGTERM, SIG_IGN);
    if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > WORK_MAX)
        return EXIT_FAILURE;
    text = malloc((size_t)st.st_size);
    if (!text || pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
        return EXIT_FAILURE;
    work = json_loadb(text, (size_t)st.st_size, 0, NULL);
    if (work_on(work, &err) < 0) {
        dlr_error("%s", err.text);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
