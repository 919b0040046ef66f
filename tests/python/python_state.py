#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What dlrover.bind() promises about state, one function each: python_state.py NAME…. Each
trains once undisturbed, once to the half and again from there in new objects, and compares.
"""
import errno
import os
import random
import shutil
import signal
import sys
import time
import warnings

import numpy as np
import torch
from torch import nn

import dlrover
import python_agent
from dlrover import _names

DIR = os.environ["DLROVER_CKPT_DIR"]


class Loader:
    """A position in the data, as loaders keep it."""

    at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def equal(one, two):
    assert len(one) == len(two), (one, two)
    for a, b in zip(one, two):
        if torch.is_tensor(a):
            assert a.dtype == b.dtype and torch.equal(a.view(-1).view(torch.uint8) if a.dim()
                else a, b.view(-1).view(torch.uint8) if b.dim() else b), (a, b)
        else:
            assert a == b, (a, b)


def twice(run, steps=6, half=3):
    """run(first state maker's seed, last step) gives what must be equal."""
    whole = run(1, steps)
    shutil.rmtree(DIR)
    run(1, half)
    equal(whole, run(99, steps))  # other first weights and numbers: all must be loaded


def seed(value):
    torch.manual_seed(value)
    random.seed(value)
    np.random.seed(value)


def tensors_of(model, optimizer):
    found = [p.detach().clone() for p in model.parameters()]
    for p in model.parameters():
        found += [v for _, v in sorted(optimizer.state[p].items())]
    return found


def random_numbers():
    """Python's, numpy's and torch's, a scheduler and a loader in one call, also where most steps
    are not saved.
    """
    def run(start, last):
        seed(start)
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.3), nn.Linear(4, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        loader = Loader()
        ck = dlrover.bind(model, optimizer, extra={"scheduler": scheduler, "loader": loader},
                          every=run.every)
        step = ck.restore()
        assert loader.at == 2 * step, (loader.at, step)
        while step < last:
            data = torch.randn(2, 3) * random.random() + float(np.random.rand())
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
            scheduler.step()
            loader.at += 2
            step += 1
            ck.step(step)
        ck.close()
        return tensors_of(model, optimizer) + [scheduler.get_last_lr(), random.random(),
                                               float(np.random.rand()), loader.at]
    for run.every in (1, 3):
        shutil.rmtree(DIR, ignore_errors=True)
        twice(run)


def cuda_random():
    """The generators of all GPUs: played ones, three when it is saved, two when it is loaded."""
    class Played:
        def __init__(self, states, current=0):
            self.states, self._current = states, current

        def __enter__(self):
            self._real = {name: getattr(torch.cuda, name) for name in vars(Played)
                          if not name.startswith("_")}
            for name in self._real:
                setattr(torch.cuda, name, getattr(self, name))
            return self

        def __exit__(self, *_):
            for name, real in self._real.items():
                setattr(torch.cuda, name, real)

        def is_available(self):
            return True

        def is_initialized(self):
            return True

        def device_count(self):
            return len(self.states)

        def current_device(self):
            return self._current

        def get_rng_state_all(self):
            return [one.clone() for one in self.states]

        def set_rng_state(self, state, device):
            self.states[device] = state

    def of(*numbers):
        return [torch.full((16,), number, dtype=torch.uint8) for number in numbers]

    model = nn.Linear(2, 1)
    with Played(of(1, 2, 3)):
        ck = dlrover.bind(model)
        assert ck.step(1)
        ck.close()
    with Played(of(7, 8)) as now:
        ck = dlrover.bind(model)
        assert ck.restore() == 1
        ck.close()
        equal(now.states, of(1, 2))
    with Played(of(7, 8), current=1) as now:  # another local rank than before
        ck = dlrover.bind(model)
        assert ck.restore() == 1
        ck.close()
        equal(now.states, of(1, 1))
    ck = dlrover.bind(model)
    assert ck.restore() == 1  # and where there is no GPU the rest is loaded
    ck.close()


def scaler():
    """The scale of a GradScaler, which halves where a gradient is not finite and grows elsewhere."""
    def run(start, last):
        seed(start)
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        one = torch.amp.GradScaler("cpu", init_scale=1024., growth_interval=2)
        ck = dlrover.bind(model, optimizer, extra=one)
        step = ck.restore()
        while step < last:
            optimizer.zero_grad()
            loss = model(torch.randn(2, 3)).square().mean() * (float("inf") if step == 1 else 1)
            one.scale(loss).backward()
            one.step(optimizer)
            one.update()
            step += 1
            ck.step(step)
            ck.fence()
        ck.close()
        return tensors_of(model, optimizer) + [one.get_scale(), one.state_dict()]
    twice(run)


def joining(rank, world, first, replicated=False):
    """A rank's model, optimizer, scheduler and checkpoint, with values that first decides."""
    seed(first)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    return model, optimizer, scheduler, dlrover.bind(model, optimizer, scheduler, replicated, rank=rank,
                                                     world=world)


def numbers():
    return torch.rand(1).item(), random.random(), float(np.random.rand())


def saved_by_two(replicated=False):
    """Step 3 of two ranks; what both have of weights and state, and each one's next numbers."""
    os.environ["DLROVER_CKPT_AGREE_MS"] = "0"  # ranks come one after the other, here and in what loads it
    drawn = []
    for rank in range(2):
        model, optimizer, scheduler, ck = joining(rank, 2, 5, replicated)
        for _ in range(3):
            model(torch.ones(2, 3) * _).square().mean().backward()
            optimizer.step()
            scheduler.step()
        model[1].running_mean.fill_(10 + rank)
        seed(100 + rank)
        assert ck.step(3)
        ck.close()
        drawn.append(numbers())
    return tensors_of(model, optimizer), drawn


def loaded_by_three(rank, first, want, replicated=False):
    """One of three ranks loads what two saved; its next numbers."""
    model, optimizer, scheduler, ck = joining(rank, 3, first, replicated)
    assert ck.restore() == 3
    drawn = numbers()
    equal(tensors_of(model, optimizer), want)
    assert (model[1].running_mean == (11 if rank == 1 else 10)).all(), (rank, model[1].running_mean)
    assert model[1].num_batches_tracked == 3
    assert scheduler.last_epoch == 3 and optimizer.param_groups[0]["lr"] == 0.005
    mean = torch.frombuffer(ck.peek(1, "buffer.1.running_mean"), dtype=torch.float32)
    assert (mean == 11).all()
    ck.close()
    return drawn


def joined():
    """A third rank loads what two saved: what it shares with them, rank 0's own, numbers of its
    own, the same ones each time.
    """
    for replicated in (False, True):
        want, had = saved_by_two(replicated)
        drawn = [loaded_by_three(rank, 99 + i, want, replicated) for i, rank in enumerate((0, 1, 2, 2))]
        assert drawn[:2] == had, (drawn, had)
        assert drawn[2] == drawn[3] and drawn[2] not in drawn[:2], drawn
        shutil.rmtree(DIR)


def joined_in_job():
    """The same under a job, which offers that version to each rank and brings whose slots it asks for."""
    for replicated in (False, True):
        want, had = saved_by_two(replicated)
        drawn = []
        for rank in range(3):
            with python_agent.Agent(DIR, rank, step=3, made_by=2) as agent:
                drawn.append(loaded_by_three(rank, 99 + rank, want, replicated))
                assert agent.restored == 0 and set(agent.peeked) <= {0, 1}, (agent.restored, agent.peeked)
                assert agent.peeked, "it was loaded from elsewhere"
        assert drawn[:2] == had and drawn[2] not in had, (drawn, had)
        assert drawn[2] == loaded_by_three(2, 7, want, replicated)  # the version gives them, not the job
        shutil.rmtree(DIR)


def unmatched():
    """What the version lacks is refused by name; allowed, it stays as it was."""
    def start(layers, first):
        seed(first)
        model = nn.ModuleList([nn.Linear(3, 3) for _ in range(layers)])
        return model, torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)

    model, optimizer = start(2, 1)
    sum(layer(torch.ones(1, 3)).sum() for layer in model).backward()
    optimizer.step()
    ck = dlrover.bind(model, optimizer)
    assert ck.step(1)
    ck.close()
    want = tensors_of(model, optimizer)
    for layers, said in ((3, "lacks 'model.2.weight'"), (1, "holds 'model.1.weight'")):
        for allow in (False, True):
            model, optimizer = start(layers, 7)
            first = [p.detach().clone() for p in model.parameters()]
            ck = dlrover.bind(model, optimizer)
            ck.allow(leftover=allow, missing=allow)
            try:
                assert ck.restore() == 1 and allow
                assert torch.equal(model[0].weight, want[0]) and optimizer.state[model[0].weight]
            except dlrover.Error as error:
                assert not allow and said in str(error), error
            assert len(ck.missing()) == (2 if layers == 3 else 0), ck.missing()
            if layers == 3 and allow:
                equal([p.detach() for p in model[2].parameters()], first[4:])
                assert model[2].weight not in optimizer.state and model[2].bias not in optimizer.state
                assert not ck.leftover()
            ck.close()


def extra_function():
    def run(start, last):
        seed(start)
        model, kept = nn.Linear(2, 1), {}
        def extra(*saved):
            kept.update(*saved)
            return dict(kept)
        ck = dlrover.bind(model, extra=extra)
        step = ck.restore()
        while step < last:
            step += 1
            kept[str(step)] = step
            ck.step(step)
            ck.fence()
        ck.close()
        return [p.detach() for p in model.parameters()] + [kept]
    twice(run)


class Evil:
    """What a pickle can do to who reads it."""

    def __reduce__(self):
        return os.mkdir, (f"{DIR}/run",)


def plain_values():
    """Each kind of value comes back as it was; others are refused by name."""
    from dlrover import _plain

    numpy_state = np.random.RandomState(3).get_state()
    value = {"none": None, 3: [True, 1 << 70, -0.0, float("inf"), "\u00fc\ud800"], "t": (1, (2,)), "b": b"\0\xff",
             "set": {1, 2}, "counter": __import__("collections").Counter({5: 2}), "c": 1 - 2j,
             "numpy": numpy_state[2:], "words": numpy_state[1], "n": np.float64(0.1), "flag": np.bool_(True),
             "size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cpu"),
             (1, "key"): {"nested": {"deep": [{}]}}}
    back = _plain.decode(_plain.encode(value, "it") + b"what is behind it")
    assert (back.pop("words") == value.pop("words")).all()
    assert back == value and list(back) == list(value), back
    assert type(back["counter"]) is type(value["counter"]) and type(back["n"]) is np.float64
    for tensor in (torch.randn(2, 3).t(), torch.tensor(7), torch.zeros(0, 4), torch.ones(3).bfloat16(),
                   torch.tensor([True, False]), torch.tensor([1 + 2j])):
        one = _plain.decode(_plain.encode(tensor, "it"))
        assert one.dtype == tensor.dtype and one.shape == tensor.shape and torch.equal(one, tensor)
    text = _plain.encode(value, "it")
    for _ in range(3000):
        bit = random.randrange(8 * len(text))
        changed = bytearray(text)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            _plain.decode(changed)
        except ValueError:
            pass
    holds_itself = []
    holds_itself.append(holds_itself)
    for bad, said in (({"a": [1, {"b": Evil()}]}, "it['a'][1]['b'] is a __main__.Evil, which cannot be kept"),
                      (holds_itself, "it is nested too deeply"), (np.array([None]), "it is a numpy.ndarray"),
                      (print, "it is a builtins.builtin_function_or_method")):
        try:
            _plain.encode(bad, "it")
            raise SystemExit("taken")
        except ValueError as error:
            assert str(error).startswith(said), error


def schedulers():
    """All of PyTorch's keep their state, also where that names a function of the program's."""
    of = torch.optim.lr_scheduler
    for make in (lambda o: of.OneCycleLR(o, 0.5, 10), lambda o: of.MultiStepLR(o, [2, 2, 4]),
                 lambda o: of.LambdaLR(o, lambda at: 1 / (at + 1)), lambda o: of.CyclicLR(o, 0.1, 0.5, 3),
                 of.ReduceLROnPlateau, lambda o: of.CosineAnnealingWarmRestarts(o, 3),
                 lambda o: of.SequentialLR(o, [of.ConstantLR(o), of.OneCycleLR(o, 0.5, 10)], [2]),
                 lambda o: of.SequentialLR(o, [of.ConstantLR(o), of.MultiStepLR(o, [1, 1])], [3])):
        def run(start, last):
            seed(start)
            model = nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), 0.1 * start, momentum=0.5)
            one = make(optimizer)
            ck = dlrover.bind(model, optimizer, extra=one)
            step = ck.restore()
            while step < last:
                optimizer.zero_grad()
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
                one.step(*[step % 2] * isinstance(one, of.ReduceLROnPlateau))
                step += 1
                ck.step(step)
                ck.fence()
            ck.close()
            return [p.detach() for p in model.parameters()] + [optimizer.param_groups[0]["lr"]]
        twice(run)
        shutil.rmtree(DIR)


def hostile():
    """A pickle where ours should be is refused and not run; what would need one is not saved."""
    import pickle

    model = nn.Linear(2, 1, bias=False)
    with dlrover.Checkpoint() as ck:
        ck.add("model.weight", model.weight.detach())
        ck.add("torch.random", torch.get_rng_state(), "blob")
        ck.add("python", bytearray(pickle.dumps({"random": Evil(), "extra": None})), "blob")
        assert ck.begin(1)
    ck = dlrover.bind(model)
    try:
        ck.restore()
        raise SystemExit("taken")
    except dlrover.Error as error:
        assert "'python' is not what dlrover.bind() saves" in str(error), error
    ck.close()
    assert not os.path.exists(f"{DIR}/run")
    shutil.rmtree(DIR)
    ck = dlrover.bind(model, extra=lambda *_: {"mine": Evil()})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert not ck.step(1) and not ck.step(2)
    assert len(said) == 1 and "['extra']['mine'] is a __main__.Evil" in str(said[0].message), said
    assert said[0].filename == __file__, said[0]
    assert ck.stats()["unsaved"] == 1  # the second was not tried: naming all has its price
    ck.close()


def late(make):
    """A second head without gradients until step 2: its optimizer state appears late."""
    def run(start, last, plain=False):
        seed(start)
        model = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 2)])
        optimizer = make(model.parameters())
        ck = dlrover.bind(model, optimizer)
        step = ck.restore()
        while step < last:
            optimizer.zero_grad(set_to_none=True)
            model[int(step >= late.since)](torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
            step += 1
            if not plain:
                ck.step(step)
            assert not ck._told
        ck.close()
        return tensors_of(model, optimizer)
    for late.since in (2, 4):  # before and after the step that is loaded
        shutil.rmtree(DIR, ignore_errors=True)
        equal(run(1, 6, plain=True), run(1, 6))  # saving changes nothing
        shutil.rmtree(DIR)
        twice(run)


def late_adam():
    late(lambda parameters: torch.optim.Adam(parameters, lr=1e-2, weight_decay=0.1))


def late_momentum():
    late(lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, dampening=0.5))


class WideMomentum(torch.optim.Optimizer):
    """Keeps f32 state of bf16 parameters, has a hook like PyTorch 2's."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
        self.hooks = []

    def register_step_pre_hook(self, hook):
        self.hooks.append(hook)

    @torch.no_grad()
    def step(self, closure=None):
        for hook in self.hooks:
            hook(self, (), {})
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    sums = self.state[p].setdefault("sum", torch.zeros(p.shape))
                    sums.mul_(0.9).add_(p.grad.float())
                    p.sub_((group["lr"] * sums).to(p.dtype))


def wide_state():
    """f32 state of bf16 parameters comes back as f32, with every bit."""
    def run(start, last):
        seed(start)
        model = nn.Linear(5, 3).to(torch.bfloat16)
        optimizer = WideMomentum(model.parameters())
        ck = dlrover.bind(model, optimizer)
        step = ck.restore()
        assert len(optimizer.hooks) == 1
        while step < last:
            optimizer.zero_grad()
            model(torch.randn(4, 5).to(torch.bfloat16)).square().mean().backward()
            optimizer.step()
            step += 1
            assert ck.step(step)
        ck.close()
        return [t.float() if t.dtype == torch.bfloat16 else t
                for t in tensors_of(model, optimizer)]
    twice(run)


class WideAdam(torch.optim.Optimizer):
    """f32 weights and moments of bf16 parameters, and a count that is a tensor without dimensions."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.05, "betas": (0.9, 0.99)})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                state, gradient = self.state[p], p.grad.float()
                if not state:
                    state.update(step=torch.tensor(0.), master=p.float(), exp_avg=torch.zeros(p.shape),
                                 exp_avg_sq=torch.zeros(p.shape))
                state["step"] += 1
                state["exp_avg"].lerp_(gradient, 1 - group["betas"][0])
                state["exp_avg_sq"].lerp_(gradient.square(), 1 - group["betas"][1])
                state["master"].addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt() + 1e-8,
                                         value=-group["lr"] / (1 + float(state["step"])))
                p.copy_(state["master"])


def together():
    """All at once: Adam's counts and moments, f32 state of bf16 weights, a scaler that skips a step,
    a scheduler, a loader, and every generator.
    """
    def adam(p):
        return torch.optim.AdamW(p, lr=0.05, amsgrad=True)

    def fused(p):
        return torch.optim.AdamW(p, lr=0.05, fused=True)

    def run(start, last):
        seed(start)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.3), nn.Linear(4, 1)).to(run.type)
        optimizer = run.make(model.parameters())
        extra = {"scheduler": torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4], 0.5), "loader": Loader()}
        if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"):
            extra["scaler"] = torch.amp.GradScaler("cpu", init_scale=1024., growth_interval=2)
        ck = dlrover.bind(model, optimizer, extra)
        step = ck.restore()
        assert extra["loader"].at == step and ck.missing() == []
        assert not step or all(optimizer.state[p]["step"].dim() == 0 for p in model.parameters())
        while step < last:
            optimizer.zero_grad()
            data = torch.randn(4, 3) + random.random() + float(np.random.rand())
            loss = model(data.to(run.type)).float().square().mean()
            if "scaler" in extra:
                extra["scaler"].scale(loss * (float("inf") if step == 1 else 1)).backward()
                extra["scaler"].step(optimizer)
                extra["scaler"].update()
            else:
                loss.backward()
                optimizer.step()
            extra["scheduler"].step()
            step = extra["loader"].at = step + 1
            assert ck.step(step)
        ck.close()
        found = tensors_of(model, optimizer) + [b.detach().clone() for b in model.buffers()]
        return [t.float() if t.dtype == torch.bfloat16 else t for t in found] + [
            optimizer.param_groups[0]["lr"], random.random(), float(np.random.rand()), torch.rand(1).item(),
            extra["scaler"].state_dict() if "scaler" in extra else None]

    new = "fused" in adam([nn.Parameter(torch.zeros(1))]).defaults and hasattr(torch, "amp") and hasattr(
        torch.amp, "GradScaler")
    for run.make, run.type in [(adam, torch.float32), (WideAdam, torch.bfloat16)] + [(fused, torch.float32)] * new:
        shutil.rmtree(DIR, ignore_errors=True)
        twice(run)


def tied():
    """Weights used in two places are stored once, also when two parameters share memory."""
    ck = dlrover.bind(nn.ModuleList([nn.Linear(100, 100, bias=False)]))
    ck.step(1)
    ck.close()
    with dlrover.Checkpoint() as one:
        size = one.list()[0][2]
    shutil.rmtree(DIR)
    model = nn.ModuleList([nn.Linear(100, 100, bias=False) for _ in range(3)])
    model[1].weight = model[0].weight
    model[2].weight = nn.Parameter(model[0].weight.detach())
    ck = dlrover.bind(model)
    ck.step(1)
    ck.close()
    want = model[0].weight.detach().clone()
    with torch.no_grad():
        model[0].weight.zero_()
    ck = dlrover.bind(model)
    assert abs(ck._ck.list()[0][2] - size) < 40000, (ck._ck.list(), size)
    assert ck.restore() == 1
    assert torch.equal(model[2].weight, want)
    ck.close()


def moved():
    """A tensor in other memory is named, once, and saved from there."""
    model = nn.Linear(4, 4)
    ck = dlrover.bind(model)
    assert ck.step(1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for step in 2, 3:
            model.weight.data = model.weight.data * 2
            assert ck.step(step)
    assert len(said) == 1 and "'model.weight' is at another address" in str(said[0].message)
    want = model.weight.detach().clone()
    ck.close()
    model = nn.Linear(4, 4)
    ck = dlrover.bind(model)
    assert ck.restore() == 3
    assert torch.equal(model.weight, want)
    ck.close()


def grown():
    """Parameters that join later: the version before stays, then the whole is saved."""
    model = nn.ModuleList([nn.Linear(4, 4)])
    optimizer = torch.optim.Adam(model[0].parameters())

    def train():
        sum(layer(torch.ones(2, 4)).square().mean() for layer in model).backward()
        optimizer.step()

    ck = dlrover.bind(model, optimizer)
    train()
    assert ck.step(1)
    model.append(nn.Linear(4, 4))
    optimizer.add_param_group({"params": model[1].parameters(), "lr": 0.5})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train()
        assert ck.step(2)
    assert "the model has parameters" in str(said[0].message)
    want = [p.detach().clone() for p in model.parameters()]
    moments = optimizer.state[model[1].weight]["exp_avg"].clone()
    ck.close()
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    optimizer.state[model[1].weight]["exp_avg"].zero_()
    ck = dlrover.bind(model, optimizer)
    assert ck.restore() == 2
    assert all(map(torch.equal, want, model.parameters()))
    assert torch.equal(optimizer.state[model[1].weight]["exp_avg"], moments)
    ck.close()


def save_points():
    """Asked for, the next step is saved whatever is due; a wait ends when it is on the disk, when nothing can come,
    when the checkpoint is closed, and with Ctrl-C.
    """
    array = np.arange(4.0)
    ck = dlrover.Checkpoint(every=100)
    ck.add("array", array, "local")
    assert ck.wait_until_committed(1) is False  # nothing has begun
    for step in range(1, 8):
        asked = step in (3, 6)
        if asked:
            ck.save_now()
        assert ck.due(step) is (asked or step == 1)  # the first may always be
        assert ck.begin(step) is asked
        ck.fence()
        assert ck.wait_until_committed(step) is asked
    began = time.monotonic()
    assert ck.wait_until_committed(6) and not ck.wait_until_committed(7) and time.monotonic() - began < 60
    with dlrover.Checkpoint(os.path.join(DIR, "other"), every=1) as waits:
        large = np.ones(64 << 20, dtype="u1")
        waits.add("large", large, "local")
        waits.begin(1)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        try:  # the file may be there before the signal
            while True:
                waits.wait_until_committed(1)
        except KeyboardInterrupt:
            pass
    assert waits.wait_until_committed(1) is False  # it is closed
    waits.save_now()
    ck.close()


def fork():
    """A worker forked off saves nothing, leaves the parent's files alone and ends."""
    model = nn.Linear(4, 4)
    ck = dlrover.bind(model)
    assert ck.step(1)
    ck.fence()
    child = os.fork()
    if child == 0:
        failed = ck.step(2)
        ck.fence()
        ck.close()
        os._exit(int(failed))
    assert os.waitpid(child, 0)[1] == 0
    assert ck.step(2)
    ck.flush()
    assert ck.stats()["committed_step"] == 2
    child = os.fork()
    if child == 0:
        ck.checkpoint.save_now()
        try:
            ck.checkpoint.wait_until_committed(2)
        except dlrover.Error as error:
            os._exit(error.errno != errno.EBUSY)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, at):
            assert ck.step(100 + at) is False
            return at

    assert sum(int(x) for x in torch.utils.data.DataLoader(Numbers(), num_workers=2)) == 28
    assert ck.step(3)
    ck.close()


class Sharpness(torch.optim.SGD):
    """As SAM: the weights move before the closure, and back."""

    @torch.no_grad()
    def step(self, closure):
        for scale in 1, -1:
            for p in self.param_groups[0]["params"]:
                p.add_(p.grad, alpha=scale)
            with torch.enable_grad():
                loss = closure()
        super().step()
        return loss


class Derived(torch.optim.AdamW):
    """A step() of its own, which calls PyTorch's."""

    def step(self, closure=None):
        return super().step(closure)


class Wrapped:
    """As Accelerate's and Lightning's: it hands step() on."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self, closure):
        return self.optimizer.step(closure=closure)


def until_update():
    """The last save is waited for before anything changes, which is after a closure that PyTorch's optimizers call:
    forward and backward pass overlap with the copy. Before it where the closure or the optimizer may change something.
    """
    def frozen(model):
        model[0].weight.requires_grad_(False)

    def averaged(model):
        model.append(nn.Linear(2, 2))  # no optimizer has it

    late, early = ["closure", "wait"], ["wait", "closure"]
    adamw = torch.optim.AdamW
    for kind, change, call, want in (
            (adamw, None, "step", late), (torch.optim.SGD, None, "keyword", late), (adamw, None, "wrapped", late),
            (adamw, None, "scheduler", late), (adamw, None, "plain", ["wait"]),
            (adamw, None, "closed", ["closure"]), (adamw, frozen, "step", early), (adamw, averaged, "step", early),
            (Sharpness, None, "step", early + ["closure"]), (Derived, None, "step", early),
            (torch.optim.LBFGS, None, "step", early)):
        model, happened = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)), []
        optimizer = kind(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1) if call == "scheduler" else None
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        if change:
            change(model)

        def closure():
            happened.append("closure")
            optimizer.zero_grad()
            loss = model(torch.ones(1, 2)).square().mean()
            loss.backward()
            return loss

        def wait(_stream):
            if "wait" not in happened:
                assert all(map(torch.equal, was, model.parameters())), (kind, call, "changed before the save let go")
                happened.append("wait")

        ck = dlrover.bind(model, optimizer, **{"scheduler": scheduler} if scheduler else {})
        assert ck.step(1)
        ck.fence()
        ck._ck.fence = wait
        if call == "closed":
            ck.close()
        for _ in range(2):
            happened.clear()
            was = [p.detach().clone() for p in model.parameters()]
            {"keyword": lambda: optimizer.step(closure=closure), "wrapped": lambda: Wrapped(optimizer).step(closure),
             "plain": optimizer.step}.get(call, lambda: optimizer.step(closure))()
            assert happened[:len(want)] == want and (kind is torch.optim.LBFGS or happened == want), (kind, call, happened)
            assert not all(map(torch.equal, was, model.parameters()))
            for p in model.parameters():
                p.grad = torch.ones_like(p)
        ck.close()
        shutil.rmtree(DIR)


def names():
    """What wrappers put before names goes, unless two would become one; a long name is cut and stays one."""
    for given, want in ((["module.a", "module.b"], ["a", "b"]),
                        (["module.a", "b"], ["module.a", "b"]),
                        (["module._orig_mod.a", "module.b._fsdp_wrapped_module.c"], ["a", "b.c"]),
                        (["a._checkpoint_wrapped_module.b", "a.c"], ["a.b", "a.c"]),
                        (["_orig_mod.a", "a"], ["_orig_mod.a", "a"])):
        assert _names.unwrapped(given) == want, given
    assert _names.short("a" * 255) == "a" * 255
    cut = {_names.short("ä" * 200 + end) for end in ("", "a", "b")}
    assert len(cut) == 3 and max(len(one.encode()) for one in cut) <= 255

    def deep():
        model = nn.Linear(2, 2)
        for _ in range(150):
            model = nn.Sequential(model)
        return model, torch.optim.Adam(model.parameters())

    model, optimizer = deep()
    model(torch.ones(1, 2)).sum().backward()
    ck = dlrover.bind(model, optimizer)
    optimizer.step()
    assert ck.step(1)
    ck.close()
    other, state = deep()
    ck = dlrover.bind(other, state)
    assert ck.restore() == 1
    ck.close()
    equal(tensors_of(model, optimizer), tensors_of(other, state))


torch.set_num_threads(1)
for name in sys.argv[1:]:
    globals()[name]()
    shutil.rmtree(DIR, ignore_errors=True)
