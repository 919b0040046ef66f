# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The cgroups of the production profile. All hosts share the kernel's one tree,
# where Slurm's folders of two hosts or clusters would meet: each host gets a
# folder of its own in every hierarchy, and a cgroup namespace that shows it as
# the root. Needs common.sh.
#
# shellcheck disable=SC2154

# What Slurm's cgroup v1 plugins take: constraints, proctrack, accounting.
cgroup_controllers=(cpuset memory freezer cpuacct devices)
cgroup_timeout_s=20

# Prints where the v1 hierarchy of a controller is mounted, and nothing if it is not.
cgroup_mount() { # CONTROLLER
    local where type options

    while read -r _ where type options _; do
        if [[ $type == cgroup && ,$options, == *",$1,"* ]]; then
            echo "$where"
            # Without a number, within a trap, it would be the status before the trap.
            return 0
        fi
    done </proc/mounts
}

# Prints in one line why this machine cannot have them; nothing if it can.
cgroup_lacks() {
    local controller where missing=''

    for controller in "${cgroup_controllers[@]}"; do
        where=$(cgroup_mount "$controller")
        [[ -n $where && -w $where/cgroup.procs ]] || missing+=" $controller"
    done
    if [[ -n $missing ]]; then
        echo "no writable cgroup v1 hierarchy of$missing is mounted on this machine"
    elif ! unshare --cgroup true 2>/dev/null; then
        echo "the kernel has no cgroup namespaces (unshare --cgroup)"
    fi
}

# Makes CLUSTER/HOST in every hierarchy, as empty as after a boot, and moves the
# calling shell there.
cgroup_enter() { # CLUSTER HOST
    local controller folder

    cgroup_remove "$1/$2"
    for controller in "${cgroup_controllers[@]}"; do
        folder=$(cgroup_mount "$controller")
        for name in "$1" "$2"; do
            mkdir -p "$folder/$name"
            # A cpuset is born without processors and memory nodes.
            [[ $controller != cpuset || -s $folder/$name/cgroup.procs ]] || {
                cat "$folder/cpuset.cpus" >"$folder/$name/cpuset.cpus"
                cat "$folder/cpuset.mems" >"$folder/$name/cpuset.mems"
            }
            folder+=/$name
        done
        echo 0 >"$folder/cgroup.procs"
    done
}

# In a host's cgroup namespace: its own hierarchies, at the usual places.
cgroup_mounts() {
    local controller

    mount -t tmpfs -o mode=755,nosuid,nodev,noexec none /sys/fs/cgroup
    for controller in "${cgroup_controllers[@]}"; do
        mkdir "/sys/fs/cgroup/$controller"
        mount -t cgroup -o "$(cgroup_options "$controller")" cgroup "/sys/fs/cgroup/$controller"
    done
}

# The controllers of a hierarchy, which come together or not at all: "cpu,cpuacct".
cgroup_options() { # CONTROLLER
    sed -n "s/^[0-9]*:\(\([^:]*,\)\?$1\(,[^:]*\)\?\):.*/\1/p" /proc/self/cgroup
}

# Removes FOLDER in every hierarchy. Its processes are dead or dying; the kernel
# does not tell when the last is gone.
cgroup_remove() { # FOLDER
    local controller where deadline

    deadline=$(($(now_ms) + cgroup_timeout_s * 1000))
    for controller in "${cgroup_controllers[@]}"; do
        where=$(cgroup_mount "$controller")
        [[ -n $where ]] || continue
        while [[ -d $where/$1 ]]; do
            find "$where/$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
            [[ -d $where/$1 ]] || break
            if (($(now_ms) > deadline)); then
                echo "$progname: $where/$1 cannot be removed: processes in it live on" >&2
                return 1
            fi
            pause_ms 20
        done
    done
}
