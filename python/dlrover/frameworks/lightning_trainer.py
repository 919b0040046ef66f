# SPDX-License-Identifier: Apache-2.0
"""Where an adapter is put into Lightning, in both of its packages, and which Trainers it can save."""
from __future__ import annotations

import copy
import functools
import importlib.util
import sys
import types
import typing

from .._checkpoint import own_place
from . import lightning_batches as batches
from .versions import require

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
OLDEST = "2.5"
USED = ("callbacks.Callback", "plugins.io.TorchCheckpointIO", "utilities.combined_loader.CombinedLoader.__next__",
        "trainer.connectors.callback_connector._CallbackConnector.on_trainer_init",
        "trainer.connectors.checkpoint_connector._CheckpointConnector.dump_checkpoint",
        "trainer.connectors.checkpoint_connector._CheckpointConnector.restore_training_state",
        "trainer.connectors.checkpoint_connector._CheckpointConnector.restore_callbacks",
        "Trainer.save_checkpoint", "loops.fit_loop._FitLoop.on_advance_end", "loops.fit_loop._FitLoop.is_resuming",
        "loops.training_epoch_loop._TrainingEpochLoop._should_check_val_fx",
        "loops.training_epoch_loop._TrainingEpochLoop.restarted_on_last")
STRATEGIES = ("SingleDeviceStrategy", "DDPStrategy", "ModelParallelStrategy")
OTHERS = {"DeepSpeedStrategy": ": use dlrover.deepspeed", "FSDPStrategy": ": use ModelParallelStrategy",
          "XLAStrategy": "", "SingleDeviceXLAStrategy": ""}  # derived from these, and not what they are
PUT_IN = ("on_advance_end", "_should_check_val_fx", "setup_data", "save_checkpoint")  # while a fit() runs
TUNERS = {"BatchSizeFinder", "LearningRateFinder"}
# They give the optimizer the groups of parameters that it had, in on_fit_start().
REGROUP = {"BaseFinetuning"}
# Made ready in on_train_epoch_start(), which Lightning leaves out where it goes on in mid-epoch.
LATE = {"StochasticWeightAveraging"}


def names(one: typing.Any) -> set[str]:
    """Of the classes that one is of, whichever of the two packages they are from."""
    return {kind.__name__ for kind in type(one).__mro__}


@functools.lru_cache(None)
def _bases(package, adapter):
    """What a class has of a package: its Callback and its CheckpointIO. Its Trainer then takes an adapter that is
    among its plugins for a callback, too.
    """
    found = require(package, OLDEST, USED)
    batches.follow(found.utilities.combined_loader.CombinedLoader)
    connector = found.trainer.connectors.callback_connector._CallbackConnector
    init = connector.on_trainer_init

    @functools.wraps(init)
    def on_trainer_init(self, *args, **kwargs):
        init(self, *args, **kwargs)
        plugin = self.trainer._accelerator_connector.checkpoint_io
        if isinstance(plugin, adapter) and plugin not in self.trainer.callbacks:
            self.trainer.callbacks.insert(0, plugin)

    connector.on_trainer_init = on_trainer_init
    return found.callbacks.Callback, found.plugins.io.TorchCheckpointIO


@functools.lru_cache(None)
def _derived(adapter, packages):
    bases = [base for package in packages for base in _bases(package, adapter)]
    return types.new_class(adapter.__name__, (adapter, *bases))


def derived(adapter: type) -> type:
    """adapter as a Callback and a CheckpointIO of the packages that the program has imported, else of the one that is
    installed. ImportError where there is none, or one that is too old.
    """
    installed = [one for one in PACKAGES if importlib.util.find_spec(one.partition(".")[0])]
    imported = [one for one in PACKAGES if one in sys.modules]
    return _derived(adapter, tuple(imported or installed[:1] or PACKAGES[:1]))


def to_front(trainer: typing.Any, callback: typing.Any) -> None:
    """Its hooks come before those of other callbacks, but for the tuners'."""
    others = [one for one in trainer.callbacks if one is not callback]
    at = sum(bool(TUNERS & names(one)) for one in others)
    trainer.callbacks = others[:at] + [callback] + others[at:]


def follow(trainer: typing.Any, batch_done: typing.Callable[[bool], None], epoch_done: typing.Callable[[], None],
           saved: typing.Callable[[], None]) -> None:
    """Until unfollow(): batch_done(whether the epoch ends with it) and epoch_done() are called when nothing is left to
    do of a batch, or of an epoch; saved() when Lightning has written a file of its own.
    """
    fit, inner = trainer.fit_loop, trainer.fit_loop.epoch_loop

    def batch_end(fetcher, end=inner.on_advance_end):
        end(fetcher)
        batch_done(inner._is_training_done or trainer.should_stop and fit._can_stop_early)

    def epoch_end(end=fit.on_advance_end):
        end()
        epoch_done()

    def save_checkpoint(*args, save=trainer.save_checkpoint, **kwargs):
        save(*args, **kwargs)
        saved()

    inner.on_advance_end, fit.on_advance_end, trainer.save_checkpoint = batch_end, epoch_end, save_checkpoint


def _end(trainer, guard):
    trainer.fit_loop.on_run_start()
    for one in (*trainer.callbacks, trainer.lightning_module):
        if LATE & names(one):  # made in its last epoch, which is not run again
            vars(one).setdefault("_accumulate_grad_batches", trainer.accumulate_grad_batches)
        with guard(f"what {type(one).__name__} does at the end of a training is not done again"):
            one.on_train_end(*() if one is trainer.lightning_module else (trainer, trainer.lightning_module))


def end_again(trainer: typing.Any, guard: typing.Callable[[str], typing.ContextManager[None]]) -> None:
    """After a restore: a training that was done is left out by Lightning as a whole. What is done at its end, as
    putting averaged weights in their place, is done again.
    """
    fit = trainer.fit_loop

    def setup_data():
        del fit.setup_data  # once
        fit.setup_data()
        if fit.done and fit.max_batches:
            _end(trainer, guard)

    fit.setup_data = setup_data


def unfollow(trainer: typing.Any) -> None:
    """What was put in is taken out."""
    for one in trainer, trainer.fit_loop, trainer.fit_loop.epoch_loop:
        for name in PUT_IN:
            vars(one).pop(name, None)


def regroup(trainer: typing.Any, before: dict[str, typing.Any] | None) -> None:
    """Before the optimizers are restored. before: the state in the version, where there is one."""
    saved = (before or {}).get("checkpoint", {}).get("callbacks", {})
    for one in trainer.callbacks:
        if REGROUP & names(one) and one.state_key in saved:
            one.load_state_dict(copy.deepcopy(saved[one.state_key]))
            one.on_fit_start(trainer, trainer.lightning_module)


def regrouped(trainer: typing.Any) -> None:
    """After the callbacks are restored: on_fit_start(), which is yet to come, is not to do it again."""
    for one in trainer.callbacks:
        if REGROUP & names(one):
            one._restarting = False


def make_late_ready(trainer: typing.Any) -> None:
    """Before the first batch of an epoch that goes on."""
    for one in trainer.callbacks:
        if LATE & names(one):
            one.on_train_epoch_start(trainer, trainer.lightning_module)


def place(trainer: typing.Any) -> dict[str, int]:
    """Rank and number of ranks, which Lightning's own launchers tell nobody else."""
    return {"rank": trainer.global_rank, "world": trainer.world_size} if trainer.world_size > 1 else {}


def is_replicated(trainer: typing.Any) -> bool | None:
    """Whether all ranks have the same of model and optimizers; one that is alone, too, so that several can go on with
    what it saved, but not one of several that train models of their own. None: as the model's wrapper says. ValueError
    for a strategy that is not known.
    """
    kinds = [one.__name__ for one in type(trainer.strategy).__mro__]
    known = next((one for one in kinds if one in STRATEGIES or one in OTHERS), None)
    if known not in STRATEGIES:
        raise ValueError(f"dlrover.LightningCheckpoint: what a rank has under strategy {kinds[0]} is not known, and "
                         f"would be lost{OTHERS.get(known, '')}; known are {', '.join(STRATEGIES)}")
    if any(hasattr(one, "consolidate_state_dict") for one in trainer.optimizers):  # ZeroRedundancyOptimizer
        return False
    return own_place()[1] == 1 if known == "SingleDeviceStrategy" else None


def leave_out_ckpt_path(trainer: typing.Any) -> None:
    """In on_fit_start(): what fit() was given is not loaded over what was restored."""
    connector = trainer._checkpoint_connector
    connector._ckpt_path = None
    if trainer.strategy.restore_checkpoint_after_setup:  # else it is loaded already
        connector.resume_start = lambda *_args, **_more: vars(connector).pop("resume_start")


def no_requeue(trainer: typing.Any) -> None:
    """Under a job its supervisor requeues it. Before Lightning sets its handlers of signals."""
    environment = trainer._accelerator_connector.cluster_environment
    if getattr(environment, "auto_requeue", False):
        environment.auto_requeue = False
        if trainer.is_global_zero:
            print("dlrover: this job is requeued by its supervisor, not by Lightning: "
                  f"{type(environment).__name__}(auto_requeue=False)", file=sys.stderr)
