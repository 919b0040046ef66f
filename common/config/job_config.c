/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/job_config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/str.h"

#define FIELD(f) offsetof(struct dlr_job_config, f)

/* clang-format off */
const struct dlr_opt dlr_job_config_opts[] = {
    {"enable", DLR_OPT_SWITCH, FIELD(enable), "off", "on|off",
     "keep the job running through failures"},
    {"spares", DLR_OPT_UINT, FIELD(spares), "0", "N",
     "nodes of the allocation kept warm to replace lost ones"},
    {"nodes", DLR_OPT_NODES, FIELD(nodes), "0", "MIN[:MAX]",
     "go on with fewer training nodes down to MIN, 0: only with all; more than MAX are spares"},
    {"group", DLR_OPT_UINT, FIELD(group), "1", "N",
     "nodes in rank order that belong together and stay under one switch where they can"},
    {"save", DLR_OPT_SAVE, FIELD(ckpt_budget), "1%", "PERCENT|always",
     "share of the training's time that saves may hold it up, or as often as possible"},
    {"persist", DLR_OPT_EVERY, FIELD(persist_every), "auto", "STEPS|TIME|auto|off",
     "how often a committed snapshot is written to the state directory while steps go on"},
    {"redundancy", DLR_OPT_COPIES, FIELD(redundancy), "partner",
     "none|partner[:K]|xor:N|rs:N+K", "what other nodes keep of each snapshot"},
    {"restore-from", DLR_OPT_WORD, FIELD(restore_from), "", "JOBID|DIR",
     "begin from what another job's run of this name, or a directory, has written"},
    {"name", DLR_OPT_NAME, FIELD(name), "", "NAME",
     "what this srun's run is called, to tell equal sruns apart"},
    {"max-restarts", DLR_OPT_RATIO, FIELD(max_restarts), "10/1h", "N[/TIME]",
     "give up after N restarts within the time, 1h if none is said, caused by the program itself"},
    {"on", DLR_OPT_FAILURES, FIELD(on), "", "CLASS:ACTION,...",
     "failures (process, exit-N, node, memory) that lead to restart, elsewhere, requeue or stop"},
    {"state-dir", DLR_OPT_PATH, FIELD(state_dir), "", "DIR",
     "directory on a shared file system for journal and state, $HOME/.dlrover when empty"},
    /* settings, from here on: DLR_JOB_CONFIG_OPTIONS */
    {"heartbeat", DLR_OPT_BEAT, FIELD(beat), "200ms:5", "TIME[:MISSED]",
     "time between beats, and how many missed ones make a node dead"},
    {"checks", DLR_OPT_WORD, FIELD(checks), "auto", "LIST",
     "health checks of a round: auto (full at first, then quick), all, none, names; -NAME for all but"},
    {"topology-file", DLR_OPT_PATH, FIELD(topology_file), "", "PATH",
     "describes the switches: topology.conf or the output of ibnetdiscover, else Slurm is asked"},
    {"reorder", DLR_OPT_REORDER, FIELD(reorder), "never", "never|always|auto",
     "after a swap: ranks of live nodes stay, or move for the fewest neighbours on two leaves"},
    {"network-check", DLR_OPT_ROUNDS, FIELD(network_check), "off", "off|first|always",
     "measure latency and bandwidth between the nodes before the first round, or before each"},
    {"exclude-stragglers", DLR_OPT_SWITCH, FIELD(exclude_stragglers), "off", "on|off",
     "leave out nodes that work and are far slower than the others, as well"},
    {"rules", DLR_OPT_PATH, FIELD(rules), "", "PATH",
     "rules of your own for what a failure was, which are looked at first: dlr_failures(5)"},
    {"takeover", DLR_OPT_SWITCH, FIELD(takeover), "off", "on|off",
     "the batch host dies: go on in the same allocation where nodes are enough, requeue at the end"},
    {"checkpoint", DLR_OPT_SWITCH, FIELD(checkpoint), "on", "on|off",
     "reserve node memory for snapshots"},
    {"vetted-every", DLR_OPT_COUNT, FIELD(vetted_every), "auto", "STEPS|auto",
     "keep one older version in memory, a new one every so many steps, 0: none"},
    {"persist-count", DLR_OPT_UINT, FIELD(persist_count), "2", "COUNT",
     "snapshots kept in the state directory, at least 1"},
    {"persist-rate", DLR_OPT_SIZE, FIELD(persist_rate), "0", "SIZE",
     "a node writes so much a second at most beside the steps, 0: no limit"},
    {"ckpt-mem", DLR_OPT_SHARE, FIELD(ckpt_mem), "100%", "SIZE|PERCENT",
     "of a node's memory, or of what the job has of it, snapshots take at most this"},
    {"pace", DLR_OPT_RATE, FIELD(pace), "off", "RATE|auto|off",
     "how fast the copies of saves leave a node: bytes per second, or what steps do not feel"},
    {"stream-threads", DLR_OPT_UINT, FIELD(stream_threads), "2", "N",
     "threads of a node that check what arrives there, at least 1"},
    {"net", DLR_OPT_WORD, FIELD(net), "", "DEV[,DEV]",
     "network devices for copies, such as mlx5_0:1 or eth1; the fastest when empty"},
    {"transport", DLR_OPT_TRANSPORT, FIELD(transport), "auto", "auto|stream|ucx",
     "how copies go: sealed over TCP, RDMA by UCX where there is some; ucx: UCX for all, not sealed"},
    {"net-traffic-class", DLR_OPT_UINT, FIELD(net_traffic_class), "0", "N",
     "traffic class of copies on InfiniBand and RoCE, 0 for the network's default"},
    {"stdin-spool", DLR_OPT_SIZE, FIELD(stdin_spool), "64m", "SIZE",
     "of a pipe on srun's stdin this much is kept for later rounds"},
    {"lease-timer", DLR_OPT_SWITCH, FIELD(lease_timer), "on", "on|off",
     "a kernel timer in each worker with libdlrover kills it when its node's lease ends"},
    {"bind", DLR_OPT_BIND, FIELD(bind), "off", "off|numa|cores",
     "bind the ranks of a node near their GPUs: to NUMA nodes, or to cores of their own"},
    {"watch", DLR_OPT_WATCH, FIELD(watch), "off", "auto|all|off",
     "watch the MPI calls of programs that are linked with MPI, of all that a task starts, or of none"},
    {"in-process", DLR_OPT_SWITCH, FIELD(in_process), "off", "on|off",
     "when a node is lost, processes of the other nodes stay where the program lets them"},
    {"warm", DLR_OPT_WORD, FIELD(warm), "", "COMMAND|off",
     "runs ahead on spares; when empty, with in-process=on, the program up to its first round"},
    {"hang", DLR_OPT_HANG, FIELD(hang), "name", "act|name|off",
     "ranks for which a program stands still are named; act: one that never goes on is started again"},
    {"hang-limit", DLR_OPT_SPAN, FIELD(hang_limit_ms), "off", "TIME|off",
     "how long a rank may stand where it is; off: for three of its steps, 3s at least"},
    {"agent-timeout", DLR_OPT_DURATION, FIELD(agent_timeout_ms), "30s", "TIME",
     "limit for the agents of a job to start and report"},
    {"rendezvous-timeout", DLR_OPT_DURATION, FIELD(rendezvous_timeout_ms), "20s", "TIME",
     "limit for one rendezvous"},
    {"transfer-timeout", DLR_OPT_DURATION, FIELD(transfer_timeout_ms), "60s", "TIME",
     "limit for moving copies before a round"},
    {"launch-timeout", DLR_OPT_DURATION, FIELD(launch_timeout_ms), "60s", "TIME",
     "limit for srun to start every task of a round"},
    {"start-timeout", DLR_OPT_DURATION, FIELD(start_timeout_ms), "15m", "TIME",
     "limit beyond these two for nodes and tasks that are on their way: a prolog, an image"},
    {"restore-timeout", DLR_OPT_DURATION, FIELD(restore_timeout_ms), "5m", "TIME",
     "limit from the start of a round's tasks until all have loaded their state"},
    {"end-timeout", DLR_OPT_DURATION, FIELD(end_timeout_ms), "10s", "TIME",
     "limit for the processes of a round to be gone"},
    {"park-timeout", DLR_OPT_DURATION, FIELD(park_timeout_ms), "3s", "TIME",
     "limit for processes that stay to leave a round that has ended"},
    {"persist-timeout", DLR_OPT_DURATION, FIELD(persist_timeout_ms), "60s", "TIME",
     "limit for survivors to write their state before a requeue"},
    {"requeue-timeout", DLR_OPT_DURATION, FIELD(requeue_timeout_ms), "30s", "TIME",
     "limit for slurmctld to take a requeue"},
    {"election-timeout", DLR_OPT_DURATION, FIELD(election_timeout_ms), "10s", "TIME",
     "limit for agents without a supervisor to agree"},
    {"controller-timeout", DLR_OPT_DURATION, FIELD(controller_timeout_ms), "10m", "TIME",
     "limit for slurmctld to be back when it is away and something must be started"},
    {"partition-grace", DLR_OPT_DURATION, FIELD(partition_grace_ms), "10s", "TIME",
     "when more nodes than spares, or half of all, fall silent: wait this much longer"},
    DLR_OPT_END,
};
/* clang-format on */

void dlr_job_config_init(struct dlr_job_config *conf)
{
    struct dlr_err err;

    if (dlr_opt_defaults(dlr_job_config_opts, conf, &err) < 0) {
        fprintf(stderr, "dlr: %s\n", err.text);
        abort();
    }
}

int64_t dlr_job_config_dead_ms(const struct dlr_job_config *conf)
{
    return (int64_t)conf->beat.every_ms * conf->beat.missed;
}

int dlr_job_config_checks(const struct dlr_job_config *conf, bool restart, char *buf,
                          size_t size)
{
    const char *rest = dlr_after(conf->checks, "auto");

    if (!rest || (*rest && *rest != ','))
        return dlr_format(buf, size, "%s", conf->checks);
    return dlr_format(buf, size, "%s%s", restart ? "quick" : "full", rest);
}
