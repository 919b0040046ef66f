# SPDX-License-Identifier: Apache-2.0
# What dlrover(7) promises under FENCING: tasks write stamps to the shared home, whatever becomes of
# their node, and the stamps must show that no two rounds ever ran at once.
load lib/suite

STAMPS=$REPO/tests/cluster/lib/stamps.py

setup_file() { cluster_up 4 2; }
teardown_file() { cluster_down; }
setup() {
    cp "$STAMPS" "$(alice_home)/"
    job_file stamps.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
#SBATCH --dlrover=on
srun /usr/bin/python3 stamps.py run "stamps.$SLURM_JOB_ID" "$@"
SH
}
teardown() { heal_cluster; }

stamps() { echo "$(alice_home)/stamps.$1"; }

# since_1970 JOB JQ-CONDITION: time of the last event that meets it, as stamps have it
since_1970() {
    date -d "$(jq -r "select($2).time" "$(journal "$1")" | tail -n 1)" +%s.%N
}

# nodes_of JOB ROUND: the nodes of its plan
nodes_of() { events "$1" "select(.event==\"plan\" and .round==$2).places|map(.node)|join(\" \")" | tr -d '"'; }

# await_steps JOB ROUND: until every rank of the round has written
await_steps() {
    local until=$((SECONDS + WAIT))
    while ((SECONDS < until)); do
        [ "$(awk -v r="$2" '$1 == r { seen[$2] } END { print length(seen) }' "$(stamps "$1")" 2>/dev/null)" = 3 ] && return
        read -rt 0.1 <> <(:) || :
    done
    return 1
}

# await_quiet JOB NODE: until the node has written nothing for twice the dead-time
await_quiet() {
    local until=$((SECONDS + WAIT))
    while ((SECONDS < until)); do
        awk -v n="$2" -v now="$EPOCHREALTIME" '$3 == n { last = $5 } END { exit !(last && now - last > 2) }' \
            "$(stamps "$1")" && return
        read -rt 0.1 <> <(:) || :
    done
    return 1
}

# A node of the round is frozen and thawed, the one in its place is cut off and healed: each comes
# back clean and is used again. Prints what stamps.py must be told.
freeze_thaw_cut_heal() {
    local job=$1 thawed
    await "$job" running >&2
    [ "$(nodes_of "$job" 0)" = "n1 n2 n3" ]
    await_steps "$job" 0
    "$VC" freeze n3
    await "$job" "e['event']=='running' and e['round']==1" >&2
    await_steps "$job" 1
    thawed=$(date +%s.%N)
    "$VC" thaw n3
    await -n 2 "$job" "e['event']=='node_up' and e['node']=='n3'" >&2
    echo "$thawed"
    [[ $(nodes_of "$job" 1) == *n4* ]]
    "$VC" cut n4
    await "$job" "e['event']=='running' and e['round']==2" >&2
    await_steps "$job" 2
    "$VC" heal n4
    await -n 2 "$job" "e['event']=='node_up' and e['node']=='n4'" >&2
    [[ $(nodes_of "$job" 2) == *n3* ]]
}

# bats test_tags=production
@test "with the library: a thawed node executes nothing, a cut one stops before the verdict" {
    job=$(submit -N4 --dlrover-spares=1 stamps.sh 100000 lib)
    await "$job" "e['event']=='progress' and e['commits']>=1"
    thawed=$(freeze_thaw_cut_heal "$job")
    ctl scancel "$job"
    "$STAMPS" check "$(stamps "$job")" --thawed "n3=$thawed" \
        --dead "n3=$(since_1970 "$job" '.event=="node_dead" and .node=="n3"')" \
        --dead "n4=$(since_1970 "$job" '.event=="node_dead" and .node=="n4"')"
    [ "$(events "$job" 'select(.event=="restored").round' | paste -sd' ')" = "1 2" ]
    [ "$(events "$job" 'select(.event=="round_end").restarts' | sort -u)" = 0 ]
}

@test "without the library: a thawed node is clean before it is used again, a cut one stops in time" {
    job=$(submit -N4 --dlrover-spares=1 stamps.sh 100000 plain)
    freeze_thaw_cut_heal "$job" >/dev/null
    ctl scancel "$job"
    "$STAMPS" check "$(stamps "$job")" \
        --clean "n3=$(since_1970 "$job" '.event=="node_up" and .node=="n3"')" \
        --dead "n4=$(since_1970 "$job" '.event=="node_dead" and .node=="n4"')"
    [ "$(events "$job" 'select(.event=="round_end").restarts' | sort -u)" = 0 ]
}

# bats test_tags=production
@test "a suspended job goes on where it was, longer than the dead-time later" {
    job=$(submit -N3 stamps.sh 250 lib)
    await "$job" "e['event']=='progress' and e['commits']>=1"
    ctl scontrol suspend "$job"
    await "$job" suspended
    await_quiet "$job" n1
    ctl scontrol resume "$job"
    await "$job" resumed
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ -z "$(events "$job" 'select(.event=="round_end" or .event=="node_dead" or .event=="lease_expired")')" ]
    [ "$(events "$job" 'select(.event=="resumed").held_ms > 2000')" = true ]
    "$STAMPS" check "$(stamps "$job")"
}

@test "a SIGTSTP that is no suspension changes nothing" {
    job=$(submit -N3 stamps.sh 500 lib)
    await "$job" "e['event']=='progress' and e['commits']>=1"
    for node in n1 n2 n3; do on "$node" pkill -TSTP -x dlrover-agent; done
    await "$job" resumed
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ -z "$(events "$job" 'select(.event=="round_end" or .event=="node_dead")')" ]
}

@test "the time of day jumps by an hour, everywhere and again and again: nobody notices" {
    cc -shared -fPIC -O2 -o "$(alice_home)/jump.so" "$REPO/tests/cluster/lib/jump.c"
    job_file jumps.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
#SBATCH --dlrover=on
export LD_PRELOAD=$HOME/jump.so
srun /usr/bin/python3 stamps.py run "stamps.$SLURM_JOB_ID" 400 lib
SH
    job=$(submit -N3 jumps.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ -z "$(events "$job" 'select(.event=="round_end" or .event=="node_dead" or .event=="lease_expired")')" ]
    [ "$(events "$job" 'select(.event=="progress").commits' | tail -n 1)" -ge 5 ]
    # it was the supervisor's time, too
    [ "$(events "$job" .time | cut -c 2-14 | sort -u | wc -l)" -ge 2 ]
}

@test "the supervisor stands still: leases run out, no node is given up, no restart is used" {
    job=$(submit -N3 stamps.sh 300 lib)
    await "$job" "e['event']=='progress' and e['commits']>=1"
    on n1 pkill -STOP -f dlrover-supervisor
    await_quiet "$job" n2
    on n1 pkill -CONT -f dlrover-supervisor
    await "$job" "e['event']=='restored' and e['round']==1"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ -n "$(events "$job" 'select(.event=="lease_expired")')" ]
    # A task that srun ended in between may be heard of first; what it was the work of is told then.
    [ "$(events "$job" 'select(.event=="round_end" or .event=="explained")|[.cause,.restarts]' | tail -n 1)" = '["control",0]' ]
    [ -z "$(events "$job" 'select(.event=="node_dead")')" ]
    "$STAMPS" check "$(stamps "$job")"
}

@test "half of the nodes silent at once, for a while: they are waited for, not replaced" {
    job=$(submit -N4 --dlrover-set=partition-grace=60s stamps.sh 300 lib)
    await "$job" "e['event']=='progress' and e['commits']>=1"
    "$VC" freeze n3
    "$VC" freeze n4
    await_quiet "$job" n3
    "$VC" thaw n3
    "$VC" thaw n4
    await "$job" "e['event']=='restored' and e['round']==1"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="round_end")|[.cause,.restarts]')" = '["control",0]' ]
    [ -z "$(events "$job" 'select(.event=="node_dead")')" ]
    "$STAMPS" check "$(stamps "$job")"
}

# n3 reboots, slurmctld has not noticed: it stays in the job. n4 it calls down: it never comes back to this job.
# bats test_tags=production
@test "a node that reboots gets an agent and is a spare, for the next srun too; one that Slurm took away is not" {
    job_file work.py <"$BATS_TEST_DIRNAME/lib/work.py"
    batch reboots.sh "-N4 --dlrover-spares=1" <<'SH'
srun python3 work.py
srun hostname
SH
    job=$(submit reboots.sh)
    await "$job" "e['event']=='progress' and e['commits']>=1"
    "$VC" kill n3
    await "$job" "e['event']=='running' and e['round']==1"
    "$VC" boot n3
    await -n 2 "$job" "e['event']=='node_up' and e['node']=='n3'"
    "$VC" kill n4
    await "$job" "e['event']=='restored' and e['round']==2"
    [[ $(nodes_of "$job" 2) == *n3* ]]
    first=$(journal "$job")
    ctl scontrol update nodename=n4 state=down reason=dead
    "$VC" boot n4
    wait_until 'output "$job" | grep -qFx "dlrover: node n4: Slurm has taken it from the job"'
    alice touch "stop.$job"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(jq -r 'select(.event=="round_end").why' "$first" | sed 's/ was silent.*//' | paste -sd,)" = "node n3,node n4" ]
    [ "$(jq -r 'select(.event=="restored").round' "$first" | paste -sd' ')" = "1 2" ]
    [ "$(output "$job" | grep -x 'n[1-4]' | sort | paste -sd' ')" = "n1 n2 n3" ]
    [ "$(journal "$job")" != "$first" ]
}
