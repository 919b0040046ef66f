/* SPDX-License-Identifier: Apache-2.0 */
/* What to do: one sentence for each cause. */
#include "common/base/str.h"
#include "mpi_launcher/report/model.h"

static const struct {
    const char *cause, *words, *advice;
} table[] = {
    {"node", "a node was lost",
     "The run went on without this node. Look at its console and at slurmd's "
     "log of that time "
     "before it is used again ('scontrol show node', 'sinfo -R')."},
    {"program", "the program failed",
     "The program failed by itself. Its last lines are in the evidence; all "
     "that the journal has "
     "of them: 'dlrover events --event=worker_exit --json'."},
    {"hang", "the program stood still for ever",
     "The line names the ranks to blame and the call in which the others waited "
     "(docs/hangs.md). Calls that do not match and deadlocks are the program's own, "
     "and "
     "come again."},
    {"restore", "a checkpoint could not be loaded",
     "A copy could not be loaded and is not used again. If it happens twice "
     "on one node, have its "
     "memory checked ('dlrover check' there)."},
    {"signal", "the tasks were ended from outside",
     "Slurm or a person ended the tasks: 'sacct -j' says which limit, "
     "preemption or scancel."},
    {"control", "the supervisor or its agents were lost",
     "The supervisor or its agents were lost, not the program: agents.log "
     "in the job's state "
     "directory, and the batch host's log, say why."},
    {"requeue", "the job went back to the queue",
     "Too little was left to go on with. The job goes on when Slurm starts it again; "
     "'dlrover "
     "status' says what it waits for. One more spare node would have kept it running."},
    {"rendezvous", "nodes did not meet",
     "Nodes did not meet: rendezvous.log in the run's directory says "
     "which; 'dlrover doctor' "
     "inside the job tries what it needs."},
    {"controller", "slurmctld was away",
     "slurmctld did not answer when something had to be started. The run "
     "waited; nothing is "
     "to be done in the job."},
    {"suspended", "the job was suspended",
     "Somebody, or Slurm for another job, suspended this one. Time stood "
     "still for it."},
    {"memory", "no room for snapshots",
     "Nothing is saved until there is room: give snapshots more "
     "(--dlrover-set=ckpt-mem), or the "
     "program less."},
    {"saves", "nothing was saved for long",
     "A failure would cost all that was not saved. The line says who is waited for."},
    {"torn", "memory changed during a save",
     "The program changed memory while it was saved: it must call fence before "
     "it writes "
     "(libdlrover(3))."},
    {"copy", "a copy went bad in memory",
     "Memory of this node changed what was stored in it. Have it tested: this "
     "is how bad memory "
     "shows."},
    {"version", "versions were marked bad",
     "The program has said that these versions are bad. It goes on from an older one."},
    {"health", "a check failed",
     "The node was left out by its check. The line says which; "
     "docs/health.md what is to be done."},
    {"end", "the run ended",
     "The run is over and will not go on by itself. The newest checkpoint is "
     "where a new job can "
     "begin."},
};

static size_t row_of(const struct dlr_report_incident *i)
{
    size_t n = 0;

    while (n < sizeof(table) / sizeof(*table) && !dlr_streq(table[n].cause, i->cause))
        n++;
    return n;
}

const char *dlr_report_words(const struct dlr_report_incident *i)
{
    size_t n = row_of(i);

    return n < sizeof(table) / sizeof(*table) ? table[n].words : i->cause;
}

const char *dlr_report_advice(const struct dlr_report_incident *i)
{
    size_t n = row_of(i);

    if (i->advice && dlr_streq(i->cause, "program"))
        return i->advice;
    return n < sizeof(table) / sizeof(*table)
               ? table[n].advice
               : "'dlrover events' has all lines around that time.";
}
