# SPDX-License-Identifier: Apache-2.0
# The memory that snapshots are kept in: a node that has none for what it should restore, and
# what stays of a job that is requeued.
load lib/suite

setup_file() {
    cluster_up 4 1
    # Its ranks add the step to their state and save it, until there is a file called stop.JOB.
    job_file count.py <<'PY'
import os, time
import dlrover
state = bytearray(32768)
with dlrover.Checkpoint() as ck:
    ck.add("w", state)
    step = ck.restore() or 0
    assert state == bytes([step % 251]) * len(state) if step else not any(state)
    while not os.path.exists("stop." + os.environ["SLURM_JOB_ID"]):
        step += 1
        ck.fence()
        state[:] = bytes([step % 251]) * len(state)
        ck.begin(step)
        time.sleep(0.05)
PY
    job_file count.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
export PYTHONPATH=/opt/dlrover/lib/python3/dist-packages
srun python3 count.py
SH
}
teardown_file() { cluster_down; }
teardown() {
    for node in n1 n2 n3 n4; do words "$node" ""; done
    heal_cluster
}

# words NODE WORDS: of the plugin there, for steps that begin from now on, beside those of all tests
words() { on "$1" sed -i "s/ job-tmpfs[^ ]*//g; /dlrover/s/\$/${2:+ $2}/" /etc/slurm/plugstack.conf; }
start() { submit --dlrover=on "$@" count.sh; }
saved() { await "$1" "e['event']=='progress' and e['commits']>=${2:-3}" >/dev/null; }
refused() { ! "$@"; }
finish() {
    alice touch "stop.$1"
    [ "$(await_job "$1")" = "COMPLETED 0:0" ] || { cat "$(alice_home)/out.$1" >&2; return 1; }
}

@test "a spare without room for what it should restore makes way for the next, at once" {
    words n3 job-tmpfs-size=64k
    job=$(start -N4 --dlrover-spares=2 -w n1,n2,n3,n4 --dlrover-set=transfer-timeout=10m)
    saved "$job"
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)')" = '["n1","n2"]' ]
    "$VC" kill n2
    failed=$(await "$job" "e['event']=='copy_failed' and e['to']=='n3'")
    [[ $failed == *"No space left"* ]]
    await "$job" "e['event']=='restored' and e['version'][1]>0" >/dev/null
    events "$job" 'select(.event=="plan")' | tail -n 1 >"$BATS_TEST_TMPDIR/plan"
    jq -e '.places[1].node=="n4" and .restore!=null' "$BATS_TEST_TMPDIR/plan"
    jq -e '.out==[{"node":"n3","reason":.out[0].reason}] and (.out[0].reason|startswith("no room to restore: "))' "$BATS_TEST_TMPDIR/plan"
    finish "$job"
}

kept() { on "$1" test -e "/run/dlrover/3001-$2.kept"; }
mounted() { on "$1" findmnt -rn "/run/dlrover/3001-$2" >/dev/null; }

@test "where the site keeps it, a requeued job goes on from memory; another job there frees it" {
    for node in n1 n2; do words "$node" job-tmpfs-keep=10m; done
    job=$(start -N2 -w n1,n2)
    saved "$job"
    ctl scontrol requeuehold "$job"
    wait_until "kept n1 $job && kept n2 $job"
    mounted n1 "$job" && mounted n2 "$job"
    rm -r "$(alice_home)/.dlrover/job-$job"/*/persist # what SIGTERM has had written: memory is left
    # n1's goes with the first step of somebody else: rank 0 comes from its copy on n2
    ctl srun -N1 -w n1 true
    wait_until "! mounted n1 $job && ! kept n1 $job"
    mounted n2 "$job"
    ctl scontrol release "$job"
    restored=$(await "$job" restored)
    [ "$(jq '.version[1]' <<<"$restored")" -gt 0 ]
    [ -z "$(events "$job" 'select(.event=="copy_failed")')" ]
    refused ls "$(alice_home)/.dlrover/job-$job"/*/persist # there was nothing but memory
    finish "$job"
    wait_until "! mounted n1 $job && ! mounted n2 $job && ! kept n2 $job"
}

# Linux 6.18 numbers namespaces on each CPU and lets nobody mount one that seems older than his
# own (its commit 7d7d16498958): Slurm can make its containers on some CPUs only. slurmd stays on one of those.
containers_can_be_made() {
    on "$1" bash -c 'touch /run/try; for cpu in $(seq 0 "$(($(nproc --all) - 1))"); do
            taskset -c "$cpu" unshare --mount=/run/try true 2>/dev/null || continue
            umount /run/try; exec taskset -acp "$cpu" "$(pgrep -ox slurmd)"
        done; exit 1'
}
# slurm_containers NODE...: each job has a /tmp and a /dev/shm of its own there from now on
slurm_containers() {
    local node
    for node in ctl "$@"; do
        on "$node" sh -c 'printf "%s\n" JobContainerType=job_container/tmpfs PrologFlags=Contain >>/etc/slurm/slurm.conf
            printf "%s\n" AutoBasePath=true BasePath=/run/containers >/etc/slurm/job_container.conf'
    done
    ctl scontrol reconfigure
    for node in "$@"; do "$VC" kill "$node"; done # slurmd reads it when it starts
    for node in "$@"; do "$VC" boot "$node" && containers_can_be_made "$node"; done
}
# inside NODE COMMAND...: in the mount namespace of the job's worker
inside() { on "$1" sh -c 'nsenter -m -t "$(pgrep -of "python3 count.py\$")" -- "$@"' - "${@:2}"; }

# The last one here: the cluster is another from here on.
@test "in a container of Slurm's a job has the same tmpfs, and leaves nothing behind" {
    slurm_containers n1 n2
    on n1 dlrover doctor --checks=container | grep "the job's tmpfs in /run/dlrover is mounted in its container, too"
    job=$(start -N2 -w n1,n2 --dlrover-set=heartbeat=500ms:10) # both nodes may share a CPU
    saved "$job"
    inside n2 touch /dev/shm/inside
    refused on n2 test -e /dev/shm/inside # it is a container
    mounted n2 "$job"
    inside n2 findmnt -rn "/run/dlrover/3001-$job"
    refused inside n2 sh -c 'ls -d /dev/shm/dlrover-*'
    on n2 pkill -KILL -f 'python3 count.py$'
    await "$job" "e['event']=='restored' and e['version'][1]>0" >/dev/null
    # the hooks outside have told the agent inside
    [ "$(events "$job" 'select(.event=="round_end").why')" = '"rank 1 was killed by signal 9 (Killed)"' ]
    [ -z "$(events "$job" 'select(.event=="persist" or .event=="copy_failed")')" ]
    finish "$job"
    no_job_mounts n1 n2
    wait_until "refused on n1 test -e /run/containers/$job && refused on n2 test -e /run/containers/$job"
    nothing_left n1 n2
}
