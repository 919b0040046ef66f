#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast a slot's memory is made and touched before the first step.

1 GiB in a tmpfs as the plugin mounts it for a job (huge pages) and in one as /dev/shm is, beside
memset of a fresh anonymous mapping of the same size by as many threads, in turn. The memset is no
ceiling: it goes over the memory twice, once to clear and once to write. Takes about a minute.
"""
import os
import statistics
import subprocess
import sys
import tempfile

from lib.cluster import REPO
from lib.rows import load, median_interval, row

BUILD = os.environ.get("BUILD", f"{REPO}/build")
MIB, ROUNDS = 1024, 11
LIMIT_S = 300
WAYS = {"job_tmpfs": "size=2g,huge=within_size", "dev_shm": "size=2g"}


def measure(name, options):
    before = load()
    with tempfile.TemporaryDirectory() as place:
        inside = f'mount -t tmpfs -o {options} none "$0" && exec "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", inside, place, f"{BUILD}/reserve", place,
                               str(MIB), str(ROUNDS)], text=True, stdout=subprocess.PIPE,
                              check=True, timeout=LIMIT_S)
    made, small, huge = zip(*([float(w) for w in line.split()] for line in done.stdout.splitlines()))
    middle = statistics.median(made)
    row(f"reserve.{name}", middle, "GB/s",
        f"{MIB} MiB, median of {len(made)}, all ways in turn; {os.cpu_count()} cores; "
        f"load {before:.1f} at its start",
        noise=median_interval(made), least=min(made), memset=statistics.median(small),
        of_memset=middle / statistics.median(small), memset_huge=statistics.median(huge))


def main():
    try:
        subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/reserve"],
                       stdout=sys.stderr, check=True)
        for name, options in WAYS.items():
            measure(name, options)
    except (subprocess.SubprocessError, OSError) as e:
        sys.exit(f"reserve.py: {e}")


main()
