#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long a training job stands still when a node dies, by phase; the same for a process.

BENCH_KILLS (10) nodes and BENCH_PROCESS_KILLS (20) processes are killed. Takes about 15 s for
each node, 3 s for each process.
"""
import os
import random
import signal
import statistics
import time

from lib.cluster import EXAMPLES, Cluster, Failed, main, read_lines, stamp, wait_for
from lib.rows import row, say, spread

KILLS = int(os.environ.get("BENCH_KILLS", 10))
PROCESS_KILLS = int(os.environ.get("BENCH_PROCESS_KILLS", 20))
PLAIN_STARTS = 5
BATCH = 32  # little compute, so that two cores can carry four nodes
STEP_MS = 100
WORK = f"{EXAMPLES}/mpi_train --params small --batch {BATCH} --step-ms {STEP_MS}"
ABOUT = (f"mpi_train --params small --batch {BATCH} --step-ms {STEP_MS} on 4 nodes, 1 spare, "
         "beats 200ms:5")


def plain_starts(cluster):
    """Seconds from a plain srun to the program's first step: what no supervisor can undo."""
    cluster.run_script(
        f"for i in $(seq {PLAIN_STARTS}); do\n"
        "echo \"{\\\"at\\\":$EPOCHREALTIME}\" >>plain.start\n"
        f"srun --dlrover=off {WORK} --steps 5 --no-ckpt --log plain.$i\ndone", "-N4")
    began = [line["at"] for line in read_lines(f"{cluster.home}/plain.start")]
    firsts = [first(read_lines(f"{cluster.home}/plain.{i + 1}"), "step")
              for i in range(PLAIN_STARTS)]
    return [step - at for at, step in zip(began, firsts)]


def first(lines, event, after=0.0):
    return next(e["time"] for e in lines if e["event"] == event and e["time"] > after)


def is_round(event, number):
    return lambda e: e["event"] == event and e["round"] == number


def start(cluster, name, steps, *options):
    """A supervised job that has saved; its id."""
    job = cluster.submit(f"srun {WORK} --steps {steps} --log {name}.log", "--dlrover=on",
                         *options)
    cluster.event(job, "a commit", lambda e: e["event"] == "progress" and e["commits"] >= 3)
    return job


def await_step(log, after):
    """Waits for the program's first step after a time; its time, and that of its restore."""
    def look():
        lines = read_lines(log)
        return lines if any(e["event"] == "step" and e["time"] > after for e in lines) else None
    lines = wait_for(f"a step in {log}", look)
    return first(lines, "step", after), lines


# What ends each phase, in order: every one begins where the last ended.
PHASES = [
    ("detect", "node_dead", "kill -> the supervisor counts the node as dead"),
    ("clear", "rendezvous", "-> every process of the round is gone"),
    ("rendezvous", "plan", "-> nodes checked, versions agreed, ranks mapped"),
    ("prepare", "prepared", "-> lost copies are on the nodes that need them"),
    ("launch", "running", "-> srun has started every task"),
    ("restore", "restored", "-> MPI_Init, model built, state loaded by every rank"),
]


def phases(journal, number, killed, stepped, began):
    """Seconds of each phase of one interruption, with 'first_step' and 'total'."""
    ends, last, times = {}, killed, {}
    for e in journal:
        if e["event"] in ("node_dead", "rendezvous") and stamp(e) >= killed:
            ends.setdefault(e["event"], stamp(e))
        elif e.get("round") == number and e["event"] in ("plan", "prepared", "running", "restored"):
            ends[e["event"]] = stamp(e)
    ends["node_dead"] = began or ends.get("node_dead")
    for name, event, _ in PHASES:
        if event not in ends:
            raise Failed(f"the journal of round {number} has no '{event}'")
        times[name] = ends[event] - last
        last = ends[event]
    times["first_step"] = stepped - last
    times["total"] = stepped - killed
    return times


def lost_steps(journal, number):
    """Committed steps that the round did not go on from."""
    ended = next(e for e in journal if e["event"] == "round_end" and e["round"] == number - 1)
    back = next((e for e in journal if e["event"] == "restored" and e["round"] == number), None)
    return max(0, (ended["committed"] or [0, 0])[1] - (back["version"][1] if back else 0))


def choose_victim(journal, i):
    """A node with workers; not the first of the job, on which the supervisor is."""
    batch = next(e for e in journal if e["event"] == "start")["nodes"][0]
    plan = next(e for e in journal if e["event"] == "plan")
    nodes_at_risk = [place["node"] for place in plan["places"] if place["node"] != batch]
    return nodes_at_risk[i % len(nodes_at_risk)]


def kill_node(cluster, i):
    """Phases of one node's death in a job of its own, and the committed steps lost."""
    job = start(cluster, f"node{i}", 100000, "-N5", "--dlrover-spares=1")
    victim = choose_victim(cluster.journal(job), i)
    time.sleep(random.uniform(0, 1))  # so that kills fall anywhere in a beat and a save
    killed = cluster.power_off(victim)
    cluster.event(job, "round 1", is_round("restored", 1))
    log = f"{cluster.home}/node{i}.log"
    restored = wait_for("the resumed program", lambda: [
        e["time"] for e in read_lines(log) if e["event"] in ("resumed", "start") and
        e["time"] > killed])[0]
    stepped, _ = await_step(log, restored)
    journal = cluster.journal(job)
    others = {e["node"] for e in journal if e["event"] == "node_dead"} - {victim}
    cluster.cancel(job)
    cluster.vc("boot", victim)
    cluster.wait_idle()
    return phases(journal, 1, killed, stepped, None), lost_steps(journal, 1), others


def kill_process(cluster, job, number, log):
    """Phases of one process's death, committed steps lost, whether the right rank was named."""
    plan = next(e for e in reversed(cluster.journal(job)) if e["event"] == "plan")
    place = random.choice(plan["places"])
    time.sleep(random.uniform(0.3, 1.3))
    pid = cluster.processes(place["node"], "mpi_train")[0]
    killed = time.time()
    os.kill(pid, signal.SIGKILL)
    cluster.event(job, f"round {number}", is_round("first_step", number))
    lines = read_lines(log)
    stepped = first(lines, "step", first(lines, "resumed", killed))
    journal = cluster.journal(job)
    ended = next(e for e in journal if e["event"] == "round_end" and e["round"] == number - 1)
    blamed = next(e["rank"] for e in journal
                  if e["event"] == "worker_exit" and e["round"] == number - 1)
    return (phases(journal, number, killed, stepped, stamp(ended)), lost_steps(journal, number),
            blamed == place["first"])


def report_nodes(cluster, runs, lost, false_alarms, plain):
    setup = cluster.setup(f"{ABOUT}; {len(runs)} power cuts, each in a job of its own")
    for name, _, what in PHASES + [("first_step", "", "-> the first step of the new round")]:
        spread(f"node_loss.{name}", [r[name] for r in runs], "s", setup, what=what)
    spread("node_loss.total", [r["total"] for r in runs], "s", setup,
           what="kill -> first new step")
    after = [r["launch"] + r["restore"] + r["first_step"] for r in runs]
    base = statistics.fmean(plain)
    row("node_loss.total_less_plain_start", statistics.fmean(r["total"] for r in runs) - base,
        "s", setup, what="the total less what a plain srun of the program needs to its first step")
    row("node_loss.start_of_workers", statistics.fmean(after), "s", setup, ceiling=base,
        ceiling_name="a plain srun of the same program, to its first step",
        ratio=base / statistics.fmean(after), what="launch + restore + first step")
    row("node_loss.lost_commits", max(lost), "steps", setup, what="committed steps lost, worst")
    row("node_loss.false_alarms", false_alarms, "nodes", setup,
        what="live nodes counted as dead, in all runs")


def nodes(cluster):
    plain = plain_starts(cluster)
    say(f"plain srun to first step: {statistics.fmean(plain):.2f} s")
    runs, lost, false_alarms = [], [], 0
    for i in range(KILLS):
        times, gone, others = kill_node(cluster, i)
        runs.append(times)
        lost.append(gone)
        false_alarms += len(others)
        say(f"node {i + 1}/{KILLS}: " + ", ".join(f"{k} {v:.2f}" for k, v in times.items()))
    report_nodes(cluster, runs, lost, false_alarms, plain)


def processes(cluster):
    log = f"{cluster.home}/process.log"
    job = start(cluster, "process", 1000000, "-N4", f"--dlrover-max-restarts={PROCESS_KILLS}")
    runs, lost, right = [], [], 0
    for i in range(PROCESS_KILLS):
        times, gone, named = kill_process(cluster, job, i + 1, log)
        runs.append(times)
        lost.append(gone)
        right += named
        say(f"process {i + 1}/{PROCESS_KILLS}: known after {times['detect'] * 1e3:.0f} ms, "
            f"first new step {times['total']:.2f} s")
    cluster.cancel(job)
    cluster.wait_idle()
    setup = cluster.setup(f"{ABOUT.replace(', 1 spare', '')}; {len(runs)} SIGKILLs of a worker "
                          "in one job")
    spread("process_death.known", [r["detect"] * 1e3 for r in runs], "ms", setup,
           what="kill -> the supervisor ends the round on all nodes")
    spread("process_death.cleared", [(r["detect"] + r["clear"]) * 1e3 for r in runs], "ms", setup,
           what="kill -> every process of the round is gone")
    spread("process_death.total", [r["total"] for r in runs], "s", setup,
           what="kill -> first new step")
    row("process_death.lost_commits", max(lost), "steps", setup,
        what="committed steps lost, worst")
    row("process_death.named", 100 * right / len(runs), "%", setup,
        what="deaths for which the journal names the rank that was killed")


def measure():
    with Cluster(5) as cluster:
        if PROCESS_KILLS:
            processes(cluster)
        if KILLS:
            nodes(cluster)


main(measure)
