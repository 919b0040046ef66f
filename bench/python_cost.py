#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What ck.step() costs a training in Python, by the number of its tensors.

Tensors of one item each, so that what is measured is the looking at them and not the copying: in
steps of which no save is due, and in steps that are saved, to a file in /dev/shm beside the call.
Each call's own time is taken, BENCH_PYTHON_STEPS (200) of them; the median counts. Needs Debian's
python3-torch and no cluster; the rows dcp_ are dlrover.dcp.bind()'s, with the PyTorch of scripts/install-deps
--torch-venv. Takes about 1 min.
"""
import os
import subprocess
import sys
import tempfile
import time
from statistics import median

from lib.rows import load, median_interval, percentile, row, say

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STEPS = int(os.environ.get("BENCH_PYTHON_STEPS", 200))
TENSORS = (400, 1600, 13600)
PER_PARAMETER = 4  # itself, and of Adam two moments and a count
DCP_SAVES = 20  # one of 13,600 tensors takes DCP's planner long
VENV = os.environ.get("DLROVER_TORCH_VENV", "/opt/dlrover-torch")


def library():
    stage = os.environ.get("DLROVER_STAGE", "")
    prefix = os.environ.get("PREFIX", "/opt/dlrover").lstrip("/")
    path = os.path.join(stage, prefix, "lib", "libdlrover.so.0")
    if os.path.exists(path):
        os.environ.setdefault("DLROVER_LIB", path)


def time_steps(bound, steps):
    """Nanoseconds of each call."""
    took = []
    for step in range(1, steps + 6):
        began = time.perf_counter_ns()
        bound.step(step)
        took.append(time.perf_counter_ns() - began)
        bound.fence()
    bound.close()
    return took[5:]  # the first name the tensors


def measure(tensors, every):
    import dlrover  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel

    parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(tensors // PER_PARAMETER)]
    optimizer = torch.optim.Adam(parameters)
    for parameter in parameters:
        parameter.grad = torch.ones(1)
    optimizer.step()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        return time_steps(dlrover.bind(torch.nn.ParameterList(parameters), optimizer,
                                       directory=directory, every=every), STEPS)


def measure_dcp(tensors, every):
    import dlrover.dcp  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel

    state = {"model": {f"w{i}": torch.zeros(1) for i in range(tensors)}, "step": 1}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        return time_steps(dlrover.dcp.bind(lambda: state, directory, every=every),
                          DCP_SAVES if every == 1 else STEPS)


def rows(prefix, take):
    import torch  # pylint: disable=import-outside-toplevel

    torch.set_num_threads(1)
    for tensors in TENSORS:
        for name, every, what in (("step", 1 << 30, "no save due"), ("saved", 1, "each saved")):
            took = [ns / 1000 for ns in take(tensors, every)]
            row(f"python.{prefix}{name}.{tensors}", median(took), "us",
                f"PyTorch {torch.__version__}, one item in each tensor, {what}, median of "
                f"{len(took)} steps; {os.cpu_count()} cores; load {load():.1f}",
                noise=median_interval(took), p99=percentile(took, 99))


def main():
    if sys.argv[1:] == ["dcp"]:
        rows("dcp_", measure_dcp)
        return
    try:
        import torch  # pylint: disable=import-outside-toplevel,unused-import
        rows("", measure)
    except ImportError:
        say("python_cost: no python3-torch, nothing measured of bind()")
    python = os.path.join(VENV, "bin", "python")
    if os.path.exists(python):
        subprocess.run([python, os.path.abspath(__file__), "dcp"], check=True)
    else:
        say(f"python_cost: no PyTorch in '{VENV}', nothing measured of dlrover.dcp")


library()
# In the place of this folder, whose files are not the modules that torch imports.
sys.path[0] = os.path.join(REPO, "python")
main()
