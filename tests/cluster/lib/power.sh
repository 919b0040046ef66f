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

# Prints the processes outside that wait for a command inside: nsenter's, one
# per exec. They stop themselves when their command is stopped.
callers() { # HOST_INIT…
    local inside='' pid

    for pid in "$@"; do
        inside+=" $(pid_ns "$pid") "
    done
    ps -e -o pidns=,ppid=,args= | while read -r ns pid _; do
        [[ $inside != *" $ns "* ]] || echo "$pid"
    done | sort -u | while read -r pid; do
        [[ $(ps -o comm= -p "$pid") != nsenter ]] || echo "$pid"
    done
}

# SIGKILLs what the FILEs record and waits until all are gone, and with them
# every process inside: the kernel ends a pid namespace before its process 1.
# It does not while a dead process is not reaped, so stopped callers are woken.
# The unshare that made the namespaces lives in some of them and ends last.
kill_recorded() { # FILE…
    local file pid maker pids=() parents=() makers=() deadline

    for file in "$@"; do
        if pid=$(recorded_pid "$file"); then
            pids+=("$pid")
            maker=$(ps -o ppid= -p "$pid" | tr -d ' ') || continue
            [[ $(ps -o comm= -p "$maker") != unshare ]] || makers+=("$(proc_identity "$maker")")
        fi
    done
    [[ ${#pids[@]} -gt 0 ]] || return 0
    mapfile -t parents < <(callers "${pids[@]}")
    kill -KILL "${pids[@]}" 2>/dev/null || true
    deadline=$(($(now_ms) + die_timeout_s * 1000))
    for file in "$@"; do
        while recorded_pid "$file" >/dev/null; do
            [[ ${#parents[@]} -eq 0 ]] || kill -CONT "${parents[@]}" 2>/dev/null || true
            if (($(now_ms) > deadline)); then
                echo "$progname: process $(recorded_pid "$file") does not die ($file)" >&2
                return 1
            fi
            pause_ms 5
        done
    done
    for maker in "${makers[@]}"; do
        while [[ -n $maker && $(proc_identity "${maker%% *}") == "$maker" ]]; do
            (($(now_ms) <= deadline)) || return 1
            pause_ms 5
        done
    done
}

# A power loss is silent: without its cable first, the dying processes' kernel
# would close their connections with FIN and RST.
# All cables at once: to wait for a host's last process takes seconds on a busy machine.
power_off() { # HOST…
    local inits=("${@/#/$dir/hosts/}")

    printf 'link set %s down\n' "$@" | in_room ip -batch -
    kill_recorded "${inits[@]/%//init}"
    # Gone already, unless unsent data keeps the network namespace for minutes.
    printf 'link del %s\n' "$@" | in_room ip -force -batch - 2>/dev/null || true
}

# Hosts first, with their cables in, so that their connections end properly.
power_off_all() {
    local inits=("$dir"/hosts/*/init) room

    # Whatever happens to the hosts, they cannot outlive the room.
    kill_recorded "${inits[@]}" || true
    if room=$(lost_room); then
        kill -KILL "$room"
    fi
    kill_recorded "$dir/room"
    cgroup_remove "$(cluster_name)"
}

# Prints the pid of this directory's room if the directory does not know it:
# someone removed the files of a live cluster.
lost_room() {
    local pid args

    ! room_pid >/dev/null || return 1
    while read -r pid args; do
        [[ $args != *" $lib/room.sh $dir "* || $args == unshare* ]] || break
        pid=
    done < <(ps -e -o pid=,args=)
    [[ -n $pid ]] && echo "$pid"
}

# No mount of the room is visible here; --one-file-system is the second guard.
remove_dir() {
    rm -rf --one-file-system -- "$dir"
}

cmd_kill() {
    local host

    need_one_host "${1:-}"
    for host; do need_power "$host" >/dev/null; done
    power_off "$@"
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
# idle: what counts is that it knows the slurmd started since. After a boot of
# ctl it asks every node first.
wait_registered() { # HOST SINCE_S DEADLINE_MS
    [[ $1 == ctl || -n $(slurm_states) ]] ||
        die "$1 has power, but slurmctld does not answer"
    until if [[ $1 == ctl ]]; then knows_all; else knows_since "$1" "$2"; fi; do
        [[ ! -e $dir/hosts/$1/log/ended ]] ||
            die "$1: $(<"$dir/hosts/$1/log/ended")$(last_words "$1")"
        (($(now_ms) < $3)) || die "$1: not in Slurm in time$(last_words "$1")"
        pause_ms "$poll_ms"
    done
}

knows_since() { # NODE SINCE_S
    local start

    start=$(at_ctl scontrol show node "$1" |
        sed -n 's/.*SlurmdStartTime=\([0-9]*\).*/\1/p')
    [[ -n $start && $start -ge $2 ]]
}

knows_all() {
    local states node links

    states=$(slurm_states)
    [[ -n $states ]] || return 1
    links=$(links_down)
    for node in $(node_names "$nodes"); do
        if [[ $(host_state "$node" "$links") == up ]]; then
            ! grep -q "^$node unknown" <<<"$states" || return 1
        fi
    done
}

# Prints the hosts whose cable is out, with a blank around each.
links_down() {
    in_room ip -o link show | sed -n '/,UP/!s/^[0-9]*: \([^@:]*\).*/\1/p' |
        { printf ' '; tr '\n' ' '; }
}

host_state() { # HOST LINKS_DOWN
    local pid state

    pid=$(host_pid "$1") || { echo dead; return; }
    state=up
    [[ $2 != *" $1 "* ]] || state="cut"
    if frozen "$pid"; then
        [[ $state == cut ]] && state=frozen,cut || state=frozen
    fi
    echo "$state"
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
    local pid caller

    need_one_host "$@"
    pid=$(need_power "$1")
    signal_all "$pid" CONT
    kill -CONT "$pid"
    for caller in $(callers "$pid"); do
        kill -CONT "$caller"
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
