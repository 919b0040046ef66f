# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in memory for training jobs: a thin binding of libdlrover.

bind() takes a PyTorch model and its optimizer, Checkpoint any arrays.
"""
from __future__ import annotations

import typing

from ._checkpoint import Checkpoint, Error, SavedRegion

if typing.TYPE_CHECKING:
    import torch

    from ._torch import Bound

__all__ = ["Checkpoint", "Error", "SavedRegion", "bind"]


def bind(model: torch.nn.Module, optimizer: typing.Any = None, extra: typing.Any = None,
         replicated: bool | None = False, **more: typing.Any) -> Bound:
    """Registers a model's and an optimizer's tensors once; see dlrover._torch.Bound. optimizer: one,
    a list or a dict of them, or what wraps them. replicated: tensors are the same on every rank (DDP), and a
    node keeps them once; None: as it is found. more: scheduler=, scaler=, ema=..., whatever has state_dict and
    load_state_dict; sources=; and the options of Checkpoint. Blocking as Checkpoint is; Error when that cannot be
    opened, ValueError names what cannot be saved.
    """
    from ._torch import bind as bind_torch  # pylint: disable=import-outside-toplevel

    return bind_torch(model, optimizer, extra, replicated, **more)


def __getattr__(name: str) -> typing.Any:
    """Adapters for frameworks (dlrover.frameworks), each imported when it is asked for: TrainerCallback, accelerate,
    LightningCheckpoint, deepspeed, megatron.
    """
    from .frameworks import find  # pylint: disable=import-outside-toplevel

    return find(name)
