#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_layers.sh [FILE...]
#
# Says which #include crosses a boundary between folders, of our own headers and of foreign ones.
# Without files: every C source and header outside tests/. Exit status 1 when one does.

set -euo pipefail

cd "$(dirname "$0")/../.."
bad=0

# Headers of a folder that other folders may include; the rest is private to it.
public() {
    case $1 in
        common/*) ;;
        hwloc_topo/topo.h | health/health.h) ;;
        tests/*) ;; # which only bench/ may see
        ckpt/standalone/files.h | ckpt/commit/cadence.h | ckpt/ckpt.h | ckpt/commit/commit.h | ckpt/base/copy_crc.h | ckpt/commit/interval.h | ckpt/base/pace.h | ckpt/base/page.h | ckpt/base/page_cost.h | ckpt/redundancy/parity.h | ckpt/persist/slot_file.h | ckpt/base/file_slice.h | ckpt/slot/slot.h | ckpt/slot/store.h | ckpt/base/version.h | ckpt/restore/whole.h) ;;
        *) return 1 ;;
    esac
}

# Whether folder $1 may look into folder $2.
may_see() {
    case $1:$2 in
        common:* | *:spank | *:mpi_launcher) return 1 ;;
        hwloc_topo:common | ckpt:common) ;;
        health:common | health:hwloc_topo) ;;
        spank:common | spank:hwloc_topo | spank:health) ;;
        mpi_launcher:common | mpi_launcher:hwloc_topo | mpi_launcher:health | mpi_launcher:ckpt) ;;
        examples:ckpt) ;;
        bench:*) ;;
        *) return 1 ;;
    esac
}

# Whether file $1 may include the foreign header $2. Those of the C library are not listed.
may_use() {
    case $2 in
        slurm/spank.h | slurm/slurm_version.h) [[ $1 == spank/* ]] ;;
        slurm/*) [[ $1 == mpi_launcher/slurm/compat.h ]] ;;
        mpi.h) [[ $1 == mpi_launcher/rendezvous/main.c || $1 == examples/* || $1 == bench/* ]] ;;
        ucp/* | uct/* | ucs/* | isa-l.h | isa-l/*) [[ $1 == ckpt/* || $1 == bench/* ]] ;;
        hwloc.h | hwloc/*) [[ $1 == hwloc_topo/* ]] ;;
        czmq.h | zmq.h | munge.h) [[ $1 == mpi_launcher/* ]] ;;
        cuda.h | cuda_runtime*.h) [[ $1 == device/cuda_driver.h ]] ;;
        *) ;;
    esac
}

complain() {
    echo "$1: includes $2: $3" >&2
    bad=1
}

check_own() {
    local file=$1 header=$2 folder=${1%%/*} other=${2%%/*}

    if [[ $header != */* ]]; then
        complain "$file" "\"$header\"" "write the path from the root"
    elif [[ $folder != "$other" ]] && ! may_see "$folder" "$other"; then
        complain "$file" "\"$header\"" "$folder/ may not look into $other/"
    elif [[ $folder != "$other" ]] && ! public "$header"; then
        complain "$file" "\"$header\"" "it is private to $other/"
    fi
}

if [[ $# -eq 0 ]]; then
    mapfile -t files < <(find common device hwloc_topo ckpt health mpi_launcher spank examples bench \
        -name '*.[ch]' 2>/dev/null | sort)
    set -- "${files[@]}"
fi
for file; do
    while read -r header; do
        case $header in
            '"'*) check_own "$file" "${header//\"/}" ;;
            '<'*)
                header=${header//[<>]/}
                may_use "$file" "$header" ||
                    complain "$file" "<$header>" "this foreign header has one folder, not this one"
                ;;
        esac
    done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*(["<][^">]*[">]).*/\1/p' "$file")
done
exit "$bad"
