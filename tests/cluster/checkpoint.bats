# SPDX-License-Identifier: Apache-2.0
# A training job with state under every failure of this release. Every rank writes a hash of
# its state after each step; whatever happens, a step has one hash, and the final weights are
# those of an undisturbed run, bit for bit. Under production runs what is charged to a job's cgroup or
# ends in a requeue; how copies are chosen and struck off is the same with any configuration.
load lib/suite
load lib/train

STEPS=60

setup_file() {
    cluster_up 5 2
    train_file
    # The undisturbed runs: the same program and size of world without us.
    references 4 3
}
teardown_file() { cluster_down; }
setup() { name=t$BATS_TEST_NUMBER; }
teardown() { heal_cluster; }

# start SPARES [sbatch options]: a supervised run, named after its test
start() {
    local spares=$1
    shift
    submit --dlrover=on --dlrover-spares="$spares" "$@" train.sh $STEPS "$name"
}

# kill_both PLACE: the place's node and its partner at once, before anything is copied again
kill_both() {
    local nodes
    mapfile -t nodes < <(jq -r '.node, .partner' <<<"$1")
    "$VC" kill "${nodes[@]}"
}

# bats test_tags=production
@test "a worker killed by SIGKILL: every rank resumes from its node's memory" {
    job=$(start 1 -N5)
    saved "$job"
    on n2 pkill -KILL -x mpi_train
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(resumed "$job")" -gt 0 ]
    no_committed_step_lost "$job"
    [ "$(events "$job" 'select(.event=="prepared").copies' | tail -n 1)" -eq 0 ]
    same_bits ref.4
    nothing_left n1 n2 n3 n4 n5
}

@test "the agents' step is lost: it is started again, every rank resumes from its node's memory" {
    job=$(start 1 -N5)
    saved "$job"
    step=$(ctl squeue -h -s -j "$job" -o '%i %j' | awk '$2 == "dlrover-agents" { print $1 }')
    ctl scancel "$step"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(resumed "$job")" -gt 0 ]
    no_committed_step_lost "$job"
    same_bits ref.4
    [ "$(events "$job" 'select(.event=="restored").fetched')" = 0 ]
    [ "$(events "$job" 'select(.event=="round_end")|[.cause,.restarts]')" = '["control",0]' ]
    [ -z "$(events "$job" 'select(.event=="node_dead")')" ]
    nothing_left n1 n2 n3 n4 n5
}

# bats test_tags=production
@test "a node killed: the spare gets the lost rank's state from its partner" {
    job=$(start 1 -N5)
    saved "$job"
    "$VC" kill n2
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(resumed "$job")" -gt 0 ]
    no_committed_step_lost "$job"
    same_bits ref.4
    output "$job" | grep -x "resumed from step $(resumed "$job")"
}

# bats test_tags=production
@test "a second node killed later: the copies of the first loss had been made again" {
    job=$(start 2 -N5)
    saved "$job"
    "$VC" kill n2
    await "$job" protected
    await "$job" "e['event']=='first_step' and e['round']==1"
    second=$(events "$job" 'select(.event=="plan" and .round==1).places[0].partner' | tr -d '"')
    "$VC" kill "$second"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="restored")' | wc -l)" -eq 2 ]
    no_committed_step_lost "$job"
    same_bits ref.3
}

@test "a node killed in the middle of a save: that version is nowhere, the one before is whole" {
    job=$(start 1 -N5)
    saved "$job"
    slow_link n2 # a copy takes seconds
    await "$job" "e['event']=='progress' and e['pending'] and e['pending'][1]<e['step']" # it was begun
    "$VC" kill n2
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    pending=$(events "$job" 'select(.event=="round_end").pending[1]')
    [ "$pending" -gt "$(committed "$job")" ]
    [ "$(resumed "$job")" -lt "$pending" ]
    no_committed_step_lost "$job"
    same_bits ref.4
}

@test "a node killed while a copy is on its way to the spare: the next plan does without it" {
    job=$(start 2 -N5)
    saved "$job"
    victim=$(events "$job" 'select(.event=="plan").places[1]')
    slow_link "$(jq -r .partner <<<"$victim")"
    "$VC" kill "$(jq -r .node <<<"$victim")"
    plan=$(await "$job" "e['event']=='plan' and e['round']==1")
    "$VC" kill "$(jq -r '.places[]|select(.moved).node' <<<"$plan")"
    full_link "$(jq -r .partner <<<"$victim")"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="prepared" and .round==1)' | wc -l)" -eq 0 ]
    [ "$(resumed "$job")" -gt 0 ]
    no_committed_step_lost "$job"
    same_bits ref.3
}

@test "owner and partner killed together: a clear line, a start from nothing, no wrong byte" {
    job=$(start 2 -N5 --dlrover-persist=off)
    saved "$job"
    owner=$(events "$job" 'select(.event=="plan").places[]|select(.node!="n1" and .partner!="n1")')
    kill_both "$owner"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -E "^dlrover: .*rank $(jq .first <<<"$owner").*(gone|lost)"
    [ "$(events "$job" 'select(.event=="plan").restore' | tail -n 1)" = null ]
    same_bits ref.3
}

@test "owner and partner killed together: what was written while steps went on is loaded" {
    job=$(start 2 -N5 --dlrover-persist=10 --dlrover-set=persist-rate=16m)
    await "$job" "e['event']=='persisted' and e['version'] and e['version'][1]>=20" >/dev/null
    owner=$(events "$job" 'select(.event=="plan").places[]|select(.node!="n1" and .partner!="n1")')
    kill_both "$owner"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(resumed "$job")" -ge 20 ]
    events "$job" 'select(.event=="persisted" and .version).version[1]' | grep -x "$(resumed "$job")"
    # 5 MB on each node: the last of its pieces of 2 MB is due after 178 ms.
    [ -z "$(events "$job" 'select(.event=="persisted" and .version and .took_ms < 170)')" ]
    jq -e '.nodes_lost>=2 and .node_s>0' "$(alice_home)/.dlrover/job-$job"/*/state.json # they are counted
    [ "$(find "$(alice_home)/.dlrover/job-$job" -name 'manifest-*.json' | wc -l)" -eq 2 ]
    same_bits ref.3
}

@test "two ranks a node: it keeps their equal state once, and the spare gets all of it" {
    job=$(submit -N2 --ntasks-per-node=2 --dlrover=off train.sh $STEPS ref.pairs --no-ckpt)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    state=$(stat -c %s "$(alice_home)/ref.pairs.weights") # weights and moments, as a rank has them
    job=$(submit -N3 --ntasks-per-node=2 --dlrover=on --dlrover-spares=1 --dlrover-persist=10 train.sh $STEPS "$name")
    written=$(await "$job" "e['event']=='persisted' and e['version']")
    "$VC" kill n2
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(resumed "$job")" -gt 0 ]
    no_committed_step_lost "$job"
    same_bits ref.pairs
    # Two nodes, four ranks: two states and what describes them.
    [ "$(jq .bytes <<<"$written")" -lt $((state * 9 / 4)) ]
    alice /opt/dlrover/bin/dlrover ckpt export "$job" --to=safetensors --output="$name"
    for rank in 0 1 2 3; do
        tail -c "$state" "$(alice_home)/$name/rank-$rank.safetensors" | sha256sum
    done | sort -u >"$BATS_TEST_TMPDIR/sums"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/sums")" -eq 1 ]
}

# A worker that is stopped, so that nothing is saved, is not ended by its lease meanwhile.
still=--dlrover-set=lease-timer=off

# flip NODE JOB RANK: one byte in the middle of each of the rank's snapshots in that node's memory
flip() {
    on "$1" find "/run/dlrover/3001-$2" -name "r$3.s*" -exec python3 -c '
import os, sys
for path in sys.argv[1:]:
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 2)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 4]))
    print(path)' {} +
}

@test "a byte flipped in a rank's own snapshots: its partner's are loaded" {
    job=$(start 1 -N5 "$still" --dlrover-set=checks=none) # which would leave them out at once
    saved "$job"
    on n2 pkill -STOP -x mpi_train # nothing is saved from now on
    [ "$(flip n2 "$job" 1 | wc -l)" -ge 2 ]
    on n2 pkill -KILL -x mpi_train
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="restore_failed")|[.rank, .where]|tostring')" = '"[1,\"n2\"]"' ]
    [ "$(resumed "$job")" -gt 0 ]
    no_committed_step_lost "$job"
    same_bits ref.4
}

@test "a byte flipped in every snapshot of a rank: a start from nothing, no wrong byte" {
    job=$(start 1 -N5 "$still" --dlrover-persist=off)
    saved "$job"
    partner=$(events "$job" 'select(.event=="plan").places[]|select(.node=="n2").partner' | tr -d '"')
    on n2 pkill -STOP -x mpi_train
    flip n2 "$job" 1 &
    flip "$partner" "$job" 1
    wait $!
    on n2 pkill -KILL -x mpi_train
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    events "$job" 'select(.event=="restore_failed" or .check=="snapshots")|.why//.reason' | grep -E "is corrupt|failed their verification"
    [ "$(events "$job" 'select(.event=="plan").restore' | tail -n 1)" = null ]
    same_bits ref.4
}

# bats test_tags=production
@test "no spare left: survivors write the state, the requeued job goes on from it" {
    job=$(start 0 -N4 "$SHORT_SILENCE" --dlrover-persist=off) # one manifest: the survivors'
    saved "$job"
    "$VC" kill n2
    await "$job" requeue
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    manifest=$(find "$(alice_home)/.dlrover/job-$job" -name 'manifest-*.json')
    [ "$(jq '.slices | length' "$manifest")" -eq 4 ]
    [ "$(events "$job" 'select(.event=="persist").files')" -eq "$(jq '[.slices[].file] | unique | length' "$manifest")" ]
    [ "$(resumed "$job")" -gt 0 ]
    no_committed_step_lost "$job"
    same_bits ref.4
}

# bats test_tags=production
@test "the batch host dies: the agents write the state, the requeued job goes on from it" {
    job=$(start 0 -N4)
    saved "$job"
    "$VC" kill n1
    await "$job" requeue
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    manifest=$(find "$(alice_home)/.dlrover/job-$job" -name 'manifest-*.json' | sort -V | head -n 1)
    [ "$(jq '.slices | length' "$manifest")" -eq 4 ]
    [ "$(events "$job" 'select(.event=="persist").files')" -eq "$(jq '[.slices[].file] | unique | length' "$manifest")" ]
    [ "$(resumed "$job")" -gt 0 ]
    same_bits ref.4
}

# bats test_tags=production
@test "the batch host dies, and with it what read from the srun: a spare is left, its output goes on in a file that it names" {
    [[ -n ${DLROVER_NIGHTLY-} ]] || skip "takeover=on is not the default (make nightly)"
    job_file piped.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
export SLURM_MPI_TYPE=pmix
srun /opt/dlrover/share/dlrover/examples/mpi_train --params small --steps "$1" --step-ms 100 \
    --save-weights "$2.weights" --hash-log "$2.hashes" | cat
echo "the script ends with ${PIPESTATUS[0]}"
SH
    job=$(submit -N5 --dlrover=on --dlrover-spares=1 --dlrover-set=takeover=on piped.sh $STEPS "$name")
    saved "$job"
    known=$(events "$job" 'select(.event=="progress").committed[1]' | tail -n 1)
    "$VC" kill n1
    await "$job" "e['event']=='restored' and e['round']==1"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(resumed "$job")" -ge "$known" ]
    same_bits ref.4
    [ "$(events "$job" 'select(.event=="launch").round' | paste -sd' ')" = "0 1" ]
    file=$(output "$job" | sed -n "s/^dlrover: what read from this srun was lost with its node: .* goes to '\(.*\)'$/\1/p")
    [ -s "$(alice_home)/${file#*alice/}" ]
    output "$job" | grep -x "the script ends with 0"
}

@test "the data process killed, in a round and while copies are made before one: saving goes on, no committed step is lost" {
    # else a run that has learned what a save costs has steps for one more of them, not five
    job=$(submit -N5 --dlrover=on --dlrover-spares=1 --dlrover-save=always train.sh $STEPS "$name" --step-ms 300)
    saved "$job" 3
    on n2 pkill -KILL -f dlrover-data
    count=$(events "$job" 'select(.event=="progress").commits' | tail -n 1)
    saved "$job" $((count + 5))
    # n5 has n2's state, and sends it to the spare for seconds; n4 keeps what n1 saves
    [ "$(events "$job" 'select(.event=="plan").places|map(.node+.partner)')" = '["n1n4","n2n5","n4n1","n5n2"]' ]
    slow_link n5
    "$VC" kill n2
    await "$job" "e['event']=='plan' and e['round']==1"
    on n4 pkill -KILL -f dlrover-data
    wait_until "on n4 pgrep -f dlrover-data"
    full_link n5
    await "$job" "e['event']=='progress' and e['committed'][0]==1"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    no_committed_step_lost "$job"
    same_bits ref.4
}

# A program without a barrier: what its ranks save together the supervisor says.
@test "a program asks for a save: one rank's word is enough, however rare saves are" {
    job_file ask.py <<'PY'
import os, time
import dlrover

rank = int(os.environ["RANK"])
state = bytearray(1 << 20)
with dlrover.Checkpoint() as ck:
    ck.add("state", state, "local")
    ck.restore()
    saved, asked, safe, step = 0, 0, 0, 0
    while step < (safe or 3000) + 150:  # a line of progress comes every two seconds
        time.sleep(0.02)
        ck.fence()
        step += 1
        state[step % len(state)] ^= 1
        saves = ck.begin(step)
        if saves:
            saved = step
        if not asked and step - saved == 100:  # no rank has anything due: the first saves are over
            asked = step
            if rank == 1:
                ck.save_now()
                ck.save_now()
        if asked and saves and not safe and ck.wait_until_committed(step, 60):
            safe = step
    print(f"rank {rank} waited for {safe} from {asked}", flush=True)
PY
    job_file ask.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
export PYTHONPATH=/opt/dlrover/lib/python3/dist-packages
srun /usr/bin/python3 ask.py
SH
    # After the first saves, by which it learns, the next one would come in minutes.
    job=$(submit -N3 --dlrover=on --dlrover-spares=0 --dlrover-save=0.001% ask.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(grep -c '^rank . waited for' "$(alice_home)/out.$job")" -eq 3 ]
    read -r safe asked rest < <(sed -n 's/^rank . waited for \(.*\) from /\1 /p' "$(alice_home)/out.$job" | sort -u | paste -sd' ')
    echo "asked at step $asked, committed at '$safe', others: '$rest'"
    [ -z "$rest" ]
    [ "$asked" -ge 100 ]
    [ "$safe" -gt "$asked" ]
    [ "$safe" -lt $((asked + 200)) ]
    [ "$(events "$job" 'select(.event=="progress").asked' | tail -n 1)" -ge 1 ]
    [ "$(events "$job" 'select(.event=="progress").committed[1]' | tail -n 1)" -eq "$safe" ]
}
