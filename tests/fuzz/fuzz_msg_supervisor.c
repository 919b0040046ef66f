/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/supervisor wrap=dlr_server_send,dlr_server_send_json,dlr_server_send_shared,dlr_identity_verify,dlr_proc_start stand-ins */
/* What agents may say to a supervisor in the middle of a round: one message on each
 * line, its first character says which node (0 to 3) sends it, anything else is a
 * stranger. Policy, commit protocol and handlers are the real ones; no process is
 * started and nothing is sent. Reaches dlr_slice_parse() and dlr_looks_unpack().
 */
#include "mpi_launcher/supervisor/nodes/hello.c"

#include <stdarg.h>

#include "ckpt/commit/commit.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/policy/actions.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/slurm/api.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/ending/ending_state.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/wire/endpoint.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/engines_rig.h"

#define NODES 4
#define PLAN                                                                           \
    "{\"v\":2,\"world\":4,\"restore\":null,\"spares\":[],\"out\":[],\"verdicts\":[],"  \
    "\"sources\":[],\"notes\":[],\"places\":["                                         \
    "{\"node\":\"n1\",\"topo\":\"s0.n1\",\"cpus\":2,\"first\":0,\"tasks\":2,"          \
    "\"partner\":1,\"moved\":false},"                                                  \
    "{\"node\":\"n2\",\"topo\":\"s0.n2\",\"cpus\":2,\"first\":2,\"tasks\":2,"          \
    "\"partner\":0,\"moved\":false}]}"

static int64_t now_ms;

/* --- instead of mpi_launcher/wire/endpoint.c, mpi_launcher/wire/identity.c and what
 * starts processes
 */

int64_t dlr_sup_now(void)
{
    return now_ms;
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
}
int __wrap_dlr_server_send(struct dlr_server *server, const struct dlr_route *to,
                           const void *data, size_t size);
int __wrap_dlr_server_send(struct dlr_server *server, const struct dlr_route *to,
                           const void *data, size_t size)
{
    return 0;
}
int __wrap_dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                                const json_t *msg);
int __wrap_dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                                const json_t *msg)
{
    char *text = dlr_msg_text(msg);

    FUZZ_CHECK(text); /* what we answer is always a message */
    free(text);
    return 0;
}
int __wrap_dlr_server_send_shared(struct dlr_server *server, const struct dlr_route *to,
                                  struct dlr_shared *shared);
int __wrap_dlr_server_send_shared(struct dlr_server *server, const struct dlr_route *to,
                                  struct dlr_shared *shared)
{
    return 0;
}
int __wrap_dlr_identity_verify(const char *cred, const struct dlr_run_id *run,
                               char ret_key[DLR_KEY_TEXT], struct dlr_err *err);
int __wrap_dlr_identity_verify(const char *cred, const struct dlr_run_id *run,
                               char ret_key[DLR_KEY_TEXT], struct dlr_err *err)
{
    ret_key[0] = '\0';
    return dlr_streq(cred, "good") ? 0 : -EACCES;
}
int __wrap_dlr_proc_start(char *const *argv, char *const *env, int in, int out, int err,
                          struct dlr_proc *ret, struct dlr_err *why);
int __wrap_dlr_proc_start(char *const *argv, char *const *env, int in, int out, int err,
                          struct dlr_proc *ret, struct dlr_err *why)
{
    return -EPERM;
}

/* --- the policy's hands: what a round would be ------------------------------------ */

static void none(void *arg)
{
}
static int none_resize(void *arg, unsigned nplaces)
{
    return 0;
}
static void none_bool(void *arg, bool with_mpi)
{
}
static void none_round(void *arg, uint32_t round)
{
}
static void none_end(void *arg, uint32_t round, enum dlr_cause cause, const char *why)
{
}
static void none_why(void *arg, const char *why)
{
}
static void none_late(void *arg, unsigned n)
{
}
static void none_finish(void *arg, int code, const char *why)
{
    ((struct dlr_sup *)arg)->ending->finished = true;
}

static void start(struct dlr_sup *s)
{
    static const struct dlr_policy_ops ops = {.start_agents = none,
                                              .resize = none_resize,
                                              .rendezvous = none_bool,
                                              .stop_rendezvous = none,
                                              .prepare = none_round,
                                              .launch = none_round,
                                              .end_round = none_end,
                                              .explain = none_end,
                                              .persist = none,
                                              .requeue = none_why,
                                              .late = none_late,
                                              .wait_controller = none_why,
                                              .ask_fate = none,
                                              .finish = none_finish};
    static unsigned tasks[] = {2, 2};
    char n1[] = "n1", n2[] = "n2", n3[] = "n3", n4[] = "n4";
    char *names[NODES] = {n1, n2, n3, n4};
    unsigned char member[NODES] = {1, 1, 0, 0};
    struct dlr_policy_conf pc = {.nnodes = NODES,
                                 .nplaces = 2,
                                 .max_restarts = 3,
                                 .rendezvous_tries = 2,
                                 .agent_timeout_ms = 1000,
                                 .rendezvous_timeout_ms = 1000,
                                 .transfer_timeout_ms = 1000,
                                 .end_timeout_ms = 1000,
                                 .persist_timeout_ms = 1000,
                                 .requeue_timeout_ms = 1000,
                                 .controller_timeout_ms = 1000,
                                 .suspect_ms = 100};
    struct dlr_members *table;
    json_t *plan = json_loads(PLAN, 0, NULL);
    struct dlr_err err;

    now_ms = 1000;
    dlr_job_config_init(&s->conf);
    s->state_fd = -1;
    s->id.gen = 1;
    memcpy(s->info.job_dir, "/nonexistent", 13);
    memcpy(s->info.dir, "/nonexistent", 13);
    table = engines_rig(s, names, NODES);
    FUZZ_CHECK(dlr_policy_new(&pc, &ops, s, &s->policy, &err) == 0);
    s->planning->step.world = 4;
    s->planning->step.nplaces = 2;
    s->planning->step.tasks = tasks;
    FUZZ_CHECK(dlr_sup_engines_open(s, &err) == 0);
    FUZZ_CHECK(plan && dlr_plan_from_json(plan, &s->planning->plan, &err) == 0);
    json_decref(plan);
    FUZZ_CHECK(dlr_sup_holders_make(s->copies) == 0);
    dlr_policy_start(s->policy, now_ms);
    for (unsigned i = 0; i < NODES; i++) {
        struct dlr_member *m = &table->list[i];

        m->here = true;
        m->heard_ms = now_ms;
        dlr_members_set_route(
            table, i, &(struct dlr_route){.size = 1, .id = {(unsigned char)('0' + i)}});
        dlr_policy_node_up(s->policy, i, now_ms);
    }
    dlr_policy_planned(s->policy, 0, member, "", now_ms);
    dlr_commit_round(dlr_sup_commit(s->versions), dlr_policy_round(s->policy), 4, NULL);
    dlr_policy_prepared(s->policy, 0, "", now_ms);
    s->rounds->running_round = dlr_policy_round(s->policy);
    s->rounds->restored = calloc(4, 1);
    s->rounds->up = calloc(4, 1);
    FUZZ_CHECK(dlr_sup_failure_reset(s->rounds, 4) == 0 && s->rounds->restored &&
               s->rounds->up);
    FUZZ_CHECK(dlr_policy_phase(s->policy) == DLR_PHASE_RUN);
    s->conf.hang_limit_ms = 10;
    s->conf.hang = DLR_HANG_ACT;
    dlr_sup_watch_round(s, now_ms);
    now_ms += 10;
    dlr_sup_watch_round(s, now_ms); /* asks */
}

static void stop(struct dlr_sup *s)
{
    s->planning->step.tasks = NULL;
    dlr_policy_free(s->policy);
    engines_rig_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dlr_sup sup; /* large */
    char *all = fuzz_text(data, size), *rest = all, *line;

    memset(&sup, 0, sizeof(sup));
    start(&sup);
    while ((line = fuzz_line(&rest)) && *line) {
        struct dlr_packet packet = {.data = line + 1, .size = strlen(line + 1)};

        packet.from = (struct dlr_route){.size = 1, .id = {(unsigned char)line[0]}};
        take_json(sup.nodes, &packet);
        now_ms += 10;
        dlr_sup_watch_round(&sup, now_ms);
    }
    dlr_sup_versions_tick(sup.versions, now_ms);
    dlr_policy_tick(sup.policy, now_ms);
    stop(&sup);
    free(all);
    return 0;
}
