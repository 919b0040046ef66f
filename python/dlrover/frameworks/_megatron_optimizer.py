# SPDX-License-Identifier: Apache-2.0
"""Megatron's optimizers: what they update for which parameter of the model, and what they have beside tensors."""
from __future__ import annotations

import itertools
import typing

import torch
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from megatron.core.optimizer.optimizer import (
    Float16OptimizerWithFloat16Params, FP32Optimizer, MegatronOptimizer, param_group_identifier_keys)

KNOWN = DistributedOptimizer, Float16OptimizerWithFloat16Params, FP32Optimizer
MASTER = "fp32_param"  # what Megatron calls an optimizer's own copy of a parameter


def known(optimizer: MegatronOptimizer | None) -> list[MegatronOptimizer]:
    """The optimizers that it is made of. ValueError names one of which state would be lost."""
    found = [one for one in getattr(optimizer, "chained_optimizers", [optimizer])
             if one is not None and not getattr(one, "is_stub_optimizer", False)]
    for one in found:
        what = type(one).__name__
        if not isinstance(one, KNOWN):
            raise ValueError(f"dlrover.megatron.bind(): the optimizer is a {what}, whose state would be lost: it is to "
                             "be one that get_megatron_optimizer() makes")
        for option in "use_precision_aware_optimizer", "optimizer_cpu_offload":
            if getattr(one.config, option, False):
                raise ValueError(f"dlrover.megatron.bind(): the {what} has {option}, with which its fp32 parameters "
                                 "are not in memory as they are: they would be lost")
        if getattr(getattr(one, "ddp_config", None), "use_megatron_fsdp", False):
            raise ValueError(f"dlrover.megatron.bind(): the {what} is of Megatron-FSDP, whose state are DTensors: use "
                             "dlrover.dcp.bind()")
    return found


def masters(one: MegatronOptimizer) -> typing.Iterator[tuple]:
    """(parameter of the model, what the optimizer updates for it, first and last + 1 of its items that this is)."""
    if isinstance(one, DistributedOptimizer):
        for parameter, (group, at) in one.model_param_group_index_map.items():
            # pylint: disable=protected-access
            items = one._get_model_param_range_map(parameter)["param"]
            yield parameter, one.optimizer.param_groups[group]["params"][at], items.start, items.end
        return
    pairs = [(p, p) for p in one.get_parameters()]
    if isinstance(one, Float16OptimizerWithFloat16Params):
        flat = itertools.chain.from_iterable
        own = {id(p) for p in flat(one.fp32_from_float16_groups)}
        pairs = [pair for pair in pairs if id(pair[0]) not in own]
        pairs += zip(flat(one.float16_groups), flat(one.fp32_from_float16_groups))
    for parameter, master in pairs:
        yield parameter, master, 0, parameter.numel()


def held(one: MegatronOptimizer, master: torch.Tensor) -> dict[str, torch.Tensor]:
    """By name, what an optimizer has of a parameter in the parameter's shape."""
    state = one.optimizer.state.get(master, {})
    return {MASTER: master, **{name: value for name, value in state.items()
                               if isinstance(value, torch.Tensor) and value.shape == master.shape}}


def _called(group):
    return tuple(group.get(key, group.get(f"pre_{key}")) for key in param_group_identifier_keys)


def options(one: MegatronOptimizer) -> dict[str, typing.Any]:
    """What it has beside such tensors: its groups, what all parameters have in common (the step), the loss scale."""
    state, scaler = next(iter(one.optimizer.state.values()), {}), getattr(one, "grad_scaler", None)
    return {"groups": [{key: value for key, value in group.items() if key != "params"}
                       for group in one.optimizer.param_groups],
            "common": {name: value for name, value in state.items()
                       if not isinstance(value, torch.Tensor) or not value.dim()},
            "scaler": scaler.state_dict() if scaler else None}


def put_options(one: MegatronOptimizer, had: typing.Iterable[dict[str, typing.Any]]) -> None:
    """had: options() of this rank, then of others, where this one had not all that is needed now. ValueError names a
    group that no rank had.
    """
    groups, common, scaler = {}, {}, None
    for was in had:
        groups = {**{_called(group): group for group in was["groups"]}, **groups}
        common, scaler = common or was["common"], scaler or was["scaler"]
        if common and all(_called(group) in groups for group in one.optimizer.param_groups):
            break
    for group in one.optimizer.param_groups:
        if _called(group) not in groups:
            raise ValueError(f"the version has no group of parameters with {_called(group)} for "
                             f"{param_group_identifier_keys}")
        group.update(groups[_called(group)])
    for _, master, _, _ in masters(one) if common else ():
        one.optimizer.state[master].update({
            name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in common.items()})
    if scaler and getattr(one, "grad_scaler", None):
        one.grad_scaler.load_state_dict(scaler)
