#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dlrover.megatron with Megatron-core itself on CPUs: frameworks_megatron.py [NAME…] runs all tests, or these.
frameworks_megatron.py --train --steps N --out FILE trains as one of the ranks of a job and writes a digest.

Megatron asks CUDA for memory and for random numbers by name: on_cpu() gives it the CPU's, nothing else is changed.
Tests fork their ranks, so that Megatron is imported once. Whole tensors, of the model and of the distributed
optimizer, are compared as Megatron's own torch_dist saves them.
"""
import hashlib
import importlib.util
import io
import logging
import os
import queue
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
import types
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TORCHDYNAMO_DISABLE"] = "1"  # fused functions would want a compiler
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")

try:
    import torch
    import megatron.core  # noqa: F401  # pylint: disable=unused-import
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

CPU = torch.device("cpu")
DEVICE_OF = "zeros", "empty", "ones", "full", "tensor", "arange", "rand", "randn", "zeros_like", "empty_like"


def on_cpu():
    """Before anything of Megatron that it changes is used."""
    def move(make):
        def made(*args, **kwargs):
            if str(kwargs.get("device", "")).startswith("cuda"):
                kwargs["device"] = CPU
            return make(*args, **kwargs)
        return made

    for name in DEVICE_OF:
        setattr(torch, name, move(getattr(torch, name)))
    kind = torch.Tensor.type
    torch.Tensor.type = lambda self, *args, **kwargs: (
        kind(self, *args, **kwargs) if args or kwargs else kind(self).replace("torch.", "torch.cuda."))
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.cuda.current_device = lambda: CPU
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.manual_seed = torch.manual_seed
    torch.cuda.get_rng_state = torch.cuda.random.get_rng_state = lambda *_, **__: torch.get_rng_state()
    from megatron.core.dist_checkpointing.strategies import filesystem_async
    from megatron.core.tensor_parallel import random as tracked
    filesystem_async._results_queue = queue.Queue()  # it would start a process that imports all of this again
    tracked._set_cuda_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    logging.getLogger(tracked.__name__).setLevel(logging.ERROR)  # that the CPU's state changed in it
    warnings.filterwarnings("ignore", module="(megatron|torch).*")


def load_example():
    here = os.path.dirname(os.path.abspath(__file__))
    for top in (os.path.join(here, "..", ".."), os.environ.get("DLROVER_PREFIX", "/opt/dlrover") + "/share/dlrover"):
        path = os.path.join(top, "examples", "frameworks", "megatron_gpt.py")
        if os.path.exists(path):
            spec = importlib.util.spec_from_file_location("megatron_gpt", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    sys.exit("frameworks_megatron: no examples/frameworks/megatron_gpt.py")


on_cpu()
example = load_example()

import dlrover  # noqa: E402
import dlrover.frameworks._boxes as boxes  # noqa: E402
import dlrover.frameworks._megatron_state as megatron_state  # noqa: E402
import dlrover.dcp  # noqa: E402
from torch.distributed.checkpoint import FileSystemReader  # noqa: E402
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner  # noqa: E402
from megatron.core import dist_checkpointing, parallel_state  # noqa: E402
from megatron.core.dist_checkpointing import ShardedTensor  # noqa: E402
from megatron.core.dist_checkpointing.mapping import (  # noqa: E402
    LocalNonpersistentObject, ShardedObject, ShardedTensorFactory)

# --- ranks -------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fork(world, function, *args):
    port, pids = free_port(), []
    sys.stdout.flush()
    for rank in range(world):
        pid = os.fork()
        if pid:
            pids.append(pid)
            continue
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
        code = 1
        # A fork makes torch leave its pool of threads: without a new one autograd's thread and this one race for it.
        torch.set_num_threads(1)
        try:
            function(*args)
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return pids


def ranks(world, function, *args, code=0, limit_s=240):
    """Runs it in so many ranks, each of which ends with code."""
    pids, codes, end = fork(world, function, *args), {}, time.monotonic() + limit_s
    while len(codes) < len(pids):
        for pid in set(pids) - codes.keys():
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                codes[pid] = os.waitstatus_to_exitcode(status)
        if time.monotonic() > end or any(one not in (0, code) for one in codes.values()):
            for pid in set(pids) - codes.keys():
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    assert list(codes.values()) == [code] * world, f"{function.__name__}{args}: {codes}"


# --- what ranks do -----------------------------------------------------------------------


def arguments(tp, pp, steps):
    return types.SimpleNamespace(tp=tp, pp=pp, layers=4, steps=steps)


def gpt(model):
    while hasattr(model, "module"):
        model = model.module
    return model


def everything(model, optimizer, loading=False):
    """As Megatron names it: of the distributed optimizer whole tensors, for which it gathers them."""
    state = {"model": gpt(model).sharded_state_dict()}
    how = {"distrib_optim_sharding_type": "fully_reshardable"}
    state["optimizer"] = optimizer.sharded_state_dict(state["model"], is_loading=loading, metadata=how)
    return state


def train(tp, pp, steps, out=None, die=None, begin=None):
    """On from what there is. At the end all is saved in out as Megatron does. die: after that step, at once."""
    def after(step, _):
        if step == die:
            os.kill(os.getpid(), signal.SIGKILL)

    example.initialize(tp, pp)
    if begin is not None:
        opened = dlrover.megatron.Training.restore

        def restore(self):
            assert opened(self) == begin
            return begin
        dlrover.megatron.Training.restore = restore
    model, optimizer = example.train(arguments(tp, pp, steps), after)
    if out:
        save_as_megatron(everything(model, optimizer), out)
    torch.distributed.destroy_process_group()


def save_as_megatron(state, out, **more):
    os.makedirs(out, exist_ok=True)
    torch.distributed.barrier()
    return dist_checkpointing.save(state, out, **more)


def tensors_of(directory):
    """Whole, as DCP reads what is there: files of ours, or of torch_dist."""
    ours = any(name.endswith(".safetensors") for name in os.listdir(directory))
    state = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.distributed.checkpoint.state_dict_loader._load_state_dict(
            state, dlrover.dcp.Reader(directory) if ours else FileSystemReader(directory),
            planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return {key.replace(".fp32_param.", ".param."): value for key, value in state.items()
            if isinstance(value, torch.Tensor)}


def compare(*directories):
    """Every whole tensor, bit for bit; and there are some."""
    first, *others = map(tensors_of, directories)
    assert len(first) > 20 and any(key.startswith("optimizer.state.exp_avg.") for key in first), sorted(first)
    for other in others:
        assert other.keys() == first.keys(), sorted(other.keys() ^ first.keys())
        for key, tensor in first.items():
            same = tensor.dtype == other[key].dtype and tensor.shape == other[key].shape
            assert same and torch.equal(tensor.view(torch.uint8), other[key].view(torch.uint8)), key


def in_directory(directory, every=1):
    os.environ.update(DLROVER_CKPT_DIR=directory, DLROVER_CKPT_EVERY=str(every))


# --- tests -------------------------------------------------------------------------------


class Fake:
    """Of a Checkpoint, what a plan needs: each rank's boxes of wholes that are known."""

    def __init__(self, rank, parts):
        self.rank, self._parts = rank, parts  # [{name: Box}]

    def list(self, _):
        return [(0, 1, 0, len(self._parts))]

    def regions(self, rank):
        note = dlrover.SavedRegion(".dcp", "blob", "u8", 1, (0,), (0,), (0,), 0)
        return [note] + [dlrover.SavedRegion(name, "shard", boxes.short_type(box.tensor.dtype), box.tensor.itemsize,
                                             box.whole, *box.place, box.tensor.nbytes)
                         for name, box in self._parts[rank].items()]

    def peek(self, rank, name):
        if name == ".dcp":
            return bytearray(boxes.note(self._parts[rank].values()).tensor.numpy().tobytes())
        return bytearray(self._parts[rank][name].tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())


def flat_parts(whole, ranks_, tp, dice):
    """Each rank's part of a whole that is cut by tp along a dimension, each piece flat among some of the ranks."""
    dim = dice.randrange(whole.dim())
    parts = [{} for _ in range(ranks_)]
    for at, piece in enumerate(whole.chunk(tp, dim)):
        start = sum(one.shape[dim] for one in whole.chunk(tp, dim)[:at])
        owners = list(range(at % ranks_, ranks_, tp)) or [at % ranks_]
        ends = [0, *sorted(dice.randrange(piece.numel() + 1) for _ in owners[1:]), piece.numel()]
        flat = piece.contiguous().view(-1)
        for owner, begin, end in zip(owners, ends, ends[1:]):
            done = begin
            for offset, shape in boxes.cut(piece.shape, begin, end):
                size = torch.Size(shape).numel()
                place = [a + (start if d == dim else 0) for d, a in enumerate(offset)]
                box = boxes.Box("w", flat[done:done + size].view(shape).clone(), tuple(whole.shape), tuple(place))
                parts[owner][box.name] = box
                done += size
            assert done == end
    return parts


def test_any_cut_is_filled_from_any_other():
    dice = random.Random(1)
    for _ in range(200):
        shape = [dice.randrange(1, 7) for _ in range(dice.randrange(1, 4))]
        whole = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).view(shape)
        saved = flat_parts(whole, dice.randrange(1, 5), dice.randrange(1, 4), dice)
        wanted = flat_parts(whole, dice.randrange(1, 5), dice.randrange(1, 4), dice)
        for rank, parts in enumerate(wanted):
            empty = [box._replace(tensor=torch.full_like(box.tensor, -1)) for box in parts.values()]
            fake = Fake(rank % len(saved), saved)
            boxes.pull(fake, empty, boxes.plan(fake, empty))
            for box, had in zip(empty, parts.values()):
                assert torch.equal(box.tensor, had.tensor), (shape, box)


def refused(error, text, function, *args):
    try:
        function(*args)
    except error as found:
        assert str(found) == text, str(found)
        return
    raise AssertionError(f"not refused: {text}")


def test_what_is_nowhere_or_of_another_shape_is_named():
    parts = flat_parts(torch.zeros(4, 6), 2, 2, random.Random(2))
    fake = Fake(0, [parts[0], {}])
    whole = boxes.Box("w", torch.zeros(4, 6), (4, 6), (0, 0))
    try:
        boxes.plan(fake, [whole])
        raise AssertionError
    except ValueError as error:
        assert str(error).startswith("'w' is needed from (") and str(error).endswith(
            "on and is in no rank's part of the version")
    refused(ValueError, "'w' is (4, 7) of f32, the version has (4, 6) of f32", boxes.plan, fake,
            [boxes.Box("w", torch.zeros(4, 7), (4, 7), (0, 0))])
    refused(ValueError, "'w' is (4, 6) of f64, the version has (4, 6) of f32", boxes.plan, fake,
            [whole._replace(tensor=torch.zeros(4, 6).double())])
    padded = boxes.Box("w", torch.full((8, 6), 7.0), (8, 6), (0, 0), flexible=True)
    fake = Fake(0, flat_parts(torch.ones(4, 6), 2, 2, random.Random(3)))
    boxes.pull(fake, [padded], boxes.plan(fake, [padded]))
    assert torch.equal(padded.tensor, torch.cat([torch.ones(4, 6), torch.zeros(4, 6)]))


def test_killed_training_ends_with_the_same_bits(top):
    in_directory(f"{top}/calm")
    ranks(4, train, 2, 2, 8, f"{top}/out.calm", None, 0)
    in_directory(f"{top}/killed")
    ranks(4, train, 2, 2, 8, None, 5, 0, code=-signal.SIGKILL)
    assert not os.path.exists(f"{top}/out.killed")
    begin = newest(f"{top}/killed", 4)
    assert 1 <= begin <= 5
    ranks(4, train, 2, 2, 8, f"{top}/out.killed", None, begin)
    ranks(1, compare, f"{top}/out.calm", f"{top}/out.killed")


def newest(directory, world):
    """Step of the newest version of which each rank has a file."""
    steps = [set() for _ in range(world)]
    for name in os.listdir(directory):
        found = re.fullmatch(r"r([0-9]+)-([0-9]+)\.safetensors", name)
        if found:
            steps[int(found[1])].add(int(found[2]))
    return max(set.intersection(*steps))


SPLITS = (1, 2, 2), (4, 1, 4), (2, 1, 4), (1, 1, 4)  # TP, PP, ranks


def test_restored_on_another_split_and_back(top):
    in_directory(f"{top}/a")
    ranks(4, train, 2, 2, 3, f"{top}/out.a", None, 0)
    for tp, pp, world in SPLITS:
        name = f"{tp}.{pp}.{world}"
        shutil.copytree(f"{top}/a", f"{top}/{name}")
        in_directory(f"{top}/{name}")
        ranks(world, train, tp, pp, 3, f"{top}/out.{name}", None, 3)
        ranks(1, compare, f"{top}/out.a", f"{top}/out.{name}")
        ranks(world, train, tp, pp, 4, f"{top}/out.{name}.4", None, 3)
        ranks(4, train, 2, 2, 4, f"{top}/back.{name}", None, 4)
        ranks(1, compare, f"{top}/out.{name}.4", f"{top}/back.{name}")
        for used in name, f"out.{name}", f"out.{name}.4", f"back.{name}":
            shutil.rmtree(f"{top}/{used}")


def train_in_agent(top, tp, pp, out):
    """As under a job, whose agent offers step 3 of four ranks."""
    import python_agent  # beside this file; not where a job of the cluster tests trains
    rank = int(os.environ["RANK"])
    own = f"{top}/agent.{rank}"
    shutil.copytree(f"{top}/a", own, copy_function=os.symlink)
    with python_agent.Agent(own, rank, step=3, made_by=4) as agent:
        train(tp, pp, 3, out, None, 3)
        assert dlrover.megatron.SaveStrategy().backend == "torch_dist"  # what is saved then is the supervisor's choice
        assert agent.restored == 0 and set(agent.peeked) == {0, 1, 2, 3}, (agent.restored, agent.peeked)


def test_under_a_job_another_split_is_taken_from_what_it_offers(top):
    in_directory(f"{top}/a")
    ranks(4, train, 2, 2, 3, f"{top}/out.a", None, 0)
    ranks(2, train_in_agent, top, 2, 1, f"{top}/out.b")
    ranks(1, compare, f"{top}/out.a", f"{top}/out.b")


def strategies(tp, pp, top, first):
    """Saves as ours and as Megatron's own, or loads what was saved, and saves that as Megatron's own."""
    example.initialize(tp, pp)
    _, model, optimizer, _ = example.make(arguments(tp, pp, 0))
    if first:
        data = example.batches(1)
        example.get_forward_backward_func()(
            forward_step_func=example.forward, data_iterator=data, model=model, num_microbatches=4,
            seq_length=example.LENGTH, micro_batch_size=example.MICRO_BATCH, forward_only=False)
        optimizer.step()
        save_as_megatron(everything(model, optimizer), f"{top}/own")
        ours = {"sharded_strategy": dlrover.megatron.SaveStrategy()}
        save_as_megatron(everything(model, optimizer), f"{top}/ours", **ours)
        request = save_as_megatron(everything(model, optimizer), f"{top}/async", async_sharded_save=True, **ours)
        for parameter in model.parameters():
            parameter.data.zero_()  # the state may change at once
        request.execute_sync()
    else:
        start(optimizer)
        for name, more in ("ours", {"sharded_strategy": dlrover.megatron.LoadStrategy()}), ("async", {}):
            state = everything(model, optimizer, True)  # load() fills these tensors in place
            dist_checkpointing.load(state, f"{top}/{name}", strict="raise_all", **more)
            save_as_megatron(state, f"{top}/again.{name}.{tp}.{pp}")
    torch.distributed.destroy_process_group()


def start(optimizer):
    """Megatron asks torch's Adam for its step before there is one."""
    for one in optimizer.chained_optimizers:
        one._init_optimizer_states_with_dummy_values()


def test_strategies_save_and_load_what_torch_dist_does(top):
    ranks(4, strategies, 2, 2, top, True)
    ranks(1, compare, f"{top}/own", f"{top}/ours", f"{top}/async")
    for tp, pp, world in ((1, 2, 2), (4, 1, 4), (2, 2, 4)):
        ranks(world, strategies, tp, pp, top, False)
        ranks(1, compare, f"{top}/own", *(f"{top}/again.{name}.{tp}.{pp}" for name in ("ours", "async")))


OTHER = {"fp16 masters": {"use_distributed_optimizer": False},
         "fp32": {"use_distributed_optimizer": False, "bf16": False, "params_dtype": torch.float32}}


def with_options(options, function, *args):
    """Of the example's optimizer, and what goes with them."""
    optimizer, ddp = example.OptimizerConfig, example.DistributedDataParallelConfig
    example.OptimizerConfig = lambda **given: optimizer(**{**given, **options})
    example.DistributedDataParallelConfig = lambda **given: ddp(**{**given, "use_distributed_optimizer": False})
    if not options.get("bf16", True):
        config = example.TransformerConfig
        example.TransformerConfig = lambda **given: config(**{
            **given, "bf16": False, "params_dtype": torch.float32, "pipeline_dtype": torch.float32})
        example.Float16Module = lambda _, model: model
    function(*args)


def test_other_optimizers_and_from_one_to_another(top):
    for name, options in OTHER.items():
        in_directory(f"{top}/{name}")
        ranks(4, with_options, options, train, 2, 2, 2, f"{top}/{name}.2", None, 0)
        ranks(4, with_options, options, train, 2, 1, 2, f"{top}/{name}.tp2dp2", None, 2)
        ranks(1, compare, f"{top}/{name}.2", f"{top}/{name}.tp2dp2")
    in_directory(f"{top}/fp16 masters")
    ranks(4, train, 2, 1, 2, f"{top}/distributed", None, 2)  # from whole masters to flat pieces of them
    ranks(1, compare, f"{top}/fp16 masters.2", f"{top}/distributed")
    ranks(4, train, 2, 1, 3, f"{top}/distributed.3", None, 2)
    ranks(4, with_options, OTHER["fp16 masters"], train, 1, 2, 3, f"{top}/back", None, 3)
    ranks(1, compare, f"{top}/distributed.3", f"{top}/back")


class Unit(torch.nn.Module):
    """As layers are: a part of each of some wholes. layers: which of 4 are here, rank of world: of columns, words: of
    all, without what makes their number a multiple of world.
    """

    def __init__(self, layers, rank, world, words, value):
        super().__init__()
        self.layers, self.rank, self.world, self.kept = layers, rank, world, {}
        rows = -(-words // (4 * world)) * 4  # of this rank
        self.parts = torch.nn.ParameterList([
            torch.arange(32.0).view(4, 8).chunk(world, 1)[rank].contiguous() * (value + layer) for layer in layers])
        self.pair = torch.nn.Parameter(torch.arange(32.0).view(4, 8).chunk(world, 1)[rank].contiguous() + value)
        self.words = torch.nn.Parameter((torch.arange(rows * 2.0) + rank * rows * 2).view(rows, 2) * value)
        self.words.data[max(0, words - rank * rows):] = 0
        self.register_buffer("same", torch.full((3,), float(value)))
        self.value = value

    def sharded_state_dict(self, metadata):
        assert metadata["dp_cp_group"] is not None
        tensor, rows = ShardedTensor.from_rank_offsets, (0, self.rank, self.world)
        state = {f"layers.{i}": tensor("layers.weight", part, (0, layer, 4), (2, self.rank, self.world),
                                       prepend_axis_num=1)
                 for i, (layer, part) in enumerate(zip(self.layers, self.parts))}
        state.update({f"object.{i}": ShardedObject("layers.object", {"of": self.value, "layer": layer}, (4,), (layer,),
                                                   replica_id=self.rank) for i, layer in enumerate(self.layers)})
        state.update({f"large.{i}": ShardedObject("layers.large", torch.full((20000,), float(self.value + layer)), (4,),
                                                  (layer,)) for i, layer in enumerate(self.layers)})
        state["stream"] = ShardedObject("stream", io.BytesIO(b"%d" % self.value), (1,), (0,), replica_id=self.rank)
        return {**state, "words": tensor("words", self.words, rows, allow_shape_mismatch=True),
                "same": tensor("same", self.same, replica_id=self.rank), "here": LocalNonpersistentObject(self.value),
                "halves": ShardedTensorFactory("halves", self.pair, self.halve, torch.cat)}

    def halve(self, key, whole, replica, _):
        return [ShardedTensor.from_rank_offsets(f"{key}.{i}", half, (1, self.rank, self.world), replica_id=replica)
                for i, half in enumerate(whole.chunk(2, 0))]

    def load_state_dict(self, state, strict):
        assert not strict
        self.kept.update(state)


def unit(make, save=None, find=None, same=True):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel(world)
    model = make(rank, world, save or -1)
    want = make(rank, world, find or save)
    directory = os.environ["DLROVER_CKPT_DIR"] + ".own"
    if save:
        written = {"sharded_strategy": dlrover.megatron.SaveStrategy(), "validate_access_integrity": False}
        save_as_megatron(model.sharded_state_dict({"dp_cp_group": ""}), directory, **written)
    else:
        asked = {name: one for name, one in model.sharded_state_dict({"dp_cp_group": ""}).items() if "object" in name}
        asked["stream"] = ShardedObject("stream", None, (1,), (0,))
        found = dist_checkpointing.load(asked, directory, dlrover.megatron.LoadStrategy(),
                                        validate_access_integrity=False)
        assert found.pop("stream").getvalue() == b"%d" % find
        assert [one["layer"] for one in found.values()] == model.layers and found["object.0"]["of"] == find
    ck = dlrover.megatron.bind(model)
    assert ck.restore() == (find or 0)
    if find:
        for (name, value), (_, other) in zip(model.state_dict().items(), want.state_dict().items()):
            assert not same or torch.equal(value, other), (name, value, other)
        assert model.kept.pop("stream").getvalue() == b"%d" % find
        for i, layer in enumerate(model.layers):
            assert torch.equal(model.kept.pop(f"large.{i}"), torch.full((20000,), float(find + layer)))
        assert model.kept == {f"object.{i}": {"of": find, "layer": layer} for i, layer in enumerate(model.layers)}
    else:
        ck.step(save)
        ck.flush()
    ck.close()
    torch.distributed.destroy_process_group()


def wide(rank, world, value):
    return Unit([0, 1, 2, 3], rank, world, 8, value)


def high(rank, world, value):
    return Unit([rank] if world == 4 else [2 * rank, 2 * rank + 1], 0, 1, 8, value)


def test_wholes_as_dist_checkpointing_describes_them(top):
    for name, first, second, world in (("same", wide, wide, 2), ("more", wide, wide, 4), ("less", wide, wide, 1),
                                       ("other", wide, high, 2), ("other more", wide, high, 4)):
        in_directory(f"{top}/{name}")
        ranks(2, unit, first, 7)
        ranks(world, unit, second, None, 7)


def refusals():
    bind, start_ = dlrover.megatron.bind, "dlrover.megatron.bind(): "
    refused(ValueError, start_ + "parallel_state.initialize_model_parallel() comes before it", bind,
            torch.nn.Linear(1, 1))
    example.initialize(1, 1)
    refused(ValueError, start_ + "a Linear has no sharded_state_dict(): give a model of Megatron-core, or the list of "
            "its chunks", bind, torch.nn.Linear(1, 1))
    _, model, optimizer, _ = example.make(arguments(1, 1, 0))
    refused(ValueError, start_ + "the optimizer is a SGD, whose state would be lost: it is to be one that "
            "get_megatron_optimizer() makes", bind, model, torch.optim.SGD(model.parameters(), 1))
    one, = optimizer.chained_optimizers
    one.config.use_precision_aware_optimizer = True
    refused(ValueError, start_ + "the DistributedOptimizer has use_precision_aware_optimizer, with which its fp32 "
            "parameters are not in memory as they are: they would be lost", bind, model, optimizer)
    one.config.use_precision_aware_optimizer = False
    ck = bind(model, optimizer)
    assert ck.restore() == 0
    refused(ValueError, "dlrover.megatron: this model is saved by dlrover.megatron already: leave one of them out, or "
            "close() it", bind([model], optimizer).restore)
    ck.close()
    made = wide(0, 1, 1)
    made.halve = lambda key, whole, replica, _: [
        ShardedTensor.from_rank_offsets(key, whole.clone(), replica_id=replica)]
    refused(ValueError, "'halves' is a copy that a ShardedTensorFactory makes, which cannot be saved in place: use "
            "SaveStrategy", bind(made).restore)
    refused(ValueError, "'layers.weight@0.0.0' is on the meta device: give it memory (to_empty) before dlrover.bind()",
            bind(wide(0, 1, 1).to("meta")).restore)
    part = ShardedTensor.from_rank_offsets("w", torch.zeros(4, 6).t())
    refused(ValueError, "'w' is not contiguous: items 1 to 5 of it, which this rank's optimizer has, are no boxes of "
            "the whole", lambda: list(megatron_state._boxes(part, part.data, torch.zeros(4), "w", 1, 5)))


def test_what_would_be_lost_is_refused_by_name(top):
    in_directory(f"{top}/ck")
    ranks(1, refusals)


# --- the command -------------------------------------------------------------------------


def train_in_job(steps, out):
    """As one rank of a job: says what it learns from, and rank 0 writes a digest of the final weights of all."""
    def after(step, loss):
        if loss is not None:
            say(f"step {step} loss {loss:.6f}")
        if parallel_state.get_tensor_model_parallel_rank() == 0 and parallel_state.is_pipeline_first_stage():
            say(f"batch {parallel_state.get_data_parallel_rank()} {step}")

    example.initialize(2, 2)
    model, _ = example.train(arguments(2, 2, steps), after)
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        if isinstance(value, torch.Tensor):
            digest.update(name.encode() + value.contiguous().view(torch.uint8).numpy().tobytes())
    digests = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(digests, digest.hexdigest())
    if torch.distributed.get_rank() == 0:
        with open(out, "w", encoding="ascii") as file:
            file.write(hashlib.sha256("".join(digests).encode()).hexdigest() + "\n")
    torch.distributed.destroy_process_group()


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(names):
    tests = {name[len("test_"):]: one for name, one in globals().items() if name.startswith("test_")}
    unknown = [name for name in names if name not in tests]
    if unknown:
        sys.exit(f"frameworks_megatron: no test '{unknown[0]}', there are: {' '.join(tests)}")
    place = os.environ.get("DLROVER_CKPT_DIR")
    for name in names or tests:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=place) as top:
            tests[name](*[top] * tests[name].__code__.co_argcount)
        print(f"{name.replace('_', ' ')}: {time.monotonic() - began:.1f} s", flush=True)
    print(f"{len(names or tests)} passed")


if __name__ == "__main__":
    if "--train" in sys.argv:
        train_in_job(int(sys.argv[sys.argv.index("--steps") + 1]), sys.argv[sys.argv.index("--out") + 1])
    else:
        main(sys.argv[1:])
