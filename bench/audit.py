#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the audit takes that looks at the first two saves and each hundredth, at 16 MiB of the state at most.

In begin and in the fence, in the program's own thread: it blocks a step. 10 MB to 1 GB in 1 to 13,600 regions,
the state written before each. Takes a minute.
"""
import os
import subprocess
import sys

from lib.cluster import REPO
from lib.rows import load, median_interval, percentile, row

BUILD = os.environ.get("BUILD", f"{REPO}/build")
CASES = [(10, 1, 201), (100, 1, 101), (1000, 1, 25), (1000, 400, 25), (1000, 13600, 25)]
LIMIT_S = 120


def measure(mb, regions, rounds):
    before = load()
    done = subprocess.run([f"{BUILD}/audit", str(mb), str(regions), str(rounds)], text=True,
                          stdout=subprocess.PIPE, check=True, timeout=LIMIT_S)
    looked, other = zip(*([float(w) for w in line.split()] for line in done.stdout.splitlines()))
    row(f"audit.{mb}mb.{regions}", percentile(looked, 50) / 1e3, "ms",
        f"{mb} MB in {regions} regions, median of {rounds} saves that are looked at; one thread; "
        f"{os.cpu_count()} cores; load {before:.1f} at its start",
        noise=median_interval(looked) / percentile(looked, 50), p99=percentile(looked, 99) / 1e3,
        other_us=percentile(other, 50), a_save_us=percentile(looked, 50) / 100 + percentile(other, 50))


def main():
    try:
        subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/audit"],
                       stdout=sys.stderr, check=True)
        for case in CASES:
            measure(*case)
    except (subprocess.SubprocessError, OSError) as e:
        sys.exit(f"audit.py: {e}")


main()
