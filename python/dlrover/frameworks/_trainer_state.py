# SPDX-License-Identifier: Apache-2.0
"""What a Trainer has beside model, optimizer and scheduler: TrainerState, its callbacks' state, and what it counts."""
from __future__ import annotations

import dataclasses
import json
import typing
from collections import defaultdict

from transformers.trainer_callback import ExportableState

# Before version 5 the sum of losses that is logged next is the loop's only.
LOSS = ("_tr_loss", "_total_loss_scalar", "_globalstep_last_logged", "_initial_global_step")
COUNTS = ("current_flos", "_total_train_tokens")  # the last is TRL's


def _sums(trainer):
    """What TRL's trainers average for their next log, {mode: {name: numbers}}; {} of others."""
    sums = getattr(trainer, "_metrics", None)
    return sums if isinstance(sums, dict) and all(isinstance(one, defaultdict) for one in sums.values()) else {}


def read(trainer: typing.Any) -> dict[str, typing.Any]:
    """As it is now. state is the text of a trainer_state.json. TypeError: what a callback has cannot be written so."""
    state, names = trainer.state, COUNTS + LOSS * hasattr(trainer, LOSS[0])
    values = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    values["stateful_callbacks"] = type(state)(stateful_callbacks=[
        one for one in [*trainer.callback_handler.callbacks, trainer.control] if isinstance(one, ExportableState)
    ]).stateful_callbacks
    return {"step": state.global_step, "max_steps": state.max_steps,
            "counts": {name: getattr(trainer, name) for name in names if hasattr(trainer, name)},
            "sums": {mode: dict(sums) for mode, sums in _sums(trainer).items()},
            "state": json.dumps(values, default=lambda number: number.item()).encode()}


def put_callbacks(trainer: typing.Any, states: dict[str, typing.Any]) -> None:
    """states: those of a trainer_state.json, several of a class in their order. Into the callbacks that there are: who
    gave them to the Trainer may hold them.
    """
    for name, known in states.items():
        callbacks = [one for one in trainer.callback_handler.callbacks if type(one).__name__ == name]
        for callback, one in zip(callbacks, known if isinstance(known, list) else [known]):
            for key, value in one.get("attributes", {}).items():
                setattr(callback, key, value)


def put(trainer: typing.Any, saved: dict[str, typing.Any]) -> None:
    """What the Trainer's own resume computes otherwise, or leaves out. After it has made its TrainerState."""
    trainer.state.global_step = saved["step"]
    vars(trainer).update({"_globalstep_last_logged": saved["step"], **saved["counts"]})
    for mode, sums in saved["sums"].items():
        _sums(trainer)[mode].update(sums)
