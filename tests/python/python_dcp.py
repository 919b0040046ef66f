# SPDX-License-Identifier: Apache-2.0
"""What dlrover.dcp promises, one function each, run by each of WORLD_SIZE ranks:
python_dcp.py [--ranks N] NAME [ARGUMENT…]. With --ranks it starts them itself: forked, so that
PyTorch is imported once. The state of a step is a function of the step, whole tensors are compared
with it after a restore, whoever has which part of them.
"""
import io
import json
import os
import pickle
import random
import shutil
import signal
import sys
import time
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import dlrover.dcp

DIR = os.environ.get("DLROVER_CKPT_DIR")
RANK = WORLD = None  # set in each rank before its function is called
SHARDED = {  # shape, where it is cut, type: even, uneven, ranks without a row, both dimensions
    "rows": ((8, 6), 0, torch.float32), "uneven_rows": ((10, 3), 0, torch.bfloat16),
    "few_rows": ((2, 5), 0, torch.float64), "columns": ((3, 8), 1, torch.float32),
    "uneven_columns": ((4, 7), 1, torch.int64), "copies": ((5, 2), None, torch.float32)}


def whole(name, step):
    shape, _, dtype = SHARDED[name]
    seed = torch.Generator().manual_seed(1000 * step + len(name))
    return (torch.rand(shape, generator=seed, dtype=torch.float64) * 1000).to(dtype)


def make(step):
    """The state of step, spread over the ranks there are."""
    mesh = init_device_mesh("cpu", (WORLD,))
    tensors = {name: distribute_tensor(whole(name, step), mesh,
                                       [Replicate() if cut is None else Shard(cut)])
               for name, (_, cut, _) in SHARDED.items()}
    return {"model": tensors, "plain": torch.full((3,), float(step)),
            "scalar": torch.tensor(step * 0.5), "epoch": step,
            "nested": {"lr": [step / 10, "text"]}, "x" * 300: torch.arange(4) + step}


def change(state, step):
    """To what it is at step, in place, without a word to another rank."""
    for name, tensor in state["model"].items():
        full = whole(name, step)
        for dim, start in zip(range(full.dim()), offset_of(tensor)):
            full = full.narrow(dim, start, tensor.to_local().shape[dim])
        tensor.to_local().copy_(full)
    state["plain"].fill_(step)
    state["scalar"].fill_(step * 0.5)
    state["epoch"], state["nested"]["lr"][0] = step, step / 10
    state["x" * 300].copy_(torch.arange(4) + step)


def offset_of(tensor):
    chunk = tensor.__create_chunk_list__()
    return chunk[0].offsets


def check(state, step):
    want = make(step)
    for name, tensor in state["model"].items():
        assert isinstance(tensor, DTensor)
        assert torch.equal(tensor.to_local(), want["model"][name].to_local()), (name, tensor)
    assert torch.equal(state["plain"], want["plain"]), state["plain"]
    assert torch.equal(state["scalar"], want["scalar"]), state["scalar"]
    assert state["epoch"] == step and state["nested"] == want["nested"], state
    assert torch.equal(state["x" * 300], want["x" * 300])


def no_words():
    """From here on a collective fails: there is nobody to talk to."""
    dist.barrier()
    dist.destroy_process_group()


def meet():
    """Waits for the others by files: without a group."""
    store = dist.FileStore(f"{DIR}.meet", WORLD)
    store.set(f"rank {RANK}", "here")
    store.wait([f"rank {rank}" for rank in range(WORLD)])


def save(last, die=0):
    """Steps 1 to last. Then one half of the ranks saves nothing any more, the other until step
    die, and all are killed.
    """
    last, die = int(last), int(die)
    state = make(0)
    no_words()
    ck = dlrover.dcp.bind(lambda: state)
    assert ck.restore() == 0
    for step in range(1, (die or last) + 1):
        if step > last and RANK >= WORLD // 2:
            break
        ck.fence()
        change(state, step)
        assert ck.step(step)
    ck.flush()
    assert ck.stats()["given_up"] == 0
    if die:
        meet()
        os.kill(os.getpid(), signal.SIGKILL)
    ck.close()


def restore(step):
    """On however many ranks there are; goes on from there with two more steps."""
    step, state = int(step), make(0)
    ck = dlrover.dcp.bind(state)
    assert ck.restore() == step
    check(state, step)
    dist.barrier()
    for after in range(step + 1, step + 4):
        change(state, after)
        assert ck.step(after)
        ck.flush()
        dist.barrier()  # what is old goes when all have the new
    ck.close()
    other = dlrover.dcp.bind(make(0))
    assert other.restore() == step + 3
    check(other.state, step + 3)


def calls():
    """dcp.save and dcp.load as they are, with and without a group and with DCP's cache."""
    writer, state = dlrover.dcp.Writer(), make(0)
    cached = dcp.DefaultSavePlanner(enable_plan_caching=True)
    for step, more in enumerate(({}, {"no_dist": True}, {"planner": cached}, {"planner": cached}), 1):
        change(state, step)
        dcp.save(state, checkpoint_id=f"step-{step}", storage_writer=writer, **more)
        assert writer.saved
        dist.barrier()
        for reader in (dlrover.dcp.Reader(), dlrover.dcp.Reader(step=step)):
            loaded = make(0)
            dcp.load(loaded, storage_reader=reader)
            check(loaded, step)
        dist.barrier()
    writer.close()


def asynchronous():
    """dcp.async_save in a thread saves what was when it was called; in a process it is refused."""
    writer, state = dlrover.dcp.Writer(staged=True), make(0)
    for step in range(1, 4):
        change(state, step)
        saving = dcp.async_save(state, checkpoint_id=f"step-{step}", storage_writer=writer)
        change(state, 100)  # trains on
        saving.result()
        dist.barrier()
        loaded = make(0)
        dcp.load(loaded, storage_reader=dlrover.dcp.Reader(step=step))
        check(loaded, step)
        dist.barrier()
    try:
        pickle.dumps(writer)  # what DCP does with it
    except TypeError as error:
        assert "AsyncCheckpointerType.THREAD" in str(error), error
    else:
        raise AssertionError("not refused")
    writer.close()


def live(bound, start):
    """One of several starts of a program: each goes on from the last, three steps."""
    state = make(0)
    if bound:
        ck = dlrover.dcp.bind(state)
        assert ck.restore() == start
        save_step = ck.step
    else:
        if start:
            dcp.load(state, storage_reader=dlrover.dcp.Reader())
        ck = dlrover.dcp.Writer()

        def save_step(step):
            dcp.save(state, checkpoint_id=f"step-{step}", storage_writer=ck)

    if start:
        check(state, start)
    for step in range(start + 1, start + 4):
        change(state, step)
        save_step(step)
        ck.flush()
        dist.barrier()  # what is old goes when all have the new
    ck.close()


def restarted():
    """Nothing of it is another program's: nothing is set aside, and two versions are kept."""
    for bound in (True, False):
        for start in (0, 3, 6):
            live(bound, start)
            with dlrover.Checkpoint(DIR) as there:
                steps = [step for _round, step, _bytes, _world in there.list()]
            assert steps == [start + 3, start + 2], steps
            assert not [name for name in os.listdir(DIR) if ".aside" in name], os.listdir(DIR)
            dist.barrier()
        if RANK == 0:
            shutil.rmtree(DIR)
        dist.barrier()


def chosen():
    """Each step is saved that the caller of dcp.save chose, also with the default said aloud."""
    os.environ["DLROVER_CKPT_EVERY"] = "auto"
    writer, state = dlrover.dcp.Writer(), {"w": torch.zeros(3)}
    for step in range(1, 31):
        dcp.save(state, checkpoint_id=f"step-{step}", storage_writer=writer, no_dist=True)
        assert writer.saved, step
    writer.close()


def joined(step):
    """More ranks than saved it, from the files and as the library loads it under a job."""
    for load in ("restore", "_restore_from_memory"):
        ck = dlrover.dcp.bind(make(0))
        assert getattr(ck, load)() == int(step)
        check(ck.state, int(step))
        assert ck.missing() == [] and ck.leftover() == [], (ck.missing(), ck.leftover())
        assert torch.frombuffer(ck.peek(1, "plain"), dtype=torch.float32).sum() == 3 * int(step)
        ck.close()
    for load in ("restore", "_restore_from_memory"):
        for allow in (False, True):
            state = {**make(0), "more": torch.ones(2), "value": 7}
            del state["plain"]
            ck = dlrover.dcp.bind(state)
            ck.allow(leftover=allow, missing=allow)
            try:
                assert getattr(ck, load)() == int(step) and allow
                assert state["epoch"] == int(step) and state["more"].sum() == 2
                assert ck.state["value"] == 7, ck.state
                assert {"more", "value"} == set(ck.missing()) and ck.leftover() == ["plain"]
            except dlrover.Error as error:
                assert not allow and ("'more'" in str(error) or "'plain'" in str(error)), error
            ck.close()
            dist.barrier()


def staged():
    """Tensors that are made anew at each save, and some that are not contiguous."""
    turned = torch.arange(12.).reshape(3, 4).t()
    ck = dlrover.dcp.bind(lambda: {"new": turned + 1, "turned": turned}, staged=True)
    ck.step(1)
    turned += 5
    ck.fence()
    ck.step(2)
    ck.close()
    loaded = {"new": torch.zeros(4, 3), "turned": torch.zeros(4, 3)}
    dcp.load(loaded, storage_reader=dlrover.dcp.Reader(), no_dist=True)
    assert torch.equal(loaded["turned"], turned) and torch.equal(loaded["new"], turned + 1)


def unfenced():
    """With buffers of the writer's own no fence is needed: no save has bytes of the next one."""
    state = {"w": torch.full((1 << 23,), 1.)}
    ck = dlrover.dcp.bind(lambda: state, staged=True)
    for step in (1, 2):
        state["w"].fill_(step)
        assert ck.step(step)
    ck.fence()
    assert ck.stats()["changed"] == 0  # the test asks for an audit of each save
    ck.close()
    for step in (1, 2):
        loaded = {"w": torch.zeros(1 << 23)}
        dcp.load(loaded, storage_reader=dlrover.dcp.Reader(step=step), no_dist=True)
        assert (loaded["w"] == step).all(), loaded


def moved():
    """A tensor elsewhere, another one, a value that grew, several times over: each is another layout, saved
    whole, told once.
    """
    state = {"w": torch.zeros(4), "n": 1}
    ck = dlrover.dcp.bind(lambda: state)
    assert ck.step(1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for step, new in enumerate(({"w": torch.ones(4)}, {"v": torch.full((4,), 2.)}, {"n": "x" * 10000},
                                    {"n": "y" * 1000000}), 2):
            state.update(new)
            ck.fence()
            assert ck.step(step), step
    assert len(said) == 1 and "'w' is at another address" in str(said[0].message), said
    ck.close()
    for load in "restore", "_restore_from_memory":
        loaded = {"w": torch.zeros(4), "n": 1, "v": torch.zeros(4)}
        ck = dlrover.dcp.bind(loaded)
        assert getattr(ck, load)() == 5
        assert torch.equal(loaded["w"], state["w"]) and torch.equal(loaded["v"], state["v"]), loaded
        assert ck.state["n"] == state["n"]
        ck.close()


def asked():
    """The state is asked for where it is saved, and each 64 steps to see what moved."""
    state, at = {"w": torch.zeros(4), "n": 0}, []

    def make_state():
        at.append(state["n"])
        return state

    ck = dlrover.dcp.bind(make_state, every=50)
    for state["n"] in range(1, 151):
        assert ck.step(state["n"]) == (state["n"] % 50 == 0)
        ck.fence()
    assert at == [1, 50, 64, 100, 128, 150], at
    state.update(w=torch.ones(4), n=192)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert not ck.step(192)
    assert "'w' is at another address" in str(said[0].message), said
    ck.close()
    assert dlrover.dcp.bind(state).restore() == 150 and state["n"] == 150


class Evil:
    """What a pickle can do to who reads it."""

    def __reduce__(self):
        return os.mkdir, (f"{DIR}/run",)


def hostile():
    """A pickle where a value should be is refused by every way to load it, and not run."""
    pickle = io.BytesIO()
    torch.save(Evil(), pickle)
    note = {"v": 2, "items": [["w", "w", "torch.float32"], ["n", "n", None]],
            "mapping": [["w", ["w"]], ["n", ["n"]]]}
    with dlrover.Checkpoint() as ck:
        ck.add("w", torch.ones(3))
        ck.add("n", bytearray(pickle.getbuffer()), "blob")
        ck.add(".dcp", bytearray(json.dumps(note).encode()), "blob")
        assert ck.begin(1)
    state = {"w": torch.zeros(3), "n": 1}
    for load in (lambda: dlrover.dcp.bind(state).restore(),
                 lambda: dlrover.dcp.bind({**state, "n": "x" * 9999})._restore_from_memory(),
                 lambda: dcp.load(state, storage_reader=dlrover.dcp.Reader(), no_dist=True)):
        try:
            load()
            taken = True
        except BaseException as error:  # DCP wraps it in one of that kind
            assert "is not what dlrover.dcp saves: not a value" in str(error), error
            taken = False
        assert not taken
    for at, step in (("w", 2), ("n", 3)):
        ck = dlrover.dcp.bind({"w": torch.ones(3), at: Evil()})
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert not ck.step(step) and not ck.step(step + 1)
        assert len(said) == 1 and said[0].filename == __file__, said
        assert f"'{at}' is a __main__.Evil, which cannot be kept" in str(said[0].message), said
        assert ck.stats()["unsaved"] == 1
    assert not os.path.exists(f"{DIR}/run")


def manifest(step, **changes):
    said = {"v": 2, "t": "manifest", "world": 1, "vround": 0, "step": step, "layout": "0" * 16,
            "slices": [{"rank": 0, "file": f"r0-{step}.safetensors", "at": 1, "bytes": 1, "room": 1,
                        "crc": "0" * 8}], **changes}
    with open(f"{DIR}/manifest-0-{step}.json", "w", encoding="ascii") as file:
        json.dump(said, file)


def two_versions():
    warnings.simplefilter("ignore", RuntimeWarning)  # which manifest is passed over
    state = {"w": torch.zeros(3), "n": 0}
    ck = dlrover.dcp.bind(state)
    for step in (1, 2):
        state["w"].fill_(step)
        state["n"] = step
        assert ck.step(step)
        ck.flush()
        manifest(step)
    ck.close()


def loaded_step():
    """The step that is restored, all of it; 0 when nothing is there."""
    state = {"w": torch.zeros(3), "n": 0}
    step = dlrover.dcp.bind(state).restore()
    assert step == 0 or state["n"] == step and (state["w"] == step).all(), (step, state)
    return step


def refused(said):
    try:
        step = loaded_step()
    except dlrover.Error as error:
        assert said in str(error), error
        return
    raise SystemExit(f"step {step} was loaded, not refused: {said}")


def manifests():
    """A manifest that is malformed or leads elsewhere is passed over; what is pruned while it is
    read, or lost, is no fresh start.
    """
    two_versions()
    os.mkdir(f"{DIR}/r")
    row = {"rank": 0, "file": "r0-2.safetensors", "at": 1, "bytes": 1, "room": 1, "crc": "0" * 8}
    for changes in ({"v": 1}, {"t": "x"}, {"world": 2}, {"world": 0, "slices": []}, {"step": 1}, {"vround": -1},
                    {"layout": 0}, {"slices": [row, row]}, {"slices": [{**row, "file": "r/../r0-2.safetensors"}]},
                    {"slices": [{**row, "rank": True}]}, {"slices": [{**row, "bytes": "1"}]}, {"slices": 1},
                    {"slices": [{**row, "crc": "g" * 8}]}):
        with open(f"{DIR}/manifest-0-2.json", "w", encoding="ascii") as file:
            json.dump({**json.load(open(f"{DIR}/manifest-0-1.json", encoding="ascii")), "step": 2,
                       "slices": [row], **changes}, file)
        assert loaded_step() == 1, changes
    os.remove(f"{DIR}/manifest-0-2.json")
    os.mkfifo(f"{DIR}/manifest-0-2.json")  # which nobody writes to
    assert loaded_step() == 1
    os.remove(f"{DIR}/manifest-0-1.json")
    refused("manifest-0-2.json' is no regular file")
    os.remove(f"{DIR}/manifest-0-2.json")
    manifest(1)
    os.rename(f"{DIR}/r0-1.safetensors", f"{DIR}/kept")
    os.mkfifo(f"{DIR}/r0-1.safetensors")
    refused("r0-1.safetensors' is no regular file")
    os.rename(f"{DIR}/kept", f"{DIR}/r0-1.safetensors")
    os.remove(f"{DIR}/manifest-0-1.json")
    manifest(2)
    listdir, ghosts = os.listdir, [1]

    def stale(directory):
        return listdir(directory) + [f"manifest-0-{9 + ghosts.pop()}.json" for _ in ghosts[:1]]

    os.listdir = stale
    assert loaded_step() == 2 and not ghosts
    ghosts.extend(range(1, 99))
    refused("is gone, and so is what came after it")
    os.listdir = listdir
    os.remove(f"{DIR}/r0-2.safetensors")
    refused("r0-2.safetensors' is in a manifest and not there")


def flips(path, size, rng, times):
    """The file with one bit of its first bytes changed, many times."""
    with open(path, "rb") as file:
        whole = file.read()
    for _ in range(times):
        bit = rng.randrange(8 * min(size, len(whole)))
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        with open(path, "wb") as file:
            file.write(changed)
        yield bit
    with open(path, "wb") as file:
        file.write(whole)


def flipped(seed):
    """With a bit of the newest version's manifest or header changed it is read as it was, or the one
    before it is. A note with such a bit, its checksum right, is read or refused.
    """
    rng = random.Random(int(seed))
    two_versions()
    file = f"{DIR}/r0-2.safetensors"
    with open(file, "rb") as opened:
        header = 8 + int.from_bytes(opened.read(8), "little")
    told = set()
    for path, size in ((f"{DIR}/manifest-0-2.json", 4096), (file, header)):
        for bit in flips(path, size, rng, 200):
            step = loaded_step()
            assert step in (1, 2), (path, bit)
            told.add(step)
    assert told == {1, 2} and loaded_step() == 2
    note = dlrover.dcp.Reader()
    note.open()
    slot = note._slots[0]
    note = bytearray(slot.bytes(slot.regions[".dcp"]).numpy())
    value = bytearray(slot.bytes(slot.regions["n"]).numpy())
    told = set()
    for at in range(100):
        shutil.rmtree(DIR)
        bit = rng.randrange(8 * len(note))
        with dlrover.Checkpoint() as ck:
            ck.add("w", torch.full((3,), 2.))
            ck.add("n", value, "blob")
            ck.add(".dcp", note[:bit // 8] + bytes([note[bit // 8] ^ 1 << bit % 8]) + note[bit // 8 + 1:], "blob")
            assert ck.begin(2)
        try:
            told.add(loaded_step())
        except dlrover.Error:
            told.add("refused")
    assert told == {2, "refused"}, told


class Counter:
    """An object with a state dict of its own."""

    def __init__(self):
        self.n = 0

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = state["n"]


def objects():
    one = Counter()
    ck = dlrover.dcp.bind({"counter": one})
    for one.n in (1, 2):
        ck.fence()
        assert ck.step(one.n)
    ck.close()
    two = Counter()
    assert dlrover.dcp.bind({"counter": two}).restore() == 2
    assert two.n == 2


def fsdp(last):
    """FSDP2 on CPUs: steps until last, from where an earlier call came to; whole weights printed by
    rank 0 are the same with and without a break.
    """
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=init_device_mesh("cpu", (WORLD,)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()  # makes its state; zero gradients change nothing
    ck = dlrover.dcp.bind(lambda: {"model": model.state_dict(),
                                   "optimizer": optimizer.state_dict()["state"]})
    step = ck.restore()
    print(f"from {step}\n", end="", flush=True)  # in one piece: another rank prints, too
    while step < int(last):
        optimizer.zero_grad()
        model(torch.full((2, 7), step + 1.)).square().mean().backward()
        ck.fence()
        optimizer.step()
        step += 1
        assert ck.step(step)
    ck.close()
    full = [p.full_tensor().sum().item() for p in model.parameters()]
    if RANK == 0:
        print(full)
    dist.barrier()


def wrapped():
    """What wrappers put before the keys prevents no restore, from files or as under a job; where two keys would be
    one, they keep their names.
    """
    def keys(prefix, n, more=()):
        # Two longer than a name of a region: these have another one.
        tensors = {f"{prefix}a.weight": torch.full((3,), float(n)), f"{prefix}b." + "x" * 300: torch.full((2,), float(n))}
        return {"model": {**tensors, **{key: torch.full((3,), n + 0.5) for key in more}},
                "ema": {"shadow": {f"{prefix}b.weight": torch.full((2,), 2. * n)}}, "steps": {f"{prefix}a": n}}

    def go_on(ck, state, step):
        assert ck.missing() == ck.leftover() == [], (ck.missing(), ck.leftover())
        assert ck.step(step)
        ck.close()
        same = dlrover.dcp.bind(state)
        assert same._restore_from_memory() == step  # the names are those of this state again
        same.close()

    prefixes = ("", "module.", "_orig_mod.", "_fsdp_wrapped_module.", "module._orig_mod.", "")
    saved = dlrover.dcp.bind(keys("", 1))
    assert saved.step(1)
    saved.close()
    for at, prefix in enumerate(prefixes[1:], 2):
        for load in "restore", "_restore_from_memory":
            state = keys(prefix, 0)
            ck = dlrover.dcp.bind(state)
            assert getattr(ck, load)() == at - 1
            want = keys(prefix, 1)
            assert str(state) == str(want), state
            if load == "_restore_from_memory":
                go_on(ck, state, at)
            ck.close()
    for load in "restore", "_restore_from_memory":
        state = keys("", 0, ["_orig_mod.a.weight"])
        ck = dlrover.dcp.bind(state)
        try:
            getattr(ck, load)()
            raise SystemExit("taken")
        except dlrover.Error as error:
            assert "lacks 'model._orig_mod.a.weight'" in str(error), error
        ck.close()


def others():
    """What a version has besides, and what it lacks, is no matter of the next one."""
    ck = dlrover.dcp.bind({"a": torch.ones(2), "old": 5, "older": 6})
    assert ck.step(1)
    ck.close()
    ck = dlrover.dcp.bind({"a": torch.zeros(2), "new": torch.ones(3)})
    ck.allow(leftover=True, missing=True)
    assert ck._restore_from_memory() == 1
    assert ck.step(2)
    ck.close()
    loaded = {"a": torch.zeros(2), "new": torch.zeros(3)}
    ck = dlrover.dcp.bind(loaded)
    assert ck.restore() == 2 and loaded["a"].sum() == 2 and loaded["new"].sum() == 3, loaded
    for late in range(2):  # before the first step, and after it
        try:
            ck.allow(missing=True)
            raise AssertionError("taken")
        except dlrover.Error as error:
            assert "allow" in str(error) and "before restore" in str(error), error
        assert late or ck.step(3)
    ck.flush()
    ck.mark_bad(3)
    ck.close()
    assert dlrover.dcp.bind(loaded).restore() == 2


def alone():
    for one in (staged, moved, asked, objects, hostile, wrapped, others):
        one()
        shutil.rmtree(DIR)


def corrupt(step):
    """The newest version is corrupt in one rank's file: all ranks take the one before."""
    state, ck = make(0), dlrover.dcp.bind(make(0))
    assert ck.restore() == int(step)
    check(ck.state, int(step))
    del state


def fresh():
    """Where no version is whole that is an error, until a word begins anew."""
    ck = dlrover.dcp.bind(make(0))
    try:
        ck.restore()
        raise SystemExit("taken")
    except dlrover.Error as error:
        assert "is corrupt in block" in str(error), error
    os.environ["DLROVER_CKPT_FRESH"] = "on"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert ck.restore() == 0
    assert "DLROVER_CKPT_FRESH=on: nothing is restored" in str(said[0].message)


def exported(step, out):
    """What DCP itself reads of an export, on any number of ranks."""
    state = make(0)
    dcp.load(state, checkpoint_id=out)
    check(state, int(step))


def tensors(step, path):
    """What the public safetensors library reads of the files of two ranks; %d in path is the rank."""
    import safetensors.torch

    ranks = [safetensors.torch.load_file(path % rank) for rank in (0, 1)]
    for name, (_, cut, dtype) in SHARDED.items():
        parts = [loaded[f"model.{name}"] for loaded in ranks]
        assert parts[0].dtype == dtype
        full = parts[0] if cut is None else torch.cat(parts, cut)
        assert torch.equal(full, whole(name, int(step))), name
        assert cut is not None or torch.equal(*parts)
    with safetensors.safe_open(path % 1, "pt") as file:
        assert file.metadata()["dlrover.step"] == step, file.metadata()


def plain(out):
    """What a program named itself: parts, the same in all ranks, not the same, a rank's own."""
    from dlrover.export import to_dcp

    ck = dlrover.Checkpoint()
    ck.add("same", torch.arange(5.))
    ck.add("other", torch.full((2,), RANK))
    ck.add("part", torch.full((1, 3), RANK), global_shape=(WORLD, 3), offset=(RANK, 0))
    ck.add("own", torch.full((2,), RANK, dtype=torch.bfloat16), "local")
    # As ranks 0 and 1 of one node keep it between them, and rank 2 of another.
    first, end = ((0, 2), (2, 4), (0, 4))[RANK]
    ck.add("joint", torch.arange(first, end), "replicated", global_shape=(4,), offset=(first,))
    ck.add("blob", bytearray([RANK] * 9), "blob")
    ck.begin(1)
    ck.close()
    dist.barrier()
    if RANK == 0:
        clone, torch.Tensor.clone = torch.Tensor.clone, None  # no tensor is copied: it may be as large as memory
        to_dcp(DIR, out)
        torch.Tensor.clone = clone
    dist.barrier()
    state = {"same": torch.zeros(5), "part": torch.zeros(WORLD, 3, dtype=torch.int64),
             "joint": torch.zeros(4, dtype=torch.int64), "other": torch.ones(2, dtype=torch.int64), "rank 1/other": torch.zeros(2, dtype=torch.int64)}
    for rank in range(WORLD):
        state[f"rank {rank}/own"] = torch.full((2,), 7, dtype=torch.bfloat16)
        state[f"rank {rank}/blob"] = torch.full((9,), 7, dtype=torch.uint8)
    dcp.load(state, checkpoint_id=out)
    assert torch.equal(state["same"], torch.arange(5.))
    assert torch.equal(state["joint"], torch.arange(4))
    assert torch.equal(state["part"], torch.arange(WORLD).view(-1, 1).expand(WORLD, 3))
    assert state["other"].sum() == 0 and state["rank 1/other"].sum() == 2
    for rank in range(WORLD):
        assert (state[f"rank {rank}/own"] == rank).all() and (state[f"rank {rank}/blob"] == rank).all()


def memory(last):
    """In a supervised job: steps until last, from wherever an earlier attempt came to."""
    state = make(0)
    ck = dlrover.dcp.bind(lambda: state)
    step = ck.restore()
    if step:
        check(state, step)
        if RANK == 0:
            print(f"restored {step}", flush=True)
    while step < int(last):
        time.sleep(0.1)  # computes
        ck.fence()
        step += 1
        change(state, step)
        ck.step(step)
        dist.barrier()
    ck.fence()
    ck.close()
    check(state, step)
    if RANK == 0:
        print(f"done {step}", flush=True)


def as_rank(rank, world, meet_at, name, arguments):
    global RANK, WORLD
    RANK, WORLD = rank, world
    # A fork makes torch leave its pool of threads: without a new one autograd's thread and this one race for it.
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method=meet_at, rank=rank, world_size=world)
    globals()[name](*arguments)
    if dist.is_initialized():
        dist.destroy_process_group()


def fork_ranks(world, name, arguments):
    """True when all ended well. One that fails ends the others, which would wait for it."""
    meet_at = f"file://{DIR}.ranks-{os.getpid()}"
    ranks = []
    for rank in range(world):
        ranks.append(os.fork())
        if ranks[-1] == 0:
            as_rank(rank, world, meet_at, name, arguments)
            return True
    failed = False
    for _ in range(world):
        pid, status = os.wait()
        ranks.remove(pid)
        if status and not failed:
            failed = True
            for other in ranks:
                os.kill(other, signal.SIGTERM)
    return not failed


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "--ranks":
        sys.exit(not fork_ranks(int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
    as_rank(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "env://", sys.argv[1],
            sys.argv[2:])
