#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What stands before MPI's functions, under real MPI libraries: Open MPI, and MPICH where it is installed.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    build=$(readlink -f "${BUILD:-build}")
    export LIBRARY=$build/libdlrover-mpi.so BIN=$BATS_FILE_TMPDIR
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    [[ -e $LIBRARY ]] || return 0
    words=(-w -O1 -D_GNU_SOURCE -I.)
    shared=(interpose/calls/calls.c watch/read.c common/base/str.c common/base/clock.c)
    ${CC:-gcc} "${words[@]}" -pthread -o "$BIN/watched" tests/mpi/watched.c "${shared[@]}" -lm
    mpicc "${words[@]}" -shared -fPIC -o "$BIN/libtool.so" tests/mpi/tool.c
    for name in calls situations with_tool; do
        compile mpicc "$BIN/$name" "tests/mpi/$name.c"
    done
    ! command -v mpicc.mpich >/dev/null || for name in calls situations; do
        compile mpicc.mpich "$BIN/$name.mpich" "tests/mpi/$name.c"
    done
}

compile() { # COMPILER PROGRAM SOURCE
    "$1" "${words[@]}" -o "$2" "$3" tests/mpi/page.c "${shared[@]}" -pthread -ldl -lm \
        -L"$BIN" "-Wl,-rpath,$BIN" -Wl,--as-needed -ltool
}

setup() {
    [[ -e $LIBRARY ]] || skip "no $LIBRARY: make first"
    cd "$BATS_TEST_TMPDIR" || exit
}

two() { # PROGRAM [ARGUMENT...]: two watched ranks of Open MPI
    run -0 timeout 120 mpirun --oversubscribe -np 2 "$BIN/watched" "$LIBRARY" "$@"
    echo "$output"
}

two_mpich() {
    command -v mpicc.mpich >/dev/null || skip "MPICH is not installed"
    run -0 timeout 120 mpiexec.mpich -np 2 "$BIN/watched" "$LIBRARY" "$@"
    echo "$output"
}

@test "each call of the table is counted once, Open MPI" {
    two "$BIN/calls" file
    [[ $output != *counted* && $output != *"not called"* ]]
}

@test "each call of the table is counted once, MPICH" {
    two_mpich "$BIN/calls.mpich" file
    [[ $output != *counted* && $output != *"not called"* ]]
}

@test "calls of Fortran are counted once, by mpif.h and by mpi_f08" {
    command -v mpif90 >/dev/null && command -v gfortran >/dev/null || skip "no Fortran compiler for MPI"
    cd "$BATS_TEST_DIRNAME/../.." || exit
    for form in -UF08 -DF08; do
        for file in tests/mpi/page.c interpose/calls/calls.c watch/read.c common/base/str.c common/base/clock.c; do
            mpicc -w -D_GNU_SOURCE -I. -c -o "$BATS_TEST_TMPDIR/$(basename "$file" .c).o" "$file"
        done
        mpif90 -w -ffree-line-length-none -fallow-argument-mismatch "$form" -J "$BATS_TEST_TMPDIR" \
            -o "$BATS_TEST_TMPDIR/fortran$form" tests/mpi/fortran.F90 "$BATS_TEST_TMPDIR"/*.o -lm
        (cd "$BATS_TEST_TMPDIR" && two "./fortran$form")
    done
}

@test "ids, threads, errors, waits and forks, as programs have them, Open MPI" {
    two "$BIN/situations" all
    [[ $output != *"not so"* ]]
}

@test "ids, threads, errors, waits and forks, as programs have them, MPICH" {
    two_mpich "$BIN/situations.mpich" all
    [[ $output != *"not so"* ]]
}

@test "processes that a program spawns are no ranks of the job" {
    two "$BIN/situations" "$BIN/watched" "$LIBRARY" "$BIN/situations"
    [[ $output != *"not so"* ]]
}

@test "a profiling tool of the user is not left out, and what it calls is not counted" {
    two "$BIN/with_tool"
    [ "$(grep -c '^tool 3, watch 3,' <<<"$output")" -eq 2 ]
}

@test "without a page the library does nothing" {
    run -0 --separate-stderr timeout 120 mpirun --oversubscribe -np 2 env "LD_PRELOAD=$LIBRARY" "$BIN/with_tool"
    [ "$(grep -c '^tool 3, watch 0,' <<<"$output")" -eq 2 ]
    [[ $stderr != *ld.so* && $stderr != *dlrover* ]]
}

@test "a training reads the samples of an undisturbed one when it goes on with more ranks" {
    local train=${LIBRARY%/*}/examples/mpi_train
    local -a options=(--params small --batch 8 --global-batch 40 --seed 5)

    unset DLROVER_AGENT_SOCKET DLROVER_ROUND RANK WORLD_SIZE SLURM_PROCID SLURM_NTASKS
    export DLROVER_CKPT_DIR=$PWD/ck DLROVER_CKPT_EVERY=1
    run -0 timeout 120 mpirun --oversubscribe -np 1 "$train" "${options[@]}" --no-ckpt --steps 12 --sample-log calm
    run -0 timeout 120 mpirun --oversubscribe -np 2 "$train" "${options[@]}" --steps 5 --sample-log samples
    run -0 timeout 120 mpirun --oversubscribe -np 3 "$train" "${options[@]}" --steps 12 --sample-log samples
    echo "$output"
    [[ $output == *"resumed from step 5"* ]]
    [ "$(wc -l <samples)" -eq 60 ] # five micro-batches in each step
    cmp <(sort samples) <(sort calm)
    run timeout 120 mpirun --oversubscribe -np 3 "$train" "${options[@]}" --steps 13 --seed 6
    [ "$status" -ne 0 ]
    [[ $output == *"feed 'text': seed 5 in the version, 6 here"* ]]
}
