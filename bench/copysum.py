#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast state is copied into a slot and summed, beside copying it alone.

10 MB, 100 MB and 1 GB by one and by two threads, with memcpy, a loop of streaming stores, and memcpy
with a sum after it measured in turn. None of these is a ceiling: summing a block first brings it into
the cache, and the copy can end before a plain one does. Takes about a minute.
"""
import os
import statistics
import subprocess
import sys

from lib.cluster import REPO
from lib.rows import load, median_interval, row

BUILD = os.environ.get("BUILD", f"{REPO}/build")
ROUNDS = {10: 41, 100: 21, 1000: 9}
LIMIT_S = 120


def measure(mb, threads):
    before = load()
    done = subprocess.run([f"{BUILD}/copy", str(mb), str(threads), str(ROUNDS[mb])], text=True,
                          stdout=subprocess.PIPE, check=True, timeout=LIMIT_S)
    ways = list(zip(*([float(w) for w in line.split()] for line in done.stdout.splitlines())))
    both, in_turn, plain, stores = (statistics.median(w) for w in ways)
    row(f"copy.{mb}mb.{threads}", both, "GB/s",
        f"{mb} MB of shared memory, {threads} threads, median of {len(ways[0])}, all ways in turn; "
        f"{os.cpu_count()} cores; load {before:.1f} at its start",
        noise=median_interval(ways[0]), memcpy=plain, of_memcpy=both / plain,
        streaming_stores=stores, copy_then_sum=in_turn)


def main():
    try:
        subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/copy"],
                       stdout=sys.stderr, check=True)
        for mb in ROUNDS:
            for threads in (1, 2):
                measure(mb, threads)
    except (subprocess.SubprocessError, OSError) as e:
        sys.exit(f"copysum.py: {e}")


main()
