#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long until the supervisor knows: a worker is killed, a node is cut off, frozen, loses power.

BENCH_DETECT (50) times each, at random moments of a run with the default beats on 3 of 4 nodes.
Also whether the lost node's tasks had stopped by then: the time from their last step to the
verdict, and how long each rendezvous took that followed, but for nodes that lose power. A cut or
frozen node is healed and comes back as a spare; a dead one is booted, and each needs a job of its
own. Takes about 4 s for each but the dead, 12 s for those.
"""
import os
import random
import signal
import subprocess
import time

from lib.cluster import Cluster, Failed, main, stamp, wait_for
from lib.rows import row, say, spread
from lib.stamps import begin, stamps

COUNT = int(os.environ.get("BENCH_DETECT", 50))
KINDS = os.environ.get("BENCH_DETECT_KINDS", "worker cut frozen dead").split()
NODES = 4


def cable(cluster, host, state):
    with open(f"{cluster.dir}/room", encoding="utf-8") as f:
        room = f.read().split()[0]
    before = time.time()
    subprocess.run(["nsenter", "-t", room, "--net", "ip", "link", "set", host, state], check=True)
    return before


def freeze(cluster, host):
    """The agent first: nothing is heard from then on, the rest of the node takes a moment."""
    agents = cluster.processes(host, "dlrover-agent")
    before = time.time()
    for pid in agents:
        os.kill(pid, signal.SIGSTOP)
    cluster.vc("freeze", host)
    return before


def kill_worker(cluster, host):
    workers = cluster.processes(host, "python3")
    before = time.time()
    os.kill(workers[0], signal.SIGKILL)
    return before


HARM = {"worker": kill_worker, "cut": lambda c, h: cable(c, h, "down"), "frozen": freeze,
        "dead": lambda c, h: c.power_off(h)}
MEND = {"worker": None, "cut": lambda c, h: cable(c, h, "up"),
        "frozen": lambda c, h: c.vc("thaw", h), "dead": None}
WHAT = {"worker": "a worker is killed -> the round is ended on all nodes",
        "cut": "a node's cable is pulled -> it counts as dead",
        "frozen": "a node's processes are stopped -> it counts as dead",
        "dead": "a node loses power -> it counts as dead"}


def running(journal):
    """Number of the newest round that has started, and its nodes."""
    started = max((e["round"] for e in journal if e["event"] == "running"), default=-1)
    plan = next((e for e in journal if e["event"] == "plan" and e["round"] == started), None)
    ended = any(e["event"] == "round_end" and e["round"] == started for e in journal)
    return None if not plan or ended else (started, [p["node"] for p in plan["places"]])


def came_back(journal, host):
    """True when the newest word about the node is that it is here."""
    words = [e["event"] for e in journal if e.get("node") == host
             and e["event"] in ("node_up", "node_dead")]
    return words and words[-1] == "node_up"


def is_ready(cluster, job, round_before):
    """The round that runs now, if it has begun and taken a step since."""
    journal = cluster.journal(job)
    found = running(journal)
    if not found or found[0] <= round_before:
        return None
    taken = any(number == found[0] for number, *_ in stamps(cluster, job))
    return found if taken else None


def one(cluster, job, kind, round_before):
    """(seconds to the verdict, seconds from the last step to it or None, round, live nodes lost)."""
    number, nodes = wait_for("the next round", lambda: is_ready(cluster, job, round_before))
    host = random.choice([n for n in nodes if n != "n1"])  # the supervisor is on n1
    time.sleep(random.uniform(0.2, 0.6))
    before = HARM[kind](cluster, host)
    event = "round_end" if kind == "worker" else "node_dead"
    told = cluster.event(job, event, lambda e: e["event"] == event and stamp(e) >= before)
    others = [e["node"] for e in cluster.journal(job)
              if e["event"] == "node_dead" and stamp(e) >= before and e["node"] != host]
    margin = None
    if kind in ("cut", "frozen"):
        last = max(at for r, _, node, at in stamps(cluster, job) if r == number and node == host)
        margin = stamp(told) - last
    if MEND[kind]:
        MEND[kind](cluster, host)
        wait_for(f"{host}", lambda: came_back(cluster.journal(job), host))
    return stamp(told) - before, margin, number, others, host


def rendezvous(journal):
    """Seconds from the first rendezvous after each harm to its plan, those that failed between included."""
    began = None
    for e in journal:
        if e["event"] == "rendezvous":
            began = began or stamp(e)
        elif e["event"] == "plan" and e["round"] > 0 and began:
            yield stamp(e) - began
        if e["event"] in ("plan", "round_end"):
            began = None


def harm_again_and_again(cluster, kind):
    """All the trials of one kind: in one job, or for nodes that die in one each."""
    times, margins, false, number, job = [], [], 0, -1, None
    meets = []
    for i in range(COUNT):
        if not job:
            job = begin(cluster, f"-N{NODES}", "--dlrover-spares=1",
                        f"--dlrover-max-restarts={COUNT + 1}")
            number = -1
        took, margin, number, others, host = one(cluster, job, kind, number)
        times.append(took)
        margins += [margin] if margin is not None else []
        false += len(others)
        say(f"{kind} {i + 1}/{COUNT}: {took * 1e3:.0f} ms")
        if kind == "dead":
            cluster.cancel(job)
            cluster.vc("boot", host)
            cluster.wait_idle()
            job = None
    if job:
        wait_for("the last round", lambda: is_ready(cluster, job, number))
        meets += rendezvous(cluster.journal(job))
        cluster.cancel(job)
        cluster.wait_idle()
    return times, margins, meets, false


def measure():
    false, meets = 0, []
    with Cluster(NODES) as cluster:
        for kind in KINDS:
            if kind not in HARM:
                raise Failed(f"BENCH_DETECT_KINDS: '{kind}' is none of {' '.join(HARM)}")
            times, margins, met, others = harm_again_and_again(cluster, kind)
            false += others
            meets += met
            setup = cluster.setup(f"{len(times)} times at random moments, 3 tasks on {NODES} nodes, "
                                  "beats 200ms:5")
            spread(f"detect.{kind}", [t * 1e3 for t in times], "ms", setup, what=WHAT[kind])
            if margins:
                row(f"detect.{kind}.margin", min(margins) * 1e3, "ms", setup, n=len(margins),
                    what="the lost node's last step -> the verdict, the shortest; below 0 two rounds "
                    "could meet")
        spread("detect.rendezvous", [m * 1e3 for m in meets], "ms", cluster.setup("of these rounds"),
               what="all processes of a round are gone -> the plan of the next, tries that failed included")
        row("detect.false_alarms", false, "nodes", cluster.setup("in all of these"),
            what="live nodes counted as dead")


main(measure)
