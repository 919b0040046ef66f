#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What copies of snapshots cost a program that needs the same network, with and without --dlrover-set=pace.

Two ranks on two nodes, links shaped to 1 Gb/s both ways. In each step the network rests for 60 ms, as
while a GPU computes, then MPI sums up 4 MB; there are 8 MB of state a rank, saved as often as the last save's
copies are there. The time of a step is compared with that of the same program without saves. The arms run
in turn, BENCH_PACE_BLOCKS (2) times, each time in another order; two of them are without saves, and what
one differs from the other is the noise. Takes about 100 s a block.
"""
import os
import shutil
import statistics
import subprocess
import sys

from lib.cluster import REPO, UID, Cluster, Failed, main, read_lines
from lib.rows import median_interval, row, say

BUILD = os.environ.get("BUILD", f"{REPO}/build")
BLOCKS = int(os.environ.get("BENCH_PACE_BLOCKS", 2))
STATE_MB, IDLE_MS, SUM_MB, STEPS = 8, 60, 4, 160
SKIP = 40  # first steps: slots are made, the pace is learned
RATE = "1gbit"
# name, state in MB, --dlrover-set=pace
ARMS = (("plain", 0, "off"), ("off", STATE_MB, "off"), ("auto", STATE_MB, "auto"),
        ("50m", STATE_MB, "50m"), ("again", 0, "off"))


def shape(cluster):
    """What a node receives passes at this rate from now on."""
    with open(f"{cluster.dir}/room", encoding="utf-8") as f:
        room = f.read().split()[0]
    for node in ("n1", "n2"):
        subprocess.run(["nsenter", "-t", room, "--net", "tc", "qdisc", "replace", "dev", node, "root",
                        "tbf", "rate", RATE, "burst", "256k", "latency", "20ms"], check=True)


def run(cluster, arm):
    name, state, pace = arm
    log = f"{cluster.home}/{name}.log"
    if os.path.exists(log):
        os.unlink(log)
    cluster.run_script(
        "export SLURM_MPI_TYPE=pmix OMPI_MCA_btl=tcp,self OMPI_MCA_pml=ob1 "
        "OMPI_MCA_mpi_yield_when_idle=1\n"
        f"srun --dlrover=on --dlrover-name={name} --dlrover-save=always --dlrover-set=pace={pace} "
        f"/home/alice/reduce {state} {STEPS} {IDLE_MS} {SUM_MB} {name}.log", "-N2")
    steps = [e for e in read_lines(log) if e["event"] == "step"][SKIP:]
    if len(steps) < STEPS // 2:
        raise Failed(f"{name}: only {len(steps)} steps were logged")
    return {"step_ms": statistics.mean(e["ns"] for e in steps) / 1e6,
            "sum_ms": statistics.mean(e["sum_ns"] for e in steps) / 1e6,
            "every": len(steps) / max(1, steps[-1]["saves"] - steps[0]["saves"])}


def report(cluster, blocks):
    setup = cluster.setup(f"{STATE_MB} MB a rank, {SUM_MB} MB summed in each step, network idle for "
                          f"{IDLE_MS} ms of it, 2 nodes, links of {RATE}, {len(blocks)} blocks of "
                          f"{STEPS - SKIP} steps, mean")
    base = [(b["plain"]["step_ms"] + b["again"]["step_ms"]) / 2 for b in blocks]
    noise = max(abs(b["again"]["step_ms"] / b["plain"]["step_ms"] - 1) * 100 for b in blocks)
    row("pace.plain", statistics.median(base), "ms", setup, noise=noise,
        what="a step without saves; noise: percent between two arms of it")
    for name, state, _ in ARMS:
        if not state:
            continue
        longer = [100 * (b[name]["step_ms"] / at - 1) for b, at in zip(blocks, base)]
        row(f"pace.{name}", statistics.median(longer), "%", setup, noise=noise,
            interval=median_interval(longer), step_ms=statistics.median(b[name]["step_ms"] for b in blocks),
            sum_ms=statistics.median(b[name]["sum_ms"] for b in blocks),
            every=statistics.median(b[name]["every"] for b in blocks),
            what=f"longer than a step without saves, --dlrover-set=pace={name}")
        say(f"pace {name}: {statistics.median(longer):+.1f} %, a save every "
            f"{statistics.median(b[name]['every'] for b in blocks):.1f} steps, noise {noise:.1f} %")


def measure():
    subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/reduce"], stdout=sys.stderr,
                   check=True)
    with Cluster(2, 1) as cluster:
        shutil.copy(f"{BUILD}/reduce", cluster.home)
        os.chown(f"{cluster.home}/reduce", UID, UID)
        shape(cluster)
        blocks = []
        for i in range(BLOCKS):
            arms = ARMS[i % len(ARMS):] + ARMS[:i % len(ARMS)]
            blocks.append({arm[0]: run(cluster, arm) for arm in arms})
            say(f"block {i + 1}: " + ", ".join(f"{n} {v['step_ms']:.1f} ms" for n, v in blocks[-1].items()))
        report(cluster, blocks)


main(measure)
