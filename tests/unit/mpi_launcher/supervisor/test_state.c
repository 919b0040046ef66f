/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_journal_replace,dlr_takeover_state_save,dlr_sup_now */
/* What a supervisor leaves to the next one: of what it knows nothing new it is to the
 * byte what it got from the one before. A run that begins where a former incarnation of
 * the job left a state that it cannot read: it says so and does not begin anew. Around
 * mpi_launcher/supervisor/saved_state.c and resume.c all of the supervisor but its main
 * program.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/keeper/child_exits.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/step_plan/step_plan.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/wire/identity.h"
#include "tests/support/engines_rig.h"

static char dir[64], run_dir[128];
static char *file; /* state.json as it was written last */
static char *kept; /* and the keeper's */

void __wrap_dlr_journal_replace(struct dlr_journal *j, const char *path,
                                const char *text);
void __wrap_dlr_journal_replace(struct dlr_journal *j, const char *path,
                                const char *text)
{
    free(file);
    file = strdup(text);
}

int __real_dlr_takeover_state_save(int fd, const json_t *state, struct dlr_err *err);
int __wrap_dlr_takeover_state_save(int fd, const json_t *state, struct dlr_err *err);
int __wrap_dlr_takeover_state_save(int fd, const json_t *state, struct dlr_err *err)
{
    free(kept);
    kept = json_dumps(state, JSON_COMPACT);
    return __real_dlr_takeover_state_save(fd, state, err);
}

int64_t __wrap_dlr_sup_now(void); /* nodes are counted by the hour */
int64_t __wrap_dlr_sup_now(void)
{
    return 1000000;
}

static int make_dir(void **state)
{
    char job_dir[96];

    dlr_format(dir, sizeof(dir), "/tmp/dlr-state-XXXXXX");
    assert_non_null(mkdtemp(dir));
    dlr_format(job_dir, sizeof(job_dir), "%s/job-42", dir);
    dlr_format(run_dir, sizeof(run_dir), "%s/lm", job_dir);
    setenv("SLURM_JOB_ID", "42", 1);
    setenv("SLURM_CLUSTER_NAME", "blue", 1);
    setenv("SLURM_RESTART_COUNT", "1", 1);
    return mkdir(job_dir, 0700) < 0 || mkdir(run_dir, 0700) < 0;
}

static int remove_dir(void **state)
{
    char command[96];

    dlr_format(command, sizeof(command), "rm -r '%s'", dir);
    return system(command);
}

static void put(const char *text, size_t size)
{
    char path[160];
    FILE *f;

    dlr_format(path, sizeof(path), "%s/state.json", run_dir);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static int load(struct dlr_err *err)
{
    static char srun[] = "srun", program[] = "train";
    char *argv[] = {srun, program, NULL};
    struct dlr_sup fresh = {.state_fd = -1};
    int rc;

    dlr_format(fresh.conf.state_dir, sizeof(fresh.conf.state_dir), "%s", dir);
    dlr_format(fresh.conf.name, sizeof(fresh.conf.name), "lm");
    engines_rig(&fresh, NULL, 0);
    fresh.planning->argv = argv;
    rc = dlr_sup_load_state(&fresh, err);
    engines_rig_free(&fresh);
    return rc;
}

static void a_state_that_is_none_is_refused(void **state)
{
    static const struct {
        const char *text;
        int rc;
        const char *why; /* behind the file's name */
    } rows[] = {
        {"", -EBADMSG,
         " is not the state of a run: '[' or '{' expected near end of file"},
        {"[]", -EBADMSG, " is not the state of a run: no object"},
        {"{\"ended\":0}", -EBADMSG, " is not the state of a run: no version"},
        {"{\"v\":\"1\"}", -EBADMSG, " is not the state of a run: no version"},
        {"{\"v\":2,\"v\":2}", -EBADMSG,
         " is not the state of a run: duplicate object key"},
        {"{\"v\":3,\"ended\":0}", -EPROTONOSUPPORT,
         " is of version 3, this release reads version 2 only"},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char want[400];
        struct dlr_err err;

        print_message("%s\n", rows[i].text);
        put(rows[i].text, strlen(rows[i].text));
        assert_int_equal(load(&err), rows[i].rc);
        dlr_format(want, sizeof(want), "'%s/state.json'%s", run_dir, rows[i].why);
        assert_memory_equal(err.text, want, strlen(want));
    }
}

static void a_state_that_is_too_long_is_not_read(void **state)
{
    DLR_AUTO_FREE char *text = malloc(65537);
    struct dlr_err err;

    memset(text, ' ', 65537);
    put(text, 65537);
    assert_int_equal(load(&err), -EFBIG);
}

/* --- what is left to the next one ------------------------------------------------- */

/* clang-format off */
#define NEW \
    "{\"command\":\"%016llx\",\"tries\":[],\"ended\":null,\"v\":2,\"incarnation\":1," \
    "\"next_round\":0,\"restarts\":0,\"places\":2,\"world\":3,\"committed\":null," \
    "\"bad\":[],\"vetted\":null,\"nodes_lost\":0,\"node_s\":0," \
    "\"cadence\":{\"step_ms\":0.0,\"blocked_ms\":0.0,\"extra_ms\":0.0,\"saves\":0}"
#define NEW_KEEPER \
    ",\"run\":\"%s\",\"generation\":1,\"address\":\"\",\"peers\":{},\"agents_pid\":0," \
    "\"flushing_pid\":0,\"stdin_at\":0,\"degraded_since_ms\":0,\"workers_pid\":0,\"fallback_network\":false"
#define RUN \
    "{\"command\":\"%016llx\",\"tries\":[[3,2]],\"ended\":%s,\"v\":2,\"incarnation\":1," \
    "\"next_round\":5,\"restarts\":2,\"places\":2,\"world\":3,\"committed\":[3,40]," \
    "\"bad\":[[1,12],[2,30,\"only\"]],\"vetted\":[3,20],\"nodes_lost\":4,\"node_s\":7200," \
    "\"cadence\":{\"step_ms\":12.5,\"blocked_ms\":0.25,\"extra_ms\":1.5,\"saves\":7}," \
    "\"ranks\":{\"tasks\":[1,2],\"ranks\":[2,0,1]}"
#define PLAN \
    "{\"v\":2,\"out\":[],\"verdicts\":[],\"places\":[{\"node\":\"n0\",\"topo\":\"s0.n0\"," \
    "\"cpus\":2,\"port\":0,\"first\":0,\"tasks\":1,\"partner\":1,\"moved\":false}," \
    "{\"node\":\"n1\",\"topo\":\"s0.n1\",\"cpus\":2,\"port\":0,\"first\":1,\"tasks\":2," \
    "\"partner\":0,\"moved\":false}],\"spares\":[],\"world\":3,\"order\":{\"apart\":2," \
    "\"least\":1,\"split\":4,\"first\":3,\"leaves\":5},\"sources\":[" \
    "{\"from\":\"local\",\"bytes\":9},{\"from\":\"local\",\"bytes\":9}," \
    "{\"from\":\"node\",\"where\":\"n0\",\"bytes\":9}],\"notes\":[]," \
    "\"restore\":{\"vround\":3,\"step\":40}}"
#define KEEPER \
    ",\"run\":\"lm\",\"generation\":%u,\"address\":\"n0:6000\",\"peers\":{\"n0\":" \
    "{\"key\":\"k0\",\"data\":\"d0\"},\"n1\":{\"key\":\"k1\",\"data\":\"\"}},\"agents_pid\":%d," \
    "\"agents_id\":\"%s\",\"flushing_pid\":0,\"stdin_at\":77,\"degraded_since_ms\":5000," \
    "\"workers_pid\":4242,\"fallback_network\":true"
#define RUNNING \
    ",\"running\":{\"round\":4,\"token\":\"00112233445566778899aabbccddeeff\"," \
    "\"started_ms\":11,\"launch_ms\":22,\"launch_deadline_ms\":33,\"running\":true," \
    "\"go\":false,\"saving\":true,\"first_step\":true,\"queue\":false,\"anywhere\":true," \
    "\"turn\":6,\"plan\":" PLAN "}"
/* clang-format on */

static struct dlr_sup s;
static char self[DLR_PROCID_TEXT]; /* us, as the srun of the agents' step */

/* The keeper's memory as a supervisor left it that died in a round. */
static void leave(const char *text)
{
    DLR_AUTO_JSON json_t *old = json_loads(text, 0, NULL);
    struct dlr_identity *id = NULL;
    struct dlr_err err;

    assert_int_equal(dlr_identity_new(&id, &err), 0);
    assert_int_equal(dlr_identity_save(id, s.state_fd, &err), 0);
    dlr_identity_free(id);
    assert_int_equal(dlr_child_exits_add(s.state_fd, 1, 4242, 0), 0);
    assert_non_null(old);
    assert_int_equal(__real_dlr_takeover_state_save(s.state_fd, old, &err), 0);
}

static const char *run_text(char *text, size_t size, const char *ended)
{
    snprintf(text, size, RUN "}", (unsigned long long)s.info.command, ended);
    return text;
}

/* Of that generation. */
static const char *keeper_text(char *text, size_t size, unsigned generation)
{
    snprintf(text, size, RUN KEEPER RUNNING "}", (unsigned long long)s.info.command,
             "null", generation, (int)getpid(), self);
    return text;
}

static int begin(void **state)
{
    static char srun[] = "srun", program[] = "train", n0[] = "n0", n1[] = "n1";
    static char *argv[] = {srun, program, NULL}, *names[] = {n0, n1};
    static unsigned tasks[] = {1, 2};
    struct dlr_procid id;
    struct dlr_err err;

    s = (struct dlr_sup){.state_fd = memfd_create("kept", MFD_CLOEXEC),
                         .generation = 1};
    dlr_job_config_init(&s.conf);
    dlr_format(s.conf.state_dir, sizeof(s.conf.state_dir), "%s", dir);
    assert_int_equal(dlr_procid_of(getpid(), &id), 0);
    dlr_procid_show(&id, self);
    engines_rig(&s, names, 2);
    s.planning->step = (struct dlr_step_plan){.nplaces = 2, .world = 3, .tasks = tasks};
    s.planning->full_places = 2;
    s.planning->full_world = 3;
    s.planning->argv = argv;
    assert_int_equal(dlr_sup_fork_server_start(s.io, &err), 0);
    return 0;
}

static int end(void **state)
{
    dlr_policy_free(s.policy);
    s.planning->step.tasks = NULL;
    engines_rig_free(&s);
    close(s.state_fd);
    free(file);
    free(kept);
    file = kept = NULL;
    return 0;
}

/* As the main program does. */
static void start(void)
{
    struct dlr_policy_conf pc = {.nnodes = 2, .nplaces = 2, .max_restarts = 3};
    struct dlr_err err = {0};

    if (dlr_sup_load_state(&s, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(dlr_policy_new(&pc, &dlr_sup_policy_ops, &s, &s.policy, &err), 0);
    assert_int_equal(dlr_sup_engines_open(&s, &err), 0);
    dlr_policy_resume(s.policy, s.resume_round, s.resume_restarts, dlr_sup_now());
}

static void take_over(void)
{
    char text[4096];

    leave(keeper_text(text, sizeof(text), 1));
    start();
    assert_true(dlr_sup_adopt_wanted(s.rounds));
    assert_true(dlr_sup_adopt_start(s.rounds, eventfd(0, EFD_CLOEXEC)));
}

static void a_run_that_begins_leaves_what_it_is(void **state)
{
    char text[4096];

    start();
    dlr_sup_save_state(&s);
    snprintf(text, sizeof(text), NEW "}", (unsigned long long)s.info.command);
    assert_string_equal(file, text);
    snprintf(text, sizeof(text), NEW NEW_KEEPER "}", (unsigned long long)s.info.command,
             s.info.name);
    assert_string_equal(kept, text);
}

static void what_a_supervisor_got_it_leaves_to_the_byte(void **state)
{
    char text[4096];

    take_over();
    dlr_sup_save_state(&s);
    assert_string_equal(file, run_text(text, sizeof(text), "null"));
    assert_string_equal(kept, keeper_text(text, sizeof(text), 2));
}

static void of_a_run_that_is_over_its_code_is_left(void **state)
{
    char text[4096];

    take_over();
    dlr_sup_finish(s.ending, 9, NULL);
    assert_string_equal(file, run_text(text, sizeof(text), "9"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(a_run_that_begins_leaves_what_it_is),
        T(what_a_supervisor_got_it_leaves_to_the_byte),
        T(of_a_run_that_is_over_its_code_is_left),
        cmocka_unit_test(a_state_that_is_none_is_refused),
        cmocka_unit_test(a_state_that_is_too_long_is_not_read),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
