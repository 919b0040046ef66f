#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The Python package with a current PyTorch in a virtual environment, without a job:
# scripts/install-deps --torch-venv makes one.

load forked.bash

setup_file() {
    export venv=${DLROVER_TORCH_VENV:-/opt/dlrover-torch} OMP_NUM_THREADS=1
    [[ ! -x $venv/bin/python ]] || start_python "$venv/bin/python" numpy torch torch._dynamo torch.distributed.checkpoint \
        torch.distributed.fsdp torch.distributed.tensor torch.distributed.device_mesh
}

teardown_file() { stop_python; }

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    local build=${BUILD:-build}
    python=$BATS_FILE_TMPDIR/python
    [[ -x $python ]] || skip "no PyTorch in '$venv': scripts/install-deps --torch-venv"
    export DLROVER_LIB=${DLROVER_LIB:-$PWD/build/libdlrover.so}
    [[ $build != /* ]] || DLROVER_LIB=$build/libdlrover.so
    [[ -e $DLROVER_LIB ]] || skip "no $DLROVER_LIB: make first"
    export PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
    export DLROVER_CKPT_DIR=$BATS_TEST_TMPDIR/ck
    export DLROVER_CKPT_EVERY=1 # else as the disk of this machine allows
    unset DLROVER_AGENT_SOCKET RANK WORLD_SIZE SLURM_PROCID SLURM_NTASKS
}

# The last byte of the file's data becomes another.
spoil() { # FILE
    local size
    size=$(stat -c %s "$1")
    tail -c 1 "$1" | tr '\000-\377' '\001-\377\000' | dd of="$1" bs=1 seek=$((size - 1)) conv=notrunc 2>/dev/null
}

ranks() { # HOW_MANY NAME ARGUMENT…
    local n=$1
    shift
    "$python" tests/python/python_dcp.py --ranks "$n" "$@"
}

# Steps 1 to 3 by four ranks, then two of them are lost and step 4 is not whole.
lose_two() {
    run ranks 4 save 3 4
    [ "$status" -ne 0 ]
    [ -e "$DLROVER_CKPT_DIR/r0-4.safetensors" ]
    [ ! -e "$DLROVER_CKPT_DIR/r2-4.safetensors" ]
}

@test "DCP: four ranks save without a collective, four and two restore what is whole" {
    lose_two
    cp -r "$DLROVER_CKPT_DIR" "$BATS_TEST_TMPDIR/four"
    ranks 4 restore 3
    rm -r "$DLROVER_CKPT_DIR"
    mv "$BATS_TEST_TMPDIR/four" "$DLROVER_CKPT_DIR"
    ranks 2 restore 3
    # No start looks at the ranks that are no more, nor at what the newest two versions replaced.
    ls -la "$DLROVER_CKPT_DIR"
    [ -z "$(find "$DLROVER_CKPT_DIR" -type f ! -name 'r[01]-[4-6].safetensors' ! -name '*.aside-*' ! -name '.lock-*')" ]
    [ "$(cd "$DLROVER_CKPT_DIR" && echo *-[56].safetensors)" = "r0-5.safetensors r0-6.safetensors r1-5.safetensors r1-6.safetensors" ]
}

@test "DCP: three ranks restore what two saved, also as from memory; names that differ are told" {
    ranks 2 save 3
    ranks 3 joined 3
}

@test "DCP: a corrupt file of one rank takes all ranks to the version before; corrupt files alone are an error" {
    ranks 2 save 3
    spoil "$DLROVER_CKPT_DIR/r1-3.safetensors"
    ranks 2 corrupt 2
    for file in "$DLROVER_CKPT_DIR"/r?-[12].safetensors; do spoil "$file"; done
    ranks 2 fresh
}

@test "DCP: save and load take Writer and Reader, with a group, without and with cached plans" {
    ranks 2 calls
    rm -r "$DLROVER_CKPT_DIR"
    ranks 1 chosen
}

@test "DCP: async_save in a thread saves what was when it was called, in a process it is refused" {
    ranks 2 asynchronous
}

@test "DCP: a program that is started again leaves nothing aside and keeps two versions" {
    ranks 2 restarted
}

@test "DCP: what is not in place is copied, or refused by name" {
    ranks 1 alone
}

@test "DCP: with staged=True the next save waits for the buffers of the last" {
    DLROVER_CKPT_AUDIT=1 ranks 1 unfenced
}

@test "DCP: a model under FSDP2 that was stopped ends with the same weights" {
    undisturbed=$(DLROVER_CKPT_DIR=$BATS_TEST_TMPDIR/calm ranks 2 fsdp 6)
    ranks 2 fsdp 3
    run ranks 2 fsdp 6
    echo "$output"
    [ "${lines[0]}" = "from 3" ]
    [ "${lines[-1]}" = "${undisturbed##*$'\n'}" ]
}

@test "trainers: each goes on to the same bits; what would be lost is refused, what fails is told once" {
    # Some 150 files: not on a disk that others wait for.
    DLROVER_CKPT_DIR=$(mktemp -d /dev/shm/dlrover-trainers.XXXXXX)
    run "$python" tests/python/python_trainers.py
    rm -rf "$DLROVER_CKPT_DIR"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "restores: all or nothing, options by names, other sizes, nothing left after close()" {
    "$python" tests/python/python_restore.py
}

@test "bind: a current PyTorch's scaler, schedulers, random numbers, late state, workers and closures" {
    "$python" tests/python/python_state.py together scaler schedulers random_numbers late_adam wide_state fork until_update
}

# A run's persist directory of what two ranks wrote alone: version (0, 3).
persisted() {
    ranks 2 save 3
    "$python" - "$DLROVER_CKPT_DIR" <<'END'
import json, struct, sys

def row(rank):
    name = f"r{rank}-3.safetensors"
    with open(f"{sys.argv[1]}/{name}", "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        block = bytes.fromhex(json.loads(file.read(length))["__metadata__"]["dlrover.slot"])
    return {"rank": rank, "file": name, "at": 8 + length, "bytes": 1, "room": 1,
            "crc": f"{int.from_bytes(block[-4:], 'little'):08x}"}

with open(f"{sys.argv[1]}/manifest-0-3.json", "w") as file:
    json.dump({"v": 2, "t": "manifest", "world": 2, "vround": 0, "step": 3,
               "layout": "0" * 16, "slices": [row(0), row(1)]}, file)
END
}

@test "a round leaves nothing behind, what is left is named, and what torch.compile has made stays" {
    run "$python" tests/python/python_leftovers.py nothing wrapped groups loaders processes settings graphs training \
        aborts compiled late between
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "where ranks stand in torch.distributed is on their pages, and who is to blame, a current PyTorch" {
    make_judge "$BATS_TEST_TMPDIR/judge"
    run "$python" tests/python/python_collectives.py "$BATS_TEST_TMPDIR/judge"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = "ok, 7" ]
}

@test "files: bad, lost and pruned manifests, and a bit flipped in manifest, header and note" {
    local seed=${SEED:-$RANDOM}

    ranks 1 manifests
    rm -r "$DLROVER_CKPT_DIR"
    echo "SEED=$seed"
    ranks 1 flipped "$seed"
}

@test "values: whatever the bytes, they are a value or an error, and nothing in them is run" {
    "$python" tests/python/python_fuzz.py 20000 "${SEED:-$RANDOM}"
}

@test "export: DCP and the public safetensors library read it, a corrupt snapshot is refused" {
    local cli=${DLROVER_LIB%/*}/dlrover out=$BATS_TEST_TMPDIR/out

    # As Python 3.10 has it: 3.11 has some modules built in
    printf '#!/bin/sh\nexec %s -X frozen_modules=off "$@"\n' "$python" >"$BATS_TEST_TMPDIR/python"
    chmod +x "$BATS_TEST_TMPDIR/python"
    export DLROVER_PYTHON=$BATS_TEST_TMPDIR/python
    persisted
    run script -qec "$cli ckpt export --to=dcp --output=$out/dcp $DLROVER_CKPT_DIR" /dev/null # a terminal
    echo "$output"
    [[ $status -eq 0 && $output == *"verify [####"*"] 100 %"*"export [####"*"] 100 %"* ]]
    ranks 3 exported 3 "$out/dcp"
    "$cli" ckpt export --to=safetensors --output="$out/st" "$DLROVER_CKPT_DIR"
    ranks 1 tensors 3 "$out/st/rank-%d.safetensors"

    spoil "$DLROVER_CKPT_DIR/r1-3.safetensors"
    # what lies in the current directory is not run
    mkdir "$out/here"
    cd "$out/here"
    echo "open('$out/ran', 'w')" | tee dlrover.py torch.py json.py >runpy.py
    run "$cli" ckpt export --to=dcp --step=3 --output="$out/bad" "$DLROVER_CKPT_DIR"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"r1-3.safetensors' is corrupt in block 0 of "* ]]
    [ ! -e "$out/bad" ]
    [ ! -e "$out/ran" ]
    # nor does a name steer the terminal
    echo '{"v":2,"t":"manifest","world":1,"vround":0,"step":1,"layout":"0","slices":[{"rank":0,"file":"r0\u001b[2J","at":4096,
        "bytes":8,"room":8192,"crc":"00000000"}]}' >manifest-0-1.json
    echo x >r0$'\e[2J'
    run "$cli" ckpt export --to=dcp --output="$out/bad" "$out/here"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"/here/r0?[2J'"* && $output != *$'\e'* ]]
}

@test "the public safetensors library reads a snapshot file as it is on the disk" {
    ranks 2 save 3
    ranks 1 tensors 3 "$DLROVER_CKPT_DIR/r%d-3.safetensors"
}

@test "export: what a program named itself, parts, replicas and each rank's own" {
    ranks 3 plain "$BATS_TEST_TMPDIR/out"
}
