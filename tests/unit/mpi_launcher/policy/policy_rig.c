/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mpi_launcher/policy/policy_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void add(struct policy_log *l, const char *word, int n)
{
    size_t at = strlen(l->text);

    if (n < 0)
        snprintf(l->text + at, sizeof(l->text) - at, "%s ", word);
    else
        snprintf(l->text + at, sizeof(l->text) - at, "%s%d ", word, n);
}

static void start_agents(void *arg)
{
    add(arg, "agents", -1);
}
static int resize(void *arg, unsigned nplaces)
{
    struct policy_log *l = arg;

    add(arg, "resize", (int)nplaces);
    return l->rigid ? -22 : 0;
}
static void late(void *arg, unsigned n)
{
    add(arg, "late", (int)n);
}
static void rendezvous(void *arg, bool with_mpi)
{
    add(arg, with_mpi ? "meet" : "report", -1);
}
static void stop_rendezvous(void *arg)
{
    add(arg, "stop", -1);
}
static void prepare(void *arg, uint32_t round)
{
    add(arg, "prepare", round);
}
static void launch(void *arg, uint32_t round)
{
    add(arg, "launch", round);
}
static void end_round(void *arg, uint32_t round, enum dlr_cause cause, const char *why)
{
    add(arg, "end", round);
    add(arg, dlr_cause_name(cause), -1);
}
static void explain(void *arg, uint32_t round, enum dlr_cause cause, const char *why)
{
    add(arg, "explain", round);
    add(arg, dlr_cause_name(cause), -1);
}
static void persist(void *arg)
{
    add(arg, "persist", -1);
}
static void requeue(void *arg, const char *why)
{
    add(arg, "requeue", -1);
    snprintf(((struct policy_log *)arg)->why, 512, "%s", why);
}
static void finish(void *arg, int code, const char *why)
{
    struct policy_log *l = arg;

    add(l, "finish", code);
    l->code = code;
    snprintf(l->why, sizeof(l->why), "%s", why ? why : "");
}

static void wait_controller(void *arg, const char *why)
{
    add(arg, "wait", -1);
}

static void ask_fate(void *arg)
{
    add(arg, "fate", -1);
}

static bool unwritten(void *arg)
{
    return ((struct policy_log *)arg)->unwritten;
}

const struct dlr_policy_ops policy_ops = {
    start_agents, resize,    rendezvous,      stop_rendezvous, prepare,
    launch,       end_round, explain,         persist,         requeue,
    late,         finish,    wait_controller, ask_fate,        unwritten};

/* 5 nodes of which 4 train: members 0..3 unless told otherwise. */
const struct dlr_policy_conf policy_conf = {.nnodes = 5,
                                            .nplaces = 4,
                                            .max_restarts = 2,
                                            .rendezvous_tries = 2,
                                            .agent_timeout_ms = 1000,
                                            .rendezvous_timeout_ms = 1000,
                                            .transfer_timeout_ms = 1000,
                                            .end_timeout_ms = 1000,
                                            .persist_timeout_ms = 1000,
                                            .requeue_timeout_ms = 1000,
                                            .controller_timeout_ms = 5000,
                                            .suspect_ms = 500};

struct dlr_policy *policy_new(struct policy_log *l, const struct dlr_policy_conf *conf)
{
    struct dlr_policy *p = NULL;
    struct dlr_err err;

    memset(l, 0, sizeof(*l));
    assert_int_equal(dlr_policy_new(conf, &policy_ops, l, &p, &err), 0);
    return p;
}

struct dlr_policy *policy_begin(struct policy_log *l)
{
    struct dlr_policy *p = policy_new(l, &policy_conf);

    dlr_policy_start(p, 0);
    return p;
}

void policy_plan(struct dlr_policy *p, const char *members, int64_t now)
{
    unsigned char m[5];

    for (unsigned i = 0; i < 5; i++)
        m[i] = members[i] == 'x';
    dlr_policy_planned(p, 0, m, NULL, now);
}

/* Up to the launch of round 0 on nodes 0..3 with node 4 as spare. */
struct dlr_policy *policy_running_by(struct policy_log *l,
                                     const struct dlr_policy_conf *conf)
{
    struct dlr_policy *p = policy_new(l, conf);

    dlr_policy_start(p, 0);
    for (unsigned i = 0; i < 5; i++)
        dlr_policy_node_up(p, i, 10);
    policy_plan(p, "xxxx.", 20);
    dlr_policy_prepared(p, 0, NULL, 30);
    assert_string_equal(l->text, "agents meet prepare0 launch0 ");
    l->text[0] = '\0';
    return p;
}

struct dlr_policy *policy_running(struct policy_log *l)
{
    return policy_running_by(l, &policy_conf);
}

void policy_all_clean(struct dlr_policy *p, uint32_t round, int64_t now)
{
    for (unsigned i = 0; i < 5; i++)
        if (dlr_policy_is_alive(p, i))
            dlr_policy_clean(p, i, round, now);
}

void policy_all_up(struct dlr_policy *p, int64_t now)
{
    for (unsigned i = 0; i < 5; i++)
        if (!dlr_policy_is_lost(p, i))
            dlr_policy_node_up(p, i, now);
}
