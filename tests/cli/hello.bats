#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The worked example of the library, without a job.

setup() {
    hello=${BUILD:-$BATS_TEST_DIRNAME/../../build}/examples/ckpt_hello
    [[ -x $hello ]] || skip "no $hello: make first"
    export DLROVER_CKPT_DIR=$BATS_TEST_TMPDIR/ck
    export DLROVER_CKPT_EVERY=1
    unset DLROVER_AGENT_SOCKET RANK WORLD_SIZE SLURM_PROCID SLURM_NTASKS
}

sum() { sed -n 's/^step .*sum \([^,]*\),.*/\1/p' <<<"$1"; }

@test "the example goes on where it was stopped, with the same result" {
    calm=$(DLROVER_CKPT_DIR=$BATS_TEST_TMPDIR/calm "$hello" 40)
    first=$("$hello" 25)
    second=$("$hello" 40)
    echo "$calm"; echo "$first"; echo "$second"
    [ "${second%%$'\n'*}" = "from step 25" ]
    [ "$(sum "$second")" = "$(sum "$calm")" ]
    [ -n "$(sum "$calm")" ]
}

@test "without a word the example saves as often as the budget allows, and says so" {
    unset DLROVER_CKPT_EVERY
    said=$("$hello" 40 2>&1)
    echo "$said"
    [[ $said == *"a save every "*" steps from step "*"DLROVER_CKPT_BUDGET is 0.1%"* ]]
    snapshots=$(sed -n 's/^step 40, .* \([0-9]*\) snapshots.*/\1/p' <<<"$said")
    [ "$snapshots" -gt 0 ]
    [ "$snapshots" -lt 40 ] # its steps are short: not each is saved
}

@test "a directory that cannot be made is said in one line" {
    DLROVER_CKPT_DIR=/proc/none run "$hello" 5
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ ${lines[0]} = "ckpt_hello: cannot create the directory '/proc/none': "* ]]
}
