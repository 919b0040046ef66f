#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bind() promises of DTensors and sources, and Session to the adapters: frameworks_core.py [NAME…]. Ranks are
forked, so that PyTorch is imported once. Without a job.
"""
import itertools
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "python"), HERE]
os.environ.update(OMP_NUM_THREADS="1", DLROVER_CKPT_EVERY="1")

import torch  # noqa: E402
import torch._dynamo  # noqa: E402 - each fork would take four seconds for it
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
except ImportError:
    print(f"skipped: PyTorch {torch.__version__} has no FSDP2")
    sys.exit(0)

import dlrover  # noqa: E402
from dlrover import _dtensor  # noqa: E402
from dlrover.frameworks import session, versions  # noqa: E402

TOP = tempfile.mkdtemp(prefix="dlrover-core-")
DIR = os.path.join(TOP, "ck")
MEETINGS = itertools.count()
RANK = WORLD = None  # set in each rank


def fork_ranks(world, function, *arguments):
    """Whether all ended well. One that fails ends the others, which would wait for it."""
    meet_at = f"file://{TOP}/meet-{next(MEETINGS)}"
    pids = []
    for rank in range(world):
        pids.append(os.fork())
        if pids[-1] == 0:
            code = 1
            try:
                as_rank(rank, world, meet_at, function, arguments)
                code = 0
            except BaseException:  # pylint: disable=broad-exception-caught
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
    failed = False
    for _ in range(world):
        pid, status = os.wait()
        pids.remove(pid)
        if status and not failed:
            failed = True
            for other in pids:
                os.kill(other, signal.SIGTERM)
    return not failed


def as_rank(rank, world, meet_at, function, arguments):
    global RANK, WORLD
    RANK, WORLD = rank, world
    # A fork makes torch leave its pool of threads: without a new one autograd's thread and this one race for it.
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method=meet_at, rank=rank, world_size=world)
    function(*arguments)
    dist.destroy_process_group()


class Net(nn.Module):
    """Tied weights, sizes that no number of ranks divides, a buffer."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 8)
        self.middle = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 8))
        self.odd = nn.Linear(8, 3)  # 4 ranks: one has nothing of it
        self.out = nn.Linear(8, 8, bias=False)
        self.out.weight = self.table.weight
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, codes):
        hidden = self.middle(self.table(codes))
        self.seen += 1
        return self.out(hidden).square().mean() + self.odd(hidden).abs().mean()


def plain(net):
    return net


def fsdp(net):
    fully_shard(net.middle)
    return fully_shard(net)


def hybrid(net):
    mesh = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("replicate", "shard"))
    return fully_shard(net, mesh=mesh)


def tensor_parallel(net):
    mesh = init_device_mesh("cpu", (WORLD,))
    return parallelize_module(net, mesh, {"middle.0": ColwiseParallel(), "middle.3": RowwiseParallel()})


def both(net):
    """FSDP2 beside tensor parallelism: dimension 0 of middle.0 is cut by both."""
    mesh = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("data", "tensor"))
    parallelize_module(net.middle, mesh["tensor"], {"0": ColwiseParallel(), "3": RowwiseParallel()})
    fully_shard(net.middle, mesh=mesh["data"])
    return net


def whole(tensor):
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def state_of(model, optimizer):
    """Whole tensors of all, by the names of the parameters."""
    found = {name: whole(p) for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        for key, value in optimizer.state.get(p, {}).items():
            found[f"{name} {key}"] = whole(value)
    return found


def same(one, two):
    assert one.keys() == two.keys(), one.keys() ^ two.keys()
    for name, tensor in one.items():
        assert tensor.dtype == two[name].dtype and torch.equal(tensor, two[name]), name


def train(spread, last, die=None, keep=None, evaluate=False, seed=1):
    """Trains to last, from what is there; dies after the step die, else keeps what it began and ended with."""
    torch.manual_seed(seed)  # the same first weights on every rank
    model = spread(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, foreach=False)
    torch.manual_seed(100 * seed + RANK)
    ck = dlrover.bind(model, optimizer, directory=DIR)
    start = step = ck.restore()
    for p in model.parameters() if step else ():
        moment = optimizer.state[p]["exp_avg"]  # made by restore(), since no step was done yet
        assert type(moment) is type(p.detach()) and getattr(moment, "placements", 0) == getattr(p, "placements", 0)
    first = state_of(model, optimizer)
    while step < last:
        optimizer.zero_grad()
        codes = torch.randint(0, 8, (3,))
        if spread is tensor_parallel or spread is both:
            dist.broadcast(codes, 0)
        model(codes).backward()
        for p in model.parameters():
            if not isinstance(p, DTensor):
                dist.all_reduce(p.grad)
        optimizer.step()
        step += 1
        if evaluate:
            model.eval()
            with torch.no_grad():
                model(codes)  # the outermost module keeps its whole parameters
            model.train()
        ck.step(step)
        if step == die:
            ck.flush()
            dist.barrier()
            os.kill(os.getpid(), signal.SIGKILL)
    assert ck.stats()["unsaved"] == 0
    now = state_of(model, optimizer)
    if RANK == 0:
        torch.save({"start": start, "first": first, "now": now, "seen": model.seen.clone()}, f"{TOP}/{keep}")
    ck.close()


def kept(name):
    return torch.load(f"{TOP}/{name}")


def fresh():
    shutil.rmtree(DIR, ignore_errors=True)


def killed(spread, world, evaluate=False):
    """A training that is killed ends with the bits of one that was not."""
    fresh()
    assert fork_ranks(world, train, spread, 6, None, "calm", evaluate)
    fresh()
    assert not fork_ranks(world, train, spread, 6, 3, None, evaluate)
    assert fork_ranks(world, train, spread, 6, None, "again", evaluate, 9)
    calm, again = kept("calm"), kept("again")
    assert (calm["start"], again["start"]) == (0, 3), (calm["start"], again["start"])
    same(calm["now"], again["now"])
    assert torch.equal(calm["seen"], again["seen"])
    assert sum(" exp_avg" in name for name in again["now"]) == 2 * 7, list(again["now"])


def fsdp2_killed():
    for world in 2, 4:
        killed(fsdp, world)
        names = {region.name for region in regions()}
        assert {"model.table.weight", "optimizer.table.weight.exp_avg", "buffer.seen"} <= names, names
        assert "model.out.weight" not in names and not any("master" in name for name in names), names


def regions(rank=0):
    """What a rank of the newest version has: asked by one of another number of ranks, which waits for no others."""
    with dlrover.Checkpoint(directory=DIR, rank=0, world=1) as ck:
        return ck.regions(rank)


def evaluated_between():
    killed(fsdp, 2, evaluate=True)


def hybrid_killed():
    killed(hybrid, 4)


def tensor_parallel_killed():
    killed(tensor_parallel, 2)


def both_killed():
    killed(both, 4)


def moved():
    """What one layout saved another restores: the wholes are the same bits."""
    for before, world in ((fsdp, 2), (both, 4), (plain, 1)):
        fresh()
        assert fork_ranks(world, train, before, 3, None, "saved")
        shutil.move(DIR, f"{TOP}/other")
        saved = kept("saved")["now"]
        for after, ranks in ((fsdp, 3), (tensor_parallel, 2), (both, 4), (plain, 1)):
            fresh()
            shutil.copytree(f"{TOP}/other", DIR)
            assert fork_ranks(ranks, train, after, 3, None, "loaded", False, 7), (before, after)
            loaded = kept("loaded")
            assert loaded["start"] == 3
            same(saved, loaded["first"])
        shutil.rmtree(f"{TOP}/other")


def spans():
    """Each item of a whole is had by as many ranks as copies there are, where torch says it is."""
    from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset as torchs
    from torch.distributed.tensor.placement_types import _StridedShard

    for shape in (7, 3), (8, 4), (1, 5), (0, 2), (12,):
        for mesh in (2,), (4,), (2, 3), (2, 2):
            for placements in ((Shard(0), Shard(0)), (Replicate(), Shard(0)), (Shard(0), Replicate()),
                               (_StridedShard(0, split_factor=mesh[-1]), Shard(0)), (Shard(0), Shard(len(shape) - 1))):
                placements = placements[:len(mesh)]
                if len(mesh) == 1 and not isinstance(placements[0], (Shard, Replicate)):
                    continue
                seen = torch.zeros(shape, dtype=torch.int)
                for at in torch.cartesian_prod(*map(torch.arange, mesh)).reshape(-1, len(mesh)).tolist():
                    found = _dtensor.spans(shape, mesh, at, placements)
                    sizes, offsets = torchs(shape, mesh, at, placements)
                    assert sizes == tuple(sum(map(len, pieces)) for pieces in found), (shape, mesh, at, placements)
                    if 0 in sizes:
                        continue
                    assert offsets == tuple(pieces[0].start for pieces in found), (shape, mesh, at, placements)
                    index = [torch.cat([torch.arange(r.start, r.stop) for r in pieces]) for pieces in found]
                    seen[torch.meshgrid(*index, indexing="ij")] += 1
                copies = [n for n, p in zip(mesh, placements) if isinstance(p, Replicate)]
                assert (seen == (copies[0] if copies else 1)).all(), (shape, mesh, placements, seen)


def refused():
    """What is no single box is refused by its name, and says what to do."""
    from torch.distributed.tensor import Partial
    from torch.distributed.tensor.placement_types import _StridedShard

    mesh = init_device_mesh("cpu", (2, 2))
    model = nn.Linear(4, 10, bias=False)
    for placements, local, said in (
            ((_StridedShard(0, split_factor=2), Replicate()), (6, 4) if RANK < 2 else (4, 4),
             "has several boxes of (10, 4)"),
            ((Partial(), Replicate()), (10, 4), "whose value is a sum of all ranks'"),
            ((Shard(0), Replicate()), (4, 4), "by which this rank has (5, 4) of (10, 4), but its memory is of (4, 4)")):
        part = DTensor.from_local(torch.zeros(local), mesh, placements, run_check=False, shape=torch.Size((10, 4)),
                                  stride=(4, 1))
        model._parameters["weight"] = nn.Parameter(part)
        try:
            dlrover.bind(model, directory=DIR)
            raise AssertionError(f"{placements} is taken")
        except ValueError as error:
            assert str(error).startswith("'model.weight' is a DTensor of the placements") and said in str(error), error
    model._parameters["weight"] = nn.Parameter(torch.zeros(10, 4))
    average = {"w": distribute_tensor(torch.zeros(200, 200), mesh, [Shard(0), Replicate()])}
    ck = dlrover.bind(model, directory=DIR, average=lambda *saved: average)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert not ck.step(1)
    assert "DTensor, which cannot be kept" in str(told[0].message), told
    ck.close()
    with dlrover.Checkpoint(directory=f"{DIR}-add") as one:
        try:
            one.add("w", average["w"])
            raise AssertionError("taken")
        except ValueError as error:
            assert str(error).startswith("'w': it is a DTensor, of which this rank has a part: add() its"), error


class Partitions:
    """An adapter's: this rank's part of a vector that no module has, made when it is needed."""

    def __init__(self, rank, world, size=10, cover=()):
        self.begin, self.end, self.size = size * rank // world, size * (rank + 1) // world, size
        self.parts, self.buffer, self.live = {}, torch.zeros(4), torch.zeros(4, dtype=torch.float64)
        self.calls, self.cover = [], cover

    def make(self, name):
        self.parts[name] = torch.zeros(self.end - self.begin)

    def tensors(self):
        for name, part in self.parts.items():
            yield f"zero.{name}", part, "shard", (self.size,), (self.begin,)
        yield "zero.live", self.buffer, "local", None, None

    def covers(self):
        return self.cover

    def prepare(self, had):
        self.calls.append("prepare")
        for name, region in had.items():
            if name.startswith("zero.") and region.kind == "shard":
                assert region.global_shape == (self.size,)
                self.make(name[5:])

    def refresh(self):
        self.calls.append("refresh")
        self.buffer.copy_(self.live)

    def loaded(self):
        self.calls.append("loaded")
        self.live.copy_(self.buffer)


def sources():
    """Rows appear, are saved in place and come back at another number of ranks; what they cover is not saved twice."""
    fresh()
    os.environ["DLROVER_CKPT_AGREE_MS"] = "0"  # ranks come one after the other
    for rank in range(2):
        torch.manual_seed(1)
        model = nn.Linear(2, 3)
        source = Partitions(rank, 2, cover=[model.weight])
        ck = dlrover.bind(model, sources=[source], directory=DIR, rank=rank, world=2)
        assert ck.restore() == 0 and source.calls == []
        source.make("master")
        source.live.fill_(7 + rank)
        assert ck.step(1)
        source.make("moment")  # state that appears later
        for at, part in enumerate(source.parts.values()):
            part.copy_(torch.arange(10.)[source.begin:source.end] + 100 * at)
        assert ck.step(2)
        ck.fence()
        source.parts["moment"] = source.parts["moment"].clone()  # the same, elsewhere
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert ck.step(3)
        assert "'zero.moment' is at another address than before" in str(said[0].message), said
        ck.close()
        assert source.calls == ["refresh"] * 3, source.calls
    for rank in range(2):
        names = {region.name for region in regions(rank)}
        assert {"zero.master", "zero.moment", "zero.live", "model.bias"} <= names and "model.weight" not in names, names
    shutil.copytree(DIR, f"{TOP}/two")
    for world in 2, 3, 1:
        fresh()
        shutil.copytree(f"{TOP}/two", DIR)
        for rank in range(world):
            model = nn.Linear(2, 3)
            source = Partitions(rank, world, cover=[model.weight])
            ck = dlrover.bind(model, sources=[source], directory=DIR, rank=rank, world=world)
            assert ck.restore() == 3 and source.calls == ["prepare", "loaded"], source.calls
            assert torch.equal(source.parts["master"], torch.arange(10.)[source.begin:source.end])
            assert torch.equal(source.parts["moment"], torch.arange(10.)[source.begin:source.end] + 100)
            assert (source.live == (8 if rank == 1 else 7)).all(), source.live
            ck.close()
    shutil.rmtree(f"{TOP}/two")
    del os.environ["DLROVER_CKPT_AGREE_MS"]


def cut_otherwise_in_job():
    """As many ranks as before, each with another part, under a job's agent, which brings the other rank's slot."""
    import python_agent  # pylint: disable=import-outside-toplevel

    fresh()
    os.environ["DLROVER_CKPT_AGREE_MS"] = "0"
    for rank in range(2):
        source = Partitions(rank, 2)
        torch.manual_seed(1)
        ck = dlrover.bind(nn.Linear(2, 3), sources=[source], directory=DIR, rank=rank, world=2)
        source.make("master")
        source.parts["master"].copy_(torch.arange(10.)[source.begin:source.end])
        assert ck.step(3)
        ck.close()
    for rank in range(2):
        with python_agent.Agent(DIR, rank, step=3, made_by=2) as agent:
            source = Partitions(1 - rank, 2)
            ck = dlrover.bind(nn.Linear(2, 3), sources=[source], directory=DIR, rank=rank, world=2)
            assert ck.restore() == 3 and agent.restored == 0 and 1 - rank in agent.peeked, agent.peeked
            assert torch.equal(source.parts["master"], torch.arange(10.)[source.begin:source.end])
            ck.close()
    del os.environ["DLROVER_CKPT_AGREE_MS"]


def stages():
    """Ranks with layers of their own (a pipeline): another number of ranks finds the optimizer's state, too."""
    def make(rank, world, layers, first):
        torch.manual_seed(first)
        model = nn.ModuleDict({name: nn.Linear(3, 3) for name in layers})
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        return model, optimizer, dlrover.bind(model, optimizer, directory=DIR, rank=rank, world=world)

    fresh()
    os.environ["DLROVER_CKPT_AGREE_MS"] = "0"
    had = {}
    for rank, layers in enumerate(("a", "bc", "d")):
        model, optimizer, ck = make(rank, 3, layers, rank + 1)
        sum(layer(torch.ones(1, 3)).square().sum() for layer in model.values()).backward()
        optimizer.step()
        assert ck.step(1)
        ck.close()
        had.update(state_of(model, optimizer))
    for world, cut in (2, ("ab", "cd")), (1, ("abcd",)), (2, ("dc", "ba")):
        shutil.copytree(DIR, f"{TOP}/stages")
        found = {}
        for rank, layers in enumerate(cut):
            model, optimizer, ck = make(rank, world, layers, 9)
            assert ck.restore() == 1 and not ck.missing() and not ck.leftover()
            found.update(state_of(model, optimizer))
            ck.close()
        same(had, found)
        fresh()
        shutil.move(f"{TOP}/stages", DIR)
    del os.environ["DLROVER_CKPT_AGREE_MS"]


def source_failures():
    """What a source raises: at bind() it is raised, at a save one warning, and the next save is tried again."""
    fresh()
    for given, said in ((object(), "a source is a object, which has no tensors()"),):
        try:
            dlrover.bind(nn.Linear(1, 1), sources=[given], directory=DIR)
            raise AssertionError("taken")
        except ValueError as error:
            assert said in str(error), error
    source = Partitions(0, 1)
    ck = dlrover.bind(nn.Linear(1, 1), sources=[source], directory=DIR, fence_ms=1000)
    assert ck.step(1)
    real, source.tensors = source.tensors, lambda: 1 // 0
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert not ck.step(2)
        assert not ck.step(3)
    assert len(told) == 1 and "step 2 is not saved, the training goes on: integer division" in str(told[0].message)
    source.tensors = real
    assert ck.step(4) and ck.stats()["unsaved"] == 2
    ck.close()
    source = Partitions(0, 1)
    source.loaded = lambda: 1 // 0
    ck = dlrover.bind(nn.Linear(1, 1), sources=[source], directory=DIR)
    try:
        ck.restore()
        raise AssertionError("loaded")
    except dlrover.Error as error:
        assert "which must not be used" in str(error), error
    ck.close()


class Loop:
    """What a framework keeps of its loop."""

    def __init__(self):
        self.at, self.fails = 0, False

    def state_dict(self):
        if self.fails:
            raise RuntimeError("the loop is not ready")
        return {"at": self.at}

    def load_state_dict(self, saved):
        self.at = saved["at"]


def session_saves():
    """step() only counts, save() writes, save_now() has the next step written; each at most once."""
    fresh()
    model, loop = nn.Linear(2, 2), Loop()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    one = session.Session("test", directory=DIR)
    assert one.open(model, optimizer, loop=loop) == 0 and not one.in_job
    saved = []
    for step in range(1, 9):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        loop.at = step
        if step == 5:
            one.save_now()
            one.save_now()
        one.step(step)
        if step % 4 == 0:
            one.save(step)
            one.save(step)
        saved.append(one.bound.stats()["saves"])
    assert saved == [0, 0, 0, 1, 2, 2, 2, 3], saved
    assert one.wait_until_committed(8, 60) and not one.wait_until_committed(9, 0.1)
    want = {name: p.detach().clone() for name, p in model.named_parameters()}
    one.close()
    one.step(9)
    one.save(9)
    assert one.failures == 0
    model, loop = nn.Linear(2, 2), Loop()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    two = session.Session("test", directory=DIR)
    assert two.open(model, optimizer, loop=loop) == 8 and loop.at == 8
    same(want, {name: p.detach() for name, p in model.named_parameters()})
    assert all("momentum_buffer" in optimizer.state[p] for p in model.parameters())
    two.save(8)  # it is there
    assert two.bound.stats()["saves"] == 0
    two.close()


def session_second():
    """Two of them on one model are refused, unless the first is closed or gone."""
    fresh()
    model = nn.Linear(2, 2)
    one = session.Session("Trainer", directory=DIR)
    one.open(model)
    try:
        session.Session("accelerate", directory=DIR).open(nn.Sequential(model))
        raise AssertionError("taken")
    except ValueError as error:
        assert str(error) == ("dlrover.accelerate: this model is saved by dlrover.Trainer already: leave one of them "
                              "out, or close() it"), error
    other = session.Session("other", directory=f"{DIR}-2")
    other.open(nn.Linear(2, 2))
    other.close()
    one.close()
    two = session.Session("accelerate", directory=DIR)
    two.open(model)
    del two
    three = session.Session("Trainer", directory=DIR)
    three.open(model)
    three.close()


def session_failures():
    """Nothing ends the training: one warning of each matter, and a count. A model that cannot be saved is refused."""
    fresh()
    one, loop = session.Session("test", directory=DIR), Loop()
    one.open(nn.Linear(1, 1), loop=loop)
    one.save(1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for step in 2, 3:
            with one.guard("the loop's state is not taken"):
                raise KeyError("epoch")
        one.step("four")
        loop.fails = True
        one.save(4)
        loop.fails = False
        one.save(5)
    told = [str(w.message) for w in told]
    assert told[0] == "dlrover.test: the loop's state is not taken, the training goes on: 'epoch'", told
    assert "step four is not saved" in told[1] and "step 4 is not saved" in told[2] and len(told) == 3, told
    assert one.failures == 3 and one.bound.stats()["unsaved"] == 1 and one.wait_until_committed(5, 60)
    one.close()
    try:
        session.Session("test", directory=DIR).open(nn.Linear(1, 1, device="meta"))
        raise AssertionError("taken")
    except ValueError as error:
        assert "'model.weight' is on the meta device" in str(error), error


def data_parallel(last, want, replicated=None):
    """DDP's tensors are found to be the same on every rank; without it they are each rank's."""
    torch.manual_seed(1)
    model = nn.Linear(4, 4)
    wrapped = nn.parallel.DistributedDataParallel(model) if WORLD > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    one = session.Session("test", directory=DIR)
    assert one.open(wrapped, optimizer, replicated) == want
    for step in range(want + 1, last + 1):
        optimizer.zero_grad()
        wrapped(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
        one.step(step)
        one.save(step)
    assert one.wait_until_committed(last, 60)
    one.close()
    dist.barrier()
    if RANK == 0:
        now = {region.kind for region in regions(RANK) if region.name.startswith(("model.", "optimizer."))}
        assert now == {"replicated" if replicated or WORLD > 1 else "shard"}, now


def replicated_or_not():
    fresh()
    assert fork_ranks(1, data_parallel, 2, 0)
    assert fork_ranks(2, data_parallel, 4, 2)
    assert fork_ranks(3, data_parallel, 6, 4)
    assert fork_ranks(1, data_parallel, 8, 6)
    assert fork_ranks(1, data_parallel, 10, 8, True)  # an adapter may know it


def versions_refused():
    """What is not there, too old, or lacks what is used is refused by name and version in one line."""
    assert versions.require("torch", "1.13", ["nn.Linear.forward", "distributed.tensor.DTensor"]) is torch
    for arguments, said in (
            (("torch", "99.1"), f"dlrover needs torch 99.1 or newer, this is {torch.__version__}"),
            (("torch", "1.0", ["nn", "nn.NoSuch.thing"]), f"torch {torch.__version__} has no torch.nn.NoSuch.thing, "),
            (("no_such_framework", "1"), "dlrover needs no_such_framework 1 or newer, which cannot be imported: ")):
        try:
            versions.require(*arguments)
            raise AssertionError("taken")
        except ImportError as error:
            assert str(error).startswith(said) and "\n" not in str(error), error
    assert versions.numbers("2.6.0rc1") < versions.numbers("2.10") and versions.numbers("2.15+cpu") == (2, 15)


def forked_refused():
    assert fork_ranks(4, refused)


TESTS = [spans, fsdp2_killed, evaluated_between, hybrid_killed, tensor_parallel_killed, both_killed, moved,
         forked_refused, sources, cut_otherwise_in_job, stages, source_failures, session_saves, session_second,
         session_failures, replicated_or_not, versions_refused]


def main():
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "FSDP2-wrapped module")  # about views that are not written to here
    chosen = sys.argv[1:] or [test.__name__ for test in TESTS]
    for test in TESTS:
        if test.__name__ in chosen:
            test()
            print(f"ok {test.__name__}", flush=True)
    shutil.rmtree(TOP)
    print(f"{len(chosen)} passed")


if __name__ == "__main__":
    main()
