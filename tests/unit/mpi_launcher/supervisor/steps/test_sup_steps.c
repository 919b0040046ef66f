/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* The engine of the steps without a supervisor and without Slurm: what it tells when
 * the agents' step ends and when slurmctld answers or does not, and what it starts and
 * ends.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/process/slurm_exit_status.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"
#include "mpi_launcher/supervisor/steps/controller.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/supervisor/steps/srun_flush.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

#define NODES 3
#define ROUND_MS 1000 /* the phase began */
#define EXITED(code) ((code) << 8)

static struct dlr_job_config conf;
static struct dlr_runinfo info = {.job = "7"};
static struct dlr_sup_io *io;
static struct dlr_sup_nodes *nodes;
static struct dlr_sup_steps *steps;
static int64_t now_ms, since_ms;
static enum dlr_phase phase;
static bool finished, over, dead[NODES], more_time;
static int started, status;  /* processes; of the next that is reaped */
static const char *log_text; /* of the agents' srun */
static struct {
    zloop_fn *fn;
    void *arg;
} watched[100];
static char told[512]; /* what has happened, one word each */

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

/* --- instead of the clock, of the loop, of processes and of the policy ------------ */

int64_t dlr_sup_now(void)
{
    return now_ms;
}
void dlr_user_line(struct dlr_sup_io *to, const char *fmt, ...)
{
}
int dlr_sup_watch(struct dlr_sup_io *to, int fd, zloop_fn *fn, void *arg)
{
    watched[fd].fn = fn;
    watched[fd].arg = arg;
    return 0;
}
void dlr_sup_unwatch(struct dlr_sup_io *to, int fd)
{
    watched[fd].fn = NULL;
}
char *dlr_sup_file_text(struct dlr_sup_io *to, const char *path, off_t from)
{
    return log_text ? strdup(log_text) : NULL;
}
int dlr_proc_start(char *const *argv, char *const *envp, int in, int out, int err_fd,
                   struct dlr_proc *ret, struct dlr_err *err)
{
    note("%s%s%s", argv[1], argv[2] && argv[3] ? ":" : "",
         argv[2] && argv[3] ? argv[3] : "");
    started++;
    *ret = (struct dlr_proc){.pid = 1000 + started, .pidfd = 20 + started};
    return 0;
}
int dlr_proc_reap(struct dlr_proc *proc)
{
    *proc = (struct dlr_proc){.pidfd = -1};
    return status;
}
void dlr_proc_kill(const struct dlr_proc *proc, int sig)
{
    if (proc->pid)
        note("kill%d", (int)proc->pid);
}
enum dlr_phase dlr_policy_phase(const struct dlr_policy *p)
{
    return phase;
}
bool dlr_policy_is_lost(const struct dlr_policy *p, unsigned node)
{
    return dead[node];
}
bool dlr_policy_is_alive(const struct dlr_policy *p, unsigned node)
{
    return !dead[node];
}

/* --- events ----------------------------------------------------------------------- */

static void on_given_up(void *arg, unsigned node, const char *why, int64_t when_ms)
{
    note("given-up%u", node);
}
static void on_ended(void *arg)
{
    note("ended");
}
static void on_refused(void *arg, unsigned node)
{
    note("refused%u", node);
    dead[node] = true;
}
static void on_left(void *arg, unsigned node)
{
    note("left%u%s", node, nodes->members.list[node].here ? "+" : "-");
}
static void on_gone(void *arg)
{
    note("gone");
}
static void on_flushed(void *arg)
{
    note("drained");
}
static const char *name_of(enum dlr_controller_query what)
{
    static const char *const names[] = {"nothing", "agents", "meet",    "plan",
                                        "step",    "launch", "requeue", "again"};

    return names[what];
}
static void on_failed(void *arg, enum dlr_controller_query what, int code,
                      const char *why)
{
    note("failed-%s%d%s", name_of(what), code, why);
}
static void on_away(void *arg, enum dlr_controller_query what, const char *why)
{
    note("away-%s%s", name_of(what),
         strstr(why, "just come back")  ? "-settles"
         : strstr(why, "may have been") ? "-excused"
                                        : "");
}
static void on_back(void *arg)
{
    note("back");
}
static bool is_queued(void *arg, bool queued)
{
    note(queued ? "queued" : "made");
    return more_time;
}
static int64_t phase_since(void *arg)
{
    return since_ms;
}
static bool has_ended(void *arg)
{
    return finished;
}
static bool is_over(void *arg)
{
    return over;
}

static bool is_barred(void *arg, unsigned node)
{
    return false;
}

static const struct dlr_sup_steps_ops ops = {.ended = on_ended,
                                             .refused = on_refused,
                                             .left = on_left,
                                             .gone = on_gone,
                                             .flushed = on_flushed,
                                             .failed = on_failed,
                                             .away = on_away,
                                             .back = on_back,
                                             .queued = is_queued,
                                             .since = phase_since,
                                             .barred = is_barred,
                                             .finished = has_ended,
                                             .over = is_over};

/* --- the rig ---------------------------------------------------------------------- */

static int begin(void **state)
{
    static const struct dlr_sup_nodes_ops nodes_ops = {.lost = on_given_up};
    static char n[NODES][3] = {"n0", "n1", "n2"};
    char *names[NODES] = {n[0], n[1], n[2]};
    struct dlr_sup_nodes_env nodes_env = {.conf = &conf};
    struct dlr_sup_steps_env env = {.conf = &conf, .info = &info};
    struct dlr_err err;

    dlr_job_config_init(&conf);
    conf.beat.every_ms = 100;
    io = nodes_env.io = env.io = dlr_sup_io_new(NULL, NULL);
    nodes = env.nodes = dlr_sup_nodes_new(&nodes_env, &nodes_ops, NULL);
    assert_int_equal(dlr_sup_nodes_open(nodes, names, NODES, NULL, &err), 0);
    steps = dlr_sup_steps_new(&env, &ops, NULL);
    assert_int_equal(dlr_sup_steps_open(steps, NULL, &err), 0);
    for (unsigned i = 0; i < NODES; i++)
        nodes->members.list[i].here = true;
    memset(watched, 0, sizeof(watched));
    memset(dead, 0, sizeof(dead));
    finished = over = more_time = false;
    started = status = 0;
    log_text = NULL;
    now_ms = 5000;
    since_ms = ROUND_MS;
    phase = DLR_PHASE_RUN;
    told[0] = '\0';
    return 0;
}

static int end(void **state)
{
    dlr_sup_steps_free(steps);
    dlr_sup_nodes_free(nodes);
    dlr_sup_io_free(io);
    return 0;
}

/* The process behind fd has ended so. */
static int process_ends(int fd, int how)
{
    zmq_pollitem_t item = {.fd = fd};

    assert_non_null(watched[fd].fn);
    status = how;
    return watched[fd].fn(NULL, &item, watched[fd].arg);
}

/* What slurmctld was asked last. */
static int answer(int how)
{
    return process_ends(20 + started, how);
}

static void agents_are_there(void)
{
    steps->agents = (struct dlr_proc){.pid = 50, .pidfd = 10};
    dlr_sup_agents_watch(steps);
}

/* --- an srun that may end by itself ----------------------------------------------- */

static void an_srun_that_ends_by_itself_is_told(void **state)
{
    struct dlr_proc srun = {.pid = 77, .pidfd = 11};

    dlr_srun_flush(steps, &srun);
    assert_int_equal(srun.pid, 0);
    assert_true(dlr_srun_is_flushed(steps) && dlr_sup_steps_busy(steps));
    dlr_srun_flush_tick(steps, now_ms + 999);
    assert_told("");
    assert_int_equal(process_ends(11, 0), 0);
    assert_told("drained");
    assert_false(dlr_sup_steps_busy(steps));
}

static void it_has_its_limit_under_the_next_supervisor_too(void **state)
{
    dlr_sup_steps_adopt(steps); /* none */
    steps->flushing_srun = (struct dlr_proc){.pid = 77, .pidfd = 11};
    dlr_sup_steps_adopt(steps);
    dlr_srun_flush_tick(steps, now_ms);
    assert_told("");
    dlr_srun_flush_tick(steps, now_ms + 1000);
    assert_told("cancel-steps:77 kill77");
    assert_false(dlr_srun_is_flushed(steps)); /* the next round's srun may start */
}

static void what_goes_on_is_kept_for_the_next_supervisor(void **state)
{
    DLR_AUTO_JSON json_t *left = json_object();
    DLR_AUTO_FREE char *text = NULL;

    agents_are_there();
    steps->flushing_srun.pid = 77;
    dlr_sup_steps_state(steps, left);
    text = json_dumps(left, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"agents_pid\":50,\"flushing_pid\":77}");
    json_object_clear(left);
    steps->agents.pid = steps->flushing_srun.pid = 0;
    dlr_sup_steps_take(steps, left); /* of one that had nothing */
    assert_false(dlr_sup_steps_busy(steps));
}

/* --- is slurmctld away? ----------------------------------------------------------- */

static void what_failed_is_told_when_slurmctld_answers(void **state)
{
    dlr_sup_ask_controller(steps, DLR_QUERY_STEP, 9, "", now_ms - 4999);
    assert_told("ping");
    assert_int_equal(answer(0), 0);
    assert_told("failed-step9");
    dlr_sup_ask_controller(steps, DLR_QUERY_REQUEUE, 0, "x", 0);
    answer(0);
    assert_told("ping failed-requeue0x");
    dlr_sup_ask_controller(steps, DLR_QUERY_PLAN, 0, "y", 0);
    answer(EXITED(1));
    assert_told("ping away-plan");
}

static void an_answer_of_another_phase_is_none(void **state)
{
    dlr_sup_ask_controller(steps, DLR_QUERY_STEP, 9, "", now_ms);
    since_ms++;
    answer(0);
    dlr_sup_ask_controller(steps, DLR_QUERY_STEP, 9, "", now_ms);
    phase = DLR_PHASE_END;
    answer(EXITED(1));
    dlr_sup_ask_controller(steps, DLR_QUERY_REQUEUE, 0, "", 0);
    finished = true;
    answer(0);
    assert_told("ping ping ping");
}

static void one_answer_serves_the_last_question(void **state)
{
    dlr_sup_ask_controller(steps, DLR_QUERY_RENDEZVOUS, 0, "", 0);
    assert_true(dlr_sup_is_asked(steps));
    dlr_sup_ask_controller(steps, DLR_QUERY_PLAN, 0, "no plan", 0);
    answer(0);
    assert_false(dlr_sup_is_asked(steps));
    assert_told("ping failed-plan0no plan");
    dlr_sup_ask_controller(steps, DLR_QUERY_RENDEZVOUS, 0, "", 0);
    dlr_sup_controller_tick(steps, now_ms + 29999);
    assert_told("ping");
    dlr_sup_controller_tick(steps, now_ms + 30000);
    assert_told("kill1002");
}

static void a_slow_failure_is_excused_once_until_a_task_starts(void **state)
{
    int64_t slow_ms = now_ms - 5000;

    for (unsigned i = 0; i < 2; i++) {
        dlr_sup_ask_controller(steps, DLR_QUERY_STEP, 9, "", slow_ms);
        answer(0);
        assert_told("ping away-step-excused");
        dlr_sup_ask_launch(steps, "", slow_ms, 0);
        answer(0);
        assert_told("ping made failed-launch0");
        dlr_sup_controller_started(steps);
    }
}

static void a_launch_that_waits_for_resources_has_more_time(void **state)
{
    more_time = true;
    dlr_sup_ask_launch(steps, "late", now_ms, 55);
    answer(EXITED(DLR_SLURM_QUEUED));
    assert_told("queued:55 queued");
    more_time = false; /* it had waited before, and does not now */
    dlr_sup_ask_launch(steps, "late", now_ms, 55);
    answer(0);
    assert_told("queued:55 made failed-launch0late");
    dlr_sup_ask_launch(steps, "late", now_ms, 55);
    answer(EXITED(1));
    assert_told("queued:55 away-launch");
}

static void it_is_asked_again_until_it_is_back_and_settles(void **state)
{
    phase = DLR_PHASE_WAIT;
    dlr_sup_controller_wait(steps, "away", now_ms);
    dlr_sup_controller_tick(steps, now_ms + 999);
    assert_told("");
    dlr_sup_controller_tick(steps, now_ms += 1000);
    answer(EXITED(1));
    dlr_sup_controller_tick(steps, now_ms + 999);
    assert_told("ping");
    dlr_sup_controller_tick(steps, now_ms += 1000);
    answer(0);
    assert_told("ping back");
    phase = DLR_PHASE_RUN;
    dlr_sup_ask_controller(steps, DLR_QUERY_AGENTS, 0, "", 0);
    now_ms += 29999;
    answer(0);
    assert_told("ping away-agents-settles");
    dlr_sup_ask_controller(steps, DLR_QUERY_AGENTS, 0, "", 0);
    now_ms++;
    answer(0);
    assert_told("ping failed-agents0");
}

static void waits_become_longer_until_a_task_starts(void **state)
{
    static const int64_t pauses[] = {1000, 2000, 4000, 8000, 16000, 16000};

    for (unsigned i = 0; i < 2; i++) {
        for (unsigned k = 0; k < sizeof(pauses) / sizeof(*pauses); k++) {
            dlr_sup_controller_wait(steps, "away", now_ms);
            assert_int_equal(steps->controller.again_ms - now_ms, pauses[k]);
        }
        dlr_sup_controller_started(steps);
    }
}

/* --- the agents' step ------------------------------------------------------------- */

static void its_end_is_told_then_each_node_then_that_none_is_left(void **state)
{
    agents_are_there();
    assert_int_equal(process_ends(10, 0), 0);
    assert_told("ended left0- left1- left2- gone");
    assert_false(dlr_sup_agents_there(steps));
    agents_are_there(); /* another: it has not started anything */
    phase = DLR_PHASE_AGENTS;
    process_ends(10, 0);
    assert_told("ended left0- left1- left2- ping");
    answer(0);
    assert_told("failed-agents0");
}

static void after_the_run_its_end_is_no_news(void **state)
{
    agents_are_there();
    finished = over = true;
    assert_int_equal(process_ends(10, 0), -1);
    assert_told("");
}

/* The first time may be a passing failure. */
static void a_node_that_refuses_it_twice_is_given_up(void **state)
{
    log_text = "srun: error: Task launch for StepId=1.0 failed on node n1: x\n"
               "srun: error: Task launch for StepId=1.0 failed on node n9: x\n";
    phase = DLR_PHASE_AGENTS;
    dlr_sup_agents_refused(steps);
    assert_told("");
    dlr_sup_agents_refused(steps);
    assert_told("refused1 given-up1");
    phase = DLR_PHASE_RUN;
    dlr_sup_agents_refused(steps);
    assert_told("");
}

/* The next srun would ask for more nodes than the job has, and name none of them. */
static void a_node_that_slurm_has_given_up_is_not_asked_for_again(void **state)
{
    log_text = "srun: error: Node failure on n1\n";
    phase = DLR_PHASE_AGENTS;
    dlr_sup_agents_refused(steps);
    assert_told("refused1 given-up1");
    phase = DLR_PHASE_RUN; /* the others run already, it was waited for as a spare */
    dead[1] = false;
    dlr_sup_agents_refused(steps);
    assert_told("refused1 given-up1");
}

static void the_last_node_is_not_left_out(void **state)
{
    log_text = "srun: error: Task launch for StepId=1.0 failed on node n1: x\n";
    phase = DLR_PHASE_AGENTS;
    dead[0] = dead[2] = true;
    for (unsigned i = 0; i < 4; i++)
        dlr_sup_agents_refused(steps);
    assert_told("");
}

static void a_step_of_our_own_is_waited_for_then_ended(void **state)
{
    agents_are_there();
    dlr_sup_agents_shutdown(steps, now_ms + 1000);
    dlr_sup_agents_wait(steps, now_ms + 999);
    assert_told("");
    dlr_sup_agents_wait(steps, now_ms + 1000);
    assert_told("cancel-steps:50 kill50");
    dlr_sup_agents_wait(steps, now_ms + 2000); /* once */
    assert_told("");
    assert_true(dlr_sup_steps_busy(steps)); /* until its srun has ended */
}

/* It would wait for the dead node's agent. */
static void with_a_node_lost_it_is_ended_when_all_others_have_left(void **state)
{
    agents_are_there();
    dead[0] = true;
    nodes->members.list[0].here = false;
    nodes->members.list[1].heard_ms = now_ms - 401; /* its farewell was lost */
    dlr_sup_agents_shutdown(steps, now_ms + 1000);
    nodes->members.list[2].heard_ms = now_ms;
    dlr_sup_agents_wait(steps, now_ms);
    assert_told("");
    dlr_sup_agents_left(steps, 2);
    dlr_sup_agents_wait(steps, now_ms);
    assert_told("cancel-steps:50 kill50");
}

static void a_shared_step_is_left_alone(void **state)
{
    agents_are_there();
    steps->agents_shared = true;
    for (unsigned i = 0; i < NODES; i++)
        nodes->members.list[i].heard_ms = now_ms;
    dlr_sup_agents_shutdown(steps, now_ms + 1000);
    for (unsigned i = 0; i < NODES; i++) {
        assert_true(dlr_sup_agents_there(steps));
        dlr_sup_agents_left(steps, i);
    }
    assert_false(dlr_sup_agents_there(steps));
    assert_told("");
}

/* --- nodes for the next step ------------------------------------------------------ */

static void who_may_come_is_a_candidate_then_who_is_here(void **state)
{
    static const struct {
        enum dlr_phase phase;
        bool here, lost, candidate;
    } rows[] = {
        {DLR_PHASE_AGENTS, false, false, true}, {DLR_PHASE_AGENTS, true, true, false},
        {DLR_PHASE_RUN, false, false, false},   {DLR_PHASE_RUN, true, true, false},
        {DLR_PHASE_RUN, true, false, true},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        phase = rows[i].phase;
        nodes->members.list[1].here = rows[i].here;
        dead[1] = rows[i].lost;
        assert_int_equal(dlr_sup_is_candidate(steps, 1), rows[i].candidate);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(an_srun_that_ends_by_itself_is_told),
        T(it_has_its_limit_under_the_next_supervisor_too),
        T(what_goes_on_is_kept_for_the_next_supervisor),
        T(what_failed_is_told_when_slurmctld_answers),
        T(an_answer_of_another_phase_is_none),
        T(one_answer_serves_the_last_question),
        T(a_slow_failure_is_excused_once_until_a_task_starts),
        T(a_launch_that_waits_for_resources_has_more_time),
        T(it_is_asked_again_until_it_is_back_and_settles),
        T(waits_become_longer_until_a_task_starts),
        T(its_end_is_told_then_each_node_then_that_none_is_left),
        T(after_the_run_its_end_is_no_news),
        T(a_node_that_refuses_it_twice_is_given_up),
        T(a_node_that_slurm_has_given_up_is_not_asked_for_again),
        T(the_last_node_is_not_left_out),
        T(a_step_of_our_own_is_waited_for_then_ended),
        T(with_a_node_lost_it_is_ended_when_all_others_have_left),
        T(a_shared_step_is_left_alone),
        T(who_may_come_is_a_candidate_then_who_is_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
