#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_situations.sh
#
# Each row of the tables in docs/situations.md and SECURITY.md whose last column is "test" ends with its tests: files, in
# quotes words of the names of tests in them, the names of C's as they are, and fuzz targets. Says which are not there;
# exit status 1 then.

set -euo pipefail

cd "$(dirname "$0")/../.."
bad=0

complain() {
    echo "$1" >&2
    bad=1
}

# The last cell of each row of the tables about tests.
rows() {
    awk -F '|' '
        !/^\|/ { in_table = 0; next }
        /^\|---/ { in_table = is_test; next }
        { is_test = $(NF - 1) ~ /^ *test *$/ }
        in_table { print $(NF - 1) }' "$1"
}

for page in docs/situations.md SECURITY.md; do
    mapfile -t tests < <(rows "$page")
    [[ ${#tests[@]} -gt 0 ]] || complain "$page: no row names a test"
    for row in "${tests[@]}"; do
        files=()
        # shellcheck disable=SC2016 # quotes of Markdown
        while IFS= read -r name; do
            file=$(find tests -name "$name" -print -quit)
            if [[ -n $file ]]; then files+=("$file"); else complain "$page: no such file: $name"; fi
        done < <(grep -oE '`[a-z_]+\.(bats|c|sh)`' <<<"$row" | tr -d '`')
        # shellcheck disable=SC2016
        while IFS= read -r name; do
            [[ -e tests/fuzz/fuzz_$name.c ]] || complain "$page: no fuzz target: $name"
        done < <(grep -oE 'fuzz targets? `[^"]*' <<<"$row" | grep -oE '`[a-z_]+`' | tr -d '`')
        [[ ${#files[@]} -gt 0 ]] || complain "$page: no test: $row"
        while IFS= read -r name; do
            grep -qF -- "$name" "${files[@]}" || complain "$page: no such test: $name"
        done < <(
            grep -oE '"[^"]+"' <<<"$row" | tr -d '"' || true
            # shellcheck disable=SC2016
            sed -E 's/`[^`]*`|"[^"]*"//g' <<<"$row" | grep -oE '[a-z0-9]+(_[a-z0-9]+)+'
        )
    done
done
exit $bad
