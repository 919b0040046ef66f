#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What --dlrover-persist writes beside the steps: how fast it may be, and what it is.

load lib/suite

setup_file() {
    cluster_up 1 1
    cat >"$(alice_home)/state.py" <<'PY'
import os, time
import dlrover

state = bytearray(os.urandom(1 << 20) * 4)
with dlrover.Checkpoint() as ck:
    ck.add("state", state, "local")
    ck.restore()
    step = 0
    # until a write is told, which is after it is there
    journal = os.path.expanduser(f"~/.dlrover/job-{os.environ['SLURM_JOB_ID']}/one/events.jsonl")
    while not any('"event":"persisted"' in line and '"version":[' in line for line in open(journal)):
        ck.fence()
        step += 1
        ck.begin(step)
        time.sleep(0.05)
    ck.fence()
PY
    job_file state.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
export PYTHONPATH=/opt/dlrover/lib/python3/dist-packages
srun /usr/bin/python3 state.py
SH
}
teardown_file() { cluster_down; }

@test "a node writes no faster than --dlrover-set=persist-rate, and what it wrote is right" {
    local bytes ms dir shown

    job=$(submit -N1 --dlrover=on --dlrover-name=one --dlrover-redundancy=none --dlrover-persist=5 \
        --dlrover-set=persist-rate=1m state.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    { read -r bytes && read -r ms; } < <(events "$job" 'select(.event=="persisted" and .version) | .bytes, .took_ms')
    echo "$bytes bytes in $ms ms"
    [ "$bytes" -gt $((4 << 20)) ]
    [ $((bytes * 1000 / ms)) -lt $((2 << 20)) ] # the first MiB is written at once
    dir=/home/alice/.dlrover/job-$job/one/persist
    alice /opt/dlrover/bin/dlrover ckpt verify "$dir"
    # A terminal is shown how far it is.
    shown=$(alice script -qec "/opt/dlrover/bin/dlrover ckpt verify $dir" /dev/null)
    [[ $shown == *"verify ["*"every byte is right"* ]]
}

@test "the ranks of a node share a file, which the public safetensors library reads" {
    local dir host python=${DLROVER_TORCH_VENV:-/opt/dlrover-torch}/bin/python

    job=$(submit -N1 -n2 --dlrover=on --dlrover-name=one --dlrover-redundancy=none --dlrover-persist=5 state.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    dir=/home/alice/.dlrover/job-$job/one/persist
    host=$(alice_home)/.dlrover/job-$job/one/persist
    # One file for each manifest; the write that was under way when the job ended may have left one without.
    for manifest in "$host"/manifest-*.json; do
        [ "$(jq -r '[.slices[].file] | unique | length' "$manifest")" -eq 1 ]
        [ -e "$host/$(jq -r '.slices[0].file' "$manifest")" ]
        [ "$(jq -c '[.slices[].rank]' "$manifest")" = "[0,1]" ]
    done
    [ -z "$(find "$host" -name 'r*')" ]
    [ "$(events "$job" 'select(.event=="persisted" and .version).files' | sort -u)" -eq 1 ]
    alice /opt/dlrover/bin/dlrover ckpt verify "$dir"
    alice /opt/dlrover/bin/dlrover ckpt export --to=safetensors --output="$dir/out" "$dir"
    [[ -x $python ]] || skip "all but the library: no '$python' (scripts/install-deps --torch-venv)"
    "$python" - "$host/$(jq -r '.slices[0].file' "$manifest")" "$host/out" <<'PY'
import sys
from safetensors.torch import load_file

node = load_file(sys.argv[1])
assert {name for name in node if not name.startswith("dlrover.pad.")} == {"0/state", "1/state"}, node.keys()
for rank in (0, 1):
    alone = load_file(f"{sys.argv[2]}/rank-{rank}.safetensors")
    assert list(alone) == ["state"], alone.keys()
    assert (node[f"{rank}/state"] == alone["state"]).all() and len(alone["state"]) == 4 << 20
PY
}
