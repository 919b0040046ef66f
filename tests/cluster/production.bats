# SPDX-License-Identifier: Apache-2.0
# What only a cluster configured as real sites do it can do to a job: memory and GPUs that are
# confined and counted, an extern step, a narrow launch tree, long timeouts. All of it runs on
# that profile, once.
# bats file_tags=production
load lib/suite
[[ -z ${DLROVER_NIGHTLY-} ]] || export BATS_TEST_TIMEOUT=1200 # what waits for Slurm's own times

setup_file() {
    [[ $PROFILE == production ]] || skip "runs with DLROVER_PROFILE=production"
    cluster_up 5 2
}
teardown_file() { cluster_down; }
setup() {
    # show.sh TICKS: each task says what it was given, then works in ticks of 0.1 s
    job_file show.sh <<'SH'
#!/bin/bash
limit=$(cat /sys/fs/cgroup/memory/slurm*/uid_*/job_"$SLURM_JOB_ID"/memory.limit_in_bytes)
echo "round $DLROVER_ROUND $SLURMD_NODENAME gpus $CUDA_VISIBLE_DEVICES of $((limit >> 20)) MB, $(wc -w <<<"$(taskset -cp $$ | sed 's/.*: //; s/[,-]/ /g')") ends of cores"
for ((i = 0; i < $1; i++)); do
    read -rt 0.1 <> <(:) || :
done
SH
    chmod +x "$(alice_home)/show.sh"
}
teardown() { heal_cluster; }

@test "GPUs and memory go to the tasks of every round: our own steps take none away" {
    batch gpus.sh "-N4 --gpus-per-node=4 --mem=600 --dlrover-spares=1" <<'SH'
srun ./show.sh 30
SH
    job=$(submit gpus.sh)
    wait_until '[ "$(output "$job" | grep -c "^round 0 ")" -eq 3 ]'
    "$VC" kill n2
    # it is COMPLETING on n2 for SlurmdTimeout (300 s) then; an administrator's helper sees that nobody is there
    wait_until '[ "$(ctl squeue -h -w n2 -t CG -o %A)" = "$job" ]'
    ctl /opt/dlrover/share/dlrover/etc/dlrover-probe-down --tries 2 --pause 1
    [[ $(ctl scontrol show node n2) == *State=*DOWN*"Reason=dlrover: slurmd takes no connection, and job $job "* ]]
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(output "$job" | grep -c '^round [01] n[1-5] gpus 0,1,2,3 of 600 MB')" -eq 6 ]
}

@test "a node whose GPU has fallen off the bus is left out: the rendezvous sees the job's GPUs" {
    mkdir -p "$(alice_home)/nvml"
    gcc -shared -fPIC -o "$(alice_home)/nvml/libnvidia-ml.so.1" "$REPO/tests/support/fake_nvml.c"
    batch lost.sh "-N4 --gpus-per-node=4 --dlrover-spares=1" <<'SH'
export LD_LIBRARY_PATH=$HOME/nvml FAKE_NVML=gpus=4,2.error=15 FAKE_NVML_NODE=n2
srun ./show.sh 1
SH
    # Where PMIx refused a node, the plan came of the agents' reports, and their step has no GPU (docs/gpu-health.md).
    for try in 1 2 3 4; do
        job=$(submit lost.sh)
        [ "$(await_job "$job")" = "COMPLETED 0:0" ]
        grep -q "Connection reject" "$(dirname "$(journal "$job")")/rendezvous.log" || break
    done
    echo "try $try"
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)|join(" ")')" = '"n1 n3 n4"' ]
    [ "$(events "$job" 'select(.event=="plan").out[0].reason')" = '"gpu: GPU 2: it has fallen off the bus (NVML 15)"' ]
    [ "$(output "$job" | grep -c '^round 0 n[134] gpus 0,1,2,3 ')" -eq 3 ]
}

@test "a rank that the kernel kills for want of memory: the job comes back with half as much again" {
    batch starve.sh "-N2 --mem=300 --dlrover-spares=0" <<'SH'
srun bash -c 'echo "restart ${SLURM_RESTART_COUNT:-0}"
exec python3 -c "import os; print(len(b\"x\" * (int(os.environ[\"SLURM_PROCID\"]) * 400 << 20)))"'
SH
    job=$(submit starve.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="worker_exit")|[.rank,.class,.rule]')" = '[1,"memory","oom-killed-counter"]' ]
    output "$job" | grep -x "dlrover: rank 1 on n[1-5] wanted more memory than it was given: requeueing the job with more memory, without any node"
    [ "$(output "$job" | grep -cx "restart 1")" -eq 2 ]
    output "$job" | grep -x "$((400 << 20))"
    [[ $(ctl scontrol show job "$job") == *" MinMemoryNode=450M "* ]]
}

@test "a node dead before its agent starts, above others in the launch tree" {
    batch late.sh "-N5 --dlrover-spares=1" <<'SH'
touch "started.$SLURM_JOB_ID"
until [ -e "go.$SLURM_JOB_ID" ]; do read -rt 0.1 <> <(:) || :; done
srun ./show.sh 10
SH
    job=$(submit late.sh)
    wait_until '[ -e "$(alice_home)/started.$job" ]'
    "$VC" kill n2
    touch "$(alice_home)/go.$job"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x "dlrover: node n2: its agent cannot be started: .*"
    [ "$(events "$job" 'select(.event=="node_dead").node')" = '"n2"' ]
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)|join(" ")')" = '"n1 n3 n4 n5"' ]
}

@test "slurmctld notices the death in the middle of the run: it goes on, a later round starts" {
    batch noticed.sh "-N5 --dlrover-spares=1" <<'SH'
srun ./show.sh 80
SH
    job=$(submit noticed.sh)
    await "$job" running
    "$VC" kill n2
    await "$job" "e['event']=='running' and e['round']==1"
    ctl scontrol update nodename=n2 state=down reason=dead
    wait_until 'ctl squeue -h -j "$job" -o %N | grep -q "n\[1,3-5\]"'
    on n3 pkill -KILL -f show.sh
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="round_end").cause' | paste -sd' ')" = '"node" "program"' ]
    [ "$(output "$job" | grep -c '^round 2 ')" -eq 4 ]
}

# SlurmdTimeout is 300 s, cred_expire 120 s: the job gives the dead node back and says when it may begin.
@test "a requeued job comes back by itself: nobody sets its dead node DOWN" {
    batch back.sh "-N4" <<'SH'
srun ./show.sh 30
SH
    job=$(submit back.sh)
    await "$job" running
    "$VC" kill n2
    await "$job" requeue
    # slurmctld waits for the dead node before it starts the job again: a minute and more
    WAIT=180 await "$job" "e['event']=='start' and e['incarnation']==1"
    [[ $(ctl scontrol show node n2) != *State=DOWN* ]]
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)|join(" ")' | tail -n 1)" = '"n1 n3 n4 n5"' ]
}

# A job cannot give its batch host back: it waits for SlurmdTimeout, then for cred_expire.
@test "a job whose batch host died comes back by itself, too" {
    [[ -n ${DLROVER_NIGHTLY-} ]] || skip "it takes eight minutes (make nightly)"
    batch orphan.sh "-N4" <<'SH'
srun ./show.sh 30
SH
    job=$(submit orphan.sh)
    await "$job" running
    "$VC" kill n1
    WAIT=900 await "$job" "e['event']=='start' and e['incarnation']==1"
    [[ $(ctl scontrol show node n1) == *State=DOWN* ]] # by Slurm itself
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)|join(" ")' | tail -n 1)" = '"n2 n3 n4 n5"' ]
}

# What it has saved counts the old round's memory: it refuses the next step until it has heard of the end.
@test "slurmctld is restarted while a round ends: the run goes on" {
    batch restarted.sh "-N3 --mem=600 --dlrover-max-restarts=1" <<'SH'
srun ./show.sh 40
SH
    job=$(submit restarted.sh)
    wait_until '[ "$(output "$job" | grep -c "^round 0 ")" -eq 3 ]'
    on n2 pkill -KILL -f show.sh
    ctl pkill -TERM -x slurmctld
    wait_until '! ctl pgrep -x slurmctld >/dev/null'
    ctl sh -c 'setsid slurmctld >/dev/null 2>&1'
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(output "$job" | grep -c '^round [1-9]')" -eq 3 ]
    [ "$(events "$job" 'select(.event=="end").code')" = 0 ]
}

# ranks.py HELD OWN: each rank holds HELD MB that it does not save, saves OWN MB in each step until step 60, and
# in round 0 rank 1 takes at step 30 more memory than the job has, if it is to
memory_program() {
    job_file ranks.py <<'PY'
import os, sys, time
import dlrover
held, own, greedy = bytearray(int(sys.argv[1]) << 20), bytearray(int(sys.argv[2]) << 20), sys.argv[3] == "greedy"
for at in range(0, len(held), 4096):
    held[at] = 1
with dlrover.Checkpoint() as ck:
    ck.add("w", own)
    step = ck.restore() or 0
    assert own[-1] == step, f"{own[-1]} at step {step}"
    while step < 60:
        step += 1
        ck.fence()
        own[-1] = step
        ck.begin(step)
        if greedy and step == 30 and os.environ["DLROVER_ROUND"] == "0" and os.environ["RANK"] == "1":
            held += b"1" * (600 << 20)
        time.sleep(0.05)
print("done", os.environ["RANK"], flush=True)
PY
    batch ranks.sh "-N2 --mem=600 --dlrover-on=memory:restart" <<SH
export PYTHONPATH=/opt/dlrover/lib/python3/dist-packages
srun python3 ranks.py $*
SH
}

@test "snapshots that do not fit beside the program: a line says so, and nobody is killed" {
    memory_program 300 60 modest
    job=$(submit ranks.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ] || { output "$job" >&2; return 1; }
    output "$job" | grep "snapshots do not fit beside the programs: .* free"
    [ "$(output "$job" | grep '^done' | sort -u | wc -l)" -eq 2 ]
    [ -z "$(events "$job" 'select(.event=="round_end")')" ]
}

@test "a worker that the kernel kills for its memory: the agent lives, and the ranks go on from theirs" {
    memory_program 1 5 greedy
    job=$(submit ranks.sh)
    await "$job" "e['event']=='restored' and e['version'][1]>0" >/dev/null
    [ "$(await_job "$job" | cut -d' ' -f2)" = "0:0" ]
    [ "$(output "$job" | grep '^done' | sort -u | wc -l)" -eq 2 ]
    [ -z "$(events "$job" 'select(.event=="lease_expired" or .event=="node_dead")')" ]
}
