#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_health.sh [--write] DLROVER
#
# The tables of checks, and of the numbers that can be injected, in docs/health.md are those of the code, as
# `dlrover check --list` tells them; --write makes it so.

set -euo pipefail

cd "$(dirname "$0")/../.."
page=docs/health.md
write=false
if [[ $1 == --write ]]; then
    write=true
    shift
fi

rows() {
    echo '| check | level | looks at | reads | limit | in | what to do |'
    echo '|---|---|---|---|---|---|---|'
    "$1" check --list --json |
        jq -r '.[] | "| `\(.check)` | \(.level) | \(.help) | \(.reads) | \(.limit) | \(.unit) | \(.advice) |"
            | gsub("\\*"; "\\*")'
}

numbers() {
    echo '| number | takes | stands for |'
    echo '|---|---|---|'
    "$1" check --list --json | jq -r '.[].numbers[] | "| `\(.key)` | a \(.kind) | \(.help) |"'
}

# The page with the tables that come in.
page_with() {
    awk -v rows="$1" -v numbers="$2" '
        /^<!-- end of table/ { inside = 0 }
        !inside { print }
        /^<!-- table:/ { print rows; inside = 1 }
        /^<!-- numbers:/ { print numbers; inside = 1 }' "$page"
}

new=$(page_with "$(rows "$1")" "$(numbers "$1")")
if $write; then
    printf '%s\n' "$new" >"$page"
elif ! diff <(printf '%s\n' "$new") "$page" >&2; then
    echo "$page (>) does not show the tables in health/run/table.c and health/inject.c (<): tests/checks/check_health.sh --write $1" >&2
    exit 1
fi
