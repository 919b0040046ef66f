#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/checks/check_parsers.sh
#
# A function that reads bytes which another user, node or version may have written says in its header
# "Foreign bytes: fuzz target NAME." Each such target must name the function and be linked with the source that defines
# it. A function of a header whose name says that it reads must say so, or stand below, with what it reads.

set -euo pipefail

cd "$(dirname "$0")/../.."
bad=0

# What is the user's own process, this node's system or the site's administrator: "function" of a header.
own=(
    dlr_client_conf_load dlr_order_parse dlr_agent_conf_parse dlr_cli_parse dlr_cli_since_parse dlr_cli_time_parse # his words
    dlr_log_level_parse dlr_sup_read_step dlr_parse_ports dlr_taskcount_read
    dlr_nic_parse dlr_topo_load dlr_marks_load dlr_plugstack_load dlr_cu_load # this node's system, the site
    dlr_health_load dlr_health_read dlr_drain_view_parse dlr_drain_comments_parse dlr_history_load # the kernel; slurmctld; root's own file
    dlr_fork_server_recv dlr_identity_load dlr_parity_order_read        # his own processes on this node
    dlr_data_load dlr_parity_sets_read_sources dlr_hex_read
    dlr_batch_view_load dlr_procid_parse dlr_sup_disk_load dlr_sup_file_load dlr_bad_versions_load # the state directory, which is his
    dlr_load dlr_slot_is_read dlr_slot_table_read dlr_slot_table_read_done dlr_file_load # no form of their own
    dlr_read_all dlr_read_at dlr_server_recv dlr_client_recv dlr_frame_recv dlr_tls_read
    dlr_cli_named_load # names of files; what is in them: dlr_slot_check_meta()
)

complain() {
    echo "$1" >&2
    bad=1
}

# "header function target" of each prototype, target "-" where its comment names none
prototypes() {
    local headers

    mapfile -t headers < <(find common ckpt device health hwloc_topo mpi_launcher spank watch interpose feed chunk -name '*.h' | sort)
    awk '
        FNR == 1 { text = target = "" }
        /^\/\*/ { target = "-"; text = "" }
        { text = text " " $0 }
        match(text, /Foreign bytes: fuzz target [a-z_]+/) { target = substr(text, RSTART + 27, RLENGTH - 27) }
        /\*\// { text = ""; next }
        /^$/ { target = "-"; text = "" }
        /^[a-z].*[ *]dlr_[a-z0-9_]+\(/ && match($0, /dlr_[a-z0-9_]+\(/) {
            print FILENAME, substr($0, RSTART, RLENGTH - 1), target
            text = ""
            target = "-"
        }' "${headers[@]}"
}

reads='_(parse|read|unpack|decode|recv|load|from_json)$|_(parse|read|unpack|decode)_'
sources=$(MAKEFLAGS='' make -s fuzz-sources)
while read -r header function target; do
    file=tests/fuzz/fuzz_$target.c
    if [[ $target != - ]]; then
        if [[ ! -e $file ]]; then
            complain "$header: $function(): no fuzz target '$target'"
            continue
        fi
        grep -qw -- "$function" "$file" || complain "$file: does not say $function()"
        linked=$(sed -n "s/^$target://p" <<<"$sources")
        # shellcheck disable=SC2086 # a list of words
        grep -qE "^[a-z].*\b$function\(" $linked || complain "$file: is not linked with $function()"
    elif [[ $function =~ $reads && " ${own[*]} " != *" $function "* ]]; then
        complain "$header: $function(): whose bytes does it read? See $0"
    fi
done < <(prototypes)
exit $bad
