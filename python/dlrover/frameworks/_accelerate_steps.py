# SPDX-License-Identifier: Apache-2.0
"""A training with Accelerate: what it is made of, where its steps end, how its loops go on after a restore."""
from __future__ import annotations

import functools
import operator
import typing
import warnings

from . import _accelerate_parts
from ._accelerate_loaders import Place
from .batches import numbers
from .session import Session


class Training:
    """Opened by the first loop, when all is prepared. An object, too, whose state is the position in the data."""

    def __init__(self, accelerator: typing.Any, session: Session) -> None:
        self.accelerator, self.session = accelerator, session
        self.opened = self.begun = self.wanted = False  # begun: a loop runs or ran; wanted: a save at the next step
        self.started_from = self.steps = 0
        self.places = []
        self.replicated, self.unsynced = False, 0  # unsynced: how many no_sync() there are around
        self.pending = None  # places in whose loops the updates since the last step were; None: there were none
        self._saved, self._random, self._known, self._hooks = {}, None, [], []
        self._counts_epochs = self._at_end = False
        self._calls = self._epoch = 0
        self._last, self._told = None, set()

    def tell(self, text: str) -> None:
        """A warning, once of each matter."""
        if text not in self._told and self.accelerator.is_main_process:
            warnings.warn(f"dlrover.accelerate: {text}", RuntimeWarning, stacklevel=4)
        self._told.add(text)

    # --- the position ---------------------------------------------------------------------------

    def state_dict(self) -> dict[str, typing.Any]:
        accelerator = self.accelerator
        return {"epochs": (self._calls, self._epoch + self._at_end), "accumulated": accelerator.step,
                "world": accelerator.num_processes, "save_iteration": accelerator.save_iteration,
                "places": [place.position() for place in self.places]}

    def load_state_dict(self, saved: dict[str, typing.Any]) -> None:
        self._saved = saved
        self.accelerator.step = saved["accumulated"]
        for place, one in zip(self.places, saved["places"]):
            place.saved = one

    # --- begin and end --------------------------------------------------------------------------

    def open(self) -> None:
        """Once, as soon as there is what is trained: binds and restores. Errors are those of Session.open()."""
        accelerator = self.accelerator
        if self.opened or not accelerator._optimizers:
            return
        arguments, optimizers = _accelerate_parts.of(accelerator)
        self.replicated = arguments["replicated"]
        self.started_from = self.steps = self.session.open(**arguments, position=self)
        self.opened, self._known, self._random = True, _accelerate_parts.prepared(accelerator), numbers(devices=True)
        self._hooks = [one.register_step_post_hook(self._updated) for one in optimizers]
        if arguments["optimizer"] is None:  # nothing else waits until the last save let go
            self._hooks += [one.register_step_pre_hook(lambda *_: self.session.fence()) for one in optimizers]
        if self.steps and accelerator.project_configuration.automatic_checkpoint_naming:
            _accelerate_parts.name_on(accelerator, self._saved["save_iteration"])

    def must_open(self, what: str) -> None:
        self.open()
        if not self.opened:
            raise ValueError(f"dlrover.accelerate: {what} was asked before an optimizer was prepared: prepare() first")

    def close(self) -> None:
        self.finish()
        self.session.close()
        for hook in self._hooks:
            hook.remove()

    # --- steps -----------------------------------------------------------------------------------

    def _updated(self, optimizer, *_):
        """After an update, not after one that a scaler skipped."""
        running = [place for place in self.places if place.given is not None]
        for place in running:
            place.updated()
        if not running and self.pending is not None and self._last is optimizer:
            self.tell("nothing is saved, since nothing says where a step ends: the loop has no prepared dataloader and "
                      "no accumulate(): call accelerator.dlrover.step_done() after each step")
        self.begun, self.pending, self._last = True, running, optimizer

    def finish(self) -> None:
        """Of a step, where no loop is amid one."""
        if self.pending is not None and all(place.given is None for place in self.pending):
            self.count_step(at_end=bool(self.pending))

    def count_step(self, at_end: bool = False) -> None:
        """The state is that after a step. at_end: and its epoch is over."""
        self.pending, self._at_end = None, at_end
        self.steps += 1
        now = _accelerate_parts.prepared(self.accelerator)
        if len(now) != len(self._known) or any(map(operator.is_not, now, self._known)):
            self.tell("what was prepared or registered after the training began is not saved")
        self.session.step(self.steps)
        self.save()

    def save(self) -> None:
        if self.wanted and self.steps:
            self.wanted = False
            self.session.save(self.steps)

    # --- loops -----------------------------------------------------------------------------------

    def epochs(self, count: int) -> typing.Iterator[int]:
        """range(count), from the saved one."""
        self.must_open("epochs()")
        self.begun = self._counts_epochs = True
        self._calls += 1
        calls, epoch = self._saved.get("epochs", (0, 0))
        first = 0 if self._calls > calls else epoch if self._calls == calls else count
        for self._epoch in range(first, count):
            yield self._epoch
            self.finish()

    def add(self, loader: typing.Any) -> None:
        """A loader was prepared."""
        if all(place.loader is not loader for place in self.places):
            self.places.append(Place(loader))
            self.watch(self.places[-1], loader, 0)

    def watch(self, place: Place, loader: typing.Any, begun: int) -> None:
        """loader begins after as many batches of place."""
        place.watch(loader, functools.partial(self._iterate, place, begun))

    def _ask(self, place):
        """place's loop asks for a batch."""
        if self.pending and place in self.pending:
            self.count_step()

    def _iterate(self, place, begun, loader, plain):
        place.loader, place.given = loader, None
        if not self._counts_epochs:
            self._ask(place)
        self.open()
        if self.unsynced and self.replicated:
            raise ValueError("dlrover.accelerate: the ranks' weights may differ in this loop (LocalSGD, no_sync), they "
                             "are saved as the same: leave that out")
        if place.saved and place.saved["trains"]:
            yield from self._go_on(place, loader, plain)
            return
        if place.trains and not self._counts_epochs:
            self.tell("after a restart a loop over range() runs epochs that are done again, without batches: write "
                      "`for epoch in accelerator.dlrover.epochs(n)`")
        yield from place.run(plain(loader), self._ask, begun)

    def _go_on(self, place, loader, plain):
        self.begun, saved = True, place.saved
        if not self._counts_epochs and loader.iteration < saved["iteration"]:
            loader.iteration += 1
            return
        for other in self.places:
            if other.saved and (other is place or not other.saved["trains"]):
                other.go_on()
        given = saved["given"]
        if not self.accelerator.split_batches:  # a batch of each rank's own is one of the dataset's
            given = given * self._saved["world"] // self.accelerator.num_processes
        yield from place.run_on(plain(loader), self._ask, given, self._random)
