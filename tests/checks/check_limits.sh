#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_limits.sh [--list]
#
# Compares the table of limits in docs/limits.md with the sources, both ways: every time among
# the job's settings (common/config/job_config.c) and every constant called ..._MS or ..._S stands in
# it with its value, and nothing else does. The settings stand in dlrover(7) too. --list prints
# what the sources hold.
#
# shellcheck disable=SC2016 # backquotes and dollars are text here

set -euo pipefail

cd "$(dirname "$0")/../.."

# "file NAME milliseconds" of each constant.
constants() {
    find common ckpt device health hwloc_topo mpi_launcher spank watch interpose feed -name '*.[ch]' -print0 | sort -z |
        xargs -0 awk '
            { line = line $0 }
            /\\$/ { sub(/\\$/, " ", line); next }
            line ~ /^# *define +[A-Z0-9_]+_(MS|S) / {
                split(line, word)
                value = line
                sub(/^# *define +[A-Z0-9_]+ +/, "", value)
                sub(/ *\/\*.*/, "", value)
                gsub(/[uUlL]+/, "", value)
                if (word[2] !~ /^NS_PER/)
                    print FILENAME, word[2], value
            }
            { line = "" }' |
        while read -r file name value; do
            [[ $value =~ ^[0-9\ *+()]+$ ]] || { echo "$file $name $value"; continue; }
            case $name in
                *_MS) echo "$file $name $((value))" ;;
                *_S) echo "$file $name $((value * 1000))" ;;
            esac
        done
}

# "NAME default" of each setting that is a time.
settings() {
    sed -nE 's/^ *\{"([a-z-]+)", DLR_OPT_(DURATION|BEAT), [^,]*, "([^"]*)".*/\1 \3/p' \
        common/config/job_config.c
}

# "5 s" in milliseconds.
in_ms() {
    local number=${1% *}

    case $1 in
        *' ms') echo "$number" ;;
        *' s') echo "$((number * 1000))" ;;
        *' min') echo "$((number * 60000))" ;;
        *' h') echo "$((number * 3600000))" ;;
        *) echo "'$1' is not a time" ;;
    esac
}

# The rows of the document in the same form.
documented() {
    sed -nE 's/^\| `([a-z-]+)` \| `([^`]*)` \|.*/setting \1 \2/p
             s/^\| `([a-z_0-9\\/]+\.[ch])` `([A-Z0-9_]+)` \| ([^|]*[^ ]) \|.*/constant \1 \2 \3/p' \
        docs/limits.md |
        while read -r kind first second rest; do
            case $kind in
                setting) echo "$first $second" ;;
                constant) echo "$first $second $(in_ms "$rest")" ;;
            esac
        done
}

sources() {
    settings
    constants
}

if [[ ${1:-} == --list ]]; then
    sources
    exit
fi
if ! diff <(documented | sort) <(sources | sort) >/dev/null; then
    echo "docs/limits.md (<) and the sources (>) differ:" >&2
    diff <(documented | sort) <(sources | sort) | grep '^[<>]' >&2
    exit 1
fi
bad=0
while read -r name value; do
    grep -A1 -Fx -e "|  $name" man/dlrover.7.scd | grep -qFx -e ":  $value" ||
        { echo "man/dlrover.7.scd does not say $name $value" >&2; bad=1; }
done < <(settings)
exit "$bad"
