# SPDX-License-Identifier: Apache-2.0
"""What of the field PyPI has, beside a current PyTorch: a virtual environment of field.py's own."""
import os
import subprocess
import sys

from lib.rows import say

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TORCH = os.environ.get("DLROVER_TORCH_VENV", "/opt/dlrover-torch")
VENV = os.path.join(REPO, os.environ.get("BUILD", "build"), "field-venv")
TORCH_LIMIT_S, PIP_LIMIT_S = 300, 90

# Each without what it wants: that is PyTorch again, with CUDA. Then what it takes to be imported.
PACKAGES = {
    "nvidia-resiliency-ext==0.4.1": ["defusedxml", "packaging", "psutil", "pyyaml"],
    "torchsnapshot==0.1.0": ["aiofiles", "aiohttp", "importlib-metadata", "nest-asyncio", "psutil",
                             "pyyaml"],
    "dlrover==0.6.1": ["psutil", "deprecated", "requests", "packaging", "grpcio", "protobuf"],
}
NOT_MEASURED = {
    "torchft": "stores nothing: a replica that comes back takes its state from a live one",
    "nvidia-resiliency-ext's async saves": "call torch.cuda.synchronize(): not without a GPU",
}


def _pip(*words):
    """None, or why it did not install."""
    try:
        done = subprocess.run(
            [f"{VENV}/bin/python", "-m", "pip", "install", "-q", "--no-cache-dir", "--retries", "1",
             "--disable-pip-version-check", *words], stdin=subprocess.DEVNULL, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PIP_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"pip did not end in {PIP_LIMIT_S} s"
    if done.returncode == 0:
        return None
    wrong = [line for line in done.stdout.splitlines() if line.startswith("ERROR")]
    return (wrong or done.stdout.splitlines() or ["pip failed"])[-1]


def _make():
    """Beside PyTorch's environment, whose packages it sees and leaves as they are."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", VENV], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    with open(f"{VENV}/lib/{version}/site-packages/torch.pth", "w", encoding="utf-8") as file:
        file.write(f"{TORCH}/lib/{version}/site-packages\n")


def prepare():
    """The interpreter to measure with, and {package: why it is not there}."""
    absent = dict(NOT_MEASURED)
    try:
        subprocess.run([f"{REPO}/scripts/install-deps", "--torch-venv"], check=True,
                       stdin=subprocess.DEVNULL, stdout=sys.stderr, timeout=TORCH_LIMIT_S)
        if not os.access(f"{VENV}/bin/python", os.X_OK):
            _make()
    except (OSError, subprocess.SubprocessError) as error:
        absent["a current PyTorch, and what needs one"] = str(error)
        return sys.executable, absent
    for package, needs in PACKAGES.items():
        say(f"field: {package}")
        why = _pip("--no-deps", package) or _pip(*needs)
        if why:
            absent[package] = why
    return f"{VENV}/bin/python", absent
