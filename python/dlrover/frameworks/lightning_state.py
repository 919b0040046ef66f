# SPDX-License-Identifier: Apache-2.0
"""What a Trainer of Lightning has beside the tensors of model and optimizers, as its dump_checkpoint() gives it."""
from __future__ import annotations

import typing

import torch

from . import lightning_batches as batches

OWN = "the model's own tensors"  # in the place of a dict of these
LEFT_OUT = {"optimizer_states", "hyper_parameters", "hparams_name", "hparams_type"}  # saved in place, or not loaded
LAST_FILE = "_last_global_step_saved"  # of a ModelCheckpoint


def _is_own(node, own):
    return bool(node) and all(
        isinstance(one, torch.Tensor) and key in own and one.data_ptr() == own[key].data_ptr()
        and one.shape == own[key].shape for key, one in node.items())


def _without(node, own):
    """node with OWN for each dict of tensors that the model has under these names."""
    if not isinstance(node, dict):
        return node
    return OWN if _is_own(node, own) else {key: _without(one, own) for key, one in node.items()}


def _with(node, own):
    if isinstance(node, dict):
        return {key: _with(one, own) for key, one in node.items()}
    return own if type(node) is str and node == OWN else node


def _measures(module):
    """Metrics of torchmetrics: what they have added up is no buffer."""
    return {name: one for name, one in module.named_modules()
            if hasattr(one, "_update_count") and hasattr(one, "_defaults")}


def _values(metric):
    return {key: getattr(metric, key) for key in metric._defaults}


def _dump(trainer):
    """As Lightning makes it. Parts of model and optimizers are not gathered for it, they are saved in place."""
    connector, strategy = trainer._checkpoint_connector, trainer.strategy
    if not strategy.restore_checkpoint_after_setup:
        return connector.dump_checkpoint(weights_only=False), trainer.lightning_module.state_dict()
    instead = {(connector, "_get_lightning_module_state_dict"): dict, (strategy, "optimizer_state"): lambda _one: {}}
    try:
        for (one, name), call in instead.items():
            setattr(one, name, call)
        return connector.dump_checkpoint(weights_only=False), {}
    finally:
        for one, name in instead:
            vars(one).pop(name, None)


def _files(trainer):
    """Callbacks that write files at a step once: they do not keep it themselves."""
    return {one.state_key: one for one in trainer.checkpoint_callbacks if hasattr(one, LAST_FILE)}


def read(trainer: typing.Any, between: bool) -> dict[str, typing.Any]:
    """The state between two batches, or between two epochs. Of the model's tensors none is copied."""
    fit, module = trainer.fit_loop, trainer.lightning_module
    loader, fetcher = fit._combined_loader, fit._data_fetcher
    dumped, own = _dump(trainer)
    checkpoint = {key: _without(one, own) for key, one in dumped.items() if key not in LEFT_OUT}
    loops = checkpoint["loops"]["fit_loop"]
    if between or not batches.resumable(loader, fetcher):
        loops["state_dict"].pop("combined_loader", None)
    return {"checkpoint": checkpoint, "between": between, "world": trainer.world_size, "stop": trainer.should_stop,
            **batches.place(loader, fetcher), "loader": batches.own_numbers(loader),
            "frozen": [name for name, one in module.named_parameters() if not one.requires_grad],
            "files": {key: getattr(one, LAST_FILE) for key, one in _files(trainer).items()},
            "metrics": dict(trainer._logger_connector._callback_metrics),
            "averages": {key: _values(one) for key, one in fit.epoch_loop._results.items()
                         if one.is_tensor and one.meta.on_epoch and not one.has_reset},
            "measures": {name: {**_values(one), "_update_count": one._update_count}
                         for name, one in _measures(module).items()}}


def put(trainer: typing.Any, saved: dict[str, typing.Any]) -> None:
    """Model and optimizers are restored. In on_fit_start(): Lightning's own restore_training_state() comes after it,
    as where a ckpt_path was given.
    """
    connector, module = trainer._checkpoint_connector, trainer.lightning_module
    later = trainer.strategy.restore_checkpoint_after_setup  # Lightning does it by itself after this hook
    checkpoint = _with(saved["checkpoint"], {} if later else module.state_dict())
    connector._loaded_checkpoint = {**checkpoint, "optimizer_states": []}
    if not later:
        module.on_load_checkpoint(connector._loaded_checkpoint)
        connector.restore_datamodule()
        connector.restore_callbacks()
    for name, one in module.named_parameters():
        one.requires_grad_(name not in saved["frozen"])
    for key, one in _files(trainer).items():
        setattr(one, LAST_FILE, saved["files"].get(key, getattr(one, LAST_FILE)))
    trainer.should_stop = saved["stop"]
    trainer._logger_connector._callback_metrics.update(saved["metrics"])
    for name, one in _measures(module).items():
        vars(one).update(saved["measures"].get(name, {}))


def fit_world(saved: dict[str, typing.Any], world: int, every: int) -> None:
    """Another number of ranks draws the rest of the epoch: a batch of each rank is what they have drawn then, down to
    a multiple of every, which is how many an update takes.
    """
    if saved["world"] != world and not saved["between"]:
        saved["drawn"] = saved["drawn"] * saved["world"] // world // every * every
        counted = saved["checkpoint"]["loops"]["fit_loop"]["epoch_loop.batch_progress"]["current"]
        counted.update(dict.fromkeys(counted, saved["drawn"]))


def add_averages(trainer: typing.Any, saved: dict[str, dict[str, torch.Tensor]]) -> None:
    """What self.log(on_epoch=True) had added up goes to what it has now, as soon as it has something; and out of
    saved.
    """
    now = trainer.fit_loop.epoch_loop._results
    for key in saved.keys() & now.keys():
        one, meta = now[key], now[key].meta
        combine = torch.add if meta.is_mean_reduction or meta.is_sum_reduction else meta.reduce_fx
        for name, value in saved.pop(key).items():
            setattr(one, name, combine(getattr(one, name), value.to(one.value.device)))
