# SPDX-License-Identifier: Apache-2.0
"""What a round leaves in a process that stays (docs/resilient.md), with a played agent: each case is a round that a
lost node ends, and the next one, in which the case looks. What the library says is compared as a whole.

python_leftovers.py CASE…
"""
import _thread
import gc
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import weakref
from unittest import mock

import torch
import torch.distributed as dist
from python_resilient import JOIN, PARK, PARKED, STAY, hear, say
from torch import nn

import dlrover
from dlrover import _groups, _leftovers, _resilient

FIRST = 4  # the number of the first round
GONE_S = 60  # the limit for what comes at once
has_compile = hasattr(torch, "compile")
said = []
begun, parked = threading.Event(), threading.Event()
held = {}  # by the program, over rounds
release = threading.Event()  # what hangs


def play(listener):
    """The agent: another node is lost each time that a case has begun."""
    conn, _ = listener.accept()
    hear(conn, STAY, FIRST)
    number = FIRST
    while True:
        begun.wait()
        begun.clear()
        say(conn, PARK, number)
        hear(conn, PARKED, number)
        parked.set()
        environment = os.memfd_create("environment")
        os.write(environment, f"DLROVER_ROUND={number + 1}\0".encode())
        say(conn, JOIN, number + 1, [1, 2, environment])
        os.close(environment)
        number += 1


def lose():
    """In a round: a node is lost while this thread sleeps."""
    begun.set()
    time.sleep(10 * GONE_S)


def over_a_loss(first, second=lambda: None):
    """first() in a round that ends, second() in the next one. What the library said in between, without its times."""
    said.clear()
    parked.clear()
    calls = []
    number = int(os.environ["DLROVER_ROUND"])

    @dlrover.resilient
    def train():
        calls.append(int(os.environ["DLROVER_ROUND"]))
        if len(calls) == 1:
            first()
            lose()
        second()

    train()
    assert calls == [number, number + 1], calls
    assert said[-1].startswith(f"round {number} ended because a node was lost; left it in "), said
    where = f"round {number} has ended, and "
    return [line[len(where):] if line.startswith(where) else line for line in said[:-1]]


def join():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Slow(torch.utils.data.Dataset):
    """Sample 0 is there, the others take longer than anybody waits."""

    def __len__(self):
        return 4

    def __getitem__(self, at):
        if at:
            time.sleep(10 * GONE_S)
        return at


class Numbers(Slow):
    def __getitem__(self, at):
        return at


def nothing():
    """A model that is wrapped in the round leaves nothing behind, whatever else the program holds."""
    target = Slow()
    held["proxy"] = weakref.proxy(target)
    del target

    def train():
        join()
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
        model(torch.ones(2)).sum().backward()

    got = over_a_loss(train)
    assert got == [], got
    del held["proxy"]


def wrapped():
    def train():
        join()
        held["ddp"] = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
        if has_compile:
            from torch.distributed.fsdp import fully_shard  # pylint: disable=import-outside-toplevel
            held["fsdp"] = nn.Sequential(nn.Linear(2, 2))
            fully_shard(held["fsdp"][0])
            fully_shard(held["fsdp"])

    lines = ["a DistributedDataParallel of it is still held: wrap the model again in each round"]
    if has_compile:
        lines.append("a FSDPModule of it is still held: wrap the model again in each round")  # the inner is a part
    got = over_a_loss(train)
    assert sorted(got) == lines, got
    held.clear()


def groups():
    """A group that an object holds, and one that the program has destroyed itself."""
    class Trainer:
        pass

    held["trainer"] = Trainer()

    def train():
        join()
        held["trainer"].group = dist.new_group([0])

    got = over_a_loss(train)
    assert len(got) == 1 and got[0].startswith("process group '"), got
    assert got[0].endswith("' of 1 ranks is still held by 'Trainer' as 'group': make it in each round"), got

    def hold():
        join()
        globals()["group_of_all"] = dist.group.WORLD
        try:
            lose()
        finally:
            dist.destroy_process_group()

    got = over_a_loss(hold)
    assert len(got) == 1, got
    assert got[0].endswith(f"held by module '{__name__}' as 'group_of_all': make it in each round"), got
    del globals()["group_of_all"]
    held.clear()

    class Absent:
        """What it stands for is not there."""

        def __getattr__(self, name):
            raise RuntimeError(f"no {name} outside of a request")

    def hide():
        join()
        held["absent"] = Absent()
        held["absent"].groups = {"all": dist.group.WORLD, "sizes": []}  # else no object of the collector

    got = over_a_loss(hide)
    assert len(got) == 1 and got[0].endswith("is still held by a dict: make it in each round"), got
    # PyTorch's own, as a mesh with its register.
    held["mesh"] = type("Mesh", (), {"__module__": "torch.distributed.played"})()

    def make_mesh():
        join()
        held["mesh"].registry = {"all": dist.group.WORLD, "sizes": []}
        held["mesh"].groups = [dist.group.WORLD]

    del held["absent"]
    got = over_a_loss(make_mesh)
    assert got == [], got
    held.clear()


def late():
    """Where a look takes too long nothing is asked, and PyTorch's gradient mode is put back all the same; where one
    fails the process stays."""
    grad = "torch's gradient mode is False, and was True when it began: it is so again"

    def train():
        join()
        held["group"] = dist.new_group([0])
        torch.set_grad_enabled(False)

    def look():
        assert torch.is_grad_enabled()

    with mock.patch.object(_leftovers, "FIND_S", -1):
        got = over_a_loss(train, look)
    assert got == ["something of its process groups is still held, and it takes more than -1 s to find out by whom",
                   grad], got
    held.clear()
    with mock.patch.object(_leftovers, "OBJECTS_MAX", 1):
        got = over_a_loss(lambda: torch.set_grad_enabled(False), look)
    assert len(got) == 2 and got[0].startswith("what it has left in memory is not looked for: there are "), got
    assert got[1] == grad, got

    def fails(*_):
        raise KeyError("odd")

    with mock.patch.multiple(_leftovers.Leftovers, note_groups=fails, find=fails):
        got = over_a_loss(lambda: torch.set_grad_enabled(False), look)
    assert set(got) == {"what holds the process groups will not be known: KeyError('odd')",
                        "what else is left of the round is not known: KeyError('odd')"}, got
    with mock.patch.object(_leftovers.Leftovers, "__init__", fails), dlrover.round() as current:
        assert said[-1] == "what the round leaves will not be known: KeyError('odd')", said
        lose()
    assert current.ended


def between():
    """A node is lost between two rounds: what the program has done meanwhile is its own."""
    with dlrover.round() as current:
        pass
    assert not current.ended
    torch.set_grad_enabled(False)
    begun.set()
    assert _resilient._process().word.wait(GONE_S)
    said.clear()
    with dlrover.round() as following:
        assert following.number == current.number + 1, following.number
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    assert len(said) == 1 and said[0].startswith(f"round {current.number} ended because a node was lost"), said


def loaders():
    """A loader of the round is gone with it, in the middle of a sample and waited for; one from before it stays."""
    before = torch.utils.data.DataLoader(Numbers(), num_workers=1, persistent_workers=True)
    usual, _leftovers.DIE_S = _leftovers.DIE_S, GONE_S  # on a machine that is busy
    torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 10 * GONE_S  # for which a loader waits for its workers

    def workers():
        return {child.pid for child in multiprocessing.active_children()}

    def train():
        assert [int(x) for x in before] == [0, 1, 2, 3]
        held["stay"] = workers()
        started = iter(before)  # is begun anew in the next round
        next(started)
        for sample in torch.utils.data.DataLoader(Slow(), num_workers=2):
            assert int(sample) == 0
            held["all"] = workers()
            begun.set()  # and the next sample does not come

    def look():
        assert len(held["stay"]) == 1 and len(held["all"]) == 3, held
        assert workers() == held["stay"]
        assert [int(x) for x in before] == [0, 1, 2, 3]
        assert workers() == held["stay"]

    got = over_a_loss(train, look)
    assert got == [], got

    def lets_go():
        """The program catches what ends its round, and lets a loader go itself."""
        samples = iter(torch.utils.data.DataLoader(Slow(), num_workers=2))
        next(samples)
        begun.set()
        try:
            next(samples)
        except dlrover.RoundEnded:
            pass
        del samples
        assert torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL <= _leftovers.JOIN_S
        raise dlrover.RoundEnded

    got = over_a_loss(lets_go)
    assert got == [], got
    assert torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL == 10 * GONE_S
    torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 5.0
    _leftovers.DIE_S = usual
    del before
    gc.collect()
    assert not workers()
    held.clear()


def processes():
    """Those from before the round are no business of its, nor are threads of torch.compile's pool or of none of
    Python's making."""
    old = multiprocessing.get_context("fork").Process(target=release.wait, name="old", daemon=True)
    new = multiprocessing.get_context("fork").Process(target=release.wait, name="new", daemon=True)
    old.start()

    def start():
        new.start()
        threading.Thread(target=release.wait, name="InductorSubprocHealth", daemon=True).start()
        known = threading.Event()
        _thread.start_new_thread(lambda: (threading.current_thread(), known.set(), release.wait()), ())
        known.wait()

    got = over_a_loss(start)
    assert got == [f"process 'new' ({new.pid}) that was started in it still runs"], got
    for child in (old, new):
        child.kill()
        child.join()


def settings():
    def change():
        os.chdir("/")
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)

    here = os.getcwd()
    got = over_a_loss(change, lambda: held.update(grad=torch.is_grad_enabled()))
    assert got == [f"the handler of SIGUSR1 is {signal.SIG_IGN!r}, and was {signal.SIG_DFL!r} when it began",
                   f"the working directory is '/', and was '{here}' when it began",
                   "torch's default dtype is torch.float64, and was torch.float32 when it began",
                   "torch's gradient mode is False, and was True when it began: it is so again"], got
    assert held.pop("grad")
    os.chdir(here)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    torch.set_default_dtype(torch.float32)


def graphs():
    """A stand-in: this machine has no GPU that could capture one."""
    class Graph:
        pass

    torch.cuda.CUDAGraph, torch.cuda.is_initialized = Graph, lambda: True
    held["before"] = Graph()
    got = over_a_loss(lambda: held.update(graph=Graph()))
    assert got == ["CUDA graphs that were captured in it are still held (1): capture those with collective calls again"]
    assert over_a_loss(Graph) == []
    held.clear()


def training():
    """Half a step has left gradients, which the next one would add to; and weights that are not fresh are not taken
    for it where there is no version. What is not trained is as fresh as ever."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False))
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    agent = os.environ.pop("DLROVER_AGENT_SOCKET")  # of this rank's own files: nobody plays memory here

    def train():
        ck = dlrover.bind(model, optimizer)
        assert ck.restore() == 0
        model(torch.ones(2)).sum().backward()
        optimizer.step()

    def again():
        assert all(parameter.grad is None for parameter in model.parameters())
        bound = dlrover.bind(model, optimizer)
        try:
            bound.restore()
            raise AssertionError("fresh")
        except dlrover.Error as error:
            assert error.strerror == (f"there is no version to restore, and the weights are those of round "
                                      f"{int(os.environ['DLROVER_ROUND']) - 1}, not fresh ones: the process must start "
                                      "again"), error
        bound.close()
        fresh = dlrover.bind(nn.Sequential(nn.Linear(2, 2), model[1]))
        assert fresh.restore() == 0
        fresh.close()

    assert over_a_loss(train, again) == []
    os.environ["DLROVER_AGENT_SOCKET"] = agent


class Communicator:
    """A stand-in for NCCL's: a call of it waits until it is aborted."""

    def __init__(self):
        self.ended = threading.Event()

    def name(self):
        return "nccl"

    def wait(self):
        begun.set()
        self.ended.wait(GONE_S)
        raise RuntimeError("NCCL communicator was aborted")

    def abort(self):
        self.ended.set()


def play_nccl(communicator):
    """It is the device's backend of a group without a name of its own, as init_process_group() makes them."""
    class Group:
        _device_types = [torch.device("cpu"), torch.device("cuda")]

        def _get_backend(self, device):
            if device.type == "cpu":
                raise RuntimeError("no backend for cpu")
            return communicator

    _groups.groups = lambda: [] if communicator.ended.is_set() else [(Group(), "0", {0: 0})]


def aborts():
    """NCCL's calls end by its abort: all at once by PyTorch's call, one by one where it fails; and who hangs in it does
    not park, for which the agent kills him (test_agent_tasks.c)."""
    c10d, real = dist.distributed_c10d, _groups.groups
    usual = getattr(c10d, "_abort_process_group", None)
    one = Communicator()
    play_nccl(one)
    c10d._abort_process_group = one.abort
    got = over_a_loss(one.wait)
    assert got == [], got

    def fails():
        raise RuntimeError("backend gloo does not support abort")

    two = Communicator()
    play_nccl(two)
    c10d._abort_process_group = fails
    assert over_a_loss(two.wait) == ["PyTorch cannot abort its process groups at once: backend gloo does not support "
                                     "abort"]

    def hangs():
        release.wait()
        three.abort()

    def watch():
        while not any("NCCL's abort" in line for line in said):
            time.sleep(0.01)
        held["early"] = parked.is_set()
        release.set()

    three = Communicator()
    play_nccl(three)
    c10d._abort_process_group = hangs
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    early = Communicator()

    def tell():
        while _resilient._process().inside is not None:
            time.sleep(0.01)
        begun.set()

    def hears_first():
        threading.Thread(target=tell, name="dlrover-watch", daemon=True).start()  # none that is left over
        raise RuntimeError("a peer is gone")

    # The program does not wait in the call, and is told all the same.
    got = over_a_loss(lambda: None)
    assert got == ["NCCL's abort has not ended yet: if it does not before park-timeout this process is killed"], got
    assert held["early"] is False
    # Its call fails before the word comes.
    play_nccl(early)
    c10d._abort_process_group = early.abort
    got = over_a_loss(hears_first)
    assert got == [] and early.ended.is_set(), got
    _groups.groups, c10d._abort_process_group = real, usual
    held.clear()


def compiled():
    """What torch.compile has made before the round or in it is there in the next one."""
    built = []

    def backend(graph, _):
        built.append(graph)
        return graph.forward

    model = torch.compile(nn.Linear(2, 2), backend=backend)

    def train():
        join()
        parallel = nn.parallel.DistributedDataParallel(model)
        parallel(torch.ones(2)).sum().backward()
        if dist.is_initialized():
            held["built"] = len(built)

    def again():
        train()
        dist.destroy_process_group()

    assert over_a_loss(train, again) == []
    assert len(built) == 1, built
    held.clear()


def main(cases):
    directory = tempfile.mkdtemp()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(os.path.join(directory, "agent"))
    listener.listen()
    os.environ.update(DLROVER_AGENT_SOCKET=os.path.join(directory, "agent"), DLROVER_ROUND=str(FIRST), SLURM_PROCID="3",
                      DLROVER_IN_PROCESS="1")
    threading.Thread(target=play, args=(listener,), daemon=True).start()
    _resilient._process()
    _resilient._say = said.append
    _resilient.ERROR_S = _resilient.ABORT_S = 0.05
    _resilient.WORD_S = _leftovers.FIND_S = GONE_S  # on a machine that is busy
    for case in cases:
        began = time.monotonic()
        globals()[case]()
        print(f"{case} {time.monotonic() - began:.2f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
