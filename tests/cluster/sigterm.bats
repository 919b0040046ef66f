# SPDX-License-Identifier: Apache-2.0
# SIGTERM comes to the steps: from scancel, a requeue, the time limit, a preemption, or a user. As without
# us, each task gets it and has until SIGKILL; what was saved is on the disk before the job is gone.
load lib/suite

setup_file() {
    cluster_up 5 2
    ctl sh -c 'printf "%s\n" PreemptType=preempt/partition_prio PreemptMode=REQUEUE \
        "PartitionName=low Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime=60" \
        "PartitionName=high Nodes=ALL PriorityTier=9 PreemptMode=OFF" >>/etc/slurm/slurm.conf'
    ctl pkill -TERM -x slurmctld
    wait_until '! ctl pgrep -x slurmctld >/dev/null'
    ctl sh -c 'setsid slurmctld >/dev/null 2>&1'
    wait_until 'ctl sinfo -h -p low -t idle -o %D | grep -qx 5'
    job_file heed.py <"$BATS_TEST_DIRNAME/lib/heed.py"
    job_file heed.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
#SBATCH --dlrover=on
srun python3 heed.py "$@"
code=$?
echo "srun returned $code"
exit $code
SH
    batch time.sh -N1 <<'SH'
srun -t 1 bash -c 'echo up; exec sleep 300'
echo "srun returned $?"
SH
    job_file warned.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
#SBATCH --dlrover=on -t 30 -N1
srun bash -c 'trap "exit $1" USR1; echo begin >>heed.$SLURM_JOB_ID; for ((;;)); do sleep 0.05; done' warned "$@"
code=$?
echo "srun returned $code"
[ $code -ne 0 ] || exec scontrol requeue "$SLURM_JOB_ID"
exit $code
SH
    job_file plain.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
#SBATCH --dlrover=off
srun bash -c 'trap "sleep 2; echo done >>heed.$SLURM_JOB_ID; exit $1" TERM; echo begin >>heed.$SLURM_JOB_ID
    for ((;;)); do sleep 0.05; done' plain "$@"
SH
}
teardown_file() { cluster_down; }
teardown() { heal_cluster; }

said() { grep -c "^$2" "$(alice_home)/heed.$1" 2>/dev/null || :; }
# The supervisor is killed while it writes: a line may be cut short, the next one goes on behind it.
events() { jq -cR "gsub(\"^.*[^}](?=[{].time.:)\"; \"\") | fromjson? | $2" "$(journal "$1")"; }
saving() { await "$1" "e['event']=='progress' and e['commits']>=2" >/dev/null; }

# written JOB: the step of the newest version that is on the disk
written() {
    find "$(alice_home)/.dlrover/job-$1" -name 'manifest-*' -printf '%f\n' | sed -n 's/^manifest-[0-9]*-\([0-9]*\).json/\1/p' |
        sort -n | tail -n 1
}
# kept JOB: the step of the newest version that was told as committed before SIGTERM
kept() {
    events "$1" 'if .event=="term" then .event else select(.event=="progress").committed[1]//empty end' |
        sed '/term/,$d' | tail -n 1
}

# its_time JOB TASKS: each task was told once, in one round, and came to the end of its handler
its_time() {
    wait_until "[ \"\$(said $1 done)\" -eq $2 ]"
    [ "$(said "$1" begin)" -eq "$2" ]
}

# bats test_tags=production
@test "scancel and the time limit: each task has its time, what was saved is on the disk" {
    plain=$(submit -N1 plain.sh 0)
    cancel=$(submit -N2 heed.sh 0)
    limit=$(submit -N2 heed.sh 3)
    saving "$cancel"
    saving "$limit"
    ctl scontrol update "jobid=$limit" "EndTime=$(date -d '+1 second' +%FT%T)"
    ctl scancel "$plain" "$cancel"
    if alice /opt/dlrover/libexec/dlrover/dlrover-slurm requeue "$plain" - 0 0 1s 0; then
        return 1 # who is elected late must not bring a job back that was cancelled
    fi
    its_time "$plain" 1
    [ "$(await_job "$plain")" = "CANCELLED 0:15" ]
    its_time "$cancel" 2
    [ "$(await_job "$cancel")" = "CANCELLED 0:15" ]
    its_time "$limit" 2
    [ "$(await_job "$limit" | cut -d' ' -f1)" = TIMEOUT ]
    for job in "$cancel" "$limit"; do
        [ "$(written "$job")" -ge "$(kept "$job")" ] ||
            { tail -n 5 "$(journal "$job")" "$(alice_home)/.dlrover/job-$job/agents.log"; output "$job"; return 1; }
        [ "$(events "$job" 'select(.event=="end").why' | tail -n 1)" = '"ended by signal 15 (Terminated)"' ]
        [ -z "$(events "$job" 'select(.why//"" | startswith("the data process "))')" ]
        [ -z "$(events "$job" 'select(.event=="requeue" or .event=="takeover")')" ]
    done
    nothing_left n1 n2 n3 n4 n5
}

@test "scontrol requeue, scancel JOB.STEP: it goes on from what was saved" {
    job=$(submit -N2 heed.sh 0)
    saving "$job"
    alice scontrol requeue "$job"
    its_time "$job" 2
    await "$job" "e['event']=='restored' and e['version'][1]>0" >/dev/null
    [ "$(events "$job" 'select(.event=="restored").version[1]' | tail -n 1)" -ge "$(kept "$job")" ]
    # scancel JOB.STEP: plain Slurm's srun ends with 137; nothing tells it from a failure, so a round begins
    saving "$job"
    plain=$(submit --dlrover=off -N1 --wrap 'srun sleep 300; echo "srun returned $?"' -o out.%j)
    wait_until 'ctl squeue -h -s -j "$plain" -o %i | grep -qx "$plain.0"'
    alice scancel "$plain.0" "$(ctl squeue -h -s -j "$job" -o '%i %j' | awk '$2 == "python3" { print $1 }')"
    await -n 2 "$job" "e['event']=='restored' and e['version'][1]>0" >/dev/null
    alice scancel "$job"
    [ "$(await_job "$job" | cut -d' ' -f1)" = CANCELLED ]
    await_job "$plain" >/dev/null
    output "$plain" | grep -x "srun returned 137"
}

@test "scancel -s TERM, srun --time: the program decides; what it ends with is the run's, and nothing begins anew" {
    limit=$(submit time.sh) # goes on beside the others
    code=$(submit warned.sh 3)
    self=$(submit warned.sh 0)
    plain=$(submit -N1 plain.sh 3)
    job=$(submit -N2 heed.sh 3)
    on=$(submit -N2 heed.sh no)
    saving "$job"
    saving "$on"
    alice scancel -s TERM "$plain" "$job" "$on"
    [ "$(await_job "$plain")" = "FAILED 3:0" ]
    [ "$(await_job "$job")" = "FAILED 3:0" ]
    its_time "$job" 2
    output "$job" | grep -x "srun returned 3"
    output "$job" | grep -x "dlrover: the program has ended after SIGTERM"
    [ "$(written "$job")" -ge "$(kept "$job")" ]
    await "$on" term >/dev/null
    n=$(events "$on" 'select(.event=="progress").commits' | tail -n 1)
    await "$on" "e['event']=='progress' and e['commits']>$n+1" >/dev/null
    alice scancel "$on"
    [ "$(await_job "$on" | cut -d' ' -f1)" = CANCELLED ]
    # as --signal=USR1@600 sends it; a script that requeues itself finds the run to be gone on with
    for job in "$code" "$self"; do
        wait_until '[ "$(said "$job" begin)" -eq 1 ]'
        await "$job" "e['event']=='running'" >/dev/null
    done
    alice scancel -s USR1 "$code" "$self"
    [ "$(await_job "$code")" = "FAILED 3:0" ]
    [ "$(said "$code" begin)" -eq 1 ]
    output "$code" | grep -x "dlrover: the program has ended after signal 10 (User defined signal 1)"
    wait_until '[ "$(said "$self" begin)" -eq 2 ]'
    alice scancel "$self"
    [ "$(await_job "$self" | cut -d' ' -f1)" = CANCELLED ]
    [ "$(await_job "$limit")" = "COMPLETED 0:0" ]
    [ "$(output "$limit" | grep -cx up)" -eq 1 ]
    output "$limit" | grep -x "dlrover: the step's time was over (srun --time)"
    output "$limit" | grep -x "srun returned 143"
}

# The grace is a minute: who is told to end need not sit it out.
@test "preemption: the tasks end in their grace, the job is requeued and goes on" {
    job=$(submit -p low -N4 heed.sh 0)
    saving "$job"
    first=$(submit -p high -N4 --dlrover=off --exclusive --wrap 'sleep 1')
    its_time "$job" 4
    await "$job" requeue >/dev/null
    [ "$(await_job "$first")" = "COMPLETED 0:0" ]
    await "$job" "e['event']=='restored' and e['version'][1]>0" >/dev/null
    [ "$(events "$job" 'select(.event=="requeue")|[.why,(.exclude|length)]')" = '["preempted",0]' ]
    [ "$(events "$job" 'select(.event=="restored").version[1]' | tail -n 1)" -ge "$(kept "$job")" ]
    alice scancel "$job"
    [ "$(await_job "$job" | cut -d' ' -f1)" = CANCELLED ]
}
