# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # what is not set here is set by the script that reads this
#
# What scripts/check and its lanes share: telling, starting in a session of its own, stopping,
# looking for what was left behind. Read by both; wants $logs (folder of logs), $work (folder for
# what is temporary), $began (when it all started, in seconds), $check_id (the mark of what we started).

stop_limit_s=10 # each way of telling something to stop may take
tail_lines=40   # shown of the log of what failed
running=''      # the session that runs, by the pid of its leader

# Whole seconds, with the time since the start in front of every line.
say() {
    printf '[%4ds] %s\n' "$((EPOCHSECONDS - began))" "$*"
}

# Waits some tenths of a second without a process; only to ask again whether a process is gone.
pause() {
    local fd

    exec {fd}<> <(:)
    read -r -t 0.2 -u "$fd" || true
    exec {fd}>&-
}

stop_running() {
    local signal deadline

    [[ -n $running ]] || return 0
    for signal in INT TERM KILL; do
        kill "-$signal" -- "-$running" 2>/dev/null || break
        deadline=$((SECONDS + stop_limit_s))
        while [[ -n $(jobs -pr) ]] && ((SECONDS < deadline)); do
            pause
        done
    done
    wait "$running" 2>/dev/null || true
    running=
}

# Takes down clusters that tests left under our directory; says their number.
take_down_clusters() {
    local room count=0

    while read -r room; do
        tests/cluster/vcluster down --dir "${room%/room}" >>"$logs/leftover.log" 2>&1 || true
        count=$((count + 1))
    done < <(find "$work" -name room -type f 2>/dev/null)
    echo "$count"
}

# Kills processes that carry our mark in their environment, or our directory in their words; says
# their number.
kill_marked() {
    local file pid count=0

    for file in /proc/[0-9]*/environ; do
        pid=${file#/proc/}
        pid=${pid%/environ}
        [[ $pid != "$$" && $pid != "$BASHPID" ]] || continue
        if grep -qzxF "DLR_CHECK_ID=$check_id" "$file" 2>/dev/null ||
            grep -qzF "$work/" "/proc/$pid/cmdline" 2>/dev/null; then
            tr '\0' ' ' <"/proc/$pid/cmdline" >>"$logs/leftover.log" 2>/dev/null || true
            echo " (pid $pid)" >>"$logs/leftover.log"
            ! kill -KILL "$pid" 2>/dev/null || count=$((count + 1))
        fi
    done
    echo "$count"
}

# Starts a command in a session of its own, with the signals a terminal's program has.
start() {
    env --default-signal=INT --default-signal=QUIT DLR_CHECK_ID="$check_id" TMPDIR="$work" \
        setsid "$@" </dev/null &
    running=$!
}

show_tail() {
    sed 's/^/    | /' "$1" | tail -n "$tail_lines"
    echo "    (all of it: $1)"
}

# Of a log in TAP what belongs to the tests that failed.
show_failed_tests() {
    awk '/^ok /{show = 0} /^not ok /{show = 1} show {print "    | " $0}' "$1" |
        head -n "$((2 * tail_lines))"
    echo "    (all of it: $1)"
}
