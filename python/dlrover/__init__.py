# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in memory for training jobs: a thin binding of libdlrover.

bind() takes a PyTorch model and its optimizer, Checkpoint any arrays.
"""
from __future__ import annotations

import typing

from ._checkpoint import Checkpoint, Error, RoundEnded, SavedRegion

if typing.TYPE_CHECKING:
    import torch

    from ._resilient import Round
    from ._torch import Bound

__all__ = ["Checkpoint", "Error", "RoundEnded", "SavedRegion", "bind", "resilient", "round"]


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


def resilient(function: typing.Callable[..., typing.Any]) -> typing.Callable[..., typing.Any]:
    """Calls function again, in the same process, when its round ends because another node was lost. What it must make
    again each time: docs/resilient.md.
    """
    from ._resilient import resilient as decorate  # pylint: disable=import-outside-toplevel

    return decorate(function)


def round() -> Round:  # pylint: disable=redefined-builtin
    """The same as a context: `with dlrover.round() as r:` in a loop, again while r.ended."""
    from ._resilient import Round as Context  # pylint: disable=import-outside-toplevel

    return Context()


def __getattr__(name: str) -> typing.Any:
    """Adapters for frameworks (dlrover.frameworks), each imported when it is asked for: TrainerCallback, accelerate,
    LightningCheckpoint, deepspeed, megatron.
    """
    from .frameworks import find  # pylint: disable=import-outside-toplevel

    return find(name)
