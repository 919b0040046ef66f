/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives a supervisor: state.json for the next incarnation of the job, and the
 * keeper's memory file for the next supervisor of this one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/keeper/child_exits.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/supervisor/disk/persist_periodic.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define STATE_MAX 65536
#define START_MS 60000 /* for the disk to say what is there, where nothing has begun */
#define LOOK_MS 250    /* and where leases must be renewed: less than one lasts */

static void show_command(const struct dlr_runinfo *info, char *buf, size_t size)
{
    snprintf(buf, size, "%016" PRIx64, info->command);
}

/* [[code, how often in a row], ..] */
static json_t *tries_state(const struct dlr_tries *t)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < DLR_TRIES_KINDS && t->kinds[i].times; i++)
        json_array_append_new(list, json_pack("[i,I]", (int)t->kinds[i].code,
                                              (json_int_t)t->kinds[i].times));
    return list;
}

static void tries_take(const json_t *state, struct dlr_tries *ret)
{
    const json_t *kind;
    size_t i;

    json_array_foreach(json_object_get(state, "tries"), i, kind)
    {
        json_int_t code = json_integer_value(json_array_get(kind, 0));
        json_int_t times = json_integer_value(json_array_get(kind, 1));

        if (code >= 0 && code <= 255 && times > 0 && times <= INT32_MAX - ret->n)
            dlr_tries_add(ret, (unsigned)code, (unsigned)times);
    }
}

static json_t *run_state(struct dlr_sup *s)
{
    char command[20];
    uint32_t next =
        dlr_sup_has_plan(s->plan) ? dlr_policy_round(s->policy) + 1 : s->resume_round;
    json_t *ended = dlr_sup_ending_finished(s->end)
                        ? json_integer(dlr_sup_ending_code(s->end))
                        : json_null();
    json_t *state;

    show_command(&s->info, command, sizeof(command));
    state = json_pack("{s:s,s:o,s:o,s:i,s:I,s:I,s:I,s:i,s:i}", "command", command,
                      "tries", tries_state(&s->info.before), "ended", ended, "v",
                      DLR_MSG_VERSION, "incarnation", (json_int_t)s->info.incarnation,
                      "next_round", (json_int_t)next, "restarts",
                      (json_int_t)dlr_policy_restarts(s->policy), "places",
                      s->full_places, "world", s->full_world);

    if (state) {
        dlr_sup_versions_state(s->versions, state);
        dlr_sup_losses_state(s->nodes, state);
        dlr_sup_cadence_state(s->versions, state);
        dlr_sup_ranks_state(s, state);
    }
    return state;
}

void dlr_sup_keep(struct dlr_sup *s)
{
    DLR_AUTO_JSON json_t *state = s->state_fd >= 0 ? run_state(s) : NULL;
    json_t *round;
    struct dlr_err err;

    if (!state)
        return;
    json_object_set_new(state, "run", json_string(s->info.name));
    json_object_set_new(state, "generation", json_integer(s->generation));
    json_object_set_new(state, "address", json_string(s->address));
    json_object_set_new(state, "peers", dlr_sup_nodes_state(s->nodes));
    dlr_sup_steps_state(s->steps, state);
    json_object_set_new(state, "stdin_at", json_integer(s->stdin_at));
    json_object_set_new(state, "bare_ms", json_integer(s->bare_ms));
    json_object_set_new(
        state, "workers_pid",
        json_integer(s->adopt.workers_pid ? s->adopt.workers_pid : s->workers.pid));
    dlr_sup_net_state(s, state);
    round = dlr_sup_round_state(s);
    if (round)
        json_object_set_new(state, "running", round);
    if (dlr_keepstate_save(s->state_fd, state, &err) < 0)
        dlr_sup_say(s->io, "%s", err.text);
}

void dlr_sup_save_state(struct dlr_sup *s)
{
    DLR_AUTO_JSON json_t *state = run_state(s);
    DLR_AUTO_FREE char *text = state ? json_dumps(state, JSON_COMPACT) : NULL;
    char path[DLR_RUN_PATH + 32];

    if (!text)
        return;
    snprintf(path, sizeof(path), "%s/state.json", s->info.dir);
    dlr_journal_replace(dlr_sup_journal(s->io), path, text);
    dlr_sup_keep(s);
}

/* --- reading ---------------------------------------------------------------------------- */

static uint64_t number(const json_t *state, const char *key, uint64_t max)
{
    uint64_t value = 0;

    dlr_msg_uint(state, key, max, &value);
    return value;
}

static void take_run_state(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_step_resume(s->planning,
                        (unsigned)number(state, "places", DLR_PLAN_NODES_MAX),
                        (unsigned)number(state, "world", DLR_PLAN_RANKS_MAX));
    s->resume_round = number(state, "next_round", UINT32_MAX);
    s->resume_restarts = number(state, "restarts", UINT32_MAX);
    dlr_sup_versions_take(s->versions, state);
    dlr_sup_losses_take(s->nodes, state);
    dlr_sup_ranks_take(s, state);
}

/* It has ended already: its code is all that is left to be told. */
static void take_end(struct dlr_sup *s, const json_t *state)
{
    uint64_t code;

    s->ended_before = dlr_msg_uint(state, "ended", 255, &code) == 0;
    if (s->ended_before)
        dlr_sup_ending_take(s->end, (unsigned)code);
}

/* Its round can go on when all that it consists of is there: agents, and an srun that runs or
 * whose end the keeper has seen.
 */
static void adopt_round(struct dlr_sup *s, const json_t *state)
{
    pid_t pid = number(state, "workers_pid", INT32_MAX);
    int status;

    if (!dlr_sup_agents_there(s->steps) || pid <= 1 ||
        (!s->former_workers.pid && dlr_exits_find(s->state_fd, pid, &status) < 0) ||
        dlr_sup_load_round(s, json_object_get(state, "running")) < 0)
        return;
    s->adopt.workers_pid = pid;
    s->adopt.wanted = true;
}

/* Another release's: what it means is not known, and to begin without it could lose everything. */
static int check_version(const json_t *state, const char *what, struct dlr_err *err)
{
    uint64_t v;

    if (dlr_msg_uint(state, "v", INT64_MAX, &v) < 0)
        return dlr_fail(err, -EBADMSG, "%s is not the state of a run: no version",
                        what);
    if (v != DLR_MSG_VERSION)
        return dlr_fail(err, -EPROTONOSUPPORT,
                        "%s is of version %" PRIu64
                        ", this release reads version %d only",
                        what, v, DLR_MSG_VERSION);
    return 0;
}

/* A supervisor of this incarnation died: its agents go on, and its round if it can. */
static int take_over(struct dlr_sup *s, const json_t *state, struct dlr_err *err)
{
    const char *address = "";
    int rc = check_version(state, "what the keeper has", err);

    if (rc < 0)
        return rc;
    dlr_msg_str(state, "address", &address);
    dlr_format(s->address, sizeof(s->address), "%s", address);
    s->took_over = true;
    s->generation = number(state, "generation", UINT32_MAX - 1) + 1;
    take_run_state(s, state);
    tries_take(state, &s->info.before);
    take_end(s, state);
    if (s->stdin_at >= 0)
        s->stdin_at = number(state, "stdin_at", INT64_MAX);
    s->bare_ms = (int64_t)number(state, "bare_ms", INT64_MAX);
    dlr_sup_nodes_take(s->nodes, json_object_get(state, "peers"));
    dlr_sup_net_take(s, state);
    dlr_sup_adopt_child(number(state, "workers_pid", INT32_MAX), &s->former_workers);
    dlr_sup_steps_take(s->steps, state);
    adopt_round(s, state);
    return dlr_sup_identity_take(s->nodes, s->state_fd, err);
}

static int read_state(const char *dir, json_t **ret, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_JSON json_t *state = NULL;
    char path[DLR_RUN_PATH + 300], what[DLR_RUN_PATH + 304];
    json_error_t jerr;
    size_t size = 0;
    int rc;

    snprintf(path, sizeof(path), "%s/state.json", dir);
    snprintf(what, sizeof(what), "'%s'", path);
    rc = dlr_file_load_own(AT_FDCWD, path, STATE_MAX, &text, &size, err);
    if (rc < 0)
        return rc;
    state = json_loadb(text, size, JSON_REJECT_DUPLICATES, &jerr);
    if (!json_is_object(state))
        return dlr_fail(err, -EBADMSG, "%s is not the state of a run: %s", what,
                        state ? "no object" : jerr.text);
    rc = check_version(state, what, err);
    if (rc == 0)
        *ret = DLR_STEAL(state);
    return rc;
}

/* True when a run of the job was cut short in the former incarnation, by a requeue: the script
 * begins again for its sake. A job that was over and is run again by hand has none.
 */
static bool was_cut_short(const struct dlr_runinfo *info)
{
    DLR_AUTO_CLOSEDIR DIR *d = opendir(info->job_dir);
    char dir[DLR_RUN_PATH + 256];
    struct dirent *e;
    bool found = false;

    while (d && !found && (e = readdir(d))) {
        DLR_AUTO_JSON json_t *state = NULL;
        struct dlr_err err;

        snprintf(dir, sizeof(dir), "%.*s/%.255s", DLR_RUN_PATH - 1, info->job_dir,
                 e->d_name);
        if (e->d_name[0] != '.' && read_state(dir, &state, &err) == 0)
            found = number(state, "incarnation", UINT32_MAX) + 1 == info->incarnation &&
                    !json_is_integer(json_object_get(state, "ended"));
    }
    return found;
}

/* What the state in dir says of a run, for an srun that asks whether it is a try of it. */
static int past(const struct dlr_runinfo *info, const char *dir,
                struct dlr_tries_run *ret, struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *state = NULL;
    const char *command = "";
    char mine[20];
    uint64_t code = 0;
    int rc = read_state(dir, &state, err);

    if (rc < 0)
        return rc;
    *ret = (struct dlr_tries_run){0};
    tries_take(state, &ret->before);
    ret->ended = dlr_msg_uint(state, "ended", 255, &code) == 0;
    ret->code = (unsigned)code;
    show_command(info, mine, sizeof(mine));
    dlr_msg_str(state, "command", &command);
    ret->same = dlr_streq(command, mine);
    ret->again = number(state, "incarnation", UINT32_MAX) < info->incarnation &&
                 ret->ended && !was_cut_short(info);
    return 0;
}

/* ret_had: a version was committed. */
static int load_file(struct dlr_sup *s, bool *ret_had, struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *state = NULL;
    int rc = read_state(s->info.dir, &state, err);

    if (rc < 0)
        return rc == -ENOENT ? 0 : rc; /* 0: the run begins */
    take_run_state(s, state);
    *ret_had = json_is_array(json_object_get(state, "committed"));
    if (s->info.place == DLR_TRIES_TOLD) {
        s->ended_before = true;
        dlr_sup_ending_take(s->end, s->info.told);
        return 0;
    }
    if (s->info.place == DLR_TRIES_NEXT)
        s->resume_restarts = 0;
    else if (!json_is_integer(json_object_get(state, "ended")))
        return 0;
    else if (was_cut_short(&s->info))
        take_end(s, state);
    else
        s->resume_restarts = 0; /* the job was over: somebody wants it all again */
    return 0;
}

/* Nothing of a helper that never had a version. */
static void say_try(struct dlr_sup *s, bool had)
{
    unsigned n = s->info.before.n, code;

    if (s->info.anew)
        dlr_sup_say(s->io,
                    "an srun with the same words has failed in this job, in another "
                    "environment: this one is a run of its own and begins anew");
    if (s->info.place != DLR_TRIES_NEXT)
        return;
    code = dlr_tries_code(&s->info.before, n - 1);
    if (s->nfiles)
        dlr_sup_say(s->io,
                    "try %u of this srun, after one that ended with code %u: going on "
                    "from step %llu (with a --dlrover-name of its own it begins anew)",
                    n + 1, code, (unsigned long long)s->files[0].copy.version.step);
    else if (had)
        dlr_sup_say(
            s->io,
            "try %u of this srun, after one that ended with code %u: nothing of "
            "it is on the disk, beginning anew",
            n + 1, code);
}

/* A run that goes on does so with what memory has, if it must. */
static int load_disk(struct dlr_sup *s, struct dlr_err *err)
{
    int limit_ms = !s->took_over ? START_MS : dlr_sup_file_hangs(s->io) ? 0 : LOOK_MS;
    int rc = dlr_sup_disk_load(s, limit_ms, err);

    if (rc == 0 || !s->took_over)
        return rc;
    dlr_sup_say(s->io, "%s", err->text);
    return 0;
}

int dlr_sup_load_state(struct dlr_sup *s, struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *kept = NULL;
    DLR_AUTO_FREE char **words = dlr_sup_names_numbered(s);
    const char *name = NULL;
    bool had = false;
    int rc;

    if (!words)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = s->state_fd >= 0 ? dlr_keepstate_load(s->state_fd, &kept, err) : -ENOENT;
    if (rc < 0 && rc != -ENOENT)
        return rc;
    if (rc == 0)
        dlr_msg_str(kept, "run", &name);
    rc = dlr_runinfo_make(
        &(struct dlr_run_want){.argv = words,
                               .state_dir = s->conf.state_dir,
                               .asked = s->conf.name,
                               .kept = name,
                               .keeper = s->state_fd >= 0 ? getppid() : getpid(),
                               .past = past},
        &s->info, err);
    if (rc < 0)
        return rc;
    dlr_format(s->id.job, sizeof(s->id.job), "%s", s->info.job);
    dlr_format(s->id.run, sizeof(s->id.run), "%s", s->info.name);
    s->id.gen = s->info.incarnation;
    if (dlr_parse_uint(s->info.job, UINT32_MAX, &s->job_number) < 0)
        return dlr_fail(err, -EINVAL, "SLURM_JOB_ID='%s' is not a number", s->info.job);
    if (kept) /* the first supervisor has made it; workers must not wait for it now */
        dlr_sup_file_do(s->io, dlr_sup_file_mkdirs, s->info.dir, NULL);
    dlr_sup_losses_start(s->nodes);
    rc = kept ? take_over(s, kept, err) : load_file(s, &had, err);
    if (rc == 0)
        rc = load_disk(s, err);
    if (rc == 0)
        say_try(s, had);
    if (rc == 0)
        dlr_sup_periodic_start(s);
    return rc;
}
