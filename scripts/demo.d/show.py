# SPDX-License-Identifier: Apache-2.0
"""Runs the demo on a cluster that is up: started by scripts/demo, which cleans up after it."""
import argparse
import glob
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time

from follow import Cluster, Training
from result import PHASES, Recovery, figures, ranks
from screen import Screen, table, width

PROGRAM = "/opt/dlrover/share/dlrover/examples/mpi_train"
KILL_AT = 0.4      # of the steps
LOOK_S = 0.1       # between two looks at files that tell nobody when they grow
ASK_SLURM_S = 2    # between two questions to slurmctld while the job goes on
STALL_S = 90       # nothing new from a job for so long is a failure
END_S = 60         # from the program's last word to the end of the job in Slurm

# What the suite gives its own steps too: with the default of Slurm 22.05's PMIx plugin one start
# of an MPI program in ten fails in MPI_Init.
PMIX_ENV = ["SLURM_PMIX_FENCE=ring"]

SCRIPT = f"""#!/bin/sh
#SBATCH -N 5
#SBATCH --dlrover=on
#SBATCH --dlrover-spares=1
#SBATCH -o %x.out
srun {PROGRAM} "$@"
"""


class Failure(Exception):
    pass


class Demo:
    def __init__(self, options):
        self.o = options
        self.screen = Screen(options.started)
        self.cluster = Cluster(options.vcluster, options.dir)
        self.steps = options.steps or (80 if options.quick else 160)
        self.train = self.reference = self.recovery = self.victim = None
        self.said = set()

    # --- jobs -----------------------------------------------------------------------

    def write_script(self):
        path = f"{self.cluster.home}/train.sh"
        with open(path, "w", encoding="ascii") as f:
            f.write(SCRIPT)
        owner = os.stat(self.cluster.home)
        os.chown(path, owner.st_uid, owner.st_gid)
        self.screen.line()
        for text in SCRIPT.splitlines():
            self.screen.line("          | " + text, "cyan")
        self.screen.line()

    def submit(self, name, options=(), words=(), env=()):
        program = ["--steps", str(self.steps), "--log", f"{name}.json",
                   "--save-weights", f"{name}.weights", *words]
        if self.o.quick:
            program += ["--params", "small", "--step-ms", "100"]
        job, why = self.cluster.submit(["-J", name, *options, "train.sh", *program], env)
        if why:
            raise Failure(f"sbatch: {why}")
        return Training(self.cluster, job, name)

    def draw(self, t, force=False):
        if not t.steps:
            return
        quiet = time.time() - t.steps[-1]["time"]
        loss, safe = t.steps[-1]["loss"], max(s["committed"] for s in t.steps)
        wide = width() >= 96
        if t.done:
            text = f"loss {loss:.3f}, waiting for Slurm"
        elif quiet > 1.5:
            text = f"no step for {quiet:.1f} s"
        else:
            text = f"loss {loss:.3f}  {t.rate():.1f}" + (" steps/s" if wide else "/s")
            if t is self.train:
                text += f"  {'committed' if wide else 'safe'} {safe}"
        self.screen.progress("training" if t is self.train else "reference", t.step(), self.steps,
                             text if not force else f"loss {loss:.3f}", force)

    def follow(self, t, until=lambda: False):
        """Shows a job until it has ended, or until() is true; a job that fails is a Failure."""
        heard = asked = time.monotonic()
        done_at = None
        while not until():
            count = len(t.steps)
            for event in t.look():
                heard = time.monotonic()
                self.on_event(event)
            now = time.monotonic()
            heard = now if len(t.steps) > count else heard
            self.on_steps(t)
            self.draw(t)
            done_at = done_at or (now if t.done else None)
            if now - asked > (LOOK_S if t.done else ASK_SLURM_S):
                asked = now
                if self.ended(t):
                    return
            if now - heard > STALL_S or (done_at and now - done_at > END_S):
                raise Failure(f"job {t.job} went silent at step {t.step()} of {self.steps}")
            select.select([], [], [], LOOK_S)

    def ended(self, t):
        state, code = self.cluster.state(t.job)
        if state in ("PENDING", "CONFIGURING", "RUNNING", "REQUEUED", ""):
            return False
        if state == "COMPLETING" and not t.done:
            return False
        if code != "0:0" or state not in ("COMPLETING", "COMPLETED"):
            raise Failure(f"job {t.job} ended as {state}, exit code {code}")
        t.look()
        if not t.done:
            raise Failure(f"job {t.job} ended at step {t.step()} of {self.steps}")
        return True

    # --- what happens to the first one --------------------------------------------------

    def on_steps(self, t):
        r = self.recovery
        if t is not self.train or not r or "first_step" in self.said:
            return
        first = r.first_new_step()
        if first:
            self.said.add("first_step")
            at = first["time"] - r.killed_at
            self.screen.after(at, f"step {first['step']}: training goes on", "green", "bold")

    def on_event(self, e):
        r = self.recovery
        if not r:
            if e["event"] == "plan":
                spares = ", ".join(e["spares"]) or "none"
                self.screen.say(f"round {e['round']}", "  ".join(
                    f"{n}: rank {v[0]}" for n, v in ranks(e).items() if v) + f"  spare: {spares}")
                self.choose(e)
            return
        if r.at(e) < 0:
            return
        tell = getattr(self, "tell_" + e["event"], None)
        text = tell(e) if tell else None
        if text:
            self.screen.after(r.at(e), text)
        if e["event"] == "plan":
            self.show_table(e)

    def tell_node_dead(self, e):
        batch = self.train.first("start")["nodes"][0]
        silent = f" for {e['silent_ms'] / 1e3:.2f} s" if e.get("silent_ms") else ""
        return f"noticed by the supervisor on {batch}: {e['node']} {e['why']}{silent}"

    def tell_round_end(self, e):
        committed = e["committed"][1] if e["committed"] else "none"
        save = f", being saved: {e['pending'][1]}" if e["pending"] else ""
        return f"round {e['round']} ends; committed step: {committed}{save}"

    def tell_rendezvous(self, e):
        return f"nothing of it is left running; {len(e['candidates'])} nodes meet"

    def tell_plan(self, e):
        moved = [f"{p['node']} takes rank {p['first']}" for p in e["places"] if p["moved"]]
        start = f"resume from step {e['restore'][1]}" if e["restore"] else "start from nothing"
        return f"plan: {', '.join(moved) or 'no rank moves'}; {start}"

    def tell_prepared(self, e):
        return (f"copies in place; that of rank {self.victim['first']} "
                f"was in the memory of {self.victim['partner']}")

    def tell_running(self, e):
        return f"srun has started every rank of round {e['round']}"

    def tell_restored(self, e):
        return f"every rank has loaded step {e['version'][1]}"

    def tell_restore_failed(self, e):
        return f"rank {e['rank']} could not load step {e['version'][1]}: {e['why']}"

    def tell_worker_exit(self, e):
        return f"rank {e['rank']} on {e['node']} ended"

    def leaves(self):
        """{node: its leaf switch}, in the order of the nodes."""
        nodes = {e["node"]: e["leaf"] for e in self.train.events if e["event"] == "node_up"}
        return dict(sorted(nodes.items(), key=lambda item: (item[1], item[0])))

    def show_table(self, plan):
        leaves, r = self.leaves(), self.recovery

        def row(name, of):
            have = ranks(of)
            return [name] + [f"rank {have[n][0]}" if have.get(n) else
                             "spare" if n in have else "dead" for n in leaves]

        heads, last = [""], None
        for leaf in leaves.values():
            heads.append(leaf if leaf != last else "")
            last = leaf
        self.screen.line()
        for text in table([heads, ["", *leaves], row("before", r.before), row("after", plan)]):
            self.screen.line(" " * 20 + text, "bold")
        self.screen.line()

    def choose(self, plan):
        """The place whose node is to die."""
        self.victim = next((p for p in plan["places"] if p["node"] == self.o.node or
                            (not self.o.node and p["first"] == 1)), None)
        if not self.victim:
            raise Failure(f"{self.o.node} holds no rank, it is the spare: choose another --node")

    def kill(self):
        t, victim = self.train, self.victim
        node = victim["node"]
        self.draw(t, force=True)
        self.screen.keep()
        self.recovery = Recovery(t, node, time.time())
        self.screen.say("POWER CUT", f"on {node}, {victim['leaf']}, the node of rank "
                        f"{victim['first']}, at step {t.step()}", "red", at=self.recovery.killed_at)
        p = self.cluster.run("kill", node)
        if p.returncode != 0:
            raise Failure(f"cannot kill {node}: {p.stderr.strip()}")

    # --- the whole ----------------------------------------------------------------------

    def run_supervised(self):
        self.write_script()
        self.train = t = self.submit("train")
        self.screen.say(f"job {t.job}", f"sbatch train.sh, as alice; {self.steps} steps")
        self.follow(t, lambda: t.step() >= KILL_AT * self.steps and t.steps[-1]["committed"] > 0)
        if t.done:
            raise Failure("the training was over before the power could be cut")
        self.kill()
        self.follow(t)
        self.draw(t, force=True)
        self.screen.keep()
        if not self.recovery.lengths():
            raise Failure("the training ended without a restore after the power cut")
        self.screen.say("done", f"job {t.job} completed, exit code 0", "green")

    def run_reference(self):
        self.reference = t = self.submit(
            "reference", ["-N", "4", "--dlrover=off", "--exclude", self.recovery.node],
            ["--no-ckpt"], PMIX_ENV)
        self.screen.say(f"job {t.job}", "the same undisturbed: sbatch -N 4 --dlrover=off train.sh")
        self.follow(t)
        self.draw(t, force=True)
        self.screen.keep()

    def summary(self, f):
        s, r = self.screen, self.recovery
        moved = ", ".join(f"{p['node']} ({p['leaf']}) has rank {p['first']}"
                          for p in r.plan()["places"] if p["moved"])
        during = (f"with the save of step {f['pending_step']} under way" if f["save_in_flight"]
                  else "between two saves")
        words = {p: p.replace("_", " ") for p in PHASES}
        s.line()
        s.line("What happened", "bold")
        s.line(f"  {r.node} lost its power at step {f['killed_at_step']} of {f['steps']}, {during}.")
        s.line(f"  {f['resume_s']:.1f} s later the job made its first new step: {moved}.")
        rows = [[*words.values(), "seconds"],
                [*(f"{f[p + '_s']:.2f}" for p in PHASES), f"{f['resume_s']:.2f}"]]
        for text in table(rows, 2):
            s.line("    " + text, "bold")
        again = f["steps_computed_again"]
        same = "to the same loss" if f["steps_with_the_same_loss"] == again else "TO ANOTHER LOSS"
        s.line(f"  Resumed from step {f['resumed_from_step']}: {f['lost_steps']} committed steps lost, "
               f"{again} computed again" + (f" ({f['seconds_computed_again']:.1f} s), {same}."
                                            if again else "."))
        if f["cadence"]:
            s.line("  Saves came every {every} steps ({every_s:.1f} s, by {bound}); one costs {cost_ms:.1f} ms."
                   .format(**f["cadence"]))
        s.line(f"  Loss {f['loss_first']:.3f} -> {f['loss_last']:.3f} in {f['steps']} steps of 4 ranks.")
        if f["weights_equal"]:
            s.line("  Final weights and undisturbed ones: EQUAL BIT FOR BIT, "
                   f"{os.path.getsize(r.t.weights) / 1e6:.1f} MB,", "green")
        else:
            s.line("  Final weights and undisturbed ones DIFFER:", "red")
        s.line(f"  sha256 {f['weights_sha256']}")
        if not f["weights_equal"]:
            s.line(f"     and {f['reference_sha256']}")
        s.line(f"  Figures: {self.short('demo.json')}   journal, outputs: {self.short('demo')}/")
        s.line(f"  All in all: {s.since():.0f} s")

    def short(self, name):
        path = f"{self.o.build}/{name}"
        near = os.path.relpath(path)
        return near if len(near) < len(path) else path

    def save(self, f=None):
        """What is worth reading once the cluster is gone."""
        target = f"{self.o.build}/demo"
        shutil.rmtree(target, ignore_errors=True)
        os.makedirs(target)
        for t in filter(None, (self.train, self.reference)):
            for path in (t.output, t.log_path):
                if os.path.exists(path):
                    shutil.copy(path, target)
        if os.path.isdir(f"{self.cluster.home}/.dlrover"):
            shutil.copytree(f"{self.cluster.home}/.dlrover", f"{target}/state", symlinks=True,
                            ignore=shutil.ignore_patterns("*.safetensors", ".agents-*.in"))  # a pipe
        if f:
            with open(f"{self.o.build}/demo.json", "w", encoding="ascii") as out:
                json.dump(f, out, indent=2)
                out.write("\n")

    def look_around(self):
        s, vc = self.screen, self.o.vcluster
        alice = f"{vc} exec --user alice ctl --"
        s.line()
        s.line("The cluster is still up. To look around as the user who submitted:", "bold")
        s.line(f"  export VCLUSTER_DIR={self.o.dir}")
        s.line(f"  {alice} dlrover status {self.train.job}")
        s.line(f"  {alice} dlrover events {self.train.job}")
        s.line(f"To give {self.recovery.node} its power back, train longer, watch:")
        s.line(f"  {vc} boot {self.recovery.node}")
        s.line(f"  {alice} sbatch train.sh --steps 1000")
        s.line(f"  {alice} dlrover status")
        s.line("To take everything down:")
        s.line(f"  {vc} down")

    def run(self):
        self.run_supervised()
        self.run_reference()
        f = figures(self.recovery, self.reference)
        f["took_s"] = round(self.screen.since(), 1)
        self.save(f)
        self.summary(f)
        return 0 if f["weights_equal"] else 1

    def fail(self, why):
        """The reason, and the last words of who may know more."""
        self.screen.keep()
        print(f"demo: {why}", file=sys.stderr)
        t = self.reference or self.train
        if not t:
            return
        journals = glob.glob(t.journal.pattern)
        for path, count in [(t.output, 8)] + [(p, 4) for p in journals]:
            if os.path.exists(path):
                with open(path, errors="replace") as f:
                    lines = f.read().splitlines()[-count:]
                print(f"  {os.path.basename(path)}:", file=sys.stderr)
                print("\n".join("  | " + line[:240] for line in lines), file=sys.stderr)
        self.save()
        print(f"  (kept in {self.short('demo')}/)", file=sys.stderr)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--vcluster", required=True)
    p.add_argument("--dir", required=True)
    p.add_argument("--build", required=True)
    p.add_argument("--started", type=float, required=True)
    p.add_argument("--steps", type=int)
    p.add_argument("--node")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--keep", action="store_true")
    return p.parse_args()


def main():
    demo = Demo(parse())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        rc = demo.run()
        if demo.o.keep:
            demo.look_around()
        return rc
    except BrokenPipeError: # nobody reads us any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Failure, OSError, subprocess.SubprocessError) as why:
        demo.fail(why)
        return 1
    finally:
        demo.screen.clear()


sys.exit(main())
