#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Process 1 of a virtual host. Not for users: vcluster starts it, in fresh pid,
# mount, network, UTS and IPC namespaces.
#
# usage: host.sh DIR HOST SHM_SIZE PROGRESS GO CLUSTER
#
# With a CLUSTER the host has cgroups of its own, CLUSTER/HOST of the machine's.
# Tells its steps on the fifo PROGRESS and waits on the fifo GO for its cable.

set -euEo pipefail

lib=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/cluster/lib/common.sh
source "$lib/common.sh"
# shellcheck source=tests/cluster/lib/conf.sh
source "$lib/conf.sh"

# shellcheck source=tests/cluster/lib/cgroup.sh
source "$lib/cgroup.sh"

cable_timeout_s=30
tmp_options=mode=1777,nosuid,nodev

# Binds a file or directory of DIR, the working directory. DIR may lie below a
# place that was mounted over before, where only relative names still reach it.
bind() { # OURS TARGET
    mount --no-canonicalize --rbind "$1" "$2"
}

# A sysfs belongs to the network namespace it was mounted in; UCX looks there
# for its devices and would find the machine's instead of eth0.
mount_sys() { # CLUSTER
    mount -t sysfs sysfs /sys
    if [[ -n $1 ]]; then
        cgroup_mounts
    elif [[ -d /sys/fs/cgroup ]]; then
        bind view/cgroup /sys/fs/cgroup
    fi
}

# The Slurm of another prefix, where a mount of this host lies over it (/var/tmp, /tmp, /home).
show_slurm() {
    [[ -n $VCLUSTER_SLURM && ! -x $VCLUSTER_SLURM/sbin/slurmctld ]] || return 0
    mkdir -p "$VCLUSTER_SLURM"
    bind view/slurm "$VCLUSTER_SLURM"
}

mount_all() { # HOST SHM_SIZE CLUSTER
    local disk=hosts/$1

    mount_sys "$3"
    bind "view/etc/$1" /etc
    bind "$disk/log" /var/log
    bind "$disk/spool" /var/spool
    bind "$disk/munge" /var/lib/munge
    bind "$disk/tmp" /var/tmp
    bind home /home
    bind view/opt /opt
    mount -t proc proc /proc
    bind "$disk/boot_id" /proc/sys/kernel/random/boot_id
    mount -t tmpfs -o "$tmp_options,size=$2" none /dev/shm
    [[ ! -d /dev/mqueue ]] || mount -t mqueue none /dev/mqueue
    mount -t tmpfs -o mode=755,nosuid,nodev none /run
    mount -t tmpfs -o "$tmp_options" none /tmp
    show_slurm
    install -d -m 1777 /run/lock
    install -d -o munge -g munge /run/munge
    install -d -o slurm -g slurm /run/slurm
    cd /
}

# Slurm ignores a GPU without a device file.
gpus() {
    local i

    mkdir /run/gpus
    mount -t tmpfs -o mode=755,nosuid none /run/gpus
    for i in 0 1 2 3; do
        mknod -m 666 "/run/gpus/gpu$i" c 195 "$i"
    done
}

network() { # HOST
    ip link set lo up
    ip addr add "$(address_of "$1")/24" dev eth0
    ip link set eth0 up
}

# Only IPv4 is used; duplicate address detection of link-local addresses would
# cost a second and confuse libraries that list interfaces.
no_ipv6() {
    local file

    for file in /proc/sys/net/ipv6/conf/{all,default}/disable_ipv6; do
        { echo 1 >"$file"; } 2>/dev/null || true
    done
}

daemon() { # PROGRAM: runs it and tells vcluster when it ends
    local rc=0

    rm -f /var/log/ended
    "$1" -D >>"/var/log/slurm/$1.out" 2>&1 </dev/null || rc=$?
    echo "$1 ended with status $rc" >/var/log/ended
}

main() {
    local dir=$1 host=$2 cluster=$6 progress go step

    # The machine's /proc is still mounted: this is the pid outside.
    record_self "$dir/hosts/$host/init"
    exec {progress}<>"$4" {go}<>"$5"
    # $step is the last thing tried; its own words are in the log.
    trap 'echo "$host failed $step" >&$progress' ERR
    umask 022
    if [[ -n $cluster && ! -v IN_CGROUP ]]; then
        step="its cgroups"
        cgroup_enter "$cluster" "$host"
        # A namespace's root is where the process that makes it stands; same pid.
        IN_CGROUP=1 exec unshare --cgroup bash "${BASH_SOURCE[0]}" "$@" {progress}>&- {go}>&-
    fi
    unset IN_CGROUP
    step="its /etc"
    host_etc "$dir/view/etc" "$host"
    step="its host name"
    hostname "$host"
    step="its mounts"
    cd "$dir"
    mount_all "$host" "$3" "$cluster"
    [[ -z $cluster ]] || gpus
    no_ipv6
    echo "$host born" >&"$progress"
    step="its cable"
    read -r -t "$cable_timeout_s" -u "$go" _
    step="its network"
    network "$host"
    step="munged"
    # Returns once the socket answers, so Slurm finds it.
    setpriv --reuid=munge --regid=munge --clear-groups /usr/sbin/munged </dev/null
    trap - ERR
    exec {go}>&-
    echo "$host up" >&"$progress"
    exec {progress}>&-
    if [[ $host == ctl ]]; then
        daemon slurmctld &
    else
        daemon slurmd &
    fi
    # bash reaps whatever is adopted while it waits.
    sleep infinity &
    wait
}

main "$@"
exit
