# SPDX-License-Identifier: Apache-2.0
"""What one rank saves of a state dict, as DCP plans it: the regions of a checkpoint."""
import errno
import hashlib
import io
import json

import torch
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.planner import LoadItemType, ReadItem, WriteItemType

from . import _joined, _plain
from ._checkpoint import Error

NOTE, NOTE_VERSION = ".dcp", 2  # the region that says what the others are to DCP
NAME_MAX = 255


class Planner(DefaultSavePlanner):
    """Leaves values as they are, where DCP's makes pickles of them."""

    def transform_object(self, write_item, object):  # pylint: disable=redefined-builtin
        return object


def _bytes_of(planner, item):
    """What is stored of a value. ValueError when that cannot be."""
    value = planner.resolve_data(item.write)
    if not isinstance(planner, Planner):
        value.seek(0)
        value = torch.load(value, weights_only=False)  # which this process made just now
    return _plain.encode(value, f"'{item.write.index.fqn}'")


def as_dcp(data, what):
    """A stored value in the form that DCP reads. Error when it is none; what calls it."""
    made = io.BytesIO()
    try:
        torch.save(_plain.decode(data), made)
    except ValueError as error:
        raise Error(errno.EBADMSG, f"{what} is not what dlrover.dcp saves: {error}") from None
    made.seek(0)
    return made


class Item:
    """One region: a tensor of this rank, or the bytes of a value."""

    def __init__(self, name, write):
        self.name, self.write = name, write
        self.is_bytes = write.type == WriteItemType.BYTE_IO
        self.memory = None  # what is registered: the tensor itself, or a buffer of ours
        self.dtype = None


class Regions:
    """A plan of DCP as regions of a checkpoint, registered once and brought up to date."""

    def __init__(self, ck, plan, planner, staged):
        self._ck, self._staged = ck, staged
        self._key = self._key_of(plan)
        self.items, self._names = [], {NOTE}
        for write in plan.items:
            self._add(write, planner)
        self._add_note(plan.planner_data)
        self.on_gpu = any(not item.is_bytes and item.memory.is_cuda for item in self.items)

    def _name_of(self, index):
        """Of itself the same on every rank, whatever else is there."""
        if index.fqn not in self._names and len(index.fqn.encode()) <= NAME_MAX:
            return index.fqn
        text = f"{index.fqn} {index.offset and tuple(index.offset)}"
        return f"{NOTE}.{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    @staticmethod
    def _key_of(plan):
        return [(w.index.fqn, w.index.offset, w.type, w.tensor_data and w.tensor_data.chunk)
                for w in plan.items]

    def matches(self, plan):
        return self._key_of(plan) == self._key

    def _add(self, write, planner):
        item = Item(self._name_of(write.index), write)
        self._names.add(item.name)
        self.items.append(item)
        if item.is_bytes:
            item.memory = bytearray(2 * len(_bytes_of(planner, item)) + 4096)
            self._ck.add(item.name, item.memory, "blob")
            return
        tensor = planner.resolve_data(write).detach()
        stays = tensor.is_contiguous() and not self._staged
        item.memory = tensor if stays else torch.empty_like(
            tensor, memory_format=torch.contiguous_format)
        item.dtype = str(tensor.dtype)
        chunk = write.tensor_data.chunk
        self._ck.add(item.name, item.memory, "shard", tuple(write.tensor_data.size),
                     tuple(chunk.offsets))

    def _add_note(self, mapping):
        rows = [[i.name, i.write.index.fqn, i.dtype] for i in self.items]
        text = json.dumps({"v": NOTE_VERSION, "items": rows, "mapping": list((mapping or {}).items())})
        self._note = bytearray(text.encode())
        self._ck.add(NOTE, self._note, "blob")

    def refresh(self, planner, fence):
        """Takes over what is not saved in place. ValueError names what is elsewhere now. fence()
        comes before the first copy: until then the last save may be reading these buffers.
        """
        waited = False
        for item in self.items:
            if item.is_bytes:
                self._put_bytes(item, _bytes_of(planner, item))
                continue
            value = planner.resolve_data(item.write)
            if not self._is_in_place(item, value):
                if not waited:
                    fence()
                waited = True
                item.memory.copy_(value.detach())

    def look(self, planner):
        """As refresh() does, without taking over anything."""
        for item in self.items:
            if not item.is_bytes:
                self._is_in_place(item, planner.resolve_data(item.write))

    def _is_in_place(self, item, value):
        if item.memory.data_ptr() == value.data_ptr():
            return True
        if self._staged or not value.is_contiguous():
            return False
        raise ValueError(f"'{item.name}' is at another address than in the first save: "
                         "keep the tensors, or say staged=True")

    def _put_bytes(self, item, data):
        size = len(data)
        if size > len(item.memory):
            raise ValueError(f"'{item.name}' takes {size} bytes now, there is room for "
                             f"{len(item.memory)}")
        item.memory[:size] = data
        self._ck.blob_size(item.name, size)

    def own_names(self):
        """Of what each rank has for itself."""
        return {NOTE, *(item.name for item in self.items if item.is_bytes)}

    def take_first(self, lacking):
        """This rank is new: its values are rank 0's. The names of what it lacks no more."""
        taken = {NOTE}
        for item in self.items:
            data = None
            if item.is_bytes and item.name in lacking:
                data = _joined.peek_first(self._ck, item.name)
            if data is None:
                continue
            if len(data) > len(item.memory):
                raise ValueError(f"'{item.name}' takes {len(data)} bytes, there is room for "
                                 f"{len(item.memory)}")
            item.memory[:len(data)] = data
            taken.add(item.name)
        return taken

    def give_back(self, planner, without):
        """After a restore into what is registered: values, and tensors that are not in place; not
        those whose names are in without.
        """
        for item in self.items:
            if item.name in without:
                continue
            index = item.write.index
            if item.is_bytes:
                read = ReadItem(LoadItemType.BYTE_IO, index, torch.Size([0]), index,
                                torch.Size([0]), torch.Size([0]))
                planner.load_bytes(read, as_dcp(item.memory, f"'{index.fqn}'"))
                continue
            zeros = torch.Size([0] * item.memory.dim())
            target = planner.resolve_tensor(ReadItem(LoadItemType.TENSOR, index, zeros, index,
                                                     zeros, item.memory.shape)).detach()
            if target.data_ptr() != item.memory.data_ptr():
                target.copy_(item.memory)
