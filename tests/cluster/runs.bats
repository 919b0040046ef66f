# SPDX-License-Identifier: Apache-2.0
# Runs as users write them: several sruns in a script, arrays, salloc, other sizes, output files,
# signals at any moment, and the loss of our own processes. The programs are shell scripts:
# nothing here needs MPI. Under production runs what has several steps at once or is killed by Slurm;
# names, sizes and files are the same with any configuration.
load lib/suite

setup_file() { cluster_up 5 2; }
teardown_file() { cluster_down; }
setup() {
    # count.sh TICKS [NAME]: each task says who it is, then writes a line per tick (0.1 s)
    job_file count.sh <<'SH'
#!/bin/bash
echo "rank $RANK of $WORLD_SIZE on $SLURMD_NODENAME"
for ((i = 0; i < $1; i++)); do
    echo "$DLROVER_ROUND $RANK" >>"$HOME/ticks.$SLURM_JOB_ID${2:+.$2}"
    read -rt 0.1 <> <(:) || :
done
SH
    chmod +x "$(alice_home)/count.sh"
}
teardown() { heal_cluster; }

all_journals() { ls "$(alice_home)"/.dlrover/job-"$1"/*/events.jsonl; }
nothing_is_left() { nothing_left n1 n2 n3 n4 n5; }

# No line of a round stands after the first of a later one: no two rounds ever ran at once.
rounds_in_order() { awk '$1 < last { bad = 1 } { last = $1 } END { exit bad }' "$1"; }

@test "sruns one after the other, and equal ones in a loop, are runs of their own" {
    batch row.sh "-N5 --dlrover-spares=1" <<'SH'
srun ./count.sh 2 first
for i in 1 2 3; do srun ./count.sh 2 loop; echo "turn $i returned $?"; done
squeue -h -s -j $SLURM_JOB_ID -o 'step %j'
SH
    job=$(submit row.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(output "$job" | grep -c '^turn . returned 0$')" -eq 3 ]
    [ "$(output "$job" | grep -c '^step dlrover-agents$')" -eq 1 ]
    [ "$(all_journals "$job" | sed 's,.*-\([0-9]*\)/events.jsonl,\1,' | sort | paste -sd' ')" = "0 0 1 2" ]
    [ "$(all_journals "$job" | xargs jq -c 'select(.event=="end").code' | paste -sd' ')" = "0 0 0 0" ]
    # the first meets by MPI, the others report: they have met; where MPI was late with the first, its agents reported
    output "$job" | grep "the rendezvous by MPI has not ended after" ||
        [ "$(all_journals "$job" | xargs jq -c 'select(.event=="rendezvous").mpi' | sort | uniq -c | xargs)" = "3 false 1 true" ]
    nothing_is_left
}

# bats test_tags=production
@test "two sruns at once do not meet; one that fails leaves the other alone" {
    batch pair.sh "-N4 --dlrover-max-restarts=0" <<'SH'
srun -N2 ./count.sh 30 good & good=$!
srun -N2 bash -c './count.sh 5 bad; exit 4' & bad=$!
wait $good; echo "good returned $?"
wait $bad; echo "bad returned $?"
SH
    job=$(submit pair.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x "good returned 0"
    output "$job" | grep -x "bad returned 4"
    [ "$(grep -c '^0 ' "$(alice_home)/ticks.$job.good")" -eq 60 ]
    [ "$(all_journals "$job" | xargs jq -r 'select(.event=="plan").places[].node' | sort -u | wc -l)" -eq 4 ]
    nothing_is_left
}

@test "equal sruns at once are told apart by their names, unnamed ones are refused" {
    batch named.sh "-N2" <<'SH'
srun ./count.sh 15 same & first=$!
until [ -s "ticks.$SLURM_JOB_ID.same" ]; do read -rt 0.1 <> <(:) || :; done
srun ./count.sh 15 same; echo "second returned $?"
for name in a b; do srun --dlrover-name=$name ./count.sh 15 same & done
wait; echo "all are over"
for i in 1 2; do srun --dlrover-name=a true; done
SH
    job=$(submit --dlrover-state-dir="/home/alice/elsewhere" named.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x "second returned 2"
    output "$job" | grep "^dlrover: an srun with the same arguments is still running .*--dlrover-name=NAME"
    journals=$(ls "$(alice_home)/elsewhere/job-$job"/*/events.jsonl)
    [ "$(echo "$journals" | sed 's,.*job-[0-9]*/\(.*\)/events.jsonl,\1,; s/^[0-9a-f]\{8\}-/HASH-/' |
        sort | paste -sd' ')" = "HASH-0 a a+1 a+2 b" ]
    [ "$(echo "$journals" | xargs jq -c 'select(.event=="end").code' | paste -sd' ')" = "0 0 0 0 0" ]
    [ "$(grep -c . "$(alice_home)/ticks.$job.same")" -eq 90 ] # three runs of two tasks
    run alice /opt/dlrover/bin/dlrover status --once --run=a+2 "$job" # the state is elsewhere
    [ "$status" -eq 0 ]
    [[ $output == *DONE* ]]
    nothing_is_left
}

@test "a node lost in the first srun is not asked for by the second" {
    batch later.sh "-N5 --dlrover-spares=1" <<'SH'
srun ./count.sh 20 first
echo "first returned $?"
srun ./count.sh 2 second
echo "second returned $?"
SH
    job=$(submit later.sh)
    await "$job" running
    "$VC" kill n2
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x "second returned 0"
    output "$job" | grep -x "dlrover: node n2 was lost earlier in this job: going on without it"
    [ "$(events "$job" 'select(.event=="rendezvous").candidates|join(" ")')" = '"n1 n3 n4 n5"' ]
}

# job ids of the array's tasks that run: a task gets its own when it starts
task_ids() { ctl squeue -h -r -t running -j "$1" -o %A; }

# the node of rank 1 in the newest round
second_place() { events "$1" 'select(.event=="plan").places[1].node' | tail -n 1 | tr -d '"'; }

@test "tasks of an array fail and are requeued one by one" {
    batch array.sh "-N2 --exclusive" <<'SH'
echo "task $SLURM_ARRAY_TASK_ID begins, restart ${SLURM_RESTART_COUNT:-0}"
srun ./count.sh 40
SH
    array=$(submit --array=0-1 "$SHORT_SILENCE" array.sh)
    wait_until '[ "$(task_ids "$array" | wc -l)" -eq 2 ]'
    one=$(task_ids "$array" | head -n 1) two=$(task_ids "$array" | tail -n 1)
    await "$one" running
    await "$two" running
    for job in "$one" "$two"; do
        on "$(second_place "$job")" pkill -KILL -f count.sh
    done
    await "$one" "e['event']=='running' and e['round']==1"
    await "$two" "e['event']=='running' and e['round']==1"
    # the task that has the array's own id is the one a careless requeue would take for all
    "$VC" kill "$(second_place "$array")"
    await "$array" requeue
    for job in "$one" "$two"; do
        await "$job" "e['event']=='end' and e['code']==0"
        [ "$(output "$job" | grep -c begins)" -eq $((job == array ? 2 : 1)) ] # who was requeued
        rounds_in_order "$(alice_home)/ticks.$job"
    done
}

# bats test_tags=production
@test "a signal ends the run in whatever phase it comes" {
    batch phases.sh "-N3 --dlrover-spares=1" <<'SH'
srun ./count.sh 1000
echo "srun returned $?"
SH
    for event in start node_up rendezvous plan launch running; do
        job=$(submit phases.sh)
        await "$job" "$event"
        on "$(ctl squeue -h -j "$job" -o %B)" pkill -TERM -x dlrover-keeper
        [ "$(await_job "$job")" = "COMPLETED 0:0" ]
        output "$job" | grep -x "srun returned 143"
        nothing_is_left
    done
}

@test "a signal that comes while the supervisor is started again is heeded" {
    batch again.sh "-N2" <<'SH'
srun ./count.sh 1000
echo "srun returned $?"
SH
    job=$(submit again.sh)
    await "$job" running
    host=$(ctl squeue -h -j "$job" -o %B)
    on "$host" sh -c 'pkill -KILL -x dlrover-supervi; pkill -INT -x dlrover-keeper' # 15 letters
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x "srun returned 130"
    nothing_is_left
}

@test "a supervisor that is started again finds its round, output and input go on" {
    batch take.sh "-N4 --dlrover-spares=1 $CALM" <<'SH'
{ echo one; until [ -e "$HOME/twice" ]; do read -rt 0.1 <> <(:) || :; done; echo two; } |
    srun -o words.%j bash -c 'cat >input.$RANK; ./count.sh 1'
echo "srun returned $?"
SH
    job=$(submit take.sh)
    await "$job" running
    for life in 1 2; do
        on "$(ctl squeue -h -j "$job" -o %B)" pkill -KILL -x dlrover-supervi
        await -n $life "$job" adopted
    done
    touch "$(alice_home)/twice"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x "srun returned 0"
    [ "$(grep -c '^rank' "$(alice_home)/words.$job")" -eq 3 ]
    [ "$(paste -sd, "$(alice_home)/input.2")" = "one,two" ]
    [ -z "$(events "$job" 'select(.event=="round_end")')" ]
    nothing_is_left
}

# a run of its own ends; what the other has in common with it goes on
@test "two runs share the agents' step, which outlives both supervisors and the run that began it" {
    batch share.sh "-N4 $CALM" <<'SH'
srun -N2 --dlrover-name=short ./count.sh 60 short & short=$!
until [ -s "$HOME/ticks.$SLURM_JOB_ID.short" ]; do read -rt 0.1 <> <(:) || :; done
srun -N2 --dlrover-name=long ./count.sh 100 long & long=$!
wait $short; echo "short returned $?"; touch "$HOME/short.is.over"
wait $long; echo "long returned $?"
squeue -h -s -j $SLURM_JOB_ID -o 'step %j'
SH
    job=$(submit share.sh)
    await -n 2 "$job" running
    on "$(ctl squeue -h -j "$job" -o %B)" pkill -KILL -x dlrover-supervi # both
    await -n 2 "$job" adopted
    wait_until '[ -e "$(alice_home)/short.is.over" ]'
    long=$(alice_home)/.dlrover/job-$job/long/events.jsonl
    "$VC" kill "$(jq -r 'select(.event=="plan").places[1].node' "$long" | tail -n 1)"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x "short returned 0"
    output "$job" | grep -x "long returned 0"
    [ "$(jq -c 'select(.event=="round_end").cause' "$long")" = '"node"' ]
    [ "$(output "$job" | grep -c '^step dlrover-agents$')" -eq 1 ]
    rounds_in_order "$(alice_home)/ticks.$job.long"
    nothing_is_left
}

@test "sizes: as many nodes and tasks as srun would use, less the spares" {
    batch sizes.sh "-N5 --exclusive --dlrover-spares=1" <<'SH'
size() { echo "== $*"; srun "$@" ./count.sh 0 | sort -V; }
size
size -n 3
size -N 2 -n 4
size --ntasks-per-node=2 -N 3
size -n 6
size --dlrover-nodes=2:3
SH
    job=$(submit sizes.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    sizes=$(output "$job" | awk '/^==/ { if (n) print head, n; head = $0; n = "" } /^rank/ { n = n " " $6 } END { print head, n }')
    diff <(echo "$sizes" | sed 's/ *$//; s/  */ /g') - <<'END'
== n1 n2 n4 n5
== -n 3 n1 n2 n3
== -N 2 -n 4 n1 n1 n2 n2
== --ntasks-per-node=2 -N 3 n1 n1 n2 n2 n3 n3
== -n 6 n1 n1 n2 n2 n4 n5
== --dlrover-nodes=2:3 n1 n2 n3
END
}

@test "output files of a pattern go on over rounds" {
    batch files.sh "-N2" <<'SH'
cat >files <<'END'
echo "round $DLROVER_ROUND of $RANK"
until grep -qs "^round $DLROVER_ROUND" part.0 && grep -qs "^round $DLROVER_ROUND" part.1; do :; done
[ "$RANK$DLROVER_ROUND" != 10 ]
END
srun -o part.%t bash files
SH
    job=$(submit files.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    for rank in 0 1; do
        [ "$(grep '^round' "$(alice_home)/part.$rank" | paste -sd,)" = "round 0 of $rank,round 1 of $rank" ]
    done
}

@test "stdin reaches every round from its beginning, from a file and from a pipe" {
    batch stdin.sh "-N2" <<'SH'
turn='while read -r line; do echo "round $DLROVER_ROUND read $line" >>read.$1; done; [ $DLROVER_ROUND = 1 ]'
printf '%s\n' skipped one two >in
{ read -r line; srun -n1 bash -c "$turn" - file; } <in
printf '%s\n' one two | srun -n1 bash -c "$turn" - pipe
printf '%s\n' one two | srun -n1 --dlrover-set=stdin-spool=4 bash -c "$turn" - short
printf '%s\n' one two | while read -r line; do srun -n1 -i none echo "loop: $line"; done
SH
    job=$(submit stdin.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    for kind in file pipe; do
        [ "$(paste -sd, "$(alice_home)/read.$kind")" = \
            "round 0 read one,round 0 read two,round 1 read one,round 1 read two" ]
    done
    [ "$(paste -sd, "$(alice_home)/read.short")" = "round 0 read one,round 0 read two" ] ||
        { output "$job"; cat "$(journal "$job")"; false; } # seen once, on a busy machine: why is not known
    output "$job" | grep -x "dlrover: this round gets no standard input: more than 4 bytes have come, and no more is kept (--dlrover-set=stdin-spool)"
    [ "$(output "$job" | sed -n 's/^loop: //p' | paste -sd,)" = "one,two" ]
    nothing_is_left
}

@test "without restarts the program's own code comes back" {
    batch code.sh "-N2 --dlrover-max-restarts=0" <<'SH'
srun bash -c 'exit 3'
echo "srun returned $?"
srun bash -c 'kill -SEGV $$'
echo "srun returned $?"
srun no-such-program
echo "srun returned $?"
export DLROVER_MAX_RESTARTS=3
srun -n1 bash -c 'exit 93'
echo "srun returned $?"
srun -n1 --dlrover-on=exit-4:stop bash -c 'exit 4'
echo "srun returned $?"
srun --dlrover-on=hang:stop true
echo "srun returned $?"
SH
    job=$(submit code.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(output "$job" | sed -n 's/^srun returned //p' | paste -sd' ')" = "3 139 2 93 4 255" ]
    # with restarts left: what says stop (93, --dlrover-on) is not tried again
    [ "$(output "$job" | grep -c "^dlrover: round 1 ends")" -eq 0 ]
    output "$job" | grep "exited with code 93: the run stops (--dlrover-on)$"
    output "$job" | grep "exited with code 4: the run stops (--dlrover-on)$"
    [ "$(output "$job" | grep -c "bad value 'hang:stop'")" -eq 1 ]
}

# bats test_tags=production
@test "srun in an salloc is supervised, from the allocation's own host" {
    run alice bash -c "cd; salloc -N3 --dlrover=on --dlrover-spares=1 --quiet bash -c '
        srun ./count.sh 0; echo code \$?; srun --dlrover=off -n1 echo alone'"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^rank' <<<"$output")" -eq 2 ]
    grep -x "code 0" <<<"$output"
    grep -x alone <<<"$output"
    # Where the site has salloc's shell run on a node, what is typed there is supervised, too; Ctrl-Z stops what the
    # terminal sees of an srun, and nothing of the run; the daemons of an mpirun are no run.
    job_file typed.sh <<'SH'
set -m
cd
srun ./count.sh 30 typed & srun=$!
ticks=ticks.$SLURM_JOB_ID.typed
until [ -s $ticks ]; do read -rt 0.1 <> <(:) || :; done
kill -TSTP -- -$srun
until ps -o stat= -p $srun | grep -q T; do read -rt 0.1 <> <(:) || :; done
until [ "$(wc -l <$ticks)" -ge 60 ]; do read -rt 0.1 <> <(:) || :; done
kill -CONT -- -$srun
wait $srun
echo "typed code $? ticks $(wc -l <$ticks)"
mpirun -n 2 --map-by node /bin/echo of mpirun
echo "supervised: $(ls -d .dlrover/job-$SLURM_JOB_ID/*/ | wc -l)"
SH
    ctl sh -c 'echo LaunchParameters=use_interactive_step >>/etc/slurm/slurm.conf; scontrol reconfigure'
    run alice timeout 80 script -qec "salloc -N2 --dlrover=on --quiet" /dev/null <<<"bash typed.sh; exit"
    ctl sh -c 'sed -i /^LaunchParameters/d /etc/slurm/slurm.conf; scontrol reconfigure'
    echo "$output"
    grep "typed code 0 ticks 60" <<<"$output"
    [ "$(grep -c "^of mpirun" <<<"$output")" -eq 2 ]
    grep "supervised: 1" <<<"$output"
    nothing_left ctl n1 n2 n3
}

@test "after a requeue, sruns that had ended before are not run again" {
    batch requeue.sh "-N3 -n6 --exclusive" <<'SH'
srun ./count.sh 2 first
echo "first returned $?"
srun bash -c 'exit 0'
srun --dlrover-max-restarts=0 bash -c 'exit 6'
echo "third returned $?"
for SEED in 1 2; do export SEED; srun --dlrover-max-restarts=0 bash -c 'echo $SEED >>seeds; exit 7'; done
until srun --dlrover-max-restarts=0 -n1 bash -c 'echo . >>tries; [ "$(grep -c . tries)" -ge 3 ] || exit 8'; do
    echo "a try returned $?"
done
srun ./count.sh 50 last
echo "last returned $?"
SH
    job=$(submit "$SHORT_SILENCE" requeue.sh)
    wait_until '[ -s "$(alice_home)/ticks.$job.last" ]'
    "$VC" kill "$(second_place "$job")"
    await "$job" requeue
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(grep -c . "$(alice_home)/ticks.$job.first")" -eq 12 ]
    [ "$(output "$job" | grep -c '^first returned 0$')" -eq 2 ]
    [ "$(output "$job" | grep -c '^third returned 6$')" -eq 2 ]
    [ "$(output "$job" | grep -c 'this srun ended with code 6 before the job was requeued$')" -eq 1 ]
    # What a sweep says in its environment makes sruns of the same arguments runs of their own. Tries of one run
    # are told one by one.
    [ "$(sort -u "$(alice_home)/seeds" | paste -sd' ')" = "1 2" ]
    [ "$(output "$job" | grep -c 'in another environment: this one is a run of its own and begins anew$')" -eq 1 ]
    [ "$(grep -c . "$(alice_home)/tries")" -eq 3 ]
    [ "$(output "$job" | grep -c '^a try returned 8$')" -eq 4 ]
    [ "$(output "$job" | grep -c '^last returned 0$')" -eq 1 ]
    rounds_in_order "$(alice_home)/ticks.$job.last"
}

# journal_of JOB RUN: of one run of several
journal_of() { echo "$(alice_home)/.dlrover/job-$1/$2/events.jsonl"; }

# same_as_alone RUN: its last weights, one hash for each step that any life computed, and one beginning
same_as_alone() {
    cmp "$(alice_home)/$1.weights" "$(alice_home)/$1.alone.weights"
    [ "$(cat "$(alice_home)/$1.hashes" "$(alice_home)/$1.alone.hashes" | cut -d' ' -f1,2 | sort -u | wc -l)" -eq \
        "$(tail -n 1 "$(alice_home)/$1.alone.hashes" | cut -d' ' -f1)" ]
    [ "$(grep -c '^1 ' "$(alice_home)/$1.hashes")" -eq "$(grep -c '^1 ' "$(alice_home)/$1.alone.hashes")" ]
}

# Both train on the node that is lost. One could go on with the nodes that are left, the other cannot. The last
# step is chosen when the job comes back, beyond all that were computed: how fast it was decides nothing.
@test "two runs train on a node that is lost: the requeue for one takes the other's state along, both end as if alone" {
    batch both.sh "-N3 --exclusive" <<'SH'
export SLURM_MPI_TYPE=pmix
last() { # RUN
    [ -n "$SLURM_RESTART_COUNT" ] || { echo 1000000; return; }
    echo $(($(cut -d' ' -f1 $1.hashes | sort -n | tail -n 1) + 20))
}
train() { # SRUN-OPTIONS NODES STEPS FILES OPTIONS
    srun --overlap $1 -N$2 /opt/dlrover/share/dlrover/examples/mpi_train --params small --batch 32 --every 1000 --seed $2 \
        --steps $3 --hash-log $4.hashes --save-weights $4.weights $5
}
wide=$(last wide) narrow=$(last narrow)
train --dlrover-name=wide 3 $wide wide --step-ms=100 & first=$!
train --dlrover-name=narrow 2 $narrow narrow --step-ms=100 & second=$!
wait $first; echo "wide returned $?"
wait $second; echo "narrow returned $?"
train --dlrover=off 3 $wide wide.alone --no-ckpt
train --dlrover=off 2 $narrow narrow.alone --no-ckpt
SH
    job=$(submit both.sh)
    await -n 2 "$job" saving
    for run in wide narrow; do
        wait_until "grep -q '\"committed\":[^n]' $(journal_of "$job" $run)"
    done
    lost=$(jq -r 'select(.event=="plan").places[].node' "$(journal_of "$job" narrow)" |
        grep -vx -m 1 "$(ctl squeue -h -j "$job" -o %B)")
    jq -r 'select(.event=="plan").places[].node' "$(journal_of "$job" wide)" | grep -x "$lost"
    "$VC" kill "$lost"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    for run in wide narrow; do
        output "$job" | grep -x "$run returned 0"
        same_as_alone $run
    done
    output "$job" | grep -x "dlrover: another run has the job requeued: writing the state of this one"
    nothing_is_left
}
