/* SPDX-License-Identifier: Apache-2.0 */
/* What mpi_launcher/slurm/compat.h and mpi_launcher/slurm/api.c use of <slurm/slurm.h>,
 * declared as release DLR_SLURM declares it (0x1605 is 22.05), so that `make
 * check-slurm-api` can compile for releases whose headers are not on this machine.
 * Written from what was read in slurm/slurm.h of tag slurm-22-05-8-1 and of branches
 * slurm-23.02 to slurm-25.11 (github.com/SchedMD/slurm), and in Debian's libslurm-dev
 * 24.11.5 and 26.05.5; names and types only, members that are not used left out:
 * compiles, never runs.
 */
#ifndef DLR_TESTS_SLURM_API_H
#define DLR_TESTS_SLURM_API_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define SLURM_VERSION_NUM(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define SLURM_VERSION_NUMBER (DLR_SLURM << 8)

#define SLURM_SUCCESS 0
#define NO_VAL 0xfffffffe
#define NO_VAL16 0xfffe
#define NO_VAL64 0xfffffffffffffffe
#define MEM_PER_CPU 0x8000000000000000
#define SHOW_ALL 0x0001
#define SHOW_DETAIL 0x0002
#define JOB_STATE_BASE 0x000000ff
#define JOB_COMPLETING 0x00008000
#define SLURM_PENDING_STEP (0xfffffffd)
#if DLR_SLURM >= 0x190b
#define EXPEDITED_REQUEUE (1ull << 45)
#endif
enum { JOB_PENDING, JOB_RUNNING, JOB_SUSPENDED };

typedef struct {
    uint32_t job_id, step_het_comp, step_id;
#if DLR_SLURM >= 0x190b
    uint64_t sluid;
#endif
} slurm_step_id_t;

#if DLR_SLURM >= 0x170b
typedef struct hostlist hostlist_t;
#define HOSTLIST hostlist_t *
#else
typedef struct hostlist *hostlist_t;
#define HOSTLIST hostlist_t
#endif
HOSTLIST slurm_hostlist_create(const char *names);
int slurm_hostlist_count(HOSTLIST hl);
char *slurm_hostlist_shift(HOSTLIST hl);
void slurm_hostlist_destroy(HOSTLIST hl);

typedef struct {
    char *batch_host, *exc_nodes, *mem_per_tres, *nodes, *partition, *req_nodes;
    uint32_t job_id, job_state, num_cpus, num_nodes, num_tasks, restart_cnt;
    time_t preempt_time, submit_time, end_time;
    uint64_t bitflags, pn_min_memory;
    uint16_t ntasks_per_node, requeue;
} slurm_job_info_t;
typedef struct {
    uint32_t record_count;
    slurm_job_info_t *job_array;
} job_info_msg_t;
typedef struct {
#if DLR_SLURM >= 0x190b
    slurm_step_id_t step_id;
#else
    uint32_t job_id;
#endif
    uint32_t min_nodes, max_nodes, num_tasks;
    uint64_t pn_min_memory;
    char *exc_nodes, *req_nodes;
    time_t begin_time;
} job_desc_msg_t;
typedef struct {
    char *authinfo, *sched_params;
    uint64_t max_mem_per_cpu;
    uint16_t accounting_storage_enforce;
    uint16_t kill_wait;
    uint16_t slurmd_timeout;
} slurm_conf_t;
int slurm_load_ctl_conf(time_t update_time, slurm_conf_t **conf);
#if DLR_SLURM >= 0x1a05
void slurm_free_conf(slurm_conf_t *conf);
#else
void slurm_free_ctl_conf(slurm_conf_t *conf);
#endif
#define NODE_STATE_BASE 0x0000000f
#define NODE_STATE_NO_RESPOND 0x00000800
enum { NODE_STATE_UNKNOWN, NODE_STATE_DOWN };
typedef struct {
    char *name, *node_addr;
    uint64_t real_memory, mem_spec_limit;
    uint32_t node_state;
    uint16_t port;
} node_info_t;
typedef struct {
    uint32_t record_count;
    node_info_t *node_array;
} node_info_msg_t;
typedef struct {
    char *name, *nodes;
    uint64_t max_mem_per_cpu;
} partition_info_t;
typedef struct {
    uint32_t record_count;
    partition_info_t *partition_array;
} partition_info_msg_t;
int slurm_load_partitions(time_t update_time, partition_info_msg_t **resp,
                          uint16_t show_flags);
void slurm_free_partition_info_msg(partition_info_msg_t *msg);
int slurm_load_node(time_t update_time, node_info_msg_t **resp, uint16_t show_flags);
int slurm_load_node_single(node_info_msg_t **resp, char *node_name,
                           uint16_t show_flags);
void slurm_free_node_info_msg(node_info_msg_t *msg);
typedef struct {
    slurm_step_id_t step_id;
    char *srun_host;
    uint32_t srun_pid;
} job_step_info_t;
typedef struct job_step_info_response_msg {
    uint32_t job_step_count;
    job_step_info_t *job_steps;
} job_step_info_response_msg_t;

void slurm_init(const char *conf);
int slurm_ping(int dest);
long slurm_api_version(void);
#if DLR_SLURM >= 0x1a05 && !defined(SLURM_BACKWARD_COMPAT)
int slurm_load_job(job_info_msg_t **resp, slurm_step_id_t *step_id, uint16_t flags);
int slurm_requeue(slurm_step_id_t *step_id, uint32_t flags);
#else
int slurm_load_job(job_info_msg_t **resp, uint32_t job_id, uint16_t flags);
int slurm_requeue(uint32_t job_id, uint32_t flags);
#endif
void slurm_free_job_info_msg(job_info_msg_t *msg);
void slurm_init_job_desc_msg(job_desc_msg_t *desc);
int slurm_update_job(job_desc_msg_t *desc);
void slurm_free_job_step_info_response_msg(job_step_info_response_msg_t *msg);

#if DLR_SLURM >= 0x190b
int slurm_get_job_steps(slurm_step_id_t *step_id, job_step_info_response_msg_t **resp,
                        uint16_t flags);
int slurm_kill_job_step(slurm_step_id_t *step_id, uint16_t signal, uint16_t flags);
#else
int slurm_get_job_steps(time_t since, uint32_t job_id, uint32_t step_id,
                        job_step_info_response_msg_t **resp, uint16_t flags);
#if DLR_SLURM >= 0x170b
int slurm_kill_job_step(uint32_t job_id, uint32_t step_id, uint16_t signal,
                        uint16_t flags);
#else
int slurm_kill_job_step(uint32_t job_id, uint32_t step_id, uint16_t signal);
#endif
#endif

#endif
