/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/step_plan/srun_options.h"

#include <string.h>

#include "common/base/env.h"

#define NO_ARG DLR_SRUN_NO_ARG
#define ARG DLR_SRUN_ARG
#define OPTIONAL_ARG DLR_SRUN_OPTIONAL_ARG
#define PASS DLR_SRUN_PASS
#define DROP DLR_SRUN_DROP
#define REFUSE DLR_SRUN_REFUSE
#define PLAIN DLR_SRUN_PLAIN
#define TAKE(what) DLR_SRUN_##what

/* Names, letters and arguments as in srun(1); sorted by name. */
/* clang-format off */
const struct dlr_srun_option dlr_srun_options[] = {
    {"accel-bind", 0, ARG, PASS, NULL},
    {"account", 'A', ARG, PASS, NULL},
    {"acctg-freq", 0, ARG, PASS, NULL},
    {"async", 0, NO_ARG, PLAIN,
     "srun does not wait for its tasks"},
    {"autocomplete", 0, ARG, PLAIN, NULL},
    {"bb", 0, ARG, PASS, NULL},
    {"bbf", 0, ARG, PASS, NULL},
    {"bcast", 0, OPTIONAL_ARG, PASS, NULL},
    {"bcast-exclude", 0, ARG, PASS, NULL},
    {"begin", 'b', ARG, PASS, NULL},
    {"chdir", 'D', ARG, PASS, NULL},
    {"cluster", 0, ARG, REFUSE,
     "the step runs in this job's cluster; leave it out"},
    {"cluster-constraint", 0, ARG, PASS, NULL},
    {"clusters", 'M', ARG, REFUSE,
     "the step runs in this job's cluster; leave it out"},
    {"comment", 0, ARG, PASS, NULL},
    {"compress", 0, OPTIONAL_ARG, PASS, NULL},
    {"consolidate-segments", 0, NO_ARG, DROP, NULL},
    {"constraint", 'C', ARG, PASS, NULL},
    {"container", 0, ARG, PASS, NULL},
    {"container-id", 0, ARG, PASS, NULL},
    {"container-type", 0, ARG, PASS, NULL},
    {"context", 0, ARG, PASS, NULL},
    {"contiguous", 0, NO_ARG, PASS, NULL},
    {"core-spec", 'S', ARG, PASS, NULL},
    {"cores-per-socket", 0, ARG, PASS, NULL},
    {"cpu-bind", 0, ARG, PASS, NULL},
    {"cpu-freq", 0, ARG, PASS, NULL},
    {"cpu_bind", 0, ARG, PASS, NULL},
    {"cpus-per-gpu", 0, ARG, PASS, NULL},
    {"cpus-per-task", 'c', ARG, PASS, NULL},
    {"deadline", 0, ARG, PASS, NULL},
    {"debugger-test", 0, NO_ARG, PLAIN, NULL},
    {"delay-boot", 0, ARG, PASS, NULL},
    {"dependency", 'd', ARG, PASS, NULL},
    {"disable-status", 'X', NO_ARG, PASS, NULL},
    {"distribution", 'm', ARG, TAKE(DISTRIBUTION), NULL},
    {"epilog", 0, ARG, PASS, NULL},
    {"error", 'e', ARG, PASS, NULL},
    {"exact", 0, NO_ARG, PASS, NULL},
    {"exclude", 'x', ARG, TAKE(EXCLUDE), NULL},
    {"exclusive", 0, OPTIONAL_ARG, TAKE(EXCLUSIVE), NULL},
    {"export", 0, ARG, TAKE(EXPORT), NULL},
    {"export-file", 0, ARG, PASS, NULL},
    {"external-launcher", 0, OPTIONAL_ARG, PLAIN,
     "the program starts its tasks by itself"},
    {"extra", 0, ARG, PASS, NULL},
    {"extra-node-info", 'B', ARG, PASS, NULL},
    {"gid", 0, ARG, PASS, NULL},
    {"gpu-bind", 0, ARG, PASS, NULL},
    {"gpu-freq", 0, ARG, PASS, NULL},
    {"gpus", 'G', ARG, TAKE(GPUS), NULL},
    {"gpus-per-node", 0, ARG, PASS, NULL},
    {"gpus-per-socket", 0, ARG, PASS, NULL},
    {"gpus-per-task", 0, ARG, PASS, NULL},
    {"gres", 0, ARG, PASS, NULL},
    {"gres-flags", 0, ARG, PASS, NULL},
    {"help", 'h', NO_ARG, PLAIN, NULL},
    {"het-group", 0, ARG, REFUSE,
     "a component of a heterogeneous job cannot do without a node; add --dlrover=off to this srun"},
    {"hint", 0, ARG, PASS, NULL},
    {"hold", 'H', NO_ARG, PASS, NULL},
    {"ignore-signals", 0, ARG, PASS, NULL},
    {"immediate", 'I', OPTIONAL_ARG, PASS, NULL},
    {"input", 'i', ARG, PASS, NULL},
    {"interactive", 0, NO_ARG, PASS, NULL},
    {"job-name", 'J', ARG, PASS, NULL},
    {"jobid", 0, ARG, TAKE(JOBID), NULL},
    {"kill-on-bad-exit", 'K', OPTIONAL_ARG, PASS, NULL},
    {"label", 'l', NO_ARG, PASS, NULL},
    {"licenses", 'L', ARG, PASS, NULL},
    {"mail-type", 0, ARG, PASS, NULL},
    {"mail-user", 0, ARG, PASS, NULL},
    {"mcs-label", 0, ARG, PASS, NULL},
    {"mem", 0, ARG, PASS, NULL},
    {"mem-bind", 0, ARG, PASS, NULL},
    {"mem-per-cpu", 0, ARG, TAKE(MEM_PER_CPU), NULL},
    {"mem-per-gpu", 0, ARG, PASS, NULL},
    {"mem-update", 0, ARG, PASS, NULL},
    {"mincpus", 0, ARG, PASS, NULL},
    {"mpi", 0, ARG, PASS, NULL},
    {"msg-timeout", 0, ARG, PASS, NULL},
    {"multi-prog", 0, NO_ARG, PASS, NULL},
    {"network", 0, ARG, PASS, NULL},
    {"nice", 0, OPTIONAL_ARG, PASS, NULL},
    {"no-allocate", 'Z', NO_ARG, REFUSE,
     "it runs outside of any allocation; leave it out"},
    {"no-kill", 'k', OPTIONAL_ARG, DROP, NULL},
    {"nodefile", 'F', ARG, TAKE(NODEFILE), NULL},
    {"nodelist", 'w', ARG, TAKE(NODELIST), NULL},
    {"nodes", 'N', ARG, TAKE(NODES), NULL},
    {"ntasks", 'n', ARG, TAKE(NTASKS), NULL},
    {"ntasks-per-core", 0, ARG, REFUSE,
     "the round places tasks by node; say --ntasks or --ntasks-per-node"},
    {"ntasks-per-gpu", 0, ARG, REFUSE,
     "the round places tasks by node; say --ntasks or --ntasks-per-node"},
    {"ntasks-per-node", 0, ARG, TAKE(PER_NODE), NULL},
    {"ntasks-per-socket", 0, ARG, REFUSE,
     "the round places tasks by node; say --ntasks or --ntasks-per-node"},
    {"ntasks-per-tres", 0, ARG, REFUSE,
     "the round places tasks by node; say --ntasks or --ntasks-per-node"},
    {"oom-kill-step", 0, OPTIONAL_ARG, PASS, NULL},
    {"open-mode", 0, ARG, PASS, NULL},
    {"output", 'o', ARG, PASS, NULL},
    {"overcommit", 'O', NO_ARG, PASS, NULL},
    {"overlap", 0, OPTIONAL_ARG, DROP, NULL},
    {"oversubscribe", 's', NO_ARG, PASS, NULL},
    {"pack-group", 0, ARG, REFUSE,
     "a component of a heterogeneous job cannot do without a node; add --dlrover=off to this srun"},
    {"parsable", 0, NO_ARG, PASS, NULL},
    {"partition", 'p', ARG, PASS, NULL},
    {"power", 0, ARG, PASS, NULL},
    {"prefer", 0, ARG, PASS, NULL},
    {"preserve-env", 'E', NO_ARG, DROP, NULL},
    {"priority", 0, ARG, PASS, NULL},
    {"profile", 0, ARG, PASS, NULL},
    {"prolog", 0, ARG, PASS, NULL},
    {"propagate", 0, OPTIONAL_ARG, PASS, NULL},
    {"pty", 0, OPTIONAL_ARG, PLAIN,
     "a terminal cannot be carried over to a new round"},
    {"qos", 'q', ARG, PASS, NULL},
    {"quiet", 'Q', NO_ARG, PASS, NULL},
    {"quit-on-interrupt", 0, NO_ARG, PASS, NULL},
    {"reboot", 0, NO_ARG, PASS, NULL},
    {"relative", 'r', ARG, TAKE(RELATIVE), NULL},
    {"reservation", 0, ARG, PASS, NULL},
    {"resources", 0, ARG, PASS, NULL},
    {"resv-ports", 0, OPTIONAL_ARG, PASS, NULL},
    {"segment", 0, ARG, DROP, NULL},
    {"send-libs", 0, OPTIONAL_ARG, PASS, NULL},
    {"signal", 0, ARG, PASS, NULL},
    {"slurmd-debug", 0, ARG, PASS, NULL},
    {"sockets-per-node", 0, ARG, PASS, NULL},
    {"spread-job", 0, NO_ARG, REFUSE,
     "the round places tasks by node; say --nodes and --ntasks"},
    {"spread-segments", 0, NO_ARG, DROP, NULL},
    {"stepmgr", 0, NO_ARG, PASS, NULL},
    {"switches", 0, ARG, PASS, NULL},
    {"task-epilog", 0, ARG, PASS, NULL},
    {"task-prolog", 0, ARG, PASS, NULL},
    {"tasks-per-node", 0, ARG, TAKE(PER_NODE), NULL},
    {"test-only", 0, NO_ARG, PLAIN, NULL},
    {"thread-spec", 0, ARG, PASS, NULL},
    {"threads", 'T', ARG, PASS, NULL},
    {"threads-per-core", 0, ARG, PASS, NULL},
    {"time", 't', ARG, PASS, NULL},
    {"time-min", 0, ARG, PASS, NULL},
    {"tmp", 0, ARG, PASS, NULL},
    {"treewidth", 0, ARG, PASS, NULL},
    {"tres-bind", 0, ARG, PASS, NULL},
    {"tres-per-task", 0, ARG, PASS, NULL},
    {"uid", 0, ARG, PASS, NULL},
    {"unbuffered", 'u', NO_ARG, PASS, NULL},
    {"usage", 0, NO_ARG, PLAIN, NULL},
    {"use-min-nodes", 0, NO_ARG, DROP, NULL},
    {"verbose", 'v', NO_ARG, PASS, NULL},
    {"version", 'V', NO_ARG, PLAIN, NULL},
    {"wait", 'W', ARG, PASS, NULL},
    {"wait-for-children", 0, NO_ARG, PASS, NULL},
    {"wckey", 0, ARG, PASS, NULL},
    {"whole", 0, NO_ARG, PASS, NULL},
    {"x11", 0, OPTIONAL_ARG, PASS, NULL},
    {NULL, 0, NO_ARG, PASS, NULL},
};

/* Variables that srun reads (srun(1), INPUT ENVIRONMENT VARIABLES) and that say where tasks go;
 * and what it leaves to the sruns inside a task. All others pass. A job's environment speaks of
 * the whole allocation, a round has its own size.
 */
const struct dlr_srun_option dlr_srun_vars[] = {
    {"SLURM_CLUSTERS", 0, ARG, DROP, NULL},
    {"SLURM_DISTRIBUTION", 0, ARG, TAKE(DISTRIBUTION), NULL},
    {"SLURM_DIST_PLANESIZE", 0, ARG, DROP, NULL},
    {"SLURM_EXCLUSIVE", 0, ARG, DROP, NULL},
    {"SLURM_EXPORT_ENV", 0, ARG, TAKE(EXPORT), NULL},
    {"SLURM_GPUS", 0, ARG, TAKE(GPUS), NULL},
    {"SLURM_HET_SIZE", 0, ARG, REFUSE,
     "a heterogeneous job cannot do without a node; add --dlrover=off to this srun"},
    {"SLURM_HOSTFILE", 0, ARG, TAKE(HOSTFILE), NULL},
    {"SLURM_JOB_CPUS_PER_NODE", 0, ARG, DROP, NULL},
    {"SLURM_JOB_NODELIST", 0, ARG, DROP, NULL},
    {"SLURM_JOB_NUM_NODES", 0, ARG, DROP, NULL},
    {"SLURM_NNODES", 0, ARG, DROP, NULL},
    {"SLURM_NODELIST", 0, ARG, DROP, NULL},
    {"SLURM_NO_KILL", 0, ARG, DROP, NULL},
    {"SLURM_NPROCS", 0, ARG, DROP, NULL},
    {"SLURM_NTASKS", 0, ARG, TAKE(NTASKS), NULL},
    {"SLURM_NTASKS_PER_CORE", 0, ARG, DROP, NULL},
    {"SLURM_NTASKS_PER_GPU", 0, ARG, DROP, NULL},
    {"SLURM_NTASKS_PER_NODE", 0, ARG, TAKE(PER_NODE), NULL},
    {"SLURM_NTASKS_PER_SOCKET", 0, ARG, DROP, NULL},
    {"SLURM_NTASKS_PER_TRES", 0, ARG, DROP, NULL},
    {"SLURM_OVERLAP", 0, ARG, DROP, NULL},
    {"SLURM_SPREAD_JOB", 0, ARG, DROP, NULL},
    {"SLURM_STEP_NODELIST", 0, ARG, DROP, NULL},
    {"SLURM_STEP_NUM_NODES", 0, ARG, DROP, NULL},
    {"SLURM_STEP_NUM_TASKS", 0, ARG, DROP, NULL},
    {"SLURM_STEP_TASKS_PER_NODE", 0, ARG, DROP, NULL},
    {"SLURM_TASKS_PER_NODE", 0, ARG, DROP, NULL},
    {"SLURM_USE_MIN_NODES", 0, ARG, DROP, NULL},
    {"SRUN_EXPORT_ENV", 0, ARG, TAKE(EXPORT), NULL},
    {NULL, 0, NO_ARG, PASS, NULL},
};
/* clang-format on */

const struct dlr_srun_option *dlr_srun_find(const char *name, size_t len)
{
    const struct dlr_srun_option *found = NULL;

    for (const struct dlr_srun_option *o = dlr_srun_options; o->name; o++) {
        if (strncmp(o->name, name, len) != 0)
            continue;
        if (!o->name[len])
            return o;
        if (found)
            return NULL; /* ambiguous: srun itself will say so */
        found = o;
    }
    return found;
}

const struct dlr_srun_option *dlr_srun_find_letter(char letter)
{
    for (const struct dlr_srun_option *o = dlr_srun_options; o->name; o++)
        if (o->letter == letter)
            return o;
    return NULL;
}

const struct dlr_srun_option *dlr_srun_find_var(const char *entry)
{
    for (const struct dlr_srun_option *o = dlr_srun_vars; o->name; o++)
        if (dlr_env_value(entry, o->name))
            return o;
    return NULL;
}
