#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_symbols.sh LIBRARY VERSION_SCRIPT [ALLOWED_UNDEFINED_REGEX]
#
# Compares what a shared library exports with its version script, both ways, and says what it
# needs that neither the C library nor a library it is linked with offers. Exit status 1 when
# anything differs.

set -euo pipefail

[[ $# -ge 2 ]] || { sed -n '4,8s/^# //p' "$0" >&2; exit 2; }
library=$1 script=$2 allowed=${3:-^$}
bad=0

wanted=$(sed -nE '/global:/,/local:/s/^[[:space:]]*([A-Za-z_][A-Za-z0-9_]*);.*/\1/p' "$script" | sort)
found=$(nm -D --defined-only "$library" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | sort -u)
[[ -n $wanted ]] || { echo "$script names no symbol" >&2; exit 1; }

while read -r name; do
    echo "$library does not export '$name', which $script promises" >&2
    bad=1
done < <(comm -23 <(echo "$wanted") <(echo "$found"))
while read -r name; do
    [[ -n $name ]] || continue
    echo "$library exports '$name', which is not in $script" >&2
    bad=1
done < <(comm -13 <(echo "$wanted") <(echo "$found"))

# A name of ours that nobody defines is a source that was forgotten in the list of the library.
while read -r name; do
    echo "$library needs '$name', which none of its sources defines" >&2
    bad=1
done < <(nm -D --undefined-only "$library" | sed -nE 's/.* (dlr_[A-Za-z0-9_]+).*/\1/p')

# ldd -r names what stays undefined when every library it is linked with is loaded.
needs=$(ldd -r "$library" 2>&1) || { echo "ldd -r $library: $needs" >&2; exit 1; }
while read -r name; do
    [[ ! $name =~ $allowed ]] || continue
    echo "$library needs '$name', which nothing it is linked with offers" >&2
    bad=1
done < <(sed -nE 's/^undefined symbol: ([^[:space:]]+).*/\1/p' <<<"$needs" | sort -u)
exit "$bad"
