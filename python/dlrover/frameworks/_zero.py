# SPDX-License-Identifier: Apache-2.0
"""What a DeepSpeed engine has beside its module: ZeRO's partitions, the loss scale, counters."""
from __future__ import annotations

import copy
import itertools
import typing

import torch
import torch.distributed as dist
from deepspeed.runtime.bf16_optimizer import BF16_Optimizer
from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3
from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer

from .. import _names, _slots

COUNTERS = ("global_steps", "global_samples", "skipped_steps", "micro_steps")
PLAIN = (bool, int, float, type(None))


class Piece(typing.NamedTuple):
    """Items [offset, offset + length) of a parameter of whole items lie at [at, at + length) of a flat partition. Of
    length 0 where this rank has none of it.
    """

    label: str
    whole: int
    offset: int
    at: int
    length: int


class Flat(typing.NamedTuple):
    """An fp32 partition of this rank: what the optimizer inside steps and keeps its state of."""

    tensor: torch.Tensor
    group: int
    pieces: list[Piece]


def _cut(partitions, groups, starts, process_groups, labels):
    """ZeRO 1 and 2: the flat parameters of a group one after the other, in equal parts, the last one padded."""
    for i, tensor in enumerate(partitions):
        first, pieces = dist.get_rank(process_groups[i]) * tensor.numel(), []
        ends = itertools.accumulate(p.numel() for p in groups[i])
        for p, start in zip(groups[i], starts[i] if starts else (0, *ends)):
            low, high = max(start, first), min(start + p.numel(), first + tensor.numel())
            box = (low - start, low - first, high - low) if low < high else (0, 0, 0)
            pieces.append(Piece(labels[id(p)], p.numel(), *box))
        yield Flat(tensor, i, pieces)


def _part(p, label, at=0):
    """ZeRO 3: each parameter is cut by itself, and its last part padded."""
    size = p.ds_tensor.ds_numel
    offset = min(dist.get_rank(p.ds_process_group) * size, p.ds_numel)
    return Piece(label, p.ds_numel, offset, at, min(size, p.ds_numel - offset))


def _parts(optimizer, labels):
    for i, tensor in enumerate(optimizer.fp32_partitioned_groups_flat):
        ends = itertools.accumulate((p.ds_tensor.ds_numel for p in optimizer.fp16_groups[i]), initial=0)
        yield Flat(tensor, optimizer.sub_group_to_group_id[i],
                   [_part(p, labels[id(p)], at) for p, at in zip(optimizer.fp16_groups[i], ends)])


PARTITIONED = {
    DeepSpeedZeroOptimizer: lambda o, labels: _cut(
        o.single_partition_of_fp32_groups, o.round_robin_bit16_groups, getattr(o, "round_robin_bit16_offsets", None),
        o.real_dp_process_group, labels),
    BF16_Optimizer: lambda o, labels: _cut(
        o.fp32_groups_flat_partition, o.bf16_groups, None, o.real_dp_process_group, labels),
    DeepSpeedZeroOptimizer_Stage3: _parts}


class State:
    """What an engine has beside its module. As a source of tensors (see dlrover._tree.Source): partitions of masters
    and of the optimizer's state, without padding, as boxes of the flat parameters that they are of, so that another
    number of ranks finds its own. As an object: counters, loss scale, options, state that is a number.
    """

    def __init__(self, engine: torch.nn.Module) -> None:
        self._engine, optimizer = engine, engine.optimizer
        self.inner = getattr(optimizer, "optimizer", optimizer)
        self._scale = getattr(optimizer, "loss_scaler", getattr(optimizer, "loss_scale_config", None))
        labels = {}
        for one in _names.of_module(engine.module):
            labels.setdefault(id(one.holder[one.key]), one.name)
        cut = PARTITIONED.get(type(optimizer))
        self.flats = list(cut(optimizer, labels)) if cut else []
        self._cut = [p for p in engine.module.parameters() if hasattr(p, "ds_tensor")]
        known = {piece.label for flat in self.flats for piece in flat.pieces}
        self._frozen = [(p, labels[id(p)]) for p in self._cut if labels[id(p)] not in known and p.ds_numel]
        self._trained = [labels[id(p)] for p in engine.module.parameters() if p.requires_grad]
        self._made, self._numbers = None, {}  # of the version that is loaded

    # --- as a source -----------------------------------------------------------------------

    @staticmethod
    def _row(name, tensor, piece):
        return name, tensor.detach()[piece.at:piece.at + piece.length], "shard", (piece.whole,), (piece.offset,)

    def tensors(self) -> typing.Iterator[tuple]:
        for i, flat in enumerate(self.flats):
            state = self.inner.state.get(flat.tensor, {}) if self._made is None else self._made[i]
            found = {key: one for key, one in state.items() if self._is_cut(one, flat)}
            for key, tensor in {**found, "parameter": flat.tensor}.items():
                for piece in flat.pieces:
                    yield self._row(f"optimizer.{piece.label}.{key}", tensor, piece)
        for p, label in self._frozen:
            yield self._row(f"model.{label}", p.ds_tensor, _part(p, label))

    @staticmethod
    def _is_cut(value, flat):
        return isinstance(value, torch.Tensor) and value.shape == flat.tensor.shape

    def covers(self) -> list[torch.Tensor]:
        """What ZeRO 3 has released: all of it is in the masters and the frozen parts."""
        return self._cut

    def _check_stage(self, had):
        """ZeRO 1 and 2 have the same names, ZeRO 3 has weights in the masters alone, ZeRO 0 another optimizer."""
        for label in self._trained if self.flats else ():
            whole = f"model.{label}" in had
            if whole == bool(self._cut) and (whole or f"optimizer.{label}.parameter" in had):
                here, there = ("3", "1 or 2") if self._cut else ("1 or 2", "3")
                raise ValueError(f"the version was saved under ZeRO {there}, the engine has ZeRO {here}: a training "
                                 "goes on under the stage that it had")

    def prepare(self, had: dict) -> None:
        """Room for the state as the version has it. ValueError where that is of another stage."""
        self._check_stage(had)
        keys = {}
        for name, region in had.items():
            path, _, key = name.rpartition(".")
            if path.startswith("optimizer.") and key != "parameter":
                keys.setdefault(path.removeprefix("optimizer."), {})[key] = _slots.torch_type(region)
        self._made = []
        for flat in self.flats:
            now = self.inner.state.get(flat.tensor, {})
            self._made.append({
                key: now[key] if self._is_cut(now.get(key), flat) and now[key].dtype == dtype else torch.zeros_like(
                    flat.tensor, dtype=dtype, requires_grad=False)
                for key, dtype in keys.get(flat.pieces[0].label, {}).items()})

    def loaded(self) -> None:
        """What was loaded becomes the optimizer's, and weights are those of the masters."""
        for flat, made in zip(self.flats, self._made):
            numbers = copy.deepcopy(self._numbers.get(flat.group, {}))  # each partition counts by itself
            self.inner.state.pop(flat.tensor, None)
            if numbers or made:
                self.inner.state[flat.tensor] = {**numbers, **made}
        self._made = None
        optimizer = self._engine.optimizer
        if self._cut:
            for weights, masters in zip(optimizer.fp16_partitioned_groups_flat, optimizer.fp32_partitioned_groups_flat):
                weights.data.copy_(masters.data)
            optimizer.invalidate_secondary_tensor()
            if optimizer.persistent_parameters:  # whole on each rank: gathered anew when they are used
                optimizer.persistent_parameters[0].partition(optimizer.persistent_parameters)

    # --- as an object ----------------------------------------------------------------------

    def _numbers_now(self):
        """What of the state is no partition: of each group once, since its partitions take the same steps."""
        found = {}
        for flat in self.flats:
            state = self.inner.state.get(flat.tensor, {})
            found[flat.group] = {key: one for key, one in state.items() if not self._is_cut(one, flat)}
            for key, one in found[flat.group].items():
                if isinstance(one, torch.Tensor) and one.numel() > 1:
                    raise ValueError(f"{type(self.inner).__name__}'s '{key}' has the shape {tuple(one.shape)}: neither "
                                     f"one number nor a partition of {flat.tensor.numel()}")
        return found

    def state_dict(self) -> dict[str, typing.Any]:
        options = [{key: one for key, one in group.items() if key != "params"} for group in self.inner.param_groups]
        return {"counters": {name: getattr(self._engine, name) for name in COUNTERS},
                "accumulation": self._engine.gradient_accumulation_steps(), "numbers": self._numbers_now(),
                "scale": {key: one for key, one in vars(self._scale).items() if type(one) in PLAIN} if self._scale
                else {},
                "options": options if self.flats else []}

    def load_state_dict(self, saved: dict[str, typing.Any]) -> None:
        vars(self._engine).update(saved["counters"])
        if saved["accumulation"] != self._engine.gradient_accumulation_steps():  # as many as these steps have now
            self._engine.micro_steps = self._engine.global_steps * self._engine.gradient_accumulation_steps()
        if self._scale:
            vars(self._scale).update(saved["scale"])
        for group, options in zip(self.inner.param_groups, saved["options"]):
            group.update(options)
        self._numbers = saved["numbers"]  # loaded() comes after it
