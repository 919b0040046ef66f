/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_user_line,dlr_sup_send_all,dlr_sup_agents_shutdown,dlr_sup_start_slurm,dlr_sup_watch,dlr_sup_unwatch,dlr_proc_reap,dlr_sup_file_text,dlr_sup_file_call,dlr_sup_file_do,dlr_journal_event,dlr_journal_last,dlr_journal_end_missing,dlr_policy_is_alive,dlr_policy_is_lost,dlr_policy_has_sigterm,dlr_policy_phase,dlr_policy_signal,dlr_policy_sigterm,dlr_policy_requeue_limit,dlr_policy_requeue_cancel,dlr_policy_requeue_with_job,dlr_policy_warned,dlr_policy_warning_asked,dlr_policy_fate,dlr_policy_round */
/* The end of a run: who is told of it and in which order, which nodes a requeue does
 * without, and where a signal goes. Around mpi_launcher/supervisor/ending nothing but
 * names of who was called.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/ending/ending_state.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"

#define NODES 5

static struct dlr_sup_ending *ending;
static struct dlr_sup_nodes *nodes;
static struct dlr_sup_steps *steps;
static struct dlr_members *table;
static struct dlr_job_config conf;
static struct dlr_runinfo info;
static struct dlr_step_plan step;
static int64_t started_ms;
static bool took_over, tasks_run, alive[NODES], lost[NODES], failed_checks[NODES];
static struct {
    bool leads;      /* another run wants the requeue */
    bool helps;      /* dlrover-slurm can be started, */
    zloop_fn *ended; /* is waited for, */
    int status;      /* and exits with it */
} others;
static char told[512]; /* a word for each who was called */

static void note(const char *fmt, ...)
{
    size_t at = strlen(told);
    va_list ap;

    if (at && at < sizeof(told) - 1)
        told[at++] = ' ';
    va_start(ap, fmt);
    vsnprintf(told + at, sizeof(told) - at, fmt, ap);
    va_end(ap);
}

/* --- who is called ---------------------------------------------------------------- */

void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...);
void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    note("user");
}
void __wrap_dlr_sup_send_all(struct dlr_sup_nodes *to, json_t *msg);
void __wrap_dlr_sup_send_all(struct dlr_sup_nodes *to, json_t *msg)
{
    note("%s%s", dlr_msg_type(msg),
         json_is_true(json_object_get(msg, "later"))         ? ",later"
         : json_is_true(json_object_get(msg, "keep_memory")) ? ",keep_memory"
                                                             : "");
    json_decref(msg);
}
void __wrap_dlr_sup_agents_shutdown(struct dlr_sup_steps *of, int64_t deadline_ms);
void __wrap_dlr_sup_agents_shutdown(struct dlr_sup_steps *of, int64_t deadline_ms)
{
    note("agents");
}
int __wrap_dlr_sup_start_slurm(struct dlr_words *words, int out, struct dlr_proc *ret,
                               struct dlr_err *err);
int __wrap_dlr_sup_start_slurm(struct dlr_words *words, int out, struct dlr_proc *ret,
                               struct dlr_err *err)
{
    for (unsigned i = 1; i < words->n; i++) /* behind the program */
        note("%s", words->list[i]);
    if (!others.helps)
        return -ENOENT;
    ret->pid = 1;
    return 0;
}
int __wrap_dlr_sup_watch(struct dlr_sup_io *io, int fd, zloop_fn *fn, void *arg);
int __wrap_dlr_sup_watch(struct dlr_sup_io *io, int fd, zloop_fn *fn, void *arg)
{
    others.ended = fn;
    return 0;
}
void __wrap_dlr_sup_unwatch(struct dlr_sup_io *io, int fd);
void __wrap_dlr_sup_unwatch(struct dlr_sup_io *io, int fd)
{
}
int __wrap_dlr_proc_reap(struct dlr_proc *p);
int __wrap_dlr_proc_reap(struct dlr_proc *p)
{
    p->pid = 0;
    return others.status << 8;
}

/* --- the job's directory: another run of it is this program's parent */

char *__wrap_dlr_sup_file_text(struct dlr_sup_io *io, const char *path, off_t from);
char *__wrap_dlr_sup_file_text(struct dlr_sup_io *io, const char *path, off_t from)
{
    char text[DLR_PROCID_TEXT + 8] = "run ";
    struct dlr_procid id;

    if (dlr_procid_of(getppid(), &id) < 0)
        return NULL;
    if (strstr(path, "/.leave-")) {
        dlr_procid_show(&id, text);
        return others.leads ? strdup(text) : NULL;
    }
    dlr_procid_show(&id, text + strlen(text));
    return strdup(text);
}
int __wrap_dlr_sup_file_call(struct dlr_sup_io *io, dlr_offload_fn fn,
                             struct dlr_sup_file **f);
int __wrap_dlr_sup_file_call(struct dlr_sup_io *io, dlr_offload_fn fn,
                             struct dlr_sup_file **f)
{
    note("claim");
    return others.leads ? -EEXIST : 0;
}
int __wrap_dlr_sup_file_do(struct dlr_sup_io *io, dlr_offload_fn fn, const char *path,
                           const char *text);
int __wrap_dlr_sup_file_do(struct dlr_sup_io *io, dlr_offload_fn fn, const char *path,
                           const char *text)
{
    return -ENOENT;
}
void __wrap_dlr_journal_event(struct dlr_journal *j, const char *name, json_t *fields);
void __wrap_dlr_journal_event(struct dlr_journal *j, const char *name, json_t *fields)
{
    note("journal:%s", name);
    json_decref(fields);
}
void __wrap_dlr_journal_last(struct dlr_journal *j, const char *name, json_t *fields);
void __wrap_dlr_journal_last(struct dlr_journal *j, const char *name, json_t *fields)
{
    note("last:%s", name);
    json_decref(fields);
}
void __wrap_dlr_journal_end_missing(struct dlr_journal *j, json_t *fields);
void __wrap_dlr_journal_end_missing(struct dlr_journal *j, json_t *fields)
{
    note("missing:%d", (int)json_integer_value(json_object_get(fields, "code")));
    json_decref(fields);
}

bool __wrap_dlr_policy_is_alive(const struct dlr_policy *p, unsigned node);
bool __wrap_dlr_policy_is_alive(const struct dlr_policy *p, unsigned node)
{
    return alive[node];
}
bool __wrap_dlr_policy_is_lost(const struct dlr_policy *p, unsigned node);
bool __wrap_dlr_policy_is_lost(const struct dlr_policy *p, unsigned node)
{
    return lost[node];
}
bool __wrap_dlr_policy_has_sigterm(const struct dlr_policy *p);
bool __wrap_dlr_policy_has_sigterm(const struct dlr_policy *p)
{
    return false;
}
enum dlr_phase __wrap_dlr_policy_phase(const struct dlr_policy *p);
enum dlr_phase __wrap_dlr_policy_phase(const struct dlr_policy *p)
{
    return DLR_PHASE_RUN;
}
void __wrap_dlr_policy_signal(struct dlr_policy *p, int sig, int64_t now_ms);
void __wrap_dlr_policy_signal(struct dlr_policy *p, int sig, int64_t now_ms)
{
    note("policy:%d", sig);
}
void __wrap_dlr_policy_sigterm(struct dlr_policy *p, bool wanted, int64_t limit_ms,
                               int64_t now_ms);
void __wrap_dlr_policy_sigterm(struct dlr_policy *p, bool wanted, int64_t limit_ms,
                               int64_t now_ms)
{
    note("policy:told");
}

void __wrap_dlr_policy_requeue_limit(struct dlr_policy *p, int64_t deadline_ms);
void __wrap_dlr_policy_requeue_limit(struct dlr_policy *p, int64_t deadline_ms)
{
}
void __wrap_dlr_policy_requeue_cancel(struct dlr_policy *p, int64_t ms);
void __wrap_dlr_policy_requeue_cancel(struct dlr_policy *p, int64_t ms)
{
    note("policy:stays");
}
void __wrap_dlr_policy_requeue_with_job(struct dlr_policy *p, int64_t ms);
void __wrap_dlr_policy_requeue_with_job(struct dlr_policy *p, int64_t ms)
{
    note("policy:leaves");
}
void __wrap_dlr_policy_warned(struct dlr_policy *p, int sig, int64_t now_ms);
void __wrap_dlr_policy_warned(struct dlr_policy *p, int sig, int64_t now_ms)
{
    note("policy:warned:%d", sig);
}
void __wrap_dlr_policy_warning_asked(struct dlr_policy *p);
void __wrap_dlr_policy_warning_asked(struct dlr_policy *p)
{
}
void __wrap_dlr_policy_fate(struct dlr_policy *p, enum dlr_fate fate, int64_t now_ms);
void __wrap_dlr_policy_fate(struct dlr_policy *p, enum dlr_fate fate, int64_t now_ms)
{
    note("policy:fate:%d", (int)fate);
}
static uint32_t round_now;

uint32_t __wrap_dlr_policy_round(const struct dlr_policy *p);
uint32_t __wrap_dlr_policy_round(const struct dlr_policy *p)
{
    return round_now;
}

static void on_ends(void *arg)
{
    note("ends");
}
static void on_ended(void *arg)
{
    note("ended");
}
static void on_changed(void *arg, bool lasting)
{
    note(dlr_sup_ending_finished(ending) ? "kept:%d" : "kept",
         dlr_sup_ending_code(ending));
}
static const char *last_lines(void *arg, unsigned *ret_rank, unsigned *ret_node)
{
    return NULL;
}
static bool pass_on(void *arg, int sig)
{
    if (tasks_run)
        note("tasks:%d", sig);
    return tasks_run;
}
bool dlr_sup_is_unfit(const struct dlr_sup_planning *planning, unsigned node)
{
    return failed_checks[node];
}
unsigned dlr_sup_full_places(const struct dlr_sup_planning *planning)
{
    return 4;
}
static uint32_t rounds(void *arg)
{
    return 3;
}

static const struct dlr_sup_ending_ops ops = {
    .ends = on_ends,
    .ended = on_ended,
    .changed = on_changed,
    .last_lines = last_lines,
    .pass = pass_on,
    .rounds = rounds,
};

static int begin(void **state)
{
    char *names[NODES] = {"n0", "n1", "n2", "n3", "n4"};
    struct dlr_sup_nodes_env of_nodes = {.conf = &conf, .info = &info};
    struct dlr_err err;

    dlr_job_config_init(&conf);
    dlr_format(info.job, sizeof(info.job), "42");
    dlr_format(info.dir, sizeof(info.dir), "/dir");
    nodes = dlr_sup_nodes_new(&of_nodes, NULL, NULL);
    assert_int_equal(dlr_sup_nodes_open(nodes, names, NODES, NULL, &err), 0);
    table = &nodes->members;
    steps = dlr_sup_steps_new(
        &(struct dlr_sup_steps_env){.nodes = nodes, .conf = &conf, .info = &info}, NULL,
        NULL);
    ending = dlr_sup_ending_new(&(struct dlr_sup_ending_env){.nodes = nodes,
                                                             .steps = steps,
                                                             .conf = &conf,
                                                             .info = &info,
                                                             .step = &step,
                                                             .took_over = &took_over,
                                                             .started_ms = &started_ms,
                                                             .keeper = getppid()},
                                &ops, NULL);
    for (unsigned i = 0; i < NODES; i++) {
        alive[i] = true;
        lost[i] = failed_checks[i] = false;
    }
    took_over = tasks_run = false;
    memset(&others, 0, sizeof(others));
    told[0] = '\0';
    return 0;
}

static int end(void **state)
{
    dlr_sup_ending_free(ending);
    dlr_sup_steps_free(steps);
    dlr_sup_nodes_free(nodes);
    return 0;
}

/* --- tests ------------------------------------------------------------------------ */

/* A supervisor that takes over in the middle of it must find the code. */
static void the_end_is_kept_before_the_agents_are_told(void **state)
{
    dlr_sup_finish(ending, 7, "it failed");
    assert_string_equal(told,
                        "ends user kept:7 journal:end kept:7 ended shutdown agents");
    assert_true(dlr_sup_ending_over(ending));
}

/* Killed between the two: the next one knows the end, and writes the line. */
static void the_next_supervisor_gets_the_line_of_the_end(void **state)
{
    json_t *kept = json_object();

    dlr_sup_end_state(ending, kept);
    dlr_sup_end_tell(ending);
    assert_int_equal(json_object_size(kept), 0);
    assert_string_equal(told, "");
    dlr_sup_finish(ending, 7, "it failed");
    dlr_sup_end_state(ending, kept);
    end(state);
    begin(state);
    dlr_sup_end_take(ending, kept);
    dlr_sup_end_tell(ending);
    assert_string_equal(told, "missing:7");
    json_decref(kept);
}

/* Whoever sent it wanted it so: after a requeue the run begins again. */
static void an_end_by_a_signal_is_not_kept(void **state)
{
    dlr_sup_ending_signal(ending, SIGINT);
    dlr_sup_finish(ending, 130, NULL);
    assert_string_equal(told, "policy:2 ends last:end ended shutdown agents");
}

static void warned(const char *round_and_signal)
{
    json_t *msg = json_loads(round_and_signal, 0, NULL);

    dlr_sup_on_warned(ending, msg);
    json_decref(msg);
}

/* Each node says it; slurmctld is asked once. */
static void a_signal_counts_when_the_job_is_near_its_end(void **state)
{
    static const struct {
        const char *says; /* slurmctld; NULL: nothing */
        const char *want;
    } rows[] = {
        {"runs 57\n", "journal:warned policy:warned:10 policy:fate:0"},
        {"runs -3\n", "journal:warned policy:warned:10 policy:fate:0"},
        {"runs 86400\n",
         "policy:warned:0 policy:fate:0"}, /* scancel -s USR1: somebody wants a word */
        {"runs\n", "policy:warned:0 policy:fate:0"},
        {"", "policy:warned:0 policy:fate:0"},
        {NULL, "policy:warned:0 policy:fate:0"},
        {"preempted 86400\n", "journal:warned policy:warned:10 policy:fate:1"},
        {"ends -3\n", "journal:warned policy:warned:10 policy:fate:2"},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        ending->term.ask.pid = 1; /* it is being asked */
        ending->term.warned_ms = 0;
        warned("{\"round\":0,\"signal\":10}");
        warned("{\"round\":0,\"signal\":12}");
        assert_int_equal(ending->term.warning, 10);
        told[0] = '\0';
        ending->term.ask.pid = 0;
        dlr_sup_fate_told(ending, rows[i].says);
        assert_string_equal(told, rows[i].want);
        assert_int_equal(ending->term.warning, 0);
        warned("{\"round\":0,\"signal\":10}"); /* of another node, later */
        assert_string_equal(told, rows[i].want);
    }
    ending->term.ask.pid = 1;
    ending->term.warned_ms = 0;
    warned("{\"round\":0,\"signal\":10}");
    told[0] = '\0';
    ending->term.ask.pid = 0;
    round_now = 1; /* whose tasks never had it */
    dlr_sup_fate_told(ending, "runs 57\n");
    round_now = 0;
    assert_string_equal(told, "policy:warned:0 policy:fate:0");
    ending->term.warned_ms = 0;
    told[0] = '\0';
    warned("{\"round\":1,\"signal\":10}");
    warned("{\"round\":0,\"signal\":0}");
    warned("{\"round\":0,\"signal\":4096}");
    warned("{\"signal\":10}");
    assert_string_equal(told, "");
}

/* The answer is on its way: a script that requeues itself would find the run done. */
static void an_end_while_such_a_signal_is_asked_about_is_not_kept(void **state)
{
    ending->term.ask.pid = 1;
    dlr_sup_warned(ending, SIGUSR1);
    dlr_sup_finish(ending, 0, NULL);
    assert_string_equal(told, "ends journal:end ended shutdown agents");
    ending->term.ask.pid = 0;
}

static void a_requeue_does_without_nodes_that_are_of_no_use(void **state)
{
    static const struct {
        unsigned incarnation;
        const char *want; /* behind "requeue", the job, and before the limit */
    } rows[] = {
        {0, "n1,n3 4 5"}, {1, "n1,n2,n3 4 5"}, /* n2 is late for the second time */
    };
    char want[128];

    alive[1] = alive[2] = false;
    for (unsigned i = 0; i < NODES; i++) /* n2 was never there */
        dlr_format(table->list[i].boot, sizeof(table->list[i].boot), i == 2 ? "" : "b");
    failed_checks[3] = true;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        info.incarnation = rows[i].incarnation;
        told[0] = '\0';
        dlr_sup_requeue(ending, "too few nodes");
        dlr_format(want, sizeof(want),
                   "shutdown,later kept user requeue 42 %s 30000ms %u /dir",
                   rows[i].want, rows[i].incarnation);
        assert_string_equal(told, want);
    }
    info.incarnation = 0;
}

/* The end is not one: Slurm takes the job back by SIGTERM. */
static void a_job_that_is_requeued_says_no_reason(void **state)
{
    dlr_sup_requeue(ending, "too few nodes");
    told[0] = '\0';
    dlr_sup_ending_signal(ending, SIGTERM);
    dlr_sup_finish(ending, 143, "by a signal");
    assert_string_equal(
        told, "policy:15 ends last:requeued ended shutdown,keep_memory agents");
}

/* While slurmctld is only asked for memory, or others end, no requeue is on its way. */
static void a_job_that_is_cancelled_before_its_requeue_is_not_requeued(void **state)
{
    dlr_sup_requeue(ending, "too few nodes");
    ending->asking = true;
    told[0] = '\0';
    dlr_sup_ending_signal(ending, SIGTERM);
    dlr_sup_finish(ending, 143, "by a signal");
    ending->asking = false;
    assert_non_null(strstr(told, "last:end "));
    assert_null(strstr(told, "last:requeued"));
}

/* It was cut off, and has a successor: what that asks for is the job's only requeue. */
static void who_is_deposed_asks_for_no_requeue(void **state)
{
    dlr_sup_requeue(ending, "too few nodes");
    told[0] = '\0';
    dlr_sup_requeue_bar(ending);
    dlr_sup_requeue_now(ending, "too few nodes"); /* another run has waited for */
    assert_string_equal(told, "");
    dlr_sup_ending_signal(ending, SIGTERM);
    dlr_sup_finish(ending, 143, NULL);
    assert_non_null(strstr(told, "last:end ")); /* not "requeued" */
}

/* The next incarnation of this srun returns the code: it is kept first. */
static void where_the_script_is_lost_a_requeue_runs_the_rest_of_it(void **state)
{
    dlr_sup_ending_script_lost(ending);
    dlr_sup_finish(ending, 3, NULL);
    assert_string_equal(
        told, "ends kept:3 shutdown,later user requeue 42 - 4 5 30000ms 0 /dir lost "
              "journal:end ended shutdown agents"); /* it could not be asked */
}

/* It goes on when that has failed. */
static void a_requeue_that_is_being_asked_for_is_not_asked_twice(void **state)
{
    dlr_sup_ending_script_lost(ending);
    dlr_sup_requeue(ending, "too few nodes");
    assert_null(strstr(told, "lost"));
    told[0] = '\0';
    ending->helper.pid = 1;
    dlr_sup_finish(ending, 1, NULL);
    ending->helper.pid = 0;
    assert_string_equal(told, "ends kept:1 shutdown,later journal:end ended");
}

/* The job has a batch script, another run, and a helper that can be asked. */
static void want_memory(void)
{
    others.helps = true;
    ending->leave.fd = 0;
    assert_true(dlr_sup_ending_for_memory(ending, false));
    dlr_sup_requeue(ending, "no memory");
}

static void the_helper_exits(int status)
{
    told[0] = '\0';
    others.status = status;
    assert_int_equal(others.ended(NULL, NULL, ending), 0);
}

/* They would end their rounds, and begin others when it turns out that it gets none. */
static void other_runs_hear_of_a_requeue_for_memory_when_there_is_some(void **state)
{
    want_memory();
    assert_string_equal(told, "shutdown,later kept requeue 42 - 4 5 30000ms 0 /dir "
                              "ask-memory");
    the_helper_exits(0);
    dlr_joint_requeue_tick(ending, 0);
    assert_string_equal(told, "claim"); /* the other run is waited for */
    assert_true(ending->leave.waits);
    dlr_joint_requeue_tick(ending, ending->leave.until_ms);
    assert_string_equal(told, "claim user requeue 42 - 4 5 30000ms 0 /dir "
                              "memory");
}

static void without_more_memory_other_runs_hear_of_nothing(void **state)
{
    want_memory();
    the_helper_exits(3);
    dlr_joint_requeue_tick(ending, 0);
    assert_string_equal(told, "user policy:stays");
}

static void who_wanted_a_requeue_while_we_asked_gets_it(void **state)
{
    want_memory();
    others.leads = true;
    the_helper_exits(3);
    dlr_joint_requeue_tick(ending, 0);
    assert_string_equal(told, "user policy:stays user policy:leaves");
}

/* That is a matter of the requeue itself, as for one that needs no memory. */
static void
a_slurmctld_that_does_not_say_whether_there_is_memory_is_asked_again(void **state)
{
    want_memory();
    the_helper_exits(1);
    dlr_joint_requeue_tick(ending, 0);
    assert_string_equal(told, "claim");
}

static void a_run_that_ends_while_it_asks_for_memory_is_over(void **state)
{
    want_memory();
    dlr_sup_finish(ending, 143, NULL);
    told[0] = '\0';
    others.status = 0;
    others.ended(NULL, NULL, ending);
    assert_string_equal(told, "");
}

static void tasks_that_run_get_sigterm(void **state)
{
    tasks_run = true;
    assert_false(dlr_sup_term_holds(ending, dlr_sup_now()));
    dlr_sup_ending_signal(ending, SIGTERM);
    assert_string_equal(told, "tasks:15 policy:told");
    assert_true(dlr_sup_term_holds(ending, dlr_sup_now()));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(the_end_is_kept_before_the_agents_are_told),
        T(the_next_supervisor_gets_the_line_of_the_end),
        T(an_end_by_a_signal_is_not_kept),
        T(a_signal_counts_when_the_job_is_near_its_end),
        T(an_end_while_such_a_signal_is_asked_about_is_not_kept),
        T(a_requeue_does_without_nodes_that_are_of_no_use),
        T(a_job_that_is_requeued_says_no_reason),
        T(a_job_that_is_cancelled_before_its_requeue_is_not_requeued),
        T(who_is_deposed_asks_for_no_requeue),
        T(where_the_script_is_lost_a_requeue_runs_the_rest_of_it),
        T(a_requeue_that_is_being_asked_for_is_not_asked_twice),
        T(other_runs_hear_of_a_requeue_for_memory_when_there_is_some),
        T(without_more_memory_other_runs_hear_of_nothing),
        T(who_wanted_a_requeue_while_we_asked_gets_it),
        T(a_slurmctld_that_does_not_say_whether_there_is_memory_is_asked_again),
        T(a_run_that_ends_while_it_asks_for_memory_is_over),
        T(tasks_that_run_get_sigterm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
