/* SPDX-License-Identifier: Apache-2.0 */
/* The table of checks, and running one of them within its limit. */
#include "mpi_launcher/doctor/doctor.h"

#include <errno.h>
#include <string.h>

#define HOST DLR_DOCTOR_HOST
#define NODE DLR_DOCTOR_NODE
#define JOB DLR_DOCTOR_JOB
// clang-format off
const struct dlr_doctor_check dlr_doctor_checks[] = {
    {"plugstack", "plugstack.conf loads the plugin, as optional", HOST | NODE, dlr_doctor_plugstack},
    {"plugin", "the plugin's file is there and built for this Slurm", HOST | NODE, dlr_doctor_plugin},
    {"programs", "programs and library are there, all of one version", HOST | NODE, dlr_doctor_programs},
    {"slurmd", "slurmd was started since the plugin was installed", HOST | NODE, dlr_doctor_slurmd},
    {"slurmctld", "slurmctld answers and is of the release of the commands", HOST, dlr_doctor_slurmctld},
    {"munge", "a credential can be made and read", HOST | NODE, dlr_doctor_munge},
    {"pmix", "srun can start MPI programs with PMIx", HOST, dlr_doctor_pmix},
    {"ports", "srun may listen, on enough ports of SrunPortRange", HOST, dlr_doctor_ports},
    {"shm", "/dev/shm is there and has room", HOST | NODE, dlr_doctor_shm},
    {"tmpfs", "each job's own tmpfs in /run/dlrover can be mounted", HOST | NODE, dlr_doctor_tmpfs},
    {"memory", "memory for snapshots, uncorrected errors", HOST | NODE, dlr_doctor_memory},
    {"memlock", "the limit of locked memory, where RDMA needs it", HOST | NODE, dlr_doctor_memlock},
    {"ipc", "logind does not remove snapshots (RemoveIPC)", HOST | NODE, dlr_doctor_ipc},
    {"ucx", "networks that UCX finds", HOST | NODE, dlr_doctor_ucx},
    {"proctrack", "ProctrackType finds every process of a step", HOST, dlr_doctor_proctrack},
    {"container", "JobContainerType leaves /dev/shm to the job", HOST, dlr_doctor_container},
    {"task", "TaskPlugin and memory limits", HOST, dlr_doctor_task},
    {"topology", "TopologyPlugin knows switches", HOST, dlr_doctor_topology},
    {"prolog", "PrologFlags and node failures", HOST, dlr_doctor_prolog},
    {"requeue", "JobRequeue and the time a requeue takes", HOST, dlr_doctor_requeue},
    {"supervised", "an srun of this job would be supervised", JOB, dlr_doctor_supervised},
    {"state", "the state directory answers and can be written", JOB, dlr_doctor_state},
    {"budget", "memory of the job for snapshots", JOB, dlr_doctor_budget},
    {"nodes", "the checks above on each node of the job, and equal versions", JOB, dlr_doctor_nodes},
    {"clock", "the nodes' clocks", JOB, dlr_doctor_clock},
    {"network", "each node reaches this host, as beats have to", JOB, dlr_doctor_network},
    {"shared", "each node sees the state directory", JOB, dlr_doctor_shared},
    {NULL, NULL, 0, NULL},
};
// clang-format on

/* dlr_doctor_bounded() copies what fn leaves and gives it nothing: the check comes in
 * by this.
 */
static const struct dlr_doctor_check *running;

static void run_check(const struct dlr_doctor *d, void *ret)
{
    running->run(d, ret);
}

void dlr_doctor_run(const struct dlr_doctor *d, const struct dlr_doctor_check *check,
                    struct dlr_doctor_result *ret)
{
    int rc;

    memset(ret, 0, sizeof(*ret));
    running = check;
    rc = dlr_doctor_bounded(run_check, d, ret, sizeof(*ret), d->limit_ms, check->name);
    if (rc == -ETIMEDOUT)
        dlr_doctor_say(ret, DLR_DOCTOR_PROBLEM,
                       "no answer within %.1f s: what this looks at hangs (%s)",
                       (double)d->limit_ms / 1000, check->help);
    else if (rc < 0)
        dlr_doctor_say(ret, DLR_DOCTOR_SKIP, "the check itself failed: %s",
                       strerror(-rc));
}
