#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a save holds a training of a framework up: ours, the framework's own, and its asynchronous one if it has one.

One process, no job and no GPU, weights and AdamW's moments of 10 MB and 1 GB (BENCH_FRAMEWORKS_MB) in host memory,
files in memory too (/dev/shm; BENCH_FRAMEWORKS_DIR). The framework's own loop runs, and sleeps for 100 ms in each
step, as one on a GPU does for the host; only a small layer learns after the first step, but under DeepSpeed and
Megatron-core, which update all. All ways take turns in one training. Held up is what the three steps that begin with
the call took longer than as many steps before it; what goes on beside the training has ended before the next call.
"nothing" is the noise. Each framework is a process of its own, with the environment of scripts/install-deps
--frameworks. What cannot be had is named, with the reason, in the row frameworks.absent.

Then a training of each is killed after a save, and started again: the time from there to the end of the first step of
the new process, with ours, with the framework's own resume, and without anything to go on from ("nothing"), which
is what starting takes. The ways take turns. Takes about 20 minutes.
"""
import collections
import contextlib
import functools
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from lib.rows import load, median_interval, percentile, room_for, row, say

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.environ.get("DLROVER_FRAMEWORKS_VENV", "/opt/dlrover-frameworks")
PLACE = os.environ.get("BENCH_FRAMEWORKS_DIR", "/dev/shm")
SIZES = [int(w) for w in os.environ.get("BENCH_FRAMEWORKS_MB", "10,1000").split(",")]
FRAMEWORKS = os.environ.get("BENCH_FRAMEWORKS", "trainer,accelerate,lightning,deepspeed,megatron").split(",")
ROUNDS = {10: 9, 1000: 5}
IDLE_S = {10: 1.0, 1000: 4.0}  # between two ways
WINDOW, BASE = 3, 5  # steps
COPIES = 10  # of the state, at most, in memory and files
ONE_LIMIT_S, INSTALL_LIMIT_S = 400, 900
GO_ON, GO_ON_ROUNDS, SAVED_AT = ("nothing", "ours", "own"), 5, 3


class Turns:
    """What is called between two steps of a training: calls the ways in turn and takes the times."""

    def __init__(self, ways, mb):
        self.ways, self.took = ways, {way.name: [] for way in ways}
        self.absent, self._last = {}, None
        self._plan = self._rounds(ROUNDS.get(mb, 5), IDLE_S.get(mb, 2.0))
        next(self._plan)

    def between_steps(self):
        """Whether there is nothing more to do."""
        now = time.perf_counter()
        took, self._last = now - (self._last or now), now
        try:
            self._plan.send(took)
        except StopIteration:
            return True
        return False

    def _rounds(self, rounds, idle_s):
        yield  # the first step has no time
        for turn in range(rounds + 1):
            for way in list(self.ways):
                base, until = [], time.perf_counter() + idle_s
                while len(base) < BASE or time.perf_counter() < until:
                    base.append((yield))
                try:
                    way.save()
                except Exception as error:  # pylint: disable=broad-exception-caught # others' code
                    self._leave(way, error)
                    continue
                held = 0
                for _ in range(WINDOW):
                    held += yield
                if turn:  # the first makes files and buffers
                    self.took[way.name].append(held - WINDOW * statistics.median(base[-BASE:]))
                way.settle()

    def _leave(self, way, error):
        text = str(error).splitlines()
        self.absent[way.name] = f"{type(error).__name__}: {text[0] if text else 'no text'}"[:160]
        self.ways.remove(way)
        self.took.pop(way.name)


def trainings():
    """{name: class}, in the frameworks' environment. What they say goes to standard error: the other is for rows."""
    sys.path.insert(0, f"{REPO}/python")
    stage = os.environ.get("DLROVER_STAGE", f"{REPO}/build/stage")
    path = f"{stage}{os.environ.get('PREFIX', '/opt/dlrover')}/lib/libdlrover.so.0"
    if os.path.exists(path):
        os.environ.setdefault("DLROVER_LIB", path)
    with contextlib.redirect_stdout(sys.stderr):
        from lib.frameworks_ways import FRAMEWORKS as found  # pylint: disable=import-outside-toplevel
    return found


def measure(name, mb):
    """One framework at one size, in its environment."""
    found = trainings()
    began, directory = load(), tempfile.mkdtemp(prefix="dlr-bench-frameworks.", dir=PLACE)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            training = found[name](mb, directory)
            turns = Turns(training.ways, mb)
            training.run(turns.between_steps)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    for way in turns.ways:
        report(training, way, turns.took[way.name], mb, began)
    return {**training.absent, **turns.absent}


def report(training, way, took, mb, began):
    values = [1e3 * t for t in took]
    row(f"frameworks.{training.name}.{way.name}.{mb}mb", statistics.median(values), "ms",
        f"{training.says}: {way.says}; {mb} MB of weights and moments in host memory, steps of a sleep of 100 ms, "
        f"files in {PLACE}; one process, no job, no GPU; {os.cpu_count()} cores; load {began:.1f} at its start, "
        f"{load():.1f} now", noise=median_interval(values), p99=percentile(values, 99), max=max(values), n=len(values),
        what=f"{WINDOW} steps from the call on took longer than as many before it: median of all saves")
    say(f"{training.name} {mb} MB {way.name}: {statistics.median(values):.3g} ms")


# --- from a kill to the first step -------------------------------------------------------------------------------

def train_until_killed(name, mb, way, directory):
    """Saves that way, says so and trains on; begun again, says when the first step is done."""
    out, mark = sys.stdout, f"{directory}/saved"
    say_line = functools.partial(print, file=out, flush=True)
    with contextlib.redirect_stdout(sys.stderr):
        training = trainings()[name](mb, directory)
        again, calls = os.path.exists(mark), itertools.count(1)
        if again and way == "own":
            training.own_from = training.newest_own()

        def between_steps():
            call = next(calls)
            if again and call == 1 + training.asks_before:
                say_line("step")
            elif not again and call == SAVED_AT:
                next(one for one in training.ways if one.name == way).save()
            elif not again and call == SAVED_AT + 2:
                assert way != "ours" or training.ours.wait_until_committed(SAVED_AT, ONE_LIMIT_S)
                with open(mark, "wb"):
                    say_line("saved")
            return False

        training.run(between_steps)


def start(name, mb, way, directory):
    """A process that trains, and when it has said a line. RuntimeError: the last one that it said in its place."""
    child = subprocess.Popen([f"{VENV}/bin/python", __file__, "--go-on", name, str(mb), way, directory], env=environ(),
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             start_new_session=True)
    limit = threading.Timer(ONE_LIMIT_S, child.kill)
    limit.start()
    errors = collections.deque(maxlen=1)
    said = threading.Thread(target=lambda: errors.extend(child.stderr), daemon=True)
    said.start()
    line = child.stdout.readline()
    limit.cancel()
    if not line:
        child.wait()
        said.join(1)
        raise RuntimeError((errors or ["it said nothing"])[0].strip()[:160])
    return child


def kill(child):
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def go_on(name, mb):
    """The rows of one framework. {way: why it is not there}."""
    began, absent, took = load(), {}, {way: [] for way in GO_ON}
    directory = tempfile.mkdtemp(prefix="dlr-bench-frameworks.", dir=PLACE)
    try:
        for turn in range(GO_ON_ROUNDS + 1):
            for way in [way for way in took if way not in absent]:
                at = f"{directory}/{way}"
                os.makedirs(at, exist_ok=True)
                try:
                    if turn == 0:
                        kill(start(name, mb, way, at))
                        continue
                    since = time.perf_counter()
                    child = start(name, mb, way, at)
                    took[way].append(time.perf_counter() - since)
                    kill(child)
                except (RuntimeError, OSError) as error:
                    absent[way] = str(error)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    for way in [way for way, values in took.items() if values]:
        row(f"frameworks.{name}.{way}.go_on.{mb}mb", statistics.median(took[way]), "s",
            f"{mb} MB of weights and moments, files in {PLACE}; one process, no job, no GPU; {os.cpu_count()} cores; load "
            f"{began:.1f} at its start, {load():.1f} now", noise=median_interval(took[way]), max=max(took[way]),
            n=len(took[way]), what="from the start of a process, whose forerunner was killed, to the end of its first step: median")
        say(f"{name} {mb} MB {way}: goes on after {statistics.median(took[way]):.3g} s")
    return {f"{name}.{way}.go_on": why for way, why in absent.items()}


# --- all -------------------------------------------------------------------------------------------------------------

def environ():
    return {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "HF_HUB_OFFLINE": "1"}


def one_apart(name, mb):
    """{way: why it is not there}; its rows go to our standard output."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as absent:
        try:
            done = subprocess.run([f"{VENV}/bin/python", __file__, "--one", name, str(mb), absent.name], env=environ(),
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
                                  timeout=ONE_LIMIT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return {name: str(error)}
        for line in done.stderr.splitlines():
            if line.startswith("  "):
                print(line, file=sys.stderr, flush=True)
        if done.returncode:
            return {name: (done.stderr.strip().splitlines() or ["no text"])[-1][:160]}
        return {f"{name}.{way}": why for way, why in json.load(absent).items()}


def main():
    if sys.argv[1:2] == ["--one"]:
        absent = measure(sys.argv[2], int(sys.argv[3]))
        with open(sys.argv[4], "w", encoding="utf-8") as file:
            json.dump(absent, file)
        return
    if sys.argv[1:2] == ["--go-on"]:
        train_until_killed(sys.argv[2], int(sys.argv[3]), *sys.argv[4:6])
        return
    absent = {}
    try:
        subprocess.run([f"{REPO}/scripts/install-deps", "--frameworks"], check=True, stdin=subprocess.DEVNULL,
                       stdout=sys.stderr, timeout=INSTALL_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        say(f"frameworks: not there, nothing measured: {error}")
        return
    for mb in [mb for mb in SIZES if room_for(mb, COPIES)]:
        for name in FRAMEWORKS:
            absent.update(one_apart(name, mb))
            absent.update(go_on(name, mb))
    for name, reason in absent.items():
        say(f"not measured: {name}: {reason}")
    row("frameworks.absent", len(absent), "ways", "; ".join(f"{n}: {r}" for n, r in absent.items()))


if __name__ == "__main__":
    main()
