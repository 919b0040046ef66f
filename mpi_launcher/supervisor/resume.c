/* SPDX-License-Identifier: Apache-2.0 */
/* How a supervisor begins: which run it is, and what was left of it to go on with. */
#include <errno.h>

#include "ckpt/base/version.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/former_runs.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define START_MS 60000 /* for the disk to say what is there, where nothing has begun */
#define LOOK_MS 250    /* and where leases must be renewed: less than one lasts */

/* A supervisor of this incarnation died: its agents go on, and its round if it can. */
static int take_over(struct dlr_sup *s, const json_t *state, struct dlr_err *err)
{
    int rc = dlr_sup_former_version(state, "what the keeper has", err);

    if (rc < 0)
        return rc;
    s->took_over = true;
    dlr_sup_load_kept(s, state);
    return dlr_sup_identity_take(s->nodes, s->state_fd, err);
}

/* ret_had: a version was committed. */
static int load_file(struct dlr_sup *s, bool *ret_had, struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *state = NULL;
    int rc = dlr_sup_former_read(s->info.dir, &state, err);

    if (rc < 0)
        return rc == -ENOENT ? 0 : rc; /* 0: the run begins */
    dlr_sup_load_run(s, state);
    *ret_had = json_is_array(json_object_get(state, "committed"));
    if (s->info.place == DLR_TRIES_REPORTED) {
        s->ended_before = true;
        dlr_sup_ending_take(s->ending, s->info.told);
        return 0;
    }
    if (s->info.place == DLR_TRIES_NEXT)
        s->resume_restarts = 0;
    else if (!json_is_integer(json_object_get(state, "ended")))
        return 0;
    else if (dlr_sup_former_cut_short(&s->info))
        dlr_sup_load_end(s, state);
    else
        s->resume_restarts = 0; /* the job was over: somebody wants it all again */
    return 0;
}

/* Nothing of a helper that never had a version. */
static void say_try(struct dlr_sup *s, bool had)
{
    unsigned n = s->info.before.n, code;
    struct dlr_version there;

    if (s->info.anew)
        dlr_user_line(
            s->io, "an srun with the same arguments has failed in this job, in another "
                   "environment: this one is a run of its own and begins anew");
    if (s->info.place != DLR_TRIES_NEXT)
        return;
    code = dlr_tries_code(&s->info.before, n - 1);
    if (dlr_sup_disk_newest(s->disk, &there))
        dlr_user_line(
            s->io,
            "try %u of this srun, after one that ended with code %u: going on "
            "from step %llu (with a --dlrover-name of its own it begins anew)",
            n + 1, code, (unsigned long long)there.step);
    else if (had)
        dlr_user_line(
            s->io,
            "try %u of this srun, after one that ended with code %u: nothing of "
            "it is on the disk, beginning anew",
            n + 1, code);
}

/* A run that goes on does so with what memory has, if it must. */
static int load_disk(struct dlr_sup *s, struct dlr_err *err)
{
    int limit_ms = !s->took_over ? START_MS : dlr_sup_file_hangs(s->io) ? 0 : LOOK_MS;
    int rc = dlr_sup_disk_load(s->disk, limit_ms, &s->resume_round, err);

    if (rc == 0 || !s->took_over)
        return rc;
    dlr_user_line(s->io, "%s", err->text);
    return 0;
}

int dlr_sup_load_state(struct dlr_sup *s, struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *kept = NULL;
    DLR_AUTO_FREE char **words = dlr_sup_names_numbered(s->rounds);
    const char *name = NULL;
    bool had = false;
    uint32_t number;
    int rc;

    if (!words)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = s->state_fd >= 0 ? dlr_takeover_state_load(s->state_fd, &kept, err) : -ENOENT;
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
                               .past = dlr_sup_former_tries},
        &s->info, err);
    if (rc < 0)
        return rc;
    dlr_format(s->id.job, sizeof(s->id.job), "%s", s->info.job);
    dlr_format(s->id.run, sizeof(s->id.run), "%s", s->info.name);
    s->id.gen = s->info.incarnation;
    if (dlr_parse_uint(s->info.job, UINT32_MAX, &number) < 0)
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
        dlr_sup_periodic_start(s->disk);
    return rc;
}
