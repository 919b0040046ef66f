#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The virtual cluster itself. Needs root and the packages of scripts/install-deps.
# All tests but the last ones share one cluster of 5 nodes and leave it whole.

bats_require_minimum_version 1.5.0

vcluster=$BATS_TEST_DIRNAME/vcluster
limit_s=20

setup_file() {
    export VCLUSTER_DIR=$BATS_FILE_TMPDIR/vc
    outside >"$BATS_FILE_TMPDIR/before"
    stage "$BATS_FILE_TMPDIR/stage"
    "$BATS_TEST_DIRNAME/vcluster" up --nodes 5 --leaves 2 \
        --prefix "$BATS_FILE_TMPDIR/stage" --plugin-args "a=1 b" \
        >"$BATS_FILE_TMPDIR/up"
}

teardown_file() {
    "$BATS_TEST_DIRNAME/vcluster" down
}

# What a cluster must neither add to nor change on the machine around it.
outside() {
    ip -o link show | cut -d: -f2
    ip -o addr show | awk '{print $2, $4}'
    ip route show
    cat /proc/mounts
    cksum /etc/passwd /etc/group /etc/hosts
    ls -A /home /opt /etc/slurm /etc/munge /var/spool /var/lib/munge /run/munge 2>&1 || true
}

# A stage whose plugin says which arguments it was given.
stage() { # DIR
    mkdir -p "$1/opt/dlrover/lib/slurm" "$1/opt/dlrover/bin"
    printf '#!/bin/sh\necho staged\n' >"$1/opt/dlrover/bin/staged"
    chmod 755 "$1/opt/dlrover/bin/staged"
    cat >"$1/plugin.c" <<'END'
#include <slurm/spank.h>
#include <stdlib.h>
SPANK_PLUGIN(test, 1)
int slurm_spank_init(spank_t sp, int ac, char **av)
{
    if (spank_context() == S_CTX_LOCAL && getenv("SAY_ARGS"))
        slurm_info("plugin got %d: %s %s", ac, av[0], av[1]);
    return 0;
}
END
    gcc ${VCLUSTER_SLURM:+"-I$VCLUSTER_SLURM/include"} -shared -fPIC -o "$1/opt/dlrover/lib/slurm/spank_dlrover.so" "$1/plugin.c"
}

# Namespaces of the cluster in DIR, as /proc names them.
namespaces() { # DIR
    local file pid rest

    for file in "$1"/room "$1"/hosts/*/init; do
        read -r pid rest <"$file"
        readlink "/proc/$pid/ns/"{mnt,net,pid_for_children,uts,ipc}
    done | sort -u | grep -vxF "$(readlink /proc/self/ns/*)"
}

# Fails if a process lives in one of the namespaces listed in FILE.
nobody_in() { # FILE
    ! find /proc/[0-9]*/ns -type l -printf '%l\n' 2>/dev/null | grep -qxF -f "$1"
}

# A condition nobody signals: asks until it holds, or fails at the limit.
eventually() { # COMMAND…
    local deadline=$((SECONDS + limit_s))

    until "$@"; do
        ((SECONDS < deadline)) || return 1
    done
}

state_of() { # HOST
    "$vcluster" status --json | jq -r ".hosts[] | select(.name == \"$1\").state"
}

# n1 connects to n2 and says "connected", then what its recv() returned.
start_listener() { # PIDFILE
    "$vcluster" exec n2 -- python3 -c '
import os, socket
s = socket.create_server(("", 7000))
print(os.getpid(), flush=True)
c, _ = s.accept()
c.sendall(b"x")
c.recv(1)
' >"$1" 3>&- &
    eventually test -s "$1"
}

start_peer() { # OUT
    "$vcluster" exec n1 -- python3 -c '
import socket
s = socket.create_connection(("n2", 7000))
s.recv(1)
print("connected", flush=True)
s.settimeout(3)
try:
    print("recv returned", s.recv(1))
except TimeoutError:
    print("silent")
except OSError as e:
    print("error", e)
' >"$1" 3>&- &
    peer=$!
    eventually grep -q connected "$1"
}

@test "up says each host and ends with every node idle" {
    [ "$(grep -c ' up, ' "$BATS_FILE_TMPDIR/up")" = 6 ]
    grep -q 'all 5 nodes idle' "$BATS_FILE_TMPDIR/up"
    run -0 "$vcluster" exec ctl -- sinfo -h -o '%D %T'
    [ "$output" = "5 idle" ]
}

@test "the cluster keeps none of its caller's descriptors" {
    local pid

    for pid in $(pgrep -f "$VCLUSTER_DIR"); do
        [ ! -e "/proc/$pid/fd/3" ] || [ "$(readlink /proc/$pid/fd/3)" != "$(readlink /proc/self/fd/3)" ]
    done
}

@test "nothing of it shows on the machine around it" {
    outside | diff "$BATS_FILE_TMPDIR/before" -
}

@test "five nodes on two leaves are split three to two" {
    run -0 "$vcluster" exec ctl -- scontrol show topology
    # newer releases of Slurm fold the lists
    [[ $output =~ "SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes="("n1,n2,n3"|"n[1-3]")[[:space:]] ]]
    [[ $output =~ "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes="("n4,n5"|"n[4-5]")[[:space:]] ]]
    [[ $output == *"SwitchName=spine Level=1"* ]]
    run -0 "$vcluster" status
    [[ $output =~ n3\ +up\ +[0-9]+\ +idle\ +leaf0\ +10.83.0.3 ]]
}

@test "exec passes standard input, output and the exit status" {
    run -0 "$vcluster" exec n1 -- cat <<<"a b"
    [ "$output" = "a b" ]
    run -7 "$vcluster" exec n1 -- sh -c 'exit 7'
    run -0 --separate-stderr "$vcluster" exec n1 -- sh -c 'echo out; echo err >&2'
    [ "$output $stderr" = "out err" ]
    run -0 "$vcluster" exec n2 -- printf '%s,' 'a b' '$HOME' --dir ''
    [ "$output" = 'a b,$HOME,--dir,,' ]
}

@test "a user gets a clean login at home, on every host the same home" {
    run -0 env SLURM_CONF=/none SLURM_JOB_ID=1 "$vcluster" exec --user alice ctl -- \
        sh -c 'pwd; id -un; id -gn; echo $HOME; env | grep SLURM; echo x >f; umask'
    [ "$output" = $'/home/alice\nalice\nalice\n/home/alice\nSLURM_PMIX_FENCE=ring\n0022' ]
    run -0 "$vcluster" exec --user alice n5 -- cat f
    [ "$output" = x ]
    run -1 "$vcluster" exec --user bob n5 -- cat /home/alice/f
    [ -e "$VCLUSTER_DIR/home/alice/f" ]
}

@test "hosts have their own name, processes, boot id and world-writable places" {
    local dir host

    for dir in /tmp /var/tmp /dev/shm /run/lock; do
        "$vcluster" exec --user alice n1 -- touch "$dir/vcluster-n1"
        run -1 "$vcluster" exec n2 -- test -e "$dir/vcluster-n1"
        [ ! -e "$dir/vcluster-n1" ]
    done
    for host in n1 n2; do
        run -0 "$vcluster" exec $host -- sh -c 'hostname; cat /proc/1/comm; ls /sys/class/net'
        [ "$output" = "$host"$'\nbash\neth0\nlo' ]
    done
    [ "$("$vcluster" exec n1 -- cat /proc/sys/kernel/random/boot_id)" != \
        "$("$vcluster" exec n2 -- cat /proc/sys/kernel/random/boot_id)" ]
}

@test "the stage is /opt/dlrover, read-only, with the plugin configured" {
    run -0 "$vcluster" exec --user bob ctl -- staged
    [ "$output" = staged ]
    run -1 "$vcluster" exec n1 -- touch /opt/dlrover/x
    [[ $output == *"Read-only file system"* ]]
    run -0 "$vcluster" exec --user bob ctl -- env SAY_ARGS=1 srun -N1 true
    [[ $output == *"plugin got 2: a=1 b"* ]]
}

@test "an MPI program of an ordinary user runs on all nodes" {
    cat >"$BATS_TEST_TMPDIR/hello.c" <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, sum, len;
    char host[MPI_MAX_PROCESSOR_NAME];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Get_processor_name(host, &len);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%s %d\n", host, sum);
    MPI_Finalize();
    return 0;
}
END
    mpicc -o "$VCLUSTER_DIR/home/alice/hello" "$BATS_TEST_TMPDIR/hello.c"
    run -0 "$vcluster" exec --user alice ctl -- \
        bash -c 'srun --quiet --mpi=pmix -N5 -n10 ./hello | sort | uniq -c | tr -s " "'
    [ "$output" = $' 2 n1 45\n 2 n2 45\n 2 n3 45\n 2 n4 45\n 2 n5 45' ]
}

@test "UCX finds TCP over the network card and nothing that would cheat" {
    run -0 "$vcluster" exec --user alice n1 -- ucx_info -c
    [[ $output == *"UCX_TLS=tcp,self"* ]]
    run -0 "$vcluster" exec --user alice n1 -- ucx_info -d
    [[ $output == *"Device: eth0"* ]]
}

@test "a killed process ends its connection, a killed node is silent" {
    start_listener "$BATS_TEST_TMPDIR/pid"
    start_peer "$BATS_TEST_TMPDIR/peer"
    "$vcluster" exec n2 -- kill -KILL "$(<"$BATS_TEST_TMPDIR/pid")"
    wait "$peer"
    grep -q "recv returned b''" "$BATS_TEST_TMPDIR/peer"

    start_listener "$BATS_TEST_TMPDIR/pid2"
    start_peer "$BATS_TEST_TMPDIR/peer2"
    "$vcluster" kill n2
    wait "$peer"
    grep -q silent "$BATS_TEST_TMPDIR/peer2"
    "$vcluster" boot n2
}

@test "kill takes every process and boot brings a new boot of the node" {
    local before mac

    mac=$("$vcluster" exec n3 -- cat /sys/class/net/eth0/address)
    before=$("$vcluster" exec n3 -- cat /proc/sys/kernel/random/boot_id)
    "$vcluster" exec n3 -- sh -c 'setsid sleep 300 >/dev/null 2>&1 & touch /tmp/t /var/tmp/v'
    readlink "/proc/$("$vcluster" status --json |
        jq '.hosts[] | select(.name == "n3").pid')/ns/pid_for_children" >"$BATS_TEST_TMPDIR/ns"
    "$vcluster" kill n3
    nobody_in "$BATS_TEST_TMPDIR/ns"
    [ "$(state_of n3)" = dead ]
    run -125 "$vcluster" exec n3 -- true
    [[ $output == *"n3 is dead"* ]]
    run -1 "$vcluster" kill n2 n3
    [ "$(state_of n2)" = up ]
    run -0 "$vcluster" boot n3
    [ "$(state_of n3)" = up ]
    [ "$("$vcluster" exec n3 -- cat /sys/class/net/eth0/address)" = "$mac" ]
    [ "$("$vcluster" exec n3 -- cat /proc/sys/kernel/random/boot_id)" != "$before" ]
    "$vcluster" exec n3 -- sh -c 'test ! -e /tmp/t && test -e /var/tmp/v'
    run -0 "$vcluster" exec --user alice ctl -- srun --quiet -w n3 hostname
    [ "$output" = n3 ]
    run -1 "$vcluster" boot n3
    [[ $output == *"n3 is not dead"* ]]
}

@test "the controller can be killed and booted like a node" {
    "$vcluster" kill ctl
    [ "$(state_of ctl)" = dead ]
    run -1 "$vcluster" boot n1
    "$vcluster" boot ctl
    run -0 "$vcluster" exec --user alice ctl -- srun --quiet -N5 true
}

@test "freeze stops every process of a node, thaw lets them go on" {
    local sleeper

    "$vcluster" exec n4 -- sleep 1.5 3>&- &
    sleeper=$!
    eventually "$vcluster" exec n4 -- pgrep -xf 'sleep 1.5' >/dev/null
    "$vcluster" freeze n4
    [ "$(state_of n4)" = frozen ]
    run -125 "$vcluster" exec n4 -- true
    [[ $output == *"n4 is frozen"* ]]
    run -124 timeout 2 "$vcluster" exec n1 -- bash -c 'exec 9<>/dev/tcp/n4/6818; cat <&9'
    "$vcluster" thaw n4
    [ "$(state_of n4)" = up ]
    wait "$sleeper"
}

@test "a node whose cable is out is reached by nobody, until healed" {
    local reach='timeout 1 bash -c "exec 9<>/dev/tcp/n4/6818"'

    "$vcluster" exec n1 -- sh -c "$reach"
    "$vcluster" cut n4
    [ "$(state_of n4)" = cut ]
    run ! "$vcluster" exec n1 -- sh -c "$reach"
    "$vcluster" exec n4 -- true
    "$vcluster" heal n4
    [ "$(state_of n4)" = up ]
    eventually "$vcluster" exec n1 -- sh -c "$reach"
}

@test "killing the caller of exec ends the command" {
    local caller

    "$vcluster" exec n1 -- sleep 301 3>&- &
    caller=$!
    eventually "$vcluster" exec n1 -- pgrep -xf 'sleep 301' >/dev/null
    kill "$caller"
    wait "$caller" || true
    eventually bash -c "! '$vcluster' exec n1 -- pgrep -r S,R -xf 'sleep 301' >/dev/null"
}

@test "Ctrl-C reaches the command, whose own exit status counts" {
    local pid rc=0

    setsid "$vcluster" exec n1 -- bash -c \
        'trap "exit 5" INT; echo ready; read -t 20 <> <(:)' >"$BATS_TEST_TMPDIR/out" 3>&- &
    pid=$!
    eventually grep -q ready "$BATS_TEST_TMPDIR/out"
    kill -INT -- "-$pid"
    wait "$pid" || rc=$?
    [ "$rc" = 5 ]
}

@test "the directory may lie where hosts have something of their own" {
    local below dir

    for below in /home /opt /run /var/tmp; do
        dir=$(mktemp -d "$below/vcluster-test.XXXXXX")
        "$vcluster" up --dir "$dir" --nodes 1 --leaves 1
        run "$vcluster" exec --dir "$dir" --user alice ctl -- srun --quiet pwd
        "$vcluster" down --dir "$dir"
        [ "$output" = /home/alice ]
    done
}

@test "wrong use is said in one line" {
    local -a line

    while read -r -a line; do
        run -"${line[0]}" "$vcluster" "${line[@]:1}"
        [ "${#lines[@]}" = 1 ] || { echo "${line[*]}: $output"; false; }
    done <<END
2
2 fly
2 up --nodes
2 up --nodes 0
2 up --nodes 5x
2 up --leaves 9
2 up --wings 2
2 kill
2 status --xml
1 up
1 up --dir /etc
2 up --profile fast
1 up --dir $BATS_TEST_TMPDIR/x --prefix /nowhere
1 kill n6
1 kill ../home
1 status --dir $BATS_TEST_TMPDIR/x
125 exec n1 true
125 exec --user mallory n1 -- true
0 down --dir $BATS_TEST_TMPDIR/x
END
    run -1 unshare --user "$vcluster" up --dir "$BATS_TEST_TMPDIR/x"
    [[ $output == *"not root"* ]]
    run -1 unshare --mount sh -c \
        "mount --bind /dev/null /usr/sbin/slurmctld; '$vcluster' up --dir '$BATS_TEST_TMPDIR/x'"
    [[ $output == *"package slurmctld is missing: run scripts/install-deps" ]]
    [ ! -e "$BATS_TEST_TMPDIR/x" ]
}

# The folders that production clusters have in the machine's cgroup tree.
cgroup_folders() {
    find /sys/fs/cgroup -maxdepth 3 -path '*/vc[0-9]*' -prune 2>/dev/null | sort
}

memory_limit='cat /sys/fs/cgroup/memory/slurm*/uid_3001/job_$SLURM_JOB_ID/memory.limit_in_bytes'

@test "the production profile confines memory, GPUs and processes of a job" {
    local dir=$BATS_TEST_TMPDIR/vc lacks

    lacks=$(source "$BATS_TEST_DIRNAME/lib/cgroup.sh" && cgroup_lacks)
    [ -z "$lacks" ] || skip "profile production cannot be had: $lacks"
    cgroup_folders >"$BATS_TEST_TMPDIR/folders"
    "$vcluster" up --dir "$dir" --nodes 2 --leaves 1 --profile production
    inside() { "$vcluster" exec --dir "$dir" --user alice ctl -- "$@"; }
    run -0 inside srun -Q -N2 --mem=200 bash -c "$memory_limit"
    [ "$output" = $'209715200\n209715200' ]
    run -0 inside srun -Q -N1 --gpus=2 bash -c 'echo $CUDA_VISIBLE_DEVICES; cat /run/gpus/gpu3 || true' 2>&1
    [[ $output == *0,1*"Operation not permitted"* ]]
    run inside srun -N1 --mem=100 bash -c 'head -c 300m /dev/zero | tail -c 300m | wc -c'
    [ "$status" -ne 0 ]
    [[ $output == *oom[-_]kill* ]]
    inside srun -Q -N1 -w n1 bash -c 'setsid sleep 302 & :'
    eventually bash -c "! '$vcluster' exec --dir '$dir' n1 -- pgrep -xf 'sleep 302' >/dev/null"
    # A node that lost its power in the middle of a job starts without that job's cgroups.
    inside sbatch -Q -w n1 --mem=200 --wrap 'sleep 303' >/dev/null
    eventually bash -c "'$vcluster' exec --dir '$dir' n1 -- pgrep -xf 'sleep 303' >/dev/null"
    "$vcluster" kill n1 --dir "$dir"
    "$vcluster" boot n1 --dir "$dir"
    run -0 "$vcluster" exec --dir "$dir" n1 -- find /sys/fs/cgroup/memory -name 'job_*'
    [ -z "$output" ]
    "$vcluster" down --dir "$dir"
    cgroup_folders | diff "$BATS_TEST_TMPDIR/folders" -
}

@test "a machine without the cgroups of the production profile gets one line that says so" {
    local lib=$BATS_TEST_DIRNAME/lib

    run -1 unshare --mount bash -c "source '$lib/common.sh'; source '$lib/cgroup.sh'
        umount \$(cgroup_mount memory) 2>/dev/null
        '$vcluster' up --dir '$BATS_TEST_TMPDIR/vc' --profile production"
    [ "${#lines[@]}" = 1 ]
    [[ $output == *"profile 'production' cannot be had: no writable cgroup v1 hierarchy of"*memory* ]]
    [ ! -e "$BATS_TEST_TMPDIR/vc" ]
}

@test "two clusters side by side do not disturb each other" {
    local other=$BATS_TEST_TMPDIR/other

    "$vcluster" up --dir "$other" --nodes 2 --leaves 1
    run -0 "$vcluster" exec --dir "$other" ctl -- sinfo -h -o %D
    [ "$output" = 2 ]
    namespaces "$other" >"$BATS_TEST_TMPDIR/ns"
    "$vcluster" kill n1 --dir "$other"
    [ "$(state_of n1)" = up ]
    "$vcluster" down --dir "$other"
    [ ! -e "$other" ]
    nobody_in "$BATS_TEST_TMPDIR/ns"
    run -0 "$vcluster" exec --user alice ctl -- srun --quiet -N5 true
}

@test "a cluster whose processes are gone is stale, and up starts afresh" {
    local dir=$BATS_TEST_TMPDIR/vc room

    "$vcluster" up --dir "$dir" --nodes 1 --leaves 1
    read -r room _ <"$dir/room"
    kill -KILL "$room"
    eventually bash -c "! kill -0 $room 2>/dev/null"
    run -1 "$vcluster" status --dir "$dir"
    [[ $output == *"is dead"* ]]
    touch "$dir/home/alice/old"
    run -0 "$vcluster" up --dir "$dir" --nodes 1 --leaves 1
    [[ $output == *"cleaning up a stale cluster"*"1 nodes idle"* ]]
    [ ! -e "$dir/home/alice/old" ]
    "$vcluster" down --dir "$dir"
}

@test "an up that is interrupted or killed leaves nothing, or what down removes" {
    local dir=$BATS_TEST_TMPDIR/vc signal pid

    for signal in INT TERM KILL; do
        env --default-signal=INT "$vcluster" up --dir "$dir" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
        pid=$!
        eventually test -s "$dir/hosts/n1/init"
        namespaces "$dir" >"$BATS_TEST_TMPDIR/ns" 2>/dev/null || true
        kill -$signal $pid
        wait $pid || true
        [ $signal != KILL ] || "$vcluster" down --dir "$dir"
        [ ! -e "$dir" ]
        eventually nobody_in "$BATS_TEST_TMPDIR/ns"
    done
}

@test "an up that fails says why and leaves nothing" {
    local dir=$BATS_TEST_TMPDIR/vc

    run -1 unshare --mount bash -c \
        "mount --bind /bin/false '${VCLUSTER_SLURM:-/usr}/sbin/slurmd'; '$vcluster' up --dir '$dir'"
    [[ $output == *": slurmd ended with status 1"* ]]
    [ ! -e "$dir" ]
}

@test "down leaves no process, namespace or file, and can be repeated" {
    namespaces "$VCLUSTER_DIR" >"$BATS_TEST_TMPDIR/ns"
    "$vcluster" kill n5
    "$vcluster" freeze n4
    "$vcluster" cut n3
    "$vcluster" exec n1 -- sleep 300 3>&- &
    "$vcluster" down
    [ ! -e "$VCLUSTER_DIR" ]
    eventually nobody_in "$BATS_TEST_TMPDIR/ns" # what SIGKILL has hit may still be on its way out
    outside | diff "$BATS_FILE_TMPDIR/before" -
    run -0 "$vcluster" down
    [[ $output == *"no cluster in"* ]]
}
