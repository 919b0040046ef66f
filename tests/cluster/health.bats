# SPDX-License-Identifier: Apache-2.0
# A node that fails a health check is left out of the round, with the reason.
load lib/suite

setup_file() { cluster_up 5 2 --shm-size 300m --plugin-args job-tmpfs=off; }
teardown_file() { cluster_down; }

# bats test_tags=production
@test "a node whose shared memory is full is left out, and dlrover check says why" {
    on n2 dd if=/dev/zero of=/dev/shm/fill bs=1M status=none || : # until it is full
    run on n2 /opt/dlrover/bin/dlrover check
    [ "$status" -eq 1 ]
    [[ $output == *"disk"*"fail"*"/dev/shm"* ]]
    job_file plain.sh <<'SH'
#!/bin/bash
#SBATCH -o out.%j
srun --mpi=pmix /opt/dlrover/share/dlrover/examples/mpi_plain --iterations 5 --iter-ms 50
SH
    job=$(submit -N5 --dlrover=on --dlrover-spares=1 plain.sh)
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(events "$job" 'select(.event=="plan").places|map(.node)|join(" ")')" = '"n1 n3 n4 n5"' ]
    [ "$(events "$job" 'select(.event=="plan").out[0].node')" = '"n2"' ]
    events "$job" 'select(.event=="plan").out[0].reason' | grep -F "/dev/shm"
    events "$job" 'select(.event=="check" and .verdict=="fail")|[.node,.check]' | grep -Fx '["n2","disk"]'
}
