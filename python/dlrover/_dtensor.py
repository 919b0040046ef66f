# SPDX-License-Identifier: Apache-2.0
"""DTensors as boxes of a whole, and the modules that gather them (FSDP2)."""
from __future__ import annotations

import itertools
import sys
import typing

import torch


def is_dtensor(tensor: torch.Tensor) -> bool:
    return hasattr(tensor, "device_mesh") and hasattr(tensor, "placements")


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Its memory on this rank, which another tensor has itself."""
    return tensor._local_tensor if is_dtensor(tensor) else tensor  # pylint: disable=protected-access


def _part(pieces, number, at):
    """The at-th of number parts, as torch.chunk makes them of what pieces are one behind another."""
    size = -(-sum(map(len, pieces)) // number)
    begin, end, found = at * size, (at + 1) * size, []
    for piece in pieces:
        found.append(piece[max(begin, 0):max(end, 0)])
        begin, end = begin - len(piece), end - len(piece)
    return [piece for piece in found if piece]


def spans(shape: typing.Sequence[int], mesh: typing.Sequence[int], at: typing.Sequence[int],
          placements: typing.Sequence[typing.Any]) -> list[list[range]]:
    """For each dimension of a whole of shape what the rank at these coordinates of the mesh has of it, cut from the
    first mesh dimension to the last.
    """
    found = [[range(size)] if size else [] for size in shape]
    for number, coordinate, placement in zip(mesh, at, placements):
        if not hasattr(placement, "dim"):
            continue  # replicated
        pieces, factor = found[placement.dim], int(getattr(placement, "split_factor", 1))
        # Of a shard that another mesh dimension cuts first (FSDP2 beside TP) the parts of each of its cuts.
        parts = [_part(_part(pieces, factor, i), number, coordinate) for i in range(factor)]
        found[placement.dim] = list(itertools.chain.from_iterable(parts))
    return found


def box(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape of the whole of a DTensor and the offset of this rank's part, in items. ValueError, to follow its name,
    where that is no single box.
    """
    mesh, placements, shape = tensor.device_mesh, tensor.placements, tuple(tensor.shape)
    at, said = mesh.get_coordinate(), f"is a DTensor of the placements {tuple(placements)}"
    if at is None:
        raise ValueError(f"{said} on a mesh that this rank is not in: bind what the rank has")
    if not all(hasattr(one, "dim") or one.is_replicate() for one in placements):
        raise ValueError(f"{said}, whose value is a sum of all ranks': redistribute() it")
    found = spans(shape, mesh.shape, at, placements)
    if any(one.stop != other.start for pieces in found for one, other in zip(pieces, pieces[1:])):
        raise ValueError(f"{said}, of which this rank has several boxes of {shape}: shard another dimension, or sizes "
                         "that the number of ranks divides")
    sizes, here = tuple(sum(map(len, pieces)) for pieces in found), tuple(local(tensor).shape)
    if sizes != here:
        raise ValueError(f"{said}, by which this rank has {sizes} of {shape}, but its memory is of {here}")
    return shape, tuple(pieces[0].start if pieces else size for pieces, size in zip(found, shape))


def gathering(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Its parts that may have whole parameters in the place of DTensors for a while."""
    kinds = tuple(found for path in ("torch.distributed.fsdp", "torch.distributed._composable.fsdp")
                  for found in [getattr(sys.modules.get(path), "FSDPModule", None)] if found)
    return [part for part in module.modules() if isinstance(part, kinds)] if kinds else []
