#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trainers as people have them, a row each: python_trainers.py NAME… (all without one). Each trains undisturbed
without a checkpoint; then with one, to the half, and from there in new objects with other first values. All
that the trainer has must be the same then, bit for bit.
"""
import copy
import os
import pickle
import shutil
import sys
import types
import unittest.mock
import warnings

import numpy as np
import torch
from torch import nn

import dlrover

DIR = os.environ["DLROVER_CKPT_DIR"]
STEPS, HALF = 8, 4


def bits(value):
    """A value that can be compared with ==, down to the bits of tensors."""
    if torch.is_tensor(value):
        flat = value.detach().contiguous().reshape(-1)
        return str(value.dtype), tuple(value.shape), flat.view(torch.uint8).numpy().tobytes()
    if isinstance(value, dict):
        return {key: bits(one) for key, one in value.items() if not callable(one) or torch.is_tensor(one)}
    if isinstance(value, (list, tuple)):
        return [bits(one) for one in value]
    return value


def state_of(optimizer):
    """By parameters' positions; without the parameters' own addresses."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    at = {id(p): i for i, p in enumerate(params)}
    return [{at.get(id(key), key): bits(one) for key, one in optimizer.state.items()}, bits(params),
            [bits({k: v for k, v in group.items() if k != "params"}) for group in optimizer.param_groups]]


def net(kind=torch.float32):
    return nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Tanh(), nn.Linear(9, 2)).to(kind)


class Trainer:
    """A row of the table: what it says, made by setup(), trained by update()."""

    says = ()  # warnings that are to be expected

    def __init__(self, start):
        torch.manual_seed(start)
        self.model, self.kept = net(), {}
        self.setup()

    def setup(self):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)

    def bind(self):
        return dlrover.bind(self.model, self.optimizer, **self.kept)

    def loss(self):
        kind = next(self.model.parameters()).dtype
        return self.model(torch.randn(5, 6).to(kind)).float().square().mean()

    def update(self, step):
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()

    def optimizers(self):
        return [self.optimizer]

    def found(self):
        return [{name: bits(one) for name, one in (*self.model.named_parameters(), *self.model.named_buffers())},
                [state_of(one) for one in self.optimizers()], torch.get_rng_state().tolist()]


class Plain(Trainer):
    """AdamW, nothing else."""


class Late(Trainer):
    """A layer that has gradients from step 3 on: its optimizer state appears then, before it is loaded."""

    since = 3

    def update(self, step):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        if step < self.since:
            self.model[3].weight.grad = self.model[3].bias.grad = None
        self.optimizer.step()


class LaterStill(Late):
    """The same, after the step that is loaded."""

    since = 6


class MastersByHand(Trainer):
    """bf16 weights, f32 copies in the optimizer, the loop moves gradients and weights between them."""

    def setup(self):
        self.model.to(torch.bfloat16)
        self.masters = [p.detach().float().requires_grad_() for p in self.model.parameters()]
        self.optimizer = torch.optim.AdamW(self.masters, lr=0.003)

    def update(self, step):
        self.model.zero_grad()
        self.loss().backward()
        for master, p in zip(self.masters, self.model.parameters()):
            master.grad = p.grad.float()
        self.optimizer.step()
        with torch.no_grad():
            for master, p in zip(self.masters, self.model.parameters()):
                p.copy_(master)


class Scale:
    """A loss scale as Megatron's DynamicGradScaler keeps it: halved at an overflow, doubled after a while."""

    def __init__(self):
        self.scale, self.good = 1024., 0

    def update(self, overflow):
        self.good = 0 if overflow else self.good + 1
        self.scale *= 0.5 if overflow else 2. if self.good % 3 == 0 else 1.

    def state_dict(self):
        return {"scale": self.scale, "good": self.good}

    def load_state_dict(self, saved):
        self.scale, self.good = saved["scale"], saved["good"]


class Float16OptimizerWithFloat16Params:
    """Megatron-LM's: no torch.optim.Optimizer, the one inside has f32 copies of the f16 weights."""

    def __init__(self, optimizer, grad_scaler):
        self.optimizer, self.grad_scaler = optimizer, grad_scaler
        self.float16_groups, self.fp32_from_float16_groups = [], []
        for group in optimizer.param_groups:
            self.float16_groups.append(list(group["params"]))
            self.fp32_from_float16_groups.append([p.detach().clone().float().requires_grad_() for p in group["params"]])
            group["params"] = list(self.fp32_from_float16_groups[-1])

    param_groups = property(lambda self: self.optimizer.param_groups)
    state = property(lambda self: self.optimizer.state)

    def pairs(self):
        for halves, wholes in zip(self.float16_groups, self.fp32_from_float16_groups):
            yield from zip(halves, wholes)

    def step(self, overflow=False):
        for half, whole in self.pairs():
            whole.grad = half.grad.float() / self.grad_scaler.scale
        self.grad_scaler.update(overflow)
        if overflow:
            return False
        self.optimizer.step()
        for half, whole in self.pairs():
            half.data.copy_(whole.data)
        return True

    def state_dict(self):
        return {"optimizer": self.optimizer.state_dict(), "grad_scaler": self.grad_scaler.state_dict(),
                "fp32_from_fp16_params": self.fp32_from_float16_groups}

    def load_state_dict(self, saved):
        self.optimizer.load_state_dict(saved["optimizer"])
        self.grad_scaler.load_state_dict(saved["grad_scaler"])
        for here, there in zip(self.fp32_from_float16_groups, saved["fp32_from_fp16_params"]):
            for one, other in zip(here, there):
                one.data.copy_(other.data)


class Megatron(Trainer):
    """f32 copies and a loss scale in a wrapper; the first steps overflow."""

    def setup(self):
        self.model.to(torch.bfloat16)
        decay, rest = [self.model[0].weight, self.model[3].weight], [self.model[0].bias, self.model[3].bias]
        self.optimizer = Float16OptimizerWithFloat16Params(
            torch.optim.AdamW([{"params": decay}, {"params": rest, "weight_decay": 0.}], lr=0.003), Scale())

    def update(self, step):
        self.model.zero_grad()
        (self.loss() * self.optimizer.grad_scaler.scale).backward()
        self.optimizer.step(overflow=step in (0, 1, 6))

    def found(self):
        return super().found() + [self.optimizer.grad_scaler.state_dict()]


class ApexO2(Trainer):
    """As apex.amp.initialize(opt_level="O2") leaves them: the optimizer's own groups hold f32 copies, its step is
    another; amp's loss scale is an object of its own, whose state dict the program keeps.
    """

    def setup(self):
        self.model.half().float().to(torch.bfloat16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        stash = self.optimizer._amp_stash = types.SimpleNamespace(all_fp16_params=[], all_fp32_from_fp16_params=[])
        for group in self.optimizer.param_groups:
            for i, p in enumerate(group["params"]):
                master = p.detach().clone().float().requires_grad_()
                group["params"][i] = master
                stash.all_fp16_params.append(p)
                stash.all_fp32_from_fp16_params.append(master)
        plain = self.optimizer.step

        def step(_self, closure=None):
            for half, whole in zip(stash.all_fp16_params, stash.all_fp32_from_fp16_params):
                whole.grad = half.grad.float()
            plain()
            with torch.no_grad():
                for half, whole in zip(stash.all_fp16_params, stash.all_fp32_from_fp16_params):
                    half.copy_(whole)

        self.optimizer.step = types.MethodType(step, self.optimizer)
        self.kept["amp"] = Scale()

    def update(self, step):
        self.model.zero_grad()
        self.loss().backward()
        self.optimizer.step()
        self.kept["amp"].update(step == 3)

    def found(self):
        return super().found() + [self.kept["amp"].state_dict()]


class ZeroOptimizer:
    """As DeepSpeed's stages 1 and 2 with one rank: all weights in one flat bf16 buffer of which the parameters are
    views, its f32 partition steps. The loss scale is plain numbers in a state dict of the wrapper's own.
    """

    def __init__(self, optimizer, weights):
        self.optimizer = optimizer
        self.flat = torch.cat([p.detach().reshape(-1) for p in weights])
        at = 0
        for p in weights:
            p.data = self.flat[at:at + p.numel()].view_as(p)
            at += p.numel()
        self.weights = weights
        self.single_partition_of_fp32_groups = [self.flat.clone().float().requires_grad_()]
        optimizer.param_groups[0]["params"] = self.single_partition_of_fp32_groups
        self.cur_scale, self.cur_iter = 256., 0

    param_groups = property(lambda self: self.optimizer.param_groups)
    state = property(lambda self: self.optimizer.state)

    def step(self):
        partition, = self.single_partition_of_fp32_groups
        partition.grad = torch.cat([p.grad.reshape(-1) for p in self.weights]).float() / self.cur_scale
        self.optimizer.step()
        self.flat.copy_(partition.detach())
        self.cur_iter += 1
        self.cur_scale *= 2. if self.cur_iter % 3 == 0 else 1.

    def state_dict(self):
        return {"cur_scale": self.cur_scale, "cur_iter": self.cur_iter, "clip_grad": 0., "partition_count": [1],
                "base_optimizer_state": self.optimizer.state_dict(),
                "single_partition_of_fp32_groups": self.single_partition_of_fp32_groups}

    def load_state_dict(self, saved):
        self.cur_scale, self.cur_iter = saved["cur_scale"], saved["cur_iter"]
        self.optimizer.load_state_dict(saved["base_optimizer_state"])
        for here, there in zip(self.single_partition_of_fp32_groups, saved["single_partition_of_fp32_groups"]):
            here.data.copy_(there.data)


class DeepSpeed(Trainer):
    """Flat f32 partitions and a loss scale that is plain numbers of the wrapper."""

    def setup(self):
        self.model.to(torch.bfloat16)
        weights = list(self.model.parameters())
        self.optimizer = ZeroOptimizer(torch.optim.AdamW(weights, lr=0.003), weights)

    def update(self, step):
        for p in self.model.parameters():
            p.grad = None
        (self.loss() * self.optimizer.cur_scale).backward()
        self.optimizer.step()

    def found(self):
        return super().found() + [self.optimizer.cur_scale, self.optimizer.cur_iter]


class Average:
    """Exponential averages in a class of the program's own. room: more than a note is made for."""

    def __init__(self, model, room=0):
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.shadow["room"] = torch.rand(room + 1)
        self.updates = 0

    def update(self, model):
        self.updates += 1
        for name, p in model.named_parameters():
            self.shadow[name].lerp_(p.detach(), 0.1)
        self.shadow["room"] += 1

    def state_dict(self):
        return {"shadow": self.shadow, "updates": self.updates}

    def load_state_dict(self, saved):
        self.shadow, self.updates = saved["shadow"], saved["updates"]


class AverageObject(Trainer):
    """EMA weights in an object, small ones and one of 400 KB."""

    def setup(self):
        super().setup()
        self.kept["ema"] = Average(self.model, 100000)

    def update(self, step):
        super().update(step)
        self.kept["ema"].update(self.model)

    def found(self):
        return super().found() + [bits(self.kept["ema"].state_dict())]


class AverageModule(Trainer):
    """torch's AveragedModel, and a copy that the program averages itself."""

    def setup(self):
        super().setup()
        self.kept["ema"] = torch.optim.swa_utils.AveragedModel(self.model)
        self.kept["target"] = copy.deepcopy(self.model)

    def update(self, step):
        super().update(step)
        self.kept["ema"].update_parameters(self.model)
        with torch.no_grad():
            for old, new in zip(self.kept["target"].parameters(), self.model.parameters()):
                old.lerp_(new, 0.2)

    def found(self):
        return super().found() + [bits(one.state_dict()) for one in self.kept.values()]


class OneCycle(Trainer):
    """A schedule that moves learning rate and momentum in each step."""

    def setup(self):
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.kept["scheduler"] = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.5, 20)

    def update(self, step):
        super().update(step)
        self.kept["scheduler"].step()

    def found(self):
        return super().found() + [self.kept["scheduler"].last_epoch]


class SkippedFirst(Trainer):
    """A scaler that leaves out the first updates, so that the optimizer has no state at the first saves."""

    skipped = 3

    def setup(self):
        super().setup()
        self.kept["scaler"] = Scale()

    def update(self, step):
        self.optimizer.zero_grad()
        self.loss().backward()
        if step >= self.skipped:
            self.optimizer.step()
        self.kept["scaler"].update(step < self.skipped)

    def found(self):
        return super().found() + [self.kept["scaler"].state_dict()]


class SkippedBeyond(SkippedFirst):
    """The same beyond the step that is loaded: a version without any optimizer state."""

    skipped = 6


class SeveralInList(Trainer):
    """Two optimizers in a list, one of them without state."""

    def setup(self):
        self.optimizer = [torch.optim.Adam(self.model[0].parameters(), 0.01), torch.optim.SGD(self.model[3].parameters(), 0.1)]

    def update(self, step):
        self.model.zero_grad()
        self.loss().backward()
        for one in self.optimizers():
            one.step()

    def optimizers(self):
        return self.optimizer


class SeveralInDict(SeveralInList):
    """Two optimizers in a dict that share a parameter, by turns."""

    def setup(self):
        self.optimizer = {"muon": torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9),
                          "adam": torch.optim.Adam([self.model[0].weight], 0.01, amsgrad=True)}

    def optimizers(self):
        return list(self.optimizer.values())


class Adversary(SeveralInList):
    """Two models and two optimizers, of which bind() is given the second ones by keyword."""

    def setup(self):
        self.other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), 0.01)
        self.second = torch.optim.RMSprop(self.other.parameters(), 0.01, momentum=0.5)
        self.kept = {"discriminator": self.other, "optimizer_d": self.second}

    def loss(self):
        return self.other(self.model(torch.randn(5, 6))).square().mean()

    def update(self, step):
        self.other.zero_grad()
        super().update(step)

    def optimizers(self):
        return [self.optimizer, self.second]

    def found(self):
        return super().found() + [bits(self.other.state_dict())]


class Position(Trainer):
    """The place in an order of the data that was shuffled once."""

    at = 0

    def setup(self):
        super().setup()
        self.order = torch.randperm(20000)
        self.kept["sampler"] = self

    def state_dict(self):
        return {"order": self.order, "at": self.at}

    def load_state_dict(self, saved):
        self.order, self.at = saved["order"], saved["at"]

    def loss(self):
        self.at += 1
        return super().loss() * (1 + self.order[self.at] / 20000)

    def found(self):
        return super().found() + [self.at]


class Grows(Trainer):
    """A history that outgrows, several times over, what it took when it was first saved."""

    def setup(self):
        super().setup()
        self.history = []

    def bind(self):
        return dlrover.bind(self.model, self.optimizer, extra=self.keep)

    def keep(self, *saved):
        if saved:
            self.history = saved[0]
        return list(self.history)

    def update(self, step):
        super().update(step)
        self.history.append("x" * (100 << 2 * step))

    def found(self):
        return super().found() + [self.history]


class Unfrozen(Trainer):
    """A layer that is frozen until step 5, and buffers that no state dict has."""

    def setup(self):
        self.model.register_buffer("hidden", torch.rand(3), persistent=False)
        self.model[0].requires_grad_(False)
        super().setup()

    def update(self, step):
        self.model[0].requires_grad_(step >= 5)
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        self.optimizer.step()
        self.model.hidden.mul_(1.5)


class Strided(Trainer):
    """Weights and buffers that are no block of memory in C order."""

    def setup(self):
        self.model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 2)).to(memory_format=torch.channels_last)
        self.model[2].weight = nn.Parameter(torch.rand(16, 2).t())
        self.model.register_buffer("kernel", torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last))
        self.model.register_buffer("part", torch.rand(4, 8)[:, 2:5].t(), persistent=False)
        super().setup()

    def loss(self):
        self.model.kernel.mul_(1.1)
        self.model.part.add_(1)
        return self.model(torch.randn(2, 3, 4, 4)).square().mean()


class Pieces(Trainer):
    """Weights that are complex, empty, of one byte, or views of memory that they share."""

    def setup(self):
        self.model, flat = nn.Module(), torch.rand(12)
        for name, one in (("waves", torch.randn(3, dtype=torch.complex64)), ("none", torch.zeros(0, 4)),
                          ("low", flat[:8]), ("high", flat[4:]), ("scalar", torch.rand(()))):
            self.model.register_parameter(name, nn.Parameter(one))
        self.model.table = nn.Parameter(torch.randint(-9, 9, (5,), dtype=torch.int8), requires_grad=False)
        self.model.register_buffer("empty", torch.zeros(3, 0))
        super().setup()

    def loss(self):
        self.model.table.add_(1)
        model = self.model
        return (model.waves.abs().sum() * model.scalar + (model.low.sum() - model.high.square().sum()) * torch.rand(())
                + model.none.sum())


class Parts(Trainer):
    """Gradients of several parts of a batch for each update."""

    def update(self, step):
        self.optimizer.zero_grad()
        for _ in range(3):
            (self.loss() / 3).backward()
        self.optimizer.step()


class Reloaded(Trainer):
    """State dicts that are loaded by the program after bind(), in the middle of the training too."""

    def update(self, step):
        if step in (1, 5):
            self.optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
            self.model.load_state_dict(copy.deepcopy(self.model.state_dict()))
        super().update(step)


class Adapted(Trainer):
    """Low-rank adapters beside a frozen base that is tied."""

    def setup(self):
        self.base = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)).requires_grad_(False)
        self.base[2].weight = self.base[0].weight
        self.model = nn.ModuleDict({"base": self.base, "a": nn.Linear(6, 2), "b": nn.Linear(2, 6)})
        self.optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], 0.01)

    def loss(self):
        data = torch.randn(5, 6)
        return (self.base(data) + self.model["b"](self.model["a"](data))).square().mean()


class CompiledUpdate(Trainer):
    """An update that is compiled, where PyTorch can."""

    def setup(self):
        super().setup()
        self.advance = lambda: self.optimizer.step()  # pylint: disable=unnecessary-lambda
        if hasattr(torch, "compile"):
            self.advance = torch.compile(self.advance, backend="eager")

    def update(self, step):
        self.optimizer.zero_grad()
        self.loss().backward()
        self.advance()


class Joins(Trainer):
    """A group of parameters that joins at step 2; the program adds it before it goes on, too."""

    says = ("the optimizer has parameters",)

    def setup(self):
        self.optimizer = torch.optim.AdamW(self.model[0].parameters(), lr=0.01)
        self.joined = False

    def bind(self):
        with dlrover.Checkpoint() as ck:
            if ck.list(1) and ck.list(1)[0][1] > 2:
                self.join()
        return super().bind()

    def join(self):
        self.optimizer.add_param_group({"params": self.model[3].parameters(), "lr": 0.5})
        self.joined = True

    def update(self, step):
        if step == 2:
            self.join()
        super().update(step)


class Counting(torch.optim.Optimizer):
    """Counters in param_groups (FusedAdam, Prodigy, schedule-free), state that is numbers, None and lists, and
    some that is of no parameter.
    """

    def __init__(self, parameters, lr=0.05):
        super().__init__(parameters, {"lr": lr, "step": 0, "k": 0, "d": 1e-6, "lr_max": torch.tensor(0.)})

    @torch.no_grad()
    def step(self, closure=None):
        self.state["calls"] = self.state.get("calls", 0) + 1
        for group in self.param_groups:
            group["step"] += 1
            group["k"] += 1
            group["d"] *= 1.1
            group["lr_max"] += 1
            for i, p in enumerate(group["params"]):
                state = self.state[p]
                state.setdefault("z", p.clone())
                state["n"] = state.get("n", 0) + 1
                state["last"] = None if group["k"] % 2 else state["n"]
                state["few"] = state.get("few", [])[-2:] + [torch.tensor(float(i))]
                if group["k"] > 5:
                    state.setdefault("late", torch.zeros_like(p)).add_(p)
                state["z"].sub_(group["lr"] / group["k"] * p.grad)
                p.lerp_(state["z"], 0.5 + 1 / (10 + state["n"]))


class Counters(Trainer):
    """Counters and numbers beside an optimizer's tensors."""

    def setup(self):
        self.optimizer = Counting(self.model.parameters())


class Quasi(Trainer):
    """LBFGS: lists of tensors at one parameter, more and other ones in each step, and a step that takes a function."""

    says = ("'.*' is at another address",)

    def setup(self):
        self.optimizer = torch.optim.LBFGS(self.model.parameters(), 0.1, max_iter=3)

    def update(self, step):
        data = torch.randn(5, 6)

        def closure():
            self.optimizer.zero_grad()
            loss = self.model(data).square().mean()
            loss.backward()
            return loss

        self.optimizer.step(closure)


class Early(Trainer):
    """Adagrad, which makes its state when it is made."""

    def setup(self):
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), 0.1)


class Rate(Trainer):
    """A learning rate that is a tensor, and which others know."""

    def setup(self):
        super().setup()
        self.rate = self.optimizer.param_groups[0]["lr"] = torch.tensor(0.01)

    def update(self, step):
        super().update(step)
        self.rate.mul_(0.9)


class Tied(Trainer):
    """One weight at two places."""

    def setup(self):
        self.model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
        self.model[2].weight = self.model[0].weight
        super().setup()


class AcceleratedOptimizer(torch.optim.Optimizer):
    """Accelerate's: an Optimizer by name that never was made as one, with the scaler beside it."""

    def __init__(self, optimizer, scaler=None):
        self.optimizer, self.scaler, self.step_was_skipped = optimizer, scaler, False

    state = property(lambda self: self.optimizer.state)
    param_groups = property(lambda self: self.optimizer.param_groups)
    defaults = property(lambda self: self.optimizer.defaults)

    def zero_grad(self, set_to_none=None):
        self.optimizer.zero_grad()

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, saved):
        self.optimizer.load_state_dict(saved)

    def step(self, closure=None):
        self.optimizer.step(closure)
        self.scaler.update(False)


class Accelerated(Trainer):
    """A wrapper around the optimizer, with a scaler that nobody gave to bind()."""

    def setup(self):
        super().setup()
        self.optimizer = AcceleratedOptimizer(self.optimizer, Scale())

    def found(self):
        return super().found() + [self.optimizer.scaler.state_dict()]


class Compiled(Trainer):
    """Wrapped by torch.compile in the first half, by something like DDP in the second."""

    def setup(self):
        super().setup()
        self.inner = self.model

    def bind(self):
        known = os.path.exists(DIR) and os.listdir(DIR)
        if known:
            self.model = nn.ModuleDict({"module": self.model})
        elif hasattr(torch, "compile"):
            self.model = torch.compile(self.model, backend="eager")
        bound = super().bind()
        self.model = self.inner
        return bound


class Scaled(nn.Linear):
    """State beside the tensors, as Transformer Engine keeps its scales."""

    seen = 1.

    def forward(self, data):
        self.seen = 0.9 * self.seen + float(data.detach().abs().max())
        return super().forward(data) * self.seen

    def get_extra_state(self):
        return {"seen": self.seen, "large": torch.full((20000,), self.seen)}

    def set_extra_state(self, saved):
        self.seen = saved["seen"]


class ExtraState(Compiled):
    """A module that keeps state which is no tensor of it, wrapped in the second half."""

    def setup(self):
        self.model = nn.Sequential(nn.Linear(6, 9), nn.Sequential(Scaled(9, 2)))
        super().setup()

    def found(self):
        return super().found() + [self.model[1][0].seen]


class Stranger:
    """Steps, and shows nothing of what it keeps."""

    def step(self):
        pass


class LossScaler:
    """DeepSpeed's, which is no more than its attributes."""

    cur_scale = 1.


class KeepsObject(ZeroOptimizer):
    def state_dict(self):
        return {**super().state_dict(), "loss_scaler": LossScaler()}


def refusals():
    """What would be lost is refused in bind(), before the first step, in a line that says what and what to do."""
    def made(optimizer=None, **kept):
        model = net()
        dlrover.bind(model, optimizer(model) if optimizer else None, **kept)

    def zero3(model):
        model[0].weight.ds_tensor = None
        return None

    def emptied():
        one = torch.zeros(3)
        (one.untyped_storage() if hasattr(one, "untyped_storage") else one.storage()).resize_(0)
        return one

    def of_another(model):
        one = torch.optim.SGD(model.parameters(), 0.1)
        one.state[torch.zeros(3)]["momentum_buffer"] = torch.zeros(3)
        return one

    def with_object(model):
        weights = [p.detach().bfloat16().requires_grad_() for p in model.parameters()]
        return KeepsObject(torch.optim.AdamW(weights), weights)

    def wide(table):
        one = nn.Linear(2, 2)
        one.register_buffer("table", table)
        return one

    outside = nn.Linear(2, 2)

    def both(model):
        model.ema = nn.Linear(2, 2)
        return torch.optim.SGD([*model.parameters(), *outside.parameters()], 0.1)

    for make, said in (
            (lambda: made(lambda m: Stranger()), "optimizer is a Stranger, which has neither state and param_groups"),
            (lambda: made(lambda m: [torch.optim.SGD(m.parameters(), 0.1), Stranger()]), "optimizer.1 is a Stranger"),
            (lambda: dlrover.bind(nn.Linear(2, 2, device="meta")), "'model.weight' is on the meta device"),
            (lambda: dlrover.bind(nn.LazyLinear(2)), "'model.weight' has no shape yet: run the model once"),
            (lambda: made(of_another), "optimizer keeps state of a tensor of shape (3,) that is in none of its param_groups"),
            (lambda: made(with_object), "the state of 'optimizer.rest'[('loss_scaler',)] is a __main__.LossScaler"),
            (lambda: made(sampler=range(3)), "'sampler' is neither an option (directory, rank,"),
            (lambda: made(evry=3), "'evry' is neither an option"),
            (lambda: made(buffer=Scale()), "'buffer' cannot be a name"),
            (lambda: made(extra={"loader": [1]}), "extra['loader'] is a list, which has no state_dict()"),
            (lambda: made(wide=wide(torch.zeros(1, 3).expand(4, 3))), "'wide.table' is an expanded tensor"),
            (lambda: made(wide=wide(torch.eye(2).to_sparse())), "'wide.table' is a tensor of the layout torch.sparse_coo"),
            (lambda: made(wide=wide(emptied())), "'wide.table' is a Tensor without memory of its own"),
            (lambda: made(zero3), "'model.0.weight' is cut by DeepSpeed's ZeRO-3"),
            (lambda: made(wide=wide(torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8))), "is quantised"),
            (lambda: made(both, ema=outside), "has two parameters that are called 'ema.weight'")):
        try:
            make()
        except ValueError as error:
            assert said in str(error), error
            continue
        raise SystemExit(f"taken: {said}")


def warned():
    """A scheduler that was not given is told at the first step; one that was is not."""
    for given in False, True:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            ck = dlrover.bind(model, optimizer, **{"scheduler": scheduler} if given else {})
            assert ck.step(1)
            ck.close()
        assert ["a scheduler drives" in str(one.message) for one in said] == [True] * (not given), said
        shutil.rmtree(DIR)


def overlooked():
    """An optimizer that bind() was not given is told when it steps, once; not one that is of other weights, or that is
    kept in another way.
    """
    if not hasattr(torch, "compile"):
        return  # before PyTorch 2
    for given, late, told in ((None, None, 1), ("optimizer", None, 0), ("extra", None, 0), ("function", None, 0),
                              ("optimizer", "model", 1), ("optimizer", "other", 0)):
        model, other = net(), net()
        optimizer = torch.optim.AdamW(model.parameters())
        kept = {None: {}, "optimizer": {"optimizer": optimizer}, "extra": {"extra": {"one": optimizer}},
                "function": {"extra": lambda *saved: optimizer.load_state_dict(*saved) if saved else optimizer.state_dict()}}
        ck = dlrover.bind(model, **kept[given])
        second = torch.optim.SGD({"model": model, "other": other}[late].parameters(), 0.1) if late else optimizer
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(2):
                for p in (*model.parameters(), *other.parameters()):
                    p.grad = torch.ones_like(p)
                optimizer.step()
                second.step()
        ck.close()
        said = [str(one.message) for one in said]
        assert len(said) == told and all("updates '0.weight'" in one for one in said), (given, late, said)
        optimizer.step()
        shutil.rmtree(DIR, ignore_errors=True)


def disturbed():
    """An object that fails, a value that cannot be kept: one warning, a counter, and the training goes on."""
    class Moody(Scale):
        def state_dict(self):
            if 2 <= self.good < 5:
                raise RuntimeError("not now")
            return {"scale": print if self.good == 5 else object() if self.good == 6 else 1, "good": self.good}

    model, scale = net(), Moody()
    ck = dlrover.bind(model, scaler=scale)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        saved = []
        for step in range(1, 10):
            saved.append(ck.step(step))
            scale.good += 1
    assert saved == [True] * 2 + [False] * 3 + [True, False, True, True], saved
    assert ck.stats()["unsaved"] == 4 and ck.stats()["given_up"] == 0, ck.stats()
    assert len(said) == 2 and "not now" in str(said[0].message) and "cannot be kept" in str(said[1].message), said
    ck.close()


def untouched():
    """bind() and restore() call no step() of an optimizer and make no copy of the weights."""
    calls = []

    class Watched(torch.optim.AdamW):
        def step(self, closure=None):
            calls.append(1)
            return super().step(closure)

    for life in range(2):
        model = nn.Linear(300, 300)
        optimizer = Watched(model.parameters())
        ck = dlrover.bind(model, optimizer)
        where = [p.data_ptr() for p in model.parameters()]
        assert ck.restore() == life and not calls
        assert len(optimizer.state) == 2 * life and where == [p.data_ptr() for p in model.parameters()]
        ck.step(life)
        if not life:
            model(torch.ones(1, 300)).sum().backward()
            optimizer.step()
            ck.fence()
            assert ck.step(1)
            calls.clear()
        ck.close()


class Functional(torch.optim.Optimizer):
    """Its state is another tensor after each step, and a table is of all its parameters."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})
        self.table = torch.arange(4.0)

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state["table"] = self.table
            state["momentum"] = state.get("momentum", 0) * 0.9 + p.grad
            p.sub_(state["momentum"], alpha=0.1)


def followed():
    """What is saved is what the training has: after a restore, after a failed one, where a state is emptied and made
    again, where a layer takes the place of one like it.
    """
    def life(last, kind=Functional, disturb=None, more=False, failed=False):
        model = net()
        model.more = nn.Linear(2, 2) if more else None
        optimizer = kind(model.parameters())
        ck = dlrover.bind(model, optimizer)
        try:
            step = ck.restore()
            assert not failed
        except dlrover.Error:
            assert failed
            step = 10
        while step < last:
            model.zero_grad()
            for p in model.parameters():
                p.grad = torch.randn(p.shape)
            optimizer.step()
            if step + 1 == last and disturb:
                disturb(model, optimizer)
            step += 1
            assert ck.step(step)
        ck.close()
        return state_of(optimizer), bits(model.state_dict())

    def emptied(model, optimizer):
        optimizer.state.clear()
        optimizer.step()

    def replaced(model, optimizer):
        model[3] = nn.Linear(9, 2)

    warnings.simplefilter("ignore")
    life(2)
    had = life(4)
    assert life(0) == had
    assert [key for key in had[0][0][0]] == ["table", "momentum"] == [key for key in had[0][0][3]], had[0][0]
    had = life(13, torch.optim.Adam, more=True, failed=True)
    assert life(0, torch.optim.Adam, more=True) == had
    for disturb in emptied, replaced:
        shutil.rmtree(DIR)
        had = life(3, torch.optim.Adam, disturb)
        if disturb is emptied:
            assert life(0, torch.optim.Adam) == had
        else:
            model = net()
            ck = dlrover.bind(model)
            ck.allow(leftover=True, missing=True)
            assert ck.restore() == 3 and bits(model.state_dict()) == had[1]
            ck.close()


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, data):
        return data


def moved_to_gpu():
    """Of a model that is moved after bind() the forward pass waits, on the stream that it works on; a copy of it, and
    its pickle, have nothing of the library's.
    """
    class Played(torch.Tensor):
        is_cuda = True

    for given in "model", "second":
        model = Counts()
        ck = dlrover.bind(model) if given == "model" else dlrover.bind(nn.Linear(1, 1), second=model)
        model.seen = torch.zeros(1).as_subclass(Played)
        streams = []
        ck._ck.fence = streams.append
        with unittest.mock.patch("torch.cuda.current_stream", lambda: types.SimpleNamespace(cuda_stream=5)):
            assert ck.step(1)
            streams.clear()
            assert model(7) == 7 and streams == [5], streams
            model.seen = torch.zeros(1)
            stored = pickle.dumps(model)
            assert b"dlrover" not in stored
            for other in pickle.loads(stored), copy.deepcopy(model):
                streams.clear()
                assert other(7) == 7 and not streams
        del ck._ck.fence
        ck.close()
        shutil.rmtree(DIR)


def interrupted():
    """Ctrl-C while a state is asked for is the program's; what it saves after it is whole."""
    class Halted(Scale):
        def state_dict(self):
            if self.good == 2:
                self.good = 3
                raise KeyboardInterrupt
            return super().state_dict()

    model, scale = net(), Halted()
    ck = dlrover.bind(model, scaler=scale)
    for step in 1, 2:
        scale.good = step
        try:
            assert ck.step(step)
        except KeyboardInterrupt:
            assert step == 2
    for p in model.parameters():
        p.data.add_(1)
    assert ck.step(np.int64(3)) and ck.stats()["unsaved"] == 0
    ck.close()
    other, scale = net(), Scale()
    ck = dlrover.bind(other, scaler=scale)
    assert ck.restore() == 3 and scale.good == 3 and bits(other.state_dict()) == bits(model.state_dict())
    ck.close()


CHECKS = (refusals, warned, overlooked, disturbed, untouched, followed, moved_to_gpu, interrupted)
ROWS = {name: one for name, one in globals().items() if isinstance(one, type) and issubclass(one, Trainer)
        and one is not Trainer}


def train(row, start, last, bound=True):
    trainer = row(start)
    ck = trainer.bind() if bound else None
    step = ck.restore() if ck else 0
    if start != 1:
        assert step == HALF, step
    while step < last:
        trainer.update(step)
        step += 1
        assert not ck or ck.step(step), step
    if ck:
        assert ck.stats()["unsaved"] == 0
        ck.close()
    return trainer.found()


def run(row):
    shutil.rmtree(DIR, ignore_errors=True)
    undisturbed = train(row, 1, STEPS, bound=False)
    assert train(row, 1, STEPS) == undisturbed, "saving changes the training"
    shutil.rmtree(DIR)
    train(row, 1, HALF)
    assert train(row, 99, STEPS) == undisturbed, "another training goes on"
    shutil.rmtree(DIR)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.filterwarnings("error", "dlrover")
    failed = []
    for chosen in sys.argv[1:] or ROWS:
        for said in ROWS[chosen].says:
            warnings.filterwarnings("ignore", f"dlrover: {said}")
        try:
            run(ROWS[chosen])
        except Exception as error:  # the next row may say more
            failed.append(f"{chosen}: {type(error).__name__}: {str(error)[:300]}")
    for one in CHECKS if not sys.argv[1:] else ():
        with warnings.catch_warnings():
            one()
        shutil.rmtree(DIR, ignore_errors=True)
    print("\n".join(failed))
    sys.exit(bool(failed))
