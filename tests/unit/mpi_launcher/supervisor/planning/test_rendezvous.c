/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* The engine of the planning without a supervisor: a rendezvous by MPI that brings a
 * plan, none, or hangs, and what agents report. Two nodes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"
#include "mpi_launcher/supervisor/steps/controller.h"
#include "mpi_launcher/supervisor/steps/internal_step.h"
#include "mpi_launcher/supervisor/steps/network.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"

#define NODES 2
#define BEGAN_MS 5000
#define PIDFD 900 /* of the program's srun */
#define PLAN                                                                           \
    "DLROVER-PLAN {\"v\":2,\"world\":2,\"restore\":null,\"spares\":[],\"out\":[],"     \
    "\"verdicts\":[],\"sources\":[],\"notes\":[],\"places\":["                         \
    "{\"node\":\"n0\",\"topo\":\"s0.n0\",\"cpus\":2,\"first\":0,\"tasks\":1,"          \
    "\"partner\":1,\"moved\":false},"                                                  \
    "{\"node\":\"n1\",\"topo\":\"s0.n1\",\"cpus\":2,\"first\":1,\"tasks\":1,"          \
    "\"partner\":0,\"moved\":false}]}\n"

static struct dlr_job_config conf;
static struct dlr_runinfo info = {.dir = "/nonexistent", .name = "r", .job = "7"};
static struct dlr_sup_io *io;
static struct dlr_sup_nodes *nodes;
static struct dlr_sup_planning *planning;
static int64_t now_ms;
static bool restores, awaited, not_started, tree_awaited, has_network_word;
static bool without_gpus;                        /* its srun was told so */
static int program_out = -1, program_words = -1; /* the program's ends */
static struct {
    int fd;
    zloop_fn *fn;
    void *arg;
} watched[2]; /* its end and its output */
static char told[256];
static char checks[64];   /* that the program was asked to make */
static uint64_t have_met; /* by the job's earlier runs */

static void note(const char *fmt, ...)
{
    size_t at = strlen(told);
    va_list ap;

    if (at)
        told[at++] = ' ';
    va_start(ap, fmt);
    vsnprintf(told + at, sizeof(told) - at, fmt, ap);
    va_end(ap);
}

/* And forgets it. */
#define assert_told(words)                                                             \
    do {                                                                               \
        assert_string_equal(told, words);                                              \
        told[0] = '\0';                                                                \
    } while (0)

/* --- instead of the clock, of the loop, of the steps and of agents ---------------- */

int64_t dlr_sup_now(void)
{
    return now_ms;
}
void dlr_user_line(struct dlr_sup_io *to, const char *fmt, ...)
{
}
int dlr_sup_watch(struct dlr_sup_io *to, int fd, zloop_fn *fn, void *arg)
{
    unsigned i = fd != PIDFD;

    watched[i].fd = fd;
    watched[i].fn = fn;
    watched[i].arg = arg;
    return 0;
}
void dlr_sup_unwatch(struct dlr_sup_io *to, int fd)
{
}
void dlr_sup_send(struct dlr_sup_nodes *to, unsigned node, json_t *msg)
{
    note("%s%u", dlr_msg_type(msg), node);
    json_decref(msg);
}
bool dlr_sup_is_candidate(const struct dlr_sup_steps *steps, unsigned node)
{
    return nodes->members.list[node].here;
}
bool dlr_sup_is_asked(const struct dlr_sup_steps *steps)
{
    return awaited;
}
void dlr_sup_ask_controller(struct dlr_sup_steps *steps, enum dlr_controller_query what,
                            int code, const char *why, int64_t launch_ms)
{
    note(what == DLR_QUERY_RENDEZVOUS ? "ask-late" : "ask: %s", why);
    awaited = true;
}
bool dlr_sup_network_is_asked(const struct dlr_sup_steps *steps)
{
    return tree_awaited;
}
void dlr_sup_network_tell(struct dlr_sup_steps *steps)
{
}
bool dlr_sup_agents_have_met(const struct dlr_sup_steps *steps, uint64_t sum)
{
    return have_met && sum == have_met;
}
void dlr_sup_agents_met(const struct dlr_sup_steps *steps, uint64_t sum)
{
    have_met = sum;
}
void dlr_srun_abandon(struct dlr_sup_steps *steps, struct dlr_proc *proc)
{
    if (proc->pid)
        note("let-go");
    *proc = (struct dlr_proc){.pidfd = -1};
}
int dlr_sup_internal_env(const struct dlr_sup_steps *steps, struct dlr_env *env)
{
    return 0;
}
void dlr_sup_internal_words(const struct dlr_sup_steps *steps, struct dlr_words *w,
                            const char *name, const char *mpi)
{
}
int dlr_proc_start(char *const *argv, char *const *envp, int in, int out, int err_fd,
                   struct dlr_proc *ret, struct dlr_err *err)
{
    without_gpus = false;
    for (unsigned i = 0; argv[i]; i++)
        without_gpus = without_gpus || dlr_streq(argv[i], DLR_SUP_NO_GRES);
    if (not_started)
        return -EAGAIN;
    json_t *input = json_loadfd(in, 0, NULL);

    dlr_format(
        checks, sizeof(checks), "%s",
        json_string_value(json_object_get(json_object_get(input, "survey"), "checks")));
    json_decref(input);
    has_network_word = false;
    for (; *argv; argv++)
        has_network_word = has_network_word || dlr_streq(*argv, "--network");
    program_out = dup(out);
    program_words = dup(err_fd);
    *ret = (struct dlr_proc){.pid = 70, .pidfd = PIDFD};
    return 0;
}
int dlr_proc_reap(struct dlr_proc *proc)
{
    *proc = (struct dlr_proc){.pidfd = -1};
    return 0;
}

/* --- events ----------------------------------------------------------------------- */

static void fill_want(void *arg, struct dlr_plan_want *ret)
{
    *ret = (struct dlr_plan_want){0};
}
static void on_planned(void *arg, int rc, struct dlr_plan *plan, const char *why)
{
    note("planned%s%u",
         rc == -ENOSPC ? "-none"
         : rc < 0      ? "-failed"
                       : "",
         plan->nplaces);
    dlr_plan_done(plan);
}
static void on_reported(void *arg, const struct dlr_plan_report *reports, unsigned n)
{
    note("reported%u", n);
}
static uint64_t next_request(void *arg)
{
    static uint64_t id;

    return ++id;
}
static uint32_t round_now(void *arg)
{
    return 0;
}
static int64_t phase_since(void *arg)
{
    return BEGAN_MS;
}
static bool has_version(void *arg)
{
    return restores;
}

static const struct dlr_sup_planning_ops ops = {.want = fill_want,
                                                .planned = on_planned,
                                                .reported = on_reported,
                                                .request = next_request,
                                                .round = round_now,
                                                .since = phase_since,
                                                .restores = has_version};

/* --- the rig ---------------------------------------------------------------------- */

static int begin(void **state)
{
    static char n0[] = "n0", n1[] = "n1";
    char *names[NODES] = {n0, n1};
    struct dlr_sup_nodes_env nodes_env = {.conf = &conf};
    struct dlr_sup_planning_env env = {.conf = &conf, .info = &info};
    struct dlr_err err;

    dlr_job_config_init(&conf);
    io = nodes_env.io = env.io = dlr_sup_io_new(NULL, NULL);
    nodes = env.nodes = dlr_sup_nodes_new(&nodes_env, NULL, NULL);
    assert_int_equal(dlr_sup_nodes_open(nodes, names, NODES, NULL, &err), 0);
    for (unsigned i = 0; i < NODES; i++)
        nodes->members.list[i].here = true;
    planning = dlr_sup_planning_new(&env, &ops, NULL);
    assert_non_null(planning);
    now_ms = BEGAN_MS;
    restores = awaited = not_started = false;
    have_met = 0;
    told[0] = '\0';
    return 0;
}

static void close_program(void)
{
    if (program_out >= 0)
        close(program_out);
    if (program_words >= 0)
        close(program_words);
    program_out = program_words = -1;
}

static int end(void **state)
{
    dlr_sup_rendezvous_stop(planning);
    close_program();
    dlr_sup_planning_free(planning);
    dlr_sup_nodes_free(nodes);
    dlr_sup_io_free(io);
    return 0;
}

static int happens(unsigned which)
{
    zmq_pollitem_t item = {.fd = watched[which].fd};

    return watched[which].fn(NULL, &item, watched[which].arg);
}

/* The program has printed this, its srun has said that, and both have ended. */
static void program_ends(const char *text, const char *words)
{
    assert_int_equal(write(program_out, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(write(program_words, words, strlen(words)),
                     (ssize_t)strlen(words));
    close_program();
    happens(0);
    assert_told(""); /* some of its output may be on its way */
    if (text[0])
        happens(1);
    happens(1);
}

/* What no plan is made of. */
static void report(unsigned node)
{
    json_t *msg =
        json_pack("{s:I,s:{}}", "id", (json_int_t)planning->gather.id, "report");

    dlr_sup_gather_report(planning, node, msg);
    json_decref(msg);
}

/* The last one was as quick as this. */
static void learn(int64_t took_ms)
{
    dlr_rendezvous_time_took(&planning->usual[0], took_ms);
}

/* What another rendezvous makes. */
static const char *checks_of_next(void)
{
    checks[0] = told[0] = '\0';
    dlr_sup_rendezvous(planning, true);
    program_ends(PLAN, "");
    told[0] = '\0';
    return checks;
}

/* --- tests ------------------------------------------------------------------------ */

static void the_programs_plan_is_told(void **state)
{
    dlr_sup_rendezvous(planning, true);
    now_ms += 700;
    program_ends("other words\n" PLAN, "");
    assert_told("planned2");
    assert_int_equal(planning->usual[0].usual_ms, 700);
    assert_int_equal(planning->usual[1].usual_ms, 0);
}

/* Restarts are quick, and so is a second attempt at the first round. */
static void nodes_are_checked_in_full_once(void **state)
{
    dlr_format(conf.checks, sizeof(conf.checks), "auto,-links");
    dlr_sup_agents_begin(planning);
    assert_string_equal(checks_of_next(), "full,-links");
    assert_string_equal(checks_of_next(), "quick,-links");
    dlr_sup_agents_begin(planning); /* once more in this allocation */
    assert_string_equal(checks_of_next(), "quick,-links");
    dlr_format(conf.checks, sizeof(conf.checks), "memory,matmul");
    assert_string_equal(checks_of_next(), "memory,matmul");
}

/* Whoever takes over from a supervisor that has died, with the agents it has started. */
static void a_successor_checks_quickly(void **state)
{
    assert_string_equal(checks_of_next(), "quick");
}

static void it_waits_for_the_switch_tree(void **state)
{
    tree_awaited = true;
    dlr_sup_rendezvous(planning, true);
    assert_int_equal(planning->mpi.srun.pid, 0);
    dlr_sup_rendezvous_stop(planning); /* a node was lost: another one begins */
    tree_awaited = false;
    dlr_sup_rendezvous_resume(planning);
    assert_int_equal(planning->mpi.srun.pid, 0);
    tree_awaited = true;
    dlr_sup_rendezvous(planning, true);
    tree_awaited = false;
    dlr_sup_rendezvous_resume(planning);
    assert_int_equal(planning->mpi.srun.pid, 70);
    dlr_sup_rendezvous_resume(planning);
    program_ends(PLAN, "");
    assert_told("planned2");
}

/* Where the nodes' GPUs can be looked at; of some jobs Slurm makes no such step. */
static void the_program_has_the_jobs_gpus_unless_they_lie_unevenly(void **state)
{
    dlr_sup_rendezvous(planning, true);
    assert_false(without_gpus);
    program_ends(PLAN, "");
    assert_told("planned2");
    planning->step.uneven = true;
    dlr_sup_rendezvous(planning, true);
    assert_true(without_gpus);
    program_ends(PLAN, "");
    assert_told("planned2");
}

static void without_a_plan_slurmctld_is_asked_before_anybody_is_blamed(void **state)
{
    dlr_sup_rendezvous(planning, true);
    program_ends("", "srun: error: x\n");
    assert_told("ask: the rendezvous ended with code 0 and no plan (see rendezvous.log "
                "beside the journal)");
    dlr_sup_rendezvous(planning, true);
    program_ends("", "slurmstepd: error: container_g_join failed: 7\n");
    assert_told("planned-none0"); /* no step can be started here any more */
    dlr_sup_rendezvous(planning, true);
    program_ends("DLROVER-PLAN {\"v\":2}\n", "");
    assert_told("planned-failed0");
}

static void the_agents_report_when_it_is_late(void **state)
{
    dlr_sup_rendezvous(planning, true);
    learn(400);
    dlr_sup_rendezvous_tick(planning, BEGAN_MS + 1199);
    assert_told("");
    dlr_sup_rendezvous_tick(planning, BEGAN_MS + 1200);
    dlr_sup_rendezvous_tick(planning, BEGAN_MS + 1250);
    assert_told("ask-late"); /* without slurmctld no plan is of use */
    awaited = false;
    dlr_sup_rendezvous_late(planning);
    dlr_sup_rendezvous_tick(planning, BEGAN_MS + 1300);
    assert_told("report0 report1");
    report(0);
    assert_told(""); /* the program may still be the first */
    report(1);
    assert_told("let-go planned-failed0"); /* of two bad reports there is no plan */
}

static void the_program_may_be_first_after_all(void **state)
{
    dlr_sup_rendezvous(planning, true);
    dlr_sup_rendezvous_late(planning);
    assert_told("report0 report1");
    report(0);
    program_ends(PLAN, "");
    assert_told("planned2");
    report(1);
    assert_told("");
    dlr_sup_rendezvous(planning, true);
    dlr_sup_rendezvous_late(planning);
    told[0] = '\0';
    program_ends("", "");
    assert_told(""); /* the agents decide */
}

static void another_kinds_time_says_nothing(void **state)
{
    dlr_sup_rendezvous(planning, true);
    learn(400);
    restores = true; /* slots are verified, too */
    dlr_sup_rendezvous_tick(planning, BEGAN_MS + 19999);
    assert_told("");
}

/* Nothing was learned yet, but how long the agents took to start. */
static void the_first_one_may_be_late_too(void **state)
{
    dlr_sup_agents_begin(planning);
    now_ms += 500;
    dlr_sup_rendezvous(planning, true);
    dlr_sup_rendezvous_tick(planning, BEGAN_MS + 1499);
    assert_told("");
    dlr_sup_rendezvous_tick(planning, BEGAN_MS + 1500);
    assert_told("ask-late");
    awaited = false;
    program_ends(PLAN, "");
    told[0] = '\0';
    restores = true;
    dlr_sup_rendezvous(planning, true);
    dlr_sup_rendezvous_tick(planning, BEGAN_MS + 19999);
    assert_told("");
}

static void one_that_was_stopped_tells_nothing(void **state)
{
    dlr_sup_rendezvous(planning, true);
    dlr_sup_rendezvous_late(planning);
    assert_told("report0 report1");
    dlr_sup_rendezvous_stop(planning);
    assert_told("let-go");
    report(0);
    report(1);
    dlr_sup_rendezvous_late(planning);
    assert_told("");
    not_started = true;
    dlr_sup_rendezvous(planning, true); /* the phase's limit runs */
    dlr_sup_rendezvous_tick(planning, BEGAN_MS + 90000);
    assert_told("");
}

#define LINKS                                                                          \
    "DLROVER-LINKS {\"v\":2,\"rounds\":1,\"took_ms\":40,\"nodes\":[\"n0\",\"n1\"],"    \
    "\"links\":[[0,1,20000,900,910]]}\n"

/* It takes longer, and its time says nothing of others'. */
static void the_network_is_measured_in_the_rounds_that_are_asked_for(void **state)
{
    static const struct {
        enum dlr_rounds when;
        bool first, second;
    } rows[] = {{DLR_ROUNDS_OFF, false, false},
                {DLR_ROUNDS_FIRST, true, false},
                {DLR_ROUNDS_ALWAYS, true, true}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        planning->check_all = true;
        planning->usual[0].usual_ms = 0;
        learn(400);
        conf.network_check = rows[i].when;
        dlr_sup_rendezvous(planning, true);
        assert_int_equal(has_network_word, rows[i].first);
        dlr_sup_rendezvous_tick(planning, BEGAN_MS + 1200);
        assert_told(rows[i].first ? "" : "ask-late");
        awaited = false;
        now_ms = BEGAN_MS + 800;
        program_ends(PLAN LINKS, "");
        assert_told("planned2");
        assert_int_equal(planning->usual[0].usual_ms, rows[i].first ? 400 : 600);
        dlr_sup_rendezvous(planning, true);
        assert_int_equal(has_network_word, rows[i].second);
        program_ends(PLAN "DLROVER-LINKS garbage", "");
        assert_told("planned2");
    }
}

static void what_nodes_hold_is_told_when_all_have_answered_or_are_lost(void **state)
{
    dlr_sup_gather(planning);
    assert_told("report0 report1");
    report(1);
    dlr_sup_gather_lost(planning, 0);
    assert_told("reported0");
    dlr_sup_gather_lost(planning, 1);
    nodes->members.list[0].here = false;
    dlr_sup_gather(planning);
    assert_told("report1"); /* of candidates alone */
    dlr_sup_gather_stop(planning);
    report(1);
    assert_told("");
}

/* The policy begins another. */
static void a_loss_ends_a_rendezvous_by_reports(void **state)
{
    dlr_sup_rendezvous(planning, false);
    assert_told("report0 report1");
    dlr_sup_gather_lost(planning, 1);
    report(0);
    assert_told("");
}

static void an_answer_to_another_request_is_none(void **state)
{
    json_t *msg;

    dlr_sup_gather(planning);
    msg = json_pack("{s:I,s:{}}", "id", (json_int_t)planning->gather.id + 1, "report");
    told[0] = '\0';
    for (unsigned i = 0; i < NODES; i++)
        dlr_sup_gather_report(planning, i, msg);
    json_decref(msg);
    assert_told("");
    report(0);
    report(0); /* again */
    assert_told("");
    report(1);
    assert_told("reported0");
}

/* A later run of a job on the same nodes. */
static void a_later_run_begins(void)
{
    planning->checked = false;
    dlr_sup_agents_begin(planning);
    now_ms += 100;
    told[0] = '\0';
    dlr_sup_rendezvous(planning, true);
}

static void an_earlier_run_has_met(void)
{
    dlr_sup_agents_begin(planning);
    checks_of_next();
    a_later_run_begins();
}

static void nodes_that_have_met_report_in_a_later_run(void **state)
{
    an_earlier_run_has_met();
    assert_int_equal(planning->mpi.srun.pid, 0);
    assert_told("report0 report1");
    assert_string_equal(checks_of_next(), "quick"); /* a restart meets as ever */
    have_met = 0;
    planning->plan.world = 2; /* and writes nothing, which might take its time */
    checks_of_next();
    planning->plan.world = 0;
    assert_int_equal(have_met, 0);
}

/* Another node, one that was booted since, GPUs, or what MPI is needed for. */
static void others_meet_by_mpi_in_a_later_run(void **state)
{
    for (unsigned i = 0; i < 6; i++) {
        an_earlier_run_has_met();
        assert_int_equal(planning->mpi.srun.pid, 0);
        dlr_sup_rendezvous_stop(planning);
        if (i == 0)
            nodes->members.list[1].here = false;
        if (i == 1)
            strcpy(nodes->members.list[1].boot, "another");
        if (i == 2)
            setenv("SLURM_JOB_GPUS", "0", 1);
        if (i == 3)
            strcpy(conf.checks, "memory");
        if (i == 4)
            setenv("DLROVER_INJECT", "n1:cpu=bad", 1);
        if (i == 5)
            have_met = 0;
        a_later_run_begins();
        assert_int_equal(planning->mpi.srun.pid, 70);
        told[0] = '\0';
        program_ends(PLAN, "");
        strcpy(nodes->members.list[1].boot, "");
        nodes->members.list[1].here = true;
        strcpy(conf.checks, "auto");
        unsetenv("SLURM_JOB_GPUS");
        unsetenv("DLROVER_INJECT");
    }
}

/* The one answers late, or the other is gone. */
static void when_they_are_late_or_lost_they_meet_after_all(void **state)
{
    an_earlier_run_has_met();
    dlr_sup_rendezvous_tick(planning, now_ms);
    assert_int_equal(planning->mpi.srun.pid, 0);
    now_ms += 60000;
    dlr_sup_rendezvous_tick(planning, now_ms);
    assert_int_equal(planning->mpi.srun.pid, 70);
    told[0] = '\0';
    program_ends(PLAN, "");
    assert_told("planned2");
    a_later_run_begins();
    assert_int_equal(planning->mpi.srun.pid, 0);
    dlr_sup_gather_lost(planning, 1);
    dlr_sup_rendezvous_tick(planning, now_ms + 60000);
    assert_int_equal(planning->mpi.srun.pid, 0); /* the policy begins another */
    checks_of_next();
}

/* Whoever was left out of a plan, or is not well, is looked at again. */
static void a_plan_without_all_is_no_meeting(void **state)
{
    dlr_sup_agents_begin(planning);
    dlr_sup_rendezvous(planning, true);
    program_ends("DLROVER-PLAN {\"v\":2,\"world\":1,\"restore\":null,\"spares\":[],"
                 "\"out\":[{\"node\":\"n1\",\"reason\":\"silent\"}],\"verdicts\":[],"
                 "\"sources\":[],\"notes\":[],\"places\":[{\"node\":\"n0\","
                 "\"topo\":\"s0.n0\",\"cpus\":2,\"first\":0,\"tasks\":1,"
                 "\"partner\":0,\"moved\":false}]}\n",
                 "");
    assert_told("planned1");
    assert_int_equal(have_met, 0);
}

static void what_was_learned_follows(void **state)
{
    static const struct {
        int64_t took_ms, late_ms;
    } rows[] = {{900, 2700}, {300, 1800}, {100, 1050}, {0, 1000}, {5000, 7764}};
    struct dlr_rendezvous_time t = {0};

    assert_true(dlr_rendezvous_time_late_ms(&t) == INT64_MAX);
    dlr_rendezvous_time_expect(&t, 60000); /* behind a prolog */
    assert_int_equal(dlr_rendezvous_time_late_ms(&t), 6000);
    dlr_rendezvous_time_expect(&t, 10);
    assert_int_equal(dlr_rendezvous_time_late_ms(&t), 6000);
    t.usual_ms = 0;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        dlr_rendezvous_time_took(&t, rows[i].took_ms);
        assert_int_equal(dlr_rendezvous_time_late_ms(&t), rows[i].late_ms);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(the_programs_plan_is_told),
        T(nodes_are_checked_in_full_once),
        T(a_successor_checks_quickly),
        T(it_waits_for_the_switch_tree),
        T(the_program_has_the_jobs_gpus_unless_they_lie_unevenly),
        T(without_a_plan_slurmctld_is_asked_before_anybody_is_blamed),
        T(the_agents_report_when_it_is_late),
        T(the_program_may_be_first_after_all),
        T(another_kinds_time_says_nothing),
        T(the_first_one_may_be_late_too),
        T(one_that_was_stopped_tells_nothing),
        T(the_network_is_measured_in_the_rounds_that_are_asked_for),
        T(what_nodes_hold_is_told_when_all_have_answered_or_are_lost),
        T(a_loss_ends_a_rendezvous_by_reports),
        T(an_answer_to_another_request_is_none),
        T(nodes_that_have_met_report_in_a_later_run),
        T(others_meet_by_mpi_in_a_later_run),
        T(when_they_are_late_or_lost_they_meet_after_all),
        T(a_plan_without_all_is_no_meeting),
        cmocka_unit_test(what_was_learned_follows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
