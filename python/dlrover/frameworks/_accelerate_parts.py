# SPDX-License-Identifier: Apache-2.0
"""What a training is made of that was prepared by Accelerate."""
from __future__ import annotations

import os
import re
import typing

import torch

from .versions import require

hf = require("accelerate", "1.0", ["utils.broadcast_object_list"])


def prepared(accelerator: hf.Accelerator) -> list:
    """What has a state of its own that is saved."""
    return [*accelerator._models, *accelerator._optimizers, *accelerator._schedulers, *accelerator._custom_objects]


def _of_engine(engine):
    from .deepspeed import parts  # pylint: disable=import-outside-toplevel  # only where it is used

    arguments, inner = parts(engine)
    return arguments, [inner]


def _objects(accelerator, known):
    """By name, what is saved beside models and optimizers."""
    schedulers = [one for one in accelerator._schedulers if all(one.scheduler is not other for other in known)]
    known = [*known, *accelerator._optimizers, *accelerator._schedulers]
    others = [one for one in accelerator._custom_objects if all(one is not other for other in known)]
    objects = {f"{name}_{i}": one for name, ones in (("scheduler", schedulers), ("custom", others))
               for i, one in enumerate(ones)}
    if accelerator.scaler is not None:
        objects["scaler"] = accelerator.scaler
    return objects


def of(accelerator: hf.Accelerator) -> tuple[dict[str, typing.Any], list[torch.optim.Optimizer]]:
    """What Session.open() is to be given, and the optimizers that make updates. ValueError names what is not known."""
    kind, models = accelerator.distributed_type.value, list({id(one): one for one in accelerator._models}.values())
    if not models:
        raise ValueError("dlrover.accelerate: an optimizer is prepared and no model: prepare() the model, too")
    if accelerator.has_lomo_optimizer:
        raise ValueError("dlrover.accelerate: LOMO updates amid backward(), where no step ends: use another optimizer")
    if kind == "DEEPSPEED":
        arguments, optimizers = _of_engine(models[0])
    else:
        optimizers = [one.optimizer for one in accelerator._optimizers]
        # Its DDP is not in _models, which have what it wraps.
        replicated = kind.startswith("MULTI_") and not getattr(accelerator, "parallelism_config", None)
        arguments = {"model": models[0], "optimizer": optimizers if len(optimizers) > 1 else optimizers[0],
                     "replicated": replicated, **{f"model_{i}": one for i, one in enumerate(models) if i}}
    known = [*models, *optimizers, arguments.get("scheduler")]
    return {**arguments, **_objects(accelerator, known)}, optimizers


def name_on(accelerator: hf.Accelerator, first: int) -> None:
    """save_state() that names by itself refuses a name that is there, as of steps that are trained again since a
    restore. It goes on at first, or after the last that is there.
    """
    folder = os.path.join(accelerator.project_dir, "checkpoints")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = [re.fullmatch("checkpoint_([0-9]+)", name) for name in names]
    free = [max([first, *(int(one[1]) + 1 for one in found if one)])]
    hf.utils.broadcast_object_list(free)  # of rank 0: folders may be each node's own
    accelerator.project_configuration.iteration = free[0]
