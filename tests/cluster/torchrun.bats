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
    # A worker that ends at once when its test says so
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


threading.Thread(target=watch, args=("die." + os.environ["RANK"],), daemon=True).start()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
PY
    # RENDEZVOUS (c10d or static), PROCESSES of a node, NAME of what it writes
    job_file torchrun.sh <<SH
#!/bin/bash
#SBATCH -o out.%j
export PYTHONPATH=/opt/dlrover/lib/python3/dist-packages OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0
head=\$(scontrol show hostnames "\$SLURM_JOB_NODELIST" | head -n 1)
way="--rdzv-backend=c10d --rdzv-id=\$SLURM_JOB_ID --rdzv-endpoint=\$head:29500"
[ "\$1" = c10d ] || way="--master-addr=\$head --master-port=29500"
# Else a restart finds the addresses of the workers before it, where not every node counts it (PyTorch 2.15)
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
export WAY=\$way EACH=\$2
srun --ntasks-per-node=1 bash -c 'case \$WAY in --master*) WAY="\$WAY --node-rank=\$SLURM_NODEID" ;; esac
    exec $venv/bin/python -m torch.distributed.run \$WAY --nnodes=\$SLURM_NNODES --nproc-per-node=\$EACH "\$@"' x \\
    --max-restarts=2 mortal.py /opt/dlrover/share/dlrover/examples/torch_train.py --params small \\
    --steps $STEPS --save-weights "\$3.weights" --hash-log "\$3.hashes"
SH
    # A shell that forks two ranks a node, in an order that turns with each round; WHO may be "first": rank 0 alone opens
    job_file forks.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
export WHO=$1
srun --ntasks-per-node=1 bash -c 'node=$SLURM_NODEID
    ((DLROVER_ROUND % 2 == 0)) || node=$((SLURM_NNODES - 1 - node))
    for local in 0 1; do
        RANK=$((node * 2 + local)) WORLD_SIZE=$((SLURM_NNODES * 2)) python3 forked.py &
        ranks+=($!)
    done
    for rank in "${ranks[@]}"; do wait "$rank" || exit; done'
SH
    job_file forked.py <<'PY'
import ctypes
import os
import time

lib = ctypes.CDLL("/opt/dlrover/lib/libdlrover.so")
lib.dlr_ckpt_error.restype = ctypes.c_char_p
rank, ck, step = int(os.environ["RANK"]), ctypes.c_void_p(), ctypes.c_uint64()
state = (ctypes.c_uint64 * 4096)()
if rank and os.environ["WHO"] == "first":
    time.sleep(20)
    raise SystemExit(0)
rc = lib.dlr_ckpt_open(None, ctypes.byref(ck))
assert rc == 0, lib.dlr_ckpt_error(ck)
assert lib.dlr_ckpt_add_array(ck, b"w", 0, b"u64", ctypes.c_size_t(8), state, ctypes.c_size_t(4096)) >= 0
assert lib.dlr_ckpt_restore(ck, ctypes.byref(step)) >= 0, lib.dlr_ckpt_error(ck)
if step.value:
    assert set(state) == {rank * 1000000 + step.value}, (rank, step.value, state[0])
    print(f"rank {rank} has its state on {os.uname().nodename} in round {os.environ['DLROVER_ROUND']}", flush=True)
while not os.path.exists("stop." + os.environ["SLURM_JOB_ID"]):
    if os.environ["DLROVER_ROUND"] == "0" and os.path.exists("die." + os.environ["SLURM_JOB_ID"]):
        raise SystemExit("as the test wants it")
    step.value += 1
    for i in range(4096):
        state[i] = rank * 1000000 + step.value
    lib.dlr_ckpt_begin(ck, step, None)
    time.sleep(0.05)
    lib.dlr_ckpt_fence(ck, None)
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

reference() {
    [ ! -e "$(alice_home)/ref.weights" ] || return 0
    job=$(submit -N2 --dlrover=off torchrun.sh c10d 2 ref)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
}

@test "torchrun (c10d): two workers a node, a node dies" {
    reference
    job=$(submit -N3 --dlrover=on --dlrover-spares=1 torchrun.sh c10d 2 run)
    await "$job" "e['event']=='progress' and e['commits']>=3"
    "$VC" kill "$(place "$job" 1)"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="restored").version[1]')" -gt 0 ]
    [ "$(events "$job" 'select(.event=="ranks").world' | sort -u)" = 4 ]
    same_bits run ref
}

@test "torchrun (c10d): a worker dies, and torchrun restarts all in the same round" {
    reference
    job=$(submit -N2 --dlrover=on torchrun.sh c10d 2 again)
    await "$job" "e['event']=='progress' and e['commits']>=3"
    touch "$(alice_home)/die.3"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="launch").round')" = 0 ]
    [ "$(events "$job" 'select(.event=="restored").version[1]')" -gt 0 ]
    same_bits again ref
}

@test "a shell that forks its ranks in another order in the next round: each finds its own state" {
    job=$(submit -N4 --dlrover=on forks.sh all)
    await "$job" "e['event']=='progress' and e['commits']>=3"
    touch "$(alice_home)/die.$job"
    await "$job" "e['event']=='restored' and e['round']==1 and e['brought']>0"
    await "$job" "e['event']=='progress' and e['round']==1 and e['committed'][0]==1"
    touch "$(alice_home)/stop.$job"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(output "$job" | grep -c "^rank [0-7] has its state on .* in round 1")" -eq 8 ]
}

@test "only rank 0 opens a checkpoint: open ends with a line that names the others" {
    job=$(submit -N2 --dlrover=on --dlrover-restore-timeout=3s --dlrover-max-restarts=0 forks.sh first)
    await_job "$job"
    output "$job" | grep "3 of 4 ranks have not opened their checkpoint: ranks 1-3 (after 3 s, --dlrover-restore-timeout)"
    events "$job" 'select(.event=="ranks_missing").why' | grep "ranks 1-3"
}
