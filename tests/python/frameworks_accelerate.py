#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dlrover.accelerate() with the real Accelerate, on CPUs.

    frameworks_accelerate.py [NAME...]                    all trainings below, or those named; 'N passed'
    frameworks_accelerate.py --train --steps N --out FILE [--log FILE] [--pause S]
                                                          one training under srun or torchrun, for tests of a cluster

Each training of TRAININGS is run undisturbed; then elsewhere, killed by SIGKILL amid an epoch and begun again. All that
it has at the end must be the same then, bit for bit, and so must the batches and the losses on the way there.
"""
import argparse
import contextlib
import functools
import glob
import hashlib
import importlib.util
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
import unittest.mock
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
for unwanted in ("DLROVER_AGENT_SOCKET", "DLROVER_CKPT_DIR") if "--train" not in sys.argv else ():
    os.environ.pop(unwanted, None)

try:
    import accelerate
    import torch
    import torch._dynamo  # each fork would take four seconds for it
    from accelerate.utils import (DataLoaderConfiguration, DeepSpeedPlugin, DistributedDataParallelKwargs,
                                  DistributedType, FullyShardedDataParallelPlugin, ProjectConfiguration, set_seed)
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)
from torch import nn

import dlrover
import forks

SAMPLES, BATCH, EPOCHS = 44, 4, 3
LIMIT_S = 240  # of a run


class Rows(torch.utils.data.Dataset):
    """What each sample is comes from its number."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, at):
        x = torch.sin(torch.arange(1., 7.) * (at + 1))
        return torch.tensor(at), x, x[:2].sum().reshape(1)


class Noisy(Rows):
    """Each item is another each time, as crops of images are, or masked words."""

    def __getitem__(self, at):
        at, x, y = super().__getitem__(at)
        return at, x + torch.randn(6) + random.random(), y


class Stream(torch.utils.data.IterableDataset):
    """The same, in an order that is another in each epoch."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return SAMPLES

    def __iter__(self):
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        return iter([Rows()[at] for at in order])


class Count:
    """An object of a program's own, registered for checkpointing."""

    def __init__(self):
        self.updates = self.seen = 0

    def state_dict(self):
        return vars(self).copy()

    def load_state_dict(self, saved):
        vars(self).update(saved)


def net(width=12):
    return nn.Sequential(nn.Linear(6, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Dropout(0.2), nn.Linear(width, 1))


def bits(value):
    """Of a value, whatever it is made of."""
    digest = hashlib.sha256()

    def add(one):
        if isinstance(one, torch.Tensor):
            one = one.full_tensor() if hasattr(one, "full_tensor") else one
            digest.update(one.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(one, dict):
            for key in one:
                digest.update(str(key).encode())
                add(one[key])
        elif isinstance(one, (list, tuple)):
            for part in one:
                add(part)
        elif not callable(one):
            digest.update(repr(one).encode())

    add(value)
    return digest.hexdigest()


class Run:
    """A run of a training in a process of its own: where it is, what it logs, when it is killed."""

    def __init__(self, place, kill=None):
        self.place, self.kill = place, kill
        self.seen, self.saves, self.log = 0, 0, []

    def accelerator(self, **options):
        return dlrover.accelerate(accelerate.Accelerator(cpu=True, **options), directory=f"{self.place}/ours")

    def batch(self, accelerator, *what):
        """A batch was trained with; what is told of it. May be the end."""
        self.seen += 1
        self.log.append(" ".join(str(one.tolist() if torch.is_tensor(one) else one) for one in what))
        if self.seen == self.kill:
            if not accelerator.dlrover.wait_until_committed(self.saves, 60):
                sys.exit(f"step {self.saves} is not committed")
            accelerator.wait_for_everyone()
            os.kill(os.getpid(), signal.SIGKILL)

    def save(self, accelerator, named=True):
        self.saves = accelerator.dlrover.step + 1
        accelerator.save_state(f"{self.place}/own/{self.saves}" if named else None)

    def end(self, accelerator, *state):
        accelerator.end_training()
        return "\n".join(self.log), bits([*state, torch.get_rng_state()])


# --- trainings -------------------------------------------------------------------------------------


def training(model, lr=0.01):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n / 5))


def loader_of(dataset, **options):
    stream = isinstance(dataset, Stream)
    return torch.utils.data.DataLoader(dataset, BATCH, shuffle=not stream, **options)


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        for _, x, _ in loader:
            model(x)
    model.train()


def plain(run, accumulate=2, every=3, dataset=Rows, ranges=False, scaler=False, named=True, inner=False, loading=None,
          **data):
    """The loop of Accelerate's examples: accumulation, a scheduler, an evaluation after each epoch."""
    set_seed(7)
    project = ProjectConfiguration(f"{run.place}/own", automatic_checkpoint_naming=not named)
    accelerator = run.accelerator(gradient_accumulation_steps=accumulate, project_config=project,
                                  dataloader_config=DataLoaderConfiguration(**data))
    if scaler:
        accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=256., growth_interval=3)
    model, count = net(), Count()
    optimizer, scheduler = training(model)
    model, optimizer, loader, tests, scheduler = accelerator.prepare(
        model, optimizer, loader_of(dataset(), **loading or {}), loader_of(Rows()), scheduler)
    accelerator.register_for_checkpointing(count)
    for epoch in range(EPOCHS) if ranges else accelerator.dlrover.epochs(EPOCHS):
        for ids, x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(x), y)
                if scaler and count.seen in (3, 15):
                    loss = loss * float("inf")
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            count.seen += 1
            count.updates += accelerator.sync_gradients
            run.batch(accelerator, "" if ranges else epoch, ids, loss.item().hex(), scheduler.get_last_lr())
            if inner and count.seen % 4 == 0:
                evaluate(model, tests)
            if accelerator.sync_gradients and count.updates % every == 0:
                run.save(accelerator, named)
        evaluate(model, tests)
    return run.end(accelerator, accelerator.unwrap_model(model).state_dict(), optimizer.state_dict(),
                   scheduler.state_dict(), vars(count), scaler and accelerator.scaler.state_dict())


def networks(run):
    """A GAN's loop: two models, two optimizers, the second steps at every other batch; prepared one after the other."""
    set_seed(7)
    accelerator = run.accelerator()
    critic, maker = net(), nn.Sequential(nn.Linear(6, 9), nn.Dropout(0.1), nn.Linear(9, 6))
    first, plan = training(critic)
    critic, first, plan = accelerator.prepare(critic, first, plan)
    second = torch.optim.SGD(maker.parameters(), lr=0.01, momentum=0.9)
    maker, second, loader = accelerator.prepare(maker, second, loader_of(Rows()))
    count = Count()
    accelerator.register_for_checkpointing(count)
    for epoch in accelerator.dlrover.epochs(EPOCHS):
        for ids, x, y in loader:
            loss = nn.functional.mse_loss(critic(x), y) - critic(maker(torch.randn(len(x), 6)).detach()).mean()
            accelerator.backward(loss)
            first.step()
            plan.step()
            first.zero_grad()
            count.seen += 1
            if count.seen % 2:
                accelerator.backward(critic(maker(torch.randn(len(x), 6))).mean())
                second.step()
                second.zero_grad()
                first.zero_grad()
            run.batch(accelerator, epoch, ids, loss.item().hex())
            if run.seen % 5 == 0:
                run.save(accelerator)
    return run.end(accelerator, critic.state_dict(), maker.state_dict(), first.state_dict(), second.state_dict(),
                   plan.state_dict())


def two_loaders(run):
    """Labelled and unlabelled data at once."""
    set_seed(7)
    accelerator = run.accelerator()
    model = net()
    optimizer, plan = training(model)
    model, optimizer, plan, one, other = accelerator.prepare(model, optimizer, plan, loader_of(Rows()),
                                                             loader_of(Rows()))
    for epoch in accelerator.dlrover.epochs(EPOCHS):
        for (ids, x, y), (more, z, _) in zip(one, other):
            loss = nn.functional.mse_loss(model(x), y) + model(z).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            plan.step()
            optimizer.zero_grad()
            run.batch(accelerator, epoch, ids, more, loss.item().hex())
            if run.seen % 5 == 0:
                run.save(accelerator)
    return run.end(accelerator, model.state_dict(), optimizer.state_dict(), plan.state_dict())


def steps(run):
    """A loop that counts steps, over a loader that never ends, left amid an epoch."""
    set_seed(7)
    accelerator = run.accelerator()
    model = net()
    optimizer, plan = training(model)
    model, optimizer, plan, loader = accelerator.prepare(model, optimizer, plan, loader_of(Rows()))
    done = accelerator.dlrover.step
    while done < 30:
        for ids, x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            plan.step()
            optimizer.zero_grad()
            done += 1
            run.batch(accelerator, done, ids, loss.item().hex())
            if done % 5 == 0:
                run.save(accelerator)
            if done == 30:
                break
    return run.end(accelerator, model.state_dict(), optimizer.state_dict(), plan.state_dict())


def no_loader(run):
    """Data that is drawn in the loop."""
    set_seed(7)
    accelerator = run.accelerator()
    model = net()
    optimizer, plan = training(model)
    model, optimizer, plan = accelerator.prepare(model, optimizer, plan)
    for step in range(accelerator.dlrover.step, 30):
        x = torch.randn(BATCH, 6)
        loss = model(x).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        plan.step()
        optimizer.zero_grad()
        accelerator.dlrover.step_done()
        run.batch(accelerator, step, x, loss.item().hex())
        if step % 5 == 0:
            accelerator.save_state(f"{run.place}/own/{step}")
            run.saves = accelerator.dlrover.step
    return run.end(accelerator, model.state_dict(), optimizer.state_dict(), plan.state_dict())


def accumulates(run):
    """The same in batches of two, with accumulate()."""
    set_seed(7)
    accelerator = run.accelerator(gradient_accumulation_steps=2)
    model = net()
    optimizer, plan = training(model)
    model, optimizer, plan = accelerator.prepare(model, optimizer, plan)
    for part in range(2 * accelerator.dlrover.step, 60):
        with accelerator.accumulate(model):
            x = torch.randn(BATCH, 6)
            loss = model(x).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            plan.step()
            optimizer.zero_grad()
        run.batch(accelerator, part, x, loss.item().hex())
        if part % 10 == 9:
            accelerator.save_state(f"{run.place}/own/{part}")
            run.saves = accelerator.dlrover.step
    return run.end(accelerator, model.state_dict(), optimizer.state_dict(), plan.state_dict())


def own_resume(run):
    """A script that has Accelerate's way to go on in it, and is always started with it."""
    set_seed(7)
    accelerator = run.accelerator()
    model = net()
    optimizer, plan = training(model)
    model, optimizer, plan, loader = accelerator.prepare(model, optimizer, plan, loader_of(Rows()))
    newest = max(map(int, os.listdir(f"{run.place}/own")), default=0) if os.path.isdir(f"{run.place}/own") else 0
    if newest:
        accelerator.load_state(f"{run.place}/own/{newest}")
    for epoch in accelerator.dlrover.epochs(EPOCHS):
        active = loader
        if newest:
            active, newest = accelerator.skip_first_batches(loader, newest % len(loader)), 0
        for ids, x, y in active:
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            plan.step()
            optimizer.zero_grad()
            run.batch(accelerator, epoch, ids, loss.item().hex())
            if run.seen % 5 == 0:
                run.save(accelerator)
    return run.end(accelerator, model.state_dict(), optimizer.state_dict(), plan.state_dict())


def sharded(run):
    """FSDP2: each rank has a part of every parameter. Accelerate takes it on GPUs only, which its state says here."""
    set_seed(7)
    accelerator = accelerate.Accelerator(cpu=True)
    accelerator.state.distributed_type = DistributedType.FSDP
    accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="no_wrap")
    accelerator = dlrover.accelerate(accelerator, directory=f"{run.place}/ours")
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Dropout(0.2), nn.Linear(12, 1))
    optimizer, plan = training(model)
    model, optimizer, plan, loader = accelerator.prepare(model, optimizer, plan, loader_of(Rows()))
    for epoch in accelerator.dlrover.epochs(EPOCHS):
        for ids, x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            plan.step()
            optimizer.zero_grad()
            run.batch(accelerator, epoch, ids, loss.item().hex())
            if run.seen % 4 == 0:
                accelerator.dlrover.save_now()
                run.saves = accelerator.dlrover.step + 1
    return run.end(accelerator, [p.full_tensor() for p in model.parameters()], plan.state_dict())


def deepspeed(run, stage):
    """DeepSpeed's plugin: the update is made by accelerator.backward()."""
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_SIZE="1", DS_ACCELERATOR="cpu")
    # gloo: its own kernel is compiled for minutes, and leaves 69 MB in /dev/shm where its process is killed
    importlib.import_module("deepspeed").ops.__compatible_ops__["deepspeed_shm_comm"] = False
    set_seed(7)
    plugin = DeepSpeedPlugin(zero_stage=stage, gradient_accumulation_steps=2)
    accelerator = dlrover.accelerate(accelerate.Accelerator(deepspeed_plugin=plugin), directory=f"{run.place}/ours")
    model, count = net(), Count()
    optimizer, plan = training(model)
    model, optimizer, plan, loader = accelerator.prepare(model, optimizer, plan, loader_of(Rows()))
    accelerator.register_for_checkpointing(count)
    for epoch in accelerator.dlrover.epochs(EPOCHS):
        for ids, x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                plan.step()
                optimizer.zero_grad()
            count.seen += 1
            run.batch(accelerator, epoch, ids, loss.item().hex(), plan.get_last_lr(), count.seen)
            if accelerator.sync_gradients and accelerator.dlrover.step % 3 == 2:
                accelerator.dlrover.save_now()
                run.saves = accelerator.dlrover.step + 1
    return run.end(accelerator, model.module.state_dict(), plan.state_dict())


# name: (training, options, ranks, batches before the kill)
P = functools.partial
TRAININGS = {
    "epoch": (plain, {}, 1, 20),
    "between_epochs": (plain, {}, 1, 13),
    "range": (plain, {"ranges": True}, 1, 20),
    "no_accumulation": (plain, {"accumulate": 1, "every": 4}, 1, 27),
    "seedable": (plain, {"use_seedable_sampler": True}, 1, 20),
    "noise": (plain, {"dataset": Noisy}, 1, 20),
    "noise_at_once": (plain, {"dataset": Noisy, "accumulate": 1, "every": 12}, 1, 20),
    "noise_at_the_end": (plain, {"dataset": Noisy, "accumulate": 1, "every": 7}, 1, 22),
    "workers": (plain, {"loading": {"num_workers": 2, "persistent_workers": True}}, 1, 20),
    "stream": (plain, {"dataset": Stream}, 1, 20),
    "scaler": (plain, {"scaler": True}, 1, 22),
    "evaluation": (plain, {"inner": True}, 1, 20),
    "naming": (plain, {"named": False}, 1, 24),
    "networks": (networks, {}, 1, 18),
    "two_loaders": (two_loaders, {}, 1, 18),
    "steps": (steps, {}, 1, 18),
    "no_loader": (no_loader, {}, 1, 18),
    "accumulates": (accumulates, {}, 1, 33),
    "stateful": (plain, {"use_stateful_dataloader": True}, 1, 20),
    "stateful_stream": (plain, {"use_stateful_dataloader": True, "dataset": Stream}, 1, 20),
    "deepspeed_0": (deepspeed, {"stage": 0}, 1, 20),
    "deepspeed_2": (deepspeed, {"stage": 2}, 1, 20),
    "deepspeed_3": (deepspeed, {"stage": 3}, 1, 20),
    "own_resume": (own_resume, {}, 1, 18),
    "ranks": (plain, {"every": 2}, 2, 10),
    "ranks_noise": (plain, {"every": 2, "dataset": Noisy}, 2, 10),
    "ranks_seedable": (plain, {"every": 2, "use_seedable_sampler": True}, 2, 10),
    "ranks_split": (plain, {"split_batches": True}, 2, 20),
    "ranks_uneven": (plain, {"every": 2, "even_batches": False, "loading": {"drop_last": True}}, 2, 9),
    "ranks_dispatch": (plain, {"every": 2, "dispatch_batches": True}, 2, 10),
    "ranks_stream": (plain, {"every": 2, "dataset": Stream, "dispatch_batches": False}, 2, 10),
    "ranks_stream_dispatch": (plain, {"every": 2, "dataset": Stream}, 2, 10),
    "ranks_stateful": (plain, {"every": 2, "use_stateful_dataloader": True}, 2, 10),
    "ranks_naming": (plain, {"every": 2, "named": False}, 2, 12),
    "ranks_networks": (networks, {}, 2, 9),
    "ranks_sharded": (sharded, {}, 2, 10),
}


# --- what is refused, or told -------------------------------------------------------------------------


def made(run, **options):
    """What most of these need: (accelerator, model, optimizer, loader), prepared."""
    set_seed(7)
    accelerator = run.accelerator(**options)
    model = net()
    return (accelerator, *accelerator.prepare(model, training(model)[0], loader_of(Rows())))


def update(accelerator, model, optimizer, batch):
    accelerator.backward(model(batch[1]).square().mean())
    optimizer.step()
    optimizer.zero_grad()


def all_of(accelerator, model, optimizer, loader):
    for batch in loader:
        update(accelerator, model, optimizer, batch)


def refused(function, *args):
    try:
        function(*args)
    except ValueError as error:
        return str(error)
    return "it was not refused"


def of_another_kind(_run):
    return refused(dlrover.accelerate, 3)


def given_twice(run):
    return refused(dlrover.accelerate, run.accelerator())


def not_prepared(run):
    return refused(list, run.accelerator().dlrover.epochs(3))


def no_model(run):
    accelerator = run.accelerator()
    accelerator.prepare(training(net())[0])
    return refused(accelerator.dlrover.epochs(3).__next__)


def two_adapters(run):
    everything = made(run)
    all_of(*everything)
    other = accelerate.Accelerator(cpu=True)
    dlrover.accelerate(other, directory=f"{run.place}/others")
    others = other.prepare(everything[1], torch.optim.SGD(everything[1].parameters(), lr=1.), loader_of(Rows()))
    return refused(all_of, other, *others)


def not_to_be_kept(run):
    everything = made(run)
    count = Count()
    count.updates = object()
    everything[0].register_for_checkpointing(count)
    return refused(all_of, *everything)


def nothing_asked(run):
    accelerator, model, optimizer, _ = made(run)
    return refused(update, accelerator, model, optimizer, [None, torch.ones(4, 6)])


def of_kind(kind, _run):
    with unittest.mock.patch.object(accelerate.Accelerator, "distributed_type", getattr(DistributedType, kind)):
        return refused(dlrover.accelerate, accelerate.Accelerator(cpu=True))


def local_sgd(run):
    everything = made(run)
    with everything[0].no_sync(everything[1]):
        return refused(all_of, *everything)


def warned(function, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args)
    return [str(one.message) for one in caught if "dlrover" in str(one.message)]


def prepared_late(run):
    everything = made(run)

    def late():
        for at, batch in enumerate(everything[3]):
            if at == 3:
                everything[0].register_for_checkpointing(Count())
            update(*everything[:3], batch)

    return warned(late)


def no_end_of_a_step(run):
    accelerator, model, optimizer, _ = made(run)
    assert accelerator.dlrover.step == 0
    return warned(lambda: [update(accelerator, model, optimizer, [None, torch.ones(4, 6)]) for _ in range(3)])


def counts_with_range(run):
    everything = made(run)
    return warned(lambda: [all_of(*everything) for _ in range(3)])


def no_optimizer(run):
    accelerator = run.accelerator()
    model, loader = accelerator.prepare(net(), loader_of(Rows()))
    return warned(lambda: [accelerator.backward(model(x).sum()) for _, x, _ in loader])


def another_training(run):
    """Memory is freed before the first training, which tells nothing, and after it."""
    accelerator = run.accelerator()
    told = warned(accelerator.free_memory)
    model = net()
    parts = accelerator.prepare(model, training(model)[0], loader_of(Rows()))
    all_of(accelerator, *parts)
    told += warned(accelerator.free_memory)
    return told + [str(hasattr(accelerator, "dlrover")), str(accelerator.save_state.__self__ is accelerator)]


SAYS = {
    "of_another_kind": (of_another_kind, 1, "this is a int: give an accelerate.Accelerator"),
    "given_twice": (given_twice, 1, "this accelerator was given before: once is enough"),
    "not_prepared": (not_prepared, 1, "epochs() was asked before an optimizer was prepared: prepare() first"),
    "no_model": (no_model, 1, "an optimizer is prepared and no model: prepare() the model, too"),
    "two_adapters": (two_adapters, 1, "this model is saved by dlrover.accelerate already: leave one of them out, or "
                     "close() it"),
    "not_to_be_kept": (not_to_be_kept, 1, "the state of 'custom_0'['updates'] is a builtins.object, which cannot be "
                       "kept: numbers, text, bytes, tensors, arrays and lists, tuples, sets and dicts of them can"),
    "nothing_asked": (nothing_asked, 1, "the loop has neither a prepared dataloader nor accumulate(): ask "
                      "accelerator.dlrover.step before it, and call accelerator.dlrover.step_done() in it"),
    "fsdp_1": (functools.partial(of_kind, "FSDP"), 1, "FSDP of version 1 has flat parameters, which are not known: "
               "take FullyShardedDataParallelPlugin(fsdp_version=2)"),
    "megatron": (functools.partial(of_kind, "MEGATRON_LM"), 1, "distributed_type MEGATRON_LM is not known: use "
                 "dlrover.megatron"),
    "local_sgd": (local_sgd, 2, "the ranks' weights may differ in this loop (LocalSGD, no_sync), they are saved as the "
                  "same: leave that out"),
    "prepared_late": (prepared_late, 1, ["what was prepared or registered after the training began is not saved"]),
    "no_end_of_a_step": (no_end_of_a_step, 1, ["nothing is saved, since nothing says where a step ends: the loop has "
                         "no prepared dataloader and no accumulate(): call accelerator.dlrover.step_done() after "
                         "each step"]),
    "counts_with_range": (counts_with_range, 1, ["after a restart a loop over range() runs epochs that are done "
                          "again, without batches: write `for epoch in accelerator.dlrover.epochs(n)`"]),
    "no_optimizer": (no_optimizer, 1, ["no optimizer is prepared: nothing is saved"]),
    "another_training": (another_training, 1, ["free_memory() ends the training at step 11: for another call "
                         "dlrover.accelerate() again, with another directory", "False", "True"]),
}


# --- running them ------------------------------------------------------------------------------------


def free_port():
    """One that no connection from this machine gets by itself meanwhile."""
    while True:
        with socket.socket() as one, contextlib.suppress(OSError):
            port = random.SystemRandom().randrange(15000, 30000)
            one.bind(("", port))
            return port


def child(function, rank, ranks, port, out):
    """In a new process: what function gives goes to the file out, or what it raises."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    if ranks == 1:
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            os.environ.pop(name)
    said = os.open(f"{out}.said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(said, 1)
    os.dup2(said, 2)
    # A fork makes torch leave its pool of threads: without a new one autograd's thread and this one race for it.
    torch.set_num_threads(1)
    code = 1
    try:
        torch.save(function(), out)
        code = 0
    except BaseException:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def code_of(pid):
    """Its exit status; it is killed after LIMIT_S."""
    code = forks.code_of(pid, LIMIT_S)
    if code is None:
        os.kill(pid, signal.SIGABRT)
        code = forks.code_of(pid, LIMIT_S)
    return code


def in_processes(function, ranks, directory):
    """What function gives in each rank; None where they were killed. Raises what one of them said when it failed."""
    os.makedirs(directory, exist_ok=True)
    outs, port = [f"{directory}/rank{rank}" for rank in range(ranks)], free_port()
    pids = []
    for rank, out in enumerate(outs):
        pids.append(os.fork())
        if not pids[-1]:
            child(function, rank, ranks, port, out)
    codes = [code_of(pid) for pid in pids]
    if all(code == -signal.SIGKILL for code in codes):
        return None
    for out, code in zip(outs, codes):
        if code:
            with open(f"{out}.said", encoding="utf-8") as file:
                raise AssertionError(f"exit {code}: {file.read()}")
    return [torch.load(out) for out in outs]


def check(name, directory):
    """A training of TRAININGS: undisturbed, killed, begun again."""
    function, options, ranks, kill = TRAININGS[name]
    needs = {"use_stateful_dataloader": "torchdata", "stage": "deepspeed"}
    lacks = [module for option, module in needs.items() if option in options and not importlib.util.find_spec(module)]
    if lacks:
        raise unittest.SkipTest(f"no {lacks[0]}")
    calm = in_processes(lambda: function(Run(f"{directory}/calm"), **options), ranks, f"{directory}/1")
    killed = in_processes(lambda: function(Run(f"{directory}/killed", kill), **options), ranks, f"{directory}/2")
    assert killed is None, "it was not killed"
    if ranks > 1 and function is not sharded:
        with open(glob.glob(f"{directory}/killed/ours/r*-*.safetensors")[0], "rb") as file:
            assert b'"dlrover.region.model.0.weight":"replicated' in file.read(1 << 16), "it is not saved as replicated"
    again = in_processes(lambda: function(Run(f"{directory}/killed"), **options), ranks, f"{directory}/3")
    for rank, ((all_lines, weights), (lines, result)) in enumerate(zip(calm, again)):
        all_lines, lines = all_lines.split("\n"), lines.split("\n")
        passed = len(all_lines) - len(lines)
        assert 0 < passed < kill, f"it began again after {passed} batches"
        for at, (one, other) in enumerate(zip(all_lines[-len(lines):], lines)):
            assert one == other, f"rank {rank}, {at} batches after the restart: {other}\nundisturbed: {one}"
        assert weights == result, f"rank {rank}: the state at the end is another"


# --- beside Accelerate's own ------------------------------------------------------------------------


def by_itself(run, epochs_set=False, **data):
    """plain() without dlrover, as Accelerate's example of checkpoints goes on."""
    set_seed(7)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2,
                                         dataloader_config=DataLoaderConfiguration(**data))
    model = net()
    optimizer, plan = training(model)
    model, optimizer, loader, plan = accelerator.prepare(model, optimizer, loader_of(Rows()), plan)
    newest = max(map(int, os.listdir(f"{run.place}/own")), default=0) if os.path.isdir(f"{run.place}/own") else 0
    if newest:
        accelerator.load_state(f"{run.place}/own/{newest}")
    seen = newest
    for epoch in range(newest // len(loader), EPOCHS):
        if epochs_set:
            loader.set_epoch(epoch)
        active = accelerator.skip_first_batches(loader, seen % len(loader)) if seen % len(loader) else loader
        for ids, x, y in active:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                plan.step()
                optimizer.zero_grad()
            seen += 1
            run.log.append(f"{epoch} {ids.tolist()} {loss.item().hex()}")
            if seen == run.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            if accelerator.sync_gradients and seen % 3 == 0:
                accelerator.save_state(f"{run.place}/own/{seen}")
    return run.log


def compare(directory):
    for name, options, ranks in (
            ("as it is", {}, 1), ("use_seedable_sampler", {"use_seedable_sampler": True}, 1),
            ("use_seedable_sampler and set_epoch()", {"use_seedable_sampler": True, "epochs_set": True}, 1),
            ("as it is, 2 ranks", {}, 2)):
        place, kill = f"{directory}/own{ranks}{len(options)}", 8 if ranks == 2 else 20
        calm = in_processes(lambda: by_itself(Run(f"{place}/calm"), **options), ranks, f"{place}/1")
        in_processes(lambda: by_itself(Run(f"{place}/killed", kill), **options), ranks, f"{place}/2")
        again = in_processes(lambda: by_itself(Run(f"{place}/killed"), **options), ranks, f"{place}/3")
        pairs = [(one.split(" "), other.split(" ")) for ones, others in zip(calm, again)
                 for one, other in zip(ones[-len(others):], others)]
        print(f"Accelerate's load_state() and skip_first_batches(), {name}: of {len(pairs)} batches after the restart "
              f"{sum(one[1:-1] != other[1:-1] for one, other in pairs)} are others, "
              f"{sum(one[-1] != other[-1] for one, other in pairs)} have another loss")


# --- in a cluster ------------------------------------------------------------------------------------


def train(args):
    """As the harness of the virtual cluster runs it, a rank in each task. DDP keeps its first buckets here: it would
    arrange them anew after the first step, and more than two ranks would sum in another order after a restart.
    """
    sys.path.append(f"{os.path.dirname(os.path.abspath(__file__))}/../../examples")
    from torch_train import join  # pylint: disable=import-outside-toplevel

    rank, world = join(args.timeout)
    if world > 1:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=os.environ.get("SLURM_LOCALID", "0"))
    accelerator = dlrover.accelerate(accelerate.Accelerator(
        cpu=True, gradient_accumulation_steps=2,
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)]))
    set_seed(7)
    model = net()
    optimizer, scheduler = training(model)
    model, optimizer, scheduler, loader, tests = accelerator.prepare(model, optimizer, scheduler, loader_of(Rows()),
                                                                     loader_of(Rows()))
    if accelerator.dlrover.step and rank == 0:
        print(f"resumed from step {accelerator.dlrover.step}", flush=True)
    for epoch in accelerator.dlrover.epochs(args.steps if accelerator.dlrover.step < args.steps else 0):
        for ids, x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            step = accelerator.dlrover.step + accelerator.sync_gradients
            if args.log:
                with open(f"{args.log}.{rank}", "a", encoding="ascii") as file:
                    file.write(f"{step} {epoch} {' '.join(map(str, ids.tolist()))}\n")
            if accelerator.sync_gradients:
                if rank == 0:
                    print(f"step {step} loss {loss.item():.9g}", flush=True)
                time.sleep(args.pause)
            if accelerator.sync_gradients and step == args.steps:
                break
        evaluate(model, tests)
        if accelerator.dlrover.step + 1 >= args.steps:
            break
    if rank == 0:
        with open(args.out, "w", encoding="ascii") as file:
            file.write(bits(list(accelerator.unwrap_model(model).state_dict().values())) + "\n")
    accelerator.wait_for_everyone()
    accelerator.end_training()


def another_world(directory):
    """Killed with two ranks, gone on with one: what is left of the epoch is what neither has seen."""
    options = {"every": 2, "use_seedable_sampler": True}
    place = f"{directory}/killed"
    assert in_processes(lambda: plain(Run(place, 10), **options), 2, f"{directory}/1") is None
    (lines, _), = in_processes(lambda: plain(Run(place), **options), 1, f"{directory}/2")
    (whole, _), = in_processes(lambda: plain(Run(f"{directory}/calm"), **options), 1, f"{directory}/3")
    sampled = [[line.split("]")[0] for line in one.split("\n")] for one in (lines, whole)]
    assert sampled[0] == sampled[1][11 + 4:], f"after 4 batches of its second epoch it has\n{lines}"


def launched(directory):
    """In the function that a notebook starts."""
    def function():
        found = plain(Run(directory), every=2)
        assert found[0].count("\n") == 6 * EPOCHS - 1, found[0]
        with open(f"{directory}/done.{accelerate.PartialState().process_index}", "w", encoding="ascii"):
            pass

    os.makedirs(directory)
    in_processes(lambda: accelerate.debug_launcher(function, num_processes=2), 1, f"{directory}/1")
    assert len(glob.glob(f"{directory}/done.*")) == 2 and len(glob.glob(f"{directory}/ours/r1-*")) > 0


OTHERS = {"another_world": another_world, "launched": launched}


def check_says(name, directory):
    function, ranks, text = SAYS[name]
    for found in in_processes(lambda: function(Run(directory)), ranks, directory):
        said = [one.replace("dlrover.accelerate: ", "") for one in ([found] if isinstance(found, str) else found)]
        assert said == ([text] if isinstance(text, str) else text), f"it says {found}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="trainings to test; all without one")
    add("--keep", action="store_true", help="the files of the tests")
    add("--own", action="store_true", help="how Accelerate's own way goes on, in figures")
    add("--train", action="store_true", help="train only")
    add("--steps", type=int, default=40, help="updates")
    add("--out", metavar="FILE", help="rank 0 writes the SHA-256 of the last weights")
    add("--log", metavar="FILE", help="each rank appends 'step epoch samples...' to FILE.RANK for each batch")
    add("--pause", type=float, default=0, metavar="S", help="seconds after each step")
    add("--timeout", type=int, default=300, metavar="S", help="limit of one wait for the others")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.train:
        train(args)
        return
    directory = tempfile.mkdtemp(prefix="accelerate.")
    if args.own:
        compare(directory)
        return
    failed, passed, skipped = [], 0, 0
    for name in args.names or [*TRAININGS, *OTHERS, *SAYS]:
        test = OTHERS.get(name) or functools.partial(check if name in TRAININGS else check_says, name)
        try:
            test(f"{directory}/{name}")
            passed += 1
            print(f"ok {name}", flush=True)
        except unittest.SkipTest as error:
            skipped += 1
            print(f"skipped {name}: {error}", flush=True)
        except AssertionError as error:
            failed.append(name)
            print(f"not ok {name}: {error}", flush=True)
    if args.keep:
        print(directory)
    else:
        shutil.rmtree(directory)
    print(f"{passed} passed" + f", {skipped} skipped" * bool(skipped)
          + f", {len(failed)} failed: {' '.join(failed)}" * bool(failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
