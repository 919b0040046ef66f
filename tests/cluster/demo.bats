#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The demo as its users run it, short; and Ctrl-C in each of its phases, after which nothing
# of it may be left.
bats_require_minimum_version 1.5.0
load lib/suite

setup() {
    dir=$BATS_TEST_TMPDIR/vc
    need_stage
    log=$BATS_TEST_TMPDIR/log
    export DLROVER_BUILD=$BATS_TEST_TMPDIR/build
}
teardown() { "$VC" down --dir "$dir" >/dev/null; }

demo() { "$REPO/scripts/demo" --dir "$dir" "$@"; }

# no cluster, and no process that was started for it or by it
nothing_left() {
    run ! "$VC" status --dir "$dir"
    [ ! -e "$dir" ]
    run ! pgrep -af -- "$BATS_TEST_TMPDIR/(vc|build)"
}

# interrupt_at PATTERN [demo options]: Ctrl-C as soon as a line of the output matches
interrupt_at() {
    local pattern=$1 pid rc=0 until=$((SECONDS + WAIT))

    shift
    env --default-signal=INT "$REPO/scripts/demo" --dir "$dir" "$@" >"$log" 2>&1 3>&- &
    pid=$!
    until grep -qE "$pattern" "$log"; do
        if ((SECONDS > until)) || ! kill -0 "$pid"; then
            cat "$log"
            return 1
        fi
        read -rt 0.05 <> <(:) || :
    done
    kill -INT "$pid"
    wait "$pid" || rc=$?
    cat "$log"
    [ "$rc" -eq 130 ]
    [ "$(tail -n 1 "$log")" = "demo: interrupted, nothing is left running" ]
    nothing_left
}

@test "a node dies, a spare takes over, the weights are those of the undisturbed run" {
    demo --quick --stage "$STAGE" >"$log" 2>&1 || { cat "$log"; false; }
    cat "$log"
    run ! grep -q $'[\e\r]' "$log" # it is no terminal
    grep -q "POWER CUT on n2" "$log"
    grep -q "EQUAL BIT FOR BIT" "$log"
    grep -Eq "committed steps lost, [0-9]+ computed again" "$log"
    jq -e '.killed_node == "n2" and .weights_equal and .lost_steps == 0 and .steps == 80 and
        (.steps_computed_again | type) == "number" and .seconds_computed_again >= 0 and has("cadence") and
        (.ranks_before | keys) == ["n1", "n2", "n4", "n5"] and .ranks_before.n2 == [1] and
        (.ranks_after | keys) == ["n1", "n3", "n4", "n5"] and .ranks_after.n3 == [1] and
        ([.detect_s, .fence_s, .rendezvous_s, .prepare_s, .launch_s, .restore_s, .first_step_s] |
            all(. >= 0) and ((add - $r) | fabs) < 0.01) and (.save_in_flight | type) == "boolean"' \
        --argjson r "$(jq .resume_s "$DLROVER_BUILD/demo.json")" "$DLROVER_BUILD/demo.json"
    [ -s "$DLROVER_BUILD/demo/train.out" ]
    nothing_left
}

@test "the node to kill turns out to be the spare: one line says so" {
    run -1 demo --quick --stage "$STAGE" --node n3
    [[ $output == *"demo: n3 holds no rank, it is the spare: choose another --node"* ]]
    nothing_left
}

@test "a mistake gets one line" {
    run -2 demo --step 5
    [ "$output" = "demo: unknown argument '--step' (see scripts/demo --help)" ]
    run -2 demo --steps=3
    [ "$output" = "demo: --steps is a number from 40 on, not '3' (see scripts/demo --help)" ]
    run -2 demo --node n1
    [ "$output" = "demo: n1 is the batch host: its death is a requeue, not a restart (see scripts/demo --help)" ]
    run -1 demo --stage "$BATS_TEST_TMPDIR"
    [[ ${lines[-1]} == "demo: nothing is installed in $BATS_TEST_TMPDIR/opt/dlrover"* ]]
    open=$(mktemp -d /tmp/dlr-open.XXXXXX) && chmod 755 "$open" # the clone may be closed to others
    install -m 755 "$REPO/scripts/demo" "$open/demo"
    run -1 setpriv --reuid=65534 --clear-groups "$open/demo"
    rm -r "$open"
    [ "$output" = "demo: not root: the virtual cluster needs it (try: sudo scripts/demo)" ]
    mkdir -p "$dir" && touch "$dir/mine"
    run -1 demo --stage "$STAGE"
    [[ ${lines[-1]} == "demo: $dir holds something else (give --dir a new directory)" ]]
    rm "$dir/mine"
}

@test "Ctrl-C at its very beginning" {
    for seconds in 0.1 0.3; do
        run -130 timeout --preserve-status -s INT "$seconds" "$REPO/scripts/demo" --dir "$dir"
        nothing_left
    done
}

@test "Ctrl-C while it compiles" {
    interrupt_at "packages" # what follows this line is make
}

@test "Ctrl-C while the cluster starts" {
    interrupt_at "^ .* build " --stage "$STAGE"
}

@test "Ctrl-C while it trains" {
    interrupt_at "training .* [0-9]+/" --quick --stage "$STAGE"
}

@test "Ctrl-C after the power cut" {
    interrupt_at "noticed by" --quick --stage "$STAGE"
}
