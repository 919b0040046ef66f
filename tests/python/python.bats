#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The Python binding without a job, with Debian's Python and PyTorch.

load forked.bash

setup_file() {
    start_python /usr/bin/python3 numpy torch || true
}

teardown_file() { stop_python; }

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    python=$BATS_FILE_TMPDIR/python
    [[ -x $python ]] || skip "no python3-torch"
    build=${BUILD:-build}
    export DLROVER_LIB=${DLROVER_LIB:-$PWD/build/libdlrover.so}
    [[ $build != /* ]] || DLROVER_LIB=$build/libdlrover.so
    [[ -e $DLROVER_LIB ]] || skip "no $DLROVER_LIB: make first"
    export PYTHONPATH=$PWD/python DLROVER_CKPT_DIR=$BATS_TEST_TMPDIR/ck PYTHONDONTWRITEBYTECODE=1
    export DLROVER_CKPT_EVERY=1 # else as the disk of this machine allows
    unset DLROVER_AGENT_SOCKET RANK WORLD_SIZE SLURM_PROCID SLURM_NTASKS
}

# Trains 8 steps undisturbed and, elsewhere, killed after step 5.
train() {
    undisturbed=$(DLROVER_CKPT_DIR=$BATS_TEST_TMPDIR/calm "$python" tests/python/python_train.py 8 "$1" 0)
    run "$python" tests/python/python_train.py 8 "$1" 5
    [ "$status" -eq 137 ]
    again=$("$python" tests/python/python_train.py 8 "$1" 0)
    echo "$undisturbed"; echo "$again"
}

# The last byte of the file's data becomes another.
spoil() { # FILE
    local size
    size=$(stat -c %s "$1")
    tail -c 1 "$1" | tr '\000-\377' '\001-\377\000' | dd of="$1" bs=1 seek=$((size - 1)) conv=notrunc 2>/dev/null
}

@test "a process that stays leaves two rounds, and begins again in the next" {
    run "$python" tests/python/python_resilient.py
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c "round [45] ended because a node was lost" <<<"$output")" -eq 2 ]
    grep "round 4 has ended, and thread 'left over' that was started in it still runs" <<<"$output"
    grep "this process is in a round already" <<<"$output"
    # Where nothing supervises it is called once.
    run "$python" -c 'import dlrover; print(dlrover.resilient(lambda x: x)(3))'
    [ "$output" = 3 ]
}

@test "a round leaves no process, wrapped model or gradient behind, and what hangs in NCCL's abort does not park" {
    run "$python" tests/python/python_leftovers.py nothing wrapped loaders training aborts late \
        between
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "what a program tells of its steps and phases is on its page" {
    run "$python" tests/python/python_watch.py
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == "ok, "* ]]
}

@test "a feed reads each sample once an epoch, at any number of ranks, over restarts and by stock loaders" {
    run "$python" tests/python/python_feed.py order share resized changed refused
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "torch's DistributedSampler with a saved step repeats and loses samples over 8, 6 and 8 ranks, a feed does not" {
    run "$python" tests/python/python_feed.py negative_control
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "a training with a feed ends with the same bits when it is killed, and at any number of ranks" {
    run "$python" tests/python/python_feed.py told bound same_bits overflow averaged
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "where ranks stand in torch.distributed is on their pages, and who is to blame" {
    make_judge "$BATS_TEST_TMPDIR/judge"
    run "$python" tests/python/python_collectives.py "$BATS_TEST_TMPDIR/judge"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = "ok, 7" ]
}

@test "a killed training with Adam ends with the same bits" {
    train adam
    [ "${again%%$'\n'*}" = "from 5" ]
    [ "${again##*$'\n'}" = "${undisturbed##*$'\n'}" ]
}

@test "what is the same on every rank is loaded as that, and not as a rank's own" {
    export DDP=1
    train adam
    [ "${again%%$'\n'*}" = "from 5" ]
    [ "${again##*$'\n'}" = "${undisturbed##*$'\n'}" ]
    strings "$DLROVER_CKPT_DIR/r0-8.safetensors" | head -n 1 >"$BATS_TEST_TMPDIR/head"
    grep -o '"dlrover.region.model.0.weight":"replicated' "$BATS_TEST_TMPDIR/head"
    grep -o '"dlrover.region.buffer.1.running_mean":"blob' "$BATS_TEST_TMPDIR/head"
    unset DDP
    run "$python" tests/python/python_train.py 9 adam 0
    [ "$status" -ne 0 ]
    [[ $output == *"is of kind 1 in the snapshot, 0 here"* ]]
}

@test "a killed training with SGD and momentum ends with the same bits" {
    train sgd
    [ "${again%%$'\n'*}" = "from 5" ]
    [ "${again##*$'\n'}" = "${undisturbed##*$'\n'}" ]
}

@test "a corrupt newest file is passed over, corrupt files alone are an error until a word begins anew" {
    train adam
    rm -r "$DLROVER_CKPT_DIR"
    run "$python" tests/python/python_train.py 8 adam 5
    spoil "$DLROVER_CKPT_DIR/r0-5.safetensors"
    run "$python" tests/python/python_train.py 8 adam 6
    [[ $output == *"rank 0's file of step 5: block "*" is corrupt; step 4 is restored"* ]]
    grep -qx "from 4" <<<"$output"
    for file in "$DLROVER_CKPT_DIR"/*.safetensors; do
        spoil "$file"
    done
    cp -r "$DLROVER_CKPT_DIR" "$BATS_TEST_TMPDIR/before"
    run "$python" tests/python/python_train.py 8 adam 0
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output == *"no version in '$DLROVER_CKPT_DIR' is whole: rank 0's file of step 6: block "*" is corrupt; DLROVER_CKPT_FRESH=on "* ]]
    for file in "$BATS_TEST_TMPDIR"/before/*.safetensors; do
        cmp "$file" "$DLROVER_CKPT_DIR/${file##*/}"
    done
    DLROVER_CKPT_FRESH=on run "$python" tests/python/python_train.py 8 adam 0
    echo "$output"
    grep -qx "from 0" <<<"$output"
    [ "${lines[-1]}" = "${undisturbed##*$'\n'}" ]
    [ "$(find "$DLROVER_CKPT_DIR" -name '*.aside-*' | wc -l)" -eq 2 ] # nothing of it is gone
}

@test "arrays and buffers are named, saved and loaded in place" {
    run "$python" - <<'PY'
import numpy as np, dlrover
a, b = np.arange(12, dtype=np.float32).reshape(3, 4), bytearray(b"hello")
with dlrover.Checkpoint() as ck:
    ck.add("a", a)
    ck.add("b", b, "blob")
    assert ck.restore() is None
    assert ck.begin(3)
    ck.flush()
    assert ck.stats()["committed_step"] == 3
a[:], b[:] = 0, b"-----"
with dlrover.Checkpoint() as ck:
    ck.add("a", a)
    ck.add("b", b, "blob")
    assert ck.list()[0][1] == 3
    assert ck.restore() == 3
assert a[2, 3] == 11 and b == b"hello"
assert ck.closed and not ck.due(4) and not ck.begin(4) and ck.fence() is ck.flush() is ck.progress(4) is ck.close() is None
for call in ck.list, ck.restore, ck.regions, ck.clear, ck.allow, ck.missing, lambda: ck.add("c", a), lambda: ck.mark_bad(1):
    try:
        call()
        raise SystemExit("taken")
    except dlrover.Error as error:
        assert "the checkpoint is closed" in str(error), error
PY
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "a program that ends without a word has its last save" {
    local end
    for end in "sys.exit(0)" "raise RuntimeError" "return"; do
        rm -rf "$DLROVER_CKPT_DIR"
        run "$python" - <<PY
import sys, numpy as np, dlrover
def main():
    a = np.full(16_000_000, 7, dtype=np.float32)
    ck = dlrover.Checkpoint(every=1, threads=1)
    ck.add("a", a)
    for step in 1, 2:
        ck.fence()
        assert ck.begin(step)
    $end
main() # what it has goes while it is copied
PY
        echo "$end: $output"
        [ "$status" -le 1 ]
        [ -e "$DLROVER_CKPT_DIR/r0-2.safetensors" ]
        [ "$(find "$DLROVER_CKPT_DIR" -name '.r0-*' | wc -l)" -eq 0 ]
        "$python" - <<'PY'
import numpy as np, dlrover
a = np.zeros(16_000_000, dtype=np.float32)
with dlrover.Checkpoint() as ck:
    ck.add("a", a)
    assert ck.restore() == 2 and (a == 7).all()
PY
    done
}

@test "a disk that is full costs versions, is told once each time, and the training goes on" {
    run "$python" - <<'PY'
import resource, warnings, numpy as np, dlrover
from dlrover._checkpoint import lib
a, (_, hard) = np.zeros(400_000, dtype=np.float32), resource.getrlimit(resource.RLIMIT_FSIZE)
ck = dlrover.Checkpoint(every=1)
ck.add("a", a)
told, lost = [], []
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for steps, room in ((range(1, 4), hard), (range(4, 9), 1_000_000), (range(9, 12), hard), (range(12, 17), 1_000_000),
                        (range(17, 20), hard)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        for step in steps:
            ck.fence()
            a[:] = step
            assert ck.begin(step)
        lib.dlr_ckpt_flush(ck._handle)  # of what came last the program hears no word here
        told.append(len(said))
        lost.append(ck.stats()["given_up"])
    assert told == [0, 1, 1, 2, 2] and lost == [0, 5, 5, 10, 10], (told, lost, [str(one.message) for one in said])
    assert "File too large" in str(said[0].message)
    assert ck.stats()["committed_step"] == 19
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    for step in 20, 21:
        assert ck.begin(step)
        ck.flush()  # who asks is answered each time
    assert len(said) == 4
ck.close()
PY
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "another number of ranks, other names, and what a vanished rank held" {
    run "$python" - <<'PY'
import numpy as np, dlrover
whole = np.arange(21, dtype=np.float32).reshape(7, 3)
parts = [whole[:, :2].copy(), whole[:, 2:].copy()]
for rank, part in enumerate(parts):
    with dlrover.Checkpoint(rank=rank, world=2) as ck:
        ck.add("w", part, global_shape=(7, 3), offset=(0, 2 * rank))
        ck.add("note", bytearray(b"rank %d" % rank), "blob")
        assert ck.begin(1)
        ck.fence()
got = np.zeros_like(whole)
with dlrover.Checkpoint(rank=0, world=1) as ck:
    told = {r.name: r for r in ck.regions(1)}  # before anything is named
    assert told["w"] == ("w", "shard", "f32", 4, (7, 3), (0, 2), (7, 1), 28), told["w"]
    assert (told["note"].kind, told["note"].nbytes) == ("blob", 6), told["note"]
    assert ck.peek(1, "note") == b"rank 1"
    ck.add("w", got)
    ck.add("more", np.zeros(1))
    try:
        ck.restore()
        raise SystemExit("taken")
    except dlrover.Error as error:
        assert "holds 'note'" in str(error) and "lacks 'more'" in str(error), error
    assert ck.leftover() == ["note"] and ck.missing() == ["more"]
    ck.allow(leftover=True, missing=True)
    assert ck.restore() == 1
    assert (got == whole).all()
    assert ck.peek(1, "note") == b"rank 1"
    try:
        ck.peek(2, "note")
        raise SystemExit("taken")
    except dlrover.Error as error:
        assert "ranks 0 to 1" in str(error), error
PY
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "views are saved and put back, and nothing beside them" {
    run "$python" - <<'PY'
import numpy as np, torch, dlrover
for life in range(2):
    array, tensor = np.zeros((6, 8), "f4"), torch.zeros(6, 8)
    if life == 0:
        array += np.arange(48, dtype="f4").reshape(6, 8)
        tensor += torch.arange(48.0).reshape(6, 8)
    with dlrover.Checkpoint() as ck:
        ck.add("array", array.T[::-2, 1:4])
        ck.add("tensor", tensor[:, 2:5].t())
        if life:
            assert ck.restore() == 1
        else:
            assert ck.begin(1)
            ck.fence()
want = np.arange(48, dtype="f4").reshape(6, 8)
only = np.zeros((6, 8), bool)
only.T[::-2, 1:4] = True
assert (array == want * only).all(), array
assert (tensor[:, 2:5].numpy() == want[:, 2:5]).all() and tensor.sum() == want[:, 2:5].sum()
PY
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "stats() has the header's counters, in its order" {
    declared=$(sed -nE '/^struct dlr_ckpt_stats/,/^}/s/^ *uint64_t ([^;]*);.*/\1/p' ckpt/ckpt.h | tr -d ' ' | tr , '\n')
    run "$python" -c 'import dlrover; print(*dlrover.Checkpoint().stats(), sep="\n")'
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $declared == *skipped* && $output == "$declared" ]]
}

@test "what cannot be saved is refused by name" {
    run "$python" - <<'PY'
import numpy as np, torch, dlrover
ck = dlrover.Checkpoint()
for bad in (np.broadcast_to(np.zeros(4), (4, 4)), np.frombuffer(b"readonly"), b"readonly",
            torch.zeros(()).expand(4), torch.zeros(4).expand(4, 4), np.array([{}, []], dtype=object),
            np.ma.masked_equal([1, 2], 1), torch.zeros(2, dtype=torch.complex64).conj(), torch.eye(2).to_sparse(),
            torch.zeros(4, device="meta"), torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)):
    try:
        ck.add("it", bad)
        raise SystemExit("taken")
    except ValueError as error:
        assert str(error).startswith("'it': "), error
for how, said in (({"kind": "shards"}, "'it': kind is 'shards', not one of shard, replicated, local, blob"),
                  ({"global_shape": (4,)}, "'it': global_shape has 1 numbers, the array has 2 dimensions"),
                  ({"global_shape": (8, 4), "offset": (1,) * 9}, "'it': offset has 9 numbers, the array has 2 dimensions")):
    try:
        ck.add("it", np.zeros((4, 4)), **how)
        raise SystemExit("taken")
    except ValueError as error:
        assert str(error) == said, error
ck.add("it", np.zeros(4))
try:
    ck.add("it", np.zeros(4))
    raise SystemExit("taken")
except dlrover.Error as error:
    assert "was named before" in str(error), error
PY
    echo "$output"
    [ "$status" -eq 0 ]
}

state() {
    "$python" tests/python/python_state.py "$1"
}

@test "all random numbers, scheduler and loader go on where they were" { state random_numbers; }

@test "a rank more than there were: rank 0's own, and numbers of its own" { state joined; }

@test "a rank more than there were, under a job: the same from the slots that the agent brings" { state joined_in_job; }

@test "names that the version lacks or holds besides are refused, or left when allowed" { state unmatched; }

@test "the generators of all GPUs, played ones, go on where they were" { state cuda_random; }

@test "values are kept as they are, without pickles; a pickle is refused and not run" { state plain_values; state hostile; }

@test "PyTorch's schedulers go on where they were" { state schedulers; }

@test "extra as a function is kept and given back" { state extra_function; }

@test "optimizer state that appears late is saved, with Adam and with momentum" {
    state late_adam
    rm -rf "$DLROVER_CKPT_DIR"
    state late_momentum
}

@test "f32 state of bf16 weights comes back with every bit" { state wide_state; }

@test "Adam, f32 state of bf16 weights, scheduler, loader and random numbers in one call" { state together; }

@test "a program asks for a save point of its own, and waits until it is safe" { state save_points; }

@test "a save has until the update: what an optimizer's closure computes does not wait for the copy" { state until_update; }

@test "tied weights are stored once" { state tied; }

@test "a tensor that moved is named, and saved from its new place" { state moved; }

@test "parameters that join later are another layout, saved beside the old one" { state grown; }

@test "names without what wraps a model, and names that are cut" { state names; }

@test "no library, or a PyTorch that is too old, is one line that says what is needed" {
    DLROVER_LIB=/nowhere/libdlrover.so run "$python" -c 'import dlrover'
    echo "$output"
    [ "$status" -eq 1 ]
    [[ ${lines[-1]} == "ImportError: no libdlrover (DLROVER_LIB names one): /nowhere/libdlrover.so: "* ]]
    run "$python" - <<'PY' # with an older PyTorch, or what looks like one
import sys
sys.modules["torch.distributed.checkpoint.stateful"] = None
import dlrover.dcp
PY
    [ "$status" -eq 1 ]
    [[ ${lines[-1]} == "ImportError: dlrover.dcp needs PyTorch 2.3 or newer, this is "* ]]
}

@test "a forked worker leaves the checkpoint to its parent" { state fork; }

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

@test "a wheel installs without a network and finds the library beside the command" {
    local dir=$BATS_TEST_TMPDIR

    "$python" -c 'import setuptools, ensurepip, pip, venv, wheel' || skip "no python3-venv, -pip or -wheel"
    mkdir -p "$dir/src/python" "$dir/prefix/bin" "$dir/prefix/lib"
    cp pyproject.toml VERSION "$dir/src/"
    cp -r python/dlrover "$dir/src/python/"
    cp "$DLROVER_LIB" "$dir/prefix/lib/libdlrover.so.0"
    printf '#!/bin/sh\n' >"$dir/prefix/bin/dlrover"
    chmod 755 "$dir/prefix/bin/dlrover"
    "$python" -m pip wheel -q --no-index --no-build-isolation --no-deps -w "$dir" "$dir/src"
    "$python" -m venv --system-site-packages "$dir/venv"
    "$dir/venv/bin/pip" install -q --no-index --no-deps "$dir"/dlrover_slurm-*-py3-none-any.whl
    compgen -G "$dir/venv/lib/python3*/site-packages/dlrover/py.typed" # type checkers look at the hints
    cp tests/python/python_train.py "$dir/"
    cd "$dir"
    unset DLROVER_LIB PYTHONPATH
    PATH=$dir/prefix/bin:$PATH run "$dir/venv/bin/python" -c 'import dlrover; print(dlrover.__file__)'
    echo "$output"
    [[ $output == "$dir/venv/"* ]]
    PATH=$dir/prefix/bin:$PATH run "$dir/venv/bin/python" python_train.py 2 adam 0
    echo "$output"
    [ "${lines[1]}" = "saves 2" ]
}

@test "torchrun starts ranks without a job, and again after one was killed, to the same bits" {
    "$python" -c 'import torch.distributed.run' || skip "this PyTorch has no torchrun"
    export OMP_NUM_THREADS=1
    # PyTorch 1.13 does not understand its own default of --redirects under Python 3.11.
    local -a train=("$python" -m torch.distributed.run --nnodes 1 --nproc_per_node 2 --rdzv_backend c10d
        --rdzv_endpoint 127.0.0.1:0 --redirects 1 --tee 1 --log_dir "$BATS_TEST_TMPDIR/log" --max_restarts)
    DLROVER_CKPT_DIR=$BATS_TEST_TMPDIR/calm "${train[@]}" 0 examples/torch_train.py --params small \
        --steps 12 --batch 8 --save-weights "$BATS_TEST_TMPDIR/calm.weights"
    KILL_AT=5 run "${train[@]}" 1 tests/python/python_killed.py "$BATS_TEST_TMPDIR/killed" examples/torch_train.py \
        --params small --steps 12 --batch 8 --save-weights "$BATS_TEST_TMPDIR/weights"
    echo "$output"
    [ "$status" -eq 0 ]
    [ -e "$BATS_TEST_TMPDIR/killed" ]
    [[ $output == *"resumed from step "[345]* ]]
    cmp "$BATS_TEST_TMPDIR/weights" "$BATS_TEST_TMPDIR/calm.weights"
}

@test "the structures of the binding are as large as those of the header" {
    cat >"$BATS_TEST_TMPDIR/sizes.c" <<'END'
#include <stdio.h>
#include "ckpt/ckpt.h"
#include "feed/client/feed.h"
int main(void)
{
    printf("%zu %zu %zu %zu\n", sizeof(struct dlr_ckpt_conf), sizeof(struct dlr_ckpt_region),
           sizeof(struct dlr_ckpt_version), sizeof(struct dlr_ckpt_stats));
    printf("%zu %zu %zu %zu\n", sizeof(struct dlr_feed_source), sizeof(struct dlr_feed_conf),
           sizeof(struct dlr_feed_step), sizeof(struct dlr_feed_place));
    return 0;
}
END
    cc -I. -o "$BATS_TEST_TMPDIR/sizes" "$BATS_TEST_TMPDIR/sizes.c"
    [ "$("$BATS_TEST_TMPDIR/sizes")" = "$("$python" -c 'import ctypes
from dlrover import _lib, feed
print(*map(ctypes.sizeof, (_lib.Conf, _lib.Region, _lib.Version, _lib.Stats)))
print(*map(ctypes.sizeof, (feed.Source, feed.Conf, feed.StepOfC, feed.PlaceOfC)))')" ]
}
