# SPDX-License-Identifier: Apache-2.0
"""Lightning: Trainer(callbacks=[dlrover.LightningCheckpoint()]), or plugins=[...], of both of its packages.

A state is read between two batches, when all that belongs to one is done: every callback, validation, schedulers.
Lightning has no hook there (on_train_batch_end is in the middle of the callbacks, on_train_batch_start after the next
batch was drawn), so the end of a batch and of an epoch is followed in its loops.
"""
from __future__ import annotations

import functools
import typing
import warnings

from .. import _plain
from .._objects import Objects
from . import lightning_batches as batches
from . import lightning_state as state
from . import lightning_trainer as attach
from .batches import numbers
from .session import Session

NOT_RESUMABLE = "You're resuming from a checkpoint that ended before the epoch ended"


class LightningCheckpoint:
    """Saves and restores all that a fit() of Lightning has: model, optimizers, schedulers, loops and the place in the
    data, callbacks, precision, data module, averages that are logged, random numbers of all ranks.

        trainer = Trainer(callbacks=[dlrover.LightningCheckpoint()], ...)

    It may be one of plugins=[...] instead. There Lightning takes one CheckpointIO only, so beside another
    (AsyncCheckpointIO) it is given as a callback. options are those of dlrover.Checkpoint.

    fit() restores before its first step, without a ckpt_path, which says where a fresh training begins. Under a job
    the supervisor orders what is saved. Without one, what Lightning saves (ModelCheckpoint, save_checkpoint()) is saved
    by us, too, at the end of that batch or epoch; Lightning's own file is as it would be. The hooks on_save_checkpoint
    of module and callbacks are called for ours as well, under a job every 64 steps. ValueError and dlrover.Error come
    from fit() before its first step; what fails later is one warning and a counter (failures).

    One fit() of an object is saved, its first; under a job the first of the process. After a restart one that was done
    returns at once. validate(), test(), predict(), tuners, sanity checks and fast_dev_run neither save nor
    restore.
    """

    _used_in_job = False  # by this process

    def __new__(cls, **_options: typing.Any) -> LightningCheckpoint:
        return object.__new__(attach.derived(LightningCheckpoint))

    def __init__(self, **options: typing.Any) -> None:
        super().__init__()
        self._options, self._session, self._trainer = options, None, None
        self._saved, self._now, self._averages, self._checks = None, None, {}, None
        self._used = self._asked = self._between = False
        self._failed = 0

    def __reduce__(self):  # a Trainer that spawns its ranks sends it to them
        return functools.partial(LightningCheckpoint, **self._options), ()

    @property
    def failures(self) -> int:
        """Exceptions that were turned into one warning each."""
        return self._failed + (self._session.failures if self._session else 0)

    def save_now(self) -> None:
        """Asks for a save: of the next batch that ends a step, or under a job of one soon. Does not block."""
        if self._session:
            self._session.save_now()

    def wait_until_committed(self, step: int, limit_s: float = 300) -> bool:
        """Whether global step step of this fit(), or a later one, is committed. Waits limit_s at most."""
        return self._session is not None and self._session.wait_until_committed(step, limit_s)

    def setup(self, trainer: typing.Any, pl_module: typing.Any, stage: str) -> None:
        """Other callbacks are to find their state restored in their on_fit_start()."""
        attach.to_front(trainer, self)

    def on_fit_start(self, trainer: typing.Any, pl_module: typing.Any) -> None:
        """Optimizers are there, and no batch was drawn."""
        if trainer.fast_dev_run:
            return
        session = Session("LightningCheckpoint", **{**attach.place(trainer), **self._options})
        if self._used or session.in_job and LightningCheckpoint._used_in_job:
            warnings.warn("dlrover.LightningCheckpoint: a second fit() is not saved, the first was", RuntimeWarning)
            return
        replicated = attach.is_replicated(trainer)
        self._trainer, self._session, optimizers = trainer, session, trainer.optimizers
        _plain.encode(Objects({"lightning": self._state}).look(), "the state")  # ValueError: what cannot be kept
        attach.regroup(trainer, session.peek().get("lightning"))
        step = session.open(trainer.strategy.model, optimizers[0] if len(optimizers) == 1 else optimizers,
                            replicated, lightning=self._state)
        self._used, LightningCheckpoint._used_in_job = True, session.in_job
        if session.in_job:
            attach.no_requeue(trainer)
        if step:
            self._restore(step)
        attach.follow(trainer, self._batch_done, self._epoch_done, self._theirs)

    def on_train_epoch_start(self, trainer: typing.Any, pl_module: typing.Any) -> None:
        """A version from between two epochs: this one begins as it would have."""
        if self._saved and self._saved["between"]:
            loop, self._saved = trainer.fit_loop, None
            loop._restarting = loop._resuming_from_checkpoint = loop.epoch_loop._restarting = False
            batches.put_numbers(self._now, loop._combined_loader)

    def on_validation_start(self, trainer: typing.Any, pl_module: typing.Any) -> None:
        """Averages of the weights may be put in their place now."""
        self.fence()

    def on_train_end(self, trainer: typing.Any, pl_module: typing.Any) -> None:
        """As on_validation_start()."""
        self.fence()

    def fence(self) -> None:
        """For a module that changes weights by hand where it computes its loss. Blocking as dlrover.Bound.fence() is."""
        if self._session:
            self._session.fence()

    def teardown(self, trainer: typing.Any = None, pl_module: typing.Any = None, stage: str = "") -> None:
        """As a callback's; a CheckpointIO's comes without arguments."""
        if stage == "fit":
            self._close()

    def on_exception(self, trainer: typing.Any, pl_module: typing.Any, exception: BaseException) -> None:
        self._close()

    def _close(self):
        if self._trainer is None:
            return
        attach.unfollow(self._trainer)
        if self._checks is not None:
            self._trainer.num_sanity_val_steps = self._checks
        self._trainer = self._saved = self._checks = None
        self._session.close()

    def _theirs(self):
        self._asked = True

    def _batch_done(self, ends):
        if self._averages:
            with self._session.guard("what was logged earlier in this epoch is left out"):
                state.add_averages(self._trainer, self._averages)
        if not ends:  # else the end of the epoch belongs to it
            self._boundary(False)

    def _epoch_done(self):
        self._averages = {}
        self._boundary(True)

    def _boundary(self, between):
        self._between, step = between, self._trainer.global_step
        asked, self._asked = self._asked, False
        if asked:
            self._session.save(step)
        self._session.step(step)

    def _state(self, *saved):
        """What Session keeps, or takes back."""
        if saved:
            self._saved, = saved
            return None
        try:
            return state.read(self._trainer, self._between)
        except Exception:
            self._failed += 1
            raise

    def _restore(self, step):
        trainer, saved = self._trainer, self._saved
        if trainer._checkpoint_connector._ckpt_path:
            warnings.warn(f"dlrover.LightningCheckpoint: goes on from step {step}, not from ckpt_path, where a fresh "
                          "training begins", RuntimeWarning)
            attach.leave_out_ckpt_path(trainer)
        self._now = {**numbers(devices=True), "loader": saved["loader"]}
        self._averages = saved["averages"]
        self._checks, trainer.num_sanity_val_steps = trainer.num_sanity_val_steps, 0
        state.fit_world(saved, trainer.world_size, trainer.accumulate_grad_batches)
        state.put(trainer, saved)
        attach.regrouped(trainer)
        attach.end_again(trainer, self._session.guard)
        if not saved["between"]:
            warnings.filterwarnings("ignore", NOT_RESUMABLE)
            trainer.fit_loop.epoch_loop._should_check_val_fx = self._go_on

    def _go_on(self, fetcher):
        """In the place of _should_check_val_fx(), which Lightning asks before the first batch of a restart: whether
        validation was left out. It was not, and this is the moment to draw the batch that comes now.
        """
        loop, saved, self._saved = self._trainer.fit_loop, self._saved, None
        del loop.epoch_loop._should_check_val_fx
        attach.make_late_ready(self._trainer)
        loop._restarting = False  # else schedulers that follow a metric would leave this epoch out
        if "combined_loader" not in saved["checkpoint"]["loops"]["fit_loop"]["state_dict"]:
            batches.draw_again(loop._combined_loader, fetcher, saved)
        batches.put_numbers(self._now, loop._combined_loader)
        return False
