# SPDX-License-Identifier: Apache-2.0
"""Megatron-core: its model and optimizer in memory, and its distributed checkpoints in our files.

    ck = dlrover.megatron.bind(model, optimizer, scheduler=scheduler)  # model: a module, or the list of its chunks
    step = ck.restore()                # 0: a fresh start; also on other sizes of TP, PP and DP than it was saved with
    while step < last:
        forward_backward_func(...)
        optimizer.step()               # waits first until the last save let go
        step += 1
        ck.step(step)                  # no word between the ranks

    dist_checkpointing.save(state, "iter_0000100", sharded_strategy=dlrover.megatron.SaveStrategy())
    dist_checkpointing.load(state, "iter_0000100", sharded_strategy=dlrover.megatron.LoadStrategy())

bind() is for a job, in which the supervisor decides which steps are saved; the strategies are for the checkpoints that
Megatron makes by itself, and under a job leave those to its own torch_dist.
"""
from __future__ import annotations

import sys
import typing
import warnings
import weakref

import torch

from .. import _random
from .._checkpoint import Checkpoint
from .session import Session
from .versions import require

require("megatron.core", "0.15", ["optimizer.distrib_optimizer.DistributedOptimizer._get_model_param_range_map"] + [
    f"dist_checkpointing.strategies.torch.{name}" for name in (
        "TorchDistSaveShardedStrategy", "TorchDistLoadShardedStrategy", "MCoreSavePlanner", "mcore_to_pyt_state_dict",
        "_get_filesystem_reader", "_replace_state_dict_keys_with_sharded_keys")])

# pylint: disable=wrong-import-position
from megatron.core import parallel_state, tensor_parallel  # noqa: E402

from ._megatron_files import LoadStrategy, SaveStrategy  # noqa: E402
from ._megatron_state import State  # noqa: E402

__all__ = ["LoadStrategy", "SaveStrategy", "Training", "bind"]
megatron = sys.modules[__name__]  # what dlrover.megatron is
SIZES = {"TP": parallel_state.get_tensor_model_parallel_world_size,
         "PP": parallel_state.get_pipeline_model_parallel_world_size,
         "CP": parallel_state.get_context_parallel_world_size,
         "EP": parallel_state.get_expert_model_parallel_world_size,
         "DP": parallel_state.get_data_parallel_world_size}


class _Chunks(torch.nn.Module):
    """Stands for the model at the Session: its tensors are saved as Megatron names them, not as modules do."""

    def __init__(self, chunks):
        super().__init__()
        self.chunks = tuple(chunks)  # a tuple: they are no submodules

    def parameters(self, recurse=True):
        for chunk in self.chunks:
            yield from chunk.parameters(recurse)


class _Random:
    """Generators of random numbers. They belong to a place in the split: with another one they stay as the program has
    seeded them, and all ranks see that alike.
    """

    def __init__(self):
        self.split = {name: size() for name, size in SIZES.items()}
        self.was = None  # the split that was restored
        self._own = torch.get_rng_state(), _random.get(), self._tracked()

    @staticmethod
    def _tracked():
        return {name: state.get_state() if isinstance(state, torch.Generator) else state.clone()
                for name, state in tensor_parallel.get_cuda_rng_tracker().get_states().items()}

    @staticmethod
    def _track(saved):
        tracker = tensor_parallel.get_cuda_rng_tracker()
        states = tracker.get_states()
        for name, state in saved.items():
            if isinstance(states.get(name), torch.Generator):
                states[name].set_state(state)
            else:
                states[name] = state
        if saved:
            tracker.set_states(states)

    def __call__(self, saved: dict | None = None) -> dict | None:
        """The tracker's: a function as dlrover.bind() takes it."""
        if saved is None:
            return {"split": self.split, "tracker": self._tracked()}
        self.was = saved["split"]
        if self.was == self.split:
            self._track(saved["tracker"])
        return None

    def settle(self) -> None:
        """After a restore, which also put what is no tracker's."""
        if self.was in (None, self.split):
            return
        torch.set_rng_state(self._own[0])
        _random.put(self._own[1])
        self._track(self._own[2])
        text = " and ".join(" x ".join(f"{name} {size}" for name, size in split.items() if size > 1) or "one rank"
                            for split in (self.was, self.split))
        warnings.warn(f"dlrover.megatron: restored from one split to another, {text}: random numbers begin anew",
                      RuntimeWarning, stacklevel=4)


class Training(Session):
    """A Session of Megatron's model and optimizer; see bind()."""

    def __init__(self, model: torch.nn.Module | list[torch.nn.Module], optimizer: typing.Any = None,
                 metadata: dict | None = None, **more: typing.Any) -> None:
        if not parallel_state.model_parallel_is_initialized():
            raise ValueError("dlrover.megatron.bind(): parallel_state.initialize_model_parallel() comes before it")
        options = {name: more.pop(name) for name in ("directory", "rank", "world", "every", "fence_ms", "threads")
                   if name in more}
        super().__init__("megatron", **{"every": 0, **options})
        chunks = list(model) if isinstance(model, (list, tuple)) else [model]
        self._chunks, self._objects = _Chunks(chunks), more
        self._state, self._random = State(chunks, optimizer, metadata), _Random()
        fence = weakref.WeakMethod(self.fence)  # an optimizer does not hold this
        self._hooks = [inner.register_step_pre_hook(lambda *_: (fence() or bool)()) for inner in self._state.inner()]

    def restore(self) -> int:
        """The step that was loaded, in place, 0: a fresh start. Before the first step(). Blocking: until all ranks
        have loaded it. dlrover.Error names what does not fit.
        """
        self._checkpoint = self._checkpoint or Checkpoint(**self._options)
        self._state.attach(self._checkpoint)
        step = self.open(self._chunks, sources=[self._state], optimizers=self._state.options,
                         sharded_objects=self._state.objects, parallel=self._random, **self._objects)
        self._random.settle()
        return step

    def step(self, step: int) -> None:
        """The state is that of step, after optimizer.step(). Under a job it is saved when the supervisor orders it,
        without one each N-th (every=N), else as DLROVER_CKPT_EVERY and DLROVER_CKPT_BUDGET say.
        """
        super().step(step)
        self.save(step)

    def close(self) -> None:
        super().close()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


def bind(model: torch.nn.Module | list[torch.nn.Module], optimizer: typing.Any = None, metadata: dict | None = None,
         **more: typing.Any) -> Training:
    """Megatron's model (or the list of its chunks) and what get_megatron_optimizer() made for it. Tensors are saved
    and restored in place, as the boxes of wholes that sharded_state_dict(metadata=metadata) says they are; of the
    distributed optimizer each rank saves its fp32 parameters and moments, which any other split can take its own from.
    more: scheduler=, or whatever dlrover.bind() takes by a name; and the options of Checkpoint. The generators of
    random numbers are saved, the tracker's too; with another split they stay as the program has seeded them. ValueError
    names what would be lost.
    """
    return Training(model, optimizer, metadata, **more)
