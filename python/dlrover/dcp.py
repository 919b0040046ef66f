# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint (DCP) over libdlrover: for sharded state (DTensor, FSDP2).

    state = {"model": model.state_dict(), "epoch": 0}      # or a function that returns it
    ck = dlrover.dcp.bind(state)
    step = ck.restore() or 0                  # in place; on another number of ranks too
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
import json
import math
import os
import re
import typing

import torch

try:
    from torch.distributed.checkpoint import DefaultLoadPlanner
    from torch.distributed.checkpoint.metadata import (
        BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties,
        TensorStorageMetadata)
    from torch.distributed.checkpoint.planner import LoadItemType
    from torch.distributed.checkpoint.stateful import Stateful
    from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
    from torch.futures import Future
except ImportError as error:
    raise ImportError(f"dlrover.dcp needs PyTorch 2.3 or newer, this is {torch.__version__}"
                      ) from error

from . import _joined, _slots
from ._checkpoint import Checkpoint, Error, own_place
from ._regions import NOTE, NOTE_VERSION, Planner, Regions, as_dcp

if typing.TYPE_CHECKING:
    import io

    from torch.distributed.checkpoint import LoadPlan, LoadPlanner, SavePlan, SavePlanner

LOOK_EVERY = 64  # steps: what is not as it was should be told before a save is due


def _step_of(checkpoint_id):
    """The number at the end: of "120", "runs/a/step-120"."""
    found = re.search(r"(\d+)/?$", os.fspath(checkpoint_id) if checkpoint_id is not None else "")
    return int(found[1]) if found else None


def _done(value):
    future = Future()
    future.set_result(value)
    return future


def _torch_type(text, region):
    """The type that a note gives a tensor; None for a value."""
    if text is None:
        return None
    found = getattr(torch, text[len("torch."):])
    if (not isinstance(found, torch.dtype) or region.used != math.prod(region.local_shape) *
            torch.empty(0, dtype=found).element_size()):
        raise ValueError(f"'{region.name}' is not of type '{text}'")
    return found


class Writer(StorageWriter):
    """For dcp.save(): the number at the end of checkpoint_id is the step, without one the last
    and 1. Tensors are registered at the first save and must keep their memory and layout, or be
    copied to buffers of the writer at each save: staged=True. They may change right after it then;
    the next save waits until the last one has let go of the buffers. options are those of
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
        self._staged = staged
        self._plan = self._regions = None
        self._step = 0
        self.saved = False

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        step = _step_of(checkpoint_id)
        self._step = self._step + 1 if step is None else step

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
        sizes = ((item, item.tensor_storage_size() or 0) for item in plan.items)
        return _done([WriteResult(index=item.index, size_in_bytes=size, storage_data=None)
                      for item, size in sizes])

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        pass  # what each file says of itself is enough

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return _step_of(checkpoint_id) is not None

    def name(self, planner: SavePlanner) -> Regions:
        """Registers what the plan names, once."""
        if self._regions is None:
            self._regions = Regions(self._ck, self._plan, planner, self._staged)
        elif not self._regions.matches(self._plan):
            raise ValueError("the state has other tensors, or other shards, than in the first save")
        return self._regions

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
        regions = self.name(planner)
        if not self._ck.due(step):
            regions.look(planner)
            return self.pass_by(step)
        regions.refresh(planner, self.fence)
        self._step = step
        self.saved = self._ck.begin(step, self._stream())
        return self.saved

    def fence(self) -> None:
        if self._regions is not None:
            self._ck.fence(self._stream())

    def restore(self) -> tuple[int | None, set[str]]:
        """The step, and the names of what was not in the version."""
        regions = self._regions
        step, lacking = _joined.load(self._ck, regions.own_names())
        if step is None:
            return None, set()
        missing = set(self._ck.missing())
        return step, missing - regions.take_first(lacking) if lacking else missing

    @property
    def checkpoint(self) -> Checkpoint:
        return self._ck

    def stats(self) -> dict[str, int]:
        return self._ck.stats()

    def close(self) -> None:
        self._ck.close()


class Reader(StorageReader):
    """For dcp.load(): the newest whole version in a directory (of a program without a job, or
    persist/ of a run; also what dlrover.bind() or a program in C saved), or that of step, or of the number at the end of checkpoint_id. Any number of
    ranks may read what any other number wrote; of what is not sharded each gets its own, a rank
    that was not there the first's. Every byte is compared with its checksum.
    """

    def __init__(self, directory: str | os.PathLike | None = None, step: int | None = None,
                 rank: int | None = None) -> None:
        self._directory = directory or os.environ.get("DLROVER_CKPT_DIR") or "dlrover-ckpt"
        self._rank = own_place()[0] if rank is None else rank
        self.step = step
        self._slots = []
        self.where = {}  # (name, offset): slot, region, dtype
        self._had = {}  # name: ranks that had part of it

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        if checkpoint_id is not None:
            self.step, self._slots = _step_of(checkpoint_id), []

    def open(self, watch: typing.Callable[[int], typing.Callable[[int], None]] | None = None) -> None:
        """Finds and verifies the version; FileNotFoundError when there is none. watch, if given, is
        told how many bytes that are, and gives what is told how many have been verified.
        """
        if not self._slots:
            slots = _slots.open_version(self._directory, self.step, watch)
            self.step = slots[0].head.step
            # The own first: it counts where several ranks have the same box.
            self._slots = sorted(slots, key=lambda slot: slot.head.rank != self._rank)

    def read_metadata(self) -> Metadata:
        self.open()
        found, mapping, self.where, self._had = {}, {}, {}, {}
        for slot in self._slots:
            mapping = {**self._describe(slot, found), **mapping}
        return Metadata(found, planner_data=mapping)

    def _describe(self, slot, found):
        if NOTE not in slot.regions:
            self._describe_plain(slot, found)
            return {}
        try:
            note = json.loads(slot.bytes(slot.regions[NOTE]).numpy().tobytes())
            if note["v"] != NOTE_VERSION:
                raise ValueError(f"version {note['v']}, this reads {NOTE_VERSION}")
            for name, fqn, dtype in note["items"]:
                region = slot.regions[name]
                self._put(found, fqn, slot, region, _torch_type(dtype, region))
            return {fqn: tuple(path) for fqn, path in note["mapping"]}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Error(errno.EBADMSG, f"'{slot.path}': the note of what is saved is malformed: "
                        f"{error}") from None

    def _describe_plain(self, slot, found):
        """What bind() or a program in C named. Parts of a whole go by their name; what is a rank's
        own, or whole and not the same as another's, by "rank N/name".
        """
        for region in slot.regions.values():
            dtype = _slots.torch_type(region)
            own = region.kind in ("local", "blob") or dtype is None
            other = self.where.get((region.name, torch.Size(region.offset)))
            if (other and region.kind == "replicated"
                    and other[1].local_shape != region.local_shape):
                continue  # another node cuts it among more or fewer ranks
            if own or other and not torch.equal(other[0].bytes(other[1]), slot.bytes(region)):
                region = region._replace(name=f"rank {slot.head.rank}/{region.name}")
            if dtype is None:
                region = region._replace(shape=(region.used,), local_shape=(region.used,),
                                         offset=(0,))
            self._put(found, region.name, slot, region, dtype or torch.uint8)

    def _put(self, found, fqn, slot, region, dtype):
        offset = torch.Size(region.offset) if dtype else None
        self._had.setdefault(fqn, set()).add(slot.head.rank)
        if (fqn, offset) in self.where:
            return
        self.where[fqn, offset] = slot, region, dtype
        if not dtype:
            found[fqn] = BytesStorageMetadata()
            return
        whole = found.setdefault(fqn, TensorStorageMetadata(
            TensorProperties(dtype=dtype), torch.Size(region.shape), []))
        whole.chunks.append(ChunkStorageMetadata(offset, torch.Size(region.local_shape)))

    def common(self) -> set[str]:
        """Names that each rank had; others are parts of a state that is spread by names."""
        return {fqn for fqn, ranks in self._had.items() if len(ranks) == len(self._slots)}

    def region(self, rank: int, fqn: str) -> bytearray:
        """The bytes of what a rank had under a name. Error when it had nothing."""
        for slot in self._slots:
            if slot.head.rank == rank and fqn in slot.regions:
                return bytearray(slot.bytes(slot.regions[fqn]).numpy())
        raise Error(errno.ENOENT, f"rank {rank} of {len(self._slots)} had no region '{fqn}'")

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: typing.Any,
                              **kwargs: typing.Any) -> None:
        pass

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def chunk(self, index: MetadataIndex) -> torch.Tensor:
        """The stored tensor of a MetadataIndex, which must not be written to."""
        slot, region, dtype = self.where[index.fqn, index.offset]
        return slot.bytes(region).view(dtype).reshape(region.local_shape)

    def value(self, fqn: str) -> io.BytesIO:
        """What is no tensor, as DCP reads it. Error when it is not what this package stores."""
        slot, region, _ = self.where[fqn, None]
        return as_dcp(slot.bytes(region).numpy(), f"'{slot.path}': '{fqn}'")

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, self.value(item.storage_index.fqn))
                continue
            part = self.chunk(item.storage_index)
            for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths)):
                part = part.narrow(dim, start, length)
            target = planner.resolve_tensor(item).detach()
            target.copy_(part)
            planner.commit_tensor(item, target)
        return _done(None)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return True


class Bound:
    """A state dict that is saved and restored without a word between the ranks; see the module's
    text. state is the dict, or a function that returns it: then it is asked at each step that is
    saved, so that plain values are of that step. Tensors must keep their memory (see Writer).
    restore() fills tensors in place and puts plain values into the dict, which is .state; an
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
        planner = Planner()
        self._ask()
        planner.set_up_planner(self._dict, is_coordinator=True)
        self._writer.prepare_local_plan(planner.create_local_plan())
        return planner

    def restore(self) -> int | None:
        """The step that was loaded, None when there is none. The ranks may be others, and more or
        fewer, than those that saved it: what is not sharded, a rank that was none takes from rank 0.
        """
        if "DLROVER_AGENT_SOCKET" in os.environ:
            return self._restore_from_memory()
        reader = Reader(self._directory, rank=self._rank)
        try:
            reader.open()
        except FileNotFoundError:
            return None
        self._ask()
        metadata = reader.read_metadata()
        # PyTorch 2.3 does not know the word.
        partial = {"allow_partial_load": True} if self._allowed[1] else {}
        planner = DefaultLoadPlanner(**partial)
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

    def _restore_from_memory(self):
        regions = self._writer.name(self._planner())
        step, missing = self._writer.restore()
        self._leftover, self._missing = self._writer.checkpoint.leftover(), sorted(missing)
        if step is not None:
            planner = DefaultLoadPlanner()
            planner.set_up_planner(self._dict, Metadata({}), True)
            regions.give_back(planner, missing)
            self._give_back()
        return step

    def allow(self, leftover: bool = False, missing: bool = False) -> None:
        """Lets restore() pass when names are left over in the version or missing from it: what is
        missing stays as it is. Before restore().
        """
        self._allowed = bool(leftover), bool(missing)
        self._writer.checkpoint.allow(leftover, missing)

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
        block, but for staged=True, which waits for the last save instead of fence(). ValueError
        names what is not as it was in the first step: in the next one that is saved, or at most 64
        steps later.
        """
        self._reader = None
        if not self._writer.wants(step):
            return self._writer.pass_by(step)
        return self._writer.begin(step, self._planner())

    def fence(self) -> None:
        """After it the state may change: see Checkpoint.fence()."""
        self._writer.fence()

    def stats(self) -> dict[str, int]:
        """See Checkpoint.stats()."""
        return self._writer.stats()

    def close(self) -> None:
        """See Checkpoint.close()."""
        self._writer.close()


def bind(state: dict | typing.Callable[[], dict], directory: str | os.PathLike | None = None,
         **options: typing.Any) -> Bound:
    """See Bound; options are staged and those of Checkpoint."""
    return Bound(state, directory, **options)
