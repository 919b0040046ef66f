# SPDX-License-Identifier: Apache-2.0
"""python3 -m dlrover.export --output OUT [--step N] DIR: a snapshot as a checkpoint of DCP.

DIR is a run's persist directory, or that of a program without a job; OUT is what
torch.distributed.checkpoint.load(state_dict, checkpoint_id=OUT) reads. Each rank's part is a file
of its own; tensors are written from the mapped files, without a copy. Every byte is compared with its checksum.
"""
from __future__ import annotations

import argparse
import os
import sys
import time

import torch
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import (
    BytesIOWriteData, SavePlan, SavePlanner, TensorWriteData, WriteItem, WriteItemType)

from ._checkpoint import Error
from .dcp import Reader


class _Bar:
    """How far it is, on a terminal's standard error, as dlrover ckpt verify shows it."""

    WIDTH, EVERY = 30, 0.1  # characters, seconds

    def __init__(self, what, total):
        self._what, self._total, self._passed, self._drawn = what, max(total, 1), 0, 0.0

    def passed(self, size):
        """So many bytes more."""
        now = time.monotonic()
        self._passed = min(self._passed + size, self._total)
        if not sys.stderr.isatty() or (self._passed < self._total
                                       and now - self._drawn < self.EVERY):
            return
        self._drawn = now
        full = self.WIDTH * self._passed // self._total
        print(f"\r{self._what} [{'#' * full:{self.WIDTH}}] {100 * self._passed // self._total:3} %",
              end="", file=sys.stderr, flush=True)

    @staticmethod
    def clear():
        """Makes room on the line for other words."""
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class _Planner(SavePlanner):
    """Hands out what the reader has; nothing is left to plan. passed is told how much."""

    def __init__(self, reader, passed):
        self._reader, self._passed = reader, passed

    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        pass

    def create_local_plan(self):
        return SavePlan([])

    def create_global_plan(self, all_plans):
        return all_plans, None

    def finish_plan(self, new_plan):
        return new_plan

    def resolve_data(self, write_item):
        if write_item.type == WriteItemType.BYTE_IO:
            self._passed(write_item.bytes_io_data.nbytes)
            return self._reader.value(write_item.index.fqn)
        chunk = self._reader.chunk(write_item.index)
        self._passed(chunk.numel() * chunk.element_size())
        return chunk


def _items(found, where):
    """{rank: [WriteItem]} of all that a reader has."""
    plans = {}
    for (fqn, offset), (slot, region, dtype) in where.items():
        items = plans.setdefault(slot.head.rank, [])
        if dtype is None:
            items.append(WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO,
                                   bytes_io_data=BytesIOWriteData(region.used)))
            continue
        whole = found[fqn]
        at = next(i for i, chunk in enumerate(whole.chunks) if chunk.offsets == offset)
        items.append(WriteItem(
            MetadataIndex(fqn, offset, at), WriteItemType.SHARD,
            tensor_data=TensorWriteData(whole.chunks[at], whole.properties, whole.size)))
    return [SavePlan(plans[rank]) for rank in sorted(plans)]


def to_dcp(directory: str | os.PathLike, output: str | os.PathLike,
           step: int | None = None) -> Reader:
    """Writes it; the reader, whose step says which one it was."""
    reader = Reader(directory, step, rank=0)
    reader.open(lambda total: _Bar("verify", total).passed)
    metadata = reader.read_metadata()
    bar = _Bar("export", sum(region.used for _, region, _ in reader.where.values()))
    writer, planner = FileSystemWriter(output), _Planner(reader, bar.passed)
    writer.reset(output)
    writer.set_up_storage_writer(True)
    plans = [writer.prepare_local_plan(plan)
             for plan in _items(metadata.state_dict_metadata, reader.where)]
    results = [writer.write_data(plan, planner).wait()
               for plan in writer.prepare_global_plan(plans)]
    writer.finish(metadata, results)
    bar.clear()
    return reader


def main() -> None:
    parser = argparse.ArgumentParser(prog="dlrover.export", allow_abbrev=False, description=(
        "Writes a snapshot as a checkpoint that torch.distributed.checkpoint reads."))
    parser.add_argument("directory", metavar="DIR", help="a run's persist directory")
    parser.add_argument("--output", metavar="OUT", required=True, help="directory to write")
    parser.add_argument("--step", type=int, help="this snapshot; without it the newest")
    args = parser.parse_args()
    torch.set_num_threads(1)
    try:
        reader = to_dcp(args.directory, args.output, args.step)
    except (Error, OSError, ValueError) as error:
        _Bar.clear()
        said = "".join(c if c.isprintable() else "?" for c in str(error))  # names in it may be somebody else's
        sys.exit(f"dlrover ckpt: {said}")
    print(f"step {reader.step}: every byte is right; exported to {args.output}")


if __name__ == "__main__":
    main()
