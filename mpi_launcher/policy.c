/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/policy.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/cleanup.h"

/* Every setback strikes a copy off, so they end by themselves; this ends a bug's loop. */
#define MAX_SETBACKS 8

enum node_state { NODE_UNSEEN, NODE_UP, NODE_DEAD };

struct node {
    enum node_state state;
    bool member; /* has a place in the plan in force */
    bool dirty;  /* has not yet said that the ended round is gone */
};

struct dlr_policy {
    struct dlr_policy_conf conf;
    struct dlr_policy_ops ops;
    void *arg;
    struct node *nodes;

    enum dlr_phase phase;
    int64_t deadline_ms; /* of the phase; INT64_MAX: none */
    uint32_t round, next_round;
    unsigned restarts;
    unsigned failed_rendezvous; /* in a row, with no node lost */
    unsigned setbacks;          /* in a row: copies that could not be moved or loaded */

    enum dlr_cause cause; /* why the round ends, while it does */
    char why[256];
    int exit_code; /* what the run returns when it has to end */
    bool ended;    /* srun of the round has returned */
    bool suspect;  /* it has, and nobody has said why */
};

static const char *const phase_names[] = {"agents", "rendezvous", "prepare", "run",
                                          "end",    "persist",    "requeue", "done"};
static const char *const cause_names[] = {"none", "node", "program", "restore", "signal"};

const char *dlr_phase_name(enum dlr_phase phase)
{
    return phase_names[phase];
}

const char *dlr_cause_name(enum dlr_cause cause)
{
    return cause_names[cause];
}

int dlr_policy_new(const struct dlr_policy_conf *conf, const struct dlr_policy_ops *ops,
                   void *arg, struct dlr_policy **ret, struct dlr_err *err)
{
    struct dlr_policy *p;

    if (!conf->nplaces || conf->nplaces > conf->nnodes)
        return dlr_fail(err, -EINVAL, "%u nodes cannot hold %u places", conf->nnodes,
                        conf->nplaces);
    p = calloc(1, sizeof(*p));
    if (!p)
        return dlr_fail(err, -ENOMEM, "no memory for the policy");
    p->nodes = calloc(conf->nnodes, sizeof(*p->nodes));
    if (!p->nodes) {
        free(p);
        return dlr_fail(err, -ENOMEM, "no memory for the policy");
    }
    p->conf = *conf;
    p->ops = *ops;
    p->arg = arg;
    p->deadline_ms = INT64_MAX;
    *ret = p;
    return 0;
}

struct dlr_policy *dlr_policy_free(struct dlr_policy *p)
{
    if (p)
        free(p->nodes);
    free(p);
    return NULL;
}

void dlr_policy_resume(struct dlr_policy *p, uint32_t next_round, unsigned restarts)
{
    p->next_round = next_round;
    p->restarts = restarts;
}

static unsigned count(const struct dlr_policy *p, enum node_state state)
{
    unsigned n = 0;

    for (unsigned i = 0; i < p->conf.nnodes; i++)
        n += p->nodes[i].state == state;
    return n;
}

static void enter(struct dlr_policy *p, enum dlr_phase phase, int64_t now_ms,
                  int64_t limit_ms)
{
    p->phase = phase;
    p->deadline_ms = limit_ms < 0 ? INT64_MAX : now_ms + limit_ms;
}

static void finish(struct dlr_policy *p, int code, const char *why)
{
    p->phase = DLR_PHASE_DONE;
    p->deadline_ms = INT64_MAX;
    p->ops.finish(p->arg, code, why);
}

static void give_back(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    snprintf(p->why, sizeof(p->why), "%s", why);
    enter(p, DLR_PHASE_PERSIST, now_ms, p->conf.persist_timeout_ms);
    p->ops.persist(p->arg);
}

static void meet(struct dlr_policy *p, int64_t now_ms)
{
    char why[128];

    if (count(p, NODE_UP) < p->conf.nplaces) {
        snprintf(why, sizeof(why), "%u nodes are left and %u are needed",
                 count(p, NODE_UP), p->conf.nplaces);
        give_back(p, why, now_ms);
        return;
    }
    enter(p, DLR_PHASE_RENDEZVOUS, now_ms, p->conf.rendezvous_timeout_ms);
    p->ops.rendezvous(p->arg, p->failed_rendezvous < p->conf.rendezvous_tries);
}

void dlr_policy_start(struct dlr_policy *p, int64_t now_ms)
{
    enter(p, DLR_PHASE_AGENTS, now_ms, p->conf.agent_timeout_ms);
    p->ops.start_agents(p->arg);
}

void dlr_policy_node_up(struct dlr_policy *p, unsigned node, int64_t now_ms)
{
    p->nodes[node].state = NODE_UP;
    if (p->phase == DLR_PHASE_AGENTS && count(p, NODE_UNSEEN) == 0)
        meet(p, now_ms);
}

/* --- the end of a round ---------------------------------------------------------- */

static void set_back(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    char text[384];

    if (++p->setbacks > MAX_SETBACKS) {
        snprintf(text, sizeof(text), "no copy could be used %u times in a row, last: %s",
                 p->setbacks, why);
        finish(p, 1, text);
        return;
    }
    meet(p, now_ms);
}

static void after_end(struct dlr_policy *p, int64_t now_ms)
{
    char why[512];

    p->failed_rendezvous = 0;
    if (p->cause == DLR_CAUSE_RESTORE) {
        set_back(p, p->why, now_ms);
        return;
    }
    p->setbacks = 0;
    if (p->cause == DLR_CAUSE_SIGNAL) {
        finish(p, p->exit_code, p->why);
        return;
    }
    if (p->cause == DLR_CAUSE_PROGRAM && p->restarts++ >= p->conf.max_restarts) {
        snprintf(why, sizeof(why), "given up after %u restarts (--dlrover-max-restarts): %s",
                 p->conf.max_restarts, p->why);
        finish(p, p->exit_code ? p->exit_code : 1, why);
        return;
    }
    meet(p, now_ms);
}

static void check_clean(struct dlr_policy *p, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_END)
        return;
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        if (p->nodes[i].state == NODE_UP && p->nodes[i].dirty)
            return;
    after_end(p, now_ms);
}

/* The first reason ends the round; a node's death found later explains the failures that it
 * caused, so it takes the place of a failure of the program.
 */
static void end_round(struct dlr_policy *p, enum dlr_cause cause, const char *why,
                      int64_t now_ms)
{
    p->suspect = false;
    p->cause = cause;
    snprintf(p->why, sizeof(p->why), "%s", why);
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        p->nodes[i].dirty = p->nodes[i].member && p->nodes[i].state == NODE_UP;
    enter(p, DLR_PHASE_END, now_ms, p->conf.end_timeout_ms);
    p->ops.end_round(p->arg, p->round, cause, why);
    check_clean(p, now_ms);
}

void dlr_policy_clean(struct dlr_policy *p, unsigned node, uint32_t round, int64_t now_ms)
{
    if (round != p->round)
        return;
    p->nodes[node].dirty = false;
    check_clean(p, now_ms);
}

void dlr_policy_node_dead(struct dlr_policy *p, unsigned node, const char *why,
                          int64_t now_ms)
{
    bool member = p->nodes[node].member;

    if (p->nodes[node].state == NODE_DEAD)
        return;
    p->nodes[node].state = NODE_DEAD;
    p->nodes[node].dirty = false;
    switch (p->phase) {
    case DLR_PHASE_AGENTS:
        if (count(p, NODE_UNSEEN) == 0)
            meet(p, now_ms);
        break;
    case DLR_PHASE_RENDEZVOUS:
        p->ops.stop_rendezvous(p->arg);
        meet(p, now_ms);
        break;
    case DLR_PHASE_PREPARE:
        if (member)
            meet(p, now_ms);
        break;
    case DLR_PHASE_RUN:
        if (member)
            end_round(p, DLR_CAUSE_NODE, why, now_ms);
        break;
    case DLR_PHASE_END:
        if (member && p->cause == DLR_CAUSE_PROGRAM) {
            p->cause = DLR_CAUSE_NODE;
            snprintf(p->why, sizeof(p->why), "%s", why);
        }
        check_clean(p, now_ms);
        break;
    default:
        break;
    }
}

void dlr_policy_agents_gone(struct dlr_policy *p, int64_t now_ms)
{
    if (p->phase == DLR_PHASE_DONE || p->phase == DLR_PHASE_REQUEUE)
        return;
    p->exit_code = 1;
    p->cause = DLR_CAUSE_SIGNAL;
    finish(p, 1, "the agents ended");
}

/* --- rendezvous and preparation -------------------------------------------------- */

void dlr_policy_planned(struct dlr_policy *p, int rc, const unsigned char *member,
                        const char *why, int64_t now_ms)
{
    char text[384];

    if (p->phase != DLR_PHASE_RENDEZVOUS)
        return;
    if (rc == -ENOSPC) {
        give_back(p, why, now_ms);
        return;
    }
    if (rc < 0) {
        if (p->failed_rendezvous++ < p->conf.rendezvous_tries) {
            meet(p, now_ms);
            return;
        }
        snprintf(text, sizeof(text), "no rendezvous: %s", why);
        finish(p, 1, text);
        return;
    }
    p->failed_rendezvous = 0;
    p->round = p->next_round++;
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        p->nodes[i].member = member[i];
    enter(p, DLR_PHASE_PREPARE, now_ms, p->conf.transfer_timeout_ms);
    p->ops.prepare(p->arg, p->round);
}

void dlr_policy_prepared(struct dlr_policy *p, int rc, const char *why, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_PREPARE)
        return;
    if (rc < 0) {
        set_back(p, why, now_ms); /* the next plan does without what failed */
        return;
    }
    p->ended = p->suspect = false;
    p->exit_code = 0;
    enter(p, DLR_PHASE_RUN, now_ms, -1);
    p->ops.launch(p->arg, p->round);
}

/* --- while the user's step runs -------------------------------------------------- */

static int exit_code_of(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return 128 + WTERMSIG(wait_status);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1;
}

void dlr_policy_worker_exit(struct dlr_policy *p, uint32_t round, int rank, unsigned node,
                            int wait_status, int64_t now_ms)
{
    char why[128];
    int code = exit_code_of(wait_status);

    if (round != p->round || code == 0)
        return;
    if (p->phase != DLR_PHASE_RUN &&
        (p->phase != DLR_PHASE_END || p->cause != DLR_CAUSE_PROGRAM))
        return;
    if (WIFSIGNALED(wait_status))
        snprintf(why, sizeof(why), "rank %d was killed by signal %d (%s)", rank,
                 WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    else
        snprintf(why, sizeof(why), "rank %d exited with code %d", rank, code);
    p->exit_code = code;
    if (p->phase == DLR_PHASE_RUN)
        end_round(p, DLR_CAUSE_PROGRAM, why, now_ms);
    else /* it ended before the one that was told first */
        snprintf(p->why, sizeof(p->why), "%s", why);
}

void dlr_policy_restore_failed(struct dlr_policy *p, uint32_t round, const char *why,
                               int64_t now_ms)
{
    if (p->phase == DLR_PHASE_RUN && round == p->round)
        end_round(p, DLR_CAUSE_RESTORE, why, now_ms);
}

void dlr_policy_step_ended(struct dlr_policy *p, uint32_t round, int code, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_RUN || round != p->round)
        return;
    p->ended = true;
    p->exit_code = code;
    if (code == 0) {
        finish(p, 0, NULL);
        return;
    }
    /* Slurm may be first to tell of a node's death: wait for the agents' word. */
    p->suspect = true;
    p->deadline_ms = now_ms + p->conf.suspect_ms;
}

void dlr_policy_signal(struct dlr_policy *p, int sig, int64_t now_ms)
{
    char why[64];

    snprintf(why, sizeof(why), "ended by signal %d (%s)", sig, strsignal(sig));
    p->exit_code = 128 + sig;
    switch (p->phase) {
    case DLR_PHASE_RUN:
        end_round(p, DLR_CAUSE_SIGNAL, why, now_ms);
        break;
    case DLR_PHASE_END:
        p->cause = DLR_CAUSE_SIGNAL;
        snprintf(p->why, sizeof(p->why), "%s", why);
        break;
    case DLR_PHASE_RENDEZVOUS:
        p->ops.stop_rendezvous(p->arg);
        finish(p, p->exit_code, why);
        break;
    case DLR_PHASE_DONE:
        break;
    default:
        finish(p, p->exit_code, why);
    }
}

/* --- giving the allocation back -------------------------------------------------- */

void dlr_policy_persisted(struct dlr_policy *p, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_PERSIST)
        return;
    enter(p, DLR_PHASE_REQUEUE, now_ms, p->conf.requeue_timeout_ms);
    p->ops.requeue(p->arg, p->why);
}

void dlr_policy_requeue_failed(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    char text[640];

    if (p->phase != DLR_PHASE_REQUEUE)
        return;
    snprintf(text, sizeof(text), "%s, and the job could not be requeued: %s", p->why, why);
    finish(p, 1, text);
}

/* --- limits ------------------------------------------------------------------------ */

static void agents_late(struct dlr_policy *p, int64_t now_ms)
{
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        if (p->nodes[i].state == NODE_UNSEEN)
            p->nodes[i].state = NODE_DEAD;
    meet(p, now_ms);
}

static void end_late(struct dlr_policy *p, int64_t now_ms)
{
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        if (p->nodes[i].dirty)
            p->nodes[i].state = NODE_DEAD; /* its processes did not go: not fit to be used */
    after_end(p, now_ms);
}

void dlr_policy_tick(struct dlr_policy *p, int64_t now_ms)
{
    char why[64];

    if (now_ms < p->deadline_ms)
        return;
    p->deadline_ms = INT64_MAX;
    switch (p->phase) {
    case DLR_PHASE_AGENTS:
        agents_late(p, now_ms);
        break;
    case DLR_PHASE_RENDEZVOUS:
        p->ops.stop_rendezvous(p->arg);
        dlr_policy_planned(p, -ETIMEDOUT, NULL, "it took too long", now_ms);
        break;
    case DLR_PHASE_PREPARE:
        dlr_policy_prepared(p, -ETIMEDOUT, "copies took too long", now_ms);
        break;
    case DLR_PHASE_RUN:
        snprintf(why, sizeof(why), "srun ended with code %d", p->exit_code);
        end_round(p, DLR_CAUSE_PROGRAM, why, now_ms);
        break;
    case DLR_PHASE_END:
        end_late(p, now_ms);
        break;
    case DLR_PHASE_PERSIST:
        dlr_policy_persisted(p, now_ms);
        break;
    case DLR_PHASE_REQUEUE:
        dlr_policy_requeue_failed(p, "slurmctld did not act in time", now_ms);
        break;
    case DLR_PHASE_DONE:
        break;
    }
}

int64_t dlr_policy_deadline_ms(const struct dlr_policy *p)
{
    return p->deadline_ms;
}

enum dlr_phase dlr_policy_phase(const struct dlr_policy *p)
{
    return p->phase;
}

uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return p->round;
}

unsigned dlr_policy_restarts(const struct dlr_policy *p)
{
    return p->restarts;
}

unsigned dlr_policy_alive(const struct dlr_policy *p)
{
    return count(p, NODE_UP);
}

bool dlr_policy_is_alive(const struct dlr_policy *p, unsigned node)
{
    return p->nodes[node].state == NODE_UP;
}
