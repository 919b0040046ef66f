#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_health.sh [--write] DLROVER
#
# The table of checks in docs/health.md is that of the code, as `dlrover check --list` tells it; --write makes it so.

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

# The page with the table that comes in.
page_with() {
    awk -v rows="$1" '
        /^<!-- end of table/ { inside = 0 }
        !inside { print }
        /^<!-- table:/ { print rows; inside = 1 }' "$page"
}

new=$(page_with "$(rows "$1")")
if $write; then
    printf '%s\n' "$new" >"$page"
elif ! diff <(printf '%s\n' "$new") "$page" >&2; then
    echo "$page (>) does not show the table in health/run/table.c (<): tests/checks/check_health.sh --write $1" >&2
    exit 1
fi
