/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover-slurm: the calls to slurmctld that supervisor and agents need, in a process that
 * may wait for it and that a requeue's SIGTERM does not stop.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "common/str.h"
#include "mpi_launcher/requeue.h"
#include "mpi_launcher/slurmapi.h"

static void usage(FILE *out)
{
    fputs("usage: dlrover-slurm requeue JOB EXCLUDE MIN-NODES MAX-NODES TIMEOUT\n"
          "       dlrover-slurm cancel-steps JOB SRUN-PID\n"
          "Requeues a job without some nodes ('-': none), or cancels the steps that an "
          "srun\n"
          "started. Called by dlrover-supervisor and dlrover-agent.\n",
          out);
}

static int fail(const struct dlr_err *err)
{
    puts(err->text); /* the caller reads it from our stdout */
    return 1;
}

static int requeue(char **argv)
{
    struct dlr_requeue r = {.exclude = dlr_streq(argv[1], "-") ? "" : argv[1]};
    struct dlr_err err = {0};

    if (dlr_parse_uint(argv[0], UINT32_MAX, &r.job_id) < 0 ||
        dlr_parse_uint(argv[2], 1u << 24, &r.min_nodes) < 0 ||
        dlr_parse_uint(argv[3], 1u << 24, &r.max_nodes) < 0 ||
        dlr_parse_duration_ms(argv[4], &r.timeout_ms) < 0) {
        usage(stderr);
        return 2;
    }
    if (dlr_requeue_job(&r, &err) < 0)
        return fail(&err);
    if (err.code)
        puts(err.text);
    return 0;
}

static int cancel_steps(char **argv)
{
    struct dlr_err err = {0};
    unsigned job, pid;

    if (dlr_parse_uint(argv[0], UINT32_MAX, &job) < 0 ||
        dlr_parse_uint(argv[1], 1u << 30, &pid) < 0) {
        usage(stderr);
        return 2;
    }
    return dlr_slurm_cancel_steps_of(job, pid, &err) < 0 ? fail(&err) : 0;
}

int main(int argc, char **argv)
{
    signal(SIGTERM, SIG_IGN);
    if (argc == 2 && dlr_streq(argv[1], "--help")) {
        usage(stdout);
        return 0;
    }
    if (argc == 2 && dlr_streq(argv[1], "--version")) {
        puts("dlrover-slurm " DLR_VERSION);
        return 0;
    }
    if (argc == 7 && dlr_streq(argv[1], "requeue"))
        return requeue(argv + 2);
    if (argc == 4 && dlr_streq(argv[1], "cancel-steps"))
        return cancel_steps(argv + 2);
    usage(stderr);
    return 2;
}
