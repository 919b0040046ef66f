/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of srun's arguments: a table of command lines and the plan of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/step_plan/srun_options.h"
#include "mpi_launcher/step_plan/srun_time.h"
#include "mpi_launcher/step_plan/step_plan.h"

struct row {
    const char *line; /* without "srun" */
    const char *plan; /* "options | program | places x world", or the error */
    unsigned nnodes, spares;
    const char *env;         /* "NAME=value NAME=value" */
    unsigned nplaces, world; /* of an earlier incarnation */
    int words;               /* where srun's own parser stopped; 0: not known */
    unsigned most;           /* --dlrover-nodes=MIN:MAX */
};

#define OURS                                                                           \
    "--export=DLROVER_SUPERVISED,DLROVER_ROUND,DLROVER_RUN,DLROVER_KEY,DLROVER_ROUND_" \
    "NODES,"                                                                           \
    "DLROVER_TASKS,DLROVER_MASTER_PORT,DLROVER_AGENT_SOCKET,DLROVER_SHAPE,DLROVER_"    \
    "PER_NODE,DLROVER_DEALT,DLROVER_BIND,DLROVER_WATCH"
#define BY_NODE "the round places tasks by node; say --ntasks or --ntasks-per-node"

/* clang-format off */
static const struct row rows[] = {
    /* sizes */
    {"a.out", " | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"a.out -n 3", " | a.out -n 3 | 4x4 1,1,1,1 cyclic", 5, 1},
    {"-n 8 a.out", " | a.out | 4x8 2,2,2,2 block", 5, 1},
    {"-n8 -l a.out", "-l | a.out | 4x8 2,2,2,2 block", 5, 1},
    {"-ln8 a.out", "-l | a.out | 4x8 2,2,2,2 block", 5, 1},
    {"--ntasks=6 a.out", " | a.out | 4x6 2,2,1,1 block", 5, 1},
    {"--ntasks 6 a.out", " | a.out | 4x6 2,2,1,1 block", 5, 1},
    {"-n 2 a.out", " | a.out | 2x2 1,1 cyclic on n1,n2", 5, 1},
    {"-n x a.out", "srun --ntasks 'x' is not a number from 1 to 1048576", 5, 1},
    {"-n 0 a.out", "srun --ntasks '0' is not a number from 1 to 1048576", 5, 1},
    {"-N 3 a.out", " | a.out | 3x3 1,1,1 cyclic on n1,n2,n3", 5, 1},
    {"-N 2-4 a.out", " | a.out | 4x4 1,1,1,1 block", 5, 1},
    {"-N 2-9 a.out", " | a.out | 4x4 1,1,1,1 block", 5, 1},
    {"-N 1,3,8 a.out", " | a.out | 3x3 1,1,1 cyclic on n1,n2,n3", 5, 1},
    {"-N 1-9:2 a.out", " | a.out | 3x3 1,1,1 block on n1,n2,n3", 5, 1},
    {"-N 2- a.out", "srun --nodes '' is not a number from 1 to 1048576", 5, 1},
    {"-N 1-9:0 a.out", "srun --nodes: step '0' is not a number from 1 to 1048576", 5, 1},
    {"-N 5 a.out",
     "srun --nodes=5 needs more nodes than there are: the allocation of 5 has 4 beside its "
     "1 spare(s) (--dlrover-spares)", 5, 1},
    {"a.out", " | a.out | 3x3 1,1,1 cyclic", 5, 1, .most = 3},
    {"a.out", " | a.out | 4x4 1,1,1,1 cyclic", 5, 1, .most = 9},
    {"-x n2 a.out", " | a.out | 3x3 1,1,1 cyclic not n2", 5, 0, .most = 3},
    {"-N 2-9 a.out", " | a.out | 3x3 1,1,1 block", 5, 1, .most = 3},
    {"-N 4 a.out",
     "srun --nodes=4 needs more nodes than there are: the allocation of 5 has 3 beside its "
     "2 spare(s) (--dlrover-nodes)", 5, 1, .most = 3},
    {"-N 3 -n 2 a.out", "2 task(s) cannot fill 3 nodes: say --nodes=2", 5, 1},
    {"--ntasks-per-node=2 a.out", " | a.out | 4x8 2,2,2,2 block", 5, 1},
    {"--ntasks-per-node=1 -n 3 a.out", " | a.out | 3x3 1,1,1 cyclic on n1,n2,n3", 5, 1},
    {"--ntasks-per-core=1 a.out", "srun --ntasks-per-core cannot be supervised: " BY_NODE, 5, 1},
    {"--ntasks-per-gpu 1 a.out", "srun --ntasks-per-gpu cannot be supervised: " BY_NODE, 5, 1},
    {"--ntasks-per-socket=1 a.out", "srun --ntasks-per-socket cannot be supervised: " BY_NODE, 5, 1},
    {"a.out",
     "--dlrover-spares=5 leaves no node to train on in an allocation of 5: ask for more "
     "nodes or fewer spares", 5, 5},
    {"-c 2 a.out", "-c 2 | a.out | 4x8 2,2,2,2 block", 5, 1, "SLURM_JOB_CPUS_PER_NODE=4(x5)"},
    {"-c3 a.out", "-c3 | a.out | 4x4 1,1,1,1 cyclic", 5, 1, "SLURM_JOB_CPUS_PER_NODE=4(x5)"},
    {"-c 9 a.out", "-c 9 | a.out | 4x4 1,1,1,1 cyclic", 5, 1, "SLURM_JOB_CPUS_PER_NODE=4(x5)"},
    {"-c 2 -n 4 a.out", "-c 2 | a.out | 4x4 1,1,1,1 cyclic", 5, 1, "SLURM_JOB_CPUS_PER_NODE=4(x5)"},
    {"a.out", " | a.out | 4x8 2,2,2,2 block", 5, 1,
     "SRUN_CPUS_PER_TASK=2 SLURM_JOB_CPUS_PER_NODE=4(x5)"},
    {"-c 2 a.out",
     "srun --cpus-per-task=2: the job's nodes have different numbers of CPUs: say --ntasks", 5, 1,
     "SLURM_JOB_CPUS_PER_NODE=4(x4),2"},
    /* sizes of the environment are the allocation's */
    {"a.out", " | a.out | 4x8 2,2,2,2 block", 5, 1, "SLURM_NTASKS_PER_NODE=2"},
    {"a.out", " | a.out | 4x8 2,2,2,2 block", 5, 1, "SLURM_NTASKS=10 SLURM_NPROCS=10"},
    {"-n 4 a.out", " | a.out | 4x4 1,1,1,1 cyclic", 5, 1, "SLURM_NTASKS=10 SLURM_NTASKS_PER_NODE=2"},
    {"a.out", " | a.out | 4x4 1,1,1,1 cyclic", 5, 1, "SLURM_NNODES=5 SLURM_JOB_NUM_NODES=5"},
    {"a.out",
     "SLURM_NTASKS=7 does not divide over 5 nodes, so it is not clear what 4 nodes should "
     "have: say it on srun's command line", 5, 1, "SLURM_NTASKS=7"},
    {"a.out", " | a.out | 2x3 2,1 block", 2, 0, "SLURM_NTASKS=3 SLURM_TASKS_PER_NODE=2,1"},
    {"a.out", " | a.out | 2x64 40,24 block on n1,n2 in order", 2, 0,
     "SLURM_NTASKS=64 SLURM_TASKS_PER_NODE=40,24"},
    {"a.out", " | a.out | 4x10 1,3,3,3 block on n1,n2,n3,n4 in order", 4, 0,
     "SLURM_NTASKS=10 SLURM_TASKS_PER_NODE=1,3(x3)"},
    {"-n 64 a.out", " | a.out | 2x64 32,32 block", 2, 0,
     "SLURM_NTASKS=64 SLURM_TASKS_PER_NODE=40,24"},
    {"--ntasks-per-node=2 a.out", " | a.out | 2x4 2,2 block", 2, 0,
     "SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=3,1"},
    /* what another plugin, or a newer srun, knows: srun's own parser says where they end */
    {"--container-image IMG -N2 a.out", "--container-image IMG | a.out | 2x2 1,1 cyclic on n1,n2", 5, 1,
     .words = 4},
    {"--newer -Y 3 --newest=4 5 -n2 -- a.out -x", "--newer -Y 3 --newest=4 5 | a.out -x | 2x2 1,1 cyclic on n1,n2",
     5, 1, .words = 8},
    {"--tasks-per-node 2 --cpu_bind none a.out", "--cpu_bind none | a.out | 4x8 2,2,2,2 block", 5, 1},
    /* after a requeue */
    {"a.out", " | a.out | 4x4 1,1,1,1 cyclic", 4, 1, "", 4},
    {"a.out", " | a.out | 4x8 2,2,2,2 block", 4, 1, "SLURM_NTASKS=10", 4, 8},
    {"-n 4 a.out", " | a.out | 4x4 1,1,1,1 cyclic", 4, 1, "SLURM_NTASKS=10", 4, 4},
    {"-w n2,n9 -N2 a.out", " | a.out | 2x2 1,1 cyclic on n2", 4, 1, "", 2, 2},
    {"-r 3 -N2 a.out", " | a.out | 2x2 1,1 cyclic on n4", 4, 1, "", 2, 2},
    /* nodes by name */
    {"-w n3 a.out", " | a.out | 4x4 1,1,1,1 cyclic on n3", 5, 1},
    {"-w n3,n2 -N 2 a.out", " | a.out | 2x2 1,1 cyclic on n3,n2", 5, 1},
    {"--nodelist=n3 -N1 -n2 a.out", " | a.out | 1x2 2 block on n3", 5, 1},
    {"-w n3,n3 -N2 a.out", " | a.out | 2x2 1,1 cyclic on n3", 5, 1},
    {"-w ./file -N2 a.out", " | a.out | 2x2 1,1 cyclic on n4,n1", 5, 1},
    {"-F file -N2 a.out", " | a.out | 2x2 1,1 cyclic on n4,n1", 5, 1},
    {"-w n9 a.out", "srun --nodelist: node n9 is not in this job", 5, 1},
    {"-w n1,n2,n3 -N 2 a.out",
     "srun --nodelist names 3 nodes, but 2 are to run tasks beside the spares (--dlrover-spares)",
     5, 1},
    {"-w n1,n2 -n 1 a.out",
     "srun --nodelist names 2 nodes, but 1 are to run tasks: say --nodes", 5, 0},
    {"-x n1 a.out", " | a.out | 3x3 1,1,1 cyclic not n1", 5, 1},
    {"-x n1,n9 -N2 a.out", " | a.out | 2x2 1,1 cyclic on n2,n3 not n1", 5, 1},
    {"-x n1 -w n1 a.out", "node n1 is both in srun --nodelist and in --exclude", 5, 1},
    {"-x n1 -N 4 a.out",
     "srun --nodes=4 needs more nodes than there are: the allocation of 5 has 3 beside its "
     "1 spare(s) (--dlrover-spares) and 1 left out (--exclude)", 5, 1},
    {"-r 1 -N2 a.out", " | a.out | 2x2 1,1 cyclic on n2,n3", 5, 1},
    {"-r 4 -N2 a.out",
     "srun --relative=4: 2 nodes are needed from there on, the allocation of 5 has 1: say --nodes", 5, 1},
    {"-r 1 -x n2 -N2 a.out", " | a.out | 2x2 1,1 cyclic on n3,n4 not n2", 5, 1},
    {"-r 1 -w n1 -N1 a.out", "srun --relative and --nodelist both name nodes: say one", 5, 1},
    {"-r x a.out", "srun --relative 'x' is not a number", 5, 1},
    /* distribution */
    {"-m block -n 8 a.out", " | a.out | 4x8 2,2,2,2 block", 5, 1},
    {"-m cyclic a.out", " | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"-m cyclic -n 8 a.out", " | a.out | 4x8 2,2,2,2 cyclic ranks 0,4,1,5,2,6,3,7", 5, 1},
    {"-m cyclic -n 6 a.out", " | a.out | 4x6 2,2,1,1 cyclic ranks 0,4,1,5,2,3", 5, 1},
    {"-n 8 a.out",
     " | a.out | 4x8 2,2,2,2 cyclic:block ranks 0,4,1,5,2,6,3,7 (srun --distribution=cyclic:block: "
     "nodes are filled so, but within a node Slurm's default holds; --cpu-bind chooses cores)",
     5, 1, "SLURM_DISTRIBUTION=cyclic:block"},
    {"-m cyclic a.out", " | a.out | 4x8 2,2,2,2 cyclic ranks 0,4,1,5,2,6,3,7", 4, 1, "", 4, 8},
    {"-m plane=2 -n 8 a.out", " | a.out | 4x8 2,2,2,2 plane/2", 5, 1},
    {"-m plane=1 -n 8 a.out", " | a.out | 4x8 2,2,2,2 plane/1 ranks 0,4,1,5,2,6,3,7", 5, 1},
    {"-m plane -N2 -n 8 a.out", " | a.out | 2x8 5,3 plane/3 ranks 0,1,2,6,7,3,4,5 on n1,n2", 5, 1,
     "SLURM_DIST_PLANESIZE=3"},
    {"-m plane=4 -N2 -n 6 a.out", " | a.out | 2x6 3,3 plane/4 on n1,n2", 5, 1,
     "SLURM_JOB_CPUS_PER_NODE=3(x5)"},
    {"-m plane=4 -N2 -n 7 a.out", " | a.out | 2x7 4,3 plane/4 on n1,n2", 5, 1,
     "SLURM_JOB_CPUS_PER_NODE=3(x5)"},
    {"-m plane=4 -c2 -N2 -n 6 a.out", "-c2 | a.out | 2x6 3,3 plane/4 on n1,n2", 5, 1,
     "SLURM_JOB_CPUS_PER_NODE=6(x5)"},
    {"-m plane=4 -n 8 a.out",
     "srun --distribution=plane: 8 tasks in planes of 4 do not reach 4 nodes: say --nodes=2 or a "
     "smaller plane", 5, 1},
    {"-m plane -n 8 a.out",
     "srun --distribution=plane needs a size from 1 on: say plane=SIZE", 5, 1},
    {"-m block,Pack -n 8 a.out",
     "srun --distribution=block,Pack cannot be supervised: a round spreads its tasks evenly over "
     "its nodes; leave Pack out, or list the nodes in rank order (arbitrary)", 5, 1},
    {"-m block:cyclic -n 8 a.out", " | a.out | 4x8 2,2,2,2 block:cyclic", 5, 1},
    {"-m block:block -n 8 a.out",
     " | a.out | 4x8 2,2,2,2 block:block (srun --distribution=block:block: nodes are filled so, but "
     "within a node Slurm's default holds; --cpu-bind chooses cores)", 5, 1},
    {"-m arbitrary -w n3,n3,n1 a.out", " | a.out | 2x3 2,1 arbitrary on n3,n1 in order", 5, 1},
    {"-m arbitrary -n 3 -w n3,n3,n1 a.out", " | a.out | 2x3 2,1 arbitrary on n3,n1 in order", 5, 1},
    {"-m arbitrary -n 4 -w n3,n3,n1 a.out",
     "srun --ntasks=4 and 3 nodes in rank order: say one for each task", 5, 1},
    {"-m arbitrary -w n3,n1,n3 a.out",
     " | a.out | 2x3 2,1 arbitrary ranks 0,2,1 on n3,n1 in order", 5, 1},
    {"-m arbitrary a.out",
     "srun --distribution=arbitrary needs the nodes in rank order: add --nodelist or set "
     "SLURM_HOSTFILE", 5, 1},
    {"a.out", " | a.out | 2x2 1,1 arbitrary on n4,n1 in order", 5, 1, "SLURM_HOSTFILE=file"},
    {"-m arbitrary -w n1,n2,n3,n4,n5 a.out",
     "srun --distribution=arbitrary needs more nodes than there are: the allocation of 5 has 4 "
     "beside its 1 spare(s) (--dlrover-spares)", 5, 1},
    /* devices */
    {"--gpus=8 a.out", "--gpus-per-node=2 | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"-G a100:8 a.out", "--gpus-per-node=a100:2 | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"--gpus=6 a.out",
     "srun --gpus=6 does not divide over 4 nodes: say --gpus-per-node or --gpus-per-task", 5, 1},
    {"--gpus=a:4,b:4 a.out",
     "srun --gpus=a:4,b:4 does not divide over 4 nodes: say --gpus-per-node or --gpus-per-task",
     5, 1},
    {"a.out", "--gpus-per-node=2 | a.out | 4x4 1,1,1,1 cyclic", 5, 1, "SLURM_GPUS=10"},
    {"a.out", "--gpus=7 | a.out | 5x5 1,1,1,1,1 cyclic", 5, 0, "SLURM_GPUS=7"},
    {"--gpus-per-node=1 a.out", "--gpus-per-node=1 | a.out | 4x4 1,1,1,1 cyclic", 5, 1, "SLURM_GPUS=7"},
    {"--gres=gpu:1 a.out", "--gres=gpu:1 | a.out | 4x4 1,1,1,1 cyclic", 5, 1, "SLURM_GPUS=7"},
    {"a.out",
     "SLURM_GPUS=7 does not divide over 5 nodes: say --gpus-per-node or --gpus-per-task", 5, 1,
     "SLURM_GPUS=7"},
    {"--gpus-per-task=1 --gpus-per-socket 1 --gpu-bind=none a.out",
     "--gpus-per-task=1 --gpus-per-socket 1 --gpu-bind=none | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    /* environment of tasks */
    {"--export=ALL a.out", "--export=ALL | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"--export=ALL,A=b a.out", "--export=ALL,A=b | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"--export=NONE a.out", OURS " | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"--export=A,B=c a.out", OURS ",A,B=c | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"a.out", OURS " | a.out | 4x4 1,1,1,1 cyclic", 5, 1, "SLURM_EXPORT_ENV=NONE"},
    {"a.out", "--export=ALL | a.out | 4x4 1,1,1,1 cyclic", 5, 1,
     "SRUN_EXPORT_ENV=ALL SLURM_EXPORT_ENV=NONE"},
    {"--export=ALL a.out", "--export=ALL | a.out | 4x4 1,1,1,1 cyclic", 5, 1, "SLURM_EXPORT_ENV=NONE"},
    /* what passes */
    {"--chd /tmp --exclusiv a.out", "--chd /tmp --exact | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"--mpi=pmix -c 2 --mem 4g -- a.out -x",
     "--mpi=pmix -c 2 --mem 4g | a.out -x | 4x4 1,1,1,1 cyclic", 5, 1},
    {"-o out.%t -e err -i in.%t a.out", "-o out.%t -e err -i in.%t | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"-K1 -vv -W 5 -t 10 a.out", "-K1 -v -v -W 5 -t 10 | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"--label --unknown=1 a.out", "--label --unknown=1 | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"--multi-prog conf", "--multi-prog | conf | 4x4 1,1,1,1 cyclic", 5, 1},
    {"--bcast=/tmp/x --cpu-bind=cores --exact a.out",
     "--bcast=/tmp/x --cpu-bind=cores --exact | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    /* what the round says itself */
    {"--overlap --exclusive=user -m block --no-kill a.out", " | a.out | 4x4 1,1,1,1 block", 5, 1},
    {"--dlrover=on --dlrover-spares 1 a.out", " | a.out | 4x4 1,1,1,1 cyclic", 5, 1},
    {"--jobid=7 a.out", " | a.out | 4x4 1,1,1,1 cyclic", 5, 1, "SLURM_JOB_ID=7"},
    {"--jobid=8 a.out",
     "srun --jobid=8 cannot be supervised from job 7: submit it there, or add --dlrover=off to "
     "this srun", 5, 1, "SLURM_JOB_ID=7"},
    /* what is not for us */
    {"--version", "plain", 5, 1},
    {"-n1 a.out : -n2 b.out",
     "plain (srun : COMMAND is run without supervision: a step of several commands cannot do without a node)", 5, 1},
    {"-n1 a.out : -n2 b.out",
     "plain (srun : COMMAND is run without supervision: a step of several commands cannot do without a node)", 5, 1,
     .words = 2},
    {"--ntasks-per-node=1 --kill-on-bad-exit /usr/bin/orted -mca x y",
     "plain (srun : mpirun is run without supervision: it starts the program's processes itself; start them "
     "by srun)", 5, 1},
    {"--pty bash",
     "plain (srun --pty is run without supervision: a terminal cannot be carried over to a new "
     "round)", 5, 1},
    {"--het-group=1 a.out",
     "srun --het-group cannot be supervised: a component of a heterogeneous job cannot do "
     "without a node; add --dlrover=off to this srun", 5, 1},
    {"a.out",
     "SLURM_HET_SIZE is set: a heterogeneous job cannot do without a node; add --dlrover=off to "
     "this srun", 5, 1, "SLURM_HET_SIZE=2"},
    {"-M c2 a.out",
     "srun --clusters cannot be supervised: the step runs in this job's cluster; leave it out", 5, 1},
    {"-Z a.out",
     "srun --no-allocate cannot be supervised: it runs outside of any allocation; leave it out", 5, 1},
    {"--spread-job a.out",
     "srun --spread-job cannot be supervised: the round places tasks by node; say --nodes and "
     "--ntasks", 5, 1},
    {"-n", "srun -n needs an argument", 5, 1},
    {"--ntasks", "srun --ntasks needs an argument", 5, 1},
    {"-%", "srun has no option -% (in '-%')", 5, 1},
    {"-n 4", "srun: no program to run was named", 5, 1},
    {"--dlrover", "srun: no program to run was named", 5, 1},
};
/* clang-format on */

static char *names[] = {"n1", "n2", "n3", "n4", "n5"};

/* Commas only; the one file there is holds n4 and n1. */
static int expand(const char *text, bool is_file, char ***ret_names, unsigned *ret_n,
                  struct dlr_err *err)
{
    char copy[128], *rest, *word;

    snprintf(copy, sizeof(copy), "%s", is_file ? "n4,n1" : text);
    *ret_names = calloc(16, sizeof(**ret_names));
    *ret_n = 0;
    for (word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        (*ret_names)[(*ret_n)++] = strdup(word);
    return 0;
}

static int split(const char *line, char *copy, char **argv)
{
    int argc = 1;

    argv[0] = "srun";
    strcpy(copy, line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    return argc;
}

/* "block", "plane/2" */
static int show_shape(const char *shape, char *buf, size_t size)
{
    const char *at = strstr(shape, " SLURM_DIST_PLANESIZE=");
    char name[16] = "", plane[16] = "";

    sscanf(shape, "SLURM_DISTRIBUTION=%15s", name);
    if (at)
        sscanf(at, " SLURM_DIST_PLANESIZE=%15s", plane);
    return snprintf(buf, size, " %s%s%s", name, at ? "/" : "", plane);
}

static void show(const struct dlr_step_plan *plan, unsigned nnodes, char *buf,
                 size_t size)
{
    size_t n = 0;

    buf[0] = '\0';
    for (unsigned i = 0; i < plan->noptions && !plan->plain; i++)
        n += snprintf(buf + n, size - n, "%s%s", i ? " " : "", plan->options[i]);
    n += snprintf(buf + n, size - n, plan->plain ? "plain" : " |");
    for (char **p = plan->program; !plan->plain && *p; p++)
        n += snprintf(buf + n, size - n, " %s", *p);
    if (!plan->plain)
        n += snprintf(buf + n, size - n, " | %ux%u ", plan->nplaces, plan->world);
    for (unsigned i = 0; i < plan->nplaces && !plan->plain; i++)
        n += snprintf(buf + n, size - n, "%s%u", i ? "," : "", plan->tasks[i]);
    if (!plan->plain)
        n += show_shape(plan->shape, buf + n, size - n);
    for (unsigned i = 0; i < plan->world && plan->ranks; i++)
        n += snprintf(buf + n, size - n, "%s%u", i ? "," : " ranks ", plan->ranks[i]);
    for (unsigned i = 0; i < plan->nprefer; i++)
        n += snprintf(buf + n, size - n, "%s%s", i ? "," : " on ",
                      names[plan->prefer[i]]);
    if (plan->ordered)
        n += snprintf(buf + n, size - n, " in order");
    for (unsigned i = 0; plan->barred && i < nnodes; i++)
        if (plan->barred[i])
            n += snprintf(buf + n, size - n, " not %s", names[i]);
    if (plan->note[0])
        snprintf(buf + n, size - n, " (%s)", plan->note);
}

static void every_line_is_planned_or_refused_as_the_table_says(void **state)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char copy[512], env_copy[512], got[1024], *argv[32], *env[32];
        struct dlr_step_plan_in in = {.nnodes = rows[i].nnodes,
                                      .spares = rows[i].spares,
                                      .nplaces = rows[i].nplaces,
                                      .world = rows[i].world,
                                      .words = rows[i].words,
                                      .most = rows[i].most,
                                      .names = names,
                                      .expand = expand,
                                      .env = env + 1,
                                      .argv = argv};
        struct dlr_step_plan plan;
        struct dlr_err err;

        in.argc = split(rows[i].line, copy, argv);
        split(rows[i].env ? rows[i].env : "", env_copy, env);
        if (dlr_step_plan_make(&in, &plan, &err) < 0) {
            snprintf(got, sizeof(got), "%s", err.text);
        } else {
            show(&plan, rows[i].nnodes, got, sizeof(got));
            dlr_step_plan_done(&plan);
        }
        if (strcmp(got, rows[i].plan))
            print_error("srun %s\n", rows[i].line);
        assert_string_equal(got, rows[i].plan);
    }
}

static void every_option_has_one_row_and_every_refusal_a_reason(void **state)
{
    for (const struct dlr_srun_option *o = dlr_srun_options; o->name; o++) {
        assert_ptr_equal(dlr_srun_find(o->name, strlen(o->name)), o);
        if (o->letter)
            assert_ptr_equal(dlr_srun_find_letter(o->letter), o);
        assert_true(o->action == DLR_SRUN_PLAIN ||
                    (o->action == DLR_SRUN_REFUSE) == (o->why != NULL));
    }
    for (const struct dlr_srun_option *o = dlr_srun_vars; o->name; o++) {
        char entry[64];

        snprintf(entry, sizeof(entry), "%s=x", o->name);
        assert_ptr_equal(dlr_srun_find_var(entry), o);
        assert_int_equal(o->action == DLR_SRUN_REFUSE, o->why != NULL);
    }
    assert_null(dlr_srun_find_var("SLURM_NTASKS_X=x"));
}

static void a_step_has_the_limit_that_srun_gives_it(void **state)
{
    static const struct {
        const char *text;
        int64_t minutes;
    } times[] = {
        {"1", 1},      {"90", 90},      {"1:30", 2},       {"2:00:00", 120},
        {"1-0", 1440}, {"1-2:3", 1563}, {"1-2:3:4", 1564}, {"0", 0},
        {"0:30", 1},   {"-1", 0},       {"INFINITE", 0},   {"unlimited", 0},
        {"", 0},       {"1:2:3:4", 0},  {"soon", 0},       {"5 ", 0},
    };
    static const struct {
        const char *words[4], *env;
        int64_t minutes;
    } lines[] = {
        {{"a.out"}, NULL, 0},
        {{"-t", "5", "a.out"}, NULL, 5},
        {{"-t5", "a.out"}, NULL, 5},
        {{"--time=1:00:00", "a.out"}, NULL, 60},
        {{"a.out", "-t", "5"}, NULL, 0},
        {{"a.out"}, "SLURM_TIMELIMIT=7", 7},
        {{"-t5", "a.out"}, "SLURM_TIMELIMIT=7", 5},
    };

    for (unsigned i = 0; i < sizeof(times) / sizeof(*times); i++)
        if (dlr_srun_time_ms(times[i].text) != times[i].minutes * 60000)
            fail_msg("'%s'", times[i].text);
    for (unsigned i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        char *argv[5] = {"srun"}, *env[] = {(char *)lines[i].env, NULL};
        struct dlr_step_plan_in in = {
            .argc = 1, .argv = argv, .env = env, .nnodes = 2, .names = names};
        struct dlr_step_plan plan;
        struct dlr_err err;

        for (; lines[i].words[in.argc - 1] && in.argc < 5; in.argc++)
            argv[in.argc] = (char *)lines[i].words[in.argc - 1];
        assert_int_equal(dlr_step_plan_make(&in, &plan, &err), 0);
        if (plan.limit_ms != lines[i].minutes * 60000)
            fail_msg("line %u", i);
        dlr_step_plan_done(&plan);
    }
}

#define CPUS "SLURM_CPUS_PER_TASK=2 SLURM_JOB_CPUS_PER_NODE=4(x2)"
#define PER_NODE " SLURM_GPUS_PER_NODE="

static void newer_releases_read_and_tell_variables_in_their_own_way(void **state)
{
    static const struct {
        unsigned release;
        const char *line, *env, *shape;
        unsigned world;
    } lines[] = {
        {2605, "a.out", CPUS, "block", 4},
        {2302, "a.out", CPUS, "cyclic", 2},
        {2605, "-c4 a.out", CPUS, "block", 2},
        {2311, "-c4 a.out", CPUS, "cyclic", 2},
        {2605, "a.out", "SRUN_CPUS_PER_TASK=2", "cyclic", 2},
        {2605, "-n2 a.out", CPUS, "cyclic", 2},
        {2605, "--gpus=4 a.out", "A=b", "cyclic SLURM_GPUS=4" PER_NODE, 2},
        {2205, "--gpus=4 a.out", "A=b", "cyclic", 2},
        {2302, "-G a100:4 a.out", "SLURM_GPUS=8", "cyclic SLURM_GPUS=a100:4" PER_NODE,
         2},
        {2605, "--gpus=4 a.out", "SLURM_GPUS_PER_NODE=3",
         "cyclic SLURM_GPUS=4" PER_NODE "3", 2},
        {2605, "-N1 a.out", "SLURM_GPUS=4", "cyclic SLURM_GPUS=2" PER_NODE, 1},
        {2605, "--gpus-per-node=1 a.out", "SLURM_GPUS=4", "cyclic SLURM_GPUS=4", 2},
        {2605, "--gpus-per-node=1 a.out", "A=b", "cyclic", 2},
    };

    for (unsigned i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        char copy[512], env_copy[512], want[512], *argv[32], *env[32];
        struct dlr_step_plan_in in = {.nnodes = 2,
                                      .names = names,
                                      .expand = expand,
                                      .env = env + 1,
                                      .release = lines[i].release,
                                      .argv = argv};
        struct dlr_step_plan plan;
        struct dlr_err err;

        in.argc = split(lines[i].line, copy, argv);
        split(lines[i].env, env_copy, env);
        snprintf(want, sizeof(want), "SLURM_DISTRIBUTION=%s", lines[i].shape);
        assert_int_equal(dlr_step_plan_make(&in, &plan, &err), 0);
        assert_string_equal(plan.shape, want);
        assert_int_equal(plan.world, lines[i].world);
        dlr_step_plan_done(&plan);
    }
}

/* The words of plan's srun, and of share, with blanks between them. */
static void join_words(char *const *options, const char *const *share, char *buf,
                       size_t size)
{
    size_t at = 0;

    buf[0] = '\0';
    for (; *options; options++)
        at += snprintf(buf + at, size - at, "%s%s", at ? " " : "", *options);
    for (; *share; share++)
        at += snprintf(buf + at, size - at, "%s%s", at ? " " : "", *share);
}

/* The first round queues unless the user says --overlap; a later one takes what it
 * needs, whoever has it.
 */
static void a_round_shares_with_other_steps_as_the_user_says(void **state)
{
    static const struct {
        char *words[4];
        const char *first, *later;
        char *var;
    } lines[] = {
        {{"a.out"}, "", "--overlap"},
        {{"--exclusive", "a.out"}, "--exact", "--exact --overlap"},
        {{"--exclusive=user", "a.out"}, "", "--overlap"},
        {{"a.out", "--overlap"}, "", "--overlap"},
        {{"--overlap", "a.out"}, NULL, "--overlap"},
        {{"--exclusive", "--overlap", "a.out"}, NULL, "--exact --overlap"},
        {{"--exact", "a.out"}, NULL, "--exact --overlap", "SLURM_OVERLAP=1"},
        /* memory */
        {{"a.out"}, "", "--overlap --mem=0", "SLURM_MEM_PER_CPU=800"},
        {{"--overlap", "a.out"}, NULL, "--overlap", "SLURM_MEM_PER_CPU=800"},
        {{"--mem=1g", "a.out"},
         "--mem=1g",
         "--mem=1g --overlap",
         "SLURM_MEM_PER_CPU=1"},
        {{"--mem-per-gpu=1g", "a.out"},
         "--mem-per-gpu=1g",
         "--mem-per-gpu=1g --overlap",
         "SLURM_MEM_PER_CPU=1"},
        {{"a.out"}, "", "--overlap", "SLURM_MEM_PER_NODE=800"},
        {{"--mem-per-cpu=9", "a.out"}, "--mem-per-cpu 9", "--overlap --mem=0"},
        {{"--mem-per-cpu", "9", "a.out"}, "--mem-per-cpu 9", "--overlap --mem=0"},
        {{"--mem-per-cpu=9", "--overlap", "a.out"}, NULL, "--overlap --mem-per-cpu 9"},
    };

    for (unsigned i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        char *argv[5] = {"srun"}, *env[] = {lines[i].var, NULL}, *one[] = {"n1"};
        struct dlr_step_plan_in in = {
            .argc = 1, .argv = argv, .env = env, .nnodes = 1, .names = one};
        const char *share[DLR_STEP_PLAN_SHARE + 1];
        struct dlr_step_plan plan;
        struct dlr_err err;
        char said[128];

        for (; lines[i].words[in.argc - 1]; in.argc++)
            argv[in.argc] = lines[i].words[in.argc - 1];
        assert_int_equal(dlr_step_plan_make(&in, &plan, &err), 0);
        assert_int_equal(plan.overlap, !lines[i].first);
        for (unsigned queues = 0; queues < (plan.overlap ? 1 : 2); queues++) {
            dlr_step_plan_share(&plan, queues, share);
            join_words(plan.options, share, said, sizeof(said));
            assert_string_equal(said, queues ? lines[i].first : lines[i].later);
        }
        dlr_step_plan_done(&plan);
    }
}

static void a_total_of_gpus_that_lies_unevenly_is_known(void **state)
{
    static const struct {
        char *vars[3];
        unsigned spares;
        bool uneven;
    } lines[] = {
        {{"SLURM_GPUS=4", "SLURM_GPUS_ON_NODE=3"}, 0, true},
        {{"SLURM_GPUS=a100:4", "SLURM_GPUS_ON_NODE=1"}, 0, true},
        {{"SLURM_GPUS=4", "SLURM_GPUS_ON_NODE=2"}, 0, false},
        {{"SLURM_GPUS=4", "SLURM_GPUS_ON_NODE=3"}, 1, false}, /* said for each node */
        {{"SLURM_GPUS=4"}, 0, false},
        {{"SLURM_GPUS_ON_NODE=3"}, 0, false},
    };

    for (unsigned i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        char *argv[] = {"srun", "a.out", NULL};
        struct dlr_step_plan_in in = {.argc = 2,
                                      .argv = argv,
                                      .env = lines[i].vars,
                                      .nnodes = 2,
                                      .spares = lines[i].spares,
                                      .names = names};
        struct dlr_step_plan plan;
        struct dlr_err err;

        assert_int_equal(dlr_step_plan_make(&in, &plan, &err), 0);
        assert_int_equal(plan.uneven, lines[i].uneven);
        dlr_step_plan_done(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_total_of_gpus_that_lies_unevenly_is_known),
        cmocka_unit_test(every_line_is_planned_or_refused_as_the_table_says),
        cmocka_unit_test(every_option_has_one_row_and_every_refusal_a_reason),
        cmocka_unit_test(a_step_has_the_limit_that_srun_gives_it),
        cmocka_unit_test(a_round_shares_with_other_steps_as_the_user_says),
        cmocka_unit_test(newer_releases_read_and_tell_variables_in_their_own_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
