/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover evidence: what a run has left, in one archive that a person can send. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/base/replace_file.h"
#include "mpi_launcher/doctor/doctor.h"
#include "mpi_launcher/evidence/redact.h"
#include "mpi_launcher/evidence/tar.h"
#include "mpi_launcher/journal/text.h"
#include "mpi_launcher/report/report.h"

#define JOURNAL_MAX ((off_t)64 << 20) /* bytes: the newest */
#define LOG_MAX ((off_t)4 << 20)
#define LOGS 32
#define ANSWER_MAX ((size_t)1 << 20)
#define SLURM_MS 20000
#define JOB_VARIABLE "DLROVER_EVIDENCE_JOB"

struct evidence {
    struct dlr_cli_where where;
    struct dlr_cli_run run;
    const char *tar;
    FILE *out;
    int64_t now_ms;
    unsigned files;
    size_t bytes, masked;
};

/* clang-format off */
static const struct dlr_cli_opt opts[] = {
    {"tar", "FILE", "the archive that is written"},
    {"run", "NAME", "the run, when the job has several (default: the newest)"},
    {"state-dir", "DIR", "the job's --dlrover-state-dir (default: DLROVER_STATE_DIR, "
                         "else ~/.dlrover)"},
    {0},
};
/* clang-format on */
static const struct dlr_cli_cmd evidence_cmd = {
    "evidence", "[JOB]",
    "Collects what a run has left: journal, report, trace, logs, what Slurm says.",
    opts,
    "JOB is the job's id; without it the job this shell is in, else the newest.\n"
    "Values of names such as token or password are masked; checkpoints, keys and your\n"
    "environment are not in it. Look at it before you send it.\n"};

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct evidence *ev = arg;
    int rc;

    if (dlr_cli_where_set(&ev->where, name, value, &rc, err))
        return rc;
    ev->tar = value;
    return 0;
}

/* --- one file of the archive ------------------------------------------------------ */

static void put(struct evidence *ev, const char *name, const void *data, size_t size)
{
    char path[100];

    if (dlr_format(path, sizeof(path), "dlrover-evidence/%s", name) < 0 ||
        dlr_tar_file(ev->out, path, data, size, ev->now_ms / 1000) < 0)
        return;
    ev->files++;
    ev->bytes += size;
}

static void put_text(struct evidence *ev, const char *name, char *text, size_t size)
{
    ev->masked += dlr_evidence_redact(text, size);
    put(ev, name, text, size);
}

/* The end of a file of the user's, from the begin of a line; NULL: there is none. */
static char *tail_of(const char *path, off_t max, size_t *ret_size)
{
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    off_t from;
    ssize_t n;
    char *line;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return NULL;
    from = st.st_size > max ? st.st_size - max : 0;
    text = malloc((size_t)(st.st_size - from) + 1);
    n = text ? pread(fd, text, (size_t)(st.st_size - from), from) : -1;
    if (n < 0)
        return NULL;
    text[n] = '\0';
    line = from ? memchr(text, '\n', (size_t)n) : NULL;
    if (line) {
        n -= line + 1 - text;
        memmove(text, line + 1, (size_t)n + 1);
    }
    *ret_size = (size_t)n;
    return DLR_STEAL(text);
}

/* --- what is made of the journal -------------------------------------------------- */

static struct dlr_report *report_of(char *journal, size_t size)
{
    struct dlr_report *r = dlr_report_new();
    char *end = journal + size;

    if (!r)
        return NULL;
    dlr_report_traced(r);
    for (char *line = journal; line < end;) {
        char *nl = memchr(line, '\n', (size_t)(end - line));

        if (!nl)
            break; /* half a line */
        *nl = '\0';
        dlr_report_line(r, line, (size_t)(nl - line));
        *nl = '\n';
        line = nl + 1;
    }
    dlr_report_finish(r, 0);
    return r;
}

static void put_json(const struct dlr_report *r, const struct dlr_report_about *about,
                     FILE *out)
{
    json_t *j = dlr_report_json(r, about);

    if (j)
        json_dumpf(j, out, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    json_decref(j);
}

static void put_trace(const struct dlr_report *r, const struct dlr_report_about *about,
                      FILE *out)
{
    dlr_report_trace(r, about, DLR_TRACE_PERFETTO, 0, 0, out);
}

/* Their texts are the journal's, which is masked. */
static void put_reports(struct evidence *ev, const struct dlr_report *r)
{
    static const struct {
        const char *name;
        void (*write)(const struct dlr_report *r, const struct dlr_report_about *about,
                      FILE *out);
    } pages[] = {{"report.txt", dlr_report_text},
                 {"report.html", dlr_report_html},
                 {"report.json", put_json},
                 {"trace.pftrace", put_trace}};
    const struct dlr_report_about about = {.job = ev->run.job,
                                           .run = ev->run.run,
                                           .others = ev->run.others,
                                           .now_ms = ev->now_ms};

    for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
        DLR_AUTO_FREE char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        if (!out)
            continue;
        pages[i].write(r, &about, out);
        if (fclose(out) == 0)
            put(ev, pages[i].name, text, size);
    }
}

static int put_journal(struct evidence *ev, struct dlr_err *err)
{
    size_t size = 0;
    DLR_AUTO_FREE char *journal = tail_of(ev->run.journal, JOURNAL_MAX, &size);
    struct dlr_report *r;

    if (!journal)
        return dlr_fail(err, -EIO, "cannot read '%.300s'", ev->run.journal);
    put_text(ev, "events.jsonl", journal, size);
    r = report_of(journal, size);
    if (r)
        put_reports(ev, r);
    dlr_report_free(r);
    return 0;
}

/* --- logs ------------------------------------------------------------------------- */

static int is_log(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return entry->d_name[0] != '.' &&
           ((n > 4 && dlr_streq(entry->d_name + n - 4, ".log")) ||
            dlr_streq(entry->d_name, "links.jsonl"));
}

/* Of a directory: names of ours alone, since snapshots and keys may lie beside them. */
static void put_logs(struct evidence *ev, const char *dir)
{
    struct dirent **list = NULL;
    int n = scandir(dir, &list, is_log, alphasort);

    for (int i = 0; i < n; i++) {
        DLR_AUTO_FREE char *path = dlr_format_new("%s/%s", dir, list[i]->d_name);
        DLR_AUTO_FREE char *text = NULL;
        size_t size = 0;

        text = path && i < LOGS ? tail_of(path, LOG_MAX, &size) : NULL;
        if (text)
            put_text(ev, list[i]->d_name, text, size);
        free(list[i]);
    }
    free(list);
}

static void put_all_logs(struct evidence *ev)
{
    char dir[PATH_MAX], *slash;

    dlr_format(dir, sizeof(dir), "%s", ev->run.journal);
    for (unsigned up = 0; up < 2; up++) { /* the run's directory, then the job's */
        slash = strrchr(dir, '/');
        if (!slash || slash == dir)
            return;
        *slash = '\0';
        put_logs(ev, dir);
    }
}

/* --- Slurm and this host ---------------------------------------------------------- */

struct answer {
    int status;
    char text[ANSWER_MAX];
};

static void ask(const struct dlr_doctor *d, void *ret)
{
    static const char *const argv[] = {
        "sh", "-c",
        "date; uname -srm; sinfo --version; scontrol show job \"$" JOB_VARIABLE "\"; "
        "sacct -j \"$" JOB_VARIABLE
        "\" --duplicates --parsable2 -o JobID,JobName,State,"
        "ExitCode,Start,End,Elapsed,NNodes,NTasks,NodeList%200,ReqMem,MaxRSS",
        NULL};
    struct answer *answer = ret;

    (void)d;
    answer->status = dlr_doctor_capture(argv, answer->text, sizeof(answer->text));
}

static void version(const struct dlr_doctor *d, void *ret)
{
    static const char *const argv[] = {"/proc/self/exe", "version", NULL};
    struct answer *answer = ret;

    (void)d;
    answer->status = dlr_doctor_capture(argv, answer->text, sizeof(answer->text));
}

static void put_answer(struct evidence *ev, const char *name,
                       void (*fn)(const struct dlr_doctor *d, void *ret))
{
    DLR_AUTO_FREE struct answer *answer = calloc(1, sizeof(*answer));

    if (!answer)
        return;
    if (dlr_doctor_bounded(fn, NULL, answer, sizeof(*answer), SLURM_MS, "Slurm") < 0)
        dlr_format(answer->text, sizeof(answer->text), "no answer within %d s\n",
                   SLURM_MS / 1000);
    put_text(ev, name, answer->text, strlen(answer->text));
}

/* --- the archive ------------------------------------------------------------------ */

static int write_archive(void *arg, FILE *out, struct dlr_err *err)
{
    struct evidence *ev = arg;
    int rc;

    ev->out = out;
    setenv(JOB_VARIABLE, ev->run.job, 1);
    put_answer(ev, "version.txt", version);
    put_answer(ev, "slurm.txt", ask);
    rc = put_journal(ev, err);
    put_all_logs(ev);
    dlr_tar_end(ev->out);
    return rc;
}

int dlr_cli_evidence(int argc, char **argv)
{
    struct evidence ev = {.now_ms = dlr_cli_now_ms()};
    struct dlr_err err = {0};
    int code;

    if (!dlr_cli_parse(&evidence_cmd, argc, argv, set, &ev, &code))
        return code;
    if (!ev.tar || !ev.tar[0]) {
        fputs("dlrover evidence: where to? --tar=FILE (see 'dlrover help evidence')\n",
              stderr);
        return DLR_CLI_USAGE;
    }
    if (dlr_cli_find(&ev.where, &ev.run, &err) < 0 ||
        dlr_cli_replace_file(ev.tar, 0600, write_archive, &ev, &err) < 0) {
        fprintf(stderr, "dlrover: %s\n", err.text);
        return DLR_CLI_FAIL;
    }
    printf("%s: %u files, %zu KB of run %s of job %s; %zu value%s masked. Look at it "
           "before you send it.\n",
           ev.tar, ev.files, (ev.bytes + 1023) / 1024, ev.run.run, ev.run.job,
           ev.masked, ev.masked == 1 ? "" : "s");
    return DLR_CLI_OK;
}
