# SPDX-License-Identifier: Apache-2.0
# What the end-to-end tests share: one cluster per file with the suite installed, jobs of
# alice, waits on the journal. Loaded by *.bats; needs $REPO.
REPO=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
VC=$REPO/tests/cluster/vcluster
# shellcheck source=tests/cluster/lib/common.sh
source "$REPO/tests/cluster/lib/common.sh"
# shellcheck source=tests/cluster/lib/exec.sh
source "$REPO/tests/cluster/lib/exec.sh"
STAGE=${DLROVER_STAGE:-$REPO/build/stage}
# Of the cluster: plain or production. Tests with the tag "production" are run with both by
# scripts/check; the others take no path that Slurm's configuration changes.
PROFILE=${DLROVER_PROFILE:-plain}
export VCLUSTER_DIR=${BATS_FILE_TMPDIR:-/tmp}/vc
WAIT=${DLROVER_TEST_WAIT:-90} # seconds: the limit of every wait below

# For jobs that lose one node more than they can spare: that is waited for, 10 s by default. Long enough for
# a machine that stands still for some seconds to lose nobody. Not where the batch host is lost, whose
# supervisor may live longer than its cable.
# shellcheck disable=SC2034 # read by those that load this
SHORT_SILENCE=--dlrover-set=partition-grace=4s

# For rounds that go on under a next supervisor: a lease of 5 s, where one of 1 s ends before it on a loaded machine,
# and the round with it. The lease is not what is tested there.
# shellcheck disable=SC2034
CALM=--dlrover-set=heartbeat=200ms:25

need_stage() {
    [[ -e $STAGE/opt/dlrover/lib/slurm/spank_dlrover.so ]] && return
    echo "no installed suite in $STAGE: make install DESTDIR=$STAGE PREFIX=/opt/dlrover" >&2
    return 1
}

# The tests of a file are skipped where the machine cannot have the profile asked for.
need_profile() {
    local lacks
    [[ $PROFILE == production ]] || return 0
    lacks=$(source "$REPO/tests/cluster/lib/cgroup.sh" && cgroup_lacks)
    [[ -z $lacks ]] || skip "profile production cannot be had: $lacks"
}

# cluster_up NODES LEAVES [vcluster options]: with the suite installed
cluster_up() {
    local nodes=$1 leaves=$2
    shift 2
    need_stage || return
    need_profile
    "$VC" up --nodes "$nodes" --leaves "$leaves" --prefix "$STAGE" --profile "$PROFILE" "$@"
}

cluster_down() { "$VC" down; }

# As "vcluster exec" does it, without a shell of its own and without bats' traps: waits ask some ten times a second.
run_on() ( # USER HOST COMMAND…
    set +ET
    trap - DEBUG ERR
    user=$1
    if ! pid=$(recorded_pid "$VCLUSTER_DIR/hosts/$2/init") || frozen "$pid"; then
        echo "$2 is dead or frozen" >&2
        exit 125
    fi
    read -r _ _ _ _ slurm <"$VCLUSTER_DIR/ready"
    [[ -z $slurm ]] || sane_path=$slurm/sbin:$slurm/bin:$sane_path
    shift 2
    exec_on "$pid" "$user" "$@"
)
ctl() { run_on root ctl "$@"; }
alice() { run_on alice ctl "$@"; }
on() { run_on root "$@"; }
alice_home() { echo "$VCLUSTER_DIR/home/alice"; }

# job_file NAME <<script: puts a batch script into alice's home
job_file() {
    cat >"$(alice_home)/$1"
    chown 3001:3001 "$(alice_home)/$1"
}

# submit [sbatch options] SCRIPT: prints the job id
submit() { alice sbatch --parsable "$@" | cut -d';' -f1; }

# journal JOB: path of the newest run's journal (outside the cluster)
journal() { ls -t "$(alice_home)"/.dlrover/job-"$1"/*/events.jsonl 2>/dev/null | head -n 1; }

# await [-n COUNT] JOB JQ-CONDITION: waits until COUNT events (default 1) of the journal meet it
await() { "$REPO/tests/cluster/lib/await" --limit "$WAIT" --home "$(alice_home)" "$@"; }

# wait_until COMMAND: until it succeeds; what never comes is a failure and not a test that hangs
wait_until() {
    local until=$((SECONDS + WAIT))
    until eval "$1"; do
        ((SECONDS < until)) || { echo "not within $WAIT s: $1"; return 1; }
        pause_ms 150
    done
}

# requeued JOB: one of its runs has had it requeued, and has not begun again
requeued() {
    local file
    for file in "$(alice_home)"/.dlrover/job-"$1"/*/events.jsonl; do
        [[ -e $file ]] || continue
        [[ $(jq -r 'select(.event=="start" or .event=="requeue").event' "$file" | tail -n 1) != requeue ]] || return 0
    done
    return 1
}

# What an administrator and a user do who do not want to wait for SlurmdTimeout and cred_expire:
# dead nodes are set DOWN, a job requeued is let start now. Under plain only jobs that are over are
# hurried: what Slurm sends a requeued one's nodes for 10 s ends steps that have begun anew by then.
hurry() { # JOB
    local node
    [[ $PROFILE == production ]] || ! requeued "$1" || return 0
    for node in $("$VC" status --json | jq -r '.hosts[]|select(.state=="dead" and .slurm!="down").name'); do
        ctl scontrol update "nodename=$node" state=down reason=dead
    done
    case $(ctl squeue -h -j "$1" -o '%T %r') in
    'PENDING BeginTime') alice scontrol update "jobid=$1" StartTime=now ;;
    esac
}

# await_job JOB: waits for its end, prints Slurm's final state and exit code ("COMPLETED 0:0")
await_job() {
    local until=$((SECONDS + WAIT)) hurried=$SECONDS line state
    while ((SECONDS < until)); do
        line=$(ctl scontrol -o show job "$1") || :
        state=${line#* JobState=} state=${state%% *}
        case $state in
        RUNNING | CONFIGURING | '') ;;
        PENDING | COMPLETING | REQUEUED)
            if ((SECONDS > hurried)); then # this asks a lot
                hurried=$SECONDS
                hurry "$1"
                ((SECONDS < until - WAIT + 45)) || stuck_steps_end
            fi
            ;;
        *)
            line=${line#* ExitCode=}
            echo "$state ${line%% *}"
            return
            ;;
        esac
        pause_ms 200
    done
    echo "job $1 still '$state' after $WAIT s" >&2
    return 1
}

# events JOB JQ-FILTER: the journal through jq, compact
events() { jq -c "$2" "$(journal "$1")"; }

output() { cat "$(alice_home)/out.$1"; }

# batch NAME OPTIONS <<commands: a supervised batch script
batch() {
    local name=$1 options=$2
    { printf '#!/bin/bash\n#SBATCH -o out.%%j --dlrover=on %s\n' "$options"; cat; } | job_file "$name"
}

# slow_link NODE, full_link NODE: what it sends crawls at 8 Mb/s, or not any more
slow_link() {
    touch "$BATS_FILE_TMPDIR/slow.$1"
    on "$1" tc qdisc add dev eth0 root tbf rate 8mbit burst 64k latency 50ms
}
full_link() {
    rm -f "$BATS_FILE_TMPDIR/slow.$1"
    on "$1" tc qdisc del dev eth0 root 2>/dev/null || :
}

# A slurmstepd may hang in the PMIx plugin where a node of its step died (docs/plugin.md), and slurmd drains its node.
stuck_steps_end() {
    local node
    [[ -z $(ctl squeue -h -t running) ]] || return 0
    for node in $(ctl sinfo -h -N -t completing,drain -o %N | sort -u); do
        on "$node" pkill -KILL -x slurmstepd || continue
        ctl scontrol update "nodename=$node" state=resume || :
    done 2>/dev/null
}

# all nodes up and idle again after a test that killed some
heal_cluster() {
    local until=$((SECONDS + WAIT)) node
    ctl scancel --user=alice --full 2>/dev/null || :
    for node in $("$VC" status --json | jq -r '.hosts[] | select(.state != "up") | .name'); do
        "$VC" thaw "$node" 2>/dev/null || "$VC" heal "$node" 2>/dev/null || :
        "$VC" boot "$node" 2>/dev/null || :
    done
    for node in "$BATS_FILE_TMPDIR"/slow.*; do
        [[ ! -e $node ]] || full_link "${node##*.}"
    done
    while ((SECONDS < until)); do
        ((SECONDS < until - WAIT + 15)) || stuck_steps_end
        ctl sinfo -h -N -o %T | sort -u | paste -sd' ' | grep -qx idle && return
        ctl scontrol update nodename=ALL state=resume 2>/dev/null || :
        read -rt 0.3 <> <(:) || :
    done
    ctl sinfo >&2
    return 1
}

# the tmpfs of jobs on these nodes: gone when the epilog is, a moment after the job's last process
job_mounts() {
    local node
    for node in "$@"; do
        on "$node" sh -c 'ls -d /run/dlrover/* 2>/dev/null' | sed "s/^/$node: /"
    done
}

# no_job_mounts NODE...: they have gone, or the test says which are left
no_job_mounts() { wait_until "[ -z \"\$(job_mounts $*)\" ]" || { job_mounts "$@"; return 1; }; }

# what a job must not leave on a node: processes of alice, shared memory
leftovers() {
    local node
    for node in "$@"; do
        on "$node" sh -c 'ps -u alice -o pid=,args= ; ls -d /dev/shm/dlrover-* 2>/dev/null' |
            sed "s/^/$node: /"
    done
}

# nothing_left NODE...: they have gone. Slurm calls a job ended before the last of its processes has.
nothing_left() { wait_until "[ -z \"\$(leftovers $*)\" ]" || { leftovers "$@"; return 1; }; }
