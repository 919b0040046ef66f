#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/function_sizes.sh [ROOT]
# Prints how many lines the functions of the product have, from Universal Ctags: median, nine tenths, the largest five.

set -euo pipefail

cd "${1:-"$(dirname "$0")/../.."}"
ctags --version 2>/dev/null | grep -q 'Universal Ctags' || {
    echo "function_sizes.sh: needs Universal Ctags (Debian: universal-ctags)" >&2
    exit 1
}
folders=()
for folder in spank mpi_launcher ckpt device health hwloc_topo common; do
    [[ ! -d $folder ]] || folders+=("$folder")
done
[[ ${#folders[@]} -gt 0 ]] || { echo "function_sizes.sh: no folder of the product in $PWD" >&2; exit 1; }
find "${folders[@]}" -name '*.c' | sort |
    ctags -L - -x --_xformat='%n %{end} %F %N' --language-force=C --kinds-C=f |
    awk '{ print $2 - $1 + 1, $3, $4 }' | sort -n |
    awk '{ size[NR] = $1; line[NR] = $0 }
        END {
            if (!NR)
                exit 1
            at = int(NR * 0.9)
            printf "%d functions: median %d, p90 %d, largest %d lines\n",
                NR, size[int((NR + 1) / 2)], size[at < NR * 0.9 ? at + 1 : at], size[NR]
            for (i = NR; i > 0 && i > NR - 5; i--)
                print "  " line[i]
        }'
