#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A program for fencing.bats, and what its stamps must show.

stamps.py run FILE STEPS lib|plain: a task. Every 20 ms a step; of each it appends
"round rank node step time state" to FILE, in one write. The state is a hash over every step and
the round it was computed in, so that two lineages never have the same one. With lib it is kept by
libdlrover.

stamps.py check FILE [--dead NODE=TIME]... [--thawed NODE=TIME]... [--clean NODE=TIME]...: no
stamp of a round is younger than the first of the next one, all ranks have the same state at the
same step of a round, and no node has written for a round after the time at which it counted as
dead in it, was thawed, or had said that it is clean. A node with --clean alone is one that no timer
fenced: it may have written for an old round until then. Times are seconds since 1970.
"""
import argparse
import hashlib
import os
import sys
import time

STEP_S = 0.02


def run(path, steps, use_library):
    rank, stage = int(os.environ["RANK"]), os.environ.get("DLROVER_ROUND", "0")
    node, state, step, ck = os.environ["SLURMD_NODENAME"], bytearray(32), 0, None
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    if use_library:
        sys.path.insert(0, "/opt/dlrover/lib/python3/dist-packages")
        import dlrover  # pylint: disable=import-outside-toplevel
        ck = dlrover.Checkpoint()
        ck.add("state", state, kind="local")
        step = ck.restore() or 0
    while step < steps:
        step += 1
        if ck:
            ck.fence()
        state[:] = hashlib.sha256(state + f"{stage} {step}".encode()).digest()
        os.write(out, f"{stage} {rank} {node} {step} {time.time():.6f} {state[:8].hex()}\n"
                 .encode())
        if ck:
            ck.begin(step)
        time.sleep(STEP_S)
    if ck:
        ck.close()


def complain(text):
    print(text, file=sys.stderr)
    return 1


def late(rows, first, node, when):
    """The stamps of a node after a time, for a round that was over or came to its end then."""
    return [r for r in rows if r[2] == node and float(r[4]) > when
            and first[int(r[0])] < when and any(s > int(r[0]) for s in first)]


def check(path, words):
    bad, first, last, states = 0, {}, {}, {}
    loose = {word.split("=")[0] for word in words["clean"]}
    with open(path, encoding="utf-8") as f:
        rows = [line.split() for line in f]
    for stage, rank, node, step, at, state in rows:
        stage, at = int(stage), float(at)
        first[stage] = min(first.get(stage, at), at)
        last[stage, node] = max(last.get((stage, node), at), at)
        if states.setdefault((stage, step), state) != state:
            bad += complain(f"rank {rank}, round {stage}, step {step}: another lineage")
    for (stage, node), at in last.items():
        begun = min((t for s, t in first.items() if s > stage), default=None)
        if begun and at > begun and node not in loose:
            bad += complain(f"{node} wrote for round {stage} {at - begun:.3f} s after the next "
                            "had begun")
    for what, when in ((what, word) for what in words for word in words[what]):
        node, at = when.split("=")
        found = late(rows, first, node, float(at))
        if found:
            bad += complain(f"{node} wrote {len(found)} stamps, up to "
                            f"{float(found[-1][4]) - float(at):.3f} s after it was {what}")
    print(f"{len(rows)} stamps, {len(first)} rounds, steps up to "
          f"{max(int(r[3]) for r in rows)}")
    return 1 if bad else 0


def main():
    if sys.argv[1] == "run":
        run(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "lib")
        return 0
    p = argparse.ArgumentParser()
    p.add_argument("check")
    p.add_argument("file")
    for what in ("dead", "thawed", "clean"):
        p.add_argument(f"--{what}", action="append", default=[])
    a = p.parse_args()
    return check(a.file, {"dead": a.dead, "thawed": a.thawed, "clean": a.clean})


sys.exit(main())
