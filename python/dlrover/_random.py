# SPDX-License-Identifier: Apache-2.0
"""Every generator of random numbers a training draws from, but torch's own on the CPU."""
import hashlib
import random
import sys

import torch


def _numpy():
    """Only where the program uses it: importing it costs more than a step."""
    return sys.modules.get("numpy")


def _has_cuda():
    return torch.cuda.is_available() and torch.cuda.is_initialized()


def get():
    state = {"python": random.getstate()}
    if _numpy():
        state["numpy"] = _numpy().random.get_state()
    if _has_cuda():
        state["cuda"] = torch.cuda.get_rng_state().numpy().tobytes()
    return state


def put(state):
    random.setstate(state["python"])
    if "numpy" in state:
        import numpy  # pylint: disable=import-outside-toplevel
        numpy.random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.frombuffer(bytearray(state["cuda"]), dtype=torch.uint8))


def seed(text):
    """All of them, from any bytes: the same bytes give the same numbers."""
    value = int.from_bytes(hashlib.sha256(text).digest()[:8], "little")
    torch.manual_seed(value)  # GPUs too
    random.seed(value)
    if _numpy():
        _numpy().random.seed(value & 0xffffffff)
