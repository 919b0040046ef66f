/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a supervised job: one table, read by the plugin (the first rows as
 * --dlrover-NAME, and --dlrover for "enable", the others as --dlrover-set=NAME=VALUE),
 * by plugstack.conf (NAME=VALUE) and by keeper, supervisor and agent (--NAME=VALUE).
 * Limits of waits stand here and nowhere else.
 */
#ifndef DLR_COMMON_CONFIG_JOB_CONFIG_H
#define DLR_COMMON_CONFIG_JOB_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/config/failure_rules.h"
#include "common/config/opt.h"

/* What the plugin tells the supervisor beside the settings: where srun's own parser
 * stopped.
 */
#define DLR_SRUN_WORDS_OPTION "srun-words="

struct dlr_job_config {
    bool enable;     /* --dlrover=on|off */
    unsigned spares; /* nodes of the allocation kept warm */
    /* training nodes a round may do with, and has at most */
    struct dlr_nodes_conf nodes;
    unsigned group; /* training nodes that belong together, in rank order */
    struct dlr_ratio_conf max_restarts; /* new rounds after faults of the program */
    struct dlr_failure_rules on;        /* what failures lead to */
    struct dlr_heartbeat_conf beat;     /* --dlrover-set=heartbeat */
    char state_dir[DLR_OPT_TEXT];       /* empty: $HOME/.dlrover */
    char name[DLR_OPT_TEXT];            /* --dlrover-name, empty: none was given */
    char checks[DLR_OPT_TEXT];          /* of the rendezvous: dlr_job_config_checks() */
    char topology_file[DLR_OPT_TEXT];   /* describes the switches, empty: Slurm does */
    char rules[DLR_OPT_TEXT];           /* of failures, the user's; empty: none */
    enum dlr_reorder reorder;           /* of live nodes after a swap */
    enum dlr_rounds network_check; /* rounds before which nodes measure the network */
    bool exclude_stragglers; /* nodes that are slow but correct do not take part */
    bool takeover;         /* of a batch host that died, by a node of its allocation */
    bool checkpoint;       /* off: no memory is reserved, no snapshot is made */
    unsigned ckpt_budget;  /* millionths of the time that saves may take, 0 any */
    unsigned vetted_every; /* steps between older versions kept in memory, 0: none;
                              DLR_COUNT_AUTO: 100 where there is room for them */
    struct dlr_every_conf persist_every; /* a committed version goes to the disk */
    unsigned persist_count;              /* of them; 0 counts as 1 */
    uint64_t persist_rate;               /* bytes a second of a node, 0: no limit */
    char restore_from[DLR_OPT_TEXT];     /* another job or directory, empty: none */
    char ckpt_mem
        [DLR_OPT_TEXT]; /* snapshots on a node: a size, or N% of what the job has */
    struct dlr_redundancy_conf redundancy; /* where snapshots are beside their node */
    uint64_t pace;           /* of copies: bytes per second, DLR_RATE_AUTO, 0 any */
    unsigned stream_threads; /* that check copies; 0 counts as 1 */
    char net[DLR_OPT_TEXT];  /* devices of the data process */
    enum dlr_transport transport; /* of it */
    unsigned net_traffic_class;   /* 0: the network's default */
    uint64_t stdin_spool;         /* bytes of a pipe kept for later rounds */
    enum dlr_bind bind;           /* of the ranks of a node */
    enum dlr_watch_calls watch;   /* whose calls of MPI are watched */
    bool lease_timer;             /* workers with libdlrover carry a timer that kills */
    bool in_process;              /* processes may stay over the loss of a node */
    char warm[DLR_OPT_TEXT];      /* runs ahead on spares; empty: what may stay */
    enum dlr_hang hang;           /* done about a round that stands still */
    int64_t hang_limit_ms;        /* it may stand so long; 0: what its steps say */
    int64_t agent_timeout_ms;     /* agents of a job to start and report */
    int64_t rendezvous_timeout_ms; /* one rendezvous */
    int64_t transfer_timeout_ms;   /* copies moved before a round starts */
    int64_t launch_timeout_ms;     /* srun to start every task of a round */
    int64_t start_timeout_ms;      /* nodes and tasks that are still being started */
    int64_t restore_timeout_ms;    /* from the start of the tasks to the last restore */
    int64_t end_timeout_ms;        /* a round's processes to be gone */
    int64_t park_timeout_ms;       /* processes that stay to leave a round */
    int64_t persist_timeout_ms;    /* survivors to write their state before a requeue */
    int64_t requeue_timeout_ms;    /* slurmctld to take a requeue */
    int64_t election_timeout_ms;   /* agents without a supervisor to agree */
    int64_t controller_timeout_ms; /* slurmctld to be back */
    int64_t partition_grace_ms;    /* too many nodes silent at once: wait so long */
};

/* the first rows are options of their own, for people */
#define DLR_JOB_CONFIG_OPTIONS 12

extern const struct dlr_opt dlr_job_config_opts[];

/* All fields at their defaults; cannot fail (a bad default aborts: our bug). */
void dlr_job_config_init(struct dlr_job_config *conf);

/* After this silence a node counts as dead: every_ms * missed. */
int64_t dlr_job_config_dead_ms(const struct dlr_job_config *conf);

/* The health checks that a rendezvous makes, a list as dlr_health_run() takes it: those
 * of the setting, where "auto" (before a comma or alone) is "full" before the first
 * round and "quick" at a restart. -ENAMETOOLONG.
 */
int dlr_job_config_checks(const struct dlr_job_config *conf, bool restart, char *buf,
                          size_t size);

#endif
