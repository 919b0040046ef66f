# SPDX-License-Identifier: Apache-2.0
# Frameworks that own the training loop (dlrover.frameworks): a worker is killed, then a node; what the training ends
# with and the batches that it saw are those of an undisturbed run, bit for bit.
load lib/suite

STEPS=60
export WAIT=240 # four interpreters import a framework on two cores

setup_file() {
    local venv=${DLROVER_FRAMEWORKS_VENV:-/opt/dlrover-frameworks}
    [ -x "$venv/bin/python" ] || skip "no frameworks in '$venv': scripts/install-deps --frameworks"
    cluster_up 5 5
    # As in the repository: one of them trains what is in examples/.
    mkdir -p "$(alice_home)/tests/python"
    cp "$REPO"/tests/python/*.py "$(alice_home)/tests/python/"
    ln -s /opt/dlrover/share/dlrover/examples "$(alice_home)/examples"
    # Slow enough to be met in the middle, and a rank that ends when its test says so. Without the suite it finds the
    # others as with it.
    job_file paced.py <<'PY'
import os
import runpy
import signal
import sys
import time

from torch.optim.optimizer import register_optimizer_step_post_hook

env = os.environ
for name, slurm in ("RANK", "PROCID"), ("WORLD_SIZE", "NTASKS"), ("LOCAL_RANK", "LOCALID"):
    env.setdefault(name, env[f"SLURM_{slurm}"])
env.setdefault("MASTER_ADDR", env["HEAD"])
env.setdefault("MASTER_PORT", "29517")
mark = f"die.{env['SLURM_JOB_ID']}.{env['RANK']}"


def pace(*_):
    time.sleep(0.2)
    if os.path.exists(mark):
        os.unlink(mark)
        os.kill(os.getpid(), signal.SIGKILL)


register_optimizer_step_post_hook(pace)
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
PY
    # NAME OUT [OPTIONS]: what the training ends with is in OUT
    job_file frameworks.sh <<SH
#!/bin/bash
#SBATCH -o out.%j
export PYTHONPATH=/opt/dlrover/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
export GLOO_SOCKET_IFNAME=eth0 DS_ACCELERATOR=cpu HF_HUB_OFFLINE=1 HF_HOME=\$HOME/hf
export HEAD=\$(scontrol show hostnames "\$SLURM_JOB_NODELIST" | head -n 1)
name=\$1 out=\$2
shift 2
[[ \$name != accelerate ]] || set -- "\$@" --log "\$out.batches"
export DLROVER_CKPT_DIR=\$PWD/ck.\$SLURM_JOB_ID
srun $venv/bin/python paced.py "tests/python/frameworks_\$name.py" --train --steps $STEPS --out "\$out" "\$@"
SH
    # The same by torchrun, two ranks a node, which it starts again itself
    sed "s|^srun .*/python |srun --ntasks-per-node=1 $venv/bin/python -m torch.distributed.run \\\\\n\
    --nnodes=\$SLURM_NNODES --nproc-per-node=2 --max-restarts=3 \\\\\n\
    --rdzv-backend=c10d --rdzv-id=\$SLURM_JOB_ID --rdzv-endpoint=\$HEAD:29500 \\\\\n    |" \
        "$(alice_home)/frameworks.sh" | job_file torchrun.sh
}
teardown() {
    if [[ -z ${BATS_TEST_COMPLETED:-} ]]; then
        tail -n 30 "$(alice_home)/out.$job" "$(alice_home)/out.$((job - 1))" || :
        events "$job" 'select(.event != "progress" and .event != "persist")' | cut -c1-400 || :
    fi
    heal_cluster
}
teardown_file() { cluster_down; }

place() { events "$1" "select(.event==\"plan\").places[$2].node" | tail -n 1 | tr -d '"'; }
saved() { await "$1" "e['event']=='progress' and e['round']==$2 and e['commits']>=1 and e['committed'][0]==$2"; }

# batches JOB OUT: those that its ranks have trained with, each once, as its script writes or prints them
batches() {
    local -a files=("$(alice_home)/$2".batches*)
    if [[ -e ${files[0]} ]]; then cat "${files[@]}"; else output "$1" | grep -E "^(rank [0-9]+ .*)?batch [0-9]"; fi | sort -u
}

# same_bits NAME RUN REFERENCE: what the two jobs wrote at their ends, and the batches, each named by what is in it
same_bits() {
    [ -s "$(alice_home)/$1.run" ]
    cmp "$(alice_home)/$1.run" "$(alice_home)/$1.ref"
    batches "$2" "$1.run" >"$BATS_TEST_TMPDIR/run"
    batches "$3" "$1.ref" >"$BATS_TEST_TMPDIR/ref"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/run")" -ge $STEPS ]
    diff "$BATS_TEST_TMPDIR/run" "$BATS_TEST_TMPDIR/ref"
}

# goes_on TASKS NAME [OPTIONS]: so many on each of two nodes; a rank is killed, then a node, which a spare replaces
goes_on() {
    local tasks=$1 script=$2 name=$2
    shift 2
    name+=$(tr -d ' -' <<<"$*")
    ref=$(submit -N2 --ntasks-per-node="$tasks" --dlrover=off frameworks.sh "$script" "$name.ref" "$@")
    job=$(submit -N3 --ntasks-per-node="$tasks" --dlrover=on --dlrover-spares=1 --dlrover-save=always \
        frameworks.sh "$script" "$name.run" "$@")
    saved "$job" 0
    touch "$(alice_home)/die.$job.1"
    await "$job" "e['event']=='restored' and e['round']==1 and e['version'][1]>0"
    saved "$job" 1
    "$VC" kill "$(place "$job" 1)"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(await_job "$ref")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="round_end").cause' | paste -sd' ')" = '"program" "node"' ]
    [ "$(events "$job" 'select(.event=="restored" and .round==2).version[1]')" -gt 0 ]
    same_bits "$name" "$job" "$ref"
}

# What others cover, too: Lightning, Trainer under torchrun; without a cluster, and with other numbers of ranks,
# tests/python/frameworks.bats.
nightly() { [[ -n ${DLROVER_NIGHTLY-} ]] || skip "one beside it does the same in the check (make nightly)"; }

@test "Trainer: a rank is killed, then a node: the same weights and batches" {
    nightly
    goes_on 1 trainer
}

@test "Trainer under torchrun, two ranks a node: a rank is killed, then a node: the same weights and batches" {
    ref=$(submit -N2 --exclusive --dlrover=off torchrun.sh trainer torchrun.ref)
    job=$(submit -N3 --exclusive --dlrover=on --dlrover-spares=1 --dlrover-save=always torchrun.sh trainer torchrun.run)
    saved "$job" 0
    touch "$(alice_home)/die.$job.1"
    await "$job" "e['event']=='restored' and e['round']==0 and e['version'][1]>0"
    "$VC" kill "$(place "$job" 1)"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(await_job "$ref")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="round_end").cause')" = '"node"' ]
    [ "$(events "$job" 'select(.event=="restored" and .round==1).version[1]')" -gt 0 ]
    same_bits torchrun "$job" "$ref"
}

@test "Accelerate: a rank is killed, then a node: the same weights and batches" {
    nightly
    goes_on 1 accelerate
}

@test "Lightning: a rank is killed, then a node: the same weights and batches" { goes_on 1 lightning; }

@test "DeepSpeed, ZeRO 2: a rank is killed, then a node: the same weights and batches" {
    nightly
    goes_on 1 deepspeed --zero 2
}

@test "DeepSpeed, ZeRO 3: a rank is killed, then a node: the same weights and batches" {
    nightly
    goes_on 1 deepspeed --zero 3
}

@test "Megatron-core: a rank is killed, then a node: the same weights and batches" {
    nightly
    goes_on 2 megatron
}

@test "DeepSpeed, ZeRO 3: a node dies and nobody replaces it: two ranks go on with what three have saved" {
    nightly
    job=$(submit -N3 --dlrover=on --dlrover-nodes=2 --dlrover-save=always "$SHORT_SILENCE" \
        frameworks.sh deepspeed less --zero 3)
    saved "$job" 0
    "$VC" kill "$(place "$job" 1)"
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="restored" and .round==1).version[1]')" -gt 0 ]
    [ "$(events "$job" 'select(.event=="launch" and .round==1).nodes')" = 2 ]
    [ -s "$(alice_home)/less" ]
}
