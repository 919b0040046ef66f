# SPDX-License-Identifier: Apache-2.0
# torchrun starts more ranks than Slurm starts tasks, in an order of its own, and restarts its workers itself: the
# final weights are those of an undisturbed run, bit for bit.
load lib/suite

STEPS=60
export WAIT=180 # several interpreters import torch on two cores

setup_file() {
    local venv=${DLROVER_TORCH_VENV:-/opt/dlrover-torch}
    [ -x "$venv/bin/python" ] || skip "no PyTorch in '$venv': scripts/install-deps --torch-venv"
    cluster_up 4 4
    # A worker that ends at once when its test says so, and whose training is slow enough to be met in the middle
    job_file mortal.py <<'PY'
import os
import runpy
import signal
import sys
import threading
import time


def watch(mark):
    while not os.path.exists(mark):
        time.sleep(0.05)
    os.unlink(mark)
    os.kill(os.getpid(), signal.SIGKILL)


if sys.argv[1].endswith("torch_train.py"):
    from torch.optim.optimizer import register_optimizer_step_post_hook
    register_optimizer_step_post_hook(lambda *_: time.sleep(0.2))
threading.Thread(target=watch, args=(f"die.{os.environ['SLURM_JOB_ID']}.{os.environ['RANK']}",), daemon=True).start()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
PY
    # NAME of what it writes
    job_file torchrun.sh <<SH
#!/bin/bash
#SBATCH -o out.%j
export PYTHONPATH=/opt/dlrover/lib/python3/dist-packages OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0
head=\$(scontrol show hostnames "\$SLURM_JOB_NODELIST" | head -n 1)
srun --ntasks-per-node=1 $venv/bin/python -m torch.distributed.run --nnodes="\$SLURM_NNODES" \\
    --rdzv-backend=c10d --rdzv-id="\$SLURM_JOB_ID" --rdzv-endpoint="\$head:29500" \\
    --nproc-per-node=\$((4 / SLURM_NNODES)) --max-restarts=1 mortal.py \\
    /opt/dlrover/share/dlrover/examples/torch_train.py --params small --steps $STEPS \\
    --save-weights "\$1.weights" --hash-log "\$1.hashes"
SH
    # Two models one after the other, of runs that have one name; as many nodes as there are, two workers on each
    job_file elastic.sh <<SH
#!/bin/bash
#SBATCH -o out.%j
export WHO=more GLOO_SOCKET_IFNAME=eth0
for model in 1 2; do
    srun --dlrover-name=train --ntasks-per-node=1 bash -c 'exec $venv/bin/python -m torch.distributed.run --nnodes=1:3 \\
        --rdzv-backend=c10d --rdzv-id="\$SLURM_JOB_ID" --rdzv-endpoint="\$MASTER_ADDR:29500" --rdzv-conf=last_call_timeout=3 \\
        --nproc-per-node=2 --max-restarts=2 mortal.py forked.py "\$0"' \$model || exit
done
SH
    # PROCESSES of a node, which do not need torch
    job_file static.sh <<SH
#!/bin/bash
#SBATCH -o out.%j
export EACH=\$1 WHO=all
srun --ntasks-per-node=1 bash -c 'exec $venv/bin/python -m torch.distributed.run --nnodes="\$SLURM_NNODES" \\
    --rdzv-backend=static --master-addr="\$MASTER_ADDR" --master-port="\$MASTER_PORT" \\
    --node-rank="\$SLURM_NODEID" --nproc-per-node="\$EACH" --max-restarts=1 forked.py'
SH
    # LAUNCHER.. of two ranks on each node, which end by themselves in the first round
    job_file launch.sh <<SH
#!/bin/bash
#SBATCH -o out.%j
export WHO=launcher PATH=$venv/bin:\$PATH
srun --ntasks-per-node=1 "\$@" forked.py
SH
    # A shell that forks two ranks a node, in an order that turns with each round. WHO: "first": rank 0 alone opens;
    # "more": they are three a node from the second round on, with one state
    job_file forks.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
export WHO=$1
srun --ntasks-per-node=1 bash -c 'node=$SLURM_NODEID
    ((DLROVER_ROUND % 2 == 0)) || node=$((SLURM_NNODES - 1 - node))
    each=2
    [[ $WHO != more || $DLROVER_ROUND == 0 ]] || each=3
    for ((local = 0; local < each; local++)); do
        RANK=$((node * each + local)) WORLD_SIZE=$((SLURM_NNODES * each)) python3 forked.py &
        ranks+=($!)
    done
    for rank in "${ranks[@]}"; do wait "$rank" || exit; done'
SH
    job_file forked.py <<'PY'
import ctypes
import os
import sys
import time

env = os.environ
who, job = env["WHO"], env["SLURM_JOB_ID"]
dies = env["DLROVER_ROUND"] == "0" and env.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
rank = int(env.get("OMPI_COMM_WORLD_RANK") or env["RANK"])
model = next((int(word) for word in sys.argv[1:] if word.isdecimal()), 0)  # each has another size and other values
items, mine = 4096 + model, model << 32 | (0 if who == "more" else rank * 1000000)
kind = 1 if who == "more" else 0  # the same on all ranks
lib = ctypes.CDLL("/opt/dlrover/lib/libdlrover.so")
lib.dlr_ckpt_error.restype = ctypes.c_char_p
ck, step = ctypes.c_void_p(), ctypes.c_uint64()
state = (ctypes.c_uint64 * items)()
if rank and who == "first":
    time.sleep(20)
    raise SystemExit(0)
print(f"rank {rank} comes", flush=True)
while rank == 0 and os.path.exists("hold." + job):
    time.sleep(0.05)
rc = lib.dlr_ckpt_open(None, ctypes.byref(ck))
assert rc == 0, lib.dlr_ckpt_error(ck)
assert lib.dlr_ckpt_add_array(ck, b"w", kind, b"u64", ctypes.c_size_t(8), state, ctypes.c_size_t(items)) >= 0
assert lib.dlr_ckpt_restore(ck, ctypes.byref(step)) >= 0, lib.dlr_ckpt_error(ck)
if step.value:
    assert set(state) == {mine + step.value}, (rank, step.value, state[0])
    print(f"rank {rank} has its state on {os.uname().nodename} in round {env['DLROVER_ROUND']}", flush=True)
last = step.value + 40 if who == "launcher" else 1 << 60
while step.value < last and not any(map(os.path.exists, (f"stop.{job}", f"stop.{job}.{model}"))):
    if dies and os.path.exists("die." + job):
        raise SystemExit("as the test wants it")
    step.value += 1
    for i in range(items):
        state[i] = mine + step.value
    lib.dlr_ckpt_begin(ck, step, None)
    time.sleep(0.05)
    lib.dlr_ckpt_fence(ck, None)
if dies and who == "launcher":
    raise SystemExit("as the test wants it")
lib.dlr_ckpt_close(ck)
PY
}
teardown() { heal_cluster; }
teardown_file() { cluster_down; }

place() { events "$1" "select(.event==\"plan\").places[$2].node" | tail -n 1 | tr -d '"'; }
# the job's weights and each of its steps are the undisturbed run's
same_bits() { # RUN REFERENCE
    cmp "$(alice_home)/$1.weights" "$(alice_home)/$2.weights"
    [ "$(cat "$(alice_home)"/{"$1","$2"}.hashes | awk '{print $1, $2}' | sort -u | wc -l)" -eq $STEPS ]
}

# forked.py's ranks that have found their state in this round, once or more often: torchrun restarts them as it likes,
# and runs them with -u, so that two of them may share a line
found() { output "$1" | grep -oE "rank [0-9]+ has its state on [^ ]+ in round $2" | cut -d' ' -f2 | sort -u | wc -l; }
saved() { await "$1" "e['event']=='progress' and e['commits']>=3"; }
# saved_and_die JOB..: forked.py's ranks end when they have saved
saved_and_die() { for job; do saved "$job" && touch "$(alice_home)/die.$job"; done; }

@test "torchrun (c10d): a worker dies and torchrun restarts all in the same round, until it gives up; then a node dies" {
    ref=$(submit -N1 --exclusive --dlrover=off torchrun.sh ref)
    job=$(submit -N3 --exclusive --dlrover=on --dlrover-spares=1 torchrun.sh run)
    saved "$job"
    touch "$(alice_home)/die.$job.3"
    await "$job" "e['event']=='restored' and e['round']==0 and e['version'][1]>0"
    touch "$(alice_home)/die.$job.3"
    await "$job" "e['event']=='restored' and e['round']==1 and e['version'][1]>0"
    "$VC" kill "$(place "$job" 1)"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(await_job "$ref")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="launch").round' | paste -sd' ')" = "0 1 2" ]
    [ "$(events "$job" 'select(.event=="ranks").world' | sort -u)" = 4 ]
    events "$job" 'select(.event=="round_end")'
    [ "$(events "$job" 'select(.event=="round_end").cause' | paste -sd' ')" = '"program" "node"' ]
    events "$job" 'select(.event=="round_end" and .round==0)|.why,.restarts' | paste -sd' ' |
        grep -x '"rank [01] exited with code 1" 0' # torchrun's own restarts have cost none
    [ "$(events "$job" 'select(.event=="restored" and .round==2).version[1]')" -gt 0 ]
    same_bits run ref
}

@test "torchrun (static): one and four workers a node, which it restarts in the same round" {
    for each in 1 4; do jobs+=("$(submit -N2 --dlrover=on static.sh "$each")"); done
    saved_and_die "${jobs[@]}"
    for job in "${jobs[@]}"; do
        await "$job" "e['event']=='restored' and e['round']==0 and e['version'][1]>0"
        touch "$(alice_home)/stop.$job"
        [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    done
    for job in "${jobs[@]}"; do output "$job"; done
    [ "$(found "${jobs[0]}" 0) $(found "${jobs[1]}" 0)" = "2 8" ]
}

@test "torchrun MIN:MAX: it restarts a worker while the supervisor is killed; another model, then a node less" {
    job=$(submit -N3 --dlrover=on --dlrover-nodes=2 "$CALM" elastic.sh)
    saved "$job"
    touch "$(alice_home)/hold.$job" "$(alice_home)/die.$job.1"
    wait_until '[ "$(output "$job" | grep -o "rank [0-9]* comes" | wc -l)" -eq 12 ]'
    on "$(ctl squeue -h -j "$job" -o %B)" pkill -KILL -x dlrover-supervi # while five ranks wait for the sixth
    await "$job" adopted
    rm "$(alice_home)/hold.$job"
    await "$job" "e['event']=='restored' and e['round']==0 and e['version'][1]>0"
    wait_until '[ "$(found "$job" 0)" -eq 6 ]' # the word about it comes first
    [ -z "$(events "$job" 'select(.event=="round_end")')" ]
    touch "$(alice_home)/stop.$job.1"
    await "$job" "e['event']=='start' and e['run']=='train+1'"
    wait_until 'events "$job" "select(.event==\"progress\" and .commits>=3).round" | grep -q 0'
    "$VC" kill "$(place "$job" 2)"
    await "$job" "e['event']=='progress' and e['round']==1 and e['committed'][0]==1"
    wait_until '[ "$(found "$job" 1)" -eq 4 ]' # torchrun may have begun with one node
    touch "$(alice_home)/stop.$job"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    worlds=$(events "$job" 'select(.event=="ranks").world' | paste -sd' ')
    [[ $worlds == 6*4 ]]
    [ "$(events "$job" 'select(.event=="round_end").cause')" = '"node"' ] # no rank found the other model's state
}

@test "launchers of two ranks on each node: mpirun, deepspeed, accelerate on two" {
    python=${DLROVER_TORCH_VENV:-/opt/dlrover-torch}/bin/python
    jobs=("$(submit -N1 --dlrover=on launch.sh mpirun -n 2 --oversubscribe python3)")
    ! "$python" -c 'import deepspeed' 2>/dev/null || jobs+=("$(submit -N1 --dlrover=on launch.sh \
        "$python" -m deepspeed.launcher.runner --num_gpus 2)")
    ! "$python" -c 'import accelerate' 2>/dev/null || jobs+=("$(submit -N2 --dlrover=on launch.sh bash -c "exec $python \
        -m accelerate.commands.launch --multi_gpu --num_machines 2 --num_processes 4 --machine_rank \$SLURM_NODEID \
        --main_process_ip \$MASTER_ADDR --main_process_port \$MASTER_PORT --rdzv_backend static \
        --mixed_precision no --dynamo_backend no \"\$@\"" bash)")
    for job in "${jobs[@]}"; do
        [ "$(await_job "$job")" = "COMPLETED 0:0" ]
        [ "$(found "$job" 1)" -eq $((2 * $(events "$job" 'select(.event=="launch" and .round==1).nodes'))) ]
    done
    [ ${#jobs[@]} -eq 3 ] || skip "tried without accelerate and deepspeed, which are not both in $python"
}

@test "a shell that forks ranks in another order, or more of them, in the next round: each finds its state" {
    jobs=("$(submit -N4 --dlrover=on forks.sh all)" "$(submit -N2 --dlrover=on forks.sh more)")
    saved_and_die "${jobs[@]}"
    await "${jobs[0]}" "e['event']=='restored' and e['round']==1 and e['fetched']>0"
    for job in "${jobs[@]}"; do
        await "$job" "e['event']=='progress' and e['round']==1 and e['committed'][0]==1"
        touch "$(alice_home)/stop.$job"
        [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    done
    [ "$(found "${jobs[0]}" 1) $(found "${jobs[1]}" 1)" = "8 6" ]
}

@test "only rank 0 opens a checkpoint: open ends with a line that names the others" {
    job=$(submit -N2 --dlrover=on --dlrover-set=restore-timeout=3s --dlrover-max-restarts=0 forks.sh first)
    await_job "$job"
    output "$job" | grep "3 of 4 ranks have not opened their checkpoint: ranks 1-3 (after 3 s, --dlrover-set=restore-timeout)"
    events "$job" 'select(.event=="ranks_missing").why' | grep "ranks 1-3"
}
