#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/analyze.sh SOURCE FLAG...
#
# Runs gcc -fanalyzer on one source. What tests/checks/analyze.known lists as a false alarm is passed
# over; for anything else the report is shown. Exit status 1 then.

set -euo pipefail

known=$(dirname "$0")/analyze.known
source=$1
shift
object=$(mktemp) # a file: what goes to /dev/null no compiler cache keeps
trap 'rm -f "$object"' EXIT
report=$(LC_ALL=C gcc -fanalyzer "$@" -c -o "$object" "$source" 2>&1) || { echo "$report" >&2; exit 1; }

# "FILE: In function 'NAME':" stands before the "FILE:LINE:COLUMN: warning: … [-WCHECK]" of a
# function. The line's number is left out of what is compared: it changes with every edit.
new=$(sed -nE "s/^[^ ]+: In function '([^']+)':.*/function \1/p
               s/^[^ :]+:[0-9]+:[0-9]+: warning: .*\[-W([a-z-]+)\]$/warning \1/p" <<<"$report" |
    awk -v source="$source" '$1 == "function" {f = $2} $1 == "warning" {print source, f, $2}' | sort -u |
    grep -vxFf <(sed 's/ *#.*//; /^$/d' "$known") || true)
[[ -n $new ]] || exit 0
echo "$report" >&2
awk '{print "not in tests/checks/analyze.known: " $0}' <<<"$new" >&2
exit 1
