# SPDX-License-Identifier: Apache-2.0
"""Boxes of wholes, any number of one whole on a rank, and how they are filled where a version was cut otherwise.

libdlrover joins the regions of one name, and several boxes of a whole have names of their own. Here a rank looks for
what it needs in every box of the whole, whatever the other ranks had of it, and their number.
"""
from __future__ import annotations

import collections
import itertools
import json
import math
import typing

import torch

from .._checkpoint import Checkpoint, SavedRegion
from .._checkpoint import _short as short_type
from .._names import short
from .._regions import NOTE, NOTE_VERSION
from .._source import Row

Place = typing.Tuple[typing.Tuple[int, ...], typing.Tuple[int, ...]]  # offset, shape; in items


class Box(typing.NamedTuple):
    """tensor is the box at offset of the whole that is called key. flexible: the whole may have had another shape,
    and what it had not is 0.
    """

    key: str
    tensor: torch.Tensor
    whole: tuple[int, ...]
    offset: tuple[int, ...]
    flexible: bool = False

    @property
    def name(self) -> str:
        """Of the region: the same for the same box, whatever else there is on the rank."""
        if tuple(self.tensor.shape) == self.whole:
            return short(self.key)
        return short(f"{self.key}@{'.'.join(map(str, self.offset))}")

    @property
    def place(self) -> Place:
        return self.offset, tuple(self.tensor.shape)

    def row(self) -> Row:
        return Row(self.name, self.tensor, "shard", self.whole, self.offset)

    def fits(self, region: SavedRegion | None) -> bool:
        """Whether the region is this box."""
        return region is not None and (region.global_shape, region.offset, region.shape, region.dtype) == (
            self.whole, *self.place, short_type(self.tensor.dtype))


def note(boxes: typing.Iterable[Box]) -> Row:
    """Says what wholes the regions are of: as dlrover.dcp has it, whose Reader and export read these files too."""
    items = [[box.name, box.key, str(box.tensor.dtype)] for box in boxes]
    text = json.dumps({"v": NOTE_VERSION, "items": items, "mapping": []}).encode()
    return Row(NOTE, torch.frombuffer(bytearray(text), dtype=torch.uint8), "blob")


def cut(shape: typing.Sequence[int], start: int, end: int) -> typing.Iterator[Place]:
    """Items [start, end) of an array in C order as boxes of it, in their order: the rest of a row, whole rows, the
    beginning of one.
    """
    if start >= end:
        return
    if not shape:
        yield (), ()
        return
    row, inner = math.prod(shape[1:]), tuple(shape[1:])
    first, last = -(-start // row), end // row
    if first > last:  # of one row
        pieces = [(last, start - last * row, end - last * row)]
    else:
        pieces = [(first - 1, start - (first - 1) * row, row)] if start % row else []
        pieces += [(first, 0, 0)] if first < last else []
        pieces += [(last, 0, end - last * row)] if end % row else []
    for at, begin, stop in pieces:
        if stop:
            yield from (((at, *offset), (1, *size)) for offset, size in cut(inner, begin, stop))
        else:
            yield (first, *([0] * len(inner))), (last - first, *inner)


def part_of(tensor: torch.Tensor, offset: typing.Sequence[int], shape: typing.Sequence[int]) -> torch.Tensor:
    """A view."""
    for dim, (at, size) in enumerate(zip(offset, shape)):
        tensor = tensor.narrow(dim, at, size)
    return tensor


def _common(one: Place, other: Place) -> Place | None:
    low = tuple(map(max, one[0], other[0]))
    size = tuple(min(a + n, b + m) - at for a, n, b, m, at in zip(*one, *other, low))
    return (low, size) if all(n > 0 for n in size) else None


def _minus(place: Place, part: Place) -> typing.Iterator[Place]:
    """What is left of place without part, which is in it, as boxes."""
    offset, shape = list(place[0]), list(place[1])
    for dim, (at, size) in enumerate(zip(*part)):
        before, after = at - offset[dim], offset[dim] + shape[dim] - at - size
        for where, length in ((offset[dim], before), (at + size, after)):
            if length:
                yield (*offset[:dim], where, *offset[dim + 1:]), (*shape[:dim], length, *shape[dim + 1:])
        offset[dim], shape[dim] = at, size


class Take(typing.NamedTuple):
    """place of box lies in a region that a rank had."""

    rank: int
    region: SavedRegion
    box: Box
    place: Place


def _saved(checkpoint, keys):
    """(rank, key, region) of the version's boxes of these wholes: this rank's first, then the next ones'."""
    world = checkpoint.list(1)[0][3]
    for after in range(world):
        rank = (checkpoint.rank + after) % world
        regions = {region.name: region for region in checkpoint.regions(rank)}
        if NOTE not in regions:
            raise ValueError(f"rank {rank} of the version has no '{NOTE}': it was not saved by this adapter")
        for name, key, _ in json.loads(checkpoint.peek(rank, NOTE))["items"]:
            if key in keys:
                yield rank, key, regions[name]


def _check(box, region):
    ours = box.whole, short_type(box.tensor.dtype)
    its = region.global_shape, region.dtype
    if ours != its and not (box.flexible and ours[1] == its[1] and len(ours[0]) == len(its[0])):
        raise ValueError(f"'{box.key}' is {ours[0]} of {ours[1]}, the version has {its[0]} of {its[1]}")


def plan(checkpoint: Checkpoint, boxes: typing.Sequence[Box]) -> list[Take]:
    """Where the items of boxes are in the version. Blocking: heads of other ranks' parts are read. ValueError names
    what is nowhere.
    """
    by_key, takes, seen = collections.defaultdict(list), [], set()
    for box in boxes:
        by_key[box.key].append((box, [box.place]))
    lacking = len(boxes)
    for rank, key, region in _saved(checkpoint, by_key) if boxes else ():
        seen.add(key)
        for box, rest in by_key[key]:
            _check(box, region)
            for place in list(rest):
                part = _common(place, (region.offset, region.shape))
                if part:
                    takes.append(Take(rank, region, box, part))
                    rest.remove(place)
                    rest += _minus(place, part)
                    lacking -= not rest
        if not lacking:
            break
    for box, rest in itertools.chain.from_iterable(by_key.values()):
        if rest and not (box.flexible and box.key in seen):
            raise ValueError(f"'{box.key}' is needed from {rest[0][0]} on and is in no rank's part of the version")
    return takes


def pull(checkpoint: Checkpoint, boxes: typing.Iterable[Box], takes: typing.Iterable[Take]) -> None:
    """Fills boxes as they were planned. Blocking; a region is read whole, one at a time. Error where one is corrupt."""
    takes = sorted(takes, key=lambda take: (take.rank, take.region.name))
    for box in boxes:
        if box.flexible:
            box.tensor.detach().zero_()
    for (rank, name), group in itertools.groupby(takes, key=lambda take: (take.rank, take.region.name)):
        data = checkpoint.peek(rank, name)
        for take in group:
            whole = torch.frombuffer(data, dtype=take.box.tensor.dtype).view(take.region.shape)
            offset, shape = take.place
            source = part_of(whole, [a - b for a, b in zip(offset, take.region.offset)], shape)
            part_of(take.box.tensor.detach(), [a - b for a, b in zip(offset, take.box.offset)], shape).copy_(source)
