#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What an index of a feed costs in C (bench/feed.c) and in Python, beside reading it from a filled array and torch's
DistributedSampler; memory of the order. Takes half a minute, of one process.
"""
import os
import statistics
import subprocess
import sys
import time
import tracemalloc

from lib.cluster import REPO
from lib.rows import load, median_interval, row

BUILD = os.environ.get("BUILD", f"{REPO}/build")
ROUNDS = 5
MICROS = (1, 32, 256)  # indices of a call
CALLS = 3000
SAMPLER_RECORDS = 1_000_000


def in_c():
    before, found = load(), {}
    for _ in range(ROUNDS):
        done = subprocess.run([f"{BUILD}/feed"], text=True, stdout=subprocess.PIPE, check=True, timeout=120)
        for what, records, ns in map(str.split, done.stdout.splitlines()):
            found.setdefault((what, int(records)), []).append(float(ns))
    array = statistics.median(next(values for (what, _), values in found.items() if what == "array"))
    for (what, records), values in found.items():
        row(f"feed.c.{what}.{records}", statistics.median(values), "ns of CPU",
            f"an index, 32 a call, {records} records, median of {ROUNDS}, load {before:.1f} at its start",
            noise=median_interval(values), array=array)


def in_python():
    from dlrover.feed import Feed  # pylint: disable=import-outside-toplevel

    before = load()
    for micro in MICROS:
        feed, values = Feed(10**12, micro, micro, parts=1), []
        for _ in range(ROUNDS):
            began = time.process_time()
            for step in range(CALLS):
                feed.indices(step, 0)
            values.append(1e9 * (time.process_time() - began) / CALLS / micro)
        row(f"feed.python.{micro}", statistics.median(values), "ns of CPU",
            f"an index, {micro} a call, 10**12 records, median of {ROUNDS}, load {before:.1f} at its start",
            noise=median_interval(values))
    tracemalloc.start()
    feed = Feed(10**12, 32, 32, parts=1)
    next(iter(feed.sampler()))
    row("feed.memory", tracemalloc.get_traced_memory()[1] / 1024, "KiB", "Python's peak, open and first batch")
    tracemalloc.stop()


def of_torch():
    try:
        from torch.utils.data import DistributedSampler  # pylint: disable=import-outside-toplevel
    except ImportError:
        return
    began = time.process_time()
    sampler = iter(DistributedSampler(range(SAMPLER_RECORDS), 8, 0))
    next(sampler)
    row("feed.torch_first", 1e3 * (time.process_time() - began), "ms of CPU",
        f"the first index of DistributedSampler, {SAMPLER_RECORDS} records, 8 ranks")


def main():
    sys.path.insert(0, f"{REPO}/python")
    os.environ.setdefault("DLROVER_LIB", f"{BUILD}/libdlrover.so")
    try:
        subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/feed", f"{BUILD}/libdlrover.so"],
                       stdout=sys.stderr, check=True)
        in_c()
        in_python()
        of_torch()
    except (subprocess.SubprocessError, OSError) as e:
        sys.exit(f"feed.py: {e}")


main()
