#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/run_unit.sh LOGDIR PROGRAM...
#
# Runs cmocka programs, UNIT_JOBS at a time (twice as many as there are CPUs, since most of them wait),
# keeps their output in LOGDIR, shows that of those that fail, and ends with "N passed, N failed, N skipped"
# (of test functions). Exit status 1 when any failed. A handful of programs that failed are tried once more, with
# nothing beside them: those that pass then are told as flaky, and have failed when tests/checks/flaky.log names them.

set -euo pipefail

limit_s=${UNIT_TIMEOUT_S:-900} # of one program: those that kill at each step take 100 s alone on two idle cores
jobs=${UNIT_JOBS:-$((2 * $(nproc)))}
again_at_most=3 # programs that are tried a second time
flaky_log=$(dirname "$0")/flaky.log

# Sum of the counts cmocka prints as "[  WORD  ] N test(s)" in a log.
count() {
    sed -nE "s/^\[ *$1 *\] ([0-9]+) test\(s\).*/\1/p" "$2" | awk '{n += $1} END {print n + 0}'
}

# The braces keep back what the shell itself says about a program ended by a signal.
run() {
    local log=$1 program=$2 rc=0
    { timeout -k 5 "$limit_s" "$program" >"$log" 2>&1 </dev/null; } 2>/dev/null || rc=$?
    echo "$rc" >"$log.rc"
}

stop() {
    local pids
    pids=$(jobs -p)
    [[ -z $pids ]] || pkill -TERM -P "${pids//$'\n'/,}" || :
}

[[ $# -ge 1 ]] || { sed -n '4,9s/^# //p' "$0" >&2; exit 2; }
logs=$1
shift
mkdir -p "$logs"
passed=0 failed=0 skipped=0 running=0

trap 'stop; exit 130' INT TERM
for program in "$@"; do
    run "$logs/${program##*/}.log" "$program" &
    if ((++running >= jobs)); then
        wait -n || :
        running=$((running - 1))
    fi
done
wait
trap - INT TERM

# Of the log of one program, after its end: sets bad to the number of tests that failed.
judge() { # LOG
    local log=$1 rc
    rc=$(<"$log.rc")
    rm "$log.rc"
    bad=$(count FAILED "$log")
    # A crash, a leak or a time-out has no line of its own in cmocka's summary.
    if [[ $rc -ne 0 && $bad -eq 0 ]]; then
        bad=1
        [[ $rc -ne 124 ]] || echo "stopped after $limit_s s" >>"$log"
    fi
    [[ $bad -eq 0 ]] || {
        echo "not ok: ${program##*/} (exit status $rc), the end of $log:"
        grep -vE '^\[ *(RUN|OK) *\]' "$log" | tail -n 40 | sed 's/^/    /' || :
    }
}

again() { # LOG PROGRAM
    cp "$1" "$1.first"
    run "$1" "$2"
    judge "$1"
    [[ $bad -eq 0 ]] || return 0
    echo "flaky: unit:${2##*/} passed only when tried again, alone (its first log: $1.first)"
    ! grep -q " unit:${2##*/}\$" "$flaky_log" || {
        echo "not ok: it is in $flaky_log already: unit:${2##*/}"
        bad=1
    }
}

for program in "$@"; do
    log=$logs/${program##*/}.log
    judge "$log"
    if [[ $bad -gt 0 ]] && ((again_at_most-- > 0)); then
        again "$log" "$program"
    fi
    passed=$((passed + $(count PASSED "$log")))
    skipped=$((skipped + $(count SKIPPED "$log")))
    failed=$((failed + bad))
done
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
