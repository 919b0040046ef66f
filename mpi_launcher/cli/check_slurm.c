/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/check_slurm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "health/history.h"
#include "health/run/drain.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/doctor/doctor.h"

#define VIEW_BYTES (32u << 20) /* of sinfo's output */
#define TURNS 4                /* decisions of one call: look, take, look, keep */
/* Slurm's times are whole seconds: a drain is compared with others when its own is
 * over.
 */
#define SECOND_OVER_MS 1100

/* What the child leaves. */
struct outcome {
    struct dlr_health_result results[DLR_HEALTH_CHECKS_MAX];
    int n; /* of results, or -errno */
    bool drained;
    char text[2048]; /* lines */
};

struct run {
    const struct dlr_check_slurm *c;
    struct outcome *out;
    struct dlr_history history;
    char *text, *comments; /* sinfo's */
    struct dlr_drain_view view;
    bool looked;
};

/* dlr_doctor_bounded() gives its function nothing. */
static const struct dlr_check_slurm *running;

__attribute__((format(printf, 3, 4))) static void say(struct run *r, int priority,
                                                      const char *fmt, ...)
{
    size_t used = strlen(r->out->text), room = sizeof(r->out->text) - used;
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    dlr_plain(line);
    snprintf(r->out->text + used, room, "%s\n", line);
    syslog(priority, "%s: %s", r->c->node, line);
}

/* --- Slurm's commands ------------------------------------------------------------- */

/* Times as numbers, and no word of an environment that would show another cluster or
 * less of this one.
 */
static void set_environment(void)
{
    static const char *const gone[] = {"SLURM_CLUSTERS", "SINFO_PARTITION",
                                       "SINFO_SORT", "SINFO_FORMAT"};

    setenv("SLURM_TIME_FORMAT", "%s", 1);
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
        unsetenv(gone[i]);
}

static int ask(struct run *r, const char *const argv[], char **text)
{
    int status = -ENOMEM;

    *text = *text ? *text : malloc(VIEW_BYTES);
    if (*text)
        status = dlr_doctor_capture(argv, *text, VIEW_BYTES);
    if (status > 0)
        say(r, LOG_WARNING, "sinfo: %.*s", (int)strcspn(*text, "\n"), *text);
    else if (status < 0)
        say(r, LOG_WARNING, "sinfo: %s", strerror(-status));
    return status == 0 ? 0 : -EIO;
}

static int look(struct run *r)
{
    int rc = ask(r, dlr_drain_view_argv, &r->text);

    free(r->view.rows);
    r->view.rows = NULL;
    if (rc == 0)
        rc = ask(r, dlr_drain_comments_argv, &r->comments);
    if (rc == 0)
        rc = dlr_drain_view_parse(r->text, &r->view);
    if (rc == 0)
        dlr_drain_comments_parse(r->comments, &r->view);
    r->looked = rc == 0;
    return rc;
}

/* scontrol update NodeName=NODES WORD FIELD=VALUE, word or value NULL: without it. */
static int update(struct run *r, const char *nodes, const char *word, const char *field,
                  const char *value)
{
    char name[DLR_DRAIN_NODES + 16], set[DLR_DRAIN_TEXT + 16], text[512];
    const char *argv[6] = {"scontrol", "update", name};
    int n = 3, status;

    snprintf(name, sizeof(name), "NodeName=%s", nodes);
    snprintf(set, sizeof(set), "%s=%s", field, value ? value : "");
    if (word)
        argv[n++] = word;
    if (value)
        argv[n++] = set;
    status = dlr_doctor_capture(argv, text, sizeof(text));
    if (status > 0)
        say(r, LOG_WARNING, "scontrol: %.*s", (int)strcspn(text, "\n"), text);
    else if (status < 0)
        say(r, LOG_WARNING, "scontrol: %s", strerror(-status));
    return status == 0 ? 0 : -EIO;
}

static void resume(struct run *r, const char *nodes)
{
    update(r, nodes, "State=RESUME", "", NULL);
}

/* --- deciding and doing ----------------------------------------------------------- */

static void let_second_pass(void)
{
    const struct timespec t = {SECOND_OVER_MS / 1000, SECOND_OVER_MS % 1000 * 1000000L};

    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* Does what was decided; true when there is more to decide. */
static bool obey_one(struct run *r, const struct dlr_drain_decision *d)
{
    switch (d->deed) {
    case DLR_DRAIN_LOOK:
        return look(r) == 0;
    case DLR_DRAIN_TAKE:
        if (update(r, r->c->node, "State=DRAIN", "Reason", d->text) < 0)
            return false;
        let_second_pass();
        return look(r) == 0;
    case DLR_DRAIN_KEEP:
        say(r, LOG_WARNING, "drained: %s", d->text);
        r->out->drained = true;
        return false;
    case DLR_DRAIN_BACK:
        say(r, LOG_WARNING, "given back: %s", d->text);
        resume(r, r->c->node);
        return false;
    case DLR_DRAIN_RESUME:
        say(r, LOG_NOTICE, "%s", d->text);
        resume(r, r->c->node);
        return false;
    case DLR_DRAIN_HOLD:
        say(r, LOG_WARNING, "not drained: %s", d->text);
        return false;
    case DLR_DRAIN_OVER:
    case DLR_DRAIN_NONE:
        break;
    }
    return false;
}

/* Who is resumed before the word is out would drain itself again. */
static void tell_site(struct run *r, const struct dlr_drain_decision *d)
{
    if (d->deed == DLR_DRAIN_OVER)
        say(r, LOG_NOTICE, "%s", d->text);
    else
        say(r, LOG_ERR, "%s: %s", d->mark, d->mark_comment);
    if (update(r, d->mark, NULL, "Comment", d->mark_comment) == 0 && d->back[0])
        resume(r, d->back);
}

static bool obey(struct run *r, const struct dlr_drain_decision *d)
{
    bool more = obey_one(r, d);

    if (d->mark[0])
        tell_site(r, d);
    return more;
}

/* A deed is kept before it is done: who is killed amid it is known the next time. */
static void decide(struct run *r, int dirfd)
{
    struct dlr_drain_case c = {.history = &r->history,
                               .results = r->out->results,
                               .nresults = (size_t)r->out->n,
                               .node = r->c->node,
                               .may_resume = r->c->may_resume,
                               .now_s = r->c->now_s};
    struct dlr_drain_decision d = {.deed = DLR_DRAIN_LOOK};
    struct dlr_err err = {0};
    int turn;

    for (turn = 0; turn < TURNS; turn++) {
        c.view = r->looked ? &r->view : NULL;
        dlr_drain_decide(&c, &d);
        dlr_drain_note(&r->history, &d, c.now_s);
        if (dlr_history_save(dirfd, r->c->node, &r->history, &err) < 0) {
            say(r, LOG_WARNING, "not drained, the history cannot be kept: %s",
                err.text);
            return;
        }
        if (!obey(r, &d))
            return;
    }
}

static void work(const struct dlr_doctor *unused, void *ret)
{
    struct run *r = calloc(1, sizeof(*r));
    struct dlr_err err = {0};
    int dirfd;

    if (!r)
        return;
    r->c = running;
    r->out = ret;
    openlog("dlrover", LOG_PID, LOG_DAEMON);
    set_environment();
    r->out->n = dlr_health_run(r->c->env, r->c->checks, r->out->results,
                               DLR_HEALTH_CHECKS_MAX, &err);
    if (r->out->n < 0) {
        say(r, LOG_WARNING, "%s", err.text);
        return;
    }
    if (dlr_history_open(r->c->bases, &dirfd, &err) < 0 ||
        dlr_history_load(dirfd, r->c->node, &r->history, &err) < 0) {
        say(r, LOG_WARNING, "nothing is kept, and so nothing drained: %s", err.text);
        return;
    }
    for (int i = 0; i < r->out->n; i++)
        dlr_history_add(&r->history, r->out->results[i].check,
                        r->out->results[i].verdict, r->out->results[i].reason,
                        r->c->now_s);
    decide(r, dirfd);
}

/* --- the command ------------------------------------------------------------------ */

void dlr_check_slurm_node(char *buf, size_t size)
{
    const char *name = getenv("SLURMD_NODENAME");

    if (!name || !name[0] || dlr_format(buf, size, "%s", name) < 0) {
        if (gethostname(buf, size) < 0)
            buf[0] = '\0';
        buf[size - 1] = '\0';
        buf[strcspn(buf, ".")] = '\0';
    }
    for (; *buf; buf++) /* it names a file */
        if (*buf == '/')
            *buf = '_';
}

int dlr_check_slurm(const struct dlr_check_slurm *c)
{
    DLR_AUTO_FREE struct outcome *out = calloc(1, sizeof(*out));
    int rc = -ENOMEM;

    running = c;
    if (out)
        rc = dlr_doctor_bounded(work, NULL, out, sizeof(*out), DLR_CHECK_SLURM_LIMIT_MS,
                                "Slurm");
    if (rc == -ETIMEDOUT)
        printf("not done within %d s: a check, slurmctld or the log hangs\n",
               DLR_CHECK_SLURM_LIMIT_MS / 1000);
    else if (rc < 0)
        printf("cannot check: %s\n", strerror(-rc));
    if (rc < 0)
        return DLR_CLI_OK;
    for (int i = 0; i < out->n; i++)
        printf("%-10s %-5s %s\n", out->results[i].check,
               dlr_health_verdict_name(out->results[i].verdict),
               out->results[i].reason);
    fputs(out->text, stdout);
    return out->drained ? DLR_CLI_FAIL : DLR_CLI_OK;
}

int dlr_check_history(const char *node, const char *const *bases)
{
    DLR_AUTO_FREE struct dlr_history *h = calloc(1, sizeof(*h));
    DLR_AUTO_CLOSE int dirfd = -1;
    struct dlr_err err = {0};
    int rc = h ? dlr_history_open(bases, &dirfd, &err) : -ENOMEM;

    if (rc == 0)
        rc = dlr_history_load(dirfd, node, h, &err);
    if (rc < 0) {
        fprintf(stderr, "dlrover check: %s\n", h ? err.text : "out of memory");
        return DLR_CLI_FAIL;
    }
    for (unsigned i = 0; i < h->n; i++) {
        const struct dlr_history_row *row = &h->rows[i];
        char from[32], to[32];

        dlr_wall_text(row->first_s * 1000000000, from, sizeof(from));
        dlr_wall_text(row->last_s * 1000000000, to, sizeof(to));
        printf("%.19sZ %.8sZ %4u %-10s %-5s %s\n", from, to + 11, row->count,
               row->check, dlr_health_verdict_name(row->verdict), row->text);
    }
    return DLR_CLI_OK;
}
