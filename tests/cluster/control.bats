# SPDX-License-Identifier: Apache-2.0
# What survives when a part of the control plane goes away: nothing is restarted that need not
# be, and nothing hangs. The training program writes a hash of its state after each step.
load lib/suite

setup_file() {
    cluster_up 4 2
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
    job_file train.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
#SBATCH --dlrover=on
export SLURM_MPI_TYPE=pmix
srun /opt/dlrover/share/dlrover/examples/mpi_train --params small --step-ms 100 "$@"
SH
    # The undisturbed run that the others must equal.
    job=$(submit -N3 --dlrover=off train.sh --steps 60 --save-weights ref.weights --hash-log ref.hashes --no-ckpt)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
}
teardown_file() { cluster_down; }
setup() { name=t$BATS_TEST_NUMBER; }
teardown() {
    [ -z "${disk:-}" ] || thaw
    heal_cluster
    [ -z "${disk:-}" ] || umount_disk
}

# step_ms: longer where more than one thing must happen before the program is done.
train() { submit "$@" train.sh --step-ms "${step_ms:-100}" --steps 60 --save-weights "$name.weights" --hash-log "$name.hashes"; }

same_as_undisturbed() {
    cmp "$(alice_home)/$name.weights" "$(alice_home)/ref.weights"
    [ "$(cat "$(alice_home)/$name.hashes" "$(alice_home)/ref.hashes" | awk '{print $1, $2}' | sort -u | wc -l)" -eq 60 ]
}

# the pids of a program, node by node
pids() {
    local node
    for node in n1 n2 n3 n4; do echo "$node $(on "$node" pgrep -x "$1" | paste -sd' ')"; done
}

# A rank on NODE tells its calls of MPI: the agent has made it a ring.
watched() { # NODE
    wait_until "on $1 sh -c 'ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q dlrover-ring'"
}

kill_supervisor() { on n1 pkill -KILL -x dlrover-supervi; }

@test "the supervisor is killed twice: its round goes on, nothing is restarted" {
    step_ms=250
    job=$(train -N4 --dlrover-spares=1 "$CALM,watch=auto")
    await "$job" "e['event']=='progress' and e['commits']>=1"
    before=$(pids mpi_train)
    watched n2 # it is linked with MPI
    kill_supervisor
    await "$job" adopted
    at=$(events "$job" 'select(.event=="progress").step' | tail -n 1)
    await "$job" "e['event']=='progress' and e['step']>$at and e['commits']>=1" # each counts its own
    kill_supervisor
    await -n 2 "$job" adopted
    [ "$(pids mpi_train)" = "$before" ]
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="start").generation' | paste -sd' ')" = "1 2 3" ]
    [ -z "$(events "$job" 'select(.event=="round_end")')" ]
    [ "$(events "$job" 'select(.event=="launch").round')" = 0 ]
    [ "$(events "$job" 'select(.event=="end").code')" = 0 ]
    same_as_undisturbed
    nothing_left n1 n2 n3 n4
}

@test "the supervisor is killed, then a node: the next one sees it and resumes" {
    job=$(train -N4 --dlrover-spares=1)
    await "$job" "e['event']=='progress' and (e['committed'] or [0, 0])[1]>=10"
    kill_supervisor
    await "$job" "e['event']=='start' and e['generation']==2"
    "$VC" kill n2
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="node_dead").node')" = '"n2"' ]
    [ "$(events "$job" 'select(.event=="restored").version[1]')" -ge 10 ]
    [ "$(events "$job" 'select(.event=="round_end").restarts')" = 0 ]
    same_as_undisturbed
}

@test "the supervisor is killed while nodes meet and while a round ends" {
    job=$(submit -N4 --dlrover-spares=1 plain.sh --iterations 30 --iter-ms 100)
    await "$job" rendezvous
    kill_supervisor
    await "$job" running
    on n2 pkill -KILL -x mpi_plain
    await "$job" round_end
    kill_supervisor
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x "done: sum 2790"
    output "$job" | grep -x "srun returned 0"
    [ "$(events "$job" 'select(.event=="round_end").restarts' | sort -u)" = 0 ]
    nothing_left n1 n2 n3 n4
}

@test "the keeper is killed, as srun would be: the run ends, the script goes on" {
    job=$(submit -N4 --dlrover-spares=1 plain.sh --iterations 1000 --iter-ms 100)
    await "$job" running
    on n1 pkill -KILL -x dlrover-keeper
    [ "$(await_job "$job")" = "FAILED 137:0" ]
    output "$job" | grep -x "srun returned 137"
    [ -z "$(events "$job" 'select(.event=="requeue")')" ]
    nothing_left n1 n2 n3 n4
}

await_rid() { # NODE: until nothing of a run is left there
    wait_until "! on $1 sh -c 'pgrep -x \"mpi_plain|dlrover-data|dlrover-nanny\" || ls -d /dev/shm/dlrover-*' >/dev/null 2>&1"
}

@test "the keeper and the supervisor are killed together: the run ends, nothing is requeued" {
    job_file goes_on.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
export SLURM_MPI_TYPE=pmix
srun /opt/dlrover/share/dlrover/examples/mpi_plain --iterations 6000 --iter-ms 100
echo "srun returned $?"
until [ -e "$1" ]; do sleep 0.1; done
SH
    job=$(submit -N4 --dlrover=on --dlrover-spares=1 --dlrover-set=election-timeout=2s goes_on.sh "$name.go")
    await "$job" running
    on n1 sh -c 'kill -KILL $(pgrep -x dlrover-keeper) $(pgrep -x dlrover-supervi)'
    await "$job" "e['event']=='end' and e['code']==137"
    for node in n1 n2 n3 n4; do await_rid $node; done
    touch "$(alice_home)/$name.go"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x "srun returned 137"
    [ -z "$(events "$job" 'select(.event=="takeover" or .event=="requeue")')" ]
}

@test "munged stands still everywhere, slurmds are restarted: nobody notices, nor a new supervisor" {
    job=$(submit -N4 --dlrover-spares=1 "$CALM" plain.sh --iterations 60 --iter-ms 100)
    await "$job" running
    for node in n1 n2; do on $node pkill -x slurmd; done # as an update of Slurm does
    for node in n1 n2 n3 n4; do on $node pkill -STOP -x munged; done
    kill_supervisor
    await "$job" adopted
    for node in n1 n2 n3 n4; do on $node pkill -CONT -x munged; done
    for node in n1 n2; do on $node slurmd; done
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ -z "$(events "$job" 'select(.event=="round_end" or .event=="node_dead")')" ]
}

@test "USR1 and USR2 reach the tasks as they do from a plain srun, and nobody else" {
    job_file signal.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
srun bash -c 'trap "echo usr1 \$SLURM_PROCID >>$1.usr1" USR1; trap "echo usr2 >>$1.usr2" USR2
    echo up >>$1.up; until [ -e $1.go ]; do sleep 0.1; done' - "$1" &
echo $! >$1.srun
trap : USR1
wait $!; while kill -0 $! 2>/dev/null; do wait $!; done
SH
    for mode in off on; do
        out=$(alice_home)/$name.$mode
        job=$(submit -N3 --dlrover=$mode signal.sh "$name.$mode")
        wait_until '[ "$(wc -l 2>/dev/null <"$out.up" || echo 0)" -eq 3 ]'
        on n1 kill -USR2 "$(cat "$out.srun")"
        alice scancel -s USR1 "$job"
        wait_until '[ "$(cat "$out.usr1" "$out.usr2" 2>/dev/null | sort -u | wc -l)" -eq 4 ]'
        if [ $mode = on ]; then # it does no harm to look at them
            said=$(alice dlrover stacks "$job")
            [[ $said == "job $job, run "*", round 0: 3 nodes"*"ranks 0-2"*bash* ]]
        fi
        touch "$out.go"
        [ "$(await_job "$job")" = "COMPLETED 0:0" ]
        [ "$(wc -l <"$out.usr2")" -eq 3 ]
    done
    [ -z "$(events "$job" 'select(.event=="round_end" or .event=="node_dead")')" ]
}

# of the newest run: [ranks, class, proven] of what stood still there
stood() { events "$1" 'select(.event=="still")|[.ranks,.class,.proven]' | sort -u; }

@test "ranks that stand still are named; with hang=act, what never goes on is started again" {
    mpicc -o "$(alice_home)/stand" "$BATS_TEST_DIRNAME/lib/stand.c"
    job_file stand.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
#SBATCH --dlrover=on --dlrover-spares=0
export SLURM_MPI_TYPE=pmix
srun ./stand "$1" "stood.$1"
SH
    limit=--dlrover-set=watch=auto,hang-limit=3s
    mismatch=$(submit -N2 "$limit,hang=act" stand.sh mismatch)
    stop=$(submit -N1 -n2 "$limit,hang=act" stand.sh stop)
    pause=$(submit -N1 -n2 "$limit" stand.sh pause)
    await "$pause" "e['event']=='still' and e['ranks']==[1] and e['class']=='not entered' and not e['proven']"
    rm "$(alice_home)/stood.pause"
    for job in "$mismatch" "$stop" "$pause"; do
        [ "$(await_job "$job")" = "COMPLETED 0:0" ]
        output "$job" | grep -x "sum 570"
    done
    stood "$mismatch" | grep -xF '[[0,1],"mismatch",true]'
    stood "$stop" | grep -xF '[[1],"stopped",true]'
    for job in "$mismatch" "$stop"; do
        [ "$(events "$job" 'select(.event=="round_end").cause')" = '"hang"' ]
    done
    for job in "$mismatch" "$stop"; do # a machine that is full may not read them in time
        file=$(events "$job" 'select(.event=="stacks").file' | tr -d '"')
        [ -n "$file" ] || { echo "no stacks of job $job" >&3; continue; }
        output "$job" | grep -xF "dlrover: stacks of ranks 0-1: $file"
        file=$VCLUSTER_DIR$file
        grep -q "^round 0: rank" "$file"
        grep -qE '^ +main \(stand' "$file"
    done
    output "$stop" | grep "^dlrover: round 0 ends: rank 1 (n[1-4]) is stopped by a signal; 1 rank waits since "
    [ -z "$(events "$pause" 'select(.event=="round_end")')" ]
}

# The agent of a node, while it waits for something to happen: in the middle of something it takes the
# round with it, and the test of its notes has that.
kill_agent() { # NODE
    on "$1" sh -c 'p=$(pgrep -n -x dlrover-agent)
        while :; do
            kill -STOP "$p"
            read -r number _ _ timeout _ <"/proc/$p/syscall"
            case $number:$timeout in 7:0x0) ;; 7:* | 219:*) break ;; esac # poll, restart_syscall
            kill -CONT "$p"
            sleep 0.01
        done
        kill -KILL "$p"'
}

@test "an agent is killed on a node that lives: the next one has its tasks, nothing is restarted" {
    step_ms=250
    job=$(train -N3 "$CALM" --dlrover-save=always) # else there may be no save within its last 10 s
    await "$job" "e['event']=='progress' and e['commits']>=3"
    before=$(pids mpi_train)
    at=$(events "$job" 'select(.event=="progress").step' | tail -n 1)
    kill_agent n2
    await "$job" agent_back
    [ "$(pids mpi_train)" = "$before" ]
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="agent_back").node')" = '"n2"' ]
    events "$job" 'select(.event=="round_end" or .event=="lease_expired")'
    [ -z "$(events "$job" 'select(.event=="round_end" or .event=="node_dead" or .event=="requeue")')" ]
    [ "$(events "$job" 'select(.event=="progress").committed[1]' | tail -n 1)" -gt $((at + 4)) ]
    same_as_undisturbed
    nothing_left n1 n2 n3
}

# bats test_tags=production
@test "slurmstepds are killed: the agents' is not missed, the round's costs no restart" {
    step_ms=250
    job=$(train -N4 --dlrover-spares=1)
    await "$job" "e['event']=='progress' and e['commits']>=3"
    # The agents' is the first step. Without cgroups its srun would be left on the batch host.
    [ "$PROFILE" = plain ] || on n2 sh -c 'kill -KILL $(pgrep -P 1 -f "^slurmstepd: .*\.0\]")'
    await "$job" "e['event']=='progress' and e['step']>=35"
    [ -z "$(events "$job" 'select(.event=="round_end")')" ]
    kept=$(events "$job" 'select(.event=="progress").committed[1]' | tail -n 1)
    on n2 sh -c 'kill -KILL $(ps -o ppid= -C mpi_train)'
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="round_end")|[.cause,.why,.restarts]')" = \
        '["control","slurmstepd of the round died on node n2",0]' ]
    [ -z "$(events "$job" 'select(.event=="node_dead" or .event=="requeue")')" ]
    [ "$(events "$job" 'select(.event=="restored").version[1]')" -ge "$kept" ]
    same_as_undisturbed
    nothing_left n1 n2 n3 n4
}

@test "a data process is killed: saves go on, nothing is restarted" {
    step_ms=250
    job=$(train -N3 "$CALM")
    await "$job" "e['event']=='progress' and e['commits']>=1"
    at=$(events "$job" 'select(.event=="progress").step' | tail -n 1)
    on n2 pkill -KILL -x dlrover-data
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    events "$job" 'select(.event=="round_end" or .event=="lease_expired")'
    [ -z "$(events "$job" 'select(.event=="round_end")')" ]
    [ "$(events "$job" 'select(.event=="progress").committed[1]' | tail -n 1)" -gt $((at + 4)) ]
    same_as_undisturbed
}

# A file system of its own for the state directory, which fsfreeze(8) can stop: whoever writes to
# it stands still until the thaw, as with a file server that is gone.
mount_disk() {
    local image
    disk=$BATS_TEST_TMPDIR/disk
    image=$(mktemp /dev/shm/control.XXXXXX) # in memory: the machine's disk may be busy
    mkdir "$disk" && truncate -s 32M "$image"
    mkfs.ext4 -q -O ^has_journal -E root_owner=3001:3001 "$image"
    mount -o loop "$image" "$disk" || disk=
    rm "$image"
    [ -n "$disk" ] || skip "no file system in a file can be mounted"
    loop=$(findmnt -n -o SOURCE "$disk")
    for node in n1 n2 n3 n4; do on $node sh -c "mkdir -p /home/alice/disk; mount $loop /home/alice/disk"; done
}
umount_disk() {
    for node in n1 n2 n3 n4; do on $node umount /home/alice/disk 2>/dev/null || :; done
    ! mountpoint -q "$disk" || umount "$disk"
}

# Whatever becomes of this test, nobody is left waiting for the disk.
freeze() {
    (timeout "$WAIT" tail -f --pid=$$ /dev/null; fsfreeze -u "$disk" 2>/dev/null) 3>&- &
    fsfreeze -f "$disk"
}
thaw() { fsfreeze -u "$disk" 2>/dev/null || :; }

await_step() { # until a rank has made it
    wait_until "awk '\$1 >= $1 { found = 1 } END { exit !found }' '$(alice_home)/$name.hashes'"
}

@test "the state directory stands still and a node dies: the job goes on, no line is lost" {
    mount_disk
    step_ms=250
    job=$(train -N4 -o /home/alice/disk/out.%j --dlrover-spares=1 --dlrover-state-dir=/home/alice/disk/.dlrover)
    await --home "$disk" "$job" "e['event']=='progress' and e['commits']>=3"
    journal=$(echo "$disk/.dlrover/job-$job"/*/events.jsonl)
    freeze
    "$VC" kill n2
    await_step 45 # the round before has ended long before this one
    [ -z "$(jq 'select(.event=="node_dead")' "$journal")" ]
    thaw
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(jq -r 'select(.event=="node_dead").node' "$journal")" = n2 ]
    [ "$(jq -r '.event' "$journal" | grep -x -e plan -e launch -e running | sort | uniq -c | awk '{print $1}' | paste -sd' ')" = "2 2 2" ]
    [ "$(jq -r 'select(.event=="round_end").cause' "$journal")" = node ]
    [ "$(jq -r 'select(.event=="end").code' "$journal")" = 0 ]
    [ -z "$(jq 'select(.dropped_lines)' "$journal")" ]
    same_as_undisturbed
}

@test "the state directory stands still and the supervisor is killed: its round goes on" {
    mount_disk
    step_ms=250
    job=$(train -N3 "$CALM" -o /home/alice/disk/out.%j --dlrover-state-dir=/home/alice/disk/.dlrover)
    await --home "$disk" "$job" "e['event']=='progress' and e['commits']>=3"
    journal=$(echo "$disk/.dlrover/job-$job"/*/events.jsonl)
    before=$(pids mpi_train)
    freeze
    wait_until "ps -eo stat,comm | grep -q '^D.* dlrover-journal'" # it hangs in a line
    kill_supervisor
    await_step 45
    thaw
    await --home "$disk" "$job" adopted
    [ "$(pids mpi_train)" = "$before" ]
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ -z "$(jq 'select(.event=="round_end")' "$journal")" ]
    jq -r .time "$journal" | sort -c # those of the one that was killed come first
    [ -z "$(jq 'select(.dropped_lines)' "$journal")" ]
    same_as_undisturbed
}
