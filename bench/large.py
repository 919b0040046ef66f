#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What saves of a large state cost, with enough of them for a p99: 1 GB in each of two ranks (BENCH_LARGE_MB).

A step that leaves the CPU idle, then one that computes, saved as often as it can be (--dlrover-save=always),
until BENCH_LARGE_SAVES (200) saves were seen by every rank or BENCH_LARGE_S (360) seconds have passed; the rows say
how many it were. Before and after, the same step without saves: their difference is the noise. Takes about 14
minutes and 16 GB.
"""
import os
import shutil
import statistics
import subprocess
import sys
import time

from lib.cluster import REPO, UID, Cluster, Failed, main, read_lines
from lib.rows import median_interval, percentile, row, say

BUILD = os.path.join(REPO, os.environ.get("BUILD", "build"))
MB = int(os.environ.get("BENCH_LARGE_MB", 1000))
SAVES = int(os.environ.get("BENCH_LARGE_SAVES", 200))
LIMIT_S = float(os.environ.get("BENCH_LARGE_S", 360))
STEP_MS, PLAIN_STEPS, SKIP, RANKS = 100, 100, 10, 2
LOOK_S = 1
PROGRAM = "/home/alice/step"


def srun(steps, kind, log, *options):
    return f"srun --dlrover=on {' '.join(options)} {PROGRAM} {MB} {steps} {STEP_MS} {kind} {log}"


def logs(cluster, log):
    """The steps of each rank."""
    paths = [f"{cluster.home}/{log}{f'.{rank}' if rank else ''}" for rank in range(RANKS)]
    return [[e for e in read_lines(path) if e["event"] == "step"] for path in paths]


def plain(cluster, kind, turn):
    log = f"{kind}.{turn}"
    cluster.run_script(srun(PLAIN_STEPS, kind, log, "--dlrover-set=checkpoint=off"), "-N2")
    return statistics.mean(e["ns"] for e in logs(cluster, log)[0][SKIP:]) / 1e6


def saving(cluster, kind):
    """Each rank's steps from its first save on."""
    log = f"{kind}.saving"
    job = cluster.submit(srun(10**9, kind, log, "--dlrover-save=always"), "-N2")
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        time.sleep(LOOK_S)  # reading the logs disturbs
        if all(steps and steps[-1]["saves"] > SAVES for steps in logs(cluster, log)):
            break
    ranks = [[e for e in steps if e["saves"]] for steps in logs(cluster, log)]
    cluster.cancel(job)
    cluster.wait_idle()
    if any(len(steps) < 2 for steps in ranks):
        raise Failed(f"{MB} MB {kind}: a rank saved nothing in {LIMIT_S:.0f} s")
    return ranks


def blocked(steps):
    """Milliseconds in begin and fence of each step that was saved."""
    return [(b["blocked_ns"] - a["blocked_ns"]) / 1e6 for a, b in zip(steps, steps[1:]) if b["saves"] > a["saves"]]


def cost(cluster, kind):
    before = plain(cluster, kind, "before")
    ranks = saving(cluster, kind)
    after = plain(cluster, kind, "after")
    all_blocked = [ms for steps in ranks for ms in blocked(steps)]
    saves = min(steps[-1]["saves"] - steps[0]["saves"] for steps in ranks)
    setup = cluster.setup(f"{MB} MB of state in each of {RANKS} ranks, step of {STEP_MS} ms, {kind}, replica and CRC on")
    if all_blocked:
        row(f"large.{kind}.blocked", statistics.median(all_blocked), "ms", setup, p50=percentile(all_blocked, 50),
            p99=percentile(all_blocked, 99), max=max(all_blocked), noise=median_interval(all_blocked),
            n=len(all_blocked), saves=saves, steps=len(ranks[0]), given_up=ranks[0][-1]["given_up"],
            what="time in begin and fence for each step that was saved, all ranks; saves: of the rank that has fewest")
    base, took = (before + after) / 2, [e["ns"] / 1e6 for steps in ranks for e in steps]
    row(f"large.{kind}.step", 100 * (statistics.mean(took) / base - 1), "%", setup,
        noise=100 * abs(after / before - 1), without_ms=base,
        what="the mean step is so much longer with saves than without; noise: before and after")
    say(f"{MB} MB {kind}: {saves} saves in {len(ranks[0])} steps")


def measure():
    try:
        subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/step"], stdout=sys.stderr, check=True)
    except subprocess.SubprocessError as e:
        raise Failed(str(e)) from None
    with Cluster(2) as cluster:
        shutil.copy(f"{BUILD}/step", cluster.home)
        os.chown(f"{cluster.home}/step", UID, UID)
        for kind in ("idle", "busy"):
            cost(cluster, kind)


main(measure)
