#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: bench/gpu_train.py [--device cuda|cpu] [--layers N] [--width N] [--words N]
       [--steps N]

What a save costs a training step on a GPU: a language model of the GPT kind with AdamW, in bf16
autocast, trained as it is, again (the noise), with the library but no save, with a save in every
10th step and in every one. What is saved goes to a partner process on this machine over UCX, as
under a job: `gpu node`. Prints a line for each way, and what the library itself has counted.

Without torch, or without a GPU, it says so and ends with 0; --device cpu tries the program itself.
BUILD (build): where the suite was built. GPU_PYTHON (this one): a Python with torch and CUDA.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(REPO, os.environ.get("BUILD", "build"))
PYTHON = os.environ.get("GPU_PYTHON", sys.executable)
WARM_UP = 10  # steps: kernels are chosen
LENGTH, BATCH = 512, 8
WHOLE = 5     # saves before a way that saves is measured: each slot has come and is registered
SLOTS_S = 60  # or as long as this
LIMIT_S = 300  # of one way

# name, steps from a save to the next (0: none), whether the library is used
WAYS = [("plain", 0, False), ("plain again", 0, False), ("bound, nothing saved", 0, True),
        ("a save in every 10th step", 10, True), ("a save in every step", 1, True)]


def make_model(torch, layers, width, words):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(words, width)
            self.place = nn.Embedding(LENGTH, width)
            layer = nn.TransformerEncoderLayer(width, max(1, width // 64), 4 * width, 0.0,
                                               "gelu", batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

        def forward(self, text):
            size = text.shape[1]
            mask = nn.Transformer.generate_square_subsequent_mask(size, device=text.device)
            x = self.token(text) + self.place.weight[:size]
            return self.layers(x, mask=mask, is_causal=True) @ self.token.weight.t()

    return Model()


def train(args):
    """The worker: prints each step's milliseconds and the state's bytes."""
    import torch  # pylint: disable=import-outside-toplevel

    cuda = args.device == "cuda"
    torch.manual_seed(1)
    model = make_model(torch, args.layers, args.width, args.words).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ck, start = None, time.monotonic()
    if args.bound:
        sys.path.insert(0, os.path.join(REPO, "python"))
        import dlrover  # pylint: disable=import-outside-toplevel
        ck = dlrover.bind(model, optimizer)
        ck.restore()
    took, whole, warm = [], set(), WARM_UP
    for step in itertools.count(1):
        began = time.perf_counter()
        text = torch.randint(args.words, (BATCH, LENGTH), device=args.device)
        with torch.autocast(args.device, torch.bfloat16):
            output = model(text[:, :-1])
        loss = torch.nn.functional.cross_entropy(output.float().flatten(0, 1),
                                                 text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if ck:
            ck.step(step)
        if cuda:
            torch.cuda.synchronize()
        if step > warm:
            took.append((time.perf_counter() - began) * 1e3)
            if len(took) == args.steps:
                break
        elif args.saved and len(whole) <= WHOLE and time.monotonic() - start < SLOTS_S:
            whole.add(ck.stats()["committed_step"])
            warm = step + 1
    state = sum(p.numel() * p.element_size() for p in model.parameters()) * 3
    if ck:
        ck.close()
    print(json.dumps({"took": took, "state": state, "loss": loss.item()}), flush=True)


def run(args, every, bound):
    """(what the worker said, the played node's lines)"""
    command = [PYTHON, os.path.abspath(__file__), "--worker", "--device", args.device, "--layers",
               str(args.layers), "--width", str(args.width), "--words", str(args.words), "--steps",
               str(args.steps)]
    if bound:
        command = [os.path.join(BUILD, "gpu"), "node", str(every)] + command + ["--bound"]
        command += ["--saved"] if every else []
    env = dict(os.environ, DLROVER_LIB=os.path.join(BUILD, "libdlrover.so"))
    done = subprocess.run(command, env=env, text=True, stdout=subprocess.PIPE, timeout=LIMIT_S,
                          check=False)
    lines = done.stdout.splitlines()
    said = [line for line in lines if line.startswith("{")]
    if done.returncode or not said:
        sys.exit(f"gpu_train: failed with status {done.returncode}: {' '.join(command)}")
    return json.loads(said[0]), [line for line in lines if not line.startswith("{")]


def missing(device):
    """Why it cannot run here; empty when it can."""
    look = ("import torch, sys; sys.exit(0 if sys.argv[1] == 'cpu' or torch.cuda.is_available() "
            "else 3)")
    code = subprocess.run([PYTHON, "-c", look, device], stderr=subprocess.DEVNULL,
                          check=False).returncode
    if code == 0:
        return ""
    return "torch sees no GPU" if code == 3 else f"{PYTHON} has no torch (GPU_PYTHON names another)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[1])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--words", type=int, default=50257)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--bound", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--saved", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        train(args)
        return
    why = missing(args.device)
    if why:
        print(f"skipped: the training step: {why}")
        return
    plain = None
    for name, every, bound in WAYS:
        said, node = run(args, every, bound)
        mean = statistics.fmean(said["took"])
        plain = plain or mean
        print(f"training step, {name}: mean {mean:.2f} ms, median "
              f"{statistics.median(said['took']):.2f}, most {max(said['took']):.2f}, "
              f"{mean - plain:+.2f} ms against plain; {args.steps} steps, "
              f"state {said['state'] / 1e9:.2f} GB", flush=True)
        for line in node:
            print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
