# SPDX-License-Identifier: Apache-2.0
# An MPI program that knows nothing of the suite, under every failure of this release. What
# must come out is its own result: "done: sum N" with the right N, and exit code 0.
load lib/suite

setup_file() { cluster_up 5 2; }
teardown_file() { cluster_down; }
setup() {
    # the sum of mpi_plain: every iteration k adds k*(k+1)/2-like terms; it checks itself
    job_file plain.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
#SBATCH --dlrover=on
export SLURM_MPI_TYPE=pmix
srun /opt/dlrover/share/dlrover/examples/mpi_plain "$@"
code=$?
echo "srun returned $code"
exit $code
SH
}
teardown() { heal_cluster; }


# result JOB ITERATIONS TASKS: the program ended well, with the right sum
result() { output "$1" | grep -x "done: sum $2"; }

# bats test_tags=production
@test "a worker killed by SIGKILL: all ranks start again on their nodes" {
    job=$(submit -N5 --dlrover-spares=1 plain.sh --iterations 30 --iter-ms 100)
    await "$job" running
    wait_until "on n2 pkill -KILL -x mpi_plain" # a task that has begun may be slurmstepd yet
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    result "$job" 4650
    [ "$(events "$job" 'select(.event=="round_end").why')" = '"rank 1 was killed by signal 9 (Killed)"' ]
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)' | sort -u | wc -l)" -eq 1 ]
    [ "$(events "$job" 'select(.event=="worker_exit")|[.rank,.node,.signal]')" = '[1,"n2",9]' ]
}

# bats test_tags=production
@test "a node that dies: a spare under the same switch takes its ranks, no other moves" {
    job=$(submit -N5 --dlrover-spares=1 --dlrover-group=2 plain.sh --iterations 30 --iter-ms 100)
    await "$job" running
    "$VC" kill n2
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    result "$job" 4650
    [ "$(events "$job" 'select(.event=="node_dead").node')" = '"n2"' ]
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)|join(" ")' | paste -sd,)" = \
        '"n1 n2 n4 n5","n1 n3 n4 n5"' ]
    [ "$(events "$job" 'select(.event=="plan" and .round==1).places|map(select(.moved).leaf)|join(" ")')" = '"leaf0"' ]
    [ "$(events "$job" 'select(.event=="topology")|[.source,.note]')" = '["Slurm",""]' ]
    alice /opt/dlrover/bin/dlrover topo "$job" | grep -x '    n2          dead: .*'
    [ "$(events "$job" 'select(.event=="round_end")|[.cause,.restarts]')" = '["node",0]' ]
    output "$job" | grep -x "rank 1 on n3"
    # two leaves of two nodes in each round: what copies survive is said once
    [ "$(events "$job" 'select(.event=="plan").order|[.apart,.least,.split]' | sort -u)" = '[2,2,0]' ]
    [ "$(events "$job" 'select(.event=="plan").survives')" = $'"any one node, any one leaf switch"\nnull' ]
}

# bats test_tags=production
@test "a second node that dies later, with two spares" {
    job=$(submit -N5 --dlrover-spares=2 plain.sh --iterations 40 --iter-ms 100)
    await "$job" running
    first=$(events "$job" 'select(.event=="plan").places[1].node' | tr -d '"')
    "$VC" kill "$first"
    await "$job" "e['event']=='running' and e['round']==1"
    second=$(events "$job" 'select(.event=="plan" and .round==1).places[2].node' | tr -d '"')
    "$VC" kill "$second"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="node_dead").node' | paste -sd' ')" = "\"$first\" \"$second\"" ]
    output "$job" | grep -q '^done: sum'
}

# bats test_tags=production
@test "a crash loop ends with the worker's code, the reason and its last words" {
    job=$(submit -N4 --dlrover-max-restarts=1/2h plain.sh --iterations 30 --iter-ms 50 --fail-rank 2 --fail-at 3 --exit-code 7)
    [ "$(await_job "$job")" = "FAILED 7:0" ]
    output "$job" | grep -F "dlrover: given up after 1 restarts (--dlrover-max-restarts): rank 2 exited with code 7"
    output "$job" | grep -A1 -F "dlrover: last lines of rank 2 on" | grep -F "mpi_plain: rank 2 fails in iteration 3"
    output "$job" | grep -x "srun returned 7"
    # a rule of the user's that says stop: no other round; one that is wrong: no first one
    printf 'rule ours\nclass setup\naction stop\nadvice Call us.\ncode 7\n' >"$(alice_home)/rules"
    job=$(submit -N4 --dlrover-set=rules=/home/alice/rules plain.sh --iterations 30 --iter-ms 50 --fail-rank 2 --fail-at 3 --exit-code 7)
    [ "$(await_job "$job")" = "FAILED 7:0" ]
    output "$job" | grep -F "rule 'ours' says stop: Call us."
    [ "$(events "$job" 'select(.event=="worker_exit").rule')" = '"ours"' ]
    [ "$(events "$job" 'select(.event=="launch")|.round')" = 0 ]
    echo "  cod 7" >>"$(alice_home)/rules"
    job=$(submit -N4 --dlrover-set=rules=/home/alice/rules plain.sh --iterations 30 --iter-ms 50)
    [[ "$(await_job "$job")" == FAILED* ]]
    output "$job" | grep -E "dlrover: --dlrover-set=rules=.*/rules: line 6: "
    nothing_left n1 n2 n3 n4 n5
    no_job_mounts n1 n2 n3 n4 n5
}

# bats test_tags=production
@test "no spare left: the job is requeued without the dead node" {
    job=$(submit -N4 "$SHORT_SILENCE" plain.sh --iterations 30 --iter-ms 100)
    await "$job" running
    "$VC" kill n2
    await "$job" requeue
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="requeue").exclude')" = '["n2"]' ]
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)|join(" ")' | tail -n 1)" = '"n1 n3 n4 n5"' ]
    output "$job" | grep -x "srun returned 0"
}

# Nothing of ours runs while a job is pending, and Slurm knows no end of an exclusion.
@test "an excluded node that is back: the job has it when its user clears ExcNodeList" {
    other=$(submit -w n5 --exclusive --dlrover=off -o out.%j --wrap 'sleep 300')
    job=$(submit -N4 "$SHORT_SILENCE" plain.sh --iterations 30 --iter-ms 100)
    await "$job" running
    "$VC" kill n2
    await "$job" requeue
    wait_until 'ctl scontrol show job "$job" | grep -q "ExcNodeList=n2"'
    "$VC" boot n2
    wait_until 'ctl sinfo -h -n n2 -o %T | grep -qx idle && ctl squeue -h -j "$job" -o "%T %r" | grep -qx "PENDING Resources"'
    alice scontrol update "JobId=$job" ExcNodeList=
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)|join(" ")' | tail -n 1)" = '"n1 n2 n3 n4"' ]
    ctl scancel "$other"
}

# bats test_tags=production
@test "the batch host dies: the agents have the job requeued without it" {
    job=$(submit -N4 plain.sh --iterations 30 --iter-ms 100)
    await "$job" running
    "$VC" kill n1
    await "$job" requeue
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="requeue")|[.exclude[0],.by]')" = '["n1","n2"]' ]
    output "$job" | grep -x "srun returned 0"
}

# A node of the cluster is left beside those: where slurmctld takes the dead one out of the job before the requeue, and
# has no accounting, it refuses to let the job have fewer nodes than it was submitted with (docs/decisions.md).
# bats test_tags=production
@test "the batch host dies, and a spare is left: the run goes on in its allocation, the script after one requeue" {
    [[ -n ${DLROVER_NIGHTLY-} ]] || skip "takeover=on is not the default (make nightly)"
    job=$(submit -N4 --dlrover-spares=1 --dlrover-set=takeover=on plain.sh --iterations 60 --iter-ms 100)
    await "$job" running
    "$VC" kill n1
    await "$job" "e['event']=='running' and e['round']==1"
    [ "$(events "$job" 'select(.event=="takeover")|[.node,.from]')" = '["n2","n1"]' ]
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)|join(" ")' | tail -n 1)" = '"n2 n3 n4"' ]
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(output "$job" | grep -cx "done: sum 10980")" -eq 1 ]
    [ "$(output "$job" | grep -cx "srun returned 0")" -eq 1 ]
    output "$job" | grep -x "dlrover: this srun ended with code 0 before the job was requeued"
    [ "$(events "$job" 'select(.event=="launch").round' | paste -sd' ')" = "0 1" ]
}

# Were the check of the supervisor that was cut off taken out, it would requeue the job once it is healed.
@test "the batch host is cut off and healed: its supervisor is deposed, one successor acts" {
    [[ -n ${DLROVER_NIGHTLY-} ]] || skip "takeover=on is not the default (make nightly)"
    job=$(submit -N5 --dlrover-spares=1 --dlrover-set=takeover=on plain.sh --iterations 150 --iter-ms 100)
    await "$job" running
    "$VC" cut n1
    await "$job" "e['event']=='running' and e['round']==1"
    await "$job" deposed
    "$VC" heal n1
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="deposed").node')" = '"n2"' ]
    [ "$(events "$job" 'select(.event=="launch").round' | paste -sd' ')" = "0 1" ]
    [ "$(events "$job" 'select(.event=="requeue").exclude|join(" ")')" = '"n1"' ]
    [ "$(output "$job" | grep -cx "done: sum 113250")" -eq 1 ]
    [ "$(output "$job" | grep -cx "srun returned 0")" -eq 1 ]
}

# slurmctld takes the batch host from the job meanwhile: the agents' step outlives that, a later round does without.
# bats test_tags=production
@test "the batch host dies, and is removed by slurmctld: a worker that is killed later costs a round" {
    [[ -n ${DLROVER_NIGHTLY-} ]] || skip "takeover=on is not the default (make nightly)"
    job=$(submit -N4 --dlrover-spares=1 --dlrover-set=takeover=on plain.sh --iterations 400 --iter-ms 100)
    await "$job" running
    "$VC" kill n1
    await "$job" "e['event']=='running' and e['round']==1"
    [[ $PROFILE != production ]] || ctl scontrol update nodename=n1 state=down reason=dead
    wait_until 'ctl sinfo -h -n n1 -o %T | grep -q down'
    on n3 pkill -KILL -x mpi_plain
    [ "$(WAIT=200 await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(output "$job" | grep -cx "srun returned 0")" -eq 1 ]
    [ "$(events "$job" 'select(.event=="launch").round' | paste -sd' ')" = "0 1 2" ]
}

# bats test_tags=production
@test "the successor's node dies as well: the next one goes on, and the script has the program's code" {
    [[ -n ${DLROVER_NIGHTLY-} ]] || skip "takeover=on is not the default (make nightly)"
    job=$(submit -N4 --dlrover-spares=2 --dlrover-set=takeover=on --dlrover-max-restarts=0 plain.sh \
        --iterations 60 --iter-ms 100 --fail-rank 1 --fail-at 55 --exit-code 7)
    await "$job" running
    "$VC" kill n1
    await "$job" "e['event']=='running' and e['round']==1"
    "$VC" kill n2
    await "$job" "e['event']=='requeue'"
    "$VC" boot n2 # four nodes, as many as the job was submitted with
    [ "$(WAIT=200 await_job "$job")" = "FAILED 7:0" ]
    [ "$(output "$job" | grep -cx "srun returned 7")" -eq 1 ]
    [ "$(events "$job" 'select(.event=="launch").round' | paste -sd' ')" = "0 1 2" ]
}

# slurmctld then misses the script on a host that lives, and may have the job requeued itself.
@test "the batch host dies and is booted again while the run goes on: the job ends once" {
    [[ -n ${DLROVER_NIGHTLY-} ]] || skip "takeover=on is not the default (make nightly)"
    job=$(submit -N5 --dlrover-spares=1 --dlrover-set=takeover=on plain.sh --iterations 200 --iter-ms 100)
    await "$job" running
    "$VC" kill n1
    await "$job" "e['event']=='running' and e['round']==1"
    "$VC" boot n1
    [ "$(WAIT=200 await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(output "$job" | grep -cx "done: sum 201000")" -ge 1 ]
    [ "$(output "$job" | grep -cx "srun returned 0")" -eq 1 ]
}

# Without its script nothing else would end the job before its time limit.
@test "the batch host dies, and the job must not be requeued: it is cancelled when its run has ended" {
    [[ -n ${DLROVER_NIGHTLY-} ]] || skip "takeover=on is not the default (make nightly)"
    job=$(submit --no-requeue -N4 --dlrover-spares=1 --dlrover-set=takeover=on plain.sh --iterations 60 --iter-ms 100)
    await "$job" running
    "$VC" kill n1
    await "$job" "e['event']=='running' and e['round']==1"
    [[ "$(await_job "$job")" == CANCELLED* ]]
    output "$job" | grep -x "done: sum 10980"
    output "$job" | grep "^dlrover: the job could not be requeued: .*: the job is cancelled, since its script is lost$"
}

@test "slurmctld is away when a run without its batch host ends: it is asked until it answers" {
    [[ -n ${DLROVER_NIGHTLY-} ]] || skip "takeover=on is not the default (make nightly)"
    job=$(submit -N4 --dlrover-spares=1 --dlrover-set=takeover=on plain.sh --iterations 60 --iter-ms 100)
    await "$job" running
    "$VC" kill n1
    await "$job" "e['event']=='running' and e['round']==1"
    ctl pkill -TERM -x slurmctld
    await "$job" requeue
    until=$((SECONDS + 45)) # a requeue that is not the last one is given 30 s
    while ((SECONDS < until)); do read -rt 1 <> <(:) || :; done
    ctl sh -c 'setsid slurmctld >/dev/null 2>&1'
    [ "$(WAIT=200 await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x "dlrover: this srun ended with code 0 before the job was requeued"
}

@test "one switch takes the batch host and half of the others: slurmctld is the witness of the rest" {
    job=$(submit -N5 plain.sh --iterations 1000 --iter-ms 100)
    await "$job" running
    for node in n3 n2 n1; do "$VC" kill "$node"; done # without a spare nobody is given up for 10 s
    await "$job" requeue
    [ "$(events "$job" 'select(.event=="requeue")|[.exclude[0],.by]')" = '["n1,n2,n3","n4"]' ]
    wait_until '[ "$(ctl squeue -hj "$job" -o %T)" = PENDING ]' # and ended on all nodes that live
    ctl scontrol show job "$job" | grep -F 'ExcNodeList=(null)' # two nodes would be left
    ctl scancel "$job"
}

# bats test_tags=production
@test "the supervisor is killed: the keeper starts it again, the job ends well" {
    job=$(submit -N5 --dlrover-spares=1 plain.sh --iterations 30 --iter-ms 100)
    await "$job" running
    on n1 pkill -KILL -f dlrover-supervisor
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="start").generation' | paste -sd' ')" = "1 2" ]
    output "$job" | grep -x "srun returned 0"
    nothing_left n1 n2 n3 n4 n5
    no_job_mounts n1 n2 n3 n4 n5
}

# bats test_tags=production
@test "scancel leaves no process and no shared memory" {
    job=$(submit -N5 --dlrover-spares=1 plain.sh --iterations 1000 --iter-ms 100)
    await "$job" running
    ctl scancel "$job"
    [ "$(await_job "$job" | cut -d' ' -f1)" = CANCELLED ]
    ctl true
    nothing_left n1 n2 n3 n4 n5
    no_job_mounts n1 n2 n3 n4 n5
}

# bats test_tags=production
@test "Ctrl-C on srun in an salloc leaves no process and no shared memory" {
    alice bash -c 'cd; exec setsid --wait salloc -N5 --dlrover=on --dlrover-spares=1 --quiet bash -c "
        echo \$SLURM_JOB_ID >job; echo \$\$ >shell
        srun --mpi=pmix /opt/dlrover/share/dlrover/examples/mpi_plain --iterations 1000 --iter-ms 100 & echo \$! >srun; wait \$!; echo \$? >code"' &
    salloc=$!
    wait_until '[ -s "$(alice_home)/job" ]'
    job=$(cat "$(alice_home)/job")
    await "$job" running
    ctl kill -INT "$(cat "$(alice_home)/srun")"
    wait "$salloc" || :
    [ "$(cat "$(alice_home)/code")" -eq 130 ]
    nothing_left ctl n1 n2 n3 n4 n5
    no_job_mounts n1 n2 n3 n4 n5
}

@test "an srun that ends with 0 and has started no task is no success: the round is tried again" {
    job_file srun <<'SH'
#!/bin/bash
if [[ " $* " == *" --distribution=arbitrary "* ]] && mkdir "$HOME/gave-up"; then exit 0; fi
exec "$(PATH=${PATH#*:} type -P srun)" "$@"
SH
    job_file again.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
#SBATCH --dlrover=on
export PATH=$HOME/fake:$PATH
srun echo it ran
SH
    alice bash -c 'cd; mkdir fake; mv srun fake; chmod 755 fake/srun'
    job=$(submit -N2 again.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(output "$job" | grep -cx "it ran")" -eq 2 ]
    [ "$(events "$job" 'select(.event=="round_end")|[.why,.cause]')" = \
        '["srun ended with code 0 and has started no task","program"]' ]
}

@test "a mistake gets one line that names it, and nothing is started" {
    run alice sbatch -N2 --dlrover=maybe --wrap true
    [ "$status" -ne 0 ]
    [[ $output == *"--dlrover=maybe"* || $output == *"'maybe'"* ]]
    run alice sbatch -N2 --dlrover=on --dlrover-set=heartbeat=fast --wrap true
    [ "$status" -ne 0 ]
    [[ $output == *fast* ]]
    job=$(submit -N2 --dlrover-spares=2 plain.sh)
    [ "$(await_job "$job")" = "FAILED 2:0" ]
    output "$job" | grep -F "dlrover: --dlrover-spares=2 leaves no node to train on in an allocation of 2"
    job=$(submit -N3 --dlrover-group=2 plain.sh)
    [ "$(await_job "$job")" = "FAILED 2:0" ]
    output "$job" | grep -F "dlrover: --dlrover-group=2 does not divide the 3 training nodes of this run: these do: 1, 3"
    job_file pty.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
srun --het-group=0 hostname
SH
    job=$(submit -N2 --dlrover=on pty.sh)
    [ "$(await_job "$job")" = "FAILED 2:0" ]
    output "$job" | grep -F "dlrover: srun --het-group cannot be supervised"
}
