# SPDX-License-Identifier: Apache-2.0
"""Where a loop is in the dataloaders that Accelerate prepared, and how it comes there again."""
from __future__ import annotations

import contextlib
import typing

import torch

from .batches import numbers, put
from .versions import require

hf = require("accelerate", "1.0", ["data_loader.DataLoaderShard.get_sampler", "data_loader.DataLoaderStateMixin.end"])
END = object()


class _Indices:
    """In the place of a batch sampler of whole, which gives lists of indices, while an iteration begins: count lists
    are passed over, then each of the random numbers is put before a list is drawn, and its data fetched.
    """

    def __init__(self, whole: typing.Iterable, look: bool, count: int, random: list) -> None:
        self._whole, self._look = whole, look
        self.count, self.random = count, random
        self.drawn = None  # random numbers before the newest list was drawn, if look says so

    def __getattr__(self, name: str) -> typing.Any:
        return getattr(self._whole, name)

    def __len__(self) -> int:
        return len(self._whole)

    def __iter__(self) -> typing.Iterator:
        lists, random = iter(self._whole), list(self.random)
        for _ in range(self.count):
            next(lists, END)
        while True:
            if random:
                put(random.pop(0))
            if self._look:
                self.drawn = numbers()
            indices = next(lists, END)
            if indices is END:
                return
            yield indices


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
        self._indices = None

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
        """What the order of an iteration comes from that begins now."""
        base = self.loader.base_dataloader
        has_workers = base.persistent_workers and getattr(base, "_iterator", None) is not None
        return {"random": random, "has_workers": has_workers,
                "generators": [one.get_state() for one in self._generators()],
                "seed": getattr(self.loader.get_sampler(), "initial_seed", None)}

    def position(self) -> dict[str, typing.Any]:
        """To be asked between two steps. drawn is of the batch that comes next."""
        runs = self.given is not None and self.trains
        stateful = runs and getattr(self.loader, "use_stateful_dataloader", False)
        return {"iteration": self.loader.iteration, "given": self.done if runs else 0, "trains": self.trains,
                "start": self._start if runs else self._order(),
                "drawn": self._indices.drawn if runs and self._indices is not None else None,
                "stateful": self.loader.state_dict() if stateful else None}

    def go_on(self) -> None:
        """The next iteration is of the same number as the saved one, and its data in the same order."""
        self.loader.iteration, start = self.saved["iteration"], self.saved["start"]
        for one, state in zip(self._generators(), start["generators"]):
            one.set_state(state)
        if start["seed"] is not None:
            self.loader.get_sampler().initial_seed = start["seed"]
        if self.loader.iteration and getattr(self.loader, "use_stateful_dataloader", False):
            self.loader.base_dataloader.load_state_dict({})  # it had begun its first iteration when it was made

    # --- an iteration -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _begins(self, count=0, stateful=None, random=()):
        """The iteration that begins inside, and gives its first batch there, begins count batches later. Only where
        batches are no lists of indices, or rank 0 cuts them up, is data read and dropped.
        """
        loader, base = self.loader, self.loader.base_dataloader
        key = "sampler" if isinstance(base.sampler, torch.utils.data.BatchSampler) else "batch_sampler"
        whole, had, self._indices = getattr(base, key), loader.skip_batches, None
        if stateful is not None:
            base.load_state_dict(stateful)
        elif isinstance(base.dataset, torch.utils.data.IterableDataset) or not issubclass(
                type(loader), hf.data_loader.DataLoaderShard):
            loader.skip_batches += count
        elif (count or not base.num_workers) and not getattr(loader, "use_stateful_dataloader", False):
            self._indices = _Indices(whole, not base.num_workers, count, list(random))
            vars(base)[key] = self._indices
        yield
        loader.skip_batches, vars(base)[key] = had, whole
        if self._indices is not None:
            self._indices.count, self._indices.random = 0, []  # persistent workers keep it

    def run(self, batches: typing.Iterator, ask: typing.Callable, begun: int) -> typing.Iterator:
        """An iteration from its begin, or, where the loop got them elsewhere, from a number of batches. ask(self) is
        called when the loop asks for the next one, but after the last one.
        """
        self._start = self._order(numbers())
        with self._begins():
            batch = next(batches, END)
        yield from self._rest(batches, ask, begun, batch)

    def run_on(self, batches: typing.Iterator, ask: typing.Callable, given: int, random: dict) -> typing.Iterator:
        """The saved iteration after as many batches, with these random numbers then. The batch that comes next and the
        one after it are fetched at once now; before, the first of them was fetched a step earlier.
        """
        saved, self.saved = self.saved, None
        same = given == saved["given"]
        fetches = [saved["drawn"], random] if saved["drawn"] and same else []
        with self._begins(given, saved["stateful"] if same else None, fetches):
            if saved["start"]["has_workers"]:
                iter(self.loader.base_dataloader)  # whose start draws random numbers
            put(saved["start"]["random"] if given else random)
            self._start = self._order(numbers())
            batch = next(batches, END)
        if given and (not fetches or self.loader.end_of_dataloader):
            put(random)
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
