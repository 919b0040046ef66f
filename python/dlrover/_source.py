# SPDX-License-Identifier: Apache-2.0
"""State that no module and no torch optimizer has as it is to be saved: what an adapter for a framework gives."""
from __future__ import annotations

import typing

import torch

from ._checkpoint import SavedRegion


class Row(typing.NamedTuple):
    """A tensor of a Source. name: at most 255 bytes, unique in the rank, the same in every run and, for a shard, on
    every rank that has a part of that whole. tensor: dense, on CPU or GPU, views included; it is saved and loaded in
    place. kind, global_shape, offset (in items): as Checkpoint.add() has them, None: the tensor is the whole.
    """

    name: str
    tensor: torch.Tensor
    kind: str = "shard"
    global_shape: typing.Sequence[int] | None = None
    offset: typing.Sequence[int] | None = None


class Source(typing.Protocol):
    """State that no torch optimizer and no module has as it is to be saved: DeepSpeed's fp32 partitions, Megatron's
    ShardedTensors. Given as dlrover.bind(..., sources=[...]) or Session.open(..., sources=[...]); any object that has
    tensors(). The other methods are optional. Calls come in the thread of the training, between two steps:

      restore: prepare(), tensors(), then the tensors are filled, then loaded()
      a save:  the last save has let go of the tensors, refresh(), tensors(), then they are read

    An exception at bind() or restore() ends these; at a save it is one warning, and that step is not saved.
    """

    def tensors(self) -> typing.Iterable[Row | tuple]:
        """Rows, or tuples (name, tensor, kind, global_shape, offset). Asked at bind(), at restore() and at each save:
        it should cost little where nothing changed. Rows may appear, go, grow or lie elsewhere from one save to the
        next: all are named anew then. Ranks may have different rows, and different boxes of a whole; one that has
        none of a shard may leave its row out or give an empty tensor.
        """

    def covers(self) -> typing.Iterable[torch.Tensor]:
        """Parameters and buffers of the modules given to bind() that this saves in its own form: they are not saved
        as the module has them. By identity; asked whenever all is named. Without it: none.
        """

    def prepare(self, had: dict[str, SavedRegion]) -> None:
        """Before a restore: had is what this rank of the version had, by name (rank 0's where this rank is new; what
        other ranks had may be in it, too; boxes are those of then). To make tensors that tensors() will name then.
        ValueError says what does not fit. Not called where there is nothing to restore.
        """

    def refresh(self) -> None:
        """Before a save: to copy into tensors that are no memory of the framework's own."""

    def loaded(self) -> None:
        """After a restore: to copy out of them."""


class Given:
    """A Source and what it had at the last look."""

    def __init__(self, source: Source) -> None:
        if not callable(getattr(source, "tensors", None)):
            raise ValueError(f"dlrover.bind(): a source is a {type(source).__name__}, which has no tensors()")
        self._source, self._forms, self.tensors = source, [], {}

    def call(self, method: str, *arguments: typing.Any) -> typing.Any:
        """What the source gives there, nothing where it has no such method."""
        return getattr(self._source, method, lambda *_: None)(*arguments)

    def look(self) -> bool:
        """Whether there are other rows, or rows of another form, than at the last look."""
        rows = [Row(*row) for row in self._source.tensors()]
        forms = [(row.name, row.kind, *(at and tuple(at) for at in row[3:])) for row in rows]
        self.tensors.clear()  # who has named them holds this dict
        self.tensors.update((row.name, row.tensor) for row in rows)
        if len(self.tensors) < len(rows):
            names = [row.name for row in rows]
            raise ValueError(f"{type(self._source).__name__}.tensors() has '{max(names, key=names.count)}' twice")
        changed, self._forms = forms != self._forms, forms
        return changed

    def forms(self) -> list[tuple[str, str, tuple | None, tuple | None]]:
        """Name, kind, global shape and offset of each row of the last look; the tensors are in tensors."""
        return self._forms
