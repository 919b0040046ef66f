#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long saving holds a training step up, and what the suite's processes use of a CPU.

A paced program, whose step leaves the CPU idle for most of the time as one on a GPU does, runs
without and with saving, with a small and a large state, and saves as often as it can: at the default
distance (bench/cadence.py) there would be two to measure. Over the sealed stream, which is the default
over TCP, and over UCX. Takes about 3 minutes.
"""
import os
import time

from lib.cluster import EXAMPLES, Cluster, main, read_lines
from lib.rows import percentile, row, say

STEPS = int(os.environ.get("BENCH_SAVE_STEPS", 250))
STEP_MS = 100
SKIP = 10
NODES = 2
# arguments of the program, and bytes of state in each rank
SIZES = {
    "small": ("--params small --batch 16", 5.07e6),
    "large": ("--params default --batch 4", 43.9e6),
}
WAYS = {"idle": "--dlrover-set=checkpoint=off", "saving": "--dlrover-save=always",
        "ucx": "--dlrover-save=always --dlrover-set=transport=ucx"}


class Cpu:
    """Counts the CPU seconds of the suite's processes over the middle of a run."""

    def __init__(self, cluster, log):
        self.cluster, self.log = cluster, log
        self.begin = self.end = None
        self.looked = 0.0

    def watch(self):
        """Called often while the job runs; looks twice a second."""
        if time.monotonic() - self.looked < 0.5:
            return
        self.looked = time.monotonic()
        done = sum(e["event"] == "step" for e in read_lines(self.log))
        if SKIP < done and not self.begin:
            self.begin = self.sample()
        elif self.begin and done < STEPS - 5:
            self.end = self.sample()

    def sample(self):
        used = {}
        for node in range(1, NODES + 1):
            for pid in self.cluster.processes(f"n{node}", "dlrover-"):
                try:
                    used[pid] = cpu_s(pid)
                except OSError:
                    pass  # it ended meanwhile
            for pid in self.cluster.processes(f"n{node}", "mpi_train"):
                try:
                    used[pid] = cpu_s(pid, "dlr-")
                except OSError:
                    pass
        steps = [e for e in read_lines(self.log) if e["event"] == "step"]
        return time.monotonic(), used, steps[-1]["saves"]

    def result(self):
        """Wall seconds, {program: CPU seconds}, saves of a rank between the two samples."""
        (t0, before, saves0), (t1, after, saves1) = self.begin, self.end
        used = {}
        for pid, (name, seconds) in after.items():
            used[name] = used.get(name, 0) + seconds - before.get(pid, (name, 0))[1]
        return t1 - t0, used, saves1 - saves0


def cpu_s(pid, threads=""):
    """(program, CPU seconds of its threads of names that begin so), from the scheduler's nanoseconds."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as f:
            if not f.read().startswith(threads):
                continue
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as f:
            total += int(f.read().split()[0])
    with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
        return f.read().strip(), total / 1e9


def run(cluster, size, way):
    name = f"{size}.{way}"
    log = f"{cluster.home}/{name}.log"
    cpu = Cpu(cluster, log)
    cluster.run_script(
        f"srun --dlrover=on {WAYS[way]} {EXAMPLES}/mpi_train {SIZES[size][0]} --step-ms {STEP_MS} "
        f"--steps {STEPS} --log {name}.log {'--no-ckpt' if way == 'idle' else ''}", f"-N{NODES}",
        watch=cpu.watch)
    return [e for e in read_lines(log) if e["event"] == "step"], cpu.result()


def report_blocked(cluster, size, where, steps):
    setup = cluster.setup(f"mpi_train {SIZES[size][0]} --step-ms {STEP_MS} on {NODES} nodes, "
                          f"{SIZES[size][1] / 1e6:.0f} MB of state in each rank, replica and CRC "
                          "on; rank 0")
    pairs = list(zip(steps[SKIP:], steps[SKIP + 1:]))
    blocked = [(b["begin_ns"] + b["fence_ns"] - a["begin_ns"] - a["fence_ns"]) / 1e6
               for a, b in pairs]
    saves = steps[-1]["saves"] - steps[SKIP]["saves"]
    wall_ms = 1e3 * (steps[-1]["time"] - steps[SKIP]["time"])
    row(f"save.{where}.blocked_share", 100 * sum(blocked) / wall_ms, "%", setup,
        what="share of a step spent in begin and fence, over all steps",
        saves=saves, steps=len(blocked), given_up=steps[-1]["given_up"],
        begin_ms=(steps[-1]["begin_ns"] - steps[SKIP]["begin_ns"]) / 1e6,
        fence_ms=(steps[-1]["fence_ns"] - steps[SKIP]["fence_ns"]) / 1e6)
    # A step without a save spends well under a microsecond there.
    busy = [b for b in blocked if b > 1e-3] or blocked
    row(f"save.{where}.blocked_p99", percentile(blocked, 99), "ms", setup, n=len(blocked),
        p50=percentile(blocked, 50), max=max(blocked), p50_of_saving_steps=percentile(busy, 50),
        what="time in begin and fence of a step, p99 of all steps")
    row(f"save.{where}.every", len(blocked) / max(1, saves), "steps", setup,
        what="steps for each save: 1 is every step")
    say(f"{where}: {saves} saves in {len(blocked)} steps, blocked "
        f"{100 * sum(blocked) / wall_ms:.3f} %, p99 {percentile(blocked, 99):.3f} ms")


def cpu_setup(cluster, size):
    return cluster.setup(f"mpi_train {SIZES[size][0]} --step-ms {STEP_MS} on {NODES} nodes; "
                         "CPU time from the scheduler, over the middle of the run")


def report_idle(cluster, size, idle):
    setup = cpu_setup(cluster, size)
    wall, used, _ = idle
    row(f"save.{size}.cpu_agent", 100 * used.get("dlrover-agent", 0) / wall / NODES, "%", setup,
        what="of one core, an agent without saving")
    row(f"save.{size}.cpu_supervisor", 100 * used.get("dlrover-supervi", 0) / wall, "%", setup,
        what="of one core, the supervisor without saving")


def report_saving(cluster, size, where, busy):
    setup = cpu_setup(cluster, size)
    wall, used, saves = busy
    gigabytes = saves * SIZES[size][1] * NODES / 1e9
    both = used.get("dlrover-agent", 0) + used.get("dlrover-data", 0) + used.get("mpi_train", 0)
    row(f"save.{where}.cpu_per_gb", both / max(gigabytes, 1e-9), "CPU-s/GB", setup, saves=saves,
        copying=used.get("mpi_train", 0) / max(gigabytes, 1e-9),
        what="copying threads of the program, agents and data processes, sender and receiver, for each GB saved and "
             "replicated")
    row(f"save.{where}.cpu_supervisor_saving", 100 * used.get("dlrover-supervi", 0) / wall, "%",
        setup, what="of one core, the supervisor with saving")


def measure():
    with Cluster(NODES) as cluster:
        for size in SIZES:
            report_idle(cluster, size, run(cluster, size, "idle")[1])
            for way, where in (("saving", size), ("ucx", f"{size}.ucx")):
                steps, busy = run(cluster, size, way)
                report_blocked(cluster, size, where, steps)
                report_saving(cluster, size, where, busy)


main(measure)
