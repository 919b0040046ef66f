#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# etc/dlrover-probe-down, with Slurm's commands played here. A node n3 has address 127.0.0.3; where a slurmd is said to
# run there, something listens.

setup() {
    [ "$(id -u)" = 0 ] || skip "it is root's"
    dir=$BATS_TEST_TMPDIR
    export RUNTIME_DIRECTORY=$dir/run FAKE=$dir/fake
    mkdir -p "$dir/bin" "$FAKE"
    sed "s|^PATH=.*|PATH=$dir/bin:/usr/bin:/bin|" "$BATS_TEST_DIRNAME/../../etc/dlrover-probe-down" >"$dir/probe"
    chmod +x "$dir/probe"
    for i in $(seq 40); do echo "n$i"; done >"$FAKE/nodes"
    for i in 3 4 5; do echo IDLE+COMPLETING >"$FAKE/state.n$i"; done
    echo "7 n3" >"$FAKE/ending"
    cat >"$dir/bin/squeue" <<'SH'
#!/bin/bash
[[ $* =~ -w\ (n[0-9]+) ]] || exit 1
[[ $* != *"-t CG"* ]] || exec awk -v node="${BASH_REMATCH[1]}" '$2 == node { print $1 }' "$FAKE/ending"
cat "$FAKE/jobs.${BASH_REMATCH[1]}" 2>/dev/null
SH
    cat >"$dir/bin/sinfo" <<'SH'
#!/bin/bash
case $* in
*%R*) echo main ;;
*"-t comp"*) sed 's/.* n\(.*\)/n\1 127.0.0.\1/' "$FAKE/ending" ;;
*"-r -t"*) echo n20; echo n21 ;;
*"-p main"*) cat "$FAKE/nodes" ;;
esac
SH
    cat >"$dir/bin/scontrol" <<'SH'
#!/bin/bash
case $* in
"show config") echo "SlurmdPort = $(cat "$FAKE/port")" ;;
"-o show node "*)
    state=$(cat "$FAKE/state.$4" 2>/dev/null || echo IDLE)
    echo "NodeName=$4 NodeAddr=127.0.0.${4#n} NodeHostName=$4 Port=$(cat "$FAKE/port") State=$state Reason=none" ;;
update*) echo "$*" >>"$FAKE/updates" ;;
esac
SH
    chmod +x "$dir"/bin/*
    listen n20 n21
}

teardown() { [[ ! -s $dir/pids ]] || xargs kill <"$dir/pids" 2>/dev/null || true; }

# A slurmd takes connections on these nodes, at a port that is free on all of them.
listen() {
    cat >"$dir/listen.py" <<'PY'
import socket, sys, time
port, names, kept = int(sys.argv[1]), sys.argv[3:], []
for name in names:
    s = socket.create_server(("127.0.0." + name[1:], port), backlog=64)
    port = s.getsockname()[1]
    kept.append(s)
open(sys.argv[2] + ".new", "w").write(str(port))
import os
os.rename(sys.argv[2] + ".new", sys.argv[2])
time.sleep(600)
PY
    rm -f "$FAKE/up"
    python3 "$dir/listen.py" "$(cat "$FAKE/port" 2>/dev/null || echo 0)" "$FAKE/up" "$@" 3>&- &
    echo $! >>"$dir/pids"
    until [ -e "$FAKE/up" ]; do read -rt 0.05 <> <(:) || :; done
    cp "$FAKE/up" "$FAKE/port"
}

probe() { run "$dir/probe" --tries 2 --pause 0 "$@"; }

@test "a dead node on which a job only waits for its end is called down, once" {
    probe --dry-run
    [[ $status -eq 0 && $output == "n3: would be called down: dlrover: slurmd takes no connection, and job 7 "* ]]
    [ ! -e "$FAKE/updates" ]
    probe
    [ "$status" -eq 0 ]
    [ "$(cat "$FAKE/updates")" = "update NodeName=n3 State=DOWN Reason=dlrover: slurmd takes no connection, and job 7 only waits for its end" ]
    echo IDLE+COMPLETING+DOWN >"$FAKE/state.n3"
    probe
    [[ $status -eq 0 && -z $output ]]
}

@test "a node that lives, has another job or boots is left alone, and so is all when nothing answers" {
    echo 8 >"$FAKE/jobs.n3" # another job runs there
    probe
    [[ $status -eq 0 && -z $output ]]
    rm "$FAKE/jobs.n3"
    for state in DOWN+COMPLETING 'IDLE+COMPLETING+REBOOT_ISSUED' POWERING_DOWN IDLE+POWERED_DOWN; do
        echo "$state" >"$FAKE/state.n3"
        probe
        [[ $status -eq 0 && -z $output ]]
    done
    echo IDLE+COMPLETING >"$FAKE/state.n3"
    xargs kill <"$dir/pids" # this host is cut off
    : >"$dir/pids"
    probe
    [[ $status -eq 1 && $output == "not called down: n3: no other node answers here either" ]]
    listen n3 n20
    probe
    [[ $status -eq 0 && -z $output ]]
    [ ! -e "$FAKE/updates" ]
}

@test "no more than a share of a partition is called down within an hour, and of a site's fault nobody" {
    printf '7 %s\n' n3 n4 n5 >"$FAKE/ending" # 5 % of 40 are 2
    probe
    [[ $status -eq 1 && $output == "not called down: n3 n4 n5: 3 of 40 nodes of partition 'main' within an hour, 2 may be. A fault of the site?" ]]
    [ "$(stat -c %a "$RUNTIME_DIRECTORY")" = 700 ]
    echo "7 n3" >"$FAKE/ending"
    probe
    echo "9 n4" >"$FAKE/ending"
    probe
    [ "$(wc -l <"$FAKE/updates")" -eq 2 ]
    echo "9 n5" >"$FAKE/ending"
    probe
    [[ $status -eq 1 && $output == "not called down: n5: 3 of 40"* ]]
    sed -i "s/^[0-9]*/1000/" "$RUNTIME_DIRECTORY/down" # long ago
    probe
    [ "$(wc -l <"$FAKE/updates")" -eq 3 ]
}

@test "wrong words and another user are refused" {
    for words in --tries "--tries x" "--pause -1" --no "--tries 0"; do
        # shellcheck disable=SC2086 # two words
        run "$dir/probe" $words
        [[ $status -eq 2 && $output == "usage: dlrover-probe-down "* ]]
    done
    chmod 755 "$dir" "$dir/probe"
    run setpriv --reuid 65534 --clear-groups bash "$dir/probe"
    [[ $status -ne 0 && $output != *"called down: dlrover"* ]]
}
