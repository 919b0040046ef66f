#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast a holder of parity adds what comes in: XOR, Reed-Solomon, and the checksum before it; and
how fast a set of rs:4+2 is encoded and a lost member of it made again.

100 MB and 1 GB on one thread, all ways in turn. Takes a minute.
"""
import os
import statistics
import subprocess
import sys

from lib.cluster import REPO
from lib.rows import load, median_interval, row

BUILD = os.environ.get("BUILD", f"{REPO}/build")
ROUNDS = {100: 21, 1000: 9}
LIMIT_S = 120


def measure(mb):
    before = load()
    done = subprocess.run([f"{BUILD}/gf", str(mb), str(ROUNDS[mb])], text=True,
                          stdout=subprocess.PIPE, check=True, timeout=LIMIT_S)
    ways = list(zip(*([float(w) for w in line.split()] for line in done.stdout.splitlines())))
    xor, multiplied, checked, encoded, rebuilt = (statistics.median(w) for w in ways)
    setup = (f"one thread, median of {len(ways[0])}, all ways in turn; {os.cpu_count()} cores; "
             f"load {before:.1f} at its start")
    row(f"parity.{mb}mb", multiplied, "GB/s",
        f"{mb} MB in blocks of 1 MiB, {setup}", noise=median_interval(ways[1]), xor=xor,
        with_checksum=checked)
    row(f"parity.encode.{mb}mb", encoded, "GB/s", f"{mb} MB of state in 4 shards, both of rs:4+2 are made; {setup}",
        noise=median_interval(ways[3]), what="state per second, in memory; the network is not in it")
    row(f"parity.rebuild.{mb}mb", rebuilt, "GB/s",
        f"a shard of {mb / 4:.0f} MB of 3 others and one of parity, rs:4+2; {setup}",
        noise=median_interval(ways[4]), what="lost bytes per second, in memory; the network is not in it")


def main():
    try:
        subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/gf"],
                       stdout=sys.stderr, check=True)
        for mb in ROUNDS:
            measure(mb)
    except (subprocess.SubprocessError, OSError) as e:
        sys.exit(f"parity.py: {e}")


main()
