#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_failures.sh [--write] DLROVER
#
# The table of rules in docs/failures.md, of which dlr_failures(5) is made, is that of etc/failures.conf, as
# `dlrover classify --list` tells it; --write makes it so.

set -euo pipefail

cd "$(dirname "$0")/../.."
page=docs/failures.md
write=false
if [[ $1 == --write ]]; then
    write=true
    shift
fi

new=$(awk -v rows="$("$1" classify --list)" '
    /^<!-- end of table/ { inside = 0 }
    !inside { print }
    /^<!-- table:/ { print rows; inside = 1 }' "$page")
if $write; then
    printf '%s\n' "$new" >"$page"
elif ! diff <(printf '%s\n' "$new") "$page" >&2; then
    echo "$page (>) does not show the rules of etc/failures.conf (<): tests/checks/check_failures.sh --write $1" >&2
    exit 1
fi
