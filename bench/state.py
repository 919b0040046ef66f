#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What saves cost by the size of the state, how it comes back, and the memory it takes.

A step with 10 MB, 100 MB and 1 GB of state in each rank (BENCH_STATE_MB) and nothing else, on two nodes: one that
leaves the CPU idle, and one that computes. Each runs twice without saving, which is the noise, and then with a
save of each step it can (--dlrover-save=always), replica and checksums on. Then a process dies
(its state is in its node's memory) and a node (its partner's); a node is lost whose state is made of parity, and one
whose state is in a file. Memory is what lies in /dev/shm of all nodes, by --dlrover-redundancy, with
parity on 8 nodes. The largest size needs 16 GB. Takes about 10 minutes.
"""
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

from lib.cluster import REPO, UID, Cluster, Failed, main, read_lines, stamp
from lib.rows import median_interval, percentile, row, say

BUILD = os.path.join(REPO, os.environ.get("BUILD", "build"))
SIZES = [int(w) for w in os.environ.get("BENCH_STATE_MB", "10,100,1000").split(",")]
STEPS = int(os.environ.get("BENCH_STATE_STEPS", 150))
STEPS_PER_MB = 0.3  # at least: a large state is saved every few seconds
STEP_MS = 100
SKIP = 10
NODES = 4  # one spare, and one beside it where three copies lie
PARITY_NODES = 8  # two sets of 4, each with its holders in the other
COPY_LIMIT_S = 120
PROGRAM = "/home/alice/step"


def line(mb, steps, kind, log, *options):
    return f"srun --dlrover=on {' '.join(options)} {PROGRAM} {mb} {steps} {STEP_MS} {kind} {log}"


def steps_of(cluster, log):
    return [e for e in read_lines(f"{cluster.home}/{log}") if e["event"] == "step"]


def run(cluster, mb, kind, turn, *options):
    log = f"{kind}.{mb}.{turn}"
    cluster.run_script(line(mb, max(STEPS, int(STEPS_PER_MB * mb)), kind, log, *options), "-N2")
    return steps_of(cluster, log)[SKIP:]


def cost(cluster, mb, kind):
    """Blocked time of the saves, and what the step takes longer for them."""
    off = "--dlrover-set=checkpoint=off"
    first, again = (run(cluster, mb, kind, turn, off) for turn in "ab")
    saving = run(cluster, mb, kind, "saving", "--dlrover-save=always")
    before = sum(e["saves"] == 0 for e in saving)  # while memory is reserved
    saving = saving[before:]
    if len(saving) < 2:
        say(f"{mb} MB {kind}: no step in {before} was saved")
        return
    pairs = list(zip(saving, saving[1:]))
    blocked = [(b["blocked_ns"] - a["blocked_ns"]) / 1e6 for a, b in pairs]
    saved = [ms for ms, (a, b) in zip(blocked, pairs) if b["saves"] > a["saves"]]
    saves = saving[-1]["saves"] - saving[0]["saves"]
    if not saved:
        say(f"{mb} MB {kind}: {before} steps until the first save, and no other in {len(blocked)}")
        return
    without, with_again, with_saves = (
        statistics.median(e["ns"] for e in steps) / 1e6 for steps in (first, again, saving))
    setup = cluster.setup(f"{mb} MB of state in each of 2 ranks, step of {STEP_MS} ms, {kind}, replica "
                          "and CRC on; rank 0")
    row(f"state.{kind}.{mb}mb.blocked", statistics.median(saved), "ms", setup,
        p50=percentile(saved, 50), p99=percentile(saved, 99), max=max(saved),
        noise=median_interval(saved), saves=saves, steps=len(blocked), before_first=before + SKIP,
        given_up=saving[-1]["given_up"], share=100 * sum(blocked) * 1e6 / sum(e["ns"] for e in saving),
        what="time in begin and fence for each step that was saved")
    row(f"state.{kind}.{mb}mb.step", 100 * (with_saves / without - 1), "%", setup,
        noise=100 * abs(with_again / without - 1), without_ms=without, with_ms=with_saves,
        what="the median step is so much longer with saves; noise: two runs without")
    say(f"{mb} MB {kind}: {saves} saves in {len(blocked)} steps, blocked {statistics.median(saved):.3g} ms")


def ceiling_of(mb, threads):
    """GB/s of one of so many threads that each copy and sum so much at the same time."""
    text = subprocess.run([f"{BUILD}/copy", str(mb * threads), str(threads), "9"], text=True,
                          stdout=subprocess.PIPE, check=True, timeout=COPY_LIMIT_S).stdout
    return statistics.median(float(rates.split()[0]) for rates in text.splitlines()) / threads


def restored(cluster, job, log, mb, number, rung, harm, ranks=2):
    """One loss, and the rows of what came of it."""
    cluster.event(job, "three commits", lambda e: e["event"] == "progress" and
                  e["round"] == number - 1 and e["commits"] >= 3)
    harmed = time.time()
    harm()
    done = cluster.event(job, f"round {number}", lambda e: e["event"] == "restored" and e["round"] == number)
    events = cluster.journal(job)
    moved = [e["took_ms"] for e in events if e["event"] == "prepared" and e["round"] == number]
    loads = [e for e in read_lines(f"{cluster.home}/{log}") if e["event"] == "restore"]
    seconds = loads[-1]["load_ns"] / 1e9
    ceiling = ceiling_of(mb, ranks)
    setup = cluster.setup(f"{mb} MB of state in each of {ranks} ranks; once; rank 0")
    row(f"state.restore.{rung}.{mb}mb", mb / 1e3 / seconds, "GB/s", setup, seconds=seconds,
        ceiling=ceiling, ceiling_name=f"copied and summed by one of {ranks} threads, which do it at once", ratio=mb / 1e3 / seconds / ceiling,
        all_s=loads[-1]["ns"] / 1e9, moved_ms=moved[-1] if moved else None,
        what="copied and checked by rank 0, another rank beside it; all_s: dlr_ckpt_restore() until every rank has "
             "come so far, later starts of their programs included; before it copies were moved")
    row(f"state.restart.{rung}.{mb}mb", stamp(done) - harmed, "s", setup,
        what="from the kill of a worker, or a node's loss of power, until all ranks had loaded")
    say(f"{mb} MB from {rung}: {seconds:.3g} s, copies moved in {moved[-1] if moved else 0} ms")


def restores(cluster, mb):
    log = f"restore.{mb}"
    job = cluster.submit(line(mb, 100000, "idle", log, "--dlrover-spares=1", "--dlrover-save=always"),
                         "-N3", "--dlrover=on")

    def nodes():
        plans = [e for e in cluster.journal(job) if e["event"] == "plan"]
        return [place["node"] for place in plans[-1]["places"]]

    restored(cluster, job, log, mb, 1, "local",
             lambda: os.kill(cluster.processes(nodes()[0], "step")[0], signal.SIGKILL))
    gone = nodes()[1]
    restored(cluster, job, log, mb, 2, "partner", lambda: cluster.power_off(gone))
    cluster.cancel(job)
    cluster.vc("boot", gone)
    cluster.wait_idle()


def restore_after_loss(cluster, mb, rung, places, ready, *options):
    """Of a node's loss when nobody has a copy of what was on it."""
    log = f"restore.{rung}.{mb}"
    job = cluster.submit(line(mb, 100000, "idle", log, "--dlrover-spares=1", *options),
                         f"-N{places + 1}", "--dlrover=on")
    cluster.event(job, rung, ready)
    plan = [e for e in cluster.journal(job) if e["event"] == "plan"][-1]
    gone = plan["places"][places - 1]["node"]
    restored(cluster, job, log, mb, 1, rung, lambda: cluster.power_off(gone), places)
    cluster.cancel(job)
    cluster.vc("boot", gone)
    cluster.wait_idle()


def memory(cluster, redundancy, places=3):
    """Bytes in the nodes' memory for each byte of state, once every slot is there."""
    mb = 64
    log = f"memory.{redundancy}".replace(":", ".")
    job = cluster.submit(line(mb, 100000, "idle", log, f"--dlrover-redundancy={redundancy}",
                              "--dlrover-set=vetted-every=0"),
                         f"-N{places}", "--dlrover=on")
    cluster.event(job, "a commit", lambda e: e["event"] == "progress" and e["commits"] >= 3)
    used = sum(int(cluster.vc("exec", f"n{n}", "--", "sh", "-c",
                              "du -s --block-size=1 /dev/shm /run/dlrover 2>/dev/null | "
                              "awk '{ s += $1 } END { print s + 0 }'")) for n in range(1, places + 1))
    cluster.cancel(job)
    cluster.wait_idle()
    row(f"state.memory.{redundancy}", used / (mb * 1e6 * places), "bytes per byte of state",
        cluster.setup(f"{mb} MB of state in each of {places} ranks on {places} nodes"),
        what="all that the suite holds in memory for snapshots, copies included, without an older "
             "version (--dlrover-set=vetted-every=0)")
    say(f"memory with {redundancy}: {used / (mb * 1e6 * places):.3g} bytes for each")


def install(cluster):
    shutil.copy(f"{BUILD}/step", cluster.home)
    os.chown(f"{cluster.home}/step", UID, UID)


def measure():
    try:
        subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/step", f"{BUILD}/copy"],
                       stdout=sys.stderr, check=True)
    except subprocess.SubprocessError as e:
        raise Failed(str(e)) from None
    with Cluster(NODES) as cluster:
        install(cluster)
        for mb in SIZES:
            for kind in ("idle", "busy"):
                cost(cluster, mb, kind)
        for redundancy in ("none", "partner", "partner:2"):
            memory(cluster, redundancy)
        for mb in SIZES:
            restores(cluster, mb)
            restore_after_loss(cluster, mb, "parity", 3, lambda e: e["event"] == "running",
                               "--dlrover-save=always", "--dlrover-redundancy=xor:2")
            restore_after_loss(cluster, mb, "storage", 2,
                               lambda e: e["event"] == "persisted" and e["version"],
                               "--dlrover-redundancy=none", "--dlrover-persist=5")
    with Cluster(PARITY_NODES) as cluster:
        install(cluster)
        for redundancy in ("xor:4", "rs:4+2"):
            memory(cluster, redundancy, PARITY_NODES)


main(measure)
