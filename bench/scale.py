#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The start of large jobs: the real supervisor, and all agents simulated by one process that speaks the protocol
(keys, credentials, beats) over a connection for each. Until all are welcomed, and until all have the list of the others.

BENCH_SCALE (64,512): numbers of nodes; BENCH_SCALE_BEAT_MS (200): between two beats of an agent;
BENCH_SCALE_LIMIT_S (600): then what has come by then is told. BENCH_SCALE_FLAT=1: each agent beats by itself,
whatever it is told. BENCH_SCALE_DEATHS (200): agents that fall silent at the end, one each 37 ms. 16,384 nodes need as
many open files (ulimit -Hn) and take some minutes.
"""
import datetime
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from lib.cluster import REPO
from lib.rows import load, row, say

BUILD = os.environ.get("BUILD", f"{REPO}/build")
SIZES = [int(n) for n in os.environ.get("BENCH_SCALE", "64,512").split(",")]
BEAT_MS = int(os.environ.get("BENCH_SCALE_BEAT_MS", 200))
MISSED = int(os.environ.get("BENCH_SCALE_MISSED", 5))
DEATHS = int(os.environ.get("BENCH_SCALE_DEATHS", 200))
FLAT = bool(os.environ.get("BENCH_SCALE_FLAT"))
LIMIT_S = int(os.environ.get("BENCH_SCALE_LIMIT_S", 600))


def start_munged(home):
    """A munged with a key of its own; its socket's name."""
    os.chmod(home, 0o755)
    with open(f"{home}/key", "wb", opener=lambda p, f: os.open(p, f, 0o600)) as key:
        key.write(os.urandom(128))
    words = [f"--{name}={home}/{name.split('-')[0]}"
             for name in ("socket", "key-file", "pid-file", "log-file", "seed-file")]
    munged = subprocess.Popen(["munged", "--foreground", "--force", "--num-threads=2", *words],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 30
    while not os.path.exists(f"{home}/socket"):
        if munged.poll() is not None or time.monotonic() > until:
            sys.exit("scale: munged does not start")
        time.sleep(0.02)
    return munged


def environment(home, nodes):
    named = nodes + 1  # one never comes: the supervisor goes on waiting for it
    return {"PATH": f"{home}/bin:{os.environ['PATH']}", "HOME": home, "MUNGE_SOCKET": f"{home}/socket",
            "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": f"n[00001-{named:05d}]",
            "SLURM_NNODES": str(named), "SLURM_JOB_NUM_NODES": str(named),
            "SLURM_TASKS_PER_NODE": f"1(x{named})", "SLURM_JOB_CPUS_PER_NODE": f"64(x{named})",
            "SLURMD_NODENAME": "n00001", "SLURM_CLUSTER_NAME": "bench",
            "BENCH_SCALE_NODES": str(nodes), "BENCH_SCALE_BEAT_MS": str(BEAT_MS),
            "BENCH_SCALE_OUT": f"{home}/out", "BENCH_SCALE_LIMIT_S": str(LIMIT_S),
            "BENCH_SCALE_DEATHS": str(DEATHS),
            **{k: v for k, v in os.environ.items() if k in ("BENCH_SCALE_FORMER", "BENCH_SCALE_FLAT")}}


def supervise(home, nodes):
    """The agents' figures and the supervisor's usage of resources."""
    with open(f"{home}/stderr", "w+", encoding="utf-8") as err:
        sup = subprocess.Popen(
            [os.environ.get("BENCH_SCALE_SUPERVISOR", f"{BUILD}/dlrover-supervisor"), f"--state-dir={home}/state",
             f"--heartbeat={BEAT_MS}ms:{MISSED}", "--agent-timeout=10m", "--nodes=2", "--", "srun", "true"],
            env=environment(home, nodes), stdin=subprocess.DEVNULL, stdout=err, stderr=err, start_new_session=True)
        signal.alarm(LIMIT_S + 120)
        _, _, usage = os.wait4(sup.pid, 0)
        signal.alarm(0)
        err.seek(0)
        said = err.read()
    if not os.path.exists(f"{home}/out"):
        sys.exit(f"scale: no figures at {nodes} nodes\n{said[-2000:]}")
    with open(f"{home}/out", encoding="utf-8") as out:
        return json.load(out), usage


def verdicts(home, deaths):
    """Milliseconds from each death to the journal's line of it, sorted, and how many were said of live nodes."""
    took, false_alarms = [], 0
    for path in glob.glob(f"{home}/state/**/events.jsonl", recursive=True):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                if event["event"] != "node_dead":
                    continue
                at = datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp() * 1000
                if event["node"] in deaths and at >= deaths[event["node"]]:
                    took.append(at - deaths[event["node"]])
                else:
                    false_alarms += 1
    return sorted(took), false_alarms


def measure(nodes):
    home = tempfile.mkdtemp(prefix="dlr-scale.", dir="/tmp")
    munged = None
    before = load()
    try:
        os.makedirs(f"{home}/bin")
        os.makedirs(f"{home}/state")
        os.symlink(os.path.abspath(f"{BUILD}/scale_agents"), f"{home}/bin/srun")
        munged = start_munged(home)
        got, usage = supervise(home, nodes)
        took, false_alarms = verdicts(home, got["deaths"])
    finally:
        if munged:
            munged.terminate()
            munged.wait()
        shutil.rmtree(home, ignore_errors=True)
    if got["welcomes"] < nodes or got["lists"] < nodes:
        say(f"{nodes} nodes: {got['welcomes']} welcomed, {got['lists']} lists")
    setup = (f"{nodes} simulated agents in one process beside the real supervisor, a beat per {BEAT_MS} ms, "
             f"{os.cpu_count()} cores, load {before:.1f} at its start")
    cpu_us = 1000 * got["steady_cpu_ms"] / max(got["steady_leases"], 1)
    row(f"scale.{nodes}.welcome", got["welcome_ms"] / 1000, "s", setup, welcomed=got["welcomes"],
        cpu_us_each=1000 * got["welcome_cpu_ms"] / nodes, network_us_each=1000 * got["welcome_io_ms"] / nodes)
    row(f"scale.{nodes}.listed", got["listed_ms"] / 1000, "s", setup, lists=got["lists"],
        megabytes=got["list_bytes"] / 1e6, lease_latest_ms=got["lease_late_ms"], leases=got["leases"],
        messages_each=got["messages"] / nodes, bytes_each=got["bytes"] / nodes)
    row(f"scale.{nodes}.cpu", got["listed_cpu_ms"] / 1000, "s", setup, what="of the supervisor, until then",
        whole=usage.ru_utime + usage.ru_stime)
    row(f"scale.{nodes}.beat", cpu_us, "us", setup, what="of the supervisor for a beat and its lease",
        network_us=1000 * got["steady_io_ms"] / max(got["steady_leases"], 1), leases=got["steady_leases"],
        lease_latest_ms=got["steady_late_ms"])
    row(f"scale.{nodes}.rss", usage.ru_maxrss / 1024, "MiB", setup, what="the supervisor's peak",
        descriptors=got["descriptors"])
    if took:
        row(f"scale.{nodes}.death", took[len(took) // 2], "ms", setup, what="a node falls silent: the verdict",
            n=len(took), of=len(got["deaths"]), p50=took[len(took) // 2], p99=took[len(took) * 99 // 100],
            longest=took[-1], false_alarms=false_alarms)
        say(f"{nodes} nodes: {len(took)} of {len(got['deaths'])} deaths known, p50 {took[len(took) // 2]:.0f} ms, "
            f"p99 {took[len(took) * 99 // 100]:.0f} ms, longest {took[-1]:.0f} ms, {false_alarms} false alarms")
    core = 100 * got["steady_cpu_ms"] / 5000
    say(f"{nodes} nodes: {core:.1f} % of a core in the steady state ({got['steady_io_ms'] / 50:.1f} % network)")
    say(f"{nodes} nodes: welcomed {got['welcome_ms'] / 1000:.2f} s, lists {got['listed_ms'] / 1000:.2f} s, "
        f"{got['bytes'] / 1e6:.1f} MB, {got['listed_cpu_ms'] / 1000:.1f} CPU s, {usage.ru_maxrss / 1024:.0f} MiB, "
        f"{got['descriptors']} descriptors, {cpu_us:.1f} us a beat ({got['steady_leases']} in 5 s), latest lease "
        f"{got['lease_late_ms']:.0f} ms, then {got['steady_late_ms']:.0f} ms")


for size in SIZES:
    measure(size)
