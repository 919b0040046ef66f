/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources. */
#ifndef DLR_MPI_LAUNCHER_AGENT_DATA_DATA_STATE_H
#define DLR_MPI_LAUNCHER_AGENT_DATA_DATA_STATE_H

#include "mpi_launcher/agent/data/data_process.h"
#include "mpi_launcher/agent/data/network.h"
#include "mpi_launcher/process/restart_delay.h"
#include "mpi_launcher/wire/zmq_types.h"

struct dlr_agent_data {
    struct dlr_agent_base *base;
    const struct dlr_agent_self *self;
    const struct dlr_agent_round *round;
    const struct dlr_agent_data_ops *ops;
    void *arg;
    int fd, pidfd; /* -1: not running */
    pid_t pid;
    char address[DLR_AGENT_UCX]; /* "" until it said hello */
    zlistx_t *out;               /* messages that did not fit yet */
    zlistx_t *requests;          /* sends, loads and saves that run */
    uint64_t last_id;
    struct dlr_restart_delay deaths;
    bool local;     /* it was told that peers are on this host */
    bool rests;     /* it died too often: the timer takes its time */
    int timer;      /* -1: off */
    char uses[256]; /* the devices that it said it uses */
    struct dlr_agent_net net;
};

/* --- requests.c */
/* Its number, for D_DONE. 0: it has ended already, since no data process runs. */
uint64_t dlr_agent_requests_add(struct dlr_agent_data *d,
                                const struct dlr_agent_request *q);
/* Request id has ended; none: nothing. */
void dlr_agent_requests_end(struct dlr_agent_data *d, uint64_t id, int rc,
                            const char *why);
/* All have failed. */
void dlr_agent_requests_fail(struct dlr_agent_data *d, const char *why);

#endif
