#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Process 1 of the room: the pid, mount and network namespace that holds a
# whole cluster. The bridge lives here, and so does every host's pid namespace,
# so the kernel removes everything when this process is killed. Not for users:
# vcluster starts it.
#
# usage: room.sh DIR PROGRESS CLUSTER NODES LEAVES STAGE PLUGIN_ARGS PROFILE

set -euEo pipefail

lib=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/cluster/lib/common.sh
source "$lib/common.sh"
# shellcheck source=tests/cluster/lib/conf.sh
source "$lib/conf.sh"

# /opt as the hosts see it: the machine's own, and the stage over /opt/dlrover.
view_opt() { # VIEW STAGE
    local entry

    mount -t tmpfs -o mode=755,size=1m none "$1"
    for entry in /opt/*; do
        if [[ -d $entry && ! -L $entry && $entry != /opt/dlrover ]]; then
            mkdir "$1/${entry##*/}"
            mount --rbind "$entry" "$1/${entry##*/}"
        fi
    done
    [[ -n $2 ]] || return 0
    mkdir "$1/dlrover"
    mount --bind "$2/opt/dlrover" "$1/dlrover"
    mount -o remount,bind,ro "$1/dlrover"
}

# What each host's /etc is made from, and, later, these themselves.
view_etc() { # VIEW CLUSTER NODES LEAVES STAGE PLUGIN_ARGS PROFILE
    local view=$1

    shift
    mount -t tmpfs -o mode=755 none "$view"
    write_etc "$view/base" "$@"
}

# The namespace of a host gets a fresh /sys; the cgroup tree must come along.
view_cgroup() { # VIEW
    [[ ! -d /sys/fs/cgroup ]] || mount --rbind /sys/fs/cgroup "$1"
}

bridge() {
    ip link set lo up
    ip link add switch type bridge forward_delay 0 mcast_snooping 0
    ip link set switch up
}

main() {
    local dir=$1 stage=$6 progress

    # First of all, so that "down" finds this process whatever happens next.
    record_self "$dir/room"
    exec {progress}<>"$2"
    trap 'echo "room failed" >&$progress' ERR
    umask 022
    view_etc "$dir/view/etc" "${@:3}"
    view_opt "$dir/view/opt" "$stage"
    view_cgroup "$dir/view/cgroup"
    [[ -z $VCLUSTER_SLURM ]] || mount --rbind "$VCLUSTER_SLURM" "$dir/view/slurm"
    bridge
    trap - ERR
    echo "room born" >&"$progress"
    exec {progress}>&-
    # bash reaps whatever is adopted while it waits.
    sleep infinity &
    wait
}

main "$@"
exit
