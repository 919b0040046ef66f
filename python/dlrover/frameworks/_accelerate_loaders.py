# SPDX-License-Identifier: Apache-2.0
"""Where a loop is in the dataloaders that Accelerate prepared, and how it comes there again."""
from __future__ import annotations

import contextlib
import typing

import torch

from .. import _random
from .versions import require

hf = require("accelerate", "1.0", ["data_loader.DataLoaderShard.get_sampler", "data_loader.DataLoaderStateMixin.end",
                                   "data_loader.SkipBatchSampler"])
END = object()


def random_numbers() -> tuple[torch.Tensor, dict]:
    return torch.get_rng_state(), _random.get()


def put_random_numbers(state: tuple[torch.Tensor, dict]) -> None:
    torch.set_rng_state(state[0])
    _random.put(state[1])


class Place:
    """A prepared dataloader, and how far its loop is in it. Batches are counted from the begin of an iteration over it,
    those of all ranks at once being one.
    """

    def __init__(self, loader: typing.Any) -> None:
        self.loader = loader  # the one that runs: skip_first_batches() makes others of it
        self.given = None  # batches that the loop was given; None: no iteration runs
        self.done = 0  # as many at the last update
        self.trains = False  # updates are made in its loop
        self.saved = None  # where to go on
        self._start = None  # what the order of the iteration that runs comes from

    def watch(self, loader: typing.Any, iterate: typing.Callable) -> None:
        """From now on iterate(loader, plain) is what a loop over loader gets, plain being what it would get."""
        kind = type(loader)
        plain = kind.__iter__
        ours = type(kind.__name__, (kind,), {"__iter__": lambda one: iterate(one, plain)})
        vars(object)["__class__"].__set__(loader, ours)  # its own __class__ is that of torch's loader

    def updated(self) -> None:
        self.done, self.trains = self.given, True

    # --- the position ---------------------------------------------------------------------------

    def _generators(self):
        sampler = self.loader.get_sampler()
        ones = (getattr(self.loader, "synchronized_generator", None), getattr(sampler, "generator", None),
                getattr(self.loader.base_dataloader, "generator", None))
        return list({id(one): one for one in ones if one is not None}.values())

    def _order(self, random=None):
        """What the order of an iteration that begins now comes from."""
        has_workers = getattr(self.loader.base_dataloader, "_iterator", None) is not None  # those that stay
        return {"random": random, "has_workers": has_workers,
                "generators": [one.get_state() for one in self._generators()],
                "seed": getattr(self.loader.get_sampler(), "initial_seed", None)}

    def position(self) -> dict[str, typing.Any]:
        """To be asked between two steps."""
        runs = self.given is not None and self.trains
        stateful = runs and getattr(self.loader, "use_stateful_dataloader", False)
        return {"iteration": self.loader.iteration, "given": self.done if runs else 0, "trains": self.trains,
                "start": self._start if runs else self._order(),
                "stateful": self.loader.state_dict() if stateful else None}

    def go_on(self) -> None:
        """The next iteration is of the same number as the saved one, and its data in the same order."""
        self.loader.iteration, start = self.saved["iteration"], self.saved["start"]
        for one, state in zip(self._generators(), start["generators"]):
            one.set_state(state)
        if start["seed"] is not None:
            self.loader.get_sampler().initial_seed = start["seed"]

    # --- an iteration -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _passing(self, count, stateful):
        """The iteration that begins inside, and gives its first batch there, begins count batches later. Only where
        batches are no lists of indices, or rank 0 cuts them up, is data read and dropped.
        """
        loader, base = self.loader, self.loader.base_dataloader
        by_index = (issubclass(type(loader), hf.data_loader.DataLoaderShard)
                    and not isinstance(base.dataset, torch.utils.data.IterableDataset))
        key = "sampler" if isinstance(base.sampler, torch.utils.data.BatchSampler) else "batch_sampler"
        whole, had, rest = getattr(base, key), loader.skip_batches, None
        if stateful is not None:
            base.load_state_dict(stateful)
        elif not by_index:
            loader.skip_batches += count
        elif count:
            loader.set_epoch(loader.iteration)
            vars(base)[key] = rest = hf.data_loader.SkipBatchSampler(whole, count)
        yield
        loader.skip_batches, vars(base)[key] = had, whole
        if rest is not None:
            rest.skip_batches = 0  # persistent workers keep it for the next iterations

    def run(self, batches: typing.Iterator, ask: typing.Callable, begun: int) -> typing.Iterator:
        """An iteration from its begin, or, where the loop got them elsewhere, from a number of batches. ask(self) is
        called when the loop asks for the next one, but after the last one.
        """
        self._start = self._order(random_numbers())
        yield from self._rest(batches, ask, begun, next(batches, END))

    def run_on(self, batches: typing.Iterator, ask: typing.Callable, given: int, random: tuple) -> typing.Iterator:
        """The saved iteration after as many batches, with these random numbers then."""
        saved, self.saved = self.saved, None
        with self._passing(given, saved["stateful"] if given == saved["given"] else None):
            if saved["start"]["has_workers"]:
                iter(self.loader.base_dataloader)  # whose start draws random numbers
            put_random_numbers(saved["start"]["random"] if given else random)
            self._start = self._order(random_numbers())
            batch = next(batches, END)
        if given:
            put_random_numbers(random)
        yield from self._rest(batches, ask, given, batch)

    def _rest(self, batches, ask, given, batch):
        self.given = given
        try:
            while batch is not END:
                self.given += 1
                yield batch
                if not self.loader.end_of_dataloader:
                    ask(self)
                batch = next(batches, END)
        finally:
            self.given = None
