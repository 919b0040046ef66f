# SPDX-License-Identifier: Apache-2.0
# A minute without slurmctld, stopped or hanging: a job loses a task, another one a node. What cannot
# be started waits, and nothing is charged for it. The first has a state: after this time it is on the
# disk, too, without an option.
load lib/suite

setup_file() {
    cluster_up 5 2
    job_file plain.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
#SBATCH --dlrover=on
# no MPI: Slurm's PMIx may hang in the fence of a step that is started here (docs/plugin.md)
srun bash -c 'for i in {1..100}; do read -rt 0.1 <> <(:) || :; done'
code=$?
echo "srun returned $code"
exit $code
SH
    job_file work.py <"$BATS_TEST_DIRNAME/lib/work.py"
    job_file work.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
#SBATCH --dlrover=on
srun python3 work.py
code=$?
echo "srun returned $code"
exit $code
SH
}
teardown_file() { cluster_down; }
teardown() {
    wake_slurmctld 2>/dev/null || :
    ctl pgrep -x slurmctld >/dev/null || start_slurmctld
    heal_cluster
}


# It saves its state first: a job it does not remember would be killed by the one after it.
stop_slurmctld() {
    ctl pkill -TERM -x slurmctld
    wait_until '! ctl pgrep -x slurmctld >/dev/null'
}
start_slurmctld() { ctl sh -c 'setsid slurmctld >/dev/null 2>&1'; }
halt_slurmctld() { ctl pkill -STOP -x slurmctld; }
wake_slurmctld() { ctl pkill -CONT -x slurmctld; }

a_minute_without() { # HOW TO BEGIN IT, HOW TO END IT: two jobs, $task and $node
    local until
    task=$(submit -w n1,n2 -N2 --dlrover-max-restarts=1 work.sh)
    node=$(submit -w n3,n4,n5 -N3 --dlrover-spares=1 --dlrover-max-restarts=0 plain.sh)
    await "$task" "e['event']=='progress' and e['commits']" >/dev/null
    await "$node" running
    "$1"
    until=$((SECONDS + 60))
    on n2 pkill -KILL -f work.py
    "$VC" kill "$(events "$node" 'select(.event=="plan").places[1].node' | tr -d '"')"
    while ((SECONDS < until)); do read -rt 1 <> <(:) || :; done
    for job in "$task" "$node"; do
        [ "$(events "$job" 'select(.event=="running").round' | paste -sd' ')" = 0 ]
        [ -z "$(events "$job" 'select(.event=="end" or .event=="requeue")')" ]
    done
    "$2"
    await "$task" "e['event']=='persisted' and e['version'] and e['bound'] in ('least', 'young-daly', 'duty')" >/dev/null
    alice touch "stop.$task"
    [ "$(await_job "$task")" = "COMPLETED 0:0" ]
    [ "$(await_job "$node")" = "COMPLETED 0:0" ]
    for job in "$task" "$node"; do output "$job" | grep -x "srun returned 0"; done
}

@test "slurmctld is stopped for a minute: what cannot be started waits for it" {
    a_minute_without stop_slurmctld start_slurmctld
    for job in "$task" "$node"; do
        [ -n "$(events "$job" 'select(.event=="controller_back")')" ]
        output "$job" | grep -F "dlrover: slurmctld cannot be reached: waiting for it (--dlrover-set=controller-timeout)"
    done
    [ "$(events "$task" 'select(.event=="round_end").why')" = '"rank 1 was killed by signal 9 (Killed)"' ]
    [ "$(events "$node" 'select(.event=="round_end").cause')" = '"node"' ]
}

@test "slurmctld hangs for a minute: no wait is without an end, and no restart is spent" {
    a_minute_without halt_slurmctld wake_slurmctld
    [ "$(events "$task" 'select(.event=="round_end" and .cause!="control").why')" = '"rank 1 was killed by signal 9 (Killed)"' ]
    [ "$(events "$node" 'select(.event=="round_end" and .cause!="control").cause')" = '"node"' ]
}
