# SPDX-License-Identifier: Apache-2.0
# Workers in containers: other user, mount, IPC and PID namespaces, a root of their own, a private
# /dev/shm. The suite's processes stay on the host. bubblewrap stands for pyxis and apptainer.
load lib/suite

setup_file() {
    cluster_up 4 2
    # box [bubblewrap's options] PROGRAM: nothing of ours is inside. What is left when the outer
    # process is killed goes on: it is the agent that has to find it.
    job_file box <<'SH'
#!/bin/bash
exec bwrap --unshare-user --unshare-pid --unshare-ipc --tmpfs / --ro-bind /usr /usr \
    --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
    --ro-bind /proc /proc --dev /dev --tmpfs /dev/shm --bind "$HOME" "$HOME" --chdir "$PWD" "$@"
SH
    chmod +x "$(alice_home)/box"
}
teardown_file() { cluster_down; }
teardown() { heal_cluster; }


# of the newest round: the node at PLACE
place() { events "$1" "select(.event==\"plan\").places[$2].node" | tail -n 1 | tr -d '"'; }

@test "without our library: supervised, restarted, remapped" {
    job_file count.sh <<'SH'
[ -z "$(ls -A /dev/shm)" ] && [ ! -e /opt/dlrover ] || exit 9 # it is a container
for ((i = 0; i < 60; i++)); do
    echo "$DLROVER_ROUND $RANK of $WORLD_SIZE on $SLURMD_NODENAME, master $MASTER_ADDR" >>"ticks.$SLURM_JOB_ID"
    read -rt 0.1 <> <(:) || :
done
echo "rank $RANK ends in round $DLROVER_ROUND"
SH
    job_file plain.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j --dlrover=on --dlrover-spares=1 -N4
srun ./box bash count.sh
echo "srun returned $?"
SH
    job=$(submit plain.sh)
    await "$job" "e['event']=='running' and e['round']==0"
    first=$(place "$job" 0)
    on "$(place "$job" 1)" pkill -KILL -f 'bash count.sh'
    await "$job" "e['event']=='running' and e['round']==1"
    [ "$(events "$job" 'select(.event=="round_end" and .round==0).cause')" = '"program"' ]
    dead=$(place "$job" 2)
    "$VC" kill "$dead"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x "srun returned 0"
    last=$(events "$job" 'select(.event=="launch").round' | tail -n 1)
    [ "$(output "$job" | grep -c "^rank . ends in round $last$")" -eq 3 ]
    # no two rounds ran at once, and the place of the dead node went to the spare
    awk '$1 < last { bad = 1 } { last = $1 } END { exit bad }' "$(alice_home)/ticks.$job"
    [ "$(grep -c "^$last 2 of 3 on $(place "$job" 2), master $first\$" "$(alice_home)/ticks.$job")" -eq 60 ]
    mapfile -t others < <(printf '%s\n' n1 n2 n3 n4 | grep -vx "$dead")
    nothing_left "${others[@]}"
}

@test "with our library mounted: saves, and restores after a death" {
    job_file hello.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j -N4
lib=/opt/dlrover/lib hello=/opt/dlrover/share/dlrover/examples/ckpt_hello
srun ./box --ro-bind $lib $lib --ro-bind $hello $hello bash -c '
    [ -z "$(ls -A /dev/shm)" ] || exit 9
    '$hello' $0 | sed "s/^/rank $RANK: /"; exit ${PIPESTATUS[0]}' "$1"
SH
    job=$(submit --dlrover=on --dlrover-spares=1 hello.sh 2500)
    await "$job" "e['event']=='progress' and e['commits']>=1"
    "$VC" kill "$(place "$job" 1)"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="restored").version[1]')" -gt 0 ]
    [ "$(output "$job" | grep -c '^rank .: from step [1-9]')" -eq 3 ]
    # every rank computes the same, restored or not
    ref=$(alice env DLROVER_CKPT_DIR="$(alice_home)/alone" DLROVER_CKPT_EVERY=1000000 \
        /opt/dlrover/share/dlrover/examples/ckpt_hello 2500 | sed -n 's/.*sum \([^,]*\),.*/\1/p')
    [ "$(output "$job" | sed -n 's/.*sum \([^,]*\),.*/\1/p' | sort -u)" = "$ref" ]
}
