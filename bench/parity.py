#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast a holder of parity adds what comes in: XOR, Reed-Solomon, and the checksum before it.

100 MB and 1 GB on one thread, the three ways in turn. Takes half a minute.
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
    xor, multiplied, checked = (statistics.median(w) for w in ways)
    row(f"parity.{mb}mb", multiplied, "GB/s",
        f"{mb} MB in chunks of 1 MiB, one thread, median of {len(ways[0])}, all ways in turn; "
        f"{os.cpu_count()} cores; load {before:.1f} at its start",
        noise=median_interval(ways[1]), xor=xor, with_checksum=checked)


def main():
    try:
        subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/gf"],
                       stdout=sys.stderr, check=True)
        for mb in ROUNDS:
            measure(mb)
    except (subprocess.SubprocessError, OSError) as e:
        sys.exit(f"parity.py: {e}")


main()
