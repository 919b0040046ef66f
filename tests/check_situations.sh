#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/check_situations.sh
#
# Each row of docs/situations.md ends with its tests: files, and in quotes words of the names of tests in them.
# Says which are not there; exit status 1 then.

set -euo pipefail

cd "$(dirname "$0")/.."
bad=0
while IFS= read -r row; do
    tests=${row%|*}
    tests=${tests##*|}
    # shellcheck disable=SC2016 # quotes of Markdown
    mapfile -t files < <(grep -oE '`[a-z_]+\.(bats|c)`' <<<"$tests" | tr -d '`' |
        sed -E 's#^(.*\.c)$#tests/\1#; s#^(.*\.bats)$#tests/cluster/\1#')
    [[ ${#files[@]} -gt 0 ]] || { echo "docs/situations.md: no test: $row" >&2; bad=1; }
    while IFS= read -r name; do
        grep -qF -- "$name" "${files[@]}" || { echo "docs/situations.md: no such test: $name" >&2; bad=1; }
    done < <(grep -oE '"[^"]+"' <<<"$tests" | tr -d '"')
    for file in "${files[@]}"; do
        [[ -e $file ]] || { echo "docs/situations.md: no such file: $file" >&2; bad=1; }
    done
done < <(sed -n '/^|---/,$p' docs/situations.md | tail -n +2)
exit $bad
