/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's settings: the table of common/config/job_config.h seen as Slurm options
 * (the last of which, --dlrover-set, is for all rows that have none), as arguments of
 * plugstack.conf and as environment variables, plus what only a site may set.
 */
#ifndef DLR_SPANK_BASE_OPTIONS_H
#define DLR_SPANK_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/config/job_config.h"
#include "common/config/site_rules.h"

#define DLR_OPTIONS_NAME 64 /* bytes of an option's or a variable's name */
#define DLR_OPTIONS_SET DLR_JOB_CONFIG_OPTIONS /* the number of --dlrover-set */
#define DLR_OPTIONS_COUNT (DLR_OPTIONS_SET + 1u)

/* Whose word a row is. */
enum dlr_options_by { DLR_BY_SITE, DLR_BY_ENV, DLR_BY_OPTION };

struct dlr_spank_conf {
    struct dlr_job_config job;
    char libexec[DLR_OPT_TEXT]; /* where dlrover-keeper and dlrover-stderr are */
    char prefix[DLR_OPT_TEXT];  /* not empty: libexec is <prefix>/libexec/dlrover */
    bool job_tmpfs;             /* each job gets a tmpfs of its own */
    char job_tmpfs_size[DLR_OPT_TEXT]; /* its size, or share of the job's memory */
    /* how long it stays when the job is requeued; 0 it goes */
    int64_t job_tmpfs_keep_ms;
    struct dlr_site_rules rules; /* what users may not set */
    struct dlr_job_config site;  /* job as the site left it, before any user's word */
    int srun_words;              /* of srun before the program; 0: not known */
    bool counts_idle; /* this Slurm's srun may leave the number of tasks to slurmctld */
    enum dlr_options_by by[DLR_SITE_RULES_ROWS]; /* of job */
};

/* Told of each setting that was ignored, with a text fit for the user. */
typedef void (*dlr_options_bad_fn)(const struct dlr_err *err);

/* Everything at its default. */
void dlr_options_init(struct dlr_spank_conf *conf);

/* Takes the arguments of plugstack.conf ("spares=1", "libexec=/opt/...",
 * "forbid=checks"). A bad word goes to bad (may be NULL) and changes nothing. What
 * follows has to keep to its rules.
 */
void dlr_options_site(struct dlr_spank_conf *conf, int count, char *const words[],
                      dlr_options_bad_fn bad);

/* Takes DLROVER=on, DLROVER_<NAME>=value and DLROVER_SET=... from an environment. bad
 * may be NULL. Foreign bytes: fuzz target task_env.
 */
void dlr_options_env(struct dlr_spank_conf *conf, char *const env[],
                     dlr_options_bad_fn bad);

/* Takes the options of the job that this process is in out of the environment, where
 * Slurm has put them for its srun: a job that is submitted from inside another is a job
 * of its own.
 */
void dlr_options_disown(void);

/* Writes an option's name without its dashes: "dlrover" for "enable", "dlrover-<name>"
 * for the rows that follow, "dlrover-set".
 */
void dlr_options_name(size_t option, char name[DLR_OPTIONS_NAME]);

/* How the help names its value. */
const char *dlr_options_arg(size_t option);

/* Writes the help text of an option, with its default; *ret is the caller's to free.
 * NULL when out of memory.
 */
char *dlr_options_usage(size_t option);

/* Takes an option of the command line, a script or Slurm's own propagation. value may
 * be NULL or "(null)", which Slurm hands over for an option without a value. -EINVAL,
 * or -EPERM when the site forbids it, with a text that names the option; conf is
 * unchanged then, also by a list of which a part is right.
 * Foreign bytes: fuzz target opt.
 */
int dlr_options_set(struct dlr_spank_conf *conf, size_t option, const char *value,
                    struct dlr_err *err);

/* All that --dlrover-set has set, as one such list, for Slurm keeps the last one only;
 * the caller's to free, NULL when out of memory or when it has set nothing.
 */
char *dlr_options_settings(const struct dlr_spank_conf *conf);

/* Writes the name under which Slurm keeps an option for the prolog and, behind
 * "SLURM_SPANK_", for the job's sruns.
 */
void dlr_options_kept(size_t option, char name[DLR_OPTIONS_NAME]);

/* Whether the user wants the job to be supervised and has not said that it has no spare
 * node.
 */
bool dlr_options_lack_spare(const struct dlr_spank_conf *conf);

/* Reads the value of --dlrover. -EINVAL when it is not one. */
int dlr_options_switch(const char *value, bool *ret_on);

#endif
