# SPDX-License-Identifier: Apache-2.0
# How often a run saves, and how copies travel: what the journal and status say of it, and that
# the state is the right one whatever the setting.
load lib/suite

setup_file() {
    cluster_up 3 1
    job_file train.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
export SLURM_MPI_TYPE=pmix OMPI_MCA_btl_tcp_if_include=eth0
srun /opt/dlrover/share/dlrover/examples/mpi_train --params small --step-ms 50 "$@"
SH
}
teardown_file() { cluster_down; }

# start [sbatch options] -- [program options]: two nodes train, one is a spare
start() {
    local options=()
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    submit -N3 --dlrover=on --dlrover-spares=1 "${options[@]}" train.sh "$@"
}

status() { alice dlrover status --once "$1"; }
cancel() { alice scancel "$1" && await_job "$1" >/dev/null; }

@test "saves keep to the budget; status says how often, and whether every step is possible" {
    job=$(start --dlrover-save=0.0001% -- --steps 100000)
    told=$(await "$job" cadence)
    await "$job" every_step >/dev/null
    # The budget is so small that no machine saves within it more than once in 50 steps.
    [ "$(jq .every <<<"$told")" -gt 50 ]
    jq -e '.budget == 0.0001 and .bound == "cost" and .step_ms > 45 and .cost_ms >= .blocked_ms and .blocked_ms > 0' <<<"$told"
    jq -e '.every == 1000000 or (.every - .cost_ms / .step_ms * 1e6 | fabs <= 1)' <<<"$told"
    status "$job" | grep -E '^ *saves +a save every [0-9]+ steps \(.*: cost\): it costs '
    status "$job" | grep -E '^ *memory +[0-9.]+ of [0-9.]+ MB on n[12], the fullest node; [0-9.]+ at least'
    status "$job" | grep -E 'a save in every step is not possible: [0-9.]+ MB of a node at .* take .* ms'
    alice dlrover status --once --json "$job" | jq -e '.every_step.possible == false and .cadence.every > 50'
    cancel "$job"
}

@test "without a budget most steps are saved and committed, on two nodes each" {
    job=$(start --dlrover-save=always -- --step-ms 100 --steps 100000)
    # One version at a time can do every second step at best, where a copy takes no longer than a step.
    await "$job" "e['event']=='progress' and e['commits']>=20 and 2*e['commits']>e['step']" >/dev/null
    cancel "$job"
}

@test "paced copies over a named device by UCX: saves go on, status names the device, no byte is wrong" {
    job=$(start --dlrover-set=pace=auto,net=eth0,transport=ucx --dlrover-set=stream-threads=3 -- --steps 100000)
    told=$(await "$job" network)
    [ "$(jq -r '"\(.uses) \(.transport)"' <<<"$told")" = "eth0 ucx" ]
    status "$job" | grep -E '^ *network +copies of n[12] go over eth0'
    # By default: something decided how often, and what a loss would cost is said.
    await "$job" "e['event']=='cadence' and e['bound'] in ('staleness','cost','copies') and e['stale_s']==10" >/dev/null
    await "$job" "e['event']=='progress' and e['commits']>=5 and e['at_stake_ms']>=0" >/dev/null
    status "$job" | grep -E '^ *committed +step [0-9]+ of round 0, .* ago, would lose about .* now'
    victim=$(events "$job" 'select(.event=="plan").places[1].node' | tr -d '"')
    "$VC" kill "$victim" # rank 1's state comes from what was paced
    await "$job" "e['event']=='restored' and e['round']==1" >/dev/null
    cancel "$job"
    heal_cluster
}

@test "nodes whose fastest networks do not meet: copies take the one they have in common" {
    for node in n1 n2; do # as fast as eth0 by its own word, and a network of this node alone
        on "$node" sh -c "ip link add fast0 type veth peer name fast1 &&
            ip addr add 10.99.${node#n}.1/24 dev fast0 && ip link set fast0 up && ip link set fast1 up"
    done
    job=$(start -w n1,n2,n3 -- --steps 100000)
    await "$job" "e['event']=='progress' and e['commits']>=3" >/dev/null
    await "$job" "e['event']=='network' and e['uses']=='eth0'" >/dev/null
    status "$job" | grep -E '^ *network +copies of n[12] go over eth0'
    # a UCX that sees so itself would not try
    [ -z "$(events "$job" 'select(.event=="save_failed" and (.why|test("unreachable|No route")))')" ] ||
        grep -E "n[12] does not reach the others over the network that is fastest there .*: copies go over that of the control plane" "$(alice_home)/out.$job"
    cancel "$job"
    for node in n1 n2; do on "$node" ip link del fast0; done
}

@test "a device that is not there: one line, the job runs on without snapshots" {
    job=$(start --dlrover-set=net=ib7 -- --steps 10)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    grep -rh "dlrover-set=net: no device .ib7. on this node, there are: eth0" "$(alice_home)/.dlrover/job-$job"
}
