# SPDX-License-Identifier: Apache-2.0
# The training job of the tests that compare bits: mpi_train with its weights and hashes in files.
# Loaded after lib/suite; the file that loads it sets STEPS, and name for each test.
# shellcheck shell=bash disable=SC2154

train_file() {
    job_file train.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
steps=$1 name=$2
shift 2
export SLURM_MPI_TYPE=pmix
srun /opt/dlrover/share/dlrover/examples/mpi_train --params small --steps "$steps" \
    --step-ms 100 --save-weights "$name.weights" --hash-log "$name.hashes" "$@"
SH
}

# references NODES...: the undisturbed runs, without the suite, beside each other; each is called ref.NODES
references() {
    local nodes job
    local -a jobs=()
    for nodes; do
        jobs+=("$(submit -N"$nodes" --dlrover=off train.sh "$STEPS" "ref.$nodes" --no-ckpt)")
    done
    for job in "${jobs[@]}"; do
        [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    done
}


# saved JOB [COUNT]: the run has saved, at least COUNT commits were told
saved() { await "$1" "e['event']=='progress' and e['commits']>=${2:-3}" >/dev/null; }

# same_bits REFERENCE: the weights, and one hash for each step of each rank ever computed
same_bits() {
    local ref=$1
    cmp "$(alice_home)/$name.weights" "$(alice_home)/$ref.weights"
    [ "$(cat "$(alice_home)/$name.hashes" "$(alice_home)/$ref.hashes" | awk '{print $1, $2}' | sort -u | wc -l)" -eq "$STEPS" ]
}

# resumed JOB: step of the version that the newest round was restored from
resumed() { events "$1" 'select(.event=="restored").version[1]' | tail -n 1; }
# the newest commit known when the last round but one ended
committed() { events "$1" 'select(.event=="round_end").committed[1]' | tail -n 1; }

no_committed_step_lost() { [ "$(resumed "$1")" -ge "$(committed "$1")" ]; }
