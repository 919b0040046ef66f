# SPDX-License-Identifier: Apache-2.0
# A second user on the nodes of a job, with a supervised job of his own there. bob may look, knock and take names;
# alice's job goes on, and says who knocked.
load lib/suite

setup_file() {
    cluster_up 3 1
    bobs=$VCLUSTER_DIR/home/bob
    install -m 755 "$REPO"/tests/cluster/lib/{stranger,ucx_put,work}.py "$bobs/"
    cat >"$bobs/spy.sh" <<'SH'
#!/bin/bash
#SBATCH -o out.%j --dlrover=on -N2 -w n1,n2
export STEP_S=0.5 # alice's saves are to have the processors
srun bash -c 'mapfile -t words <tries.$SLURMD_NODENAME
    ./stranger.py "${words[@]}" &>tried.$SLURMD_NODENAME || echo "ended with $?" >>tried.$SLURMD_NODENAME
    exec python3 work.py'
SH
    job_file work.py <"$BATS_TEST_DIRNAME/lib/work.py"
    job_file work.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j --dlrover=on -N2 -w n1,n2
srun python3 work.py
SH
}
teardown_file() { cluster_down; }
teardown() {
    ctl scancel --user=bob --full 2>/dev/null || :
    heal_cluster
    as_at_first
}

# as_at_first: what tests change on the nodes for their jobs
as_at_first() {
    local node
    for node in n1 n2; do
        on "$node" sh -c "rm -f /dev/shm/full; mount -o remount,size=2g /dev/shm"
        on "$node" sed -i 's/ job-tmpfs=off//; s/ job-tmpfs-size=[^ ]*//' /etc/slurm/plugstack.conf
    done
}

refused() { ! "$@"; }
as_alice() { local node=$1; shift; "$VC" exec --user alice "$node" -- "$@"; }
bob() { local node=$1; shift; "$VC" exec --user bob "$node" -- "$@"; }
saved() { await "$1" "e['event']=='progress' and e['commits']>=${2:-3}" >/dev/null; }
# of_bob COMMAND...: the same for a job of his
# shellcheck disable=SC2317 # called by COMMAND
of_bob() (
    alice() { "$VC" exec --user bob ctl -- "$@"; }
    alice_home() { echo "$VCLUSTER_DIR/home/bob"; }
    "$@"
)
finish() {
    alice touch "stop.$1"
    [ "$(await_job "$1")" = "COMPLETED 0:0" ] || { cat "$(alice_home)/out.$1" >&2; return 1; }
}
# the ports our processes listen on, with commas between
ports() { on "$1" ss -Hltnp | sed -n 's/^LISTEN *[0-9]* *[0-9]* *[^ ]*:\([0-9]*\) .*"dlrover-.*/\1/p' | sort -u | paste -sd,; }
agent_of() { on "$1" pgrep -o -u alice -x dlrover-agent; }
commits() { events "$1" 'select(.event=="progress").commits' | tail -n 1; }

@test "what another user tries on the nodes of a job fails, is told, and changes nothing" {
    job=$(submit work.sh)
    saved "$job"
    # The worst case: the supervisor's credential, which names its public key, has come into bob's hands.
    cred=$(on n2 cat "/proc/$(agent_of n2)/environ" | tr '\0' '\n' | sed -n 's/^DLROVER_CRED=//p')
    payload=$(alice unmunge -m /dev/null <<<"$cred")
    jq -e '.key' <<<"$payload"
    refused bob n1 unmunge -m /dev/null <<<"$cred" # even then he cannot read it himself
    bobs=$VCLUSTER_DIR/home/bob
    printf '%s\n' 3001 "$job" "$(ports n1)" "$payload" "$cred" >"$bobs/tries.n1"
    printf '%s\n' 3001 "$job" "$(ports n2)" >"$bobs/tries.n2"
    spy=$(of_bob submit spy.sh)
    of_bob await "$spy" first_step >/dev/null
    for node in n1 n2; do
        run cat "$bobs/tried.$node"
        echo "$output"
        [ "$status" -eq 0 ]
        [ -z "$output" ]
    done
    for node in n1 n2; do # UCX over TCP would write for anybody
        for port in $(sed -n 3p "$bobs/tries.$node" | tr , ' '); do
            said=$(bob n1 /home/bob/ucx_put.py "$node" "$port")
            echo "port $port of $node: $said"
            [ "$said" = dropped ]
        done
    done
    await "$job" "e['event']=='auth_failures' and e['node']=='n1' and e['count']>0"
    await "$job" "e['event']=='auth_failures' and e['node']=='n2' and e['count']>0"
    saved "$job" $(($(commits "$job") + 3))
    finish "$job"
    of_bob finish "$spy"
    ended='select(.event=="node_dead" or .event=="worker_exit" or .event=="round_end")'
    [ -z "$(events "$job" "$ended")$(of_bob events "$spy" "$ended")" ]
    nothing_left n1 n2
}

# mounts NODE: the tmpfs of jobs there
mounts() { on "$1" sh -c 'findmnt -rn -o TARGET,OPTIONS -t tmpfs | grep "^/run/dlrover/" || :'; }
no_mounts() { [ -z "$(mounts n1)$(mounts n2)$(on n1 ls /run/dlrover)$(on n2 ls /run/dlrover)" ]; }
within() { # CONDITION...: waits until it is met
    local until=$((SECONDS + WAIT))
    until "$@"; do ((SECONDS < until)) || return; read -rt 0.2 <> <(:) || :; done
}

# bats test_tags=production
@test "another user who fills /dev/shm and takes the job's name there keeps nothing from it" {
    first=$(submit -N1 --dlrover=off --wrap true)
    await_job "$first"
    usual=/dev/shm/dlrover-3001-$((first + 1))
    for node in n1 n2; do
        on "$node" mount -o remount,size=4m /dev/shm
        bob "$node" sh -c "mkdir -m 777 $usual; head -c 8m /dev/zero >/dev/shm/full" || :
        refused bob "$node" sh -c "mkdir -p /run/dlrover/3001-$((first + 1))"
    done
    job=$(submit work.sh)
    [ "$job" -eq $((first + 1)) ]
    saved "$job"
    own=/run/dlrover/3001-$job
    for node in n1 n2; do
        mounts "$node" | grep "^$own .*nosuid.*nodev.*noexec"
        on "$node" stat -c '%U %a' "$own" "$own/dlrover-3001-$job" | paste -sd, | grep -x 'root 755,alice 700'
        on "$node" sh -c "ls $own/dlrover-3001-$job/*/r0.s0 $own/dlrover-3001-$job/*/r1.s0" | grep -q .
        refused bob "$node" ls "$own/dlrover-3001-$job"
        refused bob "$node" touch "$own/x"
        refused bob "$node" umount "$own"
    done
    # a rank restored after a failure finds its copy there
    on n2 pkill -KILL -f work.py
    await "$job" "e['event']=='restored'"
    finish "$job"
    [ -z "$(events "$job" 'select(.event=="name_taken" or .event=="node_dead")')" ]
    within no_mounts
    for node in n1 n2; do bob "$node" sh -c "rm -r $usual /dev/shm/full"; done
}

@test "without a tmpfs of its own: names taken in /dev/shm are stepped around, told, and left to their owner" {
    for node in n1 n2; do on "$node" sed -i 's/$/ job-tmpfs=off/' /etc/slurm/plugstack.conf; done
    first=$(submit -N1 --dlrover=off --wrap true)
    await_job "$first"
    usual=/dev/shm/dlrover-3001-$((first + 1))
    bob n1 sh -c "mkdir -m 777 $usual $usual/x && mkfifo $usual/agent.sock"
    bob n2 ln -s /home/bob "$usual"
    job=$(submit work.sh)
    [ "$job" -eq $((first + 1)) ]
    saved "$job"
    await "$job" "e['event']=='name_taken' and e['node']=='n1' and e['name'].startswith('$usual/')"
    await "$job" "e['event']=='name_taken' and e['node']=='n2'"
    on n1 sh -c "stat -c '%U %a' $usual.????????" | grep -x "alice 700"
    on n1 sh -c "find $usual.????????/ -type f ! -perm 600 -o -type s ! -perm 600" | { ! grep .; }
    # a rank restored after a failure finds its copy there
    on n2 pkill -KILL -f work.py
    await "$job" "e['event']=='restored'"
    finish "$job"
    # the epilog takes away what is alice's, and only that
    local until=$((SECONDS + WAIT))
    while on n1 sh -c "ls -d $usual.* 2>/dev/null" && ((SECONDS < until)); do read -rt 0.2 <> <(:) || :; done
    [ "$(on n1 sh -c "ls -d $usual*")" = "$usual" ]
    bob n1 test -p "$usual/agent.sock"
    bob n2 test -L "$usual"
    grep -rF "'$usual' is not of uid 3001: somebody has taken the name" "$VCLUSTER_DIR/hosts/n1/log"
    bob n1 rm -r "$usual"
    bob n2 rm "$usual"
    [ -z "$(mounts n1)$(mounts n2)" ]
    # full of somebody else's, where no check leaves the node out: the program runs to its end, and it
    # is said why nothing is saved
    on n2 mount -o remount,size=4m /dev/shm
    bob n2 sh -c "head -c 8m /dev/zero >/dev/shm/full" || :
    job=$(submit --dlrover-set=checks=none work.sh)
    await "$job" "e['event']=='no_memory' and e['node']=='n2' and e['count']>0 and 'No space left' in e['why']"
    await "$job" "e['event']=='first_step'"
    finish "$job"
    grep -F "nothing is saved from now on" "$(alice_home)/out.$job"
    [ -z "$(events "$job" 'select(.event=="round_end" or .event=="worker_exit" or .event=="saving")')" ]
    bob n2 rm /dev/shm/full
}

# has_room NODE SIZE: what job-tmpfs-size is there for jobs that begin from now on, "" as at first
has_room() { on "$1" sed -i "s/ job-tmpfs-size=[^ ]*//; s/\$/${2:+ job-tmpfs-size=$2}/" /etc/slurm/plugstack.conf; }

# bats test_tags=production
@test "memory that fills up is a line and a count, never the end of a program" {
    # full once the slots are there: nothing is missing any more
    has_room n2 4m
    job=$(submit work.sh)
    saved "$job"
    as_alice n2 sh -c "head -c 8m /dev/zero >/run/dlrover/3001-$job/dlrover-3001-$job/fill" || :
    on n2 df --output=avail "/run/dlrover/3001-$job" | grep -x ' *0'
    on n2 pkill -KILL -f work.py
    await "$job" "e['event']=='restored'"
    await "$job" "e['event']=='progress' and e['round']==1 and e['commits']>=3"
    finish "$job"
    [ -z "$(events "$job" 'select(.event=="no_memory" or .event=="node_dead")')" ]
    # full before: the program runs to its end, and it is said why nothing is saved
    has_room n2 64k
    job=$(submit work.sh)
    await "$job" "e['event']=='no_memory' and e['node']=='n2' and e['count']>0 and 'No space left' in e['why']"
    await "$job" "e['event']=='first_step'"
    alice /opt/dlrover/bin/dlrover status --json "$job" | jq -e '.no_memory>0'
    alice /opt/dlrover/bin/dlrover status --once "$job" | grep -F "nothing is saved in this round"
    finish "$job"
    has_room n2
    grep -F "nothing is saved from now on" "$(alice_home)/out.$job"
    [ -z "$(events "$job" 'select(.event=="round_end" or .event=="worker_exit" or .event=="saving")')" ]
}

@test "no secret is left where others of the same user could read it" {
    job=$(submit work.sh)
    saved "$job"
    for name in dlrover-keeper dlrover-supervi dlrover-agent dlrover-data; do
        pid=$(on n1 pgrep -o -u alice -x "$name")
        for part in mem environ; do # what a debugger of her own or a core file would show
            refused as_alice n1 head -c 1 "/proc/$pid/$part"
        done
        refused as_alice n1 ls "/proc/$pid/fd"
    done
    # nor in what its programs are given
    pid=$(on n1 pgrep -n -u alice -x python3)
    as_alice n1 grep -qa WORLD_SIZE "/proc/$pid/environ"
    refused as_alice n1 grep -qazE '=([0-9a-f]{32}|[^/ ]{40})$' "/proc/$pid/environ"
    # neither tokens (32 digits) nor keys (40 characters) in files or on command lines
    finish "$job"
    refused grep -rE '"token"|"[0-9a-f]{32}"|"[^" /]{40}"' "$(alice_home)/.dlrover/job-$job" "$(alice_home)/out.$job"
    [ "$(stat -c %a "$(alice_home)/.dlrover/job-$job")" = 700 ]
}

@test "a state directory that others can write is refused in one line" {
    alice mkdir -p shared
    job=$(submit -N1 --dlrover=off --wrap true)
    await_job "$job"
    alice mkdir -m 777 "shared/job-$((job + 1))"
    job=$(submit --dlrover-state-dir=/home/alice/shared work.sh)
    await_job "$job" | grep FAILED
    grep -F "can be written by others (mode 777): take that away with chmod go-w" "$(alice_home)/out.$job"
}
