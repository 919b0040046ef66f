# SPDX-License-Identifier: Apache-2.0
# What programs see of their job: nodes, sizes and rank 0 of the round. Programs that start as
# torchrun, JAX and Lightning do find each other after the head node died, then another.
load lib/suite

export WAIT=120 # interpreters import torch on two cores

setup_file() { cluster_up 5 2; }
teardown_file() { cluster_down; }
teardown() { heal_cluster; }

# of the newest round: the node at PLACE
place() { events "$1" "select(.event==\"plan\").places[$2].node" | tail -n 1 | tr -d '"'; }

# meet.py NODES HEAD:PORT [BEATS]: finds rank 0 as the script did, as JAX and as Lightning do, and meets the
# others there three times; then all count beats together. Each variable that these read is looked at whole.
meeting() {
    job_file meet.py <<'PY'
import os, re, socket, subprocess, sys, time
env = os.environ
rank, world = int(env["SLURM_PROCID"]), int(env["SLURM_NTASKS"])

def expanded(nodes):
    return subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True).stdout.split()

def given():
    head, port = sys.argv[2].split(":")
    return head, int(port)

def jax():  # the first host of a list, as its SlurmCluster cuts it out
    nodes = env["SLURM_STEP_NODELIST"]
    assert int(env["SLURM_STEP_NUM_NODES"]) == world, env["SLURM_STEP_NUM_NODES"]
    assert expanded(nodes) == names, nodes
    assert env["SLURM_LOCALID"] == env["LOCAL_RANK"] == "0", env["SLURM_LOCALID"]
    port = int(env["SLURM_JOB_ID"]) % 2**12 + (65535 - 2**12 + 1)
    cut = re.search(r"[,\[]", nodes)
    if not cut:
        return nodes, port
    head, rest = nodes[:cut.start()], nodes[cut.start() + 1:]
    return head if nodes[cut.start()] == "," else head + re.split(r"[,-]", rest)[0], port

def lightning():
    devices, nodes = 1, env["SLURM_NODELIST"]
    assert world == devices * int(sys.argv[1]), (world, sys.argv[1])
    assert expanded(nodes) == names, nodes
    assert "SLURM_NTASKS_PER_NODE" in env, "it wants --ntasks-per-node"
    assert int(env["SLURM_NODEID"]) * devices + int(env["SLURM_LOCALID"]) == rank
    nodes = re.sub(r"\[(.*?)\]", "\\1", re.sub(r"\[(.*?)[,-].*\]", "\\1", nodes))
    return nodes.split(" ")[0].split(",")[0], int(env["MASTER_PORT"])

def meet(head, port):
    if rank == 0:
        door = socket.create_server((head, port))
        return [door.accept()[0] for _ in range(world - 1)]
    while True:
        try:
            return [socket.create_connection((head, port), 5)]
        except ConnectionRefusedError:
            time.sleep(0.05)

names = expanded(env["SLURM_JOB_NODELIST"])
assert names[int(env["SLURM_NODEID"])] == socket.gethostname() == env["SLURMD_NODENAME"], names
assert len(names) == int(env["SLURM_NNODES"]) == int(env["SLURM_JOB_NUM_NODES"])
assert (rank, world) == (int(env["RANK"]), int(env["WORLD_SIZE"]))
peers = []
for way in given, jax, lightning:
    head, port = way()
    assert names[0] == head == env["MASTER_ADDR"], (way, names, head, env["MASTER_ADDR"])
    peers += meet(head, port)
for beat in range(int((sys.argv + [60])[3])):
    for p in peers:
        p.sendall(b"x")
    for p in peers:
        assert p.recv(1) == b"x", "a peer is gone"
    time.sleep(0.1)
print(f"rank {rank} of {world} met the others at {head} in round {env['DLROVER_ROUND']}")
PY
}

@test "the batch script sees who trains, in rank order, and the rest beside it" {
    meeting
    job_file shown.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j -N5 --ntasks-per-node=1 --dlrover=on --dlrover-spares=1
echo "$SLURM_NNODES $SLURM_JOB_NUM_NODES $SLURM_NTASKS $SLURM_TASKS_PER_NODE of $DLROVER_ALL_NODES"
echo "script $(scontrol show hostnames | paste -sd' ')"
echo "KillWait=$DLROVER_KILL_WAIT"
srun --dlrover=off --label hostname | wc -l
srun bash -c 'echo "$RANK $SLURMD_NODENAME"' | sort -n | cut -d' ' -f2 | paste -sd' ' | sed 's/^/ranks /'
srun -N2 -n2 bash -c '[ $RANK = 1 ] || scontrol show hostnames | paste -sd" "' | sed 's/^/two /'
srun -m arbitrary -w n4,n2 bash -c '[ $RANK = 1 ] || echo $SLURMD_NODENAME first of $SLURM_JOB_NODELIST $SLURM_NODELIST $SLURM_STEP_NODELIST'
srun -m arbitrary -w n4,n2 python3 meet.py 2 n4:29400 0 # in an order that is not Slurm's
SH
    # A tree that is not Slurm's: the script's view and the rank map both have it.
    printf 'SwitchName=%s\n' 'a Nodes=n[4-5]' 'b Nodes=n[1-3]' 't Switches=a,b' | job_file net.conf
    job=$(submit --dlrover-set=topology-file="$(alice sh -c 'echo ~')/net.conf" shown.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job" | grep -x '4 4 4 1(x4) of n\[1-5\]'
    output "$job" | grep -x 4
    [ "$(output "$job" | sed -n 's/^script //p')" = "$(output "$job" | sed -n 's/^ranks //p')" ]
    output "$job" | grep -x 'script n4 n5 n1 n2'
    ctl scontrol show config | tr -d ' ' | grep -x "$(output "$job" | grep '^KillWait=[0-9]')sec"
    output "$job" | grep -x 'two n1 n2'
    output "$job" | grep -x 'n4 first of n4,n2 n4,n2 n4,n2' # not as Slurm sorts them
    [ "$(output "$job" | grep -c '^rank . of 2 met the others at n4 in round 0$')" -eq 2 ]
}

@test "scontrol's list, JAX's way, Lightning's way: the head node dies, then another" {
    meeting
    job_file meet.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j -N4 --ntasks-per-node=1 --dlrover=on --dlrover-spares=1
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun python3 meet.py "$SLURM_NNODES" "$head:29400"
echo "srun returned $?"
SH
    job=$(submit meet.sh)
    await "$job" running
    head=$(place "$job" 0)
    "$VC" kill "$head" # the batch host: the job is requeued
    await "$job" "e['event']=='running' and e.get('round',0)>=1"
    other=$(place "$job" 1)
    [ "$other" != "$head" ]
    "$VC" kill "$other"
    state=$(await_job "$job")
    output "$job" # shown when one of these fails
    [ "$state" = "COMPLETED 0:0" ]
    output "$job" | grep -x "srun returned 0"
    last="round $(events "$job" 'select(.event=="launch").round' | tail -n 1)"
    [ "$(output "$job" | grep -c "^rank . of 3 met the others at $(place "$job" 0) in $last$")" -eq 3 ]
    # one run from end to end, though its words named the head
    [ "$(find "$(alice_home)/.dlrover/job-$job" -mindepth 1 -maxdepth 1 -type d | wc -l)" -eq 1 ]
}

# until the job has said TEXT
until_said() { # JOB TEXT
    local limit=$((SECONDS + WAIT))
    until grep -qsxF "$2" "$(alice_home)/out.$1"; do
        ((SECONDS < limit)) || { echo "no '$2' after $WAIT s"; output "$1"; return 1; }
        read -rt 0.2 <> <(:) || :
    done
}

@test "torchrun with --rdzv_endpoint: the head node dies, then another" {
    /usr/bin/python3 -c 'import torch' 2>/dev/null || skip "python3-torch is not installed"
    job_file elastic.py <<'PY'
import os, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
world = dist.get_world_size()
if dist.get_rank() == 0:
    print(f"round {os.environ['DLROVER_ROUND']} is up", flush=True)
for beat in range(30):
    ones = torch.ones(1)
    dist.all_reduce(ones)
    assert ones.item() == world, ones
    time.sleep(0.1)
if dist.get_rank() == 0:
    print(f"{world} workers in round {os.environ['DLROVER_ROUND']}", flush=True)
PY
    job_file torchrun.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j -N3 --dlrover=on --dlrover-spares=1
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Debian's torch 1.13 loses the defaults of --redirects and --tee under Python 3.11
srun --ntasks-per-node=1 torchrun --nnodes="$SLURM_NNODES" --nproc_per_node=2 --redirects=9:1 --tee=9:1 \
    --rdzv_backend=c10d --rdzv_id="$SLURM_JOB_ID" --rdzv_endpoint "$head:29500" elastic.py
echo "srun returned $?"
SH
    job=$(submit "$CALM" torchrun.sh)
    until_said "$job" "round 0 is up"
    head=$(place "$job" 0)
    "$VC" kill "$head"
    until_said "$job" "round 1 is up"
    [ "$(place "$job" 0)" != "$head" ]
    "$VC" kill "$(place "$job" 1)"
    state=$(await_job "$job")
    output "$job" # shown when one of these fails
    [ "$state" = "COMPLETED 0:0" ]
    output "$job" | grep -x "4 workers in round $(events "$job" 'select(.event=="launch").round' | tail -n 1)"
    output "$job" | grep -x "srun returned 0"
    [ "$(events "$job" 'select(.event=="round_end").cause' | sort -u)" = '"node"' ]
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
        "\"an argument of the program is 'n5', a node that is lost: no other can take its place\"" ]
    ctl scancel "$job"
}

@test "bind: the tasks of a node have cores of their own, unless the user asks Slurm for something" {
    [ "$(nproc)" -ge 2 ] || skip "one CPU cannot be divided"
    batch bind.sh "-N2 --ntasks-per-node=2" <<'SH'
show='echo "$1 $SLURMD_NODENAME $SLURM_LOCALID $(taskset -cp $$ | sed "s/.*: //") ${DLROVER_BOUND-no} ${OMP_NUM_THREADS-no} ${DLROVER_BIND-no}"'
srun --dlrover-set=bind=cores bash -c "$show" - cores
srun --dlrover-set=bind=cores --cpu-bind=none bash -c "$show" - asked
srun bash -c "$show" - default
SH
    job=$(submit bind.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    output "$job"
    [ "$(output "$job" | grep -cE '^cores n[1-5] [01] ([0-9,-]+) \1 [0-9]+ no$')" -eq 4 ]
    [ "$(output "$job" | grep '^cores ' | cut -d' ' -f2,4 | sort -u | wc -l)" -eq 4 ]
    [ "$(output "$job" | grep -cE '^(asked|default) n[1-5] [01] [0-9,-]+ no no no$')" -eq 8 ]
    [ "$(output "$job" | grep -E '^(asked|default) ' | cut -d' ' -f4 | sort -u | wc -l)" -eq 1 ]
    output "$job" | grep -xF 'dlrover: --dlrover-set=bind changes nothing: --cpu-bind=none says where tasks run'
}
