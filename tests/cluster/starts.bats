# SPDX-License-Identifier: Apache-2.0
# Starts that are slow, and ends that somebody else wants: what plain Slurm waits for or obeys is waited for
# and obeyed. Limits are set to seconds, so that a prolog of some seconds is a long one.
load lib/suite

setup_file() {
    cluster_up 4 2
    local node
    cc ${VCLUSTER_SLURM:+"-I$VCLUSTER_SLURM/include"} -shared -fPIC -o "$VCLUSTER_DIR/home/slow.so" "$REPO/tests/cluster/lib/slow.c"
    for node in ctl n1 n2 n3 n4; do
        on "$node" sh -c 'echo "optional /home/slow.so" >/etc/slurm/plugstack.new
            cat /etc/slurm/plugstack.conf >>/etc/slurm/plugstack.new
            mv /etc/slurm/plugstack.new /etc/slurm/plugstack.conf
            printf "#!/bin/sh\n! [ -e /run/prolog ] || exec sleep \$(cat /run/prolog)\n" >/etc/slurm/prolog
            chmod 755 /etc/slurm/prolog
            printf "%s\n" Prolog=/etc/slurm/prolog PrologFlags=Alloc >>/etc/slurm/slurm.conf'
    done
    ctl scontrol reconfigure
}
teardown_file() { cluster_down; }
teardown() {
    local node
    for node in n1 n2 n3 n4; do on "$node" rm -f /run/prolog; done
    heal_cluster
}

@test "a prolog longer than the agents' limit: late nodes are waited for, none is given up" {
    batch prolog.sh "-N4 --dlrover-spares=1 --dlrover-set=agent-timeout=2s" <<'SH'
srun bash -c 'echo "rank $RANK on $SLURMD_NODENAME"'
echo "srun returned $?"
SH
    for node in n2 n3 n4; do on "$node" sh -c "echo 5 >/run/prolog"; done
    job=$(submit prolog.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x 'srun returned 0'
    output "$job" | grep -F 'dlrover: 3 of 4 nodes have not reported yet'
    [ -z "$(events "$job" 'select(.event=="node_dead" or .event=="requeue" or .event=="round_end")')" ]
}

@test "one node's prolog is long: the round begins without it, it is a spare later" {
    batch one.sh "-N4 --dlrover-spares=1" <<'SH'
srun bash -c 'echo "rank $RANK on $SLURMD_NODENAME"; exec sleep 300'
SH
    on n2 sh -c "echo 9 >/run/prolog"
    job=$(submit one.sh)
    await "$job" "e['event']=='running'"
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)|join(" ")')" = '"n1 n3 n4"' ]
    await "$job" "e['event']=='node_up' and e['node']=='n2'"
    "$VC" kill n3
    await "$job" "e['event']=='running' and e['round']==1"
    [ "$(events "$job" 'select(.event=="plan" and .round==1).places|map(.node)|sort|join(" ")')" = '"n1 n2 n4"' ]
}

@test "tasks that take longer than the limit, for an image that is brought: the clock stands" {
    batch image.sh "-N2 --dlrover-set=launch-timeout=2s" <<'SH'
srun --container-image IMAGE --job-name=slow5 bash -c 'echo "rank $RANK"'
echo "srun returned $?"
SH
    job=$(submit image.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x 'srun returned 0'
    [ -z "$(events "$job" 'select(.event=="round_end")')" ]
}

@test "a helper that fails by design, a command that is not there, and -K0" {
    batch helper.sh "-N2" <<'SH'
srun -n1 bash -c 'echo x >>one; grep -q x /dev/null'; echo "helper $?"
srun -n1 /no/such/command; echo "command $?"
srun -n2 -K0 bash -c 'echo x >>tasks; [ $RANK -eq 0 ] || exit 3; sleep 2; echo y >>tasks'; echo "tolerant $?"
SH
    rm -f "$(alice_home)"/{one,tasks}
    job=$(submit helper.sh)
    await_job "$job"
    [ "$(wc -l <"$(alice_home)/one")" -le 2 ]
    [ "$(paste -sd' ' "$(alice_home)/tasks")" = 'x x y' ]
    [ "$(output "$job" | grep -E '^(helper|command|tolerant) ' | paste -sd,)" = 'helper 1,command 2,tolerant 3' ]
    [ "$(output "$job" | grep -c 'round 1 ends')" -le 2 ]
    ! output "$job" | grep 'round 2 ends'
}

@test "a node whose kernel lives and where the program fails: its rank moves to the spare" {
    batch bad.sh "-N4 --dlrover-spares=1" <<'SH'
srun bash -c '[ $SLURMD_NODENAME != n2 ] || exit 4; sleep 2; echo "rank $RANK on $SLURMD_NODENAME"'
SH
    job=$(submit bad.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(output "$job" | grep '^rank' | sort | paste -sd,)" = 'rank 0 on n1,rank 1 on n4,rank 2 on n3' ]
}
