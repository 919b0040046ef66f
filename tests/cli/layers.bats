#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The gate that reads mk/layers, over a tree of two folders: low/ and, above it, high/.

setup() {
    gate=$BATS_TEST_DIRNAME/../checks/check_layers.py
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"/{mk,low,high,objects}
    cd "$tree" || exit
    printf 'low:\nhigh: low | jansson\n' >mk/layers
    : >mk/layers.known
    echo 'int dlr_low(void);' >low/low.h
    printf '#include "low/low.h"\nint dlr_low(void) { return 1; }\n' >low/low.c
    echo 'int dlr_high(void);' >high/high.h
    printf '#include "high/high.h"\n#include "low/low.h"\nint dlr_high(void) { return dlr_low(); }\n' >high/high.c
}

# check STATUS [LINE...]: compiles what is there and runs the gate, which says these lines and the rings
check() {
    local source want=$1

    shift
    for source in {low,high}/*.c; do
        mkdir -p "objects/${source%/*}"
        ${CC:-gcc} -I. -c -o "objects/${source%.c}.o" "$source"
    done
    run "$gate" objects "$tree"
    echo "$output"
    [ "$status" -eq "$want" ]
    for line; do [[ $'\n'$output$'\n' == *$'\n'"$line"$'\n'* ]]; done
    [ "${#lines[@]}" -eq $(($# + 1)) ]
}

@test "a tree that keeps to its table passes" {
    check 0
    [ "$output" = "0 rings in 2 files" ]
}

@test "an include upwards fails, until it is known" {
    echo '#include "high/high.h"' >>low/low.h
    check 1 'low/low.h: includes "high/high.h": low may not see high'
    echo 'include low: high' >mk/layers.known
    check 0
}

@test "a call upwards without an include fails, and is a ring" {
    echo 'int dlr_high(void); int dlr_up(void) { return dlr_high(); }' >>low/low.c
    check 1 'low/low.c: calls dlr_high() of high/high.c: low may not see high' \
        'in a ring of 2 files that reach each other: high/high.c low/low.c'
    [ "${lines[-1]}" = "1 rings in 2 files" ]
    printf 'call low: high\nring low/low.c high/high.c\n' >mk/layers.known
    check 0
}

@test "two files of one folder that call each other fail" {
    echo 'int dlr_b(void); int dlr_a(void) { return dlr_b(); }' >low/a.c
    echo 'int dlr_a(void); int dlr_b(void) { return dlr_a(); }' >low/b.c
    check 1 'in a ring of 2 files that reach each other: low/a.c low/b.c'
}

@test "a foreign header outside its folder fails" {
    : >high/json.c
    echo '#include <jansson.h>' >high/json.h
    check 0
    mv high/json.h low/
    check 1 'low/json.h: includes <jansson.h>: mk/layers does not give jansson to low'
}

@test "a 31st file, a header of 181 lines and a source of 521 fail" {
    for ((i = 3; i <= 31; i++)); do : >"low/file$i.h"; done
    check 1 'low: 31 files, at most 30'
    rm low/file3.h
    yes '' | head -181 >low/file4.h
    yes '' | head -521 >high/long.c
    check 1 'high/long.c: 521 lines, at most 520' 'low/file4.h: 181 lines, at most 180'
}

@test "a folder without a line, a line without a folder and a line that sees downwards fail" {
    mkdir low/deep
    : >low/deep/x.h
    echo 'other: above' >>mk/layers
    check 1 'low/deep: has no line in mk/layers' 'mk/layers: there is no folder other' \
        'mk/layers:3: other sees above, which has no line above it'
}

@test "a source that was not compiled and a known breach that is none fail" {
    echo 'call low: high' >mk/layers.known
    check 1 'mk/layers.known: is true no longer: call low: high'
    rm mk/layers.known objects/high/high.o
    : >mk/layers.known
    run "$gate" objects "$tree"
    [ "$status" -eq 1 ]
    [ "${lines[0]}" = "high/high.c: was not compiled: there is no $tree/objects/high/high.o" ]
}
