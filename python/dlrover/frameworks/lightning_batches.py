# SPDX-License-Identifier: Apache-2.0
"""Which batches an epoch of Lightning has left, and the random numbers that decide it.

Lightning goes on in mid-epoch with a loader that begins anew, unless it has a state_dict(). Here the epoch is drawn
once more with the random numbers it began with, and the batches that were trained are thrown away.
"""
from __future__ import annotations

import typing

import torch

from . import batches

BEGUN = "dlrover_begun"  # of a CombinedLoader: the random numbers before its iter(), and before its first batch


def _generators(loader):
    """Those that a user gave to his loaders. They go on from one epoch to the next."""
    found = [getattr(one, "generator", None) for part in getattr(loader, "flattened", ())
             for one in (part, getattr(part, "sampler", None))]
    return [one for one in found if isinstance(one, torch.Generator)]


def own_numbers(loader: typing.Any) -> list[torch.Tensor]:
    """The state of these generators."""
    return [one.get_state() for one in _generators(loader)]


def _numbers(loader):
    """All that decides which batches come, and what is in them."""
    return {**batches.numbers(), "loader": own_numbers(loader)}


def put_numbers(state: dict[str, typing.Any], loader: typing.Any) -> None:
    batches.put(state)
    for one, known in zip(_generators(loader), state["loader"]):
        one.set_state(known)


def follow(kind: type) -> None:
    """A CombinedLoader of this class keeps the random numbers with which its epoch began. Once for each class."""
    begin, draw = kind.__iter__, kind.__next__

    def __iter__(self):
        setattr(self, BEGUN, [_numbers(self)])
        return begin(self)

    def __next__(self):
        begun = getattr(self, BEGUN, ())
        if len(begun) == 1:  # hooks may have drawn some since then
            begun.append(_numbers(self))
        return draw(self)

    kind.__iter__, kind.__next__ = __iter__, __next__


def resumable(loader: typing.Any, fetcher: typing.Any) -> bool:
    """Whether all loaders keep their own place, and it is that of the training: no batch waits in fetcher."""
    parts = getattr(loader, "flattened", ())
    return bool(parts) and not waiting(fetcher) and all(
        hasattr(one, "state_dict") and hasattr(one, "load_state_dict") for one in parts)


def waiting(fetcher: typing.Any) -> int:
    """Batches that were drawn ahead, to know which is the last."""
    return len(getattr(fetcher, "batches", ()))


def place(loader: typing.Any, fetcher: typing.Any) -> dict[str, typing.Any]:
    """Where the epoch is: what draw_again() takes. Before the first fit() has drawn anything: nothing of both."""
    return {"begun": list(getattr(loader, BEGUN, ())), "drawn": fetcher.fetched - waiting(fetcher) if fetcher else 0}


def draw_again(loader: typing.Any, fetcher: typing.Any, saved: dict[str, typing.Any]) -> None:
    """The next batch of fetcher is the one after those that were drawn. Blocking: they are loaded. An epoch that has
    become shorter is at its end then.
    """
    first, *rest = saved["begun"]
    put_numbers(first, loader)
    iter(fetcher)
    for state in rest:
        put_numbers(state, loader)
    source = getattr(fetcher, "iterator_wrapper", fetcher)  # of a training_step(dataloader_iter)
    for _ in range(saved["drawn"]):
        next(source, None)
