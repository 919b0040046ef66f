/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/report.h"

#include <czmq.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/plan/input.h"
#include "mpi_launcher/process/spawn.h"

#define MARK "DLROVER-REPORT "
#define PEER_TIMEOUT_MS 500     /* of the reachability check */
#define INPUT "/proc/self/fd/3" /* as dlr_spawn() passes it: no file system is asked */

struct dlr_agent_reports {
    struct dlr_agent_base *base;
    const struct dlr_agent_self *self;
    dlr_agent_own_report_fn *own;
    void *arg;
    zlistx_t *surveys; /* reports being made */
};

struct survey {
    struct dlr_agent_reports *all;
    struct dlr_agent_origin from;
    int fd, pidfd, timer;
    pid_t pid;
    char *text;
    size_t size;
};

static int make_input(struct dlr_agent_reports *all,
                      const struct dlr_agent_origin *from, int *ret_fd,
                      struct dlr_err *err)
{
    const char **names = calloc(dlr_agent_peer_list(all->base)->n + 1, sizeof(*names));
    const char **addrs = calloc(dlr_agent_peer_list(all->base)->n + 1, sizeof(*addrs));
    bool full =
        from->from == DLR_AGENT_SUPERVISOR; /* a successor wants versions, at once */
    struct dlr_plan_want want = {0};
    char checks[DLR_OPT_TEXT + 8] = "none"; /* and the words of "auto" */
    struct dlr_plan_survey survey = {.checks = checks,
                                     .disk_path = all->self->conf.run_dir,
                                     .shm_path = "/dev/shm",
                                     .store_dir = all->self->conf.memory,
                                     .key = all->self->conf.key,
                                     .peer_timeout_ms = PEER_TIMEOUT_MS,
                                     .npeers = dlr_agent_peer_list(all->base)->n,
                                     .peer_nodes = names,
                                     .peer_addrs = addrs};
    DLR_AUTO_JSON json_t *j = NULL;
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_CLOSE int fd = -1;

    if (full) /* it is late already */
        dlr_job_config_checks(&all->self->job, true, checks, sizeof(checks));
    for (unsigned i = 0; names && addrs && i < dlr_agent_peer_list(all->base)->n; i++) {
        names[i] = dlr_agent_peer_list(all->base)->all[i].node;
        addrs[i] = dlr_agent_peer_list(all->base)->all[i].addr;
    }
    j = names && addrs ? dlr_plan_input_to_json(&want, &survey) : NULL;
    free(names);
    free(addrs);
    text = j ? dlr_msg_text(j) : NULL;
    if (!text)
        return dlr_fail(err, -ENOMEM, "out of memory");
    fd = memfd_create("dlrover-survey", MFD_CLOEXEC);
    if (fd < 0 || dlr_write_all(fd, text, strlen(text)) < 0)
        return dlr_fail(err, -EIO, "no memory for the survey's input");
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

static void tell(struct dlr_agent_reports *all, const struct dlr_agent_origin *to,
                 json_t *report)
{
    if (to->from == DLR_AGENT_SELF) {
        all->own(all->arg, report);
        return;
    }
    dlr_agent_answer(all->base, to,
                     json_pack("{s:i, s:s, s:I, s:O}", "v", DLR_MSG_VERSION, "t",
                               "report", "id", (json_int_t)to->id, "report", report));
}

static void fail(struct dlr_agent_reports *all, const struct dlr_agent_origin *to,
                 const char *why)
{
    if (to->from == DLR_AGENT_SELF)
        all->own(all->arg, NULL);
    else
        dlr_agent_done(all->base, to, -EIO, why);
}

static void end(struct survey *s)
{
    struct dlr_agent_reports *all = s->all;

    dlr_agent_timer_end(all->base, &s->timer);
    dlr_agent_unwatch(all->base, s->fd);
    close(s->fd);
    dlr_agent_kill_and_reap(all->base, s->pid,
                            s->pidfd); /* no more is to come of its stdout */
    zlistx_detach(all->surveys, zlistx_find(all->surveys, s));
    free(s->text);
    free(s);
}

static void parse(struct survey *s)
{
    const char *mark = s->text ? strstr(s->text, MARK) : NULL;
    DLR_AUTO_JSON json_t *report = NULL;
    const char *json = mark ? mark + strlen(MARK) : NULL;

    if (json)
        report = json_loadb(json, strcspn(json, "\n"), JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(report))
        tell(s->all, &s->from, report);
    else
        fail(s->all, &s->from, "no report was made");
}

static int on_output(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct survey *s = arg;
    char buf[16384], *more;
    ssize_t n = read(s->fd, buf, sizeof(buf));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        parse(s);
        end(s);
        return 0;
    }
    more = s->size + n < DLR_MSG_MAX ? realloc(s->text, s->size + n + 1) : NULL;
    if (!more) {
        fail(s->all, &s->from, "the report is too long");
        end(s);
        return 0;
    }
    s->text = more;
    memcpy(s->text + s->size, buf, n);
    s->size += n;
    s->text[s->size] = '\0';
    return 0;
}

static int on_late(zloop_t *loop, int timer, void *arg)
{
    struct survey *s = arg;

    s->timer = -1;
    fail(s->all, &s->from, "the report took too long");
    end(s);
    return 0;
}

/* Where the program leaves the node's description for tasks that are to be bound. */
static void name_machine(const struct dlr_agent_self *self)
{
    char path[DLR_OPT_TEXT + 16];

    if (self->job.bind &&
        dlr_format(path, sizeof(path), "%s/machine", self->conf.memory) == 0)
        setenv("DLROVER_MACHINE", path, 1);
}

static int start(struct dlr_agent_reports *all, struct survey *s, struct dlr_err *err)
{
    const char *argv[] = {all->self->conf.report_program, "--no-mpi", "--input=" INPUT,
                          NULL};
    DLR_AUTO_CLOSE int input = -1;
    struct dlr_spawn spawn = {.argv = argv};
    int pipefd[2], rc = make_input(all, &s->from, &input, err);

    if (rc < 0)
        return rc;
    spawn.pass_fd = input;
    if (pipe2(pipefd, O_CLOEXEC) < 0)
        return dlr_fail(err, -errno, "pipe: %s", strerror(errno));
    fcntl(pipefd[0], F_SETFL, O_NONBLOCK); /* ours only: the child's end may block */
    spawn.out_fd = pipefd[1];
    name_machine(all->self);
    rc = dlr_spawn(&spawn, &s->pid, &s->pidfd, err);
    close(pipefd[1]);
    if (rc < 0) {
        close(pipefd[0]);
        return rc;
    }
    s->fd = pipefd[0];
    return 0;
}

void dlr_agent_report(struct dlr_agent_reports *all,
                      const struct dlr_agent_origin *from)
{
    struct survey *s = calloc(1, sizeof(*s));
    struct dlr_err err = {0};

    if (!s)
        return;
    *s = (struct survey){.all = all, .from = *from, .fd = -1, .pidfd = -1, .timer = -1};
    if (start(all, s, &err) < 0) {
        fail(all, from, err.text);
        free(s);
        return;
    }
    zlistx_add_end(all->surveys, s);
    dlr_agent_watch(all->base, s->fd, on_output, s);
    dlr_agent_timer(all->base, &s->timer, all->self->job.rendezvous_timeout_ms, on_late,
                    s);
}

struct dlr_agent_reports *dlr_agent_reports_new(struct dlr_agent_base *base,
                                                const struct dlr_agent_self *self,
                                                dlr_agent_own_report_fn *own, void *arg)
{
    struct dlr_agent_reports *all = calloc(1, sizeof(*all));

    if (!all)
        return NULL;
    all->base = base;
    all->self = self;
    all->own = own;
    all->arg = arg;
    all->surveys = zlistx_new();
    return all->surveys ? all : dlr_agent_reports_free(all);
}

struct dlr_agent_reports *dlr_agent_reports_free(struct dlr_agent_reports *all)
{
    struct survey *s;

    if (!all)
        return NULL;
    while (all->surveys && (s = zlistx_first(all->surveys)))
        end(s);
    zlistx_destroy(&all->surveys);
    free(all);
    return NULL;
}
