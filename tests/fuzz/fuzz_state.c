/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/supervisor wrap=dlr_proc_adopt,dlr_procid_alive,dlr_identity_load stand-ins */
/* What a supervisor left to the next one, dlr_state(5): each input as state.json in a
 * run's directory, and as the text in the keeper's memory file, with a round that may
 * go on. What is taken from either can be written again, and read, and is the same. No
 * process is adopted. Reaches dlr_sup_former_read(), dlr_sup_former_load().
 */
#include "mpi_launcher/supervisor/resume.c"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "ckpt/base/version.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/policy/actions.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/engines_rig.h"

#define NODES 4
#define HEAD_AT 8192
#define TEXT_AT 12288

static char job_dir[] = "/dev/shm/dlrover-fuzz-XXXXXX";
static char run_dir[sizeof(job_dir) + 8], file[sizeof(run_dir) + 16];
static int memory_fd;
static struct dlr_policy *policy;

/* --- instead of mpi_launcher/wire/identity.c and what knows of processes ---------- */

int64_t dlr_sup_now(void)
{
    return 1000;
}
void dlr_user_line(struct dlr_sup_io *to, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
}
int __wrap_dlr_proc_adopt(pid_t pid, struct dlr_proc *ret);
int __wrap_dlr_proc_adopt(pid_t pid, struct dlr_proc *ret)
{
    FUZZ_CHECK(pid > 1);
    return -ESRCH;
}
bool __wrap_dlr_procid_alive(const struct dlr_procid *id);
bool __wrap_dlr_procid_alive(const struct dlr_procid *id)
{
    FUZZ_CHECK(memchr(id->host, '\0', sizeof(id->host)));
    return false;
}
int __wrap_dlr_identity_load(int fd, struct dlr_identity **ret_id, struct dlr_err *err);
int __wrap_dlr_identity_load(int fd, struct dlr_identity **ret_id, struct dlr_err *err)
{
    return 0;
}

/* --- the rig ---------------------------------------------------------------------- */

static void leave(void)
{
    unlink(file);
    rmdir(run_dir);
    rmdir(job_dir);
}

static void make_rig(void)
{
    static const struct dlr_policy_ops none;
    const struct dlr_policy_conf pc = {.nnodes = NODES, .nplaces = 2};
    struct dlr_err err;

    FUZZ_CHECK(mkdtemp(job_dir));
    snprintf(run_dir, sizeof(run_dir), "%s/run", job_dir);
    snprintf(file, sizeof(file), "%s/state.json", run_dir);
    FUZZ_CHECK(mkdir(run_dir, 0700) == 0);
    atexit(leave);
    memory_fd = memfd_create("state", MFD_CLOEXEC);
    FUZZ_CHECK(memory_fd >= 0);
    FUZZ_CHECK(dlr_policy_new(&pc, &none, NULL, &policy, &err) == 0);
}

static void start(struct dlr_sup *s)
{
    char n1[] = "n1", n2[] = "n2", n3[] = "n3", n4[] = "n4";
    char *names[NODES] = {n1, n2, n3, n4};
    struct dlr_err err;

    memset(s, 0, sizeof(*s));
    dlr_job_config_init(&s->conf);
    s->state_fd = memory_fd;
    s->info.incarnation = 1;
    memcpy(s->info.job_dir, job_dir, sizeof(job_dir));
    memcpy(s->info.dir, run_dir, sizeof(run_dir));
    engines_rig(s, names, NODES);
    s->policy = policy;
    FUZZ_CHECK(dlr_sup_engines_open(s, &err) == 0);
}

static void stop(struct dlr_sup *s)
{
    engines_rig_free(s);
}

/* --- what must hold --------------------------------------------------------------- */

static void check_same(const struct dlr_sup *a, const struct dlr_sup *b)
{
    struct dlr_version v = {0}, w = {0};
    const struct dlr_plan_rejected *marks;
    unsigned n, m;

    FUZZ_CHECK(a->step->nplaces == b->step->nplaces &&
               a->step->world == b->step->world);
    FUZZ_CHECK(a->resume_round == b->resume_round &&
               a->resume_restarts == b->resume_restarts);
    FUZZ_CHECK(dlr_sup_vetted(a->versions, &v) == dlr_sup_vetted(b->versions, &w) &&
               dlr_version_eq(v, w));
    FUZZ_CHECK(dlr_sup_losses_nodes(a->nodes) == dlr_sup_losses_nodes(b->nodes));
    dlr_sup_struck(b->copies, &m);
    marks = dlr_sup_struck(a->copies, &n);
    FUZZ_CHECK(n == m);
    for (unsigned i = 0; i < n; i++)
        FUZZ_CHECK(dlr_sup_is_bad(b->versions, marks[i].version));
}

static void check_again(struct dlr_sup *s)
{
    static struct dlr_sup next; /* large */
    json_t *state;
    char *text;

    FUZZ_CHECK(s->step->nplaces <= DLR_PLAN_NODES_MAX &&
               s->step->world <= DLR_PLAN_RANKS_MAX);
    FUZZ_CHECK(!s->ended_before || (dlr_sup_ending_code(s->ending) >= 0 &&
                                    dlr_sup_ending_code(s->ending) <= 255));
    dlr_policy_resume(policy, s->resume_round, s->resume_restarts, 0);
    s->planning->full_places = s->step->nplaces;
    s->planning->full_world = s->step->world;
    state = json_object();
    dlr_sup_save_run(s, state);
    text = state ? json_dumps(state, JSON_COMPACT) : NULL;
    FUZZ_CHECK(text && strlen(text) < DLR_SUP_STATE_MAX);
    start(&next);
    dlr_sup_load_run(&next, state);
    check_same(s, &next);
    stop(&next);
    free(text);
    json_decref(state);
}

static void as_file(struct dlr_sup *s, const uint8_t *data, size_t size)
{
    FILE *f = fopen(file, "w");
    struct dlr_err err = {0};
    bool had = false;

    FUZZ_CHECK(f && fwrite(data, 1, size, f) == size);
    fclose(f);
    if (load_file(s, &had, &err) < 0)
        FUZZ_CHECK(err.text[0]);
    else
        check_again(s);
}

static void as_kept(struct dlr_sup *s, const uint8_t *data, size_t size)
{
    const uint32_t head[2] = {(uint32_t)size, 0};
    struct dlr_err err = {0};
    json_t *state = NULL;

    FUZZ_CHECK(pwrite(memory_fd, head, sizeof(head), HEAD_AT) == sizeof(head));
    FUZZ_CHECK(pwrite(memory_fd, data, size, TEXT_AT) == (ssize_t)size);
    if (dlr_takeover_state_load(memory_fd, &state, &err) < 0 ||
        take_over(s, state, &err) < 0) {
        FUZZ_CHECK(err.text[0]);
        json_decref(state);
        return;
    }
    FUZZ_CHECK(s->generation >= 1 && s->copies->degraded_since_ms >= 0);
    check_again(s);
    dlr_sup_step_resume(s->planning, 2, 4);
    if (dlr_sup_load_round(s->rounds, json_object_get(state, "running")) == 0) {
        FUZZ_CHECK(s->plan->nplaces == 2 && s->plan->world == 4);
        FUZZ_CHECK(s->rounds->running_round + 1 == s->resume_round);
    }
    json_decref(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dlr_sup sup; /* large */

    if (!policy)
        make_rig();
    start(&sup);
    as_file(&sup, data, size);
    stop(&sup);
    start(&sup);
    as_kept(&sup, data, size);
    stop(&sup);
    return 0;
}
