# SPDX-License-Identifier: Apache-2.0
"""One call of a Trainer's train(): what of it is saved beside the tensors, and how it goes on."""
from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile

import torch
import transformers

from . import _trainer_state, batches
from .session import Session

STATE_FILE = "trainer_state.json"  # the one file that gives the Trainer its position
_last = 0  # the last step that a call had in this process


@contextlib.contextmanager
def _replaced(holder, name, by):
    """holder's method inside: by(the former one, arguments …)."""
    had, former = name in vars(holder), getattr(holder, name)
    setattr(holder, name, functools.partial(by, former))
    try:
        yield
    finally:
        setattr(holder, name, former)
        if not had:
            delattr(holder, name)


def _step_of(folder):
    path = os.path.join(folder or "", STATE_FILE)
    return transformers.TrainerState.load_from_json(path).global_step if folder and os.path.isfile(path) else 0


def _check(trainer):
    if trainer.is_deepspeed_enabled:
        raise ValueError("dlrover.TrainerCallback does not take what DeepSpeed holds (partitions, fp32 masters): "
                         "train with Accelerate's plugin and dlrover.accelerate(), or with dlrover.deepspeed(engine)")
    if trainer.is_fsdp_enabled and trainer.accelerator.state.fsdp_plugin.fsdp_version == 1:
        raise ValueError("dlrover.TrainerCallback does not take FSDP of version 1, whose parameters are flat: "
                         'fsdp_config={"version": 2, ...} is saved')


class TrainCall:
    """Number number of this process. As an object with a state dict it is what is saved beside model, optimizer and
    scheduler: counts, logs, callbacks and the position in the data.
    """

    def __init__(self, trainer, number, directory, objects):
        self.trainer, self.number, self._objects = trainer, number, objects
        if directory is None and not os.environ.get("DLROVER_CKPT_DIR"):
            directory = os.path.join(trainer.args.output_dir, "_dlrover")  # a push to the hub leaves out what has a _
        self.session = Session("TrainerCallback", directory=directory)
        self.found = self.session.peek().get("trainer", {})
        self.saved = None  # found, where this training goes on from it
        self.wanted = self.over = self._finished = self._fetches_here = self._one_more = False
        self._base = self._length = self._epoch_step = 0
        self._epoch = None  # before the first one
        self._batches, self._at_step, self._stack = batches.Batches(), None, contextlib.ExitStack()

    def run(self, loop, args, kwargs):
        if (self.found.get("training") == self.number
                and _step_of(kwargs.get("resume_from_checkpoint")) <= self.found["step"]):
            self.saved = self.found
        trainer, enter = self.trainer, self._stack.enter_context
        with self._stack:
            enter(_replaced(trainer, "set_initial_training_values", self._set_out))
            enter(_replaced(trainer, "get_batch_samples", self._get_batches))
            if self.saved:
                kwargs["resume_from_checkpoint"] = enter(tempfile.TemporaryDirectory(prefix="dlrover-"))
                enter(_replaced(trainer, "_load_rng_state", self._load_numbers))
                enter(_replaced(transformers.trainer, "skip_first_batches", self._skip))
                enter(_replaced(trainer, "_load_from_checkpoint", lambda *_, **__: None))
                self._stack.callback(setattr, trainer.args, "eval_on_start", trainer.args.eval_on_start)
                trainer.args.eval_on_start = False  # it was evaluated
            self._folder = kwargs.get("resume_from_checkpoint")
            return loop(trainer, *args, **kwargs)

    # --- how it goes on, in the order of the loop ------------------------------------------

    def _set_out(self, compute, *args, **kwargs):
        values = compute(*args, **kwargs)
        self._length = values[1]  # updates of an epoch
        if self.saved:
            state = json.loads(self.saved["state"])
            if self._same_epochs():  # a callback, or the data, may have ended some of them early
                state["global_step"] += self.saved["epoch"] * self._length - self.saved["epoch_step"]
            with open(os.path.join(self._folder, STATE_FILE), "w", encoding="utf-8") as file:
                json.dump(state, file)
            _trainer_state.put_callbacks(self.trainer, state["stateful_callbacks"])
        return values

    def _same_epochs(self):
        return self.saved["length"] == self._length and not self.trainer.args.ignore_data_skip

    def open(self, loader):
        """Loads the tensors. ValueError and Error say what cannot be saved, or loaded."""
        trainer = self.trainer
        _check(trainer)
        objects = {"scheduler": trainer.lr_scheduler, "scaler": getattr(trainer.accelerator, "scaler", None)}
        step = self.session.open(trainer.model_wrapped, trainer.optimizer, restore=bool(self.saved) or not self.found,
                                 trainer=self, **{key: one for key, one in objects.items() if one is not None},
                                 **self._objects)
        self._base, self._at_step = max(step, _last), batches.numbers(devices=True)
        if self.saved:
            self._base = self.saved["base"]
            _trainer_state.put(trainer, self.saved)
            self.over = self.saved["finished"] and self.saved["max_steps"] == trainer.state.max_steps
        inner = getattr(loader, "base_dataloader", loader)
        self._fetches_here = getattr(inner, "num_workers", 1) == 0 and hasattr(inner, "collate_fn") and (
            trainer.args.world_size == 1 or not hasattr(loader, "slice_fn"))  # which rank 0 has, for all
        if self._fetches_here:
            self._stack.enter_context(_replaced(inner, "collate_fn", self._batches.collate))

    def begin_epoch(self, loader):
        step = self._epoch_step = self.trainer.state.global_step
        if self._epoch is not None:
            self._epoch += 1
            self._batches.begin_epoch()
        elif self.saved and self._same_epochs():
            self._epoch, self._epoch_step = self.saved["epoch"], self.saved["epoch_step"]
            stream = isinstance(getattr(loader, "dataset", None), torch.utils.data.IterableDataset)
            self._batches.begin_epoch(self._first(), 0 if stream else self._first() - 1, self.saved["batches"])
        else:
            self._epoch = step // self._length
            self._epoch_step -= 0 if self.trainer.args.ignore_data_skip else step % self._length
            self._batches.begin_epoch()

    def _first(self):
        """The coming step's first batch, counted in its epoch."""
        return (self.trainer.state.global_step - self._epoch_step) * self.trainer.args.gradient_accumulation_steps

    def _skip(self, skip, loader, count):
        """One less: an iterator draws its seed and the order when it is asked for a batch, and only then may the
        numbers be set that the next batch was drawn from.
        """
        self._one_more = self._fetches_here
        rest = skip(loader, count - self._one_more)
        if hasattr(rest, "set_epoch"):
            rest.set_epoch(self._epoch)  # an older Accelerate's would begin with the first epoch's order
        return rest

    def _get_batches(self, get, iterator, count, *args, **kwargs):
        if self.over:
            self.trainer.control.should_training_stop = True
            return [], None
        if self._one_more:
            next(iterator, None)
        self._one_more = False
        self._batches.before_fetch(self._first(), count)
        return get(iterator, count, *args, **kwargs)

    def _load_numbers(self, *_):
        if self._first() or self.trainer.args.ignore_data_skip:  # else the epoch began with them
            batches.put(self._at_step)

    # --- saving ------------------------------------------------------------------------------

    def between_steps(self):
        """The coming step's batches are here, and nothing of it is computed."""
        if not self._first() and any(p.grad is not None for p in self.trainer.model.parameters()):
            return  # the last epoch ended within an accumulated update, whose parts go on in this one
        step = self._base + self.trainer.state.global_step
        if self.wanted:
            self.session.save(step)
        self.wanted = False
        self.session.step(step)

    def end(self):
        """No step follows, and the model may become the best one now."""
        state, callbacks = self.trainer.state, self.trainer.callback_handler.callbacks
        self._finished = state.global_step >= state.max_steps or any(
            one.early_stopping_patience_counter >= one.early_stopping_patience
            for one in callbacks if isinstance(one, transformers.EarlyStoppingCallback))
        self.between_steps()
        self.session.fence()

    def wait_until_committed(self, step, limit_s):
        return self.session.wait_until_committed(self._base + step, limit_s)

    def close(self):
        global _last  # pylint: disable=global-statement
        _last = max(_last, self._base + self.trainer.state.global_step)
        self.session.close()

    def state_dict(self):
        return {**_trainer_state.read(self.trainer), "training": self.number, "base": self._base,
                "finished": self._finished, "epoch": self._epoch or 0, "epoch_step": self._epoch_step,
                "length": self._length, "batches": self._batches.state(self._first())}

    def load_state_dict(self, found):
        """The loop has its position from what was looked at before."""
        if not self.saved or (found["training"], found["step"]) != (self.saved["training"], self.saved["step"]):
            raise ValueError(f"it is of step {found['step']} of train() {found['training']}, which was not what there "
                             "was when train() began: start again")
