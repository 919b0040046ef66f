#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast a snapshot becomes durable, beside what fio writes into the same directory.

dlrover-data writes a snapshot to a file and syncs it, fio the same number of bytes in the way that does best of
six (write and io_uring, direct in blocks of 1 and 4 MiB and buffered in blocks of 1, room taken first as ours
takes it, synced at the end), in turn, so that the same disk is measured at the same time. The directory is BENCH_PERSIST_DIR (/var/tmp). Every byte of ours
is check-summed on the way. Takes about 3 minutes.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from lib.cluster import REPO
from lib.rows import load, median_interval, row, say

BUILD = os.path.join(REPO, os.environ.get("BUILD", "build"))
PLACE = os.environ.get("BENCH_PERSIST_DIR", "/var/tmp")
SIZES = [int(w) for w in os.environ.get("BENCH_PERSIST_MIB", "64,256,1024").split(",")]
ROUNDS = int(os.environ.get("BENCH_PERSIST_ROUNDS", 5))
LIMIT_S = 300
WAYS = [("psync", 0, 1), ("io_uring", 0, 1), ("psync", 1, 1), ("psync", 1, 4), ("io_uring", 1, 1), ("io_uring", 1, 4)]


def run(*words):
    return subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True,
                          timeout=LIMIT_S).stdout


def ours(directory, mib):
    """GB/s of one snapshot."""
    size, ns = map(int, run(f"{BUILD}/persist", directory, str(mib), "1").split())
    return size / ns


def fio(directory, mib, engine, direct, block):
    """GB/s, the sync at the end included; None where the machine has no such engine."""
    try:
        text = run("fio", "--name=w", f"--directory={directory}", "--rw=write", f"--bs={block}M", f"--size={mib}M",
                   f"--ioengine={engine}", f"--direct={direct}", "--iodepth=8", "--end_fsync=1", "--unlink=1",
                   "--fallocate=native", "--output-format=json")
    except subprocess.CalledProcessError:
        return None
    job = json.loads(text[text.index("{"):])["jobs"][0]
    return job["write"]["io_bytes"] / (job["job_runtime"] * 1e6)


def measure(directory, mib):
    before, mine, theirs = load(), [], {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        mine.append(ours(directory, mib))
        for way, values in theirs.items():
            speed = fio(directory, mib, *way)
            if speed:
                values.append(speed)
    best = max((w for w in WAYS if theirs[w]), key=lambda w: statistics.median(theirs[w]))
    ceiling, value = statistics.median(theirs[best]), statistics.median(mine)
    name = f"fio {best[0]}{', direct' if best[1] else ''}, {best[2]} MiB"
    row(f"persist.{mib}mib", value, "GB/s",
        f"{mib} MiB to a file of {PLACE}, synced; median of {ROUNDS}, all ways in turn; {os.cpu_count()} "
        f"cores; load {before:.1f} at its start, {load():.1f} now",
        ceiling=ceiling, ceiling_name=name, ratio=value / ceiling, noise=median_interval(mine),
        noise_of_ceiling=median_interval(theirs[best]),
        what="a snapshot is read, check-summed and durable")
    say(f"{mib} MiB: {value:.3g} GB/s, {name} {ceiling:.3g}")


def main():
    if not shutil.which("fio"):
        sys.exit("persist.py: no fio (scripts/install-deps)")
    directory = None
    try:
        subprocess.run(["make", "-s", "-C", REPO, f"BUILD={BUILD}", f"{BUILD}/persist"], stdout=sys.stderr,
                       check=True)
        directory = tempfile.mkdtemp(prefix="dlr-bench-persist.", dir=PLACE)
        for mib in SIZES:
            measure(directory, mib)
    except (subprocess.SubprocessError, OSError) as e:
        said = (getattr(e, "stderr", None) or "").strip()
        sys.exit(f"persist.py: {e}{': ' if said else ''}{said}")
    finally:
        if directory:
            shutil.rmtree(directory, ignore_errors=True)


main()
