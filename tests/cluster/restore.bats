# SPDX-License-Identifier: Apache-2.0
# A job begins from what another job has written: with as many ranks, and with others. The program
# has an array of ten rows, split over its ranks, and logs a hash of each row after each step.
load lib/suite

setup_file() {
    cluster_up 5 2
    for program in rows grow pairs; do
        job_file $program.py <"$BATS_TEST_DIRNAME/lib/$program.py"
        job_file $program.sh <<SH
#!/bin/bash
#SBATCH -o out.%j
export PYTHONPATH=/opt/dlrover/lib/python3/dist-packages
srun /usr/bin/python3 $program.py "\$@"
SH
    done
    # What all tests begin from; two of its versions are left in its state directory, each in two files of two ranks.
    job=$(submit -N2 -n4 --dlrover=on --dlrover-name=rows --dlrover-persist=10 rows.sh 40 log)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    echo "$job" >"$BATS_FILE_TMPDIR/first"
}
teardown_file() { cluster_down; }
setup() { first=$(cat "$BATS_FILE_TMPDIR/first"); }
teardown() {
    if [ -e "$BATS_FILE_TMPDIR/patient" ]; then
        patience 10
        rm "$BATS_FILE_TMPDIR/patient"
    fi
    heal_cluster
}

# patience SECONDS: of slurmctld, with a node that is silent
patience() {
    ctl sed -i "s/^SlurmdTimeout=.*/SlurmdTimeout=$1/" /etc/slurm/slurm.conf
    ctl scontrol reconfigure
}

# begin NODES [sbatch options]: a job of that many ranks that begins from the first one's files
begin() {
    local nodes=$1
    shift
    submit -N"$nodes" --dlrover=on --dlrover-name=rows --dlrover-restore-from="$first" "$@" rows.sh "${last:-60}" "log.$nodes"
}

# restored JOB: the step it began from; "none" from nothing
restored() { events "$1" 'select(.event=="restored").version[1]' | head -n 1; }

# The newest step that the first job has a manifest of.
written() {
    find "$(alice_home)/.dlrover/job-$first/rows/persist" -printf '%f\n' | sed -n 's/^manifest-[0-9]*-\([0-9]*\).json/\1/p' |
        sort -n | tail -n 1
}

# nothing_written JOB: no state of it is on the disk. Such a job says --dlrover-persist=off: else a
# write is due a minute after a run's start.
nothing_written() {
    [ -z "$(find "$(alice_home)/.dlrover/job-$1" -name '*.safetensors' -o -name 'manifest*')" ]
}

# same_rows WORLD FILE STEP: each row of that step has the hash that four ranks logged
same_rows() {
    diff <(awk -v s="$3" '$1 == 4 && $2 == s {print $3, $4}' "$(alice_home)/log" | sort -u) \
        <(awk -v w="$1" -v s="$3" '$1 == w && $2 == s {print $3, $4}' "$(alice_home)/$2" | sort -u)
    [ "$(awk -v w="$1" -v s="$3" '$1 == w && $2 == s {print $3}' "$(alice_home)/$2" | sort -u | wc -l)" -eq 10 ]
}

# one_hash_a_step FILE: of each row and step, whoever computed it
one_hash_a_step() {
    [ -z "$(cat "$(alice_home)/log" "$(alice_home)/$1" | awk '{print $2, $3, $4}' | sort -u |
        awk '{print $1, $2}' | uniq -d)" ]
}

@test "four ranks' state is loaded by two, and they go on to the same bits" {
    step=$(written)
    last=2000
    job=$(begin 2 --dlrover-persist=10)
    # Its own saves are newer than what it began from, and whole for two.
    await "$job" "e['event']=='persisted' and e['version'] and e['version'][1] > $step" >/dev/null
    alice scancel "$job"
    [ "$(restored "$job")" -eq "$step" ]
    same_rows 2 log.2 "$step"
    one_hash_a_step log.2
    grep -x "peek rank 3 of 4" "$(alice_home)/out.$job"
}

@test "as many ranks take another job's files as their own" {
    step=$(written)
    job=$(begin 4)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(restored "$job")" -eq "$step" ]
    same_rows 4 log.4 "$step"
    one_hash_a_step log.4
}

@test "a node lost before the first save of the new ranks costs nothing of the old state" {
    step=$(written)
    job=$(submit -N3 --dlrover=on --dlrover-name=rows --dlrover-spares=1 --dlrover-restore-from="$first" rows.sh 400 log.2b)
    await "$job" "e['event']=='restored'" >/dev/null
    # A node with a rank, and not the one that the supervisor is on.
    batch=$(ctl squeue -h -j "$job" -o %B)
    node=$(events "$job" 'select(.event=="plan").places[].node' | tr -d '"' | grep -vx "$batch" | head -n 1)
    "$VC" kill "$node"
    await -n 2 "$job" "e['event']=='restored'" >/dev/null
    alice scancel "$job"
    [ "$(events "$job" 'select(.event=="restored").version[1]' | tail -n 1)" -ge "$step" ]
    same_rows 2 log.2b "$step"
    one_hash_a_step log.2b
    heal_cluster
}

@test "without a spare four ranks lose a node and three go on from the same bits" {
    job=$(submit -N4 --dlrover=on --dlrover-name=rows --dlrover-nodes=3 --dlrover-persist=off \
        --export=ALL,WHOLE=1 rows.sh 400 log.less)
    await "$job" "e['event']=='progress' and e['committed']" >/dev/null
    batch=$(ctl squeue -h -j "$job" -o %B)
    node=$(events "$job" 'select(.event=="plan").places[].node' | tr -d '"' | grep -vx "$batch" | tail -n 1)
    "$VC" kill "$node"
    await "$job" "e['event']=='restored' and e['round']==1" >/dev/null
    step=$(restored "$job")
    wait_until "grep -q '^3 $((step + 2)) ' '$(alice_home)/log.less'"
    [ "$(events "$job" 'select(.event=="resized") | [.nodes, .world, .of] | join(" ")')" = '"3 3 4"' ]
    # From memory: nothing is on the disk, and no node has more than two of the four copies that each
    # rank needs. What the lost rank had alone can be looked at.
    [ "$(events "$job" 'select(.event=="restored").fetched')" -ge 6 ]
    nothing_written "$job"
    grep -x "peek rank 3 of 4" "$(alice_home)/out.$job"
    alice scancel "$job"
    # Each row of the step restored has the hash that the four had logged; so has every later one.
    less=$(alice_home)/log.less
    diff <(awk -v s="$step" '$1 == 4 && $2 == s {print $3, $4}' "$less" | sort -u) \
        <(awk -v s="$step" '$1 == 3 && $2 == s {print $3, $4}' "$less" | sort -u)
    [ "$(awk -v s="$step" '$1 == 3 && $2 == s {print $3}' "$less" | sort -u | wc -l)" -eq 10 ]
    one_hash_a_step log.less
    heal_cluster
}

# committed_by JOB WORLD: so many ranks have committed a version of their own
committed_by() {
    local round
    await "$1" "e['event']=='launch' and e['world']==$2" >/dev/null
    round=$(events "$1" "select(.event==\"launch\" and .world==$2).round" | tail -n 1)
    await "$1" "e['event']=='progress' and e['committed'] and e['committed'][0]>=$round" >/dev/null
}

# right_rows FILE WORLD...: ranks of each of these numbers have logged, and whatever anybody has
# logged is what one undisturbed process computes.
right_rows() {
    python3 - "$(alice_home)/$1" "${@:2}" <<'PY'
import hashlib, sys
ROW, rows, done, worlds = 32768, [bytearray(bytes((i * 5 + at) % 256 for i in range(at * 32768, (at + 1) * 32768))) for at in range(10)], 0, set()
turn = bytes((7 * i + 3) % 256 for i in range(256))
said = {}
for line in open(sys.argv[1]):
    words = line.split()
    if not line.endswith("\n") or len(words) != 4 or len(words[3]) != 64:
        continue  # of a rank that was killed while it wrote
    world, step, at, digest = words
    worlds.add(world)
    said.setdefault(int(step), set()).add((int(at), digest))
assert set(sys.argv[2:]) <= worlds, f"only {worlds} have logged"
for step in sorted(said):
    while done < step:
        rows, done = [row.translate(turn) for row in rows], done + 1
    right = {(at, hashlib.sha256(row).hexdigest()) for at, row in enumerate(rows)}
    assert said[step] <= right, f"step {step}: rows {sorted(at for at, _ in said[step] - right)} are wrong"
PY
}

@test "four ranks lose two nodes at once and two go on from memory" {
    job=$(submit -N4 --dlrover=on --dlrover-name=rows --dlrover-nodes=2 --dlrover-persist=off \
        --dlrover-set=partition-grace=1s rows.sh 4000 log.two)
    committed_by "$job" 4
    # Neither the batch host nor each other's partners: the two that are left have everything.
    batch=$(ctl squeue -h -j "$job" -o %B)
    read -r one other < <(jq -r --arg b "$batch" 'select(.event=="plan" and .round==0).places | map(select(.node!=$b)) |
        [.[] as $x | .[] as $y | select($x.node<$y.node and $x.partner!=$y.node and $y.partner!=$x.node) |
            "\($x.node) \($y.node)"] | first' "$(journal "$job")")
    "$VC" kill "$one" "$other"
    wait_until "grep -q '^2 ' '$(alice_home)/log.two'"
    committed_by "$job" 2
    alice scancel "$job"
    nothing_written "$job"
    [ "$(restored "$job")" -gt 0 ]
    [ "$(events "$job" 'select(.event=="resized") | [.nodes, .world, .of] | join(" ")' | tail -n 1)" = '"2 2 4"' ]
    right_rows log.two 2 4
    heal_cluster
}

@test "a run that went on smaller is whole again after a requeue" {
    job=$(submit -N3 --dlrover=on --dlrover-name=rows --dlrover-nodes=2 --dlrover-set=partition-grace=1s rows.sh 4000 log.whole)
    committed_by "$job" 3
    batch=$(ctl squeue -h -j "$job" -o %B)
    mapfile -t others < <(events "$job" 'select(.event=="plan").places[].node' | tr -d '"' | grep -vx "$batch")
    "$VC" kill "${others[0]}"
    wait_until "grep -q '^2 ' '$(alice_home)/log.whole'"
    committed_by "$job" 2
    # One less is below what the job allows: what the two have saved is written, and loaded by three.
    last=$(events "$job" 'select(.event=="launch").round' | tail -n 1)
    "$VC" kill "${others[1]}"
    await "$job" "e['event']=='requeue'" >/dev/null
    await "$job" "e['event']=='restored' and e['round']>$last" >/dev/null
    committed_by "$job" 3
    alice scancel "$job"
    [ "$(events "$job" "select(.event==\"restored\" and .round>$last).version[0]" | head -n 1)" -eq "$last" ]
    [ "$(events "$job" "select(.event==\"launch\" and .round>$last).world" | head -n 1)" -eq 3 ]
    right_rows log.whole 2 3
    heal_cluster
}

@test "a node that is back has its ranks again from the next round on, from memory" {
    # It is gone for us, not for Slurm.
    touch "$BATS_FILE_TMPDIR/patient"
    patience 300
    job=$(submit -N4 --dlrover=on --dlrover-name=rows --dlrover-nodes=3 --dlrover-persist=off \
        --dlrover-set=partition-grace=1s rows.sh 4000 log.back)
    committed_by "$job" 4
    batch=$(ctl squeue -h -j "$job" -o %B)
    node=$(events "$job" 'select(.event=="plan").places[].node' | tr -d '"' | grep -vx "$batch" | tail -n 1)
    "$VC" cut "$node"
    wait_until "grep -q '^3 ' '$(alice_home)/log.back'"
    committed_by "$job" 3
    last=$(events "$job" 'select(.event=="launch").round' | tail -n 1)
    "$VC" heal "$node"
    await -n 2 "$job" "e['event']=='node_up' and e['node']=='$node'" >/dev/null
    # A round is not ended for it: the next one has it.
    touch "$(alice_home)/fail.$job"
    await "$job" "e['event']=='restored' and e['round']>$last" >/dev/null
    committed_by "$job" 4
    nothing_written "$job"
    alice scancel "$job"
    [ "$(events "$job" "select(.event==\"restored\" and .round>$last).version[0]" | head -n 1)" -eq "$last" ]
    [ "$(events "$job" 'select(.event=="resized") | [.nodes, .world, .of] | join(" ")' | tail -n 1)" = '"4 4 4"' ]
    right_rows log.back 3 4
}

@test "parity: a lost rank is made of its set, three go on from the same bits, and four again" {
    # As above: it is gone for us, not for Slurm.
    touch "$BATS_FILE_TMPDIR/patient"
    patience 300
    job=$(submit -N4 --dlrover=on --dlrover-name=rows --dlrover-nodes=3 --dlrover-redundancy=xor:2 \
        --dlrover-persist=off --dlrover-set=partition-grace=1s rows.sh 4000 log.parity)
    committed_by "$job" 4
    batch=$(ctl squeue -h -j "$job" -o %B)
    node=$(events "$job" 'select(.event=="plan").places[].node' | tr -d '"' | grep -vx "$batch" | tail -n 1)
    "$VC" cut "$node"
    await "$job" "e['event']=='restored' and e['round']==1" >/dev/null
    [ "$(events "$job" 'select(.event=="restored").version[0]')" -eq 0 ]
    # The copy that was made, and those that others had brought; what the lost rank had alone can be looked at.
    [ "$(events "$job" 'select(.event=="prepared" and .round==1).copies')" -eq 1 ]
    [ "$(events "$job" 'select(.event=="restored").fetched')" -ge 1 ]
    committed_by "$job" 3
    wait_until "grep -qx 'peek rank 3 of 4' '$(alice_home)/out.$job'"
    [ "$(events "$job" 'select(.event=="unprotected" or .event=="protected").event' | tr -d '"' | paste -sd' ')" = "unprotected protected" ]
    # Its set of three places protects what they save; with the node back there are four.
    last=$(events "$job" 'select(.event=="launch").round' | tail -n 1)
    "$VC" heal "$node"
    await -n 2 "$job" "e['event']=='node_up' and e['node']=='$node'" >/dev/null
    touch "$(alice_home)/fail.$job"
    await "$job" "e['event']=='restored' and e['round']>$last" >/dev/null
    committed_by "$job" 4
    nothing_written "$job"
    alice scancel "$job"
    [ "$(events "$job" "select(.event==\"restored\" and .round>$last).version[0]" | head -n 1)" -eq "$last" ]
    right_rows log.parity 3 4
    heal_cluster
}

@test "a version marked bad is not restored, and steps computed again count anew" {
    job=$(submit -N2 --dlrover=on --dlrover-name=rows --dlrover-persist=5 --dlrover-set=persist-count=20 \
        --export=ALL,BAD=1 rows.sh 90 log.bad)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    bad=$(events "$job" 'select(.event=="marked_bad" and .version[0]==0).version[1]')
    [ "$(restored "$job")" -lt "$bad" ]
    [ "$(restored "$job")" -gt 0 ]
    one_hash_a_step log.bad
}

@test "what was marked bad stays so after a requeue" {
    job=$(submit -N2 --dlrover=on --dlrover-name=rows "$SHORT_SILENCE" --dlrover-persist=5 --dlrover-set=persist-count=40 \
        --export=ALL,MARKED=1 rows.sh 2000 log.marked)
    # Bad ones are on the disk, too.
    await "$job" "e['event']=='marked_bad'" >/dev/null
    await "$job" "e['event']=='persisted' and e['version'] and e['version'][1] >= 40" >/dev/null
    batch=$(ctl squeue -h -j "$job" -o %B)
    node=$(events "$job" 'select(.event=="plan").places[].node' | tr -d '"' | grep -vx "$batch" | head -n 1)
    "$VC" kill "$node"
    await "$job" "e['event']=='requeue'" >/dev/null
    await "$job" "e['event']=='restored'" >/dev/null
    alice scancel "$job"
    [ "$(restored "$job")" -lt 30 ]
    [ "$(restored "$job")" -gt 0 ]
    one_hash_a_step log.marked
    heal_cluster
}

@test "an older version in memory is there when all newer ones are marked bad" {
    job=$(submit -N2 --dlrover=on --dlrover-name=rows --dlrover-persist=off --export=ALL,VETTED=1 \
        rows.sh 90 log.vetted)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(restored "$job")" -lt "$(events "$job" 'select(.event=="marked_bad").version[1]')" ]
    [ "$(restored "$job")" -gt 0 ]
    nothing_written "$job"
    one_hash_a_step log.vetted
}

@test "what an audit finds after the commit is told and not restored" {
    job=$(submit -N2 --dlrover=on --dlrover-name=rows --export=ALL,DLROVER_CKPT_AUDIT=1 rows.sh 60 log.torn)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    events "$job" 'select(.event=="torn")'
    [ "$(events "$job" 'select(.event=="torn") | [.committed, .rank, .count] | join(" ")')" = '"true 0 1"' ]
    torn=$(events "$job" 'select(.event=="torn").version[1]')
    [ "$(restored "$job")" -lt "$torn" ]
    [ "$(restored "$job")" -gt 0 ]
    grep "dlrover: rank 0: region 'rows' (1 in all) changed between begin and fence of step $torn" "$(alice_home)/out.$job"
    right_rows log.torn 2
}

@test "the same failure again leads further back, and then to the end" {
    job=$(submit -N2 --dlrover=on --dlrover-name=rows --dlrover-max-restarts=9 --export=ALL,FAIL=1 rows.sh 400 log.fail)
    run await_job "$job"
    echo "$output"
    [ "$output" = "FAILED 4:0" ]
    # Twice from one version, then from none that is as new; nothing is left in the end.
    events "$job" 'select(.event=="restored").version[1]'
    [ "$(events "$job" 'select(.event=="restored").version[1]' | head -n 2 | sort -u | wc -l)" -eq 1 ]
    [ "$(events "$job" 'select(.event=="gone_back").version[1]' | head -n 1)" -eq "$(restored "$job")" ]
    grep "exited with code 4 whatever it is restored from" "$(alice_home)/out.$job"
}

@test "the script tries it again: the second try goes on from what the first one had, to the same bits" {
    job_file tries.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
export PYTHONPATH=/opt/dlrover/lib/python3/dist-packages
until srun /usr/bin/python3 rows.py 4000 log.tries; do echo "the first returned $?"; done
SH
    job=$(submit -N2 --dlrover=on --dlrover-max-restarts=0 tries.sh)
    committed_by "$job" 2
    touch "$(alice_home)/fail.$job"
    await "$job" "e['event']=='restored'" >/dev/null
    # Its journal goes on, and what the first one had in memory last was written.
    [ "$(restored "$job")" -ge "$(events "$job" 'select(.event=="round_end").committed[1]' | head -n 1)" ]
    await "$job" "e['event']=='progress' and e['committed'] and e['committed'][0]==1" >/dev/null
    alice scancel "$job"
    grep -x "the first returned 5" "$(alice_home)/out.$job"
    grep "^dlrover: try 2 of this srun, after one that ended with code 5: going on from step $(restored "$job") " \
        "$(alice_home)/out.$job"
    right_rows log.tries 2
}

@test "a program that names something else is told so, and does not begin anew" {
    job=$(begin 2 --export=ALL,RENAMED=1)
    run await_job "$job"
    echo "$output"
    [ "$output" = "FAILED 1:0" ]
    grep "the version holds 'note', not named here, and lacks 'remark', named here" "$(alice_home)/out.$job"
    [ "$(events "$job" 'select(.event=="launch").round' | wc -l)" -eq 1 ]
}

@test "a layout that grows after step 1: the old version until the new one is committed, on two nodes" {
    touch "$(alice_home)/grow.on"
    job=$(submit -N3 --dlrover=on --dlrover-spares=1 --dlrover-name=grow grow.sh)
    # The first round ends with the change, the second before it has saved anything.
    await -n 2 "$job" "e['event']=='restored'" >/dev/null
    await "$job" "e['event']=='progress' and e['round']==2 and (e['committed'] or [0])[0]==2" >/dev/null
    batch=$(ctl squeue -h -j "$job" -o %B)
    node=$(events "$job" 'select(.event=="plan").places[].node' | tr -d '"' | grep -vx "$batch" | head -n 1)
    "$VC" kill "$node"
    await -n 3 "$job" "e['event']=='restored'" >/dev/null
    await "$job" "e['event']=='progress' and e['round']==3 and (e['committed'] or [0])[0]==3" >/dev/null
    rm "$(alice_home)/grow.on"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    cat "$(alice_home)/out.$job"
    mapfile -t step < <(events "$job" 'select(.event=="restored").version[1]')
    [ "${step[0]}" -ge 3 ]
    [ "${step[1]}" -eq "${step[0]}" ]
    [ "${step[2]}" -gt "${step[1]}" ]
    grep -q WRONG "$(alice_home)/out.$job" && return 1
    for round in 1 2; do
        [ "$(grep -c "^round $round step ${step[0]} moments ok absent$" "$(alice_home)/out.$job")" -eq 2 ]
    done
    [ "$(grep -c "^round 3 step ${step[2]} [a-z]* ok$" "$(alice_home)/out.$job")" -eq 4 ]
    heal_cluster
}

@test "what two ranks of a node keep between them is whole again, there and wherever they run" {
    has=$((524288 + 9)) # half of 1 MiB, and its own
    job=$(submit -N2 --ntasks-per-node=2 --dlrover=on --dlrover-name=pairs --dlrover-persist=10 pairs.sh 60 fail)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(grep -c "^[0-3] of 4 has $has ok$" "$(alice_home)/out.$job")" -eq 4 ]
    # As many ranks, one a node: the other parts are brought.
    next=$(submit -N4 --dlrover=on --dlrover-name=pairs --dlrover-restore-from="$job" pairs.sh 62)
    [ "$(await_job "$next")" = "COMPLETED 0:0" ]
    [ "$(grep -c "^[0-3] of 4 has $has ok$" "$(alice_home)/out.$next")" -eq 4 ]
    next=$(submit -N3 --dlrover=on --dlrover-name=pairs --dlrover-restore-from="$job" pairs.sh 62)
    [ "$(await_job "$next")" = "COMPLETED 0:0" ]
    [ "$(grep -c "^[0-2] of 3 has 0 ok$" "$(alice_home)/out.$next")" -eq 3 ]
}

@test "a job that is not there to restore from is an error in one line, not a fresh start" {
    first=99999
    job=$(begin 2)
    run await_job "$job"
    echo "$output"
    [ "$output" = "FAILED 2:0" ]
    grep "cannot restore from '99999': cannot open .*/job-99999/rows/persist" "$(alice_home)/out.$job"
    [ "$(grep -c "cannot restore" "$(alice_home)/out.$job")" -eq 1 ]
}

@test "a plain srun whose rank was killed goes on from its files, on two nodes, to the same bits" {
    job_file bare.py <"$BATS_TEST_DIRNAME/lib/bare.py"
    job_file bare.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
export PYTHONPATH=/opt/dlrover/lib/python3/dist-packages
ranks() { DLROVER_CKPT_DIR=$HOME/$1 srun --kill-on-bad-exit=1 /usr/bin/python3 bare.py 60 "$1"; }
ranks calm || exit
KILL=1 ranks killed && exit 1
ranks killed
SH
    job=$(submit -N2 --ntasks-per-node=2 bare.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    cat "$(alice_home)/out.$job"
    mapfile -t ends < <(cd "$(alice_home)" && cut -d' ' -f1 killed.[0-3] | sort -u)
    [[ ${#ends[@]} -eq 1 && ${ends[0]} -ge 9 && ${ends[0]} -le 20 ]] # all from the same step
    [ "$(cd "$(alice_home)" && cut -d' ' -f2 killed.[0-3] | sort -u | wc -l)" -eq 2 ]
    diff <(cd "$(alice_home)" && cut -d' ' -f3 killed.[0-3]) <(cd "$(alice_home)" && cut -d' ' -f3 calm.[0-3])
    [ "$(grep -c "reading the files of all ranks" "$(alice_home)/out.$job")" -eq 0 ] # rank 0 had decided
}
