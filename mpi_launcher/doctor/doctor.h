/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of an installation: is what a supervised job needs there, on this host and,
 * inside a job, on its nodes. One table; each check runs in a child of its own, so that
 * none can hang or crash the others.
 */
#ifndef DLR_MPI_LAUNCHER_DOCTOR_DOCTOR_H
#define DLR_MPI_LAUNCHER_DOCTOR_DOCTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "mpi_launcher/doctor/plugstack.h"

enum dlr_doctor_verdict {
    DLR_DOCTOR_OK,
    DLR_DOCTOR_NOTE, /* works, but worth knowing */
    DLR_DOCTOR_SKIP, /* cannot be judged here */
    DLR_DOCTOR_PROBLEM,
};

#define DLR_DOCTOR_TEXT 1024
#define DLR_DOCTOR_CONFIG (128u << 10) /* room for Slurm's configuration as text */
#define DLR_DOCTOR_LIMIT_MS 10000      /* one check, unless --limit says otherwise */
#define DLR_DOCTOR_NODES_MS 30000      /* the step over the job's nodes, at least */

struct dlr_doctor_result {
    enum dlr_doctor_verdict verdict;
    char text[DLR_DOCTOR_TEXT]; /* one line; of a problem: what it is, and what to do */
};

/* What checks look at. */
struct dlr_doctor {
    const char *root; /* "" on a host; tests: a recorded tree */
    char self[PATH_MAX];
    char plugstack[PATH_MAX]; /* PlugStackConfig */
    char plugin_dirs[PATH_MAX];
    char release[32];         /* of Slurm's commands here: "22.05.8"; "" unknown */
    char state_dir[PATH_MAX]; /* unless the site or the job's option names another */
    bool state_given;         /* state_dir is the user's word: nothing overrides it */
    uint64_t need_bytes;      /* of snapshots on this node, 0 unknown */
    int64_t limit_ms;
    const char *job; /* SLURM_JOB_ID, NULL outside a job */
    int config_rc;   /* negative: slurmctld gave no configuration */
    char *config;    /* "Key = value" lines */
    char *nodes;     /* one JSON line for each of the job's nodes; NULL: not asked */
    unsigned nodes_wanted;
    int nodes_rc; /* why nodes is NULL; -EALREADY: another task asks */
    int64_t nodes_from_ns, nodes_to_ns; /* when they were asked */
};

struct dlr_doctor_check {
    const char *name;
    const char *help;
    unsigned where; /* DLR_DOCTOR_... below */
    void (*run)(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
};

enum {
    DLR_DOCTOR_HOST = 1, /* any host */
    DLR_DOCTOR_NODE = 2, /* asked on each node of a job, too */
    DLR_DOCTOR_JOB = 4,  /* inside a job only */
};

extern const struct dlr_doctor_check dlr_doctor_checks[]; /* ends with a NULL name */

const char *dlr_doctor_verdict_name(enum dlr_doctor_verdict v);

/* The verdict and its one line; control characters become '?'. */
void dlr_doctor_say(struct dlr_doctor_result *ret, enum dlr_doctor_verdict verdict,
                    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Fills in what this host and its Slurm say. Blocking for at most two limits. */
void dlr_doctor_look(struct dlr_doctor *d);
void dlr_doctor_done(struct dlr_doctor *d);

/* Runs fn in a child and copies size bytes of what it left at ret. -ETIMEDOUT after
 * limit_ms (the child and what it started are killed), -EIO when it ended without. A
 * terminal on stderr shows label when it takes long.
 */
int dlr_doctor_bounded(void (*fn)(const struct dlr_doctor *d, void *ret),
                       const struct dlr_doctor *d, void *ret, size_t size,
                       int64_t limit_ms, const char *label);

/* One check with its limit; never fails: what goes wrong is the result. */
void dlr_doctor_run(const struct dlr_doctor *d, const struct dlr_doctor_check *check,
                    struct dlr_doctor_result *ret);

/* Output (stderr as well) of a program found in PATH, NUL-terminated and cut at size -
 * 1. Its wait status, or -errno. Blocks: call it inside a bounded child.
 */
int dlr_doctor_capture(const char *const argv[], char *buf, size_t size);

/* Takes out of our environment what Slurm and the suite have set: srun would take
 * sizes, lists and options of this job from there.
 */
void dlr_doctor_scrub_environment(void);

/* The value of "Key = value" in d->config; false when it is not there, "(null)" or
 * empty.
 */
bool dlr_doctor_config(const struct dlr_doctor *d, const char *key, char *buf,
                       size_t size);

/* The line of plugstack.conf that loads our plugin: 1 with *ret and the number of such
 * lines, 0 when there is none, or -errno. *bad (DLR_ERR_TEXT bytes): a line Slurm
 * cannot read, or "".
 */
int dlr_doctor_plugin_line(const struct dlr_doctor *d, struct dlr_plugstack_line *ret,
                           unsigned *ret_count, char *bad, struct dlr_err *err);

/* The process id of this host's slurmd; false when none is to be seen. */
bool dlr_doctor_find_slurmd(const struct dlr_doctor *d, char ret_pid[64]);

/* A file of /proc/PID as text, the caller's; NULL when it cannot be read. */
char *dlr_doctor_proc(const struct dlr_doctor *d, const char *pid, const char *name);

/* RemoveIPC as logind.conf and its drop-ins below root say it: 1 yes, 0 no, -ENOENT
 * when none says so; then *ret_default is what the file's comment names as built in (1,
 * 0, -1 unknown).
 */
int dlr_doctor_remove_ipc(const char *root, int *ret_default);

/* The checks. */
void dlr_doctor_plugstack(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_plugin(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_programs(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_slurmd(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_slurmctld(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_pmix(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_proctrack(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_container(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_task(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_topology(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_prolog(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_requeue(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_ports(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_munge(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_tmpfs(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_shm(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_memory(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_memlock(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_ipc(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_ucx(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_supervised(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_state(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_budget(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_nodes(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_clock(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_network(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
void dlr_doctor_shared(const struct dlr_doctor *d, struct dlr_doctor_result *ret);

/* Makes the state directory and names a file of ours in it. -errno with text. */
int dlr_doctor_state_file(const struct dlr_doctor *d, const char *name,
                          char path[PATH_MAX], struct dlr_err *err);

/* Runs the step over the job's nodes and keeps what they say in d; blocking, bounded.
 */
void dlr_doctor_ask_nodes(struct dlr_doctor *d);

/* What such a step runs on each node: prints one line, DLR_DOCTOR_MARK and JSON.
 * argv[1..]: plugstack.conf, plugin directories, release, port of the asking host, a
 * file it has made.
 */
#define DLR_DOCTOR_MARK "dlrover-probe "
int dlr_doctor_probe(int argc, char **argv);

#endif
