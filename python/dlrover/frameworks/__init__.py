# SPDX-License-Identifier: Apache-2.0
"""Adapters for frameworks that own the training loop, one module for each, importable where its framework is.

An adapter NAME.py defines what `dlrover.NAME` gives (see EXPORTS) and drives a Session; it never calls bind().
"""
from __future__ import annotations

import importlib
import typing

# What dlrover gives lazily, and the module here that defines it under that name. They are not names of this package:
# `dlrover.frameworks.accelerate` is the module.
EXPORTS = {"TrainerCallback": "trainer", "accelerate": "accelerate", "LightningCheckpoint": "lightning",
           "deepspeed": "deepspeed", "megatron": "megatron"}


def find(name: str) -> typing.Any:
    """The adapter that dlrover gives under name. AttributeError for another name, ImportError where its framework is
    not, or is too old.
    """
    if name not in EXPORTS:
        raise AttributeError(f"module 'dlrover' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{EXPORTS[name]}"), name)
