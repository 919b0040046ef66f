#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_headers.sh COMPILER FLAG...
#
# Compiles each header alone, and the installed one as C++ too. Exit status 1 when one does not.

set -euo pipefail

cd "$(dirname "$0")/../.."
bad=0
while read -r header; do
    if ! echo "#include \"$header\"" | "$@" -x c -fsyntax-only -; then
        echo "$header does not compile alone" >&2
        bad=1
    fi
done < <(find common device hwloc_topo ckpt health mpi_launcher spank watch interpose feed -name '*.h' | sort)
for header in ckpt/ckpt.h feed/client/feed.h watch/client/watch.h; do
    echo "#include \"$header\"" | g++ -std=c++11 -Wall -Wextra -Werror -I. -x c++ -fsyntax-only - || bad=1
done
exit "$bad"
