# SPDX-License-Identifier: Apache-2.0
"""Jobs of tests/cluster/lib/stamps.py: tasks that tell when they took each step."""
import os
import shutil

from .cluster import REPO, UID

STEPS = 100000000  # never reached


def begin(cluster, *options):
    """A supervised job whose tasks stamp every step and have saved one; its id."""
    path = f"{cluster.home}/stamps.py"
    shutil.copy(f"{REPO}/tests/cluster/lib/stamps.py", path)
    os.chown(path, UID, UID)
    job = cluster.submit(f"srun /usr/bin/python3 stamps.py run stamps.$SLURM_JOB_ID {STEPS} lib",
                         "--dlrover=on", *options)
    cluster.event(job, "a commit", lambda e: e["event"] == "progress" and e["commits"] >= 1)
    return job


def stamps(cluster, job):
    """(round, rank, node, seconds since 1970) of every step."""
    with open(f"{cluster.home}/stamps.{job}", encoding="utf-8") as f:
        for line in f:
            number, rank, node, _, at, _ = line.split()
            yield int(number), int(rank), node, float(at)
