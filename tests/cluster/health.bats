# SPDX-License-Identifier: Apache-2.0
# A node that fails a health check is left out of the round, with the reason.
load lib/suite

setup_file() { cluster_up 5 2 --shm-size 300m --plugin-args job-tmpfs=off; }
teardown_file() { cluster_down; }

# bats test_tags=production
@test "a node whose shared memory is full is left out, and dlrover check says why" {
    on n2 dd if=/dev/zero of=/dev/shm/fill bs=1M status=none || : # until it is full
    run on n2 /opt/dlrover/bin/dlrover check
    [ "$status" -eq 1 ]
    [[ $output == *"disk"*"fail"*"/dev/shm"* ]]
    job_file plain.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
srun --mpi=pmix /opt/dlrover/share/dlrover/examples/mpi_plain --iterations 5 --iter-ms 50
SH
    job=$(submit -N5 --dlrover=on --dlrover-spares=1 plain.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)|join(" ")')" = '"n1 n3 n4 n5"' ]
    [ "$(events "$job" 'select(.event=="plan").out[0].node')" = '"n2"' ]
    events "$job" 'select(.event=="plan").out[0].reason' | grep -F "/dev/shm"
    events "$job" 'select(.event=="check" and .verdict=="fail")|[.node,.check]' | grep -Fx '["n2","disk"]'
}

@test "a node whose link is slow is named by the others and left out, and links are written down" {
    job_file slow.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
touch "started.$SLURM_JOB_ID"
until [ -e "go.$SLURM_JOB_ID" ]; do read -rt 0.1 <> <(:) || :; done
srun --mpi=pmix /opt/dlrover/share/dlrover/examples/mpi_plain --iterations 5 --iter-ms 50
SH
    job=$(submit -N4 -w n1,n3,n4,n5 --dlrover=on --dlrover-spares=1 --dlrover-set=network-check=first slow.sh)
    wait_until '[ -e "$(alice_home)/started.$job" ]' # or slurmctld has no word of n3 for long, and starts nothing there
    slow_link n3
    touch "$(alice_home)/go.$job"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    full_link n3
    [ "$(events "$job" 'select(.event=="plan").out[0].node')" = '"n3"' ]
    events "$job" 'select(.event=="plan").out[0].reason' | grep -E '^"network: at best of [0-9] nodes it (sends|gets) [0-9] MB/s, [0-9]+ are usual"$'
    # every pair that met is there, with the slow node's bandwidth beside the others'
    links=$(jq -c . "$(dirname "$(journal "$job")")/links.jsonl")
    [ "$(jq -c '[.v, .round, (.nodes|sort)]' <<<"$links")" = '[2,0,["n1","n3","n4","n5"]]' ]
    jq -e '(.nodes|index("n3")) as $slow | [.links[]|select(.[0]==$slow or .[1]==$slow)|[.[3],.[4]]|min]|max < 10' <<<"$links"
    [ "$(events "$job" 'select(.event=="links").pairs')" = "$(jq '.links|length' <<<"$links")" ]
}

@test "an injected fault leaves a node out, and everybody is told that it is none" {
    job_file inject.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
DLROVER_INJECT=n3:memory=drain,n4:edac.corrected=1e6,n5:pcie.width=16 srun --mpi=pmix /opt/dlrover/share/dlrover/examples/mpi_plain --iterations 5 --iter-ms 50
DLROVER_INJECT=n3:memroy=fail srun --mpi=pmix hostname
SH
    job=$(submit -N4 -w n1,n3,n4,n5 --dlrover=on --dlrover-spares=1 inject.sh)
    [[ $(await_job "$job") == FAILED* ]] # by the word that cannot be obeyed
    faults=n3:memory=drain,n4:edac.corrected=1e6,n5:pcie.width=16
    output "$job" | grep -F "faults are injected (DLROVER_INJECT): $faults"
    output "$job" | grep -F "DLROVER_INJECT: 'memroy' is no check"
    cat "$(alice_home)"/.dlrover/job-"$job"/*/events.jsonl >"$BATS_TEST_TMPDIR/events"
    [ "$(jq -rs '[.[]|select(.event=="inject")][0].faults' "$BATS_TEST_TMPDIR/events")" = "$faults" ]
    [ "$(jq -rs '[.[]|select(.event=="plan")][0].places|map(.node)|join(" ")' "$BATS_TEST_TMPDIR/events")" = "n1 n4 n5" ]
    jq -rs '[.[]|select(.event=="plan")][0].out[0]|.node+" "+.reason' "$BATS_TEST_TMPDIR/events" |
        grep -E "^n3 memory: injected; [0-9.]+ of [0-9.]+ GiB"
    [ "$(jq -rs '[.[]|select(.event=="check" and .verdict=="drain")][0]|has("drain")' "$BATS_TEST_TMPDIR/events")" = false ]
    alice /opt/dlrover/bin/dlrover events "$job" --event=check | tee "$BATS_TEST_TMPDIR/told" |
        grep -F "check 'memory' of n3: drain: injected"
    # a number has the check's own verdict, and is told also where it is fine
    grep -F "check 'edac' of n4: warn: injected; 1000000 corrected memory errors in " "$BATS_TEST_TMPDIR/told"
    grep -F "check 'pcie' of n5: ok: injected; " "$BATS_TEST_TMPDIR/told"
}

# Time passes for the history of a node: what it has is so many seconds older.
age() { # NODE SECONDS
    awk -v s="$2" '{ $1 -= s; $2 -= s; print }' "$VCLUSTER_DIR/hosts/$1/spool/dlrover-health/$1" >"$BATS_TEST_TMPDIR/aged"
    cat "$BATS_TEST_TMPDIR/aged" >"$VCLUSTER_DIR/hosts/$1/spool/dlrover-health/$1"
}

# plant NODE: an uncorrected memory error in what the check reads there
plant() { on "$1" sh -c 'mkdir -p /tmp/bad/sys/devices/system/edac/mc/mc0 && echo 7 >/tmp/bad/sys/devices/system/edac/mc/mc0/ue_count'; }

check_slurm() { on "$1" env SLURMD_NODENAME="$1" /opt/dlrover/bin/dlrover check --slurm --checks=edac --root=/tmp/bad; }

state_of() { ctl sinfo -h -N -n "$1" -o '%T %E'; }

comment_of() { ctl sinfo -h -N -n "$1" -O Comment:256; }

@test "a broken node drains itself with the reason, and a fault of all nodes drains nobody" {
    local node checks=()
    plant n3
    wait_until '[ "$(state_of n3)" = "idle none" ]' # of the jobs before
    ctl scontrol update NodeName=n3 Comment="rack 3"
    check_slurm n3 # once is not enough
    [ "$(state_of n3)" = "idle none" ]
    age n3 60
    run check_slurm n3
    [ "$status" -eq 1 ]
    [ "$(state_of n3)" = "drained dlrover: check=edac, 7 uncorrected memory errors since boot, limit 0" ] ||
        { state_of n3; false; }
    for node in n1 n2 n4 n5; do plant "$node" && check_slurm "$node" && age "$node" 60; done
    for node in n1 n2 n4 n5; do check_slurm "$node" & checks+=($!); done
    wait "${checks[@]}" # not for bats's own clock, too
    ctl sinfo -R
    [[ $(ctl sinfo -h -N -o %T) != *drain* ]]
    comment_of n3 | grep -E '^dlrover: site fault\? check=edac, 7 uncorrected .* // rack 3 *$'
    on n3 env SLURMD_NODENAME=n3 /opt/dlrover/bin/dlrover check --history | grep -F "(drain)"
    # repaired, on all nodes: who carries the word takes it away
    check_slurm n3
    on n3 rm -rf /tmp/bad
    on n3 mkdir -p /tmp/bad/sys/devices/system/edac/mc/mc0
    on n3 sh -c 'echo 0 >/tmp/bad/sys/devices/system/edac/mc/mc0/ue_count'
    for _ in 1 2 3; do age n3 400 && check_slurm n3; done
    [[ $(comment_of n3) =~ ^"rack 3"\ *$ ]]
    ctl scontrol update NodeName=n3 Comment=
    [[ ! $(comment_of n3) =~ rack ]]
}

# All nodes are in service again, and know nothing of what was.
fresh() {
    local node
    for node in n1 n2 n3 n4 n5; do on "$node" rm -rf /tmp/bad /var/spool/dlrover-health; done
    ctl scontrol update nodename=ALL state=resume || : # of some it is no change, which is an error
    wait_until '[ -z "$(ctl sinfo -h -N -o %T | grep -v idle)" ]'
}

# install_script NODE: as a site does it, for the fault that is planted
install_script() {
    on "$1" sh -c 'sed "s|^PATH=.*|PATH=/opt/dlrover/bin:$0|; s|--slurm|--slurm --checks=edac --root=/tmp/bad|" \
        /opt/dlrover/share/dlrover/etc/dlrover-health-check >/tmp/health && chmod 755 /tmp/health' "$PATH"
}

# configure LINE...: more of slurm.conf, on all hosts
configure() {
    local host
    for host in ctl n1 n2 n3 n4 n5; do
        on "$host" sh -c 'printf "%s\n" "$@" >>/etc/slurm/slurm.conf' sh "$@"
    done
    ctl scontrol reconfigure
}

@test "as Prolog it keeps a job from a node that it drains, and no other Prolog fails" {
    local node
    fresh
    for node in n1 n2 n3 n4 n5; do install_script "$node"; done
    configure Prolog=/tmp/health PrologFlags=Alloc
    [ "$(alice srun -N5 hostname | sort | paste -sd' ')" = "n1 n2 n3 n4 n5" ]
    plant n5
    check_slurm n5
    age n5 60
    printf '#!/bin/bash\n#SBATCH -o out.%%j\nhostname\n' | job_file host.sh
    job=$(submit -N1 -x n1,n2,n3,n4 host.sh)
    wait_until '[[ $(ctl sinfo -h -n n5 -o %T) == drained ]]'
    [ "$(state_of n5)" = "drained dlrover: check=edac, 7 uncorrected memory errors since boot, limit 0" ]
    wait_until '[[ $(ctl squeue -h -j '"$job"' -o %T) == PENDING ]]' # it has not run there
    [ ! -s "$(alice_home)/out.$job" ]
    ctl scancel "$job"
    for node in ctl n1 n2 n3 n4 n5; do on "$node" sed -i /^Prolog/d /etc/slurm/slurm.conf; done
    ctl scontrol reconfigure
}

@test "slurmd runs it as HealthCheckProgram, and all at once drain nobody for long" {
    local node
    fresh
    for node in n1 n2 n3 n4 n5; do
        plant "$node"
        install_script "$node"
    done
    configure HealthCheckProgram=/tmp/health HealthCheckInterval=5
    for node in n1 n2 n3 n4 n5; do
        wait_until '[ -s "$VCLUSTER_DIR/hosts/'"$node"'/spool/dlrover-health/'"$node"'" ]'
    done
    # half a minute later all of them know
    wait_until '[ "$(ctl sinfo -h -N -o %T | grep -c drain)" = 0 ] && ctl sinfo -h -N -O Comment:256 | grep -qF "site fault? check=edac"'
}
