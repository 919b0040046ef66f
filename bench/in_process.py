#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A node dies under a PyTorch job: how long until its first new step, by phase.

Four ways in turn, BENCH_IN_PROCESS (3) times: 'warm', processes stay and the program has run ahead on the spare;
'in_process', processes stay and the spare imports PyTorch; 'restart', all processes start again; 'requeue', plain
Slurm takes the job back, without any supervision. Takes about a minute for each.
"""
import os
import statistics

from lib.cluster import EXAMPLES, UID, Cluster, Failed, main, read_lines, stamp, wait_for
from lib.rows import row, say, spread

TIMES = int(os.environ.get("BENCH_IN_PROCESS", 3))
VICTIM = "n2"
STEP_S = 0.2  # paced: two cores carry four nodes
WAYS = {"warm": "in-process=on,park-timeout=10s", "in_process": "in-process=on,park-timeout=10s,warm=off",
        "restart": "in-process=off", "requeue": None}
PROGRAM = f"""
import json, os, sys, time
sys.path.insert(0, "{EXAMPLES}")
import torch_train
draw, log = torch_train.draw, os.environ["STEP_LOG"]
def paced(*args):
    time.sleep({STEP_S})
    torch_train.append_line(log, json.dumps({{"time": time.time(), "step": args[2], "rank": args[3]}}) + "\\n")
    return draw(*args)
torch_train.draw = paced
torch_train.main()
"""
PHASES = [("detect", "node_dead", "kill -> the supervisor counts the node as dead"),
          ("clear", "cleared", "-> every process of the round is parked, or gone"),
          ("plan", "plan", "-> nodes checked, versions agreed, ranks mapped"),
          ("prepare", "prepared", "-> lost copies are on the nodes that need them"),
          ("launch", "running", "-> srun has started every task"),
          ("restore", "restored", "-> imports, process group, state loaded by every rank")]


def first_after(log, after):
    """When the first step began, on any rank, after that time. A step that begins has its pause behind it."""
    lines = wait_for(f"a step in {log}",
                     lambda: [e["time"] for e in read_lines(log) if e["time"] > after])
    return min(lines)


def start(cluster, way, number):
    log = f"{cluster.home}/{way}{number}.log"
    text = (f"export PYTHONPATH=/opt/dlrover/lib/python3/dist-packages STEP_LOG={way}{number}.log\n"
            "srun /usr/bin/python3 paced.py --params small --steps 100000 --resilient")
    if way == "requeue":
        return cluster.submit(f"{text} --no-ckpt", "-N4", "--requeue", "--dlrover=off"), log
    job = cluster.submit(text, "-N5", "--dlrover=on", "--dlrover-spares=1", f"--dlrover-set={WAYS[way]}")
    cluster.event(job, "a commit", lambda e: e["event"] == "progress" and e["commits"] >= 3)
    if way == "warm":
        cluster.event(job, "a warm spare", lambda e: e["event"] == "warm" and e["processes"] > 0)
    return job, log


def phases(cluster, job, killed, log):
    """Seconds of each phase, with 'first_step' and 'total'."""
    restored = stamp(cluster.event(job, "round 1", lambda e: e["event"] == "restored" and e["round"] == 1))
    stepped = first_after(log, restored)
    journal, last, times = cluster.journal(job), killed, {}
    for name, event, _ in PHASES:
        ends = [stamp(e) for e in journal if e["event"] == event and stamp(e) >= killed]
        if not ends:
            raise Failed(f"the journal has no '{event}'")
        times[name] = max(0, ends[0] - last)
        last = max(last, ends[0])
    times["first_step"] = stepped - last
    times["total"] = stepped - killed
    return times


def lose_node(cluster, way, number):
    job, log = start(cluster, way, number)
    wait_for("steps", lambda: len(read_lines(log)) > 40)
    killed = cluster.power_off(VICTIM)
    if way == "requeue":
        # What runs when the node dies ends its step, or hangs in it.
        times = {"total": first_after(log, killed + 2) - killed}
    else:
        times = phases(cluster, job, killed, log)
    cluster.cancel(job)
    cluster.vc("boot", VICTIM)
    cluster.wait_idle()
    say(f"{way} {number + 1}/{TIMES}: " + ", ".join(f"{k} {v:.2f}" for k, v in times.items()))
    return times


def report(cluster, runs):
    setup = cluster.setup(f"torch_train --params small, gloo, a step each {STEP_S} s, on 4 nodes, 1 spare; {TIMES} "
                          "power cuts each way, in turn, each in a job of its own")
    medians = {}
    for way, of_way in runs.items():
        for name, _, what in PHASES + [("first_step", "", "-> the first step of the new round begins")]:
            spread(f"in_process.{way}.{name}", [r[name] for r in of_way if name in r], "s", setup, what=what)
        spread(f"in_process.{way}.total", [r["total"] for r in of_way], "s", setup, what="kill -> first new step")
        medians[way] = statistics.median(r["total"] for r in of_way)
    over = statistics.median(r["total"] - r["detect"] for r in runs["warm"])
    row("in_process.warm.after_detection", over, "s", setup, what="the total less the detection, median")
    for way in ("in_process", "restart", "requeue"):
        row(f"in_process.{way}.times", medians[way] / medians["warm"], "times", setup,
            what=f"{way} takes so many times as long as warm, of the medians")


def measure():
    with Cluster(5) as cluster:
        with open(f"{cluster.home}/paced.py", "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        os.chown(file.name, UID, UID)
        runs = {way: [] for way in WAYS}
        for number in range(TIMES):
            for way, of_way in runs.items():
                of_way.append(lose_node(cluster, way, number))
        report(cluster, runs)


main(measure)
