#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# dlrover topo as it is typed. Needs no Slurm: scontrol is a script.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    dlrover=$(readlink -f "${BUILD:-build}/dlrover")
    unset SLURM_JOB_ID DLROVER_STATE_DIR
    export HOME=$BATS_TEST_TMPDIR PATH=$BATS_TEST_TMPDIR/bin:$PATH
    mkdir "$HOME/bin"
    printf 'SwitchName=leaf0 Nodes=n[1-2]\nSwitchName=leaf1 Nodes=n[2-3]\n' >"$HOME/topology.conf"
}

scontrol_says() { # TEXT
    printf '%s\n' "$1" >"$HOME/answer"
    printf '#!/bin/sh\n[ "$SLURM_TOPO_LEN" ] && exit 1\necho noise >&2\ncat "$HOME/answer"\n' >"$HOME/bin/scontrol"
    chmod +x "$HOME/bin/scontrol"
}

@test "a job's nodes are shown below their switches, with ranks and spares" {
    mkdir -p "$HOME/.dlrover/job-41/r"
    cp tests/journals/node-loss.jsonl "$HOME/.dlrover/job-41/r/events.jsonl"
    run -0 "$dlrover" topo 41
    [[ $output == *"run r of job 41"*leaf0*n1*leaf1* ]]
    [[ $output == *"rank 0"* ]]
    run -0 "$dlrover" topo 41 --json
    run -0 "$dlrover" topo --svg 41
    [[ $output == "<svg "*"</svg>" ]]
    run -1 "$dlrover" topo 42
    [[ $output == "dlrover: no journal: looked for"* ]]
}

@test "links that the network's measurement has seen are told, whatever is at the end of their file" {
    local run=$HOME/.dlrover/job-41/r name
    mkdir -p "$run"
    cp tests/journals/node-loss.jsonl "$run/events.jsonl"
    mapfile -t names < <("$dlrover" topo 41 --json | jq -r '.nodes[].node')
    printf -v name '"%s",' "${names[@]}"
    {
        echo '{"v":2,"nodes":["n1"],"links":[]}'
        echo "{\"v\":2,\"nodes\":[${name}\"gone\"],\"links\":[[0,1,21000,1180,95],[0,2,21000,1176,1180],[1,2,0,0,0],
            [9,-1,1,1,1],[0,${#names[@]},1,1,1],[],7]}" | tr -d '\n'
        printf '\n{"v":2,"nodes":["n1"'
    } >"$run/links.jsonl"
    run -0 "$dlrover" topo 41
    [[ $output == *"${names[0]} "*", 2 links 95 (${names[1]}) to 1176 MB/s"* ]]
    [[ $output == *"${names[1]} "*", link 95 MB/s (${names[0]})"* ]]
    run -0 jq -c '.nodes[2].links' <("$dlrover" topo 41 --json)
    [ "$output" = "{\"measured\":1,\"slowest_mbps\":1176,\"slowest_to\":\"${names[0]}\",\"fastest_mbps\":1176}" ]
    echo garbage >"$run/links.jsonl"
    run -0 "$dlrover" topo 41
    [[ $output != *MB/s* ]]
    rm "$run/links.jsonl"
    mkfifo "$run/links.jsonl"
    run -0 timeout 10 "$dlrover" topo 41
    [[ $output != *MB/s* ]]
}

@test "a file is shown with what is odd about it, or refused by its line" {
    run -0 "$dlrover" topo "$HOME/topology.conf"
    [[ $output == *"note: node n2 is on leaf0 and leaf1: the first counts"* ]]
    [[ $output == *$'leaf1\n  n3'* ]]
    run -0 "$dlrover" topo --dot "$HOME/topology.conf"
    [[ $output == "graph topology {"*"}" ]]
    echo 'words' >>"$HOME/topology.conf"
    run -1 "$dlrover" topo "$HOME/topology.conf"
    [[ $output == *"topology.conf': line 3 is not a switch or block"* ]]
    run -1 "$dlrover" topo /nonexistent/topology.conf
    [[ $output == *"/nonexistent/topology.conf"* ]]
}

@test "without a word Slurm is asked, whatever cuts its lines for others" {
    scontrol_says 'BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2'
    SLURM_TOPO_LEN=10 run -0 "$dlrover" topo
    [[ $output == *"by Slurm"*b1*"n1 n2"* ]]
    scontrol_says 'No topology information available'
    run -1 "$dlrover" topo
    [[ $output == "dlrover: 'scontrol show topology' shows no switches: give a file"* ]]
    rm "$HOME/bin/scontrol"
    PATH=$HOME/bin:/nonexistent run -1 "$dlrover" topo
    run -2 "$dlrover" topo --svg --dot
    [[ $output == *"--svg, --dot and --json exclude each other"* ]]
}
