/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's settings: the table of common/jobconf.h seen as Slurm options, as words of
 * plugstack.conf and as environment variables, plus what only a site may set.
 */
#ifndef DLR_SPANK_OPTIONS_H
#define DLR_SPANK_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/jobconf.h"
#include "common/jobrules.h"

#define DLR_OPTIONS_NAME 64 /* bytes of an option's or a variable's name */

struct dlr_spank_conf {
    struct dlr_jobconf job;
    char libexec[DLR_OPT_TEXT]; /* where dlrover-keeper and dlrover-stderr are */
    char prefix[DLR_OPT_TEXT];  /* not empty: libexec is <prefix>/libexec/dlrover */
    bool job_tmpfs;             /* each job gets a tmpfs of its own */
    char job_tmpfs_size[DLR_OPT_TEXT]; /* its size, or share of the job's memory */
    int64_t
        job_tmpfs_keep_ms; /* how long it stays when the job is requeued; 0 it goes */
    struct dlr_jobrules rules; /* what users may not set */
    struct dlr_jobconf site;   /* job as the site left it, before any user's word */
    int srun_words;            /* of srun before the program; 0: not known */
    bool asked;                /* job.enable is the user's word, not the site's */
};

/* Told of each setting that was ignored, with a text fit for the user. */
typedef void (*dlr_options_bad_fn)(const struct dlr_err *err);

/* Everything at its default. */
void dlr_options_init(struct dlr_spank_conf *conf);

/* Takes the words of plugstack.conf ("spares=1", "libexec=/opt/...", "forbid=checks"). A bad
 * word goes to bad (may be NULL) and changes nothing. What follows has to keep to its rules.
 */
void dlr_options_site(struct dlr_spank_conf *conf, int count, char *const words[],
                      dlr_options_bad_fn bad);

/* Takes DLROVER=on and DLROVER_<NAME>=value from an environment. bad may be NULL. */
void dlr_options_env(struct dlr_spank_conf *conf, char *const env[],
                     dlr_options_bad_fn bad);

/* Takes the options of the job that this process is in out of the environment, where Slurm has
 * put them for its srun: a job that is submitted from inside another is a job of its own.
 */
void dlr_options_disown(void);

/* Number of rows of the job's table. */
size_t dlr_options_count(void);

/* Writes the Slurm option's name of a row without its dashes: "dlrover" for "enable",
 * "dlrover-<name>" for the others.
 */
void dlr_options_name(size_t row, char name[DLR_OPTIONS_NAME]);

/* Writes the help text of a row, with its default; *ret is the caller's to free. NULL when
 * out of memory.
 */
char *dlr_options_usage(size_t row);

/* Sets a row from an option of the command line, a script or Slurm's own propagation. value
 * may be NULL or "(null)", which Slurm hands over for an option without a value. -EINVAL, or
 * -EPERM when the site forbids it, with a text that names the option; conf is unchanged then.
 */
int dlr_options_set(struct dlr_spank_conf *conf, size_t row, const char *value,
                    struct dlr_err *err);

/* Reads the value of --dlrover. -EINVAL when it is not one. */
int dlr_options_switch(const char *value, bool *ret_on);

#endif
