#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# dlrover doctor on a cluster that is well, and on one in which one thing at a time is not: it has
# to say that and nothing else. Needs root and an installed suite (tests/cluster/lib/suite.bash).

# Words for a shell of another node.
# shellcheck disable=SC2016
bats_require_minimum_version 1.5.0

load lib/suite

plugin=/opt/dlrover/lib/slurm/spank_dlrover.so

# A copy of the installed suite, in which the plugin may be replaced.
setup_file() {
    need_stage
    mkdir -p "$BATS_FILE_TMPDIR/stage/opt"
    cp -a "$STAGE/opt/dlrover" "$BATS_FILE_TMPDIR/stage/opt/"
    STAGE=$BATS_FILE_TMPDIR/stage cluster_up 2 1 >&2
}

teardown_file() { cluster_down; }

# problems COMMAND…: the checks that have one, in a line
problems() {
    "$@" >"$BATS_TEST_TMPDIR/out" || :
    sed -n 's/^problem  \([a-z]*\) .*/\1/p' "$BATS_TEST_TMPDIR/out" | paste -sd' '
}

# said TEXT: the last problems' command has printed it
said() { grep -qF -e "$1" "$BATS_TEST_TMPDIR/out" || { cat "$BATS_TEST_TMPDIR/out"; return 1; }; }

# bats test_tags=production
@test "a cluster that is well has no problem, for root and for users, on any host" {
    for host in ctl n1; do
        run -0 on "$host" dlrover doctor
        [[ $output == *"$host: 0 problems in "* ]]
    done
    run -0 "$VC" exec --user alice n1 -- dlrover doctor --json
    [[ $(jq -r '[.problems, .node] | join(" ")' <<<"$output") == "0 n1" ]]
    [[ $(jq -r '.checks[] | select(.check == "slurmd").verdict' <<<"$output") == ok ]]
}

# bats test_tags=production
@test "inside a job it says whether it is supervised, and asks the nodes" {
    run -0 alice salloc -Q -N 2 dlrover doctor
    [[ $output == *"note     supervised   an srun here is not supervised, by default"* ]]
    [[ $output == *"ok       nodes        2 nodes have version"* ]]
    for check in state budget clock network shared; do
        [[ $output == *"ok       $check "* ]]
    done
    run -0 alice env DLROVER=on salloc -Q -N 2 dlrover doctor --checks=supervised
    [[ $output == *"is supervised, by DLROVER in the environment"* ]]
    run -0 alice salloc -Q -N 2 --dlrover=on --dlrover-spares=1 dlrover doctor --checks=supervised
    [[ $output == *"is supervised, by the job's option --dlrover: 1 spare nodes"* ]]
    run -0 alice salloc -Q -N 2 --dlrover=on srun -n 2 dlrover doctor --checks=supervised,nodes
    [[ $output == *"this is a task of round 0 of run "* ]]
    [[ $output == *"ok       nodes        2 nodes have version"* ]]
}

@test "a line that is missing, required, doubled or has a bad word" {
    conf=/etc/slurm/plugstack.conf
    line="optional $plugin"
    [ "$(problems on n1 sh -c "echo '#$line' >$conf; dlrover doctor")" = plugstack ]
    said "'$conf' has no line that loads the plugin: add '$line', or include"
    [ "$(problems on n1 sh -c "echo 'required $plugin' >$conf; dlrover doctor")" = plugstack ]
    said "write 'optional'"
    [ "$(problems on n1 sh -c "echo '$line spares=some' >$conf; dlrover doctor")" = plugstack ]
    said "the plugin ignores 'spares=some': "
    on n1 sh -c "mkdir -p /etc/slurm/plugstack.conf.d; echo '$line' >/etc/slurm/plugstack.conf.d/dlrover.conf"
    [ "$(problems on n1 sh -c "echo 'include plugstack.conf.d/*.conf' >$conf; dlrover doctor")" = "" ]
    said "/etc/slurm/plugstack.conf.d/dlrover.conf:1 loads '$plugin'"
    on n1 sh -c "echo '$line' >$conf"
}

@test "a plugin for another Slurm, and one that slurmd has not loaded yet" {
    file=$BATS_FILE_TMPDIR/stage$plugin
    cp "$file" "$file.kept"
    LC_ALL=C sed -E 's/(@\(#\)spank_dlrover \x00*)[0-9]{2}\.[0-9]{2}/\199.02/' "$file.kept" >"$file.other"
    run ! cmp -s "$file.kept" "$file.other"
    mv "$file.other" "$file"
    [ "$(problems on n1 dlrover doctor)" = plugin ]
    said "was built for Slurm 99.02 and loads into no other, this is "
    # what a user sees is a time in seconds
    until (($(on n1 sh -c 'ps -o etimes= -p "$(pgrep -x slurmd)"') > 5)); do
        read -rt 0.2 <> <(:) || :
    done
    mv "$file.kept" "$file"
    [ "$(problems on n1 dlrover doctor)" = slurmd ]
    said "has not loaded the plugin as it is now, so jobs leave their memory on this node: restart slurmd"
    [ "$(problems "$VC" exec --user alice n1 -- dlrover doctor)" = slurmd ]
    said "was started before the plugin was installed"
    for node in n1 n2; do
        "$VC" kill "$node"
        "$VC" boot "$node"
    done
    [ "$(problems on n1 dlrover doctor)" = "" ]
}

@test "munged stopped, /dev/shm full, RemoveIPC=yes, a program or libslurm missing" {
    on n1 pkill -x munged
    [ "$(problems on n1 dlrover doctor)" = munge ]
    said "start munged"
    on n1 setpriv --reuid=munge --regid=munge --clear-groups /usr/sbin/munged
    on n1 mount -o remount,size=32m /dev/shm
    [ "$(problems on n1 dlrover doctor)" = shm ]
    said "'/dev/shm' has 32 MiB"
    on n1 mount -o remount,size=2g /dev/shm
    agent=$BATS_FILE_TMPDIR/stage/opt/dlrover/libexec/dlrover/dlrover-agent
    mv "$agent" "$agent.away"
    [ "$(problems on n1 dlrover doctor)" = programs ]
    said "dlrover-agent"
    mv "$agent.away" "$agent"
    library=$(on n1 ldd /opt/dlrover/libexec/dlrover/dlrover-slurm | sed -n 's/^.*libslurm.* => \([^ ]*\) .*/\1/p')
    on n1 mount --bind /dev/null "$library"
    [ "$(problems on n1 dlrover doctor)" = programs ]
    said "no job can be requeued, '"
    said "dlrover-slurm: error while loading shared libraries: $library: file too short'"
    on n1 umount "$library"
    on n1 sh -c 'mkdir -p /etc/systemd/logind.conf.d; printf "[Login]\nRemoveIPC=yes\n" >/etc/systemd/logind.conf.d/x.conf'
    [ "$(problems on n1 dlrover doctor)" = ipc ]
    said "set RemoveIPC=no"
    # a user of a job that has this node is told as well
    [ "$(problems alice salloc -Q -N 2 dlrover doctor)" = nodes ]
    said "n1: ipc: RemoveIPC=yes"
    on n1 rm /etc/systemd/logind.conf.d/x.conf
    [ "$(problems on n1 dlrover doctor)" = "" ]
}

@test "a state directory of one host only, and a slurmctld that does not answer" {
    [ "$(problems alice salloc -Q -N 2 dlrover doctor --state-dir=/tmp/mine)" = shared ]
    said "do not see what this host writes into '/tmp/mine'"
    [ "$(problems alice salloc -Q -N 2 dlrover doctor --state-dir=/proc/mine --checks=state,shared)" = state ]
    "$VC" freeze ctl
    [ "$(problems on n1 dlrover doctor --limit=1s)" = slurmctld ]
    "$VC" thaw ctl
    said "'scontrol show config' does not end"
}
