#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# dlrover.frameworks with the frameworks themselves, without a job: each test is a script of its own, which ends with
# "N passed" or with "skipped: WHY". scripts/install-deps --frameworks makes their virtual environment.

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    local build=${BUILD:-build}
    venv=${DLROVER_FRAMEWORKS_VENV:-/opt/dlrover-frameworks}
    [[ -x $venv/bin/python ]] || skip "no frameworks in '$venv': scripts/install-deps --frameworks"
    export DLROVER_LIB=${DLROVER_LIB:-$PWD/build/libdlrover.so}
    [[ $build != /* ]] || DLROVER_LIB=$build/libdlrover.so
    [[ -e $DLROVER_LIB ]] || skip "no $DLROVER_LIB: make first"
    export PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 DS_ACCELERATOR=cpu
    export HF_HUB_OFFLINE=1 HF_HOME=$BATS_TEST_TMPDIR/hf
    # Many small files: not on a disk that others wait for.
    place=$(mktemp -d /dev/shm/dlrover-frameworks.XXXXXX)
    export TMPDIR=$place
    unset DLROVER_AGENT_SOCKET DLROVER_CKPT_DIR DLROVER_CKPT_EVERY RANK WORLD_SIZE LOCAL_RANK
    unset SLURM_PROCID SLURM_NTASKS SLURM_JOB_ID
}

teardown() { [[ -z ${place:-} ]] || rm -rf "$place"; }

passes() { # NAME
    run "$venv/bin/python" "tests/python/frameworks_$1.py"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ ${lines[-1]} != "skipped: "* ]] || skip "${lines[-1]#skipped: }"
    [[ ${lines[-1]} =~ ^[1-9][0-9]*\ passed ]]
}

@test "session: one for a model, restores, saves where the framework does, never ends a training" { passes core; }

@test "Trainer and TRL: killed and stopped trainings go on to the same bits, batches and states" { passes trainer; }

@test "Accelerate: prepared objects, accumulation and data loaders go on to the same bits" { passes accelerate; }

@test "Lightning and Fabric: loops, callbacks and precision go on to the same bits" { passes lightning; }

@test "DeepSpeed: ZeRO's partitions, masters and loss scale go on to the same bits" { passes deepspeed; }

@test "Megatron-core: sharded tensors and objects go on to the same bits, also with another split" { passes megatron; }
