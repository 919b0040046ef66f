#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_claims.sh
#
# Each function of a unit test that SECURITY.md names stands in a patch of tests/negative, which takes away what it
# shows: make check-protections sees it fail. For which there is none, tests/negative/security/without says why. A patch
# that no longer applies shows nothing.

set -euo pipefail

cd "$(dirname "$0")/../.."
bad=0
without=tests/negative/security/without

complain() {
    echo "$1" >&2
    bad=1
}

# "test_x function" of each that the page names
named() {
    tr '\n' ' ' <SECURITY.md | grep -oE '`test_[a-z_]+\.c`( +"[^"]+")+' | while IFS= read -r row; do
        file=${row%%.c*}
        grep -oE '"[^"]+"' <<<"$row" | tr -d '"' | sed "s/^/${file#?} /"
    done | sort -u
}

patched=$(sed -n 's/^test: //p' tests/negative/*.patch tests/negative/security/*.patch | sort -u)
excused=$(sed -n '/^[^#]/p' "$without" | cut -d' ' -f1,2 | sort)
while IFS= read -r test; do
    grep -qxF "$test" <<<"$patched"$'\n'"$excused" || complain "SECURITY.md: no patch in tests/negative/security for $test"
done < <(named)
while IFS= read -r test; do
    [[ -z $test ]] || complain "$without: '$test' has a patch, or SECURITY.md does not name it"
done < <({ comm -12 <(echo "$patched") <(echo "$excused"); comm -13 <(named) <(echo "$excused"); } | sort -u)
for patch in tests/negative/*.patch tests/negative/security/*.patch; do
    patch -p1 -s --dry-run <"$patch" >/dev/null || complain "$patch: does not apply any more"
done
exit $bad
