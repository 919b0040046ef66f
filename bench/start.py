#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What supervision adds to the start and end of an srun: `srun true`, plain and supervised in
turn, BENCH_STARTS (100) times each on 4 nodes. Takes about 3 minutes. For information."""
import os
import statistics

from lib.cluster import Cluster, main, read_lines
from lib.rows import row, say, spread

STARTS = int(os.environ.get("BENCH_STARTS", 100))
NODES = 4


def measure():
    with Cluster(NODES) as cluster:
        cluster.run_script(
            f"for i in $(seq {STARTS}); do for arm in off on; do\nbefore=$EPOCHREALTIME\n"
            "srun --dlrover=$arm true\n"
            "echo \"{\\\"arm\\\":\\\"$arm\\\",\\\"from\\\":$before,\\\"to\\\":$EPOCHREALTIME}\""
            " >>times\ndone; done", f"-N{NODES}")
        times = {"off": [], "on": []}
        for line in read_lines(f"{cluster.home}/times"):
            times[line["arm"]].append(line["to"] - line["from"])
        setup = cluster.setup(f"srun true on {NODES} nodes, in turn plain and supervised")
        plain, ours = statistics.median(times["off"]), statistics.median(times["on"])
        spread("start.plain", times["off"], "s", setup, what="srun true")
        spread("start.supervised", times["on"], "s", setup, what="srun --dlrover=on true")
        row("start.added", ours - plain, "s", setup, n=len(times["on"]),
            what="of the medians: agents, rendezvous and farewell")
        say(f"srun true: {plain:.2f} s plain, {ours:.2f} s supervised")


main(measure)
