#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast a snapshot gets to the partner node, beside what the same pair of nodes can do.

The sealed stream, which is the default over TCP, and UCX's TCP (--dlrover-set=transport=ucx) take turns, with the processor time of
both ends for each GB. The ceiling is the best of raw TCP and of ucx_perftest's put, active message and tagged transfers at
three sizes with error handling on, on an open link and on one shaped to 2 and to 1 Gb/s. All of them
are tried three times in turn with the stream; then the best three go on with it, in another order each
time, for BENCH_STREAM_ROUNDS (30; 5 on a shaped link) in all. What counts is the ratio of a round: what the
machine does in a minute is in both. Every byte of the stream is checked by CRC32C at the receiver. Takes
about 10 minutes.
"""
import os
import shutil
import statistics
import subprocess
import sys

from lib.cluster import REPO, Cluster, Failed, main, wait_for
from lib.rows import median_interval, row, say

BUILD = os.environ.get("BUILD", f"{REPO}/build")
ROUNDS = int(os.environ.get("BENCH_STREAM_ROUNDS", 30))
SHAPED_ROUNDS = 5
TRIED = 3  # rounds with all ceilings
KEPT = 3  # of them, in all other rounds
COPIES = 4  # the first of each run warms up and is not counted
RUN_LIMIT_S = 60
PORT = 21000
TESTS = ("ucp_put_bw", "ucp_am_bw", "tag_bw")
SIZES = {"256K": 1 << 18, "1M": 1 << 20, "8M": 8 << 20}
# link, MiB of a copy, bytes that one ucx_perftest moves
LINKS = ((None, 256, 1 << 29), ("2gbit", 64, 1 << 27), ("1gbit", 64, 1 << 26))
ENV = ("env", "UCX_TLS=tcp,self")  # shared memory would pass the network by


class Pair:
    """Two nodes of a cluster, and programs that run on both."""

    def __init__(self, cluster):
        self.cluster = cluster
        # Nodes see neither this machine's /tmp nor its /home, where the build may be.
        for name in ("stream", "dlrover-data"):
            shutil.copy(f"{BUILD}/{name}", cluster.home)
        self.program = "/home/alice/stream"
        self.transport = "stream"
        self.cpu = {}  # "stream" and "ucx": of each run, seconds for a GB at the sender and at the receiver

    def start(self, host, *words):
        return subprocess.Popen(
            [f"{REPO}/tests/cluster/vcluster", "--dir", self.cluster.dir, "exec", host, "--", *ENV,
             f"RIG_TRANSPORT={self.transport}", *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, child, what):
        try:
            out, err = child.communicate(timeout=RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            raise Failed(f"{what}: not done in {RUN_LIMIT_S} s") from None
        if child.returncode:
            raise Failed(f"{what}: {err.strip() or child.returncode}")
        return out

    def copies(self, kind, mib):
        """GB/s of each copy but the first."""
        receiver = self.start("n2", self.program, f"{kind}recv", mib, COPIES)
        where = receiver.stdout.readline().strip()
        if not where:
            self.finish(receiver, f"{kind}recv")
        target = ["n2", where] if kind else [where]
        out = self.finish(self.start("n1", self.program, f"{kind}send", *target, mib, COPIES),
                          f"{kind}send")
        there = self.finish(receiver, f"{kind}recv")
        if not kind:
            ends = [text.splitlines()[-1].split() for text in (out, there)]
            self.cpu.setdefault(self.transport, []).append([int(ns) / int(size) for _, size, ns in ends])
        pairs = [line.split() for line in out.splitlines() if not line.startswith("cpu")]
        return [int(size) / int(ns) for size, ns in pairs][1:]

    def by(self, transport, mib):
        """The same over this transport."""
        self.transport = transport
        try:
            return self.copies("", mib)
        finally:
            self.transport = "stream"

    def perftest(self, test, size, total):
        """GB/s, over all of it."""
        port = PORT
        server = self.start("n2", "ucx_perftest", "-e", "-p", port)

        def listens():
            if server.poll() is not None:
                self.finish(server, "ucx_perftest")
            return self.cluster.vc("exec", "n2", "--", "ss", "-Hltn", f"sport = :{port}")
        wait_for("ucx_perftest to listen", listens, RUN_LIMIT_S)
        out = self.finish(self.start("n1", "ucx_perftest", "n2", "-e", "-p", port, "-t", test, "-s",
                                     size, "-n", max(4, total // size), "-w", 4, "-f"), test)
        self.finish(server, "ucx_perftest")
        return float(out.splitlines()[-1].split()[5]) * (1 << 20) / 1e9

    def shape(self, rate):
        """What n2 receives passes at this rate from now on."""
        with open(f"{self.cluster.dir}/room", encoding="utf-8") as f:
            room = f.read().split()[0]
        tc = ["nsenter", "-t", room, "--net", "tc", "qdisc", "replace", "dev", "n2", "root"]
        subprocess.run([*tc, "tbf", "rate", rate, "burst", "256k", "latency", "20ms"], check=True)


def ways_of(pair, mib, total):
    """What is measured, by name: functions that give the GB/s of some copies."""
    ways = {"ours": lambda: pair.by("stream", mib), "ucx": lambda: pair.by("ucx", mib), "TCP": lambda: pair.copies("tcp-", mib)}
    for test in TESTS:
        for name, size in SIZES.items():
            ways[f"{test} {name}"] = lambda test=test, size=size: [pair.perftest(test, size, total)]
    return ways


def medians_of(rounds, name):
    return statistics.median(r[name] for r in rounds if name in r)


def measure_link(pair, link, mib, total):
    pair.cpu = {}
    if link:
        pair.shape(link)
    ways, rounds = ways_of(pair, mib, total), []
    for i in range(min(ROUNDS, SHAPED_ROUNDS) if link else ROUNDS):
        if i == TRIED:
            best = sorted(set(ways) - {"ours", "ucx"}, key=lambda name: medians_of(rounds, name), reverse=True)
            ways = {name: ways[name] for name in ["ours", "ucx", *best[:KEPT]]}
        names = list(ways)
        names = names[i % len(names):] + names[:i % len(names)]
        rounds.append({name: statistics.median(ways[name]()) for name in names})
        say(f"{link or 'open link'}, round {i + 1}: {rounds[-1]['ours']:.2f} GB/s")
    medians = {name: medians_of(rounds, name) for name in rounds[0]}
    ceiling = max(set(ways) - {"ours", "ucx"}, key=medians.get)
    ratios = [r["ours"] / r[ceiling] for r in rounds]
    row(f"stream.{link}" if link else "stream", medians["ours"], "GB/s",
        pair.cluster.setup(f"n1 to n2, copies of {mib} MiB, CRC32C on, median of {len(rounds)} rounds, "
                           f"sealed over TCP, link {link or 'as fast as the machine'}"),
        ceiling=medians[ceiling], ceiling_name=ceiling, ratio=statistics.median(ratios),
        ratio_noise=median_interval(ratios), noise=median_interval([r["ours"] for r in rounds]),
        rounds=len(rounds), ucx=medians["ucx"], of_ucx=statistics.median(r["ours"] / r["ucx"] for r in rounds),
        cpu_s_per_gb={name: [round(statistics.median(end), 2) for end in zip(*runs)] for name, runs in pair.cpu.items()},
        ceilings={k: round(v, 3) for k, v in medians.items() if k != "ours"})


def measure():
    subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/stream"],
                   stdout=sys.stderr, check=True)
    with Cluster(2, 1) as cluster:
        pair = Pair(cluster)
        for link, mib, total in LINKS:
            measure_link(pair, link, mib, total)


main(measure)
