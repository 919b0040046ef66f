# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint (DCP) over libdlrover: for sharded state (DTensor, FSDP2).

    state = {"model": model.state_dict(), "epoch": 0}      # or a function that returns it
    ck = dlrover.dcp.bind(state)
    step = ck.restore()                       # 0: nothing to go on from; on another number of ranks too
    while step < last:
        compute()
        ck.fence()
        update()
        step += 1
        ck.step(step)                         # no word between the ranks

    dcp.save(state, checkpoint_id="120", storage_writer=dlrover.dcp.Writer("dir"))
    dcp.load(state, storage_reader=dlrover.dcp.Reader("dir"))

Every rank saves what it has, replicated tensors too, and each file says which part of the whole
its tensors are. So no rank needs another's plan: neither bind() nor dcp.save(no_dist=True) calls a
collective. Under a job (DLROVER_AGENT_SOCKET) the same goes to memory.
"""
from __future__ import annotations

import errno
import operator
import os
import typing
import warnings

import torch

try:
    from torch.distributed.checkpoint import DefaultLoadPlanner
    from torch.distributed.checkpoint.metadata import Metadata
    from torch.distributed.checkpoint.stateful import Stateful
    from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
    from torch.futures import Future

    from ._reader import Reader, done, read_before, step_of
except ImportError as error:
    raise ImportError(f"dlrover.dcp needs PyTorch 2.3 or newer, this is {torch.__version__}"
                      ) from error

from . import _joined
from ._checkpoint import Checkpoint, Error
from ._names import counterparts
from ._regions import NOTE, Again, Planner, Regions, leaves, mapping_of

if typing.TYPE_CHECKING:
    from torch.distributed.checkpoint import SavePlan, SavePlanner

__all__ = ["Bound", "Reader", "Writer", "bind"]
LOOK_EVERY = 64  # steps: what is not as it was should be told before a save is due


class Writer(StorageWriter):
    """For dcp.save(): the number at the end of checkpoint_id is the step, without one the last
    and 1. Tensors are registered at the first save and must keep their memory and layout, or be
    copied to buffers of the writer at each save: staged=True. They may change right after it then;
    the next save waits until the last one has let go of the buffers. For dcp.async_save() in a
    thread, whose copies lie elsewhere each time, it is staged=True, too. options are those of
    Checkpoint.
    Under a job, a step of which no save is due is not saved (saved says so). Without one each is,
    where neither every nor a number in DLROVER_CKPT_EVERY says otherwise.
    """

    def __init__(self, directory: str | os.PathLike | None = None, staged: bool = False,
                 **options: typing.Any) -> None:
        if ("every" not in options
                and os.environ.get("DLROVER_CKPT_EVERY", "") in ("", "auto")):
            options["every"] = 1  # who calls dcp.save() has chosen the step
        self._ck = Checkpoint(directory, **options)
        self._directory, self._begun = directory, False
        self._staged = staged
        self._plan = self._regions = None
        self._step = 0
        self.saved = self._told = False

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        step = step_of(checkpoint_id)
        self._step = self._step + 1 if step is None else step

    def __reduce__(self) -> typing.NoReturn:
        raise TypeError("a dlrover.dcp.Writer saves in its own process: dcp.async_save() is to have "
                        "async_checkpointer_type=AsyncCheckpointerType.THREAD")

    def set_up_storage_writer(self, is_coordinator: bool, *args: typing.Any,
                              **kwargs: typing.Any) -> None:
        pass

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        # Before DCP takes from it what other ranks have as well. Empty when DCP caches plans.
        if getattr(plan, "usable", True):
            self._plan = plan
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        self.begin(self._step, planner)
        self.fence()
        self.flush()  # dcp.save() returns when the files are there
        sizes = ((item, item.tensor_storage_size() or 0) for item in plan.items)
        return done([WriteResult(index=item.index, size_in_bytes=size, storage_data=None)
                      for item, size in sizes])

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        pass  # what each file says of itself is enough

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return step_of(checkpoint_id) is not None

    def name(self, planner: SavePlanner, had: dict[str, int] | None = None,
             called: dict[str, str] | None = None) -> Regions:
        """Registers what the plan names; see Regions."""
        self._regions = None
        self._ck.clear()
        self._regions = Regions(self._ck, self._plan, planner, self._staged, had, called)
        return self._regions

    def forget_names(self) -> None:
        """The next save names all."""
        self._regions = None

    def _make_ready(self, planner):
        """Everything is registered and where it is read from: as another layout where it was not."""
        why = ""
        if self._regions is not None and not self._regions.matches(self._plan):
            why = "the state has other tensors, or other shards, than before"
        elif self._regions is not None:
            why = self._regions.refresh(planner, self.fence)
        if why is None:
            return
        self.name(planner).refresh(planner, self.fence)
        if why and not self._told:
            warnings.warn(f"dlrover: {why}; all tensors are named anew (staged=True copies tensors that do not stay)",
                          RuntimeWarning, stacklevel=4)
            self._told = True

    def _stream(self):
        return torch.cuda.current_stream().cuda_stream if self._regions.on_gpu else None

    def wants(self, step: int) -> bool:
        """Whether the state is to be looked at in this step; pass_by() when not."""
        return self._regions is None or step % LOOK_EVERY == 0 or self._ck.due(step)

    def pass_by(self, step: int) -> bool:
        self._step, self.saved = step, False
        self._ck.progress(step)
        return False

    def begin(self, step: int, planner: SavePlanner) -> bool:
        self._make_ready(planner)
        return self._begin(step)

    def _go_on(self, step):
        """What is saved goes on from what was read there. Under a job the library has loaded it."""
        before = None if self._begun or "DLROVER_AGENT_SOCKET" in os.environ else read_before(self._directory, step)
        self._begun = True
        if before is None:
            return
        try:
            self._ck.go_on(before)
        except Error:
            pass  # another program's lock: begin tells it; a run's persist directory: nothing there goes on

    def _begin(self, step):
        self._go_on(step)
        if not self._ck.due(step):
            return self.pass_by(step)
        self._step = step
        self.saved = self._ck.begin(step, self._stream())
        return self.saved

    def begin_again(self, step: int, state: dict) -> bool | None:
        """As begin(), without a plan: None when the state has not the leaves that it had."""
        regions, found = self._regions, leaves(state, self._staged)
        if regions is None or found is None or found != regions.leaves:
            return None
        if regions.refresh(Again(state, regions.mapping), self.fence) is not None:
            return None
        return self._begin(step)

    def planned(self, state: dict) -> None:
        """What was registered last is this state."""
        self._regions.leaves = leaves(state, self._staged)

    def fence(self) -> None:
        if self._regions is not None:
            self._ck.fence(self._stream())

    def flush(self) -> None:
        self._ck.flush()

    def restore(self) -> tuple[int | None, set[str]]:
        """The step, and the names of what was not in the version."""
        regions = self._regions
        step, lacking = _joined.load(self._ck, regions.own_names())
        if step is None:
            return None, set()
        missing = set(self._ck.missing())
        return step, missing - regions.take_first(lacking) if lacking else missing

    @property
    def unnamed(self) -> bool:
        return self._regions is None

    @property
    def checkpoint(self) -> Checkpoint:
        return self._ck

    def stats(self) -> dict[str, int]:
        return self._ck.stats()

    def close(self) -> None:
        self._ck.close()


class Bound:
    """A state dict that is saved and restored without a word between the ranks; see the module's
    text. state is the dict, or a function that returns it: then it is asked at each step that is
    saved, so that plain values are of that step. Tensors must keep their memory (see Writer).
    What torch.compile, DDP and FSDP put before the keys of a dict may be another than it was. restore()
    fills tensors in place and puts plain values into the dict, which is .state; an
    object in it that has state_dict and load_state_dict is asked and told.
    """

    def __init__(self, state: dict | typing.Callable[[], dict],
                 directory: str | os.PathLike | None = None, staged: bool = False,
                 **options: typing.Any) -> None:
        self._make = state if callable(state) else lambda: state
        self._directory = directory
        self._rank = options["rank"] if options.get("world") else None
        self._reader = None  # of what restore() loaded from files
        self._allowed = False, False  # leftover, missing
        self._leftover, self._missing = [], []
        self._told, self._unsaved, self._quiet_until = set(), 0, 0
        self.state = self._dict = None
        self._writer = Writer(directory, staged, **{"every": 0, **options})

    def _ask(self):
        """As dcp.save does: of an object with a state dict of its own, that one."""
        self.state = self._make()
        self._dict = {key: value.state_dict() if isinstance(value, Stateful) else value
                      for key, value in self.state.items()}

    def _give_back(self):
        for key, value in self.state.items():
            if isinstance(value, Stateful):
                value.load_state_dict(self._dict[key])
            else:
                self.state[key] = self._dict[key]

    def _planner(self):
        self._ask()
        return self._plan()

    def _plan(self):
        planner = Planner()
        planner.set_up_planner(self._dict, is_coordinator=True)
        self._writer.prepare_local_plan(planner.create_local_plan())
        return planner

    def restore(self) -> int:
        """The step that was loaded, 0 when there is none, as dlrover.bind()'s. The ranks may be others, and more or
        fewer, than those that saved it: what is not sharded, a rank that was none takes from rank 0. What step() saves
        goes on from it.
        """
        if "DLROVER_AGENT_SOCKET" in os.environ:
            return self._restore_from_memory()
        reader = Reader(self._directory, rank=self._rank)
        try:
            reader.open()
        except FileNotFoundError:
            return 0
        except Error as error:
            if os.environ.get("DLROVER_CKPT_FRESH") not in ("on", "yes", "true", "1"):
                raise
            warnings.warn(f"dlrover: {error}; DLROVER_CKPT_FRESH=on: nothing is restored",
                          RuntimeWarning, stacklevel=2)
            return 0
        self._ask()
        metadata = reader.read_metadata()
        # PyTorch 2.3 does not know the word.
        partial = {"allow_partial_load": True} if self._allowed[1] else {}
        planner = DefaultLoadPlanner(**partial)
        planner.set_up_planner(self._dict, metadata, True)
        called = counterparts(planner.mappings, metadata.planner_data)
        if called:
            metadata = reader.rename(metadata, {its: ours for ours, its in called.items()})
            planner.set_up_planner(self._dict, metadata, True)
        self._check_names(planner.state_dict.keys(), metadata.state_dict_metadata.keys(),
                          reader.common())
        reader.read_data(planner.finish_plan(planner.create_local_plan()), planner)
        self._give_back()
        self._reader = reader
        return reader.step

    def _check_names(self, here, there, common):
        """As Checkpoint.restore() does."""
        leftover, missing = self._allowed
        self._leftover, self._missing = sorted(common - here), sorted(here - there)
        holds = self._leftover if not leftover else []
        lacks = self._missing if not missing else []
        if not holds and not lacks:
            return
        said = [f"{what} '{names[0]}' ({len(names)} in all)"
                for what, names in (("holds", holds), ("lacks", lacks)) if names]
        raise Error(errno.EBADMSG, f"the version {' and '.join(said)}, unlike the state (allow())")

    def _had(self):
        """Of the version that may be loaded: the bytes of each value by name, and what is where in the state dict."""
        ck = self._writer.checkpoint
        for rank in (ck.rank, 0):  # of the first where this one is new
            try:
                had = {one.name: one.nbytes for one in ck.regions(rank)}
                return had, mapping_of(ck.peek(rank, NOTE)) if NOTE in had else {}
            except Error:
                pass  # to be told by the load
        return {}, {}

    def _restore_from_memory(self):
        had, there = self._had()
        planner = self._planner()
        called = counterparts(planner.mappings, there)
        regions = self._writer.name(planner, had, called)
        step, missing = self._writer.restore()
        regions.write_note()
        if called:
            self._writer.forget_names()  # they are the version's
        self._leftover, self._missing = self._writer.checkpoint.leftover(), sorted(missing)
        if step is not None:
            planner = DefaultLoadPlanner()
            planner.set_up_planner(self._dict, Metadata({}), True)
            regions.give_back(planner, missing)
            self._give_back()
        return step or 0

    def allow(self, leftover: bool = False, missing: bool = False) -> None:
        """Lets restore() pass when names are left over in the version or missing from it: what is
        missing stays as it is. Before restore().
        """
        if self._reader is not None:
            raise Error(errno.EBUSY, "allow() comes before restore()")
        self._writer.checkpoint.allow(leftover, missing)
        self._allowed = bool(leftover), bool(missing)

    def leftover(self) -> list[str]:
        """Names that restore() found in the version only, in the files of all ranks."""
        return self._leftover

    def missing(self) -> list[str]:
        """Names that restore() did not find in the version."""
        return self._missing

    def peek(self, rank: int, name: str) -> bytearray:
        """The bytes of what a rank of the version had under a name of the state dict, flattened as
        DCP does: after restore(), before the first step().
        """
        if self._reader is None:
            return self._writer.checkpoint.peek(rank, name)
        return self._reader.region(rank, name)

    def step(self, step: int) -> bool:
        """The state is that of step now, and stays so until fence(). True when it is saved. Does not
        block, but for staged=True, which waits for the last save instead of fence(), and without a job, as
        Checkpoint.begin() does. Tensors that are elsewhere, or
        others, than in the last save are named anew, the first time with a warning. What prevents a save is one
        warning, and counted (stats(): unsaved); the training goes on.
        """
        self._reader = None
        step = operator.index(step)
        if not self._writer.wants(step) or step < self._quiet_until:
            return self._writer.pass_by(step)
        try:
            self._ask()
            saved = self._writer.begin_again(step, self._dict)
            if saved is None:
                saved = self._writer.begin(step, self._plan())
                self._writer.planned(self._dict)
            return saved
        except Exception as error:  # pylint: disable=broad-exception-caught
            # Of a planner and of objects that are not ours: none of it may end a training.
            self._unsaved += 1
            if str(error)[:40] not in self._told:
                warnings.warn(f"dlrover: step {step} is not saved, the training goes on: {error}", RuntimeWarning,
                              stacklevel=2)
            self._told.add(str(error)[:40])
            self._quiet_until = step + LOOK_EVERY if self._writer.unnamed else 0  # to name all has its price
            return self._writer.pass_by(step)

    def mark_bad(self, step: int) -> None:
        """See Checkpoint.mark_bad()."""
        self._writer.checkpoint.mark_bad(step)

    def fence(self) -> None:
        """After it the state may change: see Checkpoint.fence()."""
        self._writer.fence()

    def flush(self) -> None:
        """See Checkpoint.flush()."""
        self._writer.flush()

    def stats(self) -> dict[str, int]:
        """See Checkpoint.stats(). unsaved: steps whose state could not be had or named."""
        return {**self._writer.stats(), "unsaved": self._unsaved}

    def close(self) -> None:
        """See Checkpoint.close()."""
        self._writer.close()


def bind(state: dict | typing.Callable[[], dict], directory: str | os.PathLike | None = None,
         **options: typing.Any) -> Bound:
    """See Bound; options are staged and those of Checkpoint."""
    return Bound(state, directory, **options)
