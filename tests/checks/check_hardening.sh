#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_hardening.sh [-v] FILE...
#
# Whether programs and libraries are built as distributions build theirs: position independent, tables of the linker
# read-only and bound at once, no executable stack, stack protector, FORTIFY. The plugin is bound when it is called
# (Makefile says why). One line for each thing that is missing, and exit status 1. -v: what each file has.

set -euo pipefail

verbose=
[[ ${1:-} != -v ]] || { verbose=1 && shift; }
[[ $# -ge 1 ]] || { sed -n '4,8s/^# //p' "$0" >&2; exit 2; }
bad=0

for file; do
    head=$(readelf -hW "$file") segments=$(readelf -lW "$file") dynamic=$(readelf -dW "$file")
    names=$(nm -D --undefined-only "$file")
    have=
    grep -q 'Type: *DYN' <<<"$head" && have+=' pie'
    grep -q GNU_RELRO <<<"$segments" && have+=' relro'
    grep -qE 'GNU_STACK.* RW ' <<<"$segments" && have+=' stack'
    grep -qE 'BIND_NOW|FLAGS_1.*NOW' <<<"$dynamic" && have+=' now'
    grep -q __stack_chk_fail <<<"$names" && have+=' protector'
    grep -qE '__[a-z]+_chk' <<<"$(grep -v __stack_chk_fail <<<"$names")" && have+=' fortify'
    grep -qE 'RPATH|RUNPATH' <<<"$dynamic" || have+=' no-rpath'
    [[ -z $verbose ]] || echo "$file:$have"
    for want in pie relro stack now protector fortify; do
        [[ $file == */spank_*.so && $want == now ]] && continue
        [[ " $have " == *" $want "* ]] || { echo "$file: built without: $want" >&2 && bad=1; }
    done
done
exit "$bad"
