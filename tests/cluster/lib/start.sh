# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Starting the room and its hosts, and waiting until Slurm has them. Needs
# common.sh, and from vcluster: dir and the other settings, room_pid, host_pid,
# say; from power.sh in_room.
#
# shellcheck disable=SC2154

# A cluster outlives its "up" and must not hold a lock or pipe of the caller.
close_inherited() {
    local fd

    for fd in "/proc/$BASHPID/fd/"*; do
        fd=${fd##*/}
        # 255 is bash's own, and closed by exec.
        if ((fd > 2 && fd != 255)); then
            exec {fd}>&-
        fi
    done
}

start_room() { # CLUSTER NODES LEAVES STAGE PLUGIN_ARGS PROFILE
    mkdir -p "$dir"/view/{etc,opt,cgroup,slurm}
    # setsid: Ctrl-C on a terminal is for vcluster, which then cleans up.
    (
        close_inherited
        exec env -i PATH="$sane_path" LANG=C.UTF-8 VCLUSTER_SLURM="$slurm_prefix" setsid \
            unshare --mount --net --pid --fork bash "$lib/room.sh" \
            "$dir" "$dir/progress" "$@"
    ) >>"$dir/room.log" 2>&1 </dev/null &
    disown
}

# Names the cgroups a host is confined to; nothing where it is not.
host_cgroup() { # PROFILE
    [[ $1 != production ]] || cluster_name
}

# Starts the init of HOST in the room; it answers "HOST born" on the fifo.
start_host() { # HOST
    local disk=$dir/hosts/$1 room

    mkdir -p "$disk/log"
    cat /proc/sys/kernel/random/uuid >"$disk/boot_id"
    rm -f "$disk"/{go,init,log/ended}
    mkfifo "$disk/go"
    room=$(room_pid) || die "the cluster died while starting: $(tail -n 3 "$dir/room.log")"
    (
        close_inherited
        exec nsenter -t "$room" --mount --net --pid -- \
            env -i PATH="$sane_path" LANG=C.UTF-8 VCLUSTER_SLURM="$slurm_prefix" setsid --fork \
            unshare --mount --net --pid --uts --ipc --fork bash "$lib/host.sh" \
            "$dir" "$1" "$shm_size" "$dir/progress" "$disk/go" "$(host_cgroup "$profile")"
    ) >>"$disk/log/init.log" 2>&1 </dev/null
}

# Gives a host that was born its network cable and lets it go on.
plug() { # HOST
    local pid

    pid=$(host_pid "$1") || die "$1 died while starting: $(last_words "$1")"
    in_room ip link add "$1" type veth peer name eth0 \
        address "$(mac_of "$1")" netns "$pid"
    in_room ip link set "$1" master switch up
    echo >"$dir/hosts/$1/go"
}

# The end of the log that says most about why HOST does not come up.
last_words() { # HOST
    local log disk=$dir/hosts/$1

    for log in "$disk"/log/slurm/slurm{ctld,d}.{log,out} "$disk/log/init.log"; do
        if [[ -s $log ]]; then
            printf '\n--- %s\n' "$log"
            tail -n 6 "$log"
        fi
    done
}

open_progress() {
    rm -f "$dir/progress"
    mkfifo "$dir/progress"
    exec {progress_fd}<>"$dir/progress"
}

# Reads the fifo until COUNT hosts are up, plugging each when it is born.
follow_hosts() { # COUNT DEADLINE_MS
    local waiting=$1 left who what rest

    while ((waiting > 0)); do
        left=$(($2 - $(now_ms)))
        # "read -t 0" does not read.
        ((left > 100)) || left=100
        read -r -t "$((left / 1000)).$((left / 100 % 10))" -u "$progress_fd" \
            who what rest || die "hosts not up in time (--timeout)"
        case $what in
            born) [[ $who == room ]] || plug "$who" ;;
            up)
                waiting=$((waiting - 1))
                say "$who up, $(address_of "$who")"
                ;;
            failed) die "$who failed: $rest$(last_words "$who" 2>/dev/null)" ;;
        esac
    done
}

wait_room() { # DEADLINE_MS
    local what

    read -r -t $(((($1 - $(now_ms)) + 999) / 1000)) -u "$progress_fd" _ what ||
        die "cannot start: $(tail -n 3 "$dir/room.log")"
    [[ $what == born ]] || die "cannot start: $(tail -n 3 "$dir/room.log")"
}

# Runs a Slurm command on ctl; prints nothing if slurmctld is away.
at_ctl() { # COMMAND…
    local pid

    pid=$(host_pid ctl) || return 0
    ! frozen "$pid" || return 0
    timeout "$slurm_timeout_s" nsenter -t "$pid" --mount --net --uts --pid -- \
        env -i PATH="$sane_path" SLURM_TIME_FORMAT=%s "$@" 2>/dev/null </dev/null || true
}

# Prints "NODE STATE" per node as slurmctld sees them.
slurm_states() {
    at_ctl sinfo -h -N -o '%N %T' | sort -u # once for each of its partitions
}

# slurmctld tells nobody when a node registers, so this asks again and again.
wait_idle() { # DEADLINE_MS NODE…
    local deadline=$1 states node missing

    shift
    while :; do
        states=$(slurm_states)
        missing=
        for node in "$@"; do
            grep -qxE "$node (idle|mixed|allocated|completing)" <<<"$states" ||
                missing=$node
        done
        [[ -n $missing ]] || return 0
        for node in ctl "$missing"; do
            [[ ! -e $dir/hosts/$node/log/ended ]] ||
                die "$node: $(<"$dir/hosts/$node/log/ended")$(last_words "$node")"
        done
        (($(now_ms) < deadline)) ||
            die "$missing is not idle in time (--timeout), Slurm says" \
                "'$(grep "^$missing " <<<"$states" || echo nothing)'$(last_words "$missing")"
        pause_ms "$poll_ms"
    done
}
