# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in memory for training jobs: a thin binding of libdlrover.

bind() takes a PyTorch model and its optimizer, Checkpoint any arrays.
"""
from __future__ import annotations

import sys
import typing

from ._checkpoint import Checkpoint, Error, RoundEnded, SavedRegion

if typing.TYPE_CHECKING:
    import torch

    from ._resilient import Round
    from ._torch import Bound
    from ._watch import Watch

__all__ = ["Checkpoint", "Error", "RoundEnded", "SavedRegion", "bind", "pause", "phase", "resilient", "round", "watch"]

if "torch" in sys.modules:
    from ._groups import count_messages

    count_messages()


def bind(model: torch.nn.Module, optimizer: typing.Any = None, extra: typing.Any = None,
         replicated: bool | None = False, **more: typing.Any) -> Bound:
    """Registers a model's and an optimizer's tensors once; see dlrover._torch.Bound. optimizer: one,
    a list or a dict of them, or what wraps them. replicated: tensors are the same on every rank (DDP), and a
    node keeps them once; None: as it is found. more: scheduler=, scaler=, ema=..., whatever has state_dict and
    load_state_dict; sources=; feeds=[dlrover.feed.Feed(...)]; and the options of Checkpoint. Blocking as Checkpoint
    is; Error when that cannot be opened, ValueError names what cannot be saved.
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


def watch(total: int | None = None) -> Watch:
    """Says how far the program is: step() of what is returned at each step, total how many there will be (docs/watch.md).
    bind().step() and Checkpoint.begin() tell steps by themselves. Without a job it does nothing. Blocks 5 s at most.
    """
    from ._watch import watch as watch_process  # pylint: disable=import-outside-toplevel

    return watch_process(total)


def phase(name: str, limit: float | str | None = None) -> typing.ContextManager[None]:
    """`with dlrover.phase("eval", limit="20m"):` what the program does in place of steps, and for how long at most
    (90, "90s", "20m", "2h"; None: not known). ValueError for another limit.
    """
    return watch().phase(name, limit)


def pause() -> typing.ContextManager[None]:
    """`with dlrover.pause():` the program waits on purpose, for as long as it takes."""
    return watch().pause()


def __getattr__(name: str) -> typing.Any:
    """The module feed, and adapters for frameworks (dlrover.frameworks), each imported when it is asked for:
    TrainerCallback, accelerate, LightningCheckpoint, deepspeed, megatron.
    """
    if name == "feed":
        import importlib  # pylint: disable=import-outside-toplevel

        return importlib.import_module(".feed", __name__)
    from .frameworks import find  # pylint: disable=import-outside-toplevel

    return find(name)
