# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Power, freezing and cables of virtual hosts. Needs common.sh, and from
# vcluster: dir and the other settings, room_pid, host_pid, start_host and what
# "boot" waits with.
#
# shellcheck disable=SC2154

die_timeout_s=20
freeze_timeout_s=10

in_room() { # COMMAND…: in the room's network, with our own pids and files
    local pid

    pid=$(room_pid) || die "the cluster in $dir is dead"
    nsenter -t "$pid" --net -- "$@"
}

frozen() { # PID
    local stat

    { stat=$(<"/proc/$1/stat"); } 2>/dev/null && [[ ${stat##*) } == T* ]]
}

# SIGKILLs what FILE records and waits until it is gone, with all its children:
# the kernel ends a pid namespace before the parent of its process 1 sees it end.
kill_recorded() { # FILE
    local pid deadline

    pid=$(recorded_pid "$1") || return 0
    deadline=$(($(now_ms) + die_timeout_s * 1000))
    kill -KILL "$pid" 2>/dev/null || true
    while recorded_pid "$1" >/dev/null; do
        (($(now_ms) < deadline)) || die "process $pid does not die ($1)"
        pause_ms 5
    done
}

# A power loss is silent: without its cable first, the dying processes' kernel
# would close their connections with FIN and RST. Removing the cable also ends
# a network namespace that unsent data would keep for minutes.
power_off() { # HOST
    in_room ip link set "$1" down
    kill_recorded "$dir/hosts/$1/init"
    in_room ip link del "$1"
}

# Hosts first, with their cables in, so that their connections end properly.
power_off_all() {
    local init pid

    for init in "$dir"/hosts/*/init; do
        if pid=$(recorded_pid "$init"); then
            kill -KILL "$pid" 2>/dev/null || true
        fi
    done
    for init in "$dir"/hosts/*/init; do
        kill_recorded "$init"
    done
    kill_recorded "$dir/room"
}

# No mount of the room is visible here; --one-file-system is the second guard.
remove_dir() {
    rm -rf --one-file-system -- "$dir"
}

cmd_kill() {
    need_one_host "$@"
    need_power "$1" >/dev/null
    power_off "$1"
}

cmd_boot() {
    local timeout=$boot_timeout_s started_ms deadline

    if [[ ${2:-} == --timeout ]]; then
        need_number --timeout "${3:-}" 3600
        timeout=$3
        set -- "$1" "${@:4}"
    fi
    need_one_host "$@"
    ! host_pid "$1" >/dev/null || die "$1 is not dead"
    started_ms=$(now_ms)
    deadline=$((started_ms + timeout * 1000))
    open_progress
    start_host "$1"
    follow_hosts 1 "$deadline"
    wait_registered "$1" $((started_ms / 1000)) "$deadline"
    say "$1 booted"
}

# slurmctld may not have noticed that the node was gone and still calls it
# idle: what counts is that it knows the slurmd started since.
wait_registered() { # HOST SINCE_S DEADLINE_MS
    local start=0

    [[ -n $(slurm_states) || $1 == ctl ]] ||
        die "$1 has power, but slurmctld does not answer"
    until [[ $start =~ ^[0-9]+$ ]] && ((start >= $2)); do
        if [[ $1 == ctl && -n $(slurm_states) ]]; then
            return 0
        fi
        [[ ! -e $dir/hosts/$1/log/ended ]] ||
            die "$1: $(<"$dir/hosts/$1/log/ended")$(last_words "$1")"
        (($(now_ms) < $3)) || die "$1: Slurm does not see it in time$(last_words "$1")"
        pause_ms "$poll_ms"
        [[ $1 == ctl ]] || start=$(at_ctl scontrol show node "$1" |
            sed -n 's/.*SlurmdStartTime=\([^ ]*\).*/\1/p')
    done
}

# Stopping init first keeps it from continuing others; kill(-1) reaches every
# process of the namespace but init and the killer, in one go.
cmd_freeze() {
    local pid deadline

    need_one_host "$@"
    pid=$(need_power "$1")
    deadline=$(($(now_ms) + freeze_timeout_s * 1000))
    kill -STOP "$pid"
    until all_stopped "$pid"; do
        signal_all "$pid" STOP
        (($(now_ms) < deadline)) || die "$1: some processes do not stop"
        pause_ms 5
    done
}

cmd_thaw() {
    local pid

    need_one_host "$@"
    pid=$(need_power "$1")
    signal_all "$pid" CONT
    kill -CONT "$pid"
    # nsenter stops itself with the command it runs; wake these up as well.
    ps -e -o pidns=,ppid= | sed -n "s/^ *$(pid_ns "$pid") *//p" | sort -u |
        while read -r parent; do
            [[ $(ps -o comm= -p "$parent") != nsenter ]] || kill -CONT "$parent"
        done
}

pid_ns() { # PID
    local ns

    ns=$(readlink "/proc/$1/ns/pid_for_children")
    tr -dc 0-9 <<<"$ns"
}

signal_all() { # PID SIGNAL
    nsenter -t "$1" --pid --mount -- kill "-$2" -- -1 2>/dev/null || true
}

all_stopped() { # PID
    local all

    all=$(ps -e -o pidns=,stat=)
    ! grep -qE "^ *$(pid_ns "$1") +[^TtZX]" <<<"$all"
}

cmd_cut() {
    need_one_host "$@"
    need_power "$1" >/dev/null
    in_room ip link set "$1" down
}

cmd_heal() {
    need_one_host "$@"
    need_power "$1" >/dev/null
    in_room ip link set "$1" up
}

need_one_host() {
    [[ $# -eq 1 ]] || bad_usage "one host, please"
    load_cluster
    need_host "$1"
    lock
}
