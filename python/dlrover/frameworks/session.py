# SPDX-License-Identifier: Apache-2.0
"""What all adapters drive: one training of one framework, bound, restored and saved."""
from __future__ import annotations

import contextlib
import operator
import os
import typing
import warnings
import weakref

import torch

from .. import Checkpoint, bind
from .._source import Source
from .._torch import peek_objects

_open = weakref.WeakSet()  # Sessions: a model is saved by one


def _parameters(model):
    return {id(p) for p in model.parameters()}


class Session:
    """One training of one framework: binds, restores, saves. Nothing that goes wrong after open() ends the training:
    it is one warning of each matter, and counted in failures.

        session = Session("Trainer", directory=...)
        step = session.open(model, optimizer, scheduler=scheduler, loop=loop)
        ...
        session.step(step)      # after each update
        session.save(step)      # where the framework saves by itself
        ...
        session.close()

    options are those of Checkpoint (directory, rank, world, every, fence_ms, threads). Under a job the supervisor
    orders which steps are saved, whatever the framework's own points are; without one the framework's points are, and
    each of them is written to files beside the training. A Session is opened once; another training needs another.
    """

    def __init__(self, framework: str, **options: typing.Any) -> None:
        self.framework, self.failures = framework, 0
        self.in_job = "DLROVER_AGENT_SOCKET" in os.environ
        if not self.in_job and os.environ.get("DLROVER_CKPT_EVERY", "") in ("", "auto"):
            options.setdefault("every", 1)  # who calls save() has chosen the step
        self._options = options
        self._checkpoint, self._bound, self._model = None, None, None
        self._step = self._saved = 0
        self._asked = False
        self._told = set()

    @property
    def bound(self) -> typing.Any:
        """What bind() gave: None before open() and after close()."""
        return self._bound

    def _refuse_second(self, model):
        ours = _parameters(model)
        for other in list(_open):
            if other is self or not ours.isdisjoint(other._parameters()):
                raise ValueError(f"dlrover.{self.framework}: this model is saved by dlrover.{other.framework} already: "
                                 "leave one of them out, or close() it")

    def _parameters(self):
        model = self._model and self._model()
        return _parameters(model) if model is not None else set()

    def peek(self) -> dict[str, typing.Any]:
        """{name: value} of the objects in the version that open() will restore, for a framework that asks where to go
        on before model and optimizer are made. {} where there is no version; where one cannot be read, open() tells it.
        Before open(). Blocking as Checkpoint is.
        """
        self._checkpoint = self._checkpoint or Checkpoint(**self._options)
        return peek_objects(self._checkpoint)

    def open(self, model: torch.nn.Module, optimizer: typing.Any = None, replicated: bool | None = None,
             sources: typing.Sequence[Source] = (), restore: bool = True, **objects: typing.Any) -> int:
        """Binds and restores. The step to go on from, 0: a fresh start. Blocking as Bound.restore() is. Before the
        first step, ValueError and dlrover.Error name what cannot be saved or restored, and say what to do.

        All is as dlrover.bind() has it. replicated: whether parameters and optimizer state are the same on every rank,
        None: as it is found. sources: state that no module and no torch optimizer has as it is to be saved, see
        dlrover._source.Source. restore: False, on all ranks, where the newest version is of another training: nothing
        is loaded, and it is saved on from the step of that version, which is returned.
        """
        self._refuse_second(model)
        options = {"checkpoint": self._checkpoint} if self._checkpoint else self._options
        bound = bind(model, optimizer, replicated=replicated, sources=sources, **objects, **options)
        try:
            bound.allow(kind=True)  # one rank has no DistributedDataParallel
            self._step = self._saved = (bound.restore() if restore else bound.pass_over()) or 0
        except BaseException:
            bound.close()
            raise
        self._bound, self._model = bound, weakref.ref(model)
        _open.add(self)
        return self._step

    @contextlib.contextmanager
    def guard(self, what: str) -> typing.Iterator[None]:
        """An exception inside is one warning, once of each matter, and counted: what says what failed, as "step 7 is
        not saved".
        """
        try:
            yield
        except Exception as error:  # pylint: disable=broad-exception-caught
            # Of a framework and of objects that are not ours: none of it may end a training.
            self.failures += 1
            about = type(error), str(error)[:40]
            if about not in self._told:
                text = " ".join(str(error).split()) or type(error).__name__
                warnings.warn(f"dlrover.{self.framework}: {what}, the training goes on: {text}", RuntimeWarning,
                              stacklevel=4)
            self._told.add(about)

    def step(self, step: int) -> None:
        """The state is that of step, between two updates. Under a job it is saved when the supervisor orders it;
        without one only where save_now() asked for it. Steps increase; one that was told before is passed over.
        """
        if self._bound is None:
            return
        with self.guard(f"step {step} is not saved"):
            step = operator.index(step)
            if step <= self._step:
                return
            self._step = step
            if self.in_job:
                self._bound.step(step)
            elif self._asked:
                self._save(step)

    def save(self, step: int) -> None:
        """The framework saves by itself here: so do we without a job, beside the training. Under a job this does
        nothing, since the supervisor decides.
        """
        if self._bound is None or self.in_job:
            return
        with self.guard(f"step {step} is not saved"):
            self._save(operator.index(step))

    def _save(self, step):
        if step > self._saved:
            self._asked = False
            self._saved, self._step = step, max(step, self._step)
            self._bound.step(step)

    def save_now(self) -> None:
        """Asks for a save of a step from now on, and returns at once: under a job the supervisor orders one as soon as
        it can, without one the next step() is saved. Of several calls before it one counts.
        """
        if self._bound is None:
            return
        with self.guard("nothing more is saved now"):
            self._bound.save_now()
            self._asked = not self.in_job

    def wait_until_committed(self, step: int, limit_s: float = 300) -> bool:
        """See Checkpoint.wait_until_committed(). False after close()."""
        if self._bound is None:
            return False
        with self.guard(f"whether step {step} is committed is not known"):
            return self._bound.wait_until_committed(step, limit_s)
        return False

    def fence(self) -> None:
        """The state changes now elsewhere than in the optimizer's step(). Blocking as Bound.fence() is."""
        if self._bound is not None:
            with self.guard("the last save is not waited for"):
                self._bound.fence()

    def flush(self) -> None:
        """Waits until what was saved is durable; see Checkpoint.flush()."""
        if self._bound is not None:
            with self.guard("the last save is not waited for"):
                self._bound.flush()

    def close(self) -> None:
        """Waits for what is being saved, as flush() does. Nothing of ours is left at model and optimizer. After it
        every call does nothing.
        """
        opened, self._bound, self._checkpoint = self._bound or self._checkpoint, None, None
        _open.discard(self)
        if opened is not None:
            with self.guard("the last save is not waited for"):
                opened.close()
