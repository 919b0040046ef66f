# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate: one line after the Accelerator is made, and one where a loop counts epochs.

    accelerator = dlrover.accelerate(accelerator)
    ...
    for epoch in accelerator.dlrover.epochs(3):   # with range(3), epochs that are done run again, without batches

What is prepared, or registered for checkpointing, is restored when the loop asks a prepared dataloader for its first
batch, which is the one after the last that was learned from.

A step is all that a loop does with a batch of a prepared dataloader, if one optimizer or more made an update then: one
in several batches with accumulation, one for both networks of a GAN, none where a scaler skipped every update. Its
state is that when the loop asks for the next batch, so schedulers, averages and counters have moved. After the last
batch of an epoch it is that when the next epoch begins, save_state() is called, or the training ends.
"""
from __future__ import annotations

import contextlib
import functools
import typing

from ._accelerate_parts import hf
from ._accelerate_steps import Training
from .session import Session
from .versions import require

OURS = ("accumulate", "backward", "end_training", "free_memory", "load_state", "no_sync", "prepare_data_loader",
        "save_state", "skip_first_batches")
REFUSED = {"MEGATRON_LM": "use dlrover.megatron", "XLA": "use CPUs or GPUs"}
require("accelerate", "1.0", [f"Accelerator.{name}" for name in OURS])


class Loop:
    """accelerator.dlrover: what a loop may ask. After prepare() and register_for_checkpointing()."""

    def __init__(self, training: Training) -> None:
        self._training = training

    def epochs(self, count: int) -> typing.Iterator[int]:
        """range(count), from the epoch that was saved; a loop inside goes over each training dataloader once. Where a
        training has several such loops, each calls it, in the same order in every run.
        """
        return self._training.epochs(count)

    @property
    def step(self) -> int:
        """Steps done, those before a restart too."""
        self._training.must_open("step")
        return self._training.steps

    def step_done(self) -> None:
        """A step ends here: for a loop that has neither a prepared dataloader nor accumulate()."""
        if self._training.pending is not None:
            self._training.count_step()

    def save_now(self) -> None:
        """See Session.save_now()."""
        self._training.session.save_now()

    def wait_until_committed(self, step: int, limit_s: float = 300) -> bool:
        """See Session.wait_until_committed()."""
        return self._training.session.wait_until_committed(step, limit_s)


class _Methods:
    """What stands in the place of the accelerator's own; plain is that."""

    def __init__(self, accelerator, training, options):
        self._accelerator, self._training, self._options = accelerator, training, options
        for name in OURS:
            plain = getattr(accelerator, name)
            ours = functools.partial(getattr(self, name), plain)
            setattr(accelerator, name, functools.update_wrapper(ours, plain))
        for loader in accelerator._dataloaders:
            training.add(loader)

    def prepare_data_loader(self, plain, *args, **kwargs):
        loader = plain(*args, **kwargs)
        self._training.add(loader)
        return loader

    def skip_first_batches(self, plain, dataloader, num_batches=0):
        place = next((one for one in self._training.places if one.loader is dataloader), None)
        if place and place.saved:
            return dataloader  # it goes on by itself
        rest = plain(dataloader, num_batches)
        if place:
            self._training.watch(place, rest, num_batches)
        return rest

    def accumulate(self, plain, *models):
        self._training.open()
        if self._training.pending == []:  # an update in no loader's loop
            self._training.count_step()
        return plain(*models)

    @contextlib.contextmanager
    def no_sync(self, plain, model):
        self._training.unsynced += 1
        try:
            with plain(model):
                yield
        finally:
            self._training.unsynced -= 1

    def backward(self, plain, loss, **kwargs):
        if not self._accelerator._optimizers:
            self._training.tell("no optimizer is prepared: nothing is saved")
        elif not self._training.opened:
            raise ValueError("dlrover.accelerate: the loop has neither a prepared dataloader nor accumulate(): ask "
                             "accelerator.dlrover.step before it, and call accelerator.dlrover.step_done() in it")
        return plain(loss, **kwargs)

    def save_state(self, plain, *args, **kwargs):
        """Ours is of the same step, when it is done."""
        found, training = plain(*args, **kwargs), self._training
        training.wanted = True
        if all(place.given is None or not place.trains for place in training.places):
            training.finish()
            training.save()
        return found

    def load_state(self, plain, *args, **kwargs):
        training = self._training
        training.open()
        if training.started_from and not training.begun:
            training.tell(f"load_state() is left out: step {training.started_from} was restored, which goes on")
            return None
        training.session.fence()
        return plain(*args, **kwargs)

    def end_training(self, plain):
        self._training.close()
        return plain()

    def free_memory(self, plain, *objects):
        training = self._training
        training.close()
        for name in (*OURS, "dlrover"):
            vars(self._accelerator).pop(name, None)
        objects = plain(*objects)
        if training.steps == training.started_from:  # nothing was trained
            accelerate(self._accelerator, **self._options)
        else:
            training.tell(f"free_memory() ends the training at step {training.steps}: for another call "
                          "dlrover.accelerate() again, with another directory")
        return objects


def accelerate(accelerator: hf.Accelerator, **options: typing.Any) -> hf.Accelerator:
    """The same accelerator, whose training is restored and saved; accelerator.dlrover is a Loop. options are those of
    dlrover.Checkpoint (directory=...). Before or after prepare(), before the loop. Under a job the supervisor orders
    saves; without one accelerator.save_state() saves ours, too. ValueError says what is not known.
    """
    if not isinstance(accelerator, hf.Accelerator):
        raise ValueError(f"dlrover.accelerate: this is a {type(accelerator).__name__}: give an accelerate.Accelerator")
    if "dlrover" in vars(accelerator):
        raise ValueError("dlrover.accelerate: this accelerator was given before: once is enough")
    kind = accelerator.distributed_type.value
    if kind == "FSDP" and not accelerator.is_fsdp2:
        raise ValueError("dlrover.accelerate: FSDP of version 1 has flat parameters, which are not known: take "
                         "FullyShardedDataParallelPlugin(fsdp_version=2)")
    if kind in REFUSED:
        raise ValueError(f"dlrover.accelerate: distributed_type {kind} is not known: {REFUSED[kind]}")
    # The environment has them, but where debug_launcher() started the ranks.
    place = {"rank": accelerator.process_index, "world": accelerator.num_processes}
    training = Training(accelerator, Session("accelerate", **{**(place if place["world"] > 1 else {}), **options}))
    _Methods(accelerator, training, options)
    accelerator.dlrover = Loop(training)
    return accelerator
