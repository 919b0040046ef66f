#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""From srun to the rank map, by phase: `srun true`, supervised, BENCH_RENDEZVOUS (20) times each on 4, 8 and 16 nodes
of one machine, whose cores all of them share (BENCH_RENDEZVOUS_NODES). The second srun of a job finds its agents there:
the first counts for the phase of agents alone. Then a model of large jobs, from the bytes of a node's report as it is
here: what an allgather of all reports by recursive doubling brings to each node. For information.
"""
import glob
import json
import math
import os
import subprocess

from lib.cluster import REPO, Cluster, main, read_lines, stamp
from lib.rows import row, say, spread

BUILD = os.environ.get("BUILD", f"{REPO}/build")
TIMES = int(os.environ.get("BENCH_RENDEZVOUS", 20))
NODES = [int(n) for n in os.environ.get("BENCH_RENDEZVOUS_NODES", "4,8,16").split(",")]
MODEL = (128, 1024, 16384)
LIMIT_S = 60
# Each begins where the last ended. The first has no event at its beginning.
PHASES = ("supervisor", "agents", "rendezvous", "launch")


def phases(before, events):
    """Seconds of each phase of one srun."""
    at = {name: [stamp(e) for e in events if e["event"] == name] for name in
          ("start", "node_up", "rendezvous", "plan", "launch")}
    ends = (at["start"][0], max(at["node_up"] + at["start"]), at["plan"][0], at["launch"][0])
    return dict(zip(PHASES, (end - begin for begin, end in zip((before, *ends), ends))))


def measure_on(nodes):
    with Cluster(nodes) as cluster:
        job = cluster.run_script(
            f"for i in $(seq {TIMES}); do\necho \"{{\\\"at\\\":$EPOCHREALTIME}}\" >>times\n"
            "srun --dlrover=on true\ndone", f"-N{nodes}", limit=LIMIT_S * TIMES)
        began = [line["at"] for line in read_lines(f"{cluster.home}/times")]
        runs = sorted((read_lines(path) for path in glob.glob(f"{cluster.home}/.dlrover/job-{job}/*/events.jsonl")),
                      key=lambda events: stamp(events[0]))
        took = [phases(before, events) for before, events in zip(began, runs)]
        setup = cluster.setup(f"srun true on {nodes} nodes")
        for name in PHASES:
            times = [one[name] for one in took]
            spread(f"rendezvous.{nodes}.{name}", times[:1] if name == "agents" else times, "s", setup)
        all_of_it = [sum(one.values()) for one in took[1:]]
        spread(f"rendezvous.{nodes}.total", all_of_it, "s", setup,
               what="from srun to the launch of the tasks, where agents are there")
        say(f"{nodes} nodes: " + ", ".join(f"{name} {took[0][name]:.3f} s" for name in PHASES) + " at first")


def report_bytes():
    """Of this machine's report, with the checks of a restart."""
    asked = {"v": 2, "survey": {"checks": "quick", "peers": []}}
    done = subprocess.run([f"{BUILD}/dlrover-rendezvous", "--no-mpi", "--input=-"], input=json.dumps(asked), text=True,
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=LIMIT_S)
    return len(done.stdout.split(" ", 1)[1])


def measure():
    for nodes in NODES:
        measure_on(nodes)
    size = report_bytes()
    row("rendezvous.report", size, "bytes", "a node's report with the checks of a restart, of this machine")
    for nodes in MODEL:
        row(f"rendezvous.model.{nodes}", nodes * size, "bytes", "model: into each node, of all reports",
            messages=math.ceil(math.log2(nodes)), at_10_gbit_s=nodes * size / 1.25e9)


main(measure)
