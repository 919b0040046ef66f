# SPDX-License-Identifier: Apache-2.0
"""Random numbers as they were when batches were fetched: order and content of the same batches come again."""
from __future__ import annotations

import typing

import torch

from .. import _random


def numbers(devices: bool = False) -> dict[str, typing.Any]:
    """The generators of this process; with those of GPUs, which only what is computed draws from."""
    return {"torch": torch.get_rng_state(), **_random.get(devices)}


def put(saved: dict[str, typing.Any]) -> None:
    torch.set_rng_state(saved["torch"])
    _random.put(saved)


class Batches:
    """Of one epoch at a time. A sampler, and a loader's seed for its processes, draw when the epoch begins. Items and
    collators draw when a batch is fetched (masked tokens, crops of images), which is before its step, and mostly one
    batch ahead of it: the numbers at a step say nothing of the batches that it has already.

    Numbers are kept for two batches: of the first of a step, fetched before the last step was computed, and of the
    one after it, from which on nothing but fetches draws until the step begins.
    """

    def __init__(self) -> None:
        self._at_epoch, self._next = numbers(), 0
        self._before, self._again, self._wanted = {}, {}, ()  # by number of the batch in its epoch

    def begin_epoch(self, first: int = 0, fetched: int = 0, saved: dict[str, typing.Any] | None = None) -> None:
        """Before the loader is iterated. saved: what state() gave where the epoch goes on with batch first; the
        batches from fetched to first, one at least, are fetched again to be passed over.
        """
        self._again = {}
        if saved:
            put(saved["at_epoch"])
            self._again = {first + i: one for i, one in enumerate(saved["before"]) if first}
        self._before, self._next, self._wanted = {}, fetched, (first,)
        self._at_epoch = numbers()

    def before_fetch(self, first: int, count: int) -> None:
        """The batches of a step are fetched now, from first on, if not ahead of it; and maybe one more."""
        self._wanted = (self._next, first + 1, first + count)
        self._look()

    def _look(self):
        if self._next in self._again:
            put(self._again.pop(self._next))
        if self._next in self._wanted:  # to ask numpy takes longer than all else here
            self._before[self._next] = numbers()

    def collate(self, collate: typing.Callable, items: typing.Any) -> typing.Any:
        """In the place of a loader's collate_fn, where batches are fetched in this process."""
        batch = collate(items)
        self._next += 1
        self._look()
        return batch

    def state(self, first: int) -> dict[str, typing.Any]:
        """Of a step whose first batch is the epoch's batch first, when its batches have been fetched. Those before it
        are forgotten.
        """
        self._before = {number: one for number, one in self._before.items() if number >= first}
        return {"at_epoch": self._at_epoch,
                "before": [self._before[n] for n in (first, first + 1) if {first, n} <= self._before.keys()]}
