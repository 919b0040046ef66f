#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a save costs, how old the newest one is, and how many steps are computed again, with the default
cadence.

Two sizes of state on two nodes, each a job with saves as they come by default. It says what it learned
(the event `cadence`); then BENCH_CADENCE_KILLS (6) of its processes are killed, at any time between two
saves, and the steps that the next round computes again are counted. Takes under 4 minutes.
"""
import os
import random
import signal
import time

from lib.cluster import EXAMPLES, Cluster, main, read_lines
from lib.rows import row, say, spread

KILLS = int(os.environ.get("BENCH_CADENCE_KILLS", 6))
STEP_MS = 100
NODES = 2
SIZES = {"small": "--params small --batch 16", "large": "--params default --batch 4"}


def steps(log, after=0.0):
    return [e for e in read_lines(log) if e["event"] == "step" and e["time"] > after]


def one_kill(cluster, job, number, log):
    """(steps computed again, seconds of the run that they had taken, what the journal had said)."""
    node = random.choice([f"n{i + 1}" for i in range(NODES)])
    cluster.event(job, f"a commit of round {number - 1}", lambda e: e["event"] == "progress" and
                  e["round"] == number - 1 and e["committed"] and e["committed"][0] == number - 1)
    time.sleep(random.uniform(0, 12))  # an interval and a progress line
    killed = time.time()
    os.kill(cluster.processes(node, "mpi_train")[0], signal.SIGKILL)
    back = cluster.event(job, f"round {number}",
                         lambda e: e["event"] == "restored" and e["round"] == number)
    before = [e for e in read_lines(log) if e["event"] == "step" and e["time"] <= killed]
    at = back["version"][1]
    again = [e for e in before if e["step"] > at and e["time"] > before[0]["time"]]
    last = before[-1]["step"]
    began = max((e["time"] for e in before if e["step"] <= at), default=killed)
    told = [e["at_stake_ms"] for e in cluster.journal(job)
            if e["event"] == "progress" and e["round"] == number - 1]
    say(f"kill {number}: step {last}, back to {at}, {last - at} steps again")
    return max(0, last - at), killed - began if again else 0.0, told[-1] / 1e3


def one_size(cluster, size):
    log = f"{cluster.home}/{size}.log"
    job = cluster.submit(f"srun {EXAMPLES}/mpi_train {SIZES[size]} --step-ms {STEP_MS} "
                         f"--steps 1000000 --log {size}.log", f"-N{NODES}", "--dlrover=on",
                         f"--dlrover-max-restarts={KILLS}")
    learned = cluster.event(job, "a cadence", lambda e: e["event"] == "cadence")
    say(f"{size}: {learned}")
    runs = [one_kill(cluster, job, i + 1, log) for i in range(KILLS)]
    newest = [e for e in cluster.journal(job) if e["event"] == "cadence"][-1]
    cluster.cancel(job)
    cluster.wait_idle()
    setup = cluster.setup(f"mpi_train {SIZES[size]} --step-ms {STEP_MS} on {NODES} nodes, the default "
                          f"cadence; {KILLS} SIGKILLs of a worker in one job")
    row(f"cadence.{size}.cost", newest["cost_ms"], "ms", setup, blocked_ms=newest["blocked_ms"],
        step_ms=newest["step_ms"], first=learned["cost_ms"],
        what="C: what a save makes the steps longer that it overlaps; blocked_ms: in begin and fence")
    row(f"cadence.{size}.interval", newest["every_s"], "s", setup, every=newest["every"],
        bound=newest["bound"], stale_s=newest["stale_s"], mtbf_h=newest["mtbf_h"],
        share=newest["cost_ms"] / 10 / newest["every_s"],
        what="from one save to the next, and what decided; share: % of the time that saves take")
    spread(f"cadence.{size}.again", [float(r[0]) for r in runs], "steps", setup,
           what="steps computed again after a process died")
    spread(f"cadence.{size}.lost", [r[1] for r in runs], "s", setup, told_s=[r[2] for r in runs],
           what="the time that they had taken; told_s: what the journal's last line had said")


def measure():
    with Cluster(NODES) as cluster:
        for size in SIZES:
            one_size(cluster, size)


main(measure)
