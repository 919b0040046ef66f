# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed: the training of an engine is saved, and goes on where it was, under ZeRO 0 to 3.

    engine, _, _, _ = deepspeed.initialize(model=model, config=config, ...)
    ck = dlrover.deepspeed(engine)               # restores
    while engine.global_steps < last:
        ...

`"checkpoint": {"engine": "dlrover"}` does nothing: DeepSpeed 0.19 chooses its checkpoint engine from classes of its
own and has no place to register another. The call is all there is to add.
"""
from __future__ import annotations

import functools
import typing
import warnings

import torch

from .._torch import OPTIONS
from . import versions
from .session import Session

_ds = versions.require("deepspeed", "0.18", [
    "runtime.engine.DeepSpeedEngine.save_checkpoint", "runtime.engine.DeepSpeedEngine.load_checkpoint",
    "runtime.engine.DeepSpeedEngine.step", "runtime.pipe.engine.PipelineEngine", "runtime.utils.DummyOptim",
    "runtime.bf16_optimizer.BF16_Optimizer", "runtime.zero.stage_1_and_2.DeepSpeedZeroOptimizer",
    "runtime.zero.stage3.DeepSpeedZeroOptimizer_Stage3", "runtime.zero.parameter_offload.DeepSpeedZeRoOffload",
    "runtime.fp16.fused_optimizer.FP16_Optimizer", "runtime.fp16.unfused_optimizer.FP16_UnfusedOptimizer"])
from ._zero import PARTITIONED, State  # pylint: disable=wrong-import-position  # not before it is known to be there

_runtime = _ds.runtime
# Optimizers whose state of a parameter is as long as it, or a number.
ELEMENTWISE = {"Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "DeepSpeedCPUAdagrad", "DeepSpeedCPUAdam",
               "DeepSpeedCPULion", "FusedAdam", "FusedLion", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"}
WHOLE = _runtime.fp16.fused_optimizer.FP16_Optimizer, _runtime.fp16.unfused_optimizer.FP16_UnfusedOptimizer


def _check(engine):
    """ValueError names what is not known, and what would be lost."""
    if not isinstance(engine, _runtime.engine.DeepSpeedEngine):
        raise ValueError(f"dlrover.deepspeed: a {type(engine).__name__} is no engine of deepspeed.initialize()")
    optimizer = engine.optimizer
    inner = getattr(optimizer, "optimizer", optimizer)
    if optimizer is None or isinstance(inner, _runtime.utils.DummyOptim) or isinstance(
            optimizer, _runtime.zero.parameter_offload.DeepSpeedZeRoOffload):
        raise ValueError("dlrover.deepspeed: the engine has no optimizer: there is no training to save")
    known = type(optimizer) in (*PARTITIONED, *WHOLE) or optimizer is inner
    refused = (
        (isinstance(engine, _runtime.pipe.engine.PipelineEngine), "a pipeline's stages",
         "layers would be taken for those of another stage"),
        (engine.has_moe_layers, "a mixture of experts", "one rank's experts would be taken for those of all"),
        (max(engine.mp_world_size, engine.autotp_size()) > 1, "tensor parallelism",
         "one rank's part of a layer would be taken for that of all"),
        (not known, f"{type(optimizer).__name__} ({type(optimizer).__module__})", "its masters would be lost"),
        (not any(one.__name__ in ELEMENTWISE for one in type(inner).__mro__), type(inner).__name__,
         "the state that it has of each rank or layer would be lost"),
        (getattr(optimizer, "swap_optimizer", False) or getattr(optimizer, "params_in_nvme_and_cpu", False),
         "offload to NVMe", "what is in its files would be lost (offload to the CPU is saved)"),
        (hasattr(optimizer, "backup_optimizer"), "offload of a part of the optimizer (ratio)",
         "the state of the rest would be lost"),
        (getattr(optimizer, "zero_quantized_nontrainable_weights", False), "zero_quantized_nontrainable_weights",
         "the scales of frozen weights would be lost"),
        (engine.micro_steps % engine.gradient_accumulation_steps() != 0, "a call between the parts of a step",
         "what they have accumulated would be lost: call it before the first"))
    for is_so, what, lost in refused:
        if is_so:
            raise ValueError(f"dlrover.deepspeed: {what} cannot be saved: {lost}")


def parts(engine: torch.nn.Module) -> tuple[dict[str, typing.Any], torch.optim.Optimizer]:
    """What Session.open() is to be given for an engine, and the optimizer that makes its updates. ValueError names what
    cannot be saved.
    """
    _check(engine)
    state = State(engine)
    objects = {"engine": state, "scheduler": engine.lr_scheduler, "autocast": getattr(
        engine.optimizer, "torch_autocast_gradscaler", engine.torch_autocast_z0_gradscaler)}
    if engine.random_ltd_enabled():
        objects["random_ltd"] = engine.random_ltd_scheduler
    if engine.training_dataloader is not None and engine.curriculum_learning_enabled():
        objects["data_sampler"] = engine.training_dataloader.data_sampler
    optimizer = None if state.flats else state.inner
    return {"model": engine.module, "optimizer": optimizer, "replicated": True, "sources": [state],
            **{name: one for name, one in objects.items() if one is not None}}, state.inner


class Engine:
    """What saves an engine. step: the one from which it goes on, 0: a fresh start.

    Under a job saves happen when the supervisor orders them, after an update; without one engine.save_checkpoint()
    decides, and ours are written to files beside its own. Where that is called between the parts of an accumulated
    step, ours come after its last one. given: options of Checkpoint, and objects to keep as dlrover.bind() takes them,
    as the position in the data, which DeepSpeed does not keep either. The engine's LR scheduler is saved as it is.

    Any number of ranks goes on from what any other saved, under each stage. The stage stays, but that ZeRO 1 and 2 may
    take each other's place. Gradients are not saved.
    Before the first step, ValueError names what cannot be saved, and dlrover.Error what cannot be restored.
    """

    def __init__(self, engine: torch.nn.Module, **given: typing.Any) -> None:
        arguments, inner = parts(engine)
        self._engine = engine
        self.session = Session("deepspeed", **{name: given.pop(name) for name in OPTIONS if name in given})
        self.save_now, self.wait_until_committed = self.session.save_now, self.session.wait_until_committed
        self.step = self.session.open(**arguments, **given)
        self._at, self._micro, self._owed = engine.global_steps, engine.micro_steps, False
        self._hooks = [self._follow("step", self._stepped), self._follow("save_checkpoint", self._saved),
                       self._follow("load_checkpoint", self._replaced)]
        if arguments["optimizer"] is None:  # nothing that is saved changes before the first of them
            self._hooks.append(inner.register_step_pre_hook(lambda *_: self.session.fence()).remove)

    def _follow(self, name, then):
        """The engine's method, and then that: on the engine itself, which has it in the class. What undoes it."""
        engine, method = self._engine, getattr(self._engine, name)
        had = vars(engine).get(name)

        @functools.wraps(method)
        def ours(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            result = method(*args, **kwargs)
            then()
            return result

        def remove():
            if vars(engine).get(name) is ours:
                vars(engine).pop(name)
                vars(engine).update({name: had} if had else {})

        setattr(engine, name, ours)
        return remove

    def _stepped(self):
        if self._engine.global_steps == self._at:
            return  # a part of an accumulated step
        self._at, self._micro = self._engine.global_steps, self._engine.micro_steps
        self.session.step(self._at)
        if self._owed:
            self._owed = False
            self.session.save(self._at)

    def _saved(self):
        self._owed = self._engine.micro_steps != self._micro
        if not self._owed:
            self.session.save(self._at)

    def _replaced(self):
        if self._engine.global_steps < self._at:
            warnings.warn(f"dlrover.deepspeed: engine.load_checkpoint() put step {self._engine.global_steps} in the "
                          f"place of step {self._at}: nothing is saved before that is passed; call it before "
                          "dlrover.deepspeed()", RuntimeWarning, stacklevel=3)
        self._at, self._micro = self._engine.global_steps, self._engine.micro_steps

    def close(self) -> None:
        """Waits for what is being saved. Nothing of ours is left at the engine."""
        for remove in self._hooks:
            remove()
        self._hooks = []
        self.session.close()


def deepspeed(engine: torch.nn.Module, **given: typing.Any) -> Engine:
    """Restores an engine of deepspeed.initialize(), if there is something to go on from, and saves it from now on; see
    Engine. Call it when it is ready to train, after its own load_checkpoint() if that is called. Blocking as
    dlrover.bind(...).restore() is; all ranks call it.
    """
    return Engine(engine, **given)
