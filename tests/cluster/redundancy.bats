# SPDX-License-Identifier: Apache-2.0
# What is kept of a snapshot on other nodes, with each value of --dlrover-redundancy: the nodes it
# is promised for are killed at once, and the run must go on from the newest committed step, bit for bit.
load lib/suite
load lib/train

STEPS=70

setup_file() {
    cluster_up 6 2
    train_file
    references 4
    # What is held is summed again within a second, where ten minutes are the default
    local data=/opt/dlrover/libexec/dlrover/dlrover-data
    install "$STAGE$data" "$(alice_home)/dlrover-data"
    job_file often <<'SH'
#!/bin/sh
exec /home/alice/dlrover-data --scrub=1s "$@"
SH
    chmod +x "$(alice_home)/often"
    for node in n{1..6}; do on "$node" mount --bind /home/alice/often $data; done
    # RANK: "ROUND STEP STATE OPEN" of the newest whole slot of that rank in this node's memory; OPEN: how many of all
    # ranks a worker fills. With a second word a bit of its data is flipped
    job_file slots.py <<'PY'
import glob, struct, sys

newest, filled = (0, 0), 0
for path in glob.glob("/run/dlrover/*/*/*/r*.s?") + glob.glob("/dev/shm/dlrover-*/*/r*.s?"):
    with open(path, "rb") as f:
        page = f.read(8192)
    now, head = struct.unpack_from("<I", page, 16)[0], struct.unpack_from("<IHH8I5Q", page, 4096)
    filled += now == 1
    if now in (2, 3) and head[9] == int(sys.argv[1]) and (head[8], head[13]) >= newest:
        newest, state, file, middle = (head[8], head[13]), now, path, head[14] + head[15] // 2
if len(sys.argv) > 2:
    with open(file, "r+b") as f:
        f.seek(middle)
        byte = f.read(1)[0]
        f.seek(middle)
        f.write(bytes([byte ^ 16]))
print(*newest, state, filled)
PY
}
teardown_file() { cluster_down; }
setup() { name=t$BATS_TEST_NUMBER; }
teardown() { heal_cluster; }

# start VALUE [OPTION..]: four training nodes, two spares, under that redundancy
start() {
    submit --dlrover=on --dlrover-spares=2 -N6 --dlrover-redundancy="$1" "${@:2}" train.sh $STEPS "$name" ${step_ms:+--step-ms "$step_ms"}
}

# no committed step was lost, and what came out is the reference's
same_as_undisturbed() {
    [ "$(resumed "$1")" -gt 0 ]
    no_committed_step_lost "$1"
    same_bits ref.4
}

# said, once each and in this order: committed steps hung on one more loss, and did no longer
told_of_the_gap() {
    [ "$(events "$1" 'select(.event=="unprotected" or .event=="adopted" or .event=="protected").event' | tr -d '"' | paste -sd' ')" = "unprotected ${2:+$2 }protected" ]
}

slots() { on "$1" python3 /home/alice/slots.py "${@:2}"; }
# signal_all SIGNAL: the training of all nodes
signal_all() { for node in n{1..6}; do on "$node" pkill "-$1" -x mpi_train || :; done; }
# halted RANK OWNER HOLDER: nothing is saved any more, and what the holder has of the rank is the newest commit
halted() {
    signal_all STOP
    local own held
    own=$(slots "$2" "$1")
    held=$(slots "$3" "$1")
    [[ $held != *" 3 0" || ${own% * *} != "${held% * *}" ]] || return 0
    signal_all CONT
    return 1
}

# kill_places JOB PLACE..: the nodes of these places, at once
kill_places() {
    local job=$1 place nodes=()
    shift
    for place; do nodes+=("$(events "$job" "select(.event==\"plan\" and .round==0).places[$place].node" | tr -d '"')"); done
    "$VC" kill "${nodes[@]}"
}

# The batch host has place 0: a set whose other node is killed is that of places 1 and 3.
batch_host_first() {
    [ "$(events "$1" 'select(.event=="plan" and .round==0).places[0].node')" = '"n1"' ]
}

@test "partner:2: a copy goes bad in memory, then its owner and the other holder are killed at once" {
    # a training that is halted for long renews no lease, and its own timer would kill it; it must not be over before
    job=$(step_ms=300 start partner:2 --dlrover-set=lease-timer=off)
    saved "$job"
    batch_host_first "$job"
    [ "$(events "$job" 'select(.event=="plan").places[].partners|unique|length' | sort -u)" = 2 ]
    alice /opt/dlrover/bin/dlrover status "$job" | grep 'copies on n[0-9], n[0-9]'
    owner=$(events "$job" 'select(.event=="plan").places[1].node' | tr -d '"')
    rank=$(events "$job" 'select(.event=="plan").places[1].first')
    # the batch host, which stays, has the copy if it is among the two
    read -r holder other <<<"$(events "$job" 'select(.event=="plan").places[1].partners|sort|join(" ")' | tr -d '"')"
    wait_until "halted $rank $owner $holder"
    slots "$holder" "$rank" flip
    await "$job" "e['event']=='copy_bad' and e['node']=='$holder' and e['rank']==$rank and e['again']"
    await "$job" "e['event']=='copy_remade' and e['node']=='$holder' and e['rank']==$rank"
    output "$job" | grep "the memory of $holder is not sound: block .* in rank $rank's copy of step .*; it is made again"
    "$VC" kill "$owner" "$other"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    same_as_undisturbed "$job"
    events "$job" 'select(.event|test("copy_remade|round_end|node_dead|restored"))|del(.nodes)'
    [ "$(events "$job" 'select(.event=="copy_remade").version[1]')" = "$(events "$job" 'select(.event=="restored" and .round>0).version[1]' | head -n 1)" ]
}

@test "xor:4 on four nodes: an own copy goes bad in memory, then a node that is a member and a holder is killed" {
    job=$(step_ms=300 start xor:4 --dlrover-set=lease-timer=off)
    saved "$job"
    batch_host_first "$job"
    output "$job" | grep -- "--dlrover-redundancy: 4 nodes make sets of 2, not of 4"
    alice /opt/dlrover/bin/dlrover status "$job" | grep 'parity on n[0-9]'
    # of the batch host's set; nobody has its copy but itself
    read -r owner rank <<<"$(events "$job" 'select(.event=="plan").places[2]|"\(.node) \(.first)"' | tr -d '"')"
    wait_until "halted $rank $owner $owner"
    slots "$owner" "$rank" flip
    await "$job" "e['event']=='copy_bad' and e['node']=='$owner' and e['rank']==$rank and e['again']"
    await "$job" "e['event']=='copy_remade' and e['node']=='$owner' and e['rank']==$rank"
    # it keeps the parity of the batch host's set, and has ranks in the other one
    holder=$(events "$job" 'select(.event=="plan" and .round==0).places[0].parity[0]' | tr -d '"')
    [ "$(events "$job" 'select(.event=="plan" and .round==0).places[].node' | tr -d '"' | grep -cx "$holder")" -eq 1 ]
    "$VC" kill "$holder"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    same_as_undisturbed "$job"
    told_of_the_gap "$job"
}

# what a node sends crawls, so that copies of the round's version are on their way when the supervisor dies
@test "partner: the supervisor that comes next knows that copies are lacking, and has them made" {
    job=$(start partner "$CALM")
    saved "$job"
    batch_host_first "$job"
    lost=$(events "$job" 'select(.event=="plan" and .round==0).places[1].node' | tr -d '"')
    slow=$(events "$job" "select(.event==\"plan\" and .round==0).places[]|select(.partner==\"$lost\").node" | tr -d '"' | head -n 1)
    slow_link "$slow"
    kill_places "$job" 1
    await "$job" "e['event']=='running' and e['round']==1"
    on n1 pkill -KILL -x dlrover-supervi
    await "$job" adopted
    full_link "$slow"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    same_as_undisturbed "$job"
    told_of_the_gap "$job" adopted
}

@test "rs:2+2: both nodes of a set killed at once, both come back from the two shards" {
    job=$(start rs:2+2)
    saved "$job"
    batch_host_first "$job"
    kill_places "$job" 1 3
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    same_as_undisturbed "$job"
}

@test "rs:2+2: a member and a holder of its set killed at once, and so of the other set" {
    job=$(start rs:2+2)
    saved "$job"
    batch_host_first "$job"
    for pair in '1 2' '2 1'; do # each of the two keeps a shard of the other one's set
        read -r member holder <<<"$pair"
        events "$job" "select(.event==\"plan\" and .round==0).places|.[$holder].node as \$node|.[$member].parity|index(\$node)" |
            grep -x '[01]'
    done
    kill_places "$job" 1 2
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    same_as_undisturbed "$job"
}

@test "xor:2 and no spare: what is lost is made again and written before the requeue" {
    job=$(submit --dlrover=on -N4 "$SHORT_SILENCE" --dlrover-redundancy=xor:2 train.sh $STEPS "$name")
    saved "$job"
    batch_host_first "$job"
    kill_places "$job" 1
    await "$job" requeue
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="persist").files')" -eq 4 ]
    same_as_undisturbed "$job"
}

@test "xor:2: the batch host dies, the agents make its ranks' state of parity before the requeue" {
    job=$(submit --dlrover=on -N4 --dlrover-redundancy=xor:2 train.sh $STEPS "$name")
    saved "$job"
    batch_host_first "$job"
    committed=$(events "$job" 'select(.event=="progress").committed[1]' | tail -n 1)
    "$VC" kill n1
    await "$job" requeue
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="persist").files')" -eq 4 ]
    [ "$(events "$job" 'select(.event=="restored").version[1]' | tail -n 1)" -ge "$committed" ]
    cmp "$(alice_home)/$name.weights" "$(alice_home)/ref.4.weights"
}

@test "none: a crash of the program costs no committed step" {
    job=$(start none)
    saved "$job"
    on n2 pkill -KILL -x mpi_train
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    same_as_undisturbed "$job"
}

@test "more copies than there are other nodes are refused in one line" {
    job=$(start partner:4)
    [[ $(await_job "$job") == FAILED* ]]
    output "$job" | grep -- "--dlrover-redundancy with 4 other nodes needs at least 5 training nodes, this run has 4"
}
