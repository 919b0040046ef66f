/* SPDX-License-Identifier: Apache-2.0 */
/* A rendezvous by MPI: the candidates meet in a program, and the first of them prints
 * the plan.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/install_path.h"
#include "common/json/message.h"
#include "mpi_launcher/run/master_port.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/steps/controller.h"
#include "mpi_launcher/supervisor/steps/internal_step.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"

#define PLAN_MARK "DLROVER-PLAN "
#define PLAN_TEXT_MAX (16u << 20)
/* of the reachability check: a silent peer costs this once */
#define PEER_TIMEOUT_MS 300

/* As a descriptor, which the first rank's standard input comes from. */
static int make_input(struct dlr_sup_planning *planning, int *ret_fd,
                      struct dlr_err *err)
{
    DLR_AUTO_FREE const char **names = calloc(3 * planning->members->n, sizeof(*names));
    DLR_AUTO_JSON json_t *input = NULL;
    DLR_AUTO_FREE char *text = NULL;
    const char **addrs = names ? names + planning->members->n : NULL;
    const char **paths = names ? addrs + planning->members->n : NULL;
    char checks[DLR_OPT_TEXT + 8]; /* and the words of "auto" */
    struct dlr_plan_survey survey = {
        .checks = checks,
        .disk_path = planning->env.info->dir,
        .shm_path = "/dev/shm",
        .store_dir = planning->env.conf->checkpoint ? planning->env.info->memory : "",
        .key = planning->env.info->key,
        .peer_timeout_ms = PEER_TIMEOUT_MS,
        .network_ms = dlr_sup_network_ms(planning),
        .no_stragglers = planning->env.conf->exclude_stragglers,
        .port = dlr_port_choose(dlr_sup_job_number(planning), planning->env.info->name,
                                planning->ops->round(planning->arg)),
        .peer_nodes = names,
        .peer_addrs = addrs,
        .peer_paths = paths,
    };
    struct dlr_plan_want want;
    int fd;

    dlr_job_config_checks(planning->env.conf, !planning->check_all, checks,
                          sizeof(checks));
    planning->mpi.network = survey.network_ms > 0;
    planning->check_all = false; /* once: the next attempt must not be late by them */
    planning->checked = true;
    for (unsigned i = 0; names && i < planning->members->n; i++) {
        if (!dlr_sup_is_candidate(planning->env.steps, i))
            continue;
        names[survey.npeers] = planning->members->list[i].node.name;
        paths[survey.npeers] = planning->members->list[i].mapped
                                   ? planning->members->list[i].node.path
                                   : NULL;
        addrs[survey.npeers++] = planning->members->list[i].addr;
    }
    dlr_sup_fill_want(planning, &want);
    input = names ? dlr_plan_input_to_json(&want, &survey) : NULL;
    text = input ? dlr_msg_text(input) : NULL;
    if (!text)
        return dlr_fail(err, -ENOMEM, "no memory for the rendezvous");
    fd = dlr_sup_file_memory(text);
    if (fd < 0)
        return dlr_fail(err, fd, "no memory for the rendezvous");
    *ret_fd = fd;
    return 0;
}

static void read_plan(struct dlr_sup_planning *planning, int status)
{
    bool gone = dlr_sup_container_gone(planning);
    const char *at = planning->mpi.text ? strstr(planning->mpi.text, PLAN_MARK) : NULL;
    DLR_AUTO_JSON json_t *j = NULL;
    struct dlr_plan plan = {0};
    struct dlr_err err = {0};
    json_error_t jerr;
    int rc;

    if (at) {
        at += strlen(PLAN_MARK);
        j = json_loadb(at, strcspn(at, "\n"), JSON_REJECT_DUPLICATES, &jerr);
    }
    dlr_sup_rendezvous_log(planning);
    if (!j && gone) {
        planning->ops->planned(
            planning->arg, -ENOSPC, &plan,
            "with a node lost, Slurm has removed the job's container "
            "(job_container/tmpfs): no step can be started here any more");
        return;
    }
    if (!j && planning->gather.active)
        return; /* they decide */
    if (!j) {
        dlr_fail(&err, -EPROTO,
                 "the rendezvous ended with code %d and no plan (see "
                 "rendezvous.log beside the journal)",
                 WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        dlr_sup_ask_controller(planning->env.steps, DLR_QUERY_PLAN, 0, err.text, 0);
        return;
    }
    planning->gather.active = false;
    dlr_sup_tell_links(planning);
    if (!planning->mpi.network)
        dlr_rendezvous_time_took(dlr_sup_rendezvous_time(planning),
                                 dlr_sup_now() - planning->ops->since(planning->arg));
    rc = dlr_plan_from_json(j, &plan, &err);
    if (rc == 0)
        dlr_sup_met(planning, &plan);
    planning->ops->planned(planning->arg, rc, &plan, err.text);
}

static void close_rendezvous(struct dlr_sup_planning *planning)
{
    if (planning->mpi.out >= 0) {
        dlr_sup_unwatch(planning->env.io, planning->mpi.out);
        close(planning->mpi.out);
    }
    planning->mpi.out = -1;
}

static void rendezvous_check(struct dlr_sup_planning *planning)
{
    int status;

    if (!planning->mpi.eof || !planning->mpi.ended)
        return;
    status = dlr_proc_reap(&planning->mpi.srun);
    planning->mpi.ended = false;
    read_plan(planning, status);
}

static int rendezvous_output(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_planning *planning = arg;
    char *more = realloc(planning->mpi.text, planning->mpi.size + 65537);
    ssize_t n;

    if (!more || planning->mpi.size > PLAN_TEXT_MAX)
        n = 0;
    else
        n = read(item->fd, more + planning->mpi.size, 65536);
    if (more) {
        planning->mpi.text = more;
        planning->mpi.size += n > 0 ? n : 0;
        more[planning->mpi.size] = '\0';
    }
    if (n > 0 || (n < 0 && errno == EAGAIN))
        return 0;
    close_rendezvous(planning);
    planning->mpi.eof = true;
    rendezvous_check(planning);
    return 0;
}

static int rendezvous_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_planning *planning = arg;

    dlr_sup_unwatch(planning->env.io, planning->mpi.srun.pidfd);
    planning->mpi.ended = true;
    rendezvous_check(planning);
    return 0;
}

static int start_srun(struct dlr_sup_planning *planning, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int input = -1, out = -1;
    char path[4096];
    struct dlr_words words = {0};
    struct dlr_env env = {0};
    int pipes[2], rc;

    if ((rc = make_input(planning, &input, err)) < 0)
        return rc;
    rc = dlr_install_path_sibling("dlrover-rendezvous", path, sizeof(path));
    if (rc < 0)
        return dlr_fail(err, rc, "cannot find dlrover-rendezvous: %s", strerror(-rc));
    if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) < 0)
        return dlr_fail(err, -errno, "pipe: %s", strerror(errno));
    out = pipes[1];
    fcntl(out, F_SETFL, 0);
    dlr_sup_rendezvous_log(planning);
    planning->mpi.log = memfd_create("dlrover-rendezvous", MFD_CLOEXEC);
    dlr_sup_internal_words(planning->env.steps, &words, "dlrover-rendezvous", "pmix");
    if (planning->step.uneven)
        dlr_words_add(&words, DLR_SUP_NO_GRES); /* else there would be no such step */
    dlr_words_add(&words, "--kill-on-bad-exit=1");
    dlr_words_add(&words, "--input=0"); /* the first rank has our words and tells all */
    dlr_words_add(&words, "%s", path);
    dlr_words_add(&words, "--input=-");
    if (planning->mpi.network)
        dlr_words_add(&words, "--network");
    rc = dlr_sup_internal_env(planning->env.steps, &env);
    if (rc == 0 && planning->env.conf->bind)
        rc = dlr_env_set(&env, "DLROVER_MACHINE", "%s/machine",
                         planning->env.info->memory);
    if (rc == 0)
        rc = dlr_srun_pmix_env(&env);
    if (rc == 0)
        rc = dlr_proc_start(words.list, env.list, input, out, planning->mpi.log,
                            &planning->mpi.srun, err);
    dlr_words_done(&words);
    dlr_env_done(&env);
    if (rc < 0) {
        close(pipes[0]);
        return rc;
    }
    planning->mpi.out = pipes[0];
    return 0;
}

int dlr_sup_mpi_start(struct dlr_sup_planning *planning, struct dlr_err *err)
{
    int rc;

    free(planning->mpi.text);
    planning->mpi.text = NULL;
    planning->mpi.size = 0;
    planning->mpi.eof = planning->mpi.ended = false;
    rc = start_srun(planning, err);
    if (rc < 0)
        return rc;
    dlr_sup_watch(planning->env.io, planning->mpi.srun.pidfd, rendezvous_ended,
                  planning);
    dlr_sup_watch(planning->env.io, planning->mpi.out, rendezvous_output, planning);
    return 0;
}

void dlr_sup_rendezvous_stop(struct dlr_sup_planning *planning)
{
    planning->gather.active = planning->held = false;
    close_rendezvous(planning);
    dlr_srun_abandon(planning->env.steps, &planning->mpi.srun);
    dlr_sup_rendezvous_log(planning);
    planning->mpi.ended = false;
}
