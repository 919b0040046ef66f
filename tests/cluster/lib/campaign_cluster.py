# SPDX-License-Identifier: Apache-2.0
"""The virtual cluster of a campaign: commands on its hosts, its jobs' journals, and what heals it."""
import glob
import json
import os
import re
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
VCLUSTER = os.path.join(HERE, "..", "vcluster")
COMMAND_S = 120  # the limit of every command


def run(*argv, check=False):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(argv[1:])}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


class Cluster:
    def __init__(self, directory, stage, profile, nodes=5):
        self.home = f"{directory}/home/alice"
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        self.stage, self.profile = stage, profile
        os.environ["VCLUSTER_DIR"] = directory

    def up(self):
        self.vc("up", "--nodes", str(len(self.nodes)), "--leaves", "2", "--prefix", self.stage, "--profile", self.profile,
                check=True)

    def down(self):
        self.vc("down")

    def vc(self, *argv, check=False):
        return run(VCLUSTER, *argv, check=check)

    def on(self, node, *argv):
        return self.vc("exec", node, "--", *argv)

    def ctl(self, *argv):
        return self.on("ctl", *argv)

    def hosts(self):
        text = self.vc("status", "--json")
        return json.loads(text)["hosts"] if text else []

    def job_file(self, name, text):
        path = f"{self.home}/{name}"
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chown(path, 3001, 3001)

    def submit(self, *argv):
        out = self.vc("exec", "--user", "alice", "ctl", "--", "sbatch", "--parsable", *argv, check=True)
        return out.split(";")[0]

    def job_state(self, job):
        """Slurm's state and exit code, "COMPLETED 0:0"; "" while nobody answers."""
        text = self.ctl("scontrol", "show", "job", job)
        found = [re.search(rf"\b{key}=(\S+)", text) for key in ("JobState", "ExitCode", "Reason")]
        if not all(found):
            return "", ""
        return f"{found[0][1]} {found[1][1]}", found[2][1]

    def hurry(self, job, requeued, reason):
        """What an administrator and a user do who wait for no timeout of Slurm's: lib/suite.bash."""
        if self.profile != "production" and requeued:
            return
        for host in self.hosts():
            if host["state"] == "dead" and host["slurm"] != "down":
                self.ctl("scontrol", "update", f"nodename={host['name']}", "state=down", "reason=dead")
        if reason == "BeginTime":
            self.ctl("scontrol", "update", f"jobid={job}", "StartTime=now")

    def events(self, job):
        """Of all journals of the job, in order of time."""
        found = []
        for path in glob.glob(f"{self.home}/.dlrover/job-{job}/*/events.jsonl"):
            with open(path, encoding="utf-8") as f:
                found += [json.loads(line) for line in f if line.endswith("\n")]
        return sorted(found, key=lambda e: e["time"])

    def heal(self, limit_s=90):
        """Everything runs again, all nodes idle, nothing of alice's is left: "" or what is not so."""
        until = time.monotonic() + limit_s
        self.ctl("scancel", "--user=alice", "--full")
        for host in self.hosts():
            if "frozen" in host["state"]:
                self.vc("thaw", host["name"])
            if "cut" in host["state"]:
                self.vc("heal", host["name"])
            if host["state"] == "dead":
                self.vc("boot", host["name"])
        for node in ["ctl", *self.nodes]:
            daemon = "slurmctld" if node == "ctl" else "slurmd"
            self.on(node, "sh", "-c", f"exec >/dev/null 2>&1; pkill -CONT -x 'munged|{daemon}'; pgrep -x {daemon} || "
                    f"setsid {daemon}; pgrep -x munged || setpriv --reuid=munge --regid=munge --clear-groups munged")
        wrong = "not tried"
        while wrong and time.monotonic() < until:
            time.sleep(0.3)
            self.ctl("scancel", "--user=alice", "--full")
            wrong = self.not_idle() or self.leftovers()
        return wrong

    def not_idle(self):
        states = set(self.ctl("sinfo", "-h", "-N", "-o", "%T").split())
        if states == {"idle"}:
            return ""
        self.ctl("scontrol", "update", "nodename=ALL", "state=resume")
        return "nodes are " + (" ".join(sorted(states)) or "not told")

    def leftovers(self):
        look = "ps -u alice -o args=; ls -d /dev/shm/dlrover-* /run/dlrover/* 2>/dev/null"
        left = [f"{node}: {text}" for node in self.nodes if (text := self.on(node, "sh", "-c", look))]
        return "; ".join(left).replace("\n", ", ")
