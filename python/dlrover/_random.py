# SPDX-License-Identifier: Apache-2.0
"""Every generator of random numbers a training draws from, but torch's own on the CPU."""
from __future__ import annotations

import array
import hashlib
import random
import sys
import typing

import torch


def _numpy():
    """Only where the program uses it: importing it costs more than a step."""
    return sys.modules.get("numpy")


def _has_cuda():
    return torch.cuda.is_available() and torch.cuda.is_initialized()


def get(devices: bool = True) -> dict[str, typing.Any]:
    """devices: those of GPUs too, for which the host waits until they have done what they have to do."""
    version, numbers, gauss = random.getstate()
    state = {"python": (version, array.array("I", numbers).tobytes(), gauss)}
    if _numpy():
        state["numpy"] = _numpy().random.get_state()
    if devices and _has_cuda():
        state["cuda"] = [one.numpy().tobytes() for one in torch.cuda.get_rng_state_all()]
        state["cuda_current"] = torch.cuda.current_device()
    return state


def _put_cuda(one: bytes, device: int) -> None:
    torch.cuda.set_rng_state(torch.frombuffer(bytearray(one), dtype=torch.uint8), device)


def put(state: dict[str, typing.Any]) -> None:
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(array.array("I", numbers)), gauss))
    if "numpy" in state:
        import numpy  # pylint: disable=import-outside-toplevel
        numpy.random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.is_available():
        # A node may show fewer GPUs, or more, than the one it replaces.
        for device, one in zip(range(torch.cuda.device_count()), state["cuda"]):
            _put_cuda(one, device)
        # A rank that sees every GPU of its node may work on another one than before.
        if state.get("cuda_current", len(state["cuda"])) < len(state["cuda"]):
            _put_cuda(state["cuda"][state["cuda_current"]], torch.cuda.current_device())


def seed(text: bytes) -> None:
    """All of them, from any bytes: the same bytes give the same numbers."""
    value = int.from_bytes(hashlib.sha256(text).digest()[:8], "little")
    torch.manual_seed(value)  # GPUs too
    random.seed(value)
    if _numpy():
        _numpy().random.seed(value & 0xffffffff)
