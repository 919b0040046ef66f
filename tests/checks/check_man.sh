#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_man.sh PAGE...
#
# Formats each manual page (groff exits 0 on warnings, so what it prints counts) and looks for
# every option of every table in the sources: --dlrover-NAME for the first rows of the job's table,
# --NAME or NAME= for the others. Exit status 1 when something is missing or malformed.

set -euo pipefail

cd "$(dirname "$0")/../.."
bad=0
text=$(mktemp)
trap 'rm -f "$text"' EXIT

[[ $# -gt 0 ]] || { echo "no manual pages" >&2; exit 1; }
for page; do
    complaints=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
    [[ -z $complaints ]] || { echo "$complaints" >&2; bad=1; }
    groff -man -Tascii -P-cbou "$page" >>"$text" 2>/dev/null
done

options=$(sed -nE 's/^#define DLR_JOB_CONFIG_OPTIONS ([0-9]+).*/\1/p' common/config/job_config.h)
options=" $(sed -nE 's/^ *\{"([a-z-]+)", DLR_OPT_.*/\1/p' common/config/job_config.c | head -n "$options" | paste -sd' ') "

# Rows look like {"name", DLR_OPT_TYPE, ...
while IFS=: read -r file name; do
    case $file:$name in
        common/config/job_config.c:enable) option=--dlrover ;;
        common/config/job_config.c:*) [[ $options == *" $name "* ]] && option=--dlrover-$name || option="$name=[A-Za-z]*" ;;
        mpi_launcher/agent/config.c:* | ckpt/stream/main.c:*) continue ;; # only our programs start these
        *) option="(--$name|$name=[A-Za-z]*)" ;;
    esac
    grep -qE -e "(^|[^a-zA-Z0-9-])$option([^a-zA-Z0-9-]|\$)" "$text" ||
        { echo "no manual page names $option (a row of $file)" >&2; bad=1; }
done < <(grep -oE '^ *\{"[a-z0-9-]+", *DLR_OPT_' -r --include='*.c' common ckpt device health mpi_launcher spank |
    sed -nE 's/^([^:]+):[^"]*"([^"]+)".*/\1:\2/p' | sort -u)
exit "$bad"
