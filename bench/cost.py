#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What supervision costs while nothing fails, in steps per second.

The same program runs in turn plain, plain again, supervised without saving, and supervised with
saving; BENCH_BLOCKS (8) times, each time in another order, inside one allocation of 2 nodes. A
block's runs are compared with each other only, and the median of the blocks counts. The two plain
runs give the noise floor: what the same comparison says about two things that are equal. Takes
about 50 s for each block.
"""
import os
from statistics import median

from lib.cluster import EXAMPLES, Cluster, Failed, main, read_lines
from lib.rows import median_interval, row, say

BLOCKS = int(os.environ.get("BENCH_BLOCKS", 8))
SKIP = 10  # first steps, in which caches warm up and saving starts
ARMS = {
    "plain": "--dlrover=off {train} --no-ckpt",
    "again": "--dlrover=off {train} --no-ckpt",
    "supervised": "--dlrover=on --dlrover-checkpoint=off {train} --no-ckpt",
    "saving": "--dlrover=on {train}",
}
CASES = {
    # The step of the first computes for as long as it lasts; that of the second is one of a
    # program that waits for a GPU.
    "cpu_bound": "--params small --steps 1200",
    "paced": "--params small --batch 16 --step-ms 20 --steps 300",
}


def order(block):
    """Each arm stands at each place equally often."""
    arms = list(ARMS)
    return arms[block % 4:] + arms[:block % 4]


def script(case, blocks):
    train = f"{EXAMPLES}/mpi_train {CASES[case]}"
    return "\n".join(
        f"srun {ARMS[arm].format(train=train)} --log {case}.{block}.{arm}"
        for block in range(blocks) for arm in order(block))


def speed(path):
    """Steps per second of a run, from the program's own clock."""
    steps = [e for e in read_lines(path) if e["event"] == "step"]
    if len(steps) <= SKIP + 1:
        raise Failed(f"only {len(steps)} steps in {path}")
    last, begin = steps[-1], steps[SKIP]
    return (last["step"] - begin["step"]) / (last["time"] - begin["time"])


def blocks_of(cluster, case):
    return [{arm: speed(f"{cluster.home}/{case}.{block}.{arm}") for arm in ARMS}
            for block in range(BLOCKS)]


def differences(blocks):
    """In percent, for each block: what the second plain run, and each other arm, was slower."""
    out = {"again": [100 * (1 - b["again"] / b["plain"]) for b in blocks]}
    for arm in ("supervised", "saving"):
        out[arm] = [100 * (1 - 2 * b[arm] / (b["plain"] + b["again"])) for b in blocks]
    return out


def report(cluster, case, blocks):
    setup = cluster.setup(f"mpi_train {CASES[case]} on 2 nodes, {len(blocks)} blocks of 4 runs in "
                          f"rotated order, first {SKIP} steps left out")
    slower = differences(blocks)
    # How far from zero the median of as many comparisons of equal things may well lie.
    floor = abs(median(slower["again"])) + (median_interval(slower["again"]) or 0)
    base = median(b["plain"] for b in blocks)
    for arm in ("supervised", "saving"):
        cost = median(slower[arm])
        row(f"cost.{case}.{arm}", cost, "%", setup, ceiling=base,
            ceiling_name="steps/s of a plain srun", ratio=1 - cost / 100, noise=floor,
            steps_per_s=median(b[arm] for b in blocks), interval=median_interval(slower[arm]),
            below_noise=abs(cost) <= floor, blocks=[round(s, 2) for s in slower[arm]],
            what=f"fewer steps/s than a plain srun, {arm}; noise: plain against plain")
    row(f"cost.{case}.plain_again", median(slower["again"]), "%", setup,
        noise=median_interval(slower["again"]), blocks=[round(s, 2) for s in slower["again"]],
        what="the same comparison of plain with plain")
    say(f"{case}: supervised {median(slower['supervised']):+.2f} %, saving "
        f"{median(slower['saving']):+.2f} %, noise floor {floor:.2f} %")


def measure():
    with Cluster(2) as cluster:
        for case in CASES:
            say(f"{case}: {BLOCKS} blocks of 4 runs")
            cluster.run_script(script(case, BLOCKS), "-N2", limit=120 * BLOCKS)
            report(cluster, case, blocks_of(cluster, case))


main(measure)
