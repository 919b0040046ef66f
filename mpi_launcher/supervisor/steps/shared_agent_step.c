/* SPDX-License-Identifier: Apache-2.0 */
/* The agents' step. The runs of a batch job share one: the first starts it, those that come
 * later write an order into the pipe that its srun reads from. It ends with the job. Elsewhere
 * (salloc) nothing would end it, so each run has a step of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "mpi_launcher/agent/host/host.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define AGENTS "dlrover-agents" /* the name of their steps */

/* Where runs of this incarnation find the step: who its srun is, and the pipe into it. */
static void path_of(const struct dlr_sup *s, const char *what, char *buf, size_t size)
{
    snprintf(buf, size, "%s/.agents-%u%s", s->info.job_dir, s->info.incarnation, what);
}

static bool may_share(const struct dlr_sup *s)
{
    return dlr_sup_batch(s->nodes)[0] && dlr_streq(getenv("ENVIRONMENT"), "BATCH");
}

/* The record, locked as long as it is open: whoever has it may start the step or write an order.
 * One who does not get it does not wait: it takes a step of its own. NULL: not got.
 */
static struct dlr_sup_file *open_record(struct dlr_sup *s)
{
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *f = NULL;
    char path[DLR_RUN_PATH + 64];

    path_of(s, "", path, sizeof(path));
    f = dlr_sup_file_new(path, NULL);
    return dlr_sup_file_call(s->io, dlr_sup_file_record, &f) < 0 ? NULL : DLR_STEAL(f);
}

static bool read_record(const struct dlr_sup_file *f, struct dlr_procid *ret)
{
    return f->text[0] && dlr_procid_parse(f->text, ret) == 0 && dlr_procid_alive(ret);
}

/* Of one that is not written, the next run starts a step of its own. */
static void write_record(struct dlr_sup *s, struct dlr_sup_file **f)
{
    if (dlr_procid_of(s->agents.pid, &s->agents_id) < 0)
        return; /* it has ended already, which its pidfd tells */
    dlr_procid_show(&s->agents_id, (*f)->text);
    dlr_sup_file_call(s->io, dlr_sup_file_rewrite, f);
}

/* --- what is said ---------------------------------------------------------------------------- */

static void agent_words(struct dlr_sup *s, struct dlr_words *w)
{
    const char *ports = getenv("SLURM_SRUN_PORT_RANGE");
    char value[DLR_OPT_TEXT];

    dlr_words_add(w, "--control=%s", s->address);
    dlr_words_add(w, "--job=%s", s->info.job);
    dlr_words_add(w, "--run=%s", s->info.name);
    dlr_words_add(w, "--gen=%u", s->id.gen);
    dlr_words_add(w, "--memory=%s", s->info.memory);
    dlr_words_add(w, "--key=%s", s->info.key);
    dlr_words_add(w, "--run-dir=%s", s->info.dir);
    dlr_words_add(w, "--peer-ports=%s", ports ? ports : "0");
    for (const struct dlr_opt *o = dlr_jobconf_opts; o->name; o++)
        if (dlr_opt_show(o, &s->conf, value, sizeof(value)) == 0)
            dlr_words_add(w, "--%s=%s", o->name, value);
}

static int write_order(struct dlr_sup *s, const char *order)
{
    char path[DLR_RUN_PATH + 64];

    path_of(s, ".in", path, sizeof(path));
    return dlr_sup_file_do(s->io, dlr_sup_file_order, path, order);
}

/* --- the step -------------------------------------------------------------------------------- */

/* The step goes on when the run that started it has ended, so the pipe must not end with it:
 * srun itself holds it open for writing.
 */
static int make_pipe(struct dlr_sup *s)
{
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *f = NULL;
    char path[DLR_RUN_PATH + 64];
    int rc;

    path_of(s, ".in", path, sizeof(path));
    f = dlr_sup_file_new(path,
                         NULL); /* in that of a step that is gone are old orders */
    rc = dlr_sup_file_call(s->io, dlr_sup_file_pipe, &f);
    return rc < 0 ? rc : dlr_steal_fd(&f->fd);
}

/* The step's srun may have to tell why it ends: from here on. -1: nobody will know. */
static int open_log(struct dlr_sup *s)
{
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *f = NULL;
    char path[DLR_RUN_PATH + 32];

    dlr_sup_agents_log(s, path, sizeof(path));
    f = dlr_sup_file_new(path, NULL);
    if (f)
        f->flags = O_WRONLY | O_CREAT | O_APPEND;
    s->agents_log_from = 0;
    if (dlr_sup_file_call(s->io, dlr_sup_file_open, &f) < 0)
        return -1;
    s->agents_log_from = f->at;
    return dlr_steal_fd(&f->fd);
}

/* words: of an srun on the nodes that are to have an agent. Its input is in, -1: none. */
static int start_srun(struct dlr_sup *s, struct dlr_words *words,
                      const struct dlr_words *agent, const char *cred, int in,
                      struct dlr_proc *ret, struct dlr_err *err)
{
    char path[DLR_RUN_PATH + 32];
    struct dlr_env env = {0};
    DLR_AUTO_CLOSE int log = -1;
    int rc;

    log = open_log(s);
    dlr_self_sibling("dlrover-agent", path, sizeof(path));
    if (in >= 0)
        dlr_words_add(words, "--input=all");
    dlr_words_add(words, "--no-kill");
    dlr_words_add(words, "--msg-timeout=%lld", /* a node answers after its prolog */
                  (long long)(s->conf.start_timeout_ms + 999) / 1000);
    dlr_words_add(words, "--kill-on-bad-exit=0");
    dlr_words_add(words, "--wait=0");
    dlr_words_add(words, "%s", path);
    dlr_words_add(words, "--host");
    for (unsigned i = 0; i < agent->n; i++)
        dlr_words_add(words, "%s", agent->list[i]);
    rc = dlr_sup_internal_env(s, &env);
    if (rc == 0)
        rc = dlr_env_set(&env, "DLROVER_CRED", "%s", cred);
    rc = rc < 0 ? dlr_fail(err, rc, "out of memory")
                : dlr_proc_start(words->list, env.list, in, log, log, ret, err);
    dlr_env_done(&env);
    return rc;
}

static int start_step(struct dlr_sup *s, const struct dlr_words *agent,
                      const char *cred, int in, struct dlr_err *err)
{
    struct dlr_words words = {0};
    int rc;

    dlr_sup_internal_words(s, &words, AGENTS, "none");
    rc = start_srun(s, &words, agent, cred, in, &s->agents, err);
    dlr_words_done(&words);
    for (unsigned i = 0; rc == 0 && i < s->members->n; i++)
        dlr_sup_node_set_apart(s->nodes, i, false);
    return rc;
}

/* Joins the job's step, or starts it. */
static int share(struct dlr_sup *s, struct dlr_sup_file **record,
                 const struct dlr_words *agent, const char *cred, struct dlr_err *err)
{
    DLR_AUTO_FREE char *order =
        dlr_host_order(s->info.name, cred, agent->list, agent->n);
    DLR_AUTO_CLOSE int in = -1;
    DLR_AUTO_CLOSE int log = -1;
    int rc;

    if (read_record(*record, &s->agents_id) && order && write_order(s, order) == 0) {
        log = open_log(s);
        return dlr_proc_adopt(s->agents_id.pid, &s->agents);
    }
    in = make_pipe(s);
    if (in < 0)
        return in;
    rc = start_step(s, agent, cred, in, err);
    if (rc == 0)
        write_record(s, record);
    return rc;
}

/* Its pipe is ours: when we close it, the step ends after its agents. */
static int own(struct dlr_sup *s, const struct dlr_words *agent, const char *cred,
               struct dlr_err *err)
{
    DLR_AUTO_CLOSE int in = -1;
    int pipes[2], rc;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return dlr_fail(err, -errno, "cannot make a pipe: %s", strerror(errno));
    in = pipes[0];
    s->hosts_fd = pipes[1];
    rc = start_step(s, agent, cred, in, err);
    if (rc < 0)
        dlr_sup_hosts_close(s);
    return rc;
}

void dlr_sup_hosts_close(struct dlr_sup *s)
{
    if (s->hosts_fd >= 0)
        close(s->hosts_fd);
    s->hosts_fd = -1;
}

int dlr_sup_hosts_start(struct dlr_sup *s, struct dlr_err *err)
{
    DLR_AUTO_FREE char *cred = NULL;
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *record = NULL;
    struct dlr_words agent = {0};
    int rc = dlr_identity_credential(dlr_sup_identity(s->nodes), &s->id, &cred, err);

    if (rc < 0)
        return rc;
    agent_words(s, &agent);
    dlr_sup_hosts_close(s);
    record = may_share(s) ? open_record(s) : NULL;
    rc = record ? share(s, &record, &agent, cred, err) : -EAGAIN;
    s->agents_shared = rc == 0;
    if (rc < 0) /* no FIFOs here, or no lock: nothing that should stop a run */
        rc = own(s, &agent, cred, err);
    dlr_words_done(&agent);
    return rc;
}

int dlr_sup_hosts_start_on(struct dlr_sup *s, const char *node, struct dlr_proc *ret,
                           struct dlr_err *err)
{
    struct dlr_words agent = {0}, words = {0};
    DLR_AUTO_FREE char *cred = NULL;
    int rc = dlr_identity_credential(dlr_sup_identity(s->nodes), &s->id, &cred, err);

    if (rc < 0)
        return rc;
    agent_words(s, &agent);
    dlr_sup_step_words(s, &words, AGENTS, "none", node, 1);
    rc = start_srun(s, &words, &agent, cred, -1, ret, err);
    dlr_words_done(&words);
    dlr_words_done(&agent);
    return rc;
}

void dlr_sup_hosts_adopt(struct dlr_sup *s, const char *id)
{
    s->agents_shared = dlr_procid_parse(id, &s->agents_id) == 0 &&
                       dlr_procid_alive(&s->agents_id) &&
                       dlr_proc_adopt(s->agents_id.pid, &s->agents) == 0;
}

void dlr_sup_hosts_end_run(struct dlr_sup *s)
{
    DLR_AUTO_FREE char *order = dlr_host_order(s->info.name, NULL, NULL, 0);

    if (!s->agents_shared)
        dlr_proc_kill(&s->agents, SIGTERM);
    else if (order)
        write_order(s, order);
}
