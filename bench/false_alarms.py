#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Is a node that lives ever taken for dead, because everybody is busy?

A supervised run on 4 nodes with the default beats, its tasks with libdlrover and its timer, while
BENCH_BUSY (8) programs per core do nothing but compute, for BENCH_ALARM_MINUTES (10). Counts nodes
that were given up, leases that ran out and rounds that ended: all of them are false.
"""
import os
import statistics
import subprocess
import sys
import time

from lib.cluster import Cluster, main
from lib.rows import percentile, row, say
from lib.stamps import begin, stamps

MINUTES = float(os.environ.get("BENCH_ALARM_MINUTES", 10))
BUSY = int(os.environ.get("BENCH_BUSY", 8)) * os.cpu_count()
NODES = 4


def busy_program():
    """In a session of its own: a kernel that shares time by session gives it as much as an agent."""
    return subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)


def gaps(cluster, job):
    """Longest time between two steps, by rank: how much the load held the tasks up themselves."""
    last, longest = {}, {}
    for _, rank, _, at in stamps(cluster, job):
        longest[rank] = max(longest.get(rank, 0), at - last.get(rank, at))
        last[rank] = at
    return list(longest.values())


def watch(cluster, job, seconds):
    """The machine's loads while time goes by; ends early when the run does."""
    loads, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(min(5, max(0, until - time.monotonic())))
        loads.append(os.getloadavg()[0])
        if any(e["event"] == "end" for e in cluster.journal(job)):
            break
    return loads


def measure():
    with Cluster(NODES) as cluster:
        job = begin(cluster, f"-N{NODES}")
        busy = [busy_program() for _ in range(BUSY)]
        try:
            loads = watch(cluster, job, MINUTES * 60)
        finally:
            for process in busy:
                process.kill()
                process.wait()
        journal = cluster.journal(job)
        cluster.cancel(job)
        longest = gaps(cluster, job)
        setup = cluster.setup(f"{NODES} nodes, beats 200ms:5, lease timer on, {MINUTES:g} minutes, "
                              f"{BUSY} busy programs on {os.cpu_count()} cores, load "
                              f"{statistics.fmean(loads):.1f}")
        for name, event, what in (
                ("dead", "node_dead", "live nodes that were given up"),
                ("lease_expired", "lease_expired", "leases that ran out on live nodes"),
                ("rounds", "round_end", "rounds that ended")):
            row(f"false_alarms.{name}", sum(e["event"] == event for e in journal), "", setup,
                what=what)
        row("false_alarms.held_up", max(longest) * 1e3, "ms", setup,
            p50=percentile(longest, 50) * 1e3,
            what="longest time between two steps of 20 ms of a task: the load's own effect")
        say(f"{sum(e['event'] in ('node_dead', 'lease_expired') for e in journal)} false alarms in "
            f"{MINUTES:g} minutes")


main(measure)
