# SPDX-License-Identifier: Apache-2.0
"""What a campaign does to a running job: a row each in FAULTS."""
import time

WORKER = "mpi_train|python3"
AGENT, DATA, SUPERVISOR, KEEPER = "dlrover-agent", "dlrover-data", "dlrover-supervi", "dlrover-keeper"
ENDS_WITH_SRUN = "FAILED 137:0"  # the keeper is the srun of the script


class Scene:
    """A job that runs, and the nodes of its round: where[0] is the batch host."""

    def __init__(self, cluster, job, where, rng):
        self.cluster, self.job, self.where, self.rng = cluster, job, where, rng
        self.batch = "n1"
        self.others = [n for n in where if n != self.batch]
        rng.shuffle(self.others)
        self.a, self.b = self.others[:2]
        self.any = rng.choice(where)

    def kill(self, node, name, signal="KILL"):
        self.cluster.on(node, "pkill", f"-{signal}", "-u", "alice", "-x", name)

    def kill_agent(self, node):
        """The newest of that name: the other one has started it, and starts it again."""
        self.cluster.on(node, "pkill", "-KILL", "-n", "-u", "alice", "-x", AGENT)

    def root(self, node, command):
        self.cluster.on(node, "sh", "-c", command)

    def vc(self, *argv):
        self.cluster.vc(*argv)

    def rest(self, least, most):
        time.sleep(self.rng.uniform(least, most))

    def await_event(self, name, limit_s=30):
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            if any(e["event"] == name for e in self.cluster.events(self.job)):
                return
            time.sleep(0.02)

    def stopped(self, node, name, least, most):
        self.kill(node, name, "STOP")
        self.rest(least, most)
        self.kill(node, name, "CONT")

    def step_of(self, number):
        """The step daemons of the agents (0) or of the round's tasks on a node."""
        return ("pgrep -P 1 -f '^slurmstepd: .*\\.0\\]'" if number == 0 else
                "ps -o ppid= -C mpi_train,python3 | sort -u")


def twice(s, node, name):
    s.kill(node, name)
    s.rest(0, 2)
    s.kill(node, name)


def frozen(s, node):
    s.vc("freeze", node)
    s.rest(0.5, 4)
    s.vc("thaw", node)


def cut(s, node):
    s.vc("cut", node)
    s.rest(0.5, 4)
    s.vc("heal", node)


def both(s, first, second):
    first(s)
    second(s)


def during(s, event, first, second):
    first(s)
    s.await_event(event)
    second(s)


def restarted(s, node, daemon):
    s.root(node, f"pkill -TERM -x {daemon}; while pgrep -x {daemon} >/dev/null; do sleep 0.1; done; "
           f"setsid {daemon} >/dev/null 2>&1")


def two_nodes(s):
    """Four are needed and three are left: one is repaired once the job waits for that."""
    s.vc("kill", s.a, s.b)
    s.await_event("requeue")
    s.rest(0, 8)
    s.vc("boot", s.a)


def munged_stopped(s):
    for node in s.where:
        s.root(node, "pkill -STOP -x munged")
    s.kill(s.batch, SUPERVISOR)
    s.rest(1, 4)
    for node in s.where:
        s.root(node, "pkill -CONT -x munged")


def suspended(s):
    s.cluster.ctl("scontrol", "suspend", s.job)
    s.rest(3, 5)
    s.cluster.ctl("scontrol", "resume", s.job)


def worker(s): s.kill(s.any, WORKER)
def node(s): s.vc("kill", s.a)
def supervisor(s): s.kill(s.batch, SUPERVISOR)
def agent(s): s.kill_agent(s.a)
def data(s): s.kill(s.any, DATA)


# Name: what is done, and the end of the job where it is not the undisturbed one's.
FAULTS = {
    "worker": (worker, None),
    "worker by SIGSEGV": (lambda s: s.kill(s.any, WORKER, "SEGV"), None),
    "worker stopped": (lambda s: s.stopped(s.any, WORKER, 0.2, 2.5), None),
    "two workers": (lambda s: both(s, worker, lambda s: s.kill(s.b, WORKER)), None),
    "agent": (agent, None),
    "agent of the batch host": (lambda s: s.kill_agent(s.batch), None),
    "agent and who starts it": (lambda s: s.kill(s.a, AGENT), None),
    "agent stopped": (lambda s: s.stopped(s.a, AGENT, 0.2, 3), None),
    "agents of two nodes": (lambda s: both(s, agent, lambda s: s.kill_agent(s.b)), None),
    "data process": (data, None),
    "data process twice": (lambda s: twice(s, s.a, DATA), None),
    "data process stopped": (lambda s: s.stopped(s.any, DATA, 0.5, 4), None),
    "supervisor": (supervisor, None),
    "supervisor twice": (lambda s: twice(s, s.batch, SUPERVISOR), None),
    "supervisor stopped": (lambda s: s.stopped(s.batch, SUPERVISOR, 0.2, 4), None),
    "keeper": (lambda s: s.kill(s.batch, KEEPER), ENDS_WITH_SRUN),
    "stepd of the round": (lambda s: s.root(s.a, f"kill -KILL $({s.step_of(1)})"), None),
    "stepd of the agents": (lambda s: s.root(s.a, f"kill -KILL $({s.step_of(0)})"), None),
    "srun of the round": (lambda s: s.root(s.batch, "kill -KILL $(pgrep -u alice -nx srun)"), None),
    "node": (node, None),
    "node frozen": (lambda s: frozen(s, s.a), None),
    "node cut": (lambda s: cut(s, s.a), None),
    "two nodes": (two_nodes, None),
    "batch host": (lambda s: s.vc("kill", s.batch), None),
    "batch host frozen": (lambda s: frozen(s, s.batch), None),
    "batch host cut": (lambda s: cut(s, s.batch), None),
    "slurmctld": (lambda s: both(s, lambda s: restarted(s, "ctl", "slurmctld"), worker), None),
    "slurmd": (lambda s: both(s, lambda s: restarted(s, s.a, "slurmd"), worker), None),
    "munged stopped, supervisor": (munged_stopped, None),
    "job suspended": (suspended, None),
    "node and worker": (lambda s: both(s, node, lambda s: s.kill(s.b, WORKER)), None),
    "node and agent": (lambda s: both(s, node, lambda s: s.kill_agent(s.b)), None),
    "node and supervisor": (lambda s: both(s, node, supervisor), None),
    "supervisor and agent": (lambda s: both(s, supervisor, agent), None),
    "data process, then its node": (lambda s: both(s, lambda s: s.kill(s.a, DATA), node), None),
    "node after a worker's round ended": (lambda s: during(s, "round_end", worker, node), None),
    "supervisor after a node's round ended": (lambda s: during(s, "round_end", node, supervisor), None),
    "agent after a worker's round ended": (lambda s: during(s, "round_end", worker, agent), None),
    "supervisor, then a worker once it is back": (lambda s: during(s, "adopted", supervisor, worker), None),
}
