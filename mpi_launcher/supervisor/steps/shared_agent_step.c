/* SPDX-License-Identifier: Apache-2.0 */
/* The agents' step. The runs of a batch job share one: the first starts it, those that
 * come later write an order into the pipe that its srun reads from. It ends with the
 * job. Elsewhere (salloc) nothing would end it, so each run has a step of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "mpi_launcher/agent/host/host.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"
#include "mpi_launcher/supervisor/steps/internal_step.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

#define AGENTS "dlrover-agents" /* the name of their steps */

/* Where runs of this incarnation find the step: its srun, and the pipe into it. */
static void path_of(const struct dlr_sup_steps *steps, const char *what, char *buf,
                    size_t size)
{
    snprintf(buf, size, "%s/.agents-%u%s", steps->env.info->job_dir,
             steps->env.info->incarnation, what);
}

static bool may_share(const struct dlr_sup_steps *steps)
{
    return dlr_sup_batch(steps->env.nodes)[0] &&
           dlr_streq(getenv("ENVIRONMENT"), "BATCH");
}

/* The record, locked as long as it is open: whoever has it may start the step or write
 * an order. One who does not get it does not wait: it takes a step of its own. NULL:
 * not got.
 */
static struct dlr_sup_file *open_record(struct dlr_sup_steps *steps)
{
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *f = NULL;
    char path[DLR_RUN_PATH + 64];

    path_of(steps, "", path, sizeof(path));
    f = dlr_sup_file_new(path, NULL);
    return dlr_sup_file_call(steps->env.io, dlr_sup_file_record, &f) < 0 ? NULL
                                                                         : DLR_STEAL(f);
}

static bool read_record(const struct dlr_sup_file *f, struct dlr_procid *ret)
{
    return f->text[0] && dlr_procid_parse(f->text, ret) == 0 && dlr_procid_alive(ret);
}

/* Of one that is not written, the next run starts a step of its own. */
static void write_record(struct dlr_sup_steps *steps, struct dlr_sup_file **f)
{
    if (dlr_procid_of(steps->agents.pid, &steps->agents_id) < 0)
        return; /* it has ended already, which its pidfd tells */
    dlr_procid_show(&steps->agents_id, (*f)->text);
    dlr_sup_file_call(steps->env.io, dlr_sup_file_rewrite, f);
}

/* --- what is said ----------------------------------------------------------------- */

static void agent_words(struct dlr_sup_steps *steps, struct dlr_words *w)
{
    const char *ports = getenv("SLURM_SRUN_PORT_RANGE");
    char value[DLR_OPT_TEXT];

    dlr_words_add(w, "--control=%s", steps->env.address);
    dlr_words_add(w, "--job=%s", steps->env.info->job);
    dlr_words_add(w, "--run=%s", steps->env.info->name);
    dlr_words_add(w, "--gen=%u", steps->env.id->gen);
    dlr_words_add(w, "--memory=%s", steps->env.info->memory);
    dlr_words_add(w, "--key=%s", steps->env.info->key);
    dlr_words_add(w, "--run-dir=%s", steps->env.info->dir);
    dlr_words_add(w, "--peer-ports=%s", ports ? ports : "0");
    for (const struct dlr_opt *o = dlr_job_config_opts; o->name; o++)
        if (dlr_opt_show(o, steps->env.conf, value, sizeof(value)) == 0)
            dlr_words_add(w, "--%s=%s", o->name, value);
}

static int write_order(struct dlr_sup_steps *steps, const char *order)
{
    char path[DLR_RUN_PATH + 64];

    path_of(steps, ".in", path, sizeof(path));
    return dlr_sup_file_do(steps->env.io, dlr_sup_file_order, path, order);
}

/* --- the step --------------------------------------------------------------------- */

/* The step goes on when the run that started it has ended, so the pipe must not end
 * with it: srun itself holds it open for writing.
 */
static int make_pipe(struct dlr_sup_steps *steps)
{
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *f = NULL;
    char path[DLR_RUN_PATH + 64];
    int rc;

    path_of(steps, ".in", path, sizeof(path));
    f = dlr_sup_file_new(path,
                         NULL); /* in that of a step that is gone are old orders */
    rc = dlr_sup_file_call(steps->env.io, dlr_sup_file_pipe, &f);
    return rc < 0 ? rc : dlr_steal_fd(&f->fd);
}

/* The step's srun may have to tell why it ends: from here on. -1: nobody will know. */
static int open_log(struct dlr_sup_steps *steps)
{
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *f = NULL;
    char path[DLR_RUN_PATH + 32];

    dlr_sup_agents_log(steps, path, sizeof(path));
    f = dlr_sup_file_new(path, NULL);
    if (f)
        f->flags = O_WRONLY | O_CREAT | O_APPEND;
    steps->agents_log_from = 0;
    if (dlr_sup_file_call(steps->env.io, dlr_sup_file_open, &f) < 0)
        return -1;
    steps->agents_log_from = f->at;
    return dlr_steal_fd(&f->fd);
}

/* words: of an srun on the nodes that are to have an agent. in: its input, -1: none. */
static int start_srun(struct dlr_sup_steps *steps, struct dlr_words *words,
                      const struct dlr_words *agent, const char *cred, int in,
                      struct dlr_proc *ret, struct dlr_err *err)
{
    char path[DLR_RUN_PATH + 32];
    struct dlr_env env = {0};
    DLR_AUTO_CLOSE int log = -1;
    int rc;

    log = open_log(steps);
    dlr_install_path_sibling("dlrover-agent", path, sizeof(path));
    if (in >= 0)
        dlr_words_add(words, "--input=all");
    dlr_words_add(words, "--no-kill");
    dlr_words_add(words, "--msg-timeout=%lld", /* a node answers after its prolog */
                  (long long)(steps->env.conf->start_timeout_ms + 999) / 1000);
    dlr_words_add(words, "--kill-on-bad-exit=0");
    dlr_words_add(words, "--wait=0");
    dlr_words_add(words, "%s", path);
    dlr_words_add(words, "--host");
    for (unsigned i = 0; i < agent->n; i++)
        dlr_words_add(words, "%s", agent->list[i]);
    rc = dlr_sup_internal_env(steps, &env);
    if (rc == 0)
        rc = dlr_env_set(&env, "DLROVER_CRED", "%s", cred);
    rc = rc < 0 ? dlr_fail(err, rc, "out of memory")
                : dlr_proc_start(words->list, env.list, in, log, log, ret, err);
    dlr_env_done(&env);
    return rc;
}

static int start_step(struct dlr_sup_steps *steps, const struct dlr_words *agent,
                      const char *cred, int in, struct dlr_err *err)
{
    struct dlr_words words = {0};
    int rc;

    dlr_sup_internal_words(steps, &words, AGENTS, "none");
    dlr_words_add(&words, DLR_SUP_NO_GRES);
    rc = start_srun(steps, &words, agent, cred, in, &steps->agents, err);
    dlr_words_done(&words);
    for (unsigned i = 0; rc == 0 && i < steps->members->n; i++)
        dlr_sup_node_set_apart(steps->env.nodes, i, false);
    return rc;
}

/* Joins the job's step, or starts it. */
static int share(struct dlr_sup_steps *steps, struct dlr_sup_file **record,
                 const struct dlr_words *agent, const char *cred, struct dlr_err *err)
{
    DLR_AUTO_FREE char *order =
        dlr_host_order(steps->env.info->name, cred, agent->list, agent->n);
    DLR_AUTO_CLOSE int in = -1;
    DLR_AUTO_CLOSE int log = -1;
    int rc;

    if (read_record(*record, &steps->agents_id) && order &&
        write_order(steps, order) == 0) {
        log = open_log(steps);
        return dlr_proc_adopt(steps->agents_id.pid, &steps->agents);
    }
    in = make_pipe(steps);
    if (in < 0)
        return in;
    rc = start_step(steps, agent, cred, in, err);
    if (rc == 0)
        write_record(steps, record);
    return rc;
}

/* Its pipe is ours: when we close it, the step ends after its agents. */
static int own(struct dlr_sup_steps *steps, const struct dlr_words *agent,
               const char *cred, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int in = -1;
    int pipes[2], rc;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return dlr_fail(err, -errno, "cannot make a pipe: %s", strerror(errno));
    in = pipes[0];
    steps->hosts_fd = pipes[1];
    rc = start_step(steps, agent, cred, in, err);
    if (rc < 0)
        dlr_shared_agent_step_close(steps);
    return rc;
}

void dlr_shared_agent_step_close(struct dlr_sup_steps *steps)
{
    if (steps->hosts_fd >= 0)
        close(steps->hosts_fd);
    steps->hosts_fd = -1;
}

int dlr_shared_agent_step_start(struct dlr_sup_steps *steps, struct dlr_err *err)
{
    DLR_AUTO_FREE char *cred = NULL;
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *record = NULL;
    struct dlr_words agent = {0};
    int rc = dlr_identity_credential(dlr_sup_identity(steps->env.nodes), steps->env.id,
                                     &cred, err);

    if (rc < 0)
        return rc;
    agent_words(steps, &agent);
    dlr_shared_agent_step_close(steps);
    record = may_share(steps) ? open_record(steps) : NULL;
    rc = record ? share(steps, &record, &agent, cred, err) : -EAGAIN;
    steps->agents_shared = rc == 0;
    if (rc < 0) /* no FIFOs here, or no lock: nothing that should stop a run */
        rc = own(steps, &agent, cred, err);
    dlr_words_done(&agent);
    return rc;
}

/* Beside the record: which nodes met last, as a sum. */
static void met_path(const struct dlr_sup_steps *steps, char *buf, size_t size)
{
    path_of(steps, ".met", buf, size);
}

bool dlr_sup_agents_have_met(const struct dlr_sup_steps *steps, uint64_t nodes)
{
    char path[DLR_RUN_PATH + 64], expected[32];
    DLR_AUTO_FREE char *text = NULL;

    if (!steps->agents_shared)
        return false;
    met_path(steps, path, sizeof(path));
    snprintf(expected, sizeof(expected), "%016" PRIx64, nodes);
    text = dlr_sup_file_text(steps->env.io, path, 0);
    return text && dlr_streq(text, expected);
}

void dlr_sup_agents_met(const struct dlr_sup_steps *steps, uint64_t nodes)
{
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *f = NULL;
    char path[DLR_RUN_PATH + 64];

    if (!steps->agents_shared)
        return;
    met_path(steps, path, sizeof(path));
    f = dlr_sup_file_new(path, NULL);
    if (dlr_sup_file_call(steps->env.io, dlr_sup_file_record, &f) < 0)
        return; /* the next run meets by MPI, too */
    snprintf(f->text, sizeof(f->text), "%016" PRIx64, nodes);
    dlr_sup_file_call(steps->env.io, dlr_sup_file_rewrite, &f);
}

int dlr_shared_agent_step_start_on(struct dlr_sup_steps *steps, const char *node,
                                   struct dlr_proc *ret, struct dlr_err *err)
{
    struct dlr_words agent = {0}, words = {0};
    DLR_AUTO_FREE char *cred = NULL;
    int rc = dlr_identity_credential(dlr_sup_identity(steps->env.nodes), steps->env.id,
                                     &cred, err);

    if (rc < 0)
        return rc;
    agent_words(steps, &agent);
    dlr_sup_step_words(steps, &words, AGENTS, "none", node, 1);
    dlr_words_add(&words, DLR_SUP_NO_GRES);
    rc = start_srun(steps, &words, &agent, cred, -1, ret, err);
    dlr_words_done(&words);
    dlr_words_done(&agent);
    return rc;
}

void dlr_shared_agent_step_adopt(struct dlr_sup_steps *steps, const char *id)
{
    steps->agents_shared = dlr_procid_parse(id, &steps->agents_id) == 0 &&
                           dlr_procid_alive(&steps->agents_id) &&
                           dlr_proc_adopt(steps->agents_id.pid, &steps->agents) == 0;
}

void dlr_shared_agent_step_end_run(struct dlr_sup_steps *steps)
{
    DLR_AUTO_FREE char *order = dlr_host_order(steps->env.info->name, NULL, NULL, 0);

    if (!steps->agents_shared)
        dlr_proc_kill(&steps->agents, SIGTERM);
    else if (order)
        write_order(steps, order);
}
