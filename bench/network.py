#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What it takes to measure the network before a round (--dlrover-set=network-check=first): `srun
true` with and without in turn, BENCH_NETWORKS (5) times each, on 4 and on 8 nodes of one machine,
whose cores all of them share. For information; docs/network-check.md has the model for real ones."""
import glob
import os
import statistics

from lib.cluster import Cluster, main, read_lines
from lib.rows import row, say, spread

TIMES = int(os.environ.get("BENCH_NETWORKS", 5))


def events(cluster, job):
    """Of each run of the job: its events by name."""
    for path in sorted(glob.glob(f"{cluster.home}/.dlrover/job-{job}/*/events.jsonl")):
        yield {e["event"]: e for e in read_lines(path)}


def measure_on(nodes):
    with Cluster(nodes) as cluster:
        job = cluster.run_script(
            f"for i in $(seq {TIMES}); do for arm in off first; do\n"
            "srun --dlrover=on --dlrover-set=network-check=$arm true\ndone; done", f"-N{nodes}")
        setup = cluster.setup(f"srun true on {nodes} nodes, in turn without and with")
        runs = list(events(cluster, job))
        rounds = [r["links"] for r in runs if "links" in r]
        plans = {arm: [r["plan"]["took_ms"] / 1e3 for r in runs if ("links" in r) == arm]
                 for arm in (False, True)}
        spread(f"network.{nodes}.tournament", [e["took_ms"] / 1e3 for e in rounds], "s", setup,
               what="the rounds of pairs", rounds=[e["rounds"] for e in rounds])
        for arm, name in ((False, "plain"), (True, "measured")):
            spread(f"network.{nodes}.rendezvous_{name}", plans[arm], "s", setup,
                   what="from srun to the plan")
        added = statistics.median(plans[True]) - statistics.median(plans[False])
        row(f"network.{nodes}.added", added, "s", setup, n=len(rounds), what="of the medians")
        bad = [r["plan"]["out"] for r in runs if r["plan"]["out"]]
        row(f"network.{nodes}.left_out", len(bad), "runs", setup, n=len(runs),
            what="in which a node was left out: none is bad")
        say(f"{nodes} nodes: {statistics.median(e['rounds'] for e in rounds):.0f} rounds, "
            f"rendezvous {added:+.2f} s")


def measure():
    for nodes in (4, 8):
        measure_on(nodes)


main(measure)
