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

# Those named are a check's; DLROVER_NIGHTLY=1 (make nightly) runs all of a script: half an hour for the six.
passes() { # NAME [TESTS]
    local name=$1
    shift
    [[ -z ${DLROVER_NIGHTLY:-} ]] || set --
    run "$venv/bin/python" "tests/python/frameworks_$name.py" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ ${lines[-1]} != "skipped: "* ]] || skip "${lines[-1]#skipped: }"
    [[ ${lines[-1]} =~ ^[1-9][0-9]*\ passed ]]
}

@test "session: one for a model, restores, saves where the framework does, never ends a training" {
    passes core spans fsdp2_killed evaluated_between both_killed forked_refused sources cut_otherwise_in_job stages \
        source_failures session_saves session_second session_failures replicated_or_not versions_refused
}

@test "Trainer and TRL: killed and stopped trainings go on to the same bits, batches and states" {
    passes trainer all given calls scaler bad_input sft
}

@test "Accelerate: prepared objects, accumulation and data loaders go on to the same bits" {
    passes accelerate epoch scaler networks ranks another_world two_adapters not_to_be_kept
}

@test "Lightning and Fabric: loops, callbacks and precision go on to the same bits" {
    passes lightning test_two_ranks_of_ddp_are_killed \
        test_another_number_of_ranks_sees_the_rest_of_the_epoch test_it_is_given_as_a_plugin \
        test_slurms_requeue_is_left_to_the_supervisor test_what_cannot_be_saved_is_said_before_the_first_step \
        test_fabric_binds
}

@test "DeepSpeed: ZeRO's partitions, masters and loss scale go on to the same bits" {
    passes deepspeed bad_input bf16_goes fp16_goes another_number_of_ranks
}

@test "Megatron-core: sharded tensors and objects go on to the same bits, also with another split" {
    passes megatron killed_training_ends_with_the_same_bits strategies_save_and_load_what_torch_dist_does \
        what_would_be_lost_is_refused_by_name wholes_as_dist_checkpointing_describes_them
}
