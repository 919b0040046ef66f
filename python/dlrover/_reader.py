# SPDX-License-Identifier: Apache-2.0
"""What DCP reads: the files of all ranks as one storage."""
from __future__ import annotations

import errno
import json
import math
import os
import re
import typing

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties,
    TensorStorageMetadata)
from torch.distributed.checkpoint.planner import LoadItemType
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from . import _slots
from ._checkpoint import Error, own_place
from ._regions import NOTE, NOTE_VERSION, as_dcp

_read = {}  # directory: steps that have been read by this program

if typing.TYPE_CHECKING:
    import io

    from torch.distributed.checkpoint import LoadPlan, LoadPlanner


def step_of(checkpoint_id):
    """The number at the end: of "120", "runs/a/step-120"."""
    found = re.search(r"(\d+)/?$", os.fspath(checkpoint_id) if checkpoint_id is not None else "")
    return int(found[1]) if found else None


def directory_of(directory):
    """Where the files are, without a job."""
    return os.path.realpath(directory or os.environ.get("DLROVER_CKPT_DIR") or "dlrover-ckpt")


def read_before(directory, step):
    """The newest step before that one that a Reader of this program has read there; None: none."""
    return max((one for one in _read.get(directory_of(directory), ()) if one < step), default=None)


def done(value):
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


class Reader(StorageReader):
    """For dcp.load(): the newest whole version in a directory (of a program without a job, or
    persist/ of a run; also what dlrover.bind() or a program in C saved), or that of step, or of the number at the end
    of checkpoint_id. Any number of ranks may read what any other number wrote; of what is not sharded each gets its
    own, a rank that was not there the first's. Every byte is compared with its checksum. What a Writer saves in the
    same directory afterwards, and in the same process, goes on from it.
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
            self.step, self._slots = step_of(checkpoint_id), []

    def open(self, watch: typing.Callable[[int], typing.Callable[[int], None]] | None = None) -> None:
        """Finds and verifies the version; FileNotFoundError when there is none. watch, if given, is
        told how many bytes that are, and gives what is told how many have been verified.
        """
        if not self._slots:
            slots = _slots.open_version(self._directory, self.step, watch)
            self.step = slots[0].head.step
            _read.setdefault(directory_of(self._directory), set()).add(self.step)
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

    def rename(self, metadata: Metadata, called: dict[str, str]) -> Metadata:
        """What read_metadata() found, under the names of here; called has them by those of the version."""
        self.where = {(called.get(fqn, fqn), offset): one for (fqn, offset), one in self.where.items()}
        self._had = {called.get(fqn, fqn): ranks for fqn, ranks in self._had.items()}
        return Metadata({called.get(fqn, fqn): one for fqn, one in metadata.state_dict_metadata.items()},
                        planner_data={called.get(fqn, fqn): one for fqn, one in metadata.planner_data.items()})

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
        return done(None)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return True
