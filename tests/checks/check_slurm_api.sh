#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_slurm_api.sh CC [FLAGS...]
#
# Compiles what calls Slurm's API against the declarations of each release that is supported
# (tests/slurm_api), and what the plugin is made of against each release's number. With
# SLURM_INCLUDES="DIR..." also against real headers: each DIR holds slurm/slurm.h.

set -euo pipefail

[[ $# -ge 1 ]] || { sed -n '4,8s/^# //p' "$0" >&2; exit 2; }
releases=(22.05 23.02 23.11 24.05 24.11 25.05 25.11 26.05)
callers=(mpi_launcher/slurm/api.c mpi_launcher/slurm/alive.c)
mapfile -t plugin < <(find spank -name '*.c' | sort)
failed=0

# Says which release does not compile, with the compiler's words.
try() { # WHAT COMMAND...
    local what=$1 words

    shift
    words=$("$@" 2>&1) && return
    printf '%s\n%s: does not compile\n' "$words" "$what" >&2
    failed=1
}

for release in "${releases[@]}"; do
    number=$(printf '0x%02x%02x' "$((10#${release%.*}))" "$((10#${release#*.}))")
    for file in "${callers[@]}"; do
        try "$file for Slurm $release" \
            "$@" -Itests/slurm_api -DDLR_SLURM="$number" -Werror -fsyntax-only "$file"
    done
done
for dir in ${SLURM_INCLUDES:-}; do
    for file in "${callers[@]}" "${plugin[@]}"; do
        try "$file with the headers in $dir" "$@" -isystem "$dir" -fsyntax-only "$file"
    done
done
exit "$failed"
