#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What rank order and holders of copies cost at size: time and memory of one process.

Pure functions of made-up nodes (bench/topo.c says which), 8 ranks to a node, 1,024 to 131,072 ranks and, as the
most that a plan takes, 131,072 nodes. Takes a minute.
"""
import os
import statistics
import subprocess
import sys

from lib.cluster import REPO
from lib.rows import load, median_interval, row

BUILD = os.environ.get("BUILD", f"{REPO}/build")
NODES = (128, 1024, 4096, 16384, 131072)
RANKS = 8
ROUNDS = 5
WHAT = ("order", "choose", "replace", "partners", "copies2", "rs8_2", "survives")
LIMIT_S = 120


def measure(nodes):
    before, lines = load(), []
    for _ in range(ROUNDS):
        done = subprocess.run([f"{BUILD}/topo", str(nodes)], text=True, stdout=subprocess.PIPE, check=True,
                              timeout=LIMIT_S)
        lines.append([float(w) for w in done.stdout.split()])
    *times, peak, own = zip(*lines)
    setup = f"{nodes} nodes, {nodes * RANKS} ranks, median of {ROUNDS}, load {before:.1f} at its start"
    for what, ms in zip(WHAT, times):
        row(f"topo.{what}.{nodes}", statistics.median(ms), "ms of CPU", setup, noise=median_interval(ms))
    row(f"topo.memory.{nodes}", max(peak), "MB", f"peak of all of it in one process, {setup}", nodes_themselves=own[0])


def main():
    try:
        subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/topo"], stdout=sys.stderr, check=True)
        for nodes in NODES:
            measure(nodes)
    except (subprocess.SubprocessError, OSError) as e:
        sys.exit(f"topo.py: {e}")


main()
