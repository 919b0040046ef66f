# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in memory for training jobs: a thin binding of libdlrover.

bind() takes a PyTorch model and its optimizer, Checkpoint any arrays.
"""
from ._checkpoint import Checkpoint, Error

__all__ = ["Checkpoint", "Error", "bind"]


def bind(model, optimizer=None, extra=None, **options):
    """Registers a model's and an optimizer's tensors once; see dlrover._torch.Bound."""
    from ._torch import bind as bind_torch  # pylint: disable=import-outside-toplevel

    return bind_torch(model, optimizer, extra, **options)
