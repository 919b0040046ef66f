# SPDX-License-Identifier: Apache-2.0
"""What a job writes, as it comes: its journal, the log of the training, its state in Slurm."""
import datetime
import glob
import json
import subprocess

COMMAND_LIMIT_S = 30  # any command on the cluster


def seconds(stamp):
    """Unix time of a journal's "2026-11-21T03:00:00.100Z"."""
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


class Lines:
    """The JSON lines of the files that match a pattern; new() gives each once."""

    def __init__(self, pattern):
        self.pattern = pattern
        self.offsets = {}

    def new(self):
        found = []
        for path in sorted(glob.glob(self.pattern)):
            with open(path, "rb") as f:
                f.seek(self.offsets.get(path, 0))
                data = f.read()
            whole = data.rfind(b"\n") + 1
            self.offsets[path] = self.offsets.get(path, 0) + whole
            for line in data[:whole].splitlines():
                try:
                    found.append(json.loads(line))
                except ValueError:
                    pass  # a line that was cut when its writer died
        return found


class Cluster:
    def __init__(self, vcluster, directory, user="alice"):
        self.vcluster, self.directory, self.user = vcluster, directory, user
        self.home = f"{directory}/home/{user}"

    def run(self, *words, limit=COMMAND_LIMIT_S):
        return subprocess.run([self.vcluster, "--dir", self.directory, *words], text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=limit)

    def command(self, *words):
        """A command of the user where jobs are submitted."""
        return self.run("exec", "--user", self.user, "ctl", "--", *words)

    def submit(self, words, env=()):
        """Gives the job's id, or what sbatch said instead."""
        p = self.command("env", *env, "sbatch", "--parsable", *words)
        if p.returncode != 0:
            return None, (p.stderr or p.stdout).strip()
        return p.stdout.strip().split(";")[0], None

    def state(self, job):
        """Slurm's word for the state of the job and its exit code, as COMPLETED and 0:0."""
        words = self.command("scontrol", "-o", "show", "job", job).stdout.split()
        fields = dict(w.split("=", 1) for w in words if "=" in w)
        return fields.get("JobState", ""), fields.get("ExitCode", "")


class Training:
    """One job of the training program: what its journal and its log have told so far."""

    def __init__(self, cluster, job, name):
        self.job, self.name = job, name
        self.output = f"{cluster.home}/{name}.out"
        self.weights = f"{cluster.home}/{name}.weights"
        self.log_path = f"{cluster.home}/{name}.json"
        self.journal = Lines(f"{cluster.home}/.dlrover/job-{job}/*/events.jsonl")
        self.log = Lines(self.log_path)
        self.events, self.steps, self.done = [], [], False

    def look(self):
        """Reads what is new; gives the new events of the journal."""
        for row in self.log.new():
            self.done = self.done or row["event"] == "done"
            if row["event"] == "step":
                self.steps.append(row)
        new = self.journal.new()
        self.events += new
        return new

    def first(self, name, **fields):
        """The first event of that name with these fields, or None."""
        return next((e for e in self.events if e["event"] == name and
                     all(e.get(k) == v for k, v in fields.items())), None)

    def step(self):
        return self.steps[-1]["step"] if self.steps else 0

    def rate(self, over=8):
        """Steps a second of late."""
        rows = self.steps[-over:]
        if len(rows) < 2 or rows[-1]["time"] <= rows[0]["time"]:
            return 0.0
        return (rows[-1]["step"] - rows[0]["step"]) / (rows[-1]["time"] - rows[0]["time"])
