# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What every part of vcluster shares: messages, process identity, host names.

progname=vcluster

die() {
    echo "$progname: $*" >&2
    exit 1
}

# A pid alone is no identity, since pids are reused; pid, start time and the
# kernel's boot id together are. Prints nothing when there is no such process.
proc_identity() { # PID
    local stat boot

    { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 0
    # The command's name may hold blanks and brackets; fields follow the last.
    read -r -a stat <<<"${stat##*) }"
    # Stopped is alive, zombie is not.
    [[ ${stat[0]} != [ZX] ]] || return 0
    read -r boot </proc/sys/kernel/random/boot_id
    echo "$1 ${stat[19]} $boot"
}

# Writes the calling shell's own identity, as the mounted /proc sees it.
record_self() { # FILE
    local pid

    read -r pid _ </proc/self/stat
    proc_identity "$pid" >"$1.new"
    mv "$1.new" "$1"
}

# Prints the pid recorded in FILE if that very process is alive.
recorded_pid() { # FILE
    local was pid

    { read -r was <"$1"; } 2>/dev/null || return 1
    pid=${was%% *}
    [[ -n $was && $(proc_identity "$pid") == "$was" ]] || return 1
    echo "$pid"
}

# Waits some milliseconds without starting a process; bash has no timer but
# read's. Only for polling a condition that tells nobody when it comes true.
pause_ms() { # MS
    local fd

    exec {fd}<> <(:)
    read -r -t "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))" -u "$fd" || true
    exec {fd}>&-
}

now_ms() {
    local t=$EPOCHREALTIME

    echo $((${t/[.,]/} / 1000))
}

# node_names 3 prints: n1 n2 n3
node_names() { # COUNT
    local i

    for ((i = 1; i <= $1; i++)); do
        echo "n$i"
    done
}

address_of() { # HOST
    if [[ $1 == ctl ]]; then
        echo 10.83.0.250
    else
        echo "10.83.0.${1#n}"
    fi
}

# The same at every boot, as a real card's: others remember it.
mac_of() { # HOST
    local address

    address=$(address_of "$1")
    printf '02:00:0a:53:00:%02x\n' "${address##*.}"
}

# The first leaves get one node more when the division leaves a rest.
leaf_of() { # HOST NODES LEAVES
    local i=$((${1#n} - 1)) rest=$(($2 % $3)) share=$(($2 / $3))

    if ((i < rest * (share + 1))); then
        echo "leaf$((i / (share + 1)))"
    else
        echo "leaf$((rest + (i - rest * (share + 1)) / share))"
    fi
}
