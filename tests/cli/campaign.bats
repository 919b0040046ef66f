#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What plays faults on clusters and tries releases of Slurm, as they are called: none of it is a part of the check.

bats_require_minimum_version 1.5.0

setup() { cd "$BATS_TEST_DIRNAME/../.." || exit; }

@test "a campaign names its faults, and no other" {
    tests/cluster/campaign --list | sort >"$BATS_TEST_TMPDIR/faults"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/faults")" -ge 30 ]
    [ -z "$(uniq -d "$BATS_TEST_TMPDIR/faults")" ]
    run -2 tests/cluster/campaign --fault lightning
    [[ $output == *"invalid choice: 'lightning'"* ]]
}

@test "what a campaign plays follows from seed and number alone" {
    tests/cluster/campaign --seed 7 --faults 20 --plan >"$BATS_TEST_TMPDIR/whole"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/whole")" -eq 20 ]
    [ "$(tests/cluster/campaign --seed 7 --only 13 --plan)" = "$(sed -n 14p "$BATS_TEST_TMPDIR/whole")" ]
    ! tests/cluster/campaign --seed 8 --faults 20 --plan | cmp -s - "$BATS_TEST_TMPDIR/whole"
}

@test "a stepped kill is asked for in words that it knows" {
    run -2 tests/cluster/lib/stepped --scenario lightning
    [[ $output == *"invalid choice: 'lightning'"* ]]
    run -2 tests/cluster/lib/stepped --points 5to9
    [[ $output == *"argument --points: '5to9' is not A or A-B"* ]]
    run -1 tests/cluster/lib/stepped --stride 0
    [ "$output" = "stepped: a stride of 0 leads nowhere" ]
}

@test "a source of Slurm that is none is refused in a line" {
    run -2 scripts/check-slurm
    [ "$output" = "check-slurm: where is the source of Slurm?; see --help" ]
    run -1 scripts/check-slurm "$BATS_TEST_TMPDIR"
    [ "$output" = "check-slurm: '$BATS_TEST_TMPDIR' is no source of Slurm: no META, or no configure" ]
    mkdir "$BATS_TEST_TMPDIR/src"
    touch "$BATS_TEST_TMPDIR"/src/{META,configure,config.status}
    chmod +x "$BATS_TEST_TMPDIR/src/configure"
    run -1 scripts/check-slurm "$BATS_TEST_TMPDIR/src"
    [ "$output" = "check-slurm: '$BATS_TEST_TMPDIR/src' is configured in place: unpack it anew, or make distclean" ]
}
