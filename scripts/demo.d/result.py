# SPDX-License-Identifier: Apache-2.0
"""What the demo measured: figures from the journal, the training's own time stamps and the
two files of weights, as build/demo.json has them.

Seconds ending in _s are lengths of the phases between the kill and the first new step, in this
order, and add up to resume_s: detect (kill to node counted as dead), fence (to the moment when
nothing of the round is left and nodes meet), rendezvous (to the plan), prepare (copies move),
launch (to every task having started), restore (MPI starts, every rank loads its state), first_step.
The kill is the moment just before the command that cuts the power. save_in_flight says whether a
save had been ordered (pending_step) and not yet been decided when the round ended. cadence is how often
saves came by then, and what decided that; seconds_computed_again is what the steps computed again had taken.
"""
import filecmp
import hashlib

from follow import seconds

PHASES = ["detect", "fence", "rendezvous", "prepare", "launch", "restore", "first_step"]


def ranks(plan):
    """{node: [ranks]} of a plan, spares with none."""
    nodes = {p["node"]: list(range(p["first"], p["first"] + p["tasks"])) for p in plan["places"]}
    nodes.update({n: [] for n in plan["spares"]})
    return nodes


class Recovery:
    """The moments of the recovery that are known so far, in seconds after the kill."""

    def __init__(self, training, node, killed_at):
        self.t, self.node, self.killed_at = training, node, killed_at
        self.before = [e for e in training.events if e["event"] == "plan"][-1]

    def at(self, event):
        return seconds(event["time"]) - self.killed_at if event else None

    def later(self, name):
        """The newest event of that name since the kill."""
        return next((e for e in reversed(self.t.events) if e["event"] == name and
                     self.at(e) >= 0), None)

    def earliest(self, name, **fields):
        """The first event of that name with these fields since the kill."""
        return next((e for e in self.t.events if e["event"] == name and self.at(e) >= 0 and
                     all(e.get(k) == v for k, v in fields.items())), None)

    def plan(self):
        return self.later("plan")

    def first_new_step(self):
        """The first step told by a round after the kill: steps are counted again from where it
        resumed, so it is where the number goes back, or the first after the restore."""
        restored = self.later("restored")
        if not restored:
            return None
        return next((s for s in self.t.steps if s["time"] >= seconds(restored["time"])), None)

    def moments(self):
        """{phase: its end}, as far as it has come."""
        first = self.first_new_step()
        ends = [
            self.at(self.earliest("node_dead", node=self.node)),
            self.at(self.earliest("cleared") or self.earliest("rendezvous")),
            self.at(self.later("plan")),
            self.at(self.later("prepared")),
            self.at(self.later("running")),
            self.at(self.later("restored")),
            first["time"] - self.killed_at if first else None,
        ]
        return dict(zip(PHASES, ends))

    def lengths(self):
        ends = self.moments()
        values = list(ends.values())
        if None in values:
            return {}
        return {p: e - b for p, b, e in zip(PHASES, [0.0] + values[:-1], values)}

    def last_step_before(self):
        """The last step that the killed round has told."""
        first = self.first_new_step()
        return max((s["step"] for s in self.t.steps if not first or s["time"] < first["time"]),
                   default=0)

    def committed_before(self):
        """The newest step known as committed at the kill, by supervisor or training."""
        end = self.earliest("round_end")
        told = [s["committed"] for s in self.t.steps if s["time"] <= self.killed_at]
        return max([end["committed"][1] if end and end["committed"] else 0] + told)

    def resumed_from(self):
        restored = self.later("restored")
        return restored["version"] if restored else None


def computed_again(training):
    """(steps that were computed twice, those of them with the same loss)."""
    losses = {}
    for s in training.steps:
        losses.setdefault(s["step"], []).append(s["loss"])
    twice = [v for v in losses.values() if len(v) > 1]
    return len(twice), sum(len(set(v)) == 1 for v in twice)


def seconds_again(r, version):
    """How long the killed round had gone on from the version that was loaded."""
    old = [s["time"] for s in r.t.steps if s["time"] <= r.killed_at and s["step"] > version[1]]
    began = max((s["time"] for s in r.t.steps if s["time"] <= r.killed_at and s["step"] <= version[1]),
                default=old[0] if old else 0.0)
    return round(old[-1] - began, 3) if old else 0.0


def cadence(r):
    """The last word before the kill on how often saves come, or None: the first 8 were not over."""
    told = [e for e in r.t.events if e["event"] == "cadence" and r.at(e) <= 0]
    return {k: told[-1][k] for k in ("every", "every_s", "bound", "cost_ms")} if told else None


def sha256(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()


def figures(r, reference):
    """The content of demo.json. reference is the undisturbed training."""
    equal = filecmp.cmp(r.t.weights, reference.weights, shallow=False)
    again, same = computed_again(r.t)
    version, end, first = r.resumed_from(), r.earliest("round_end"), r.first_new_step()
    beyond = next((s for s in r.t.steps if s["step"] > r.last_step_before()), None)
    result = {"killed_node": r.node, "killed_at_step": r.last_step_before()}
    result.update({f"{p}_s": round(s, 3) for p, s in r.lengths().items()})
    result.update({
        "resume_s": round(first["time"] - r.killed_at, 3),
        "caught_up_s": round(beyond["time"] - r.killed_at, 3) if beyond else None,
        "committed_step": r.committed_before(),
        "resumed_from_step": version[1],
        "lost_steps": max(0, r.committed_before() - version[1]),
        "cadence": cadence(r),
        "steps_computed_again": again,
        "seconds_computed_again": seconds_again(r, version),
        "steps_with_the_same_loss": same,
        "save_in_flight": end["pending"] is not None,
        "pending_step": end["pending"][1] if end["pending"] else None,
        "weights_equal": equal,
        "weights_sha256": sha256(r.t.weights),
        "reference_sha256": sha256(reference.weights),
        "ranks_before": {n: v for n, v in ranks(r.before).items() if v},
        "ranks_after": {n: v for n, v in ranks(r.plan()).items() if v},
        "steps": r.t.step(),
        "loss_first": r.t.steps[0]["loss"],
        "loss_last": r.t.steps[-1]["loss"],
    })
    return result
