#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What supervision costs while nothing fails, in steps per second.

The same program runs in turn plain, plain again, supervised without saving, and supervised with
saving; BENCH_BLOCKS (6) times, each time in another order, inside one allocation of 2 nodes. A
block's runs are compared with each other only, and the median of the blocks counts. The two plain
runs give the noise floor: what the same comparison says about two things that are equal.

A closer look at the part that is felt all the time, supervisor and agents at work: within one
supervised run they are stopped (SIGSTOP) for half a second and let go for half a second, in turn,
BENCH_PAIRS (60) times. For the noise floor as many pairs are measured in between in which nobody is
stopped. Takes about 50 s for each block and 2 s for each pair.
"""
import os
import signal
import time
from statistics import median

from lib.cluster import EXAMPLES, Cluster, Failed, main, read_lines, wait_for
from lib.rows import median_interval, row, say

BLOCKS = int(os.environ.get("BENCH_BLOCKS", 6))
PAIRS = int(os.environ.get("BENCH_PAIRS", 60))
WINDOW_S = 0.5
SETTLE_S = 0.05  # left out at the beginning of a window
# A stopped agent sends no beats; that must not be taken for its death.
PATIENT = "--dlrover-set=heartbeat=200ms:100"
SKIP = 10  # first steps, in which caches warm up and saving starts
ARMS = {
    "plain": "--dlrover=off {train} --no-ckpt",
    "again": "--dlrover=off {train} --no-ckpt",
    "supervised": "--dlrover=on --dlrover-set=checkpoint=off {train} --no-ckpt",
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


def daemons(cluster):
    found = []
    for node in ("n1", "n2"):
        for name in ("dlrover-agent", "dlrover-supervi"):
            found += cluster.processes(node, name)
    if len(found) < 3:
        raise Failed("supervisor and agents are not to be found")
    return found


def window(pids, stopped):
    """Lets half a second pass with those processes at work or not; its (begin, end)."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP if stopped else signal.SIGCONT)
    time.sleep(SETTLE_S)
    begin = time.time()
    time.sleep(WINDOW_S - SETTLE_S)
    return begin, time.time()


def speed_within(stamps, times):
    begin, end = times
    inside = [t for t in stamps if begin <= t <= end]
    if len(inside) < 3:
        raise Failed(f"only {len(inside)} steps in {WINDOW_S} s")
    return (len(inside) - 1) / (inside[-1] - inside[0])


def toggle(pids):
    """[(really stopped?, window at work, window stopped)]; the order of the two alternates."""
    pairs = []
    try:
        for i in range(2 * PAIRS):
            real, stopped_first = i % 2 == 0, i // 2 % 2 == 0
            times = {stopped: window(pids, stopped and real)
                     for stopped in (stopped_first, not stopped_first)}
            pairs.append((real, times[False], times[True]))
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    return pairs


def measure_daemons(cluster):
    job = cluster.submit(
        f"srun {PATIENT} {ARMS['supervised'].format(train=EXAMPLES + '/mpi_train')} "
        "--params small --steps 10000000 --log daemons.log", "-N2")
    log = f"{cluster.home}/daemons.log"
    wait_for("steps", lambda: len(read_lines(log)) > 10 * SKIP)
    pairs = toggle(daemons(cluster))
    cluster.cancel(job)
    stamps = [e["time"] for e in read_lines(log) if e["event"] == "step"]
    slower = {True: [], False: []}
    for real, at_work, stopped in pairs:
        slower[real].append(
            100 * (1 - speed_within(stamps, at_work) / speed_within(stamps, stopped)))
    setup = cluster.setup(f"mpi_train --params small, CPU-bound, on 2 nodes; {PAIRS} pairs of "
                          f"windows of {WINDOW_S} s in one run, no saves")
    floor = abs(median(slower[False])) + (median_interval(slower[False]) or 0)
    cost = median(slower[True])
    row("cost.daemons", cost, "%", setup, noise=floor, interval=median_interval(slower[True]),
        below_noise=abs(cost) <= floor, ceiling=100.0, ratio=1 - cost / 100,
        ceiling_name="steps/s with supervisor and agents stopped",
        what="fewer steps/s while supervisor and agents are at work")
    say(f"daemons: {cost:+.2f} %, noise floor {floor:.2f} %")


def measure():
    with Cluster(2) as cluster:
        if PAIRS:
            measure_daemons(cluster)
            cluster.wait_idle()
        if not BLOCKS:
            return
        for case in CASES:
            say(f"{case}: {BLOCKS} blocks of 4 runs")
            cluster.run_script(script(case, BLOCKS), "-N2", limit=120 * BLOCKS)
            report(cluster, case, blocks_of(cluster, case))


main(measure)
