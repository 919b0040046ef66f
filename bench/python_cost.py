#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What ck.step() costs a training in Python, by the number of its tensors.

Tensors of one item each, so that what is measured is the looking at them and not the copying: in
steps of which no save is due, and in steps that are saved, to a file in /dev/shm beside the call.
Each call's own time is taken, BENCH_PYTHON_STEPS (200) of them; the median counts. Needs Debian's python3-torch and no cluster. Takes about 10 s.
"""
import os
import sys
import tempfile
import time
from statistics import median

from lib.rows import load, median_interval, percentile, row, say

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STEPS = int(os.environ.get("BENCH_PYTHON_STEPS", 200))
TENSORS = (400, 1600, 13600)
PER_PARAMETER = 4  # itself, and of Adam two moments and a count


def library():
    stage = os.environ.get("DLROVER_STAGE", "")
    prefix = os.environ.get("PREFIX", "/opt/dlrover").lstrip("/")
    path = os.path.join(stage, prefix, "lib", "libdlrover.so.0")
    if os.path.exists(path):
        os.environ.setdefault("DLROVER_LIB", path)


def measure(tensors, every):
    """Nanoseconds of each call."""
    import dlrover  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel

    parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(tensors // PER_PARAMETER)]
    optimizer = torch.optim.Adam(parameters)
    for parameter in parameters:
        parameter.grad = torch.ones(1)
    optimizer.step()
    took = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        ck = dlrover.bind(torch.nn.ParameterList(parameters), optimizer, directory=directory,
                          every=every)
        for step in range(1, STEPS + 6):
            began = time.perf_counter_ns()
            ck.step(step)
            took.append(time.perf_counter_ns() - began)
            ck.fence()
        ck.close()
    return took[5:]  # the first name the tensors


def main():
    try:
        import torch
    except ImportError:
        say("python_cost: no python3-torch, nothing measured")
        return
    torch.set_num_threads(1)
    for tensors in TENSORS:
        for name, every, what in (("step", 1 << 30, "no save due"), ("saved", 1, "each saved")):
            took = [ns / 1000 for ns in measure(tensors, every)]
            row(f"python.{name}.{tensors}", median(took), "us",
                f"PyTorch {torch.__version__}, one item in each tensor, {what}, median of "
                f"{len(took)} steps; {os.cpu_count()} cores; load {load():.1f}",
                noise=median_interval(took), p99=percentile(took, 99))


library()
# In the place of this folder, whose files are not the modules that torch imports.
sys.path[0] = os.path.join(REPO, "python")
main()
