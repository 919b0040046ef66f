# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer, and what derives from it (Seq2SeqTrainer, TRL's): callbacks=[dlrover.TrainerCallback()].

The Trainer computes where a training goes on in _inner_training_loop, out of a checkpoint folder, before it has an
optimizer and before it asks a callback. So this one method is wrapped: what is saved is looked at first, and the loop
is given a folder that holds a trainer_state.json and nothing else. Position and skipping are then the Trainer's own.
The tensors are loaded in on_train_begin.
"""
from __future__ import annotations

import contextlib
import functools
import os
import typing
import warnings

from . import versions

transformers = versions.require("transformers", "4.57", (
    "Trainer._inner_training_loop", "Trainer.set_initial_training_values", "Trainer.get_batch_samples",
    "Trainer._load_rng_state", "Trainer._load_from_checkpoint", "trainer.skip_first_batches", "TrainerState",
    "EarlyStoppingCallback", "trainer_callback.ExportableState"))

from ._train_call import TrainCall  # noqa: E402  pylint: disable=wrong-import-position

LATE = ("train() began without it, so nothing was restored: give it to the Trainer before, and to one whose training "
        "loop is the Trainer's")
_count = 0  # calls of train() in this process, of Trainers with such a callback


class TrainerCallback(transformers.TrainerCallback):
    """Saves and restores what a Trainer trains: model, optimizer, scheduler, scaler, random numbers, TrainerState,
    callbacks and the position in the data.

        trainer = Trainer(..., callbacks=[dlrover.TrainerCallback()])

    train() goes on from what is saved, without resume_from_checkpoint; where that is given and of a later step, from
    that. Under a job the supervisor orders which steps are saved; without one each save of the Trainer is one of ours,
    in directory (DLROVER_CKPT_DIR, else _dlrover in output_dir). objects: what else to keep, as dlrover.bind() takes
    it. Of several calls of train() in a process the one that was interrupted goes on; those before it are run again.
    """

    def __init__(self, directory: str | os.PathLike | None = None, **objects: typing.Any) -> None:
        self._given, self._told = (directory, objects), set()
        self._call, self._in_train = None, False
        self.failures = 0  # of saving, each of which is one warning

    def run(self, trainer, loop, args, kwargs):
        """The Trainer's loop: called in the place of it."""
        global _count  # pylint: disable=global-statement
        with contextlib.ExitStack() as stack:
            self._in_train = True
            stack.callback(self._leave)
            if kwargs.get("trial") is not None:
                self._warn("trials of hyperparameter_search() are neither saved nor restored: keep the study")
                return loop(trainer, *args, **kwargs)
            _count += 1
            call = stack.enter_context(contextlib.closing(TrainCall(trainer, _count, *self._given)))
            if call.found.get("training", 0) > _count:
                self._warn(f"train() {_count} of this program is run again and not saved: what is saved is of train() "
                           f"{call.found['training']}")
                call.close()
                return loop(trainer, *args, **kwargs)
            self._call = call
            return call.run(loop, args, kwargs)

    def _leave(self):
        self.failures += self._call.session.failures if self._call else 0
        self._call, self._in_train = None, False

    def _warn(self, text):
        if text not in self._told:
            warnings.warn(f"dlrover.TrainerCallback: {text}", RuntimeWarning, stacklevel=3)
        self._told.add(text)

    def _guard(self, what):
        return self._call.session.guard(what)

    def save_now(self) -> None:
        """Asks for a save: of the next step, or under a job of one soon. Does not block."""
        if self._call:
            self._call.session.save_now()

    def wait_until_committed(self, step: int, limit_s: float = 300) -> bool:
        """Whether global step step of the running train(), or a later one, is committed. Waits limit_s at most."""
        return self._call is not None and self._call.wait_until_committed(step, limit_s)

    # --- what the Trainer calls ----------------------------------------------------------------

    def on_train_begin(self, args, state, control, train_dataloader=None, **_):
        if not self._in_train:
            raise ValueError(f"dlrover.TrainerCallback: {LATE}")
        if self._call:
            self._call.open(train_dataloader)
            if self._call.over:
                self._warn(f"this training is finished (step {state.global_step}), and nothing is trained: another "
                           "output_dir begins anew")

    def on_epoch_begin(self, args, state, control, train_dataloader=None, **_):
        if self._call:
            with self._guard("the batches' order is not kept"):
                self._call.begin_epoch(train_dataloader)

    def on_step_begin(self, args, state, control, **_):
        """Not on_step_end: what is logged, evaluated and saved after a step is part of it, and the batches of the next
        one are fetched before it begins, when the Trainer's own resume sets the random numbers.
        """
        if self._call:
            with self._guard(f"step {state.global_step} is not saved"):
                self._call.between_steps()
        elif not self._in_train:
            self._warn(LATE)

    def on_save(self, args, state, control, **_):
        if self._call:
            self._call.wanted = True
            if control.should_training_stop:
                self._end(state)

    def on_epoch_end(self, args, state, control, **_):
        if self._call and self._call.over:
            control.should_log = control.should_evaluate = control.should_save = False
        elif self._call and control.should_training_stop:
            self._end(state)
        return control

    def _end(self, state):
        with self._guard(f"step {state.global_step} is not saved"):
            self._call.end()

    def on_predict(self, args, state, control, metrics=None, **_):
        if not self._in_train and not state.global_step:
            self._warn("a Trainer that only predicts has no state to save: leave it out")


def _loop(trainer, *args, **kwargs):
    ours = [one for one in trainer.callback_handler.callbacks if isinstance(one, TrainerCallback)]
    if len(ours) > 1:
        raise ValueError(f"dlrover.TrainerCallback: a Trainer has {len(ours)} of them: leave one")
    return ours[0].run(trainer, _own_loop, args, kwargs) if ours else _own_loop(trainer, *args, **kwargs)


_own_loop = transformers.Trainer._inner_training_loop  # pylint: disable=protected-access
transformers.Trainer._inner_training_loop = functools.wraps(_own_loop)(_loop)
