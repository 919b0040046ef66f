# SPDX-License-Identifier: Apache-2.0
"""Megatron's model and optimizer as boxes of the wholes that it names: no copy, and no word between the ranks."""
from __future__ import annotations

import collections
import functools
import itertools
import math
import re
import typing

import torch
from megatron.core import parallel_state
from megatron.core.dist_checkpointing.dict_utils import nested_values
from megatron.core.dist_checkpointing.mapping import ShardedObject, ShardedTensor, ShardedTensorFactory
from megatron.core.optimizer.optimizer import MegatronOptimizer

from .. import _plain, _slots
from .._checkpoint import Checkpoint, SavedRegion
from .._objects import _join as join
from .._source import Row
from .._tree import NOTE
from ._boxes import Box, cut, note, plan, pull
from ._megatron_files import from_plain, to_plain
from ._megatron_optimizer import MASTER, held, known, masters, options, put_options

STATE = re.compile(r"optimizer\.state\.([^.]+)\.")


def _unwrapped(chunk):
    while isinstance(getattr(chunk, "module", None), torch.nn.Module):
        chunk = chunk.module
    if not hasattr(chunk, "sharded_state_dict"):
        raise ValueError(f"dlrover.megatron.bind(): a {type(chunk).__name__} has no sharded_state_dict(): give a model "
                         "of Megatron-core, or the list of its chunks")
    return chunk


def _storage(tensor):
    return tensor.untyped_storage().data_ptr()


def _boxes(part, owner, tensor, key, start=0, end=None):
    """tensor has items [start, end) of owner: as boxes of the whole that part, a view of owner, is a box of."""
    end = owner.numel() if end is None else end
    data, axes = part.data, (1,) * part.prepend_axis_num
    base = data.storage_offset() - owner.storage_offset()
    if getattr(part, "flattened_range", None) is not None:
        raise ValueError(f"'{part.key}' is a flattened range, which is no box of the whole")
    if _storage(data) != _storage(owner):
        raise ValueError(f"'{part.key}' is a copy that a ShardedTensorFactory makes, which cannot be saved in place: "
                         "use SaveStrategy")
    if end - start == owner.numel():
        view = tensor.detach().as_strided(data.shape, data.stride(), tensor.storage_offset() + base)
        yield Box(key, view.view(*axes, *data.shape) if axes else view, tuple(part.global_shape),
                  tuple(part.global_offset), part.allow_shape_mismatch)
        return
    if not data.is_contiguous() or not owner.is_contiguous():
        raise ValueError(f"'{part.key}' is not contiguous: items {start} to {end} of it, which this rank's optimizer "
                         "has, are no boxes of the whole")
    first, last = max(start, base), min(end, base + data.numel())
    flat, at = tensor.detach().view(-1), first - start
    for offset, shape in cut(data.shape, first - base, last - base):
        size, before = math.prod(shape), len(axes)
        yield Box(key, flat[at:at + size].view(*axes, *shape), tuple(part.global_shape),
                  (*part.global_offset[:before], *map(sum, zip(part.global_offset[before:], offset))),
                  part.allow_shape_mismatch)
        at += size


class _Tensors(dict):
    """Large tensors of a rank's objects, by name: each is read when it is asked for."""

    def __init__(self, checkpoint, rank):
        super().__init__()
        self._read = lambda name: checkpoint.peek(rank, name)
        self._regions = functools.cache(lambda: {region.name: region for region in checkpoint.regions(rank)})

    def __missing__(self, name):
        region = self._regions()[name]
        return torch.frombuffer(self._read(name), dtype=_slots.torch_type(region)).view(region.shape)


class State:
    """A Source, and functions to give to dlrover.bind() beside it. metadata: as sharded_state_dict() takes it."""

    def __init__(self, chunks: typing.Sequence[torch.nn.Module], optimizer: MegatronOptimizer | None,
                 metadata: dict | None) -> None:
        self._chunks, self._optimizers = [_unwrapped(chunk) for chunk in chunks], known(optimizer)
        self._metadata, self._checkpoint = metadata or {}, None
        self._seen, self._rows, self._world = None, [], 0  # world: of the version
        self._takes = None  # of a restore, once it is prepared: what is not loaded in place, and where it is

    def inner(self) -> list[torch.optim.Optimizer]:
        return [one.optimizer for one in self._optimizers]

    def attach(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    # --- tensors -------------------------------------------------------------------------

    def _sharded(self):
        """(chunk, name there, what Megatron says of it)."""
        group = parallel_state.get_data_parallel_group(with_context_parallel=True)
        for chunk in self._chunks:
            for name, one in chunk.sharded_state_dict(metadata={"dp_cp_group": group, **self._metadata}).items():
                yield chunk, name, one

    def _look(self):
        parts, found = collections.defaultdict(list), []
        for _, _, one in self._sharded():
            built = one.build() if isinstance(one, ShardedTensorFactory) else one
            for part in nested_values({"": built}):
                if isinstance(part, ShardedTensor):
                    parts[id(one.data)].append(part)
                    found += _boxes(part, one.data, one.data, part.key)
        for one in self._optimizers:
            for parameter, master, start, end in masters(one):
                if id(parameter) not in parts:
                    raise ValueError(f"a parameter {tuple(parameter.shape)} of the {type(one).__name__} is in no "
                                     "sharded_state_dict() of the model: its state would be lost")
                for name, value in held(one, master).items():
                    if _storage(value) != _storage(parameter):  # of fp32 parameters: they are the model's own
                        for part in parts[id(parameter)]:
                            found += _boxes(part, parameter, value, f"optimizer.state.{name}.{part.key}", start, end)
        return [box for box in found if box.tensor.numel()]

    def _addresses(self):
        live = [tensor for chunk in self._chunks for tensor in itertools.chain(chunk.parameters(), chunk.buffers())]
        live += [value for one in self._optimizers for _, master, _, _ in masters(one)
                 for value in held(one, master).values()]
        return list(map(torch.Tensor.data_ptr, live))

    def tensors(self) -> list[Row]:
        if self._takes is None:
            seen = self._addresses()
            if seen != self._seen:
                boxes = {}
                for box in self._look():
                    boxes.setdefault(box.name, box)  # tied ones once
                self._rows, self._seen = [*(box.row() for box in boxes.values()), note(boxes.values())], seen
        return self._rows

    # --- restore -------------------------------------------------------------------------

    def _make_state(self, had):
        """What the version has of an optimizer that made no step yet."""
        regions = had
        for rank in range(self._world):
            if any(STATE.match(name) for name in regions):
                break
            regions = {region.name: region for region in self._checkpoint.regions(rank)}
        names = {STATE.match(name)[1]: _slots.torch_type(region) for name, region in regions.items()
                 if STATE.match(name)}
        names.pop(MASTER, None)
        for one in self._optimizers:
            for _, master, _, _ in masters(one):
                for name in names.keys() - one.optimizer.state[master].keys():
                    one.optimizer.state[master][name] = torch.zeros_like(master.detach(), dtype=names[name])

    def prepare(self, had: dict[str, SavedRegion]) -> None:
        self._world = self._checkpoint.list(1)[0][3]  # what a job offers is listed until it is restored
        self._make_state(had)
        same, other = {}, []
        for box in self._look():
            if box.name not in same and box.fits(had.get(box.name)):
                same[box.name] = box
            else:
                other.append(box)
        self._takes = other, plan(self._checkpoint, other)
        self._rows = [box.row() for box in same.values()]
        self._checkpoint.allow(leftover=True, missing=self._checkpoint.allowed[1])  # another rank takes it

    def loaded(self) -> None:
        takes, self._takes, self._seen = self._takes, None, None
        pull(self._checkpoint, *takes)

    # --- what is no tensor: functions as dlrover.bind() takes them ------------------------

    def _everywhere(self, name):
        """What each rank of the version had of one of these functions."""
        for rank in range(self._world):
            value = _plain.decode(self._checkpoint.peek(rank, NOTE))["objects"].get(name)
            yield join(value, _Tensors(self._checkpoint, rank))

    def options(self, saved: list | None = None) -> list | None:
        """Of the optimizers."""
        if saved is None:
            return [options(one) for one in self._optimizers]
        for at, one in enumerate(self._optimizers):
            put_options(one, (had[at] for had in itertools.chain([saved], self._everywhere("optimizers"))
                              if at < len(had)))
        return None

    def objects(self, saved: dict | None = None) -> dict | None:
        """ShardedObjects by their unique keys."""
        found = [(chunk, name, one) for chunk, name, one in self._sharded() if isinstance(one, ShardedObject)]
        if saved is None:
            return {one.unique_key: to_plain(one.data) for _, _, one in found}
        wanted = {one.unique_key for _, _, one in found}
        for had in self._everywhere("sharded_objects") if wanted - saved.keys() else ():
            saved = {**{key: had[key] for key in wanted & had.keys()}, **saved}
        for chunk, name, one in found:
            if one.unique_key in saved:
                chunk.load_state_dict({name: from_plain(saved[one.unique_key])}, strict=False)
        return None
