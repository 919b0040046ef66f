# SPDX-License-Identifier: Apache-2.0
"""A job to which something is done, on the virtual cluster of a campaign, and what must hold of it then."""
import glob
import os
import shutil
import threading
import time

CRASHES = ("Segmentation fault", "Aborted", "signal 11 ", "signal 6 ", "runtime error:")
ON_ITS_WAY = ("RUNNING", "CONFIGURING", "SUSPENDED")


class Failed(Exception):
    pass


class Watch(threading.Thread):
    """The longest time between two steps of a job: its ranks write a line each for every one."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.still_s, self.over = path, 0.0, threading.Event()

    def size(self):
        return os.path.getsize(self.path) if os.path.exists(self.path) else 0

    def run(self):
        seen, last = 0, None
        while not self.over.wait(0.05):
            now, size = time.monotonic(), self.size()
            if size != seen:
                self.still_s = max(self.still_s, now - (last or now))
                seen, last = size, now


class Job:
    """One job, not yet submitted: self.job is its number then."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.watch = Watch(f"{cluster.home}/{name}.hashes")
        self.job, self.began = "", time.monotonic()

    def hashes(self, name):
        try:
            with open(f"{self.cluster.home}/{name}.hashes", encoding="utf-8") as f:
                return {tuple(line.split()[:2]) for line in f if line.endswith("\n")}
        except FileNotFoundError:
            return set()

    def has(self, condition):
        return any(condition(e) for e in self.cluster.events(self.job))

    def await_end(self, limit_s, look=lambda: None):
        """Slurm's word for the end. Meanwhile look() is called again and again."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            look()
            state, reason = self.cluster.job_state(self.job)
            if state.startswith(("PENDING", "COMPLETING", "REQUEUED")):
                self.cluster.hurry(self.job, self.has(lambda e: e["event"] == "requeue"), reason)
            elif state and not state.startswith(ON_ITS_WAY):
                return state
            time.sleep(0.2)
        raise Failed(f"still '{state}' {limit_s} s after the fault")

    def check_bits(self, reference, steps):
        """Of a job that has ended: no step with other bits; with steps, each of them, and the same weights."""
        mine, right = self.hashes(self.name), self.hashes(reference)
        if mine - right:
            raise Failed(f"other bits at step {min(int(step) for step, _ in mine - right)}")
        if steps and len(mine) != steps:
            raise Failed(f"hashes of {len(mine)} steps")
        if steps and self.bytes(f"{self.name}.weights") != self.bytes(f"{reference}.weights"):
            raise Failed("other weights")

    def bytes(self, name):
        with open(f"{self.cluster.home}/{name}", "rb") as f:
            return f.read()

    def look_for_crashes(self):
        """A process of ours that crashed is a failure though the job has survived it."""
        state = f"{self.cluster.home}/.dlrover/job-{self.job}"
        logs = glob.glob(f"{state}/*.log") + glob.glob(f"{state}/*/*.log")
        for path in [f"{self.cluster.home}/out.{self.job}", *logs]:
            with open(path, encoding="utf-8", errors="replace") as f:
                bad = [line for line in f if any(word in line for word in CRASHES)]
            if bad:
                raise Failed(f"{os.path.basename(path)}: {bad[0].strip()[:200]}")

    def figures(self):
        events = [e["event"] for e in self.cluster.events(self.job)] if self.job else []
        return (f"still {self.watch.still_s:5.1f} s, rounds {events.count('running')}, "
                f"requeues {events.count('requeue')}, {time.monotonic() - self.began:5.1f} s")

    def keep(self, target):
        """What it has left goes to a directory."""
        shutil.rmtree(target, ignore_errors=True)
        os.makedirs(target)
        for name in os.listdir(self.cluster.home):
            if name.startswith((f"out.{self.job}", f"{self.name}.hashes")):
                shutil.copy(f"{self.cluster.home}/{name}", target)
        shutil.copytree(f"{self.cluster.home}/.dlrover/job-{self.job}", f"{target}/state", dirs_exist_ok=True,
                        ignore=lambda d, names: [n for n in names if not os.path.isfile(f"{d}/{n}")
                                                 and not os.path.isdir(f"{d}/{n}")])


def undisturbed(cluster, name, limit_s, *argv):
    """Runs the job to which the others are compared."""
    job = cluster.submit(*argv)
    until = time.monotonic() + limit_s
    while cluster.job_state(job)[0] != "COMPLETED 0:0":
        if time.monotonic() > until:
            raise Failed(f"the undisturbed {name} is '{cluster.job_state(job)[0]}'")
        time.sleep(0.2)
