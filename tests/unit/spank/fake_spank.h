/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm as the plugin sees it: the functions of <slurm/spank.h> over a struct that a
 * test fills in and reads.
 */
#ifndef DLR_TESTS_SPANK_FAKE_SPANK_H
#define DLR_TESTS_SPANK_FAKE_SPANK_H

#include <slurm/spank.h>
#include <stdint.h>
#include <sys/types.h>

#define FAKE_OPTIONS 64
#define FAKE_VARS 64
#define FAKE_LOG 4096

struct fake_spank {
    spank_context_t context;
    char **job_env; /* S_JOB_ENV */
    uint32_t job, step, rank, world;
    uint64_t mem_mb; /* S_JOB_ALLOC_MEM */
    uid_t uid;
    gid_t gid;
    pid_t pid;
    int status;

    struct {
        char name[64], arginfo[64], usage[256];
        int val;
        spank_opt_cb_f cb;
    } options[FAKE_OPTIONS];
    unsigned noptions;
    struct {
        char name[64], value[256]; /* value "-": taken out */
    } vars[FAKE_VARS];
    unsigned nvars;
    char kept_name[128], kept[2048]; /* the last spank_job_control_setenv() */
    char log[FAKE_LOG];              /* "error: text\n" and so on */
};

extern struct fake_spank fake;

/* Everything at zero but context. */
void fake_reset(spank_context_t context);

/* Calls the callback of a registered option, as Slurm does; -2 when there is none. */
int fake_option(const char *name, const char *value, int remote);

/* What the plugin has set a task's variable to; NULL when it has not touched it. */
const char *fake_var(const char *name);

#endif
