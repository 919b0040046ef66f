# SPDX-License-Identifier: Apache-2.0
"""The checkpoints that Megatron makes by itself, in our files."""
from __future__ import annotations

import dataclasses
import io
import os
import typing
import unittest.mock

import torch
from megatron.core.dist_checkpointing.core import CheckpointingException
from megatron.core.dist_checkpointing.dict_utils import dict_list_map_inplace
from megatron.core.dist_checkpointing.mapping import ShardedObject, ShardedTensor
from megatron.core.dist_checkpointing.strategies import torch as torch_dist
from megatron.core.dist_checkpointing.strategies.async_utils import AsyncRequest
from megatron.core.dist_checkpointing.strategies.base import StrategyAction, register_default_strategy
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from .. import dcp


STREAM = "io.BytesIO"  # what Transformer Engine keeps beside its tensors may be one


def to_plain(value: typing.Any) -> typing.Any:
    """A ShardedObject's data as a value that can be kept."""
    return (STREAM, value.getvalue()) if isinstance(value, io.BytesIO) else value


def from_plain(value: typing.Any) -> typing.Any:
    return io.BytesIO(value[1]) if isinstance(value, tuple) and value[:1] == (STREAM,) else value


class SaveStrategy(torch_dist.TorchDistSaveShardedStrategy):
    """For dist_checkpointing.save(), and for async_sharded_save=True: then state may change when that has returned.
    Under a job Megatron's own files are written.
    """

    def __init__(self) -> None:
        self._own = "DLROVER_AGENT_SOCKET" in os.environ
        super().__init__("torch_dist" if self._own else "dlrover", 1)

    def async_save(self, sharded_state_dict: dict, checkpoint_dir: typing.Any) -> AsyncRequest:
        if self._own:
            return super().async_save(sharded_state_dict, checkpoint_dir)
        # pylint: disable=protected-access
        flat, _, _ = torch_dist._replace_state_dict_keys_with_sharded_keys(sharded_state_dict, True)
        for key, parts in flat.items():
            flat[key] = [dataclasses.replace(one, data=to_plain(one.data)) if isinstance(one, ShardedObject) else one
                         for one in parts]
        state = torch_dist.mcore_to_pyt_state_dict(flat, False)
        planner = torch_dist.MCoreSavePlanner(dedup_replicated_tensors=False, flatten_state_dict=False)
        planner.set_up_planner(state, None, True)
        writer = dcp.Writer(checkpoint_dir, every=1, rank=torch.distributed.get_rank(),
                            world=torch.distributed.get_world_size())
        writer.prepare_local_plan(planner.create_local_plan())
        step = dcp.step_of(checkpoint_dir) or 1
        writer.begin(step, planner)
        writer.fence()
        return AsyncRequest(None, (), [lambda: self._finish(writer, step, checkpoint_dir)])

    @staticmethod
    def _finish(writer, step, directory):
        writer.flush()
        saved = writer.stats()["committed_step"]
        writer.close()
        if saved != step:  # Megatron would take it for whole
            raise CheckpointingException(f"'{directory}': this rank's file is not written; the warning before says why")


def _reading(method):
    """As Megatron's strategy does it, with our files in the place of its own."""
    def read(self, *args, **kwargs):
        with unittest.mock.patch.object(torch_dist, "_get_filesystem_reader",
                                        lambda directory, *_, **__: dcp.Reader(directory)):
            return method(self, *args, **kwargs)
    return read


class LoadStrategy(torch_dist.TorchDistLoadShardedStrategy):
    """For dist_checkpointing.load(), on whatever ranks. Once it is imported, load() without a strategy takes it for
    what SaveStrategy saved.
    """

    def load(self, sharded_state_dict: dict, checkpoint_dir: typing.Any) -> dict:
        read = _reading(torch_dist.TorchDistLoadShardedStrategy.load)
        return dict_list_map_inplace(from_plain, read(self, sharded_state_dict, checkpoint_dir))

    load_sharded_metadata = _reading(torch_dist.TorchDistLoadShardedStrategy.load_sharded_metadata)

    def load_tensors_metadata(self, checkpoint_dir: str, metadata: Metadata | None = None) -> dict[str, ShardedTensor]:
        metadata = metadata or dcp.Reader(checkpoint_dir).read_metadata()
        return {key: ShardedTensor.from_rank_offsets(key, torch.empty(
            one.size, dtype=one.properties.dtype, device="meta")).without_data()
                for key, one in metadata.state_dict_metadata.items() if isinstance(one, TensorStorageMetadata)}

    def remove_sharded_tensors(self, checkpoint_dir: str, key_prefix: str) -> None:
        raise NotImplementedError(f"'{checkpoint_dir}': a rank's tensors are one file: none can be taken out")


register_default_strategy(StrategyAction.LOAD_SHARDED, "dlrover", 1, LoadStrategy())
