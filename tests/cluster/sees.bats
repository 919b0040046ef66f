# SPDX-License-Identifier: Apache-2.0
# What programs see of their job: nodes, sizes and rank 0 of the round. Programs that start as
# torchrun, JAX and Lightning do find each other after the head node died, then another.
load lib/suite

export WAIT=120 # interpreters import torch on two cores

setup_file() { cluster_up 5 2; }
teardown_file() { cluster_down; }
teardown() { heal_cluster; }

output() { cat "$(alice_home)/out.$1"; }
# of the newest round: the node at PLACE
place() { events "$1" "select(.event==\"plan\").places[$2].node" | tail -n 1 | tr -d '"'; }

# meet.py HOW: finds rank 0 as HOW does, meets the others there, counts beats with all of them
meeting() {
    job_file meet.py <<'PY'
import os, re, socket, subprocess, sys, time
env, how = os.environ, sys.argv[1]

def jax_first(nodes):  # the first host of a list, as jax's SlurmCluster cuts it out
    cut = re.search(r"[,\[]", nodes)
    if not cut:
        return nodes
    head, rest = nodes[:cut.start()], nodes[cut.start() + 1:]
    return head if nodes[cut.start()] == "," else head + re.split(r"[,-]", rest)[0]

def lightning_first(nodes):
    nodes = re.sub(r"\[(.*?)[,-].*\]", "\\1", nodes)
    nodes = re.sub(r"\[(.*?)\]", "\\1", nodes)
    return nodes.split(" ")[0].split(",")[0]

rank, world = int(env["SLURM_PROCID"]), int(env["SLURM_NTASKS"])
if how == "jax":
    head = jax_first(env["SLURM_STEP_NODELIST"])
    port = int(env["SLURM_JOB_ID"]) % 2**12 + (65535 - 2**12 + 1)
    assert int(env["SLURM_STEP_NUM_NODES"]) == world, env["SLURM_STEP_NUM_NODES"]
elif how == "lightning":
    devices, nodes = 1, int(sys.argv[2])
    head, port = lightning_first(env["SLURM_NODELIST"]), int(env["MASTER_PORT"])
    assert world == devices * nodes, (world, nodes)
    assert "SLURM_NTASKS_PER_NODE" in env, "it wants --ntasks-per-node"
    assert int(env["SLURM_NODEID"]) * devices + int(env["SLURM_LOCALID"]) == rank
else:  # the head that the script has found
    head, port = sys.argv[2].split(":")
    port = int(port)
names = subprocess.run(["scontrol", "show", "hostnames", env["SLURM_JOB_NODELIST"]],
                       capture_output=True, text=True, check=True).stdout.split()
assert names[int(env["SLURM_NODEID"])] == socket.gethostname() == env["SLURMD_NODENAME"], names
assert len(names) == int(env["SLURM_NNODES"]) == int(env["SLURM_JOB_NUM_NODES"])
assert names[0] == head == env["MASTER_ADDR"], (names, head, env["MASTER_ADDR"])
assert (rank, world) == (int(env["RANK"]), int(env["WORLD_SIZE"]))

if rank == 0:
    door = socket.create_server((head, port))
    peers = [door.accept()[0] for _ in range(world - 1)]
else:
    peers = None
    while not peers:
        try:
            peers = [socket.create_connection((head, port), 5)]
        except ConnectionRefusedError:
            time.sleep(0.05)
for beat in range(60):
    for p in peers:
        p.sendall(b"x")
    for p in peers:
        assert p.recv(1) == b"x", "a peer is gone"
    time.sleep(0.1)
print(f"rank {rank} of {world} met the others at {head} in round {env['DLROVER_ROUND']}")
PY
}

# The head node dies (the batch host: the job is requeued), then, in the second life, another.
head_then_another() { # JOB TASKS
    local job=$1 tasks=$2 head other
    await "$job" running
    head=$(place "$job" 0)
    "$VC" kill "$head"
    await "$job" "e['event']=='running' and e.get('round',0)>=1"
    other=$(place "$job" 1)
    [ "$other" != "$head" ]
    "$VC" kill "$other"
    state=$(await_job "$job")
    output "$job" # shown when one of these fails
    [ "$state" = "COMPLETED 0:0" ]
    output "$job" | grep -x "srun returned 0"
    [ "$(output "$job" | grep -c "^rank . of $tasks met the others at $(place "$job" 0) in round 2$")" -eq "$tasks" ]
    # one run from end to end, though its words named the head
    [ "$(ls -d "$(alice_home)/.dlrover/job-$job"/*/ | wc -l)" -eq 1 ]
}

@test "the batch script sees who trains, in rank order, and the rest beside it" {
    job_file shown.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j -N5 --ntasks-per-node=1 --dlrover=on --dlrover-spares=1
echo "$SLURM_NNODES $SLURM_JOB_NUM_NODES $SLURM_NTASKS $SLURM_TASKS_PER_NODE of $DLROVER_ALL_NODES"
echo "script $(scontrol show hostnames | paste -sd' ')"
srun --dlrover=off --label hostname | wc -l
srun bash -c 'echo "$RANK $SLURMD_NODENAME"' | sort -n | cut -d' ' -f2 | paste -sd' ' | sed 's/^/ranks /'
srun -N2 -n2 bash -c '[ $RANK = 1 ] || scontrol show hostnames | paste -sd" "' | sed 's/^/two /'
SH
    job=$(submit shown.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x '4 4 4 1(x4) of n\[1-5\]'
    output "$job" | grep -x 4
    [ "$(output "$job" | sed -n 's/^script //p')" = "$(output "$job" | sed -n 's/^ranks //p')" ]
    output "$job" | grep -x 'script n1 n2 n4 n5'
    output "$job" | grep -x 'two n1 n4'
}

@test "a list made with scontrol: the head node dies, then another" {
    meeting
    job_file head.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j -N4 --dlrover=on --dlrover-spares=1
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun python3 meet.py given "$head:29400"
echo "srun returned $?"
SH
    job=$(submit head.sh)
    head_then_another "$job" 3
}

@test "JAX's way: the head node dies, then another" {
    meeting
    job_file jax.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j -N4 --dlrover=on --dlrover-spares=1
srun python3 meet.py jax
echo "srun returned $?"
SH
    job=$(submit jax.sh)
    head_then_another "$job" 3
}

@test "Lightning's way: the head node dies, then another" {
    meeting
    job_file lightning.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j -N4 --ntasks-per-node=1 --dlrover=on --dlrover-spares=1
srun python3 meet.py lightning "$SLURM_NNODES"
echo "srun returned $?"
SH
    job=$(submit lightning.sh)
    head_then_another "$job" 3
}

@test "words and variables that name a node: its successor in its place, else a requeue" {
    job_file words.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j -N5 --dlrover=on --dlrover-spares=1
last=$(scontrol show hostnames | tail -n 1)
export STORE_HOST=$last
srun bash -c 'echo "round $DLROVER_ROUND: $*, $STORE_HOST, $MASTER_ADDR" >>words.$RANK
    read -rt 6 <> <(:); true' x --master_addr "$last" "tcp://$last:1" "$@"
SH
    job=$(submit words.sh)
    await "$job" running
    "$VC" kill "$(place "$job" 3)"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    new=$(place "$job" 3)
    grep -x "round 1: --master_addr $new tcp://$new:1, $new, $(place "$job" 0)" "$(alice_home)/words.0"
    [ "$(events "$job" 'select(.event=="renamed")|.to')" = "\"$new\"" ]

    heal_cluster
    job=$(submit words.sh n5)
    await "$job" running
    [ "$(place "$job" 3)" = n5 ]
    "$VC" kill n5
    await "$job" requeue
    [ "$(events "$job" 'select(.event=="requeue").why')" = \
        "\"a word of the program is 'n5', a node that is lost: no other can take its place\"" ]
    ctl scancel "$job"
}
