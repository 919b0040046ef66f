# SPDX-License-Identifier: Apache-2.0
"""A virtual cluster for a benchmark, its jobs, and what they write."""
import datetime
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import rows

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAGE = os.environ.get("DLROVER_STAGE", f"{REPO}/build/stage")
EXAMPLES = "/opt/dlrover/share/dlrover/examples"
UID = 3001  # alice
JOB_LIMIT_S = float(os.environ.get("BENCH_JOB_S", 300))  # of each wait for a job
POLL_S = 0.05  # files are looked at so often; no time is taken from it


class Failed(Exception):
    """A benchmark cannot go on; the text says why."""


def main(measure):
    """Runs a benchmark's function; its failure is one line, Ctrl-C is silent."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        measure()
    except Failed as e:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {e}")
    except KeyboardInterrupt:
        sys.exit(130)


def wait_for(what, look, limit=JOB_LIMIT_S):
    """What look() returns once that is true."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(POLL_S)
    raise Failed(f"{what}: not within {limit:.0f} s")


def stamp(event):
    """Seconds since 1970 of a journal line."""
    return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def read_lines(path):
    """The complete lines of JSON in a file that somebody appends to; none when it is not there."""
    try:
        with open(path, "rb") as f:
            data = f.read()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in data[:data.rfind(b"\n") + 1].splitlines()]


class Cluster:
    """with Cluster(nodes): one that is up inside the block and gone after it."""

    def __init__(self, nodes, leaves=2):
        self.nodes, self.leaves = nodes, leaves
        self.dir = tempfile.mkdtemp(prefix="dlr-bench.", dir="/tmp")
        self.home = f"{self.dir}/home/alice"

    def __enter__(self):
        try:
            self.vc("up", "--nodes", self.nodes, "--leaves", self.leaves, "--prefix", STAGE)
        except BaseException:
            self.__exit__()
            raise
        self.load_before = rows.load()
        return self

    def __exit__(self, *_):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.run([f"{REPO}/tests/cluster/vcluster", "--dir", self.dir, "down"],
                       stdout=subprocess.DEVNULL, start_new_session=True, check=False)
        if not os.path.exists(f"{self.dir}/.vcluster"):
            shutil.rmtree(self.dir, ignore_errors=True)

    def vc(self, *words):
        done = subprocess.run(
            [f"{REPO}/tests/cluster/vcluster", "--dir", self.dir, *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False)
        if done.returncode:
            raise Failed(f"vcluster {words[0]}: {done.stderr.strip() or done.returncode}")
        return done.stdout.strip()

    def ctl(self, *words):
        return self.vc("exec", "ctl", "--", *words)

    def setup(self, text):
        """What every row says about where its figure comes from."""
        return (f"{text}; virtual cluster of {self.nodes} nodes on one machine and one kernel, "
                f"{os.cpu_count()} cores for all; load {self.load_before:.1f} at its start, "
                f"{rows.load():.1f} now")

    # --- jobs

    def submit(self, script, *options):
        """The id of a job of alice with that text as its script."""
        path = f"{self.home}/job.sh"
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/bash\n{script}\n")
        os.chown(path, UID, UID)
        return self.vc("exec", "--user", "alice", "ctl", "--", "sbatch", "--parsable", "-o",
                       "out.%j", *options, "job.sh").split(";")[0]

    def output(self, job):
        try:
            with open(f"{self.home}/out.{job}", encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def run_script(self, script, *options, limit=JOB_LIMIT_S, watch=None):
        """Runs a job to its end. No Slurm command is asked meanwhile, which would disturb."""
        end = f"{self.home}/end"
        if os.path.exists(end):
            os.unlink(end)
        job = self.submit(f"set -e\ntrap 'echo $? >end.new; mv end.new end' EXIT\n{script}",
                          *options)

        def ended():
            if watch:
                watch()
            return os.path.exists(end)
        wait_for(f"end of job {job}", ended, limit)
        with open(end, encoding="utf-8") as f:
            code = f.read().strip()
        if code != "0":
            tail = " | ".join(self.output(job).splitlines()[-4:])
            raise Failed(f"job {job} ended with {code}: {tail}")
        return job

    def cancel(self, job):
        self.ctl("scancel", "--full", job)

    def wait_idle(self):
        def idle():
            if set(self.ctl("sinfo", "-h", "-N", "-o", "%T").split()) == {"idle"}:
                return True
            time.sleep(0.3)
            return False
        wait_for("idle nodes", idle)

    # --- a run's journal

    def journal(self, job):
        """All events of the newest run of a job."""
        paths = glob.glob(f"{self.home}/.dlrover/job-{job}/*/events.jsonl")
        return read_lines(max(paths, key=os.path.getmtime)) if paths else []

    def event(self, job, what, meets, limit=JOB_LIMIT_S):
        """The first event that meets a condition; the end of the run is a failure."""
        def look():
            for e in self.journal(job):
                if meets(e):
                    return e
                if e["event"] == "end":
                    raise Failed(f"job {job} ended before {what}: {e.get('why')}")
            return None
        return wait_for(f"{what} of job {job}", look, limit)

    # --- harm

    def host_pid(self, host):
        with open(f"{self.dir}/hosts/{host}/init", encoding="utf-8") as f:
            return int(f.read().split()[0])

    def power_off(self, host):
        """A node's silent end. Returns the time just before its cable was pulled."""
        with open(f"{self.dir}/room", encoding="utf-8") as f:
            room = f.read().split()[0]
        before = time.time()
        subprocess.run(["nsenter", "-t", room, "--net", "ip", "link", "set", host, "down"],
                       check=True)
        self.vc("kill", host)
        return before

    def processes(self, host, prefix):
        """Pids, as this machine counts, of the host's processes whose program begins so."""
        inside, found = os.readlink(f"/proc/{self.host_pid(host)}/ns/pid"), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                    comm = f.read()
                if comm.startswith(prefix) and os.readlink(f"/proc/{pid}/ns/pid") == inside:
                    found.append(int(pid))
            except OSError:
                pass  # it ended meanwhile
        return found
