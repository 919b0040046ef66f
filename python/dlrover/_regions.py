# SPDX-License-Identifier: Apache-2.0
"""What one rank saves of a state dict, as DCP plans it: the regions of a checkpoint."""
import errno
import functools
import hashlib
import io
import json
import operator

import torch
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.planner import LoadItemType, ReadItem, WriteItemType

from . import _joined, _plain
from ._checkpoint import Error

NOTE, NOTE_VERSION = ".dcp", 2  # the region that says what the others are to DCP
NAME_MAX = 255
PLAIN = {type(None), bool, int, float, str}
DENSE = {torch.Tensor, torch.nn.Parameter}


class Planner(DefaultSavePlanner):
    """Leaves values as they are, where DCP's makes pickles of them."""

    def transform_object(self, write_item, object):  # pylint: disable=redefined-builtin
        return object


def _bytes_of(planner, item):
    """What is stored of a value. ValueError when that cannot be."""
    if isinstance(planner, Again):
        return _plain.encode(planner.value(item), f"'{item.write.index.fqn}'")
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


def mapping_of(note):
    """{name: path} of what a version has; nothing where the note is none."""
    try:
        return {fqn: tuple(key for key in path if type(key) in (str, int))
                for fqn, path in json.loads(note)["mapping"] if type(fqn) is str}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}  # to be told by the load


def leaves(node, staged):
    """{path: where it is, if it is a tensor}; None when there is one of which only DCP's planner knows."""
    found = {}

    def walk(node, path):
        kind = type(node)
        if kind in PLAIN:
            found[path] = None
        elif isinstance(node, torch.Tensor):
            local = node if kind in DENSE else node._local_tensor  # pylint: disable=protected-access
            found[path] = None if staged else local.data_ptr(), node.shape, local.shape, node.dtype, local.stride()
        elif isinstance(node, dict):
            for key, one in node.items():
                walk(one, (*path, key))
        elif kind in (list, tuple):
            for at, one in enumerate(node):
                walk(one, (*path, at))
        elif hasattr(node, "local_shards"):
            raise AttributeError
        else:
            found[path] = None

    try:
        walk(node, ())
    except AttributeError:
        return None  # a tensor of another kind
    return found


class Again:
    """In the place of a planner, for a state that has the same leaves as when the plan was made."""

    def __init__(self, state, mapping):
        self._state, self._mapping = state, mapping

    def value(self, item):
        path = self._mapping[item.write.index.fqn]
        found = functools.reduce(operator.getitem, path, self._state)
        return found if item.is_bytes or type(found) in DENSE else found._local_tensor


class Item:
    """One region: a tensor of this rank, or the bytes of a value."""

    def __init__(self, name, write):
        self.name, self.write = name, write
        self.is_bytes = write.type == WriteItemType.BYTE_IO
        self.memory = None  # what is registered: the tensor itself, or a buffer of ours
        self.dtype = None
        self.copied = True


class Regions:
    """A plan of DCP as regions of a checkpoint, registered once and brought up to date."""

    def __init__(self, ck, plan, planner, staged, had=None, called=None):
        """had: bytes by name, of values that are to be loaded; called: other names of what is in the version."""
        self._ck, self._staged, self._had, self._called = ck, staged, had or {}, called or {}
        self._key = self._key_of(plan)
        self.mapping = plan.planner_data or {}
        self.leaves = None  # of the state, once it is known that they are those of the plan
        self.items, self._names = [], {NOTE}
        for write in plan.items:
            self._add(write, planner)
        self._add_note(self.mapping)
        self._copied = [item for item in self.items if item.copied]
        self.on_gpu = any(not item.is_bytes and item.memory.is_cuda for item in self.items)

    def _name_of(self, index):
        """Of itself the same on every rank, whatever else is there."""
        fqn = self._called.get(index.fqn, index.fqn)
        if fqn not in self._names and len(fqn.encode()) <= NAME_MAX:
            return fqn
        text = f"{fqn} {index.offset and tuple(index.offset)}"
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
            size = max(len(_bytes_of(planner, item)), self._had.get(item.name, 0))
            item.memory = bytearray(2 * size + 4096)
            self._ck.add(item.name, item.memory, "blob")
            return
        tensor = planner.resolve_data(write).detach()
        stays = tensor.is_contiguous() and not self._staged
        item.copied = not stays
        item.memory = tensor if stays else torch.empty_like(
            tensor, memory_format=torch.contiguous_format)
        item.dtype = str(tensor.dtype)
        chunk = write.tensor_data.chunk
        self._ck.add(item.name, item.memory, "shard", tuple(write.tensor_data.size),
                     tuple(chunk.offsets))

    def _add_note(self, mapping):
        rows = [[i.name, i.write.index.fqn, i.dtype] for i in self.items]
        text = json.dumps({"v": NOTE_VERSION, "items": rows, "mapping": list(mapping.items())})
        self._text = text.encode()
        self._note = bytearray(self._text.ljust(self._had.get(NOTE, 0)))
        self._ck.add(NOTE, self._note, "blob")

    def write_note(self):
        """Again, after a load put the version's in its place."""
        self._note[:len(self._text)] = self._text
        self._ck.blob_size(NOTE, len(self._text))

    def refresh(self, planner, fence):
        """Takes over what is not saved in place: what stands against it, None when nothing does. fence()
        comes before the first copy: until then the last save may be reading these buffers.
        """
        again = isinstance(planner, Again)
        waited = False
        for item in self._copied if again else self.items:
            if item.is_bytes:
                if not self._put_bytes(item, _bytes_of(planner, item)):
                    return ""  # values grow
                continue
            value = planner.value(item) if again else planner.resolve_data(item.write)
            if not item.copied and item.memory.data_ptr() == value.data_ptr():
                continue
            if not item.copied:
                return f"'{item.name}' is at another address than before"
            if not waited:
                fence()
            waited = True
            item.memory.copy_(value.detach())
        return None

    def _put_bytes(self, item, data):
        size = len(data)
        if size > len(item.memory):
            return False
        item.memory[:size] = data
        self._ck.blob_size(item.name, size)
        return True

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
