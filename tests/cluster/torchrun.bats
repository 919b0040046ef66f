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
}
teardown() { heal_cluster; }
teardown_file() { cluster_down; }

place() { events "$1" "select(.event==\"plan\").places[$2].node" | tail -n 1 | tr -d '"'; }
# the job's weights and each of its steps are the undisturbed run's
same_bits() { # RUN REFERENCE
    cmp "$(alice_home)/$1.weights" "$(alice_home)/$2.weights"
    [ "$(cat "$(alice_home)"/{"$1","$2"}.hashes | awk '{print $1, $2}' | sort -u | wc -l)" -eq $STEPS ]
}

@test "torchrun: two workers a node, a node dies, then a worker that torchrun restarts" {
    job=$(submit -N2 --dlrover=off torchrun.sh c10d 2 ref)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    job=$(submit -N3 --dlrover=on --dlrover-spares=1 torchrun.sh c10d 2 run)
    await "$job" "e['event']=='progress' and e['commits']>=3"
    "$VC" kill "$(place "$job" 1)"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="restored").version[1]')" -gt 0 ]
    [ "$(events "$job" 'select(.event=="ranks").world' | sort -u)" = 4 ]
    same_bits run ref

    # torchrun itself restarts all workers, in the same round
    job=$(submit -N2 --dlrover=on torchrun.sh c10d 2 again)
    await "$job" "e['event']=='progress' and e['commits']>=3"
    touch "$(alice_home)/die.3"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="launch").round')" = 0 ]
    [ "$(events "$job" 'select(.event=="restored").version[1]')" -gt 0 ]
    same_bits again ref
}
