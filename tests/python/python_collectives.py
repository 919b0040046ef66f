# SPDX-License-Identifier: Apache-2.0
"""Where three processes stand in torch.distributed, as their watch pages say it and as watch/judge/ judges it.

usage: python_collectives.py JUDGE      a program that judges pages: judge_pages.c
"""
import contextlib
import io
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import torch
import torch.distributed as dist

import dlrover
from python_agent import Agent, _watch_page

JUDGE, RANKS, PATIENCE_S = sys.argv[1], 3, 150
RECORDER = hasattr(torch._C._distributed_c10d, "_dump_fr_trace_json")
if RECORDER:
    import torch._dynamo  # each process would take three seconds for it
ONES = torch.ones(6)


def stay():
    time.sleep(PATIENCE_S * 2)


def skips(rank, _groups):
    for _ in range(3):
        dist.all_reduce(ONES)
    if rank == 1:
        stay()
    dist.all_reduce(ONES)


def reducer(rank, _groups):
    """PyTorch's own reducer calls it: no Python is in it."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(6, 6))
    for step in range(4):
        if rank == 2 and step == 3:
            stay()
        model(ONES).sum().backward()


def mismatch(rank, _groups):
    dist.barrier()
    if rank == 0:
        dist.broadcast(torch.ones(1000000), 0)
        dist.barrier()
    dist.all_reduce(torch.ones(1000000))
    stay()


def receives(rank, _groups):
    """More of them than collectives, which rank 1 has not come to."""
    if rank == 0:
        for _ in range(3):
            dist.send(ONES, 1)
        dist.send(ONES, 2)
        dist.recv(ONES, 1)
    if rank == 1:
        for _ in range(3):
            dist.recv(ONES, 0)
        stay()
    if rank == 2:
        dist.recv(ONES)
    dist.all_reduce(ONES)


def deadlock(rank, groups):
    dist.all_reduce(ONES)
    for number in (rank, (rank + 2) % 3):
        dist.all_reduce(ONES, group=groups[number])


def anew(rank, _groups):
    """A group that is left and made again counts from its beginning."""
    dist.all_reduce(ONES)
    await_that(lambda: dlrover._watch._reader._lines)
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(1)
    begin(f"{os.environ['RENDEZVOUS']}.again")
    if rank == 2:
        stay()
    dist.all_reduce(ONES)


def goes_on(rank, groups):
    """In short steps: messages, groups, objects, work that is waited for later, work that nobody waits for."""
    while True:
        work = dist.all_reduce(torch.ones(6), async_op=True)
        dist.all_gather_object([None] * 3, rank)
        for number in sorted({rank, (rank + 2) % 3}):
            dist.all_reduce(torch.ones(6), group=groups[number])
        if rank == 0:
            dist.send(ONES, 1)
        elif rank == 1:
            dist.recv(ONES, 0)
        work.wait()
        time.sleep(0.02)


# What is said at last, and of goes_on() at all times.
SITUATIONS = {
    skips: "still not entered 1 all_reduce",
    reducer: "still not entered 2 async_op" if RECORDER else "still all",
    mismatch: "stuck mismatch 0 broadcast",
    receives: "still not entered 1 recv",
    deadlock: "stuck deadlock 0 1 2 all_reduce",
    anew: "still not entered 2 all_reduce",
    goes_on: "none nobody",
}


def begin(path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=int(os.environ["RANK"]), world_size=RANKS)


def run(situation, directory, rank, page):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), DLROVER_WATCH="auto",
                      RENDEZVOUS=f"{directory}/rendezvous")
    own = f"{directory}/{rank}"
    os.mkdir(own)
    agent = Agent(own, rank, 0, RANKS)
    agent.watch = page
    with agent:
        if situation is not receives:  # bind() comes late in most programs
            begin(os.environ["RENDEZVOUS"])
            dist.all_reduce(ONES)
        assert dlrover.watch().active
        if situation is receives:
            begin(os.environ["RENDEZVOUS"])
        groups = [dist.new_group([0, 1]), dist.new_group([1, 2]), dist.new_group([0, 2])]
        situation(rank, groups)
        stay()


def phase(page):
    _, _, since, _, name = struct.unpack("<IIQQ40s", os.pread(page, 64, 128))
    return name.rstrip(b"\0").decode() if since else None


def await_that(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class Slow(io.BytesIO):
    """A file whose first bytes take until the page says what is done."""

    def __init__(self, page, expected):
        super().__init__()
        self._page, self._expected = page, expected

    def write(self, data):
        await_that(lambda: phase(self._page) == self._expected)
        return super().write(data)


def threads():
    return [thread.name for thread in threading.enumerate()].count("dlrover-watch")


def compile_one(page):
    def backend(graph, _examples):
        await_that(lambda: phase(page) == "compile")
        return graph.forward

    def reduced(tensor):
        dist.all_reduce(tensor)
        return tensor + 1

    assert torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2)).tolist() == [2, 2]
    assert torch.compile(reduced, backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [2, 2]


class Library:
    """In place of libdlrover: which functions were called."""

    def __init__(self):
        self.called = []

    def __getattr__(self, name):
        return lambda *_: self.called.append(name) or 0


def looks_at_last():
    library = Library()
    dlrover._groups.Reader(library, None, lambda _: None).stop()
    assert library.called[-2:] == ["dlr_watch_put_group", "dlr_watch_close"], library.called


def fails_and_goes_on():
    """A group that ends while it is looked at is no end of the watch."""
    reader = dlrover._watch._reader
    await_that(lambda: any(line.told for line in reader._lines.values()))
    ids, look, failures = {line.id for line in reader._lines.values()}, reader._tell, [1, 2]

    def fails(*args):
        if failures:
            raise RuntimeError(failures.pop())
        look(*args)

    reader._tell = fails
    await_that(lambda: not failures and all(line.told for line in reader._lines.values()))
    assert {line.id for line in reader._lines.values()} == ids and threads() == 1


# (operations of two groups in the recorder, PyTorch's count less what the second has, before, lost)
RECORDED = [
    ("of a group alone", 0, 3, 0, 0, 0),
    ("with messages", 0, 3, 2, 2, 0),
    ("a name used again", 4, 3, 0, 0, 0),
    ("more than are counted", 0, 3, -1, 0, 1),
    ("none", 0, 0, 3, 0, 1),
]


def begun_before(groups):
    """What is known of a group's count when messages were not wrapped from its beginning."""
    group = dist.distributed_c10d._get_default_group()
    name = dist.distributed_c10d._world.pg_names[group]
    recorded, number, kept = groups._recorded, groups._number, groups._of(group).unwrapped
    try:
        for what, old, own, more, before, lost in RECORDED:
            entries = [{"pg_id": int(at >= old), "process_group": [name, ""]} for at in range(old + own)]
            groups._recorded = lambda entries=entries: entries
            groups._number = lambda *_, count=own + more: count
            for unwrapped, expected in ((own + more, (before, lost)), (0, (0, 0))):
                groups._of(group).unwrapped = unwrapped
                line = groups._Line(group, name, {0: 0}, 0)
                assert (line.before, line.lost) == expected, (what, line.before, line.lost)
    finally:
        groups._recorded, groups._number, groups._of(group).unwrapped = recorded, number, kept
    c10d = torch._C._distributed_c10d
    real = c10d._dump_fr_trace_json
    c10d._dump_fr_trace_json = lambda includeCollectives=None, onlyActive=None: b"{}"  # PyTorch 2.8 to 2.14
    assert groups._in_flight() == {} and groups._recorded() == []
    c10d._dump_fr_trace_json = real


def alone(directory):
    """One rank: what it does in place of steps, a fork, and nothing where the job does not ask for it."""
    os.environ.update(RANK="0", WORLD_SIZE="1")
    page = _watch_page(0)
    agent = Agent(directory, 0, 0, 1)
    agent.watch = page
    with agent:
        dist.init_process_group("gloo", init_method=f"file://{directory}/rendezvous", rank=0, world_size=1)
        kind = dist.distributed_c10d.ProcessGroup
        before = kind.send
        assert dlrover.watch().active and threads() == 0 and kind.send is before
        os.environ["DLROVER_WATCH"] = "auto"
        watch = dlrover.watch()
        assert dlrover.watch() is watch and threads() == 1
        once = kind.send
        dlrover._groups.count_messages()
        assert kind.send is once and once.__wrapped__ is before
        torch.save(ONES, Slow(page, "save"))
        await_that(lambda: phase(page) is None)
        with dlrover.phase("mine"):
            torch.save(ONES, Slow(page, "mine"))
        if RECORDER:
            compile_one(page)
        with contextlib.suppress(Exception):
            dist.broadcast(ONES, 7)
        dist.all_reduce(ONES)
        fails_and_goes_on()
        child = os.fork()
        if child == 0:
            time.sleep(0.6)  # two looks, if there were any
            watch.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert struct.unpack("<I", os.pread(page, 4, 68))[0] & 18 == 16  # calls are told, and it has not finished
        watch.close()  # others may still wait for it
        assert struct.unpack("<I", os.pread(page, 4, 68))[0] & 18 == 16
        os.environ["DLROVER_ROUND"] = "5"  # for this process a new one
        await_that(lambda: threads() == 0)
        assert struct.unpack("<I", os.pread(page, 4, 68))[0] & 18 == 2
        looks_at_last()
        if RECORDER:
            begun_before(dlrover._groups)


class Job:
    def __init__(self, situation, directory):
        self.directory = os.path.join(directory, situation.__name__)
        os.mkdir(self.directory)
        self.pages = [_watch_page(rank) for rank in range(RANKS)]
        self.pids = []
        for rank, page in enumerate(self.pages):
            pid = os.fork()
            if pid == 0:
                try:
                    run(situation, self.directory, rank, page)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(1)
            self.pids.append(pid)

    def keep(self, when):
        for rank, page in enumerate(self.pages):
            with open(f"{self.directory}/{rank}.{when}", "wb") as file:
                file.write(os.pread(page, 32768, 0))

    def judge(self):
        words = [word for rank, pid in enumerate(self.pids) for word in
                 (str(pid), f"{self.directory}/{rank}.before", f"{self.directory}/{rank}.after")]
        done = subprocess.run([JUDGE, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip(), done.stderr

    def end(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
        for pid in self.pids:
            os.waitpid(pid, 0)


def all_said(jobs):
    """Looks at all twice. Whether each is said what is to be said of it."""
    for job in jobs.values():
        job.keep("before")
    time.sleep(1)
    for job in jobs.values():
        job.keep("after")
    said = {situation: job.judge() for situation, job in jobs.items()}
    if goes_on in said:
        assert not said[goes_on][0].startswith("stuck"), "".join(said[goes_on])
    return {situation: one for situation, one in said.items() if one[0] != SITUATIONS[situation]}


def main():
    wanted = [one for one in SITUATIONS if not sys.argv[2:] or one.__name__ in sys.argv[2:]]
    with tempfile.TemporaryDirectory() as directory:
        own = os.path.join(directory, "alone")
        os.mkdir(own)
        first = os.fork()
        if first == 0:
            try:
                alone(own)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        jobs = {one: Job(one, directory) for one in wanted}
        try:
            end = time.monotonic() + PATIENCE_S
            while True:
                others = all_said(jobs)
                if not others:
                    break
                if time.monotonic() > end:
                    sys.exit("\n".join(f"{one.__name__}: {said}\n{pages}" for one, (said, pages) in others.items()))
        finally:
            for job in jobs.values():
                job.end()
        assert os.waitpid(first, 0)[1] == 0
    print(f"ok, {len(wanted)}")


main()
