#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A small training for python.bats: STEPS steps with what a checkpoint must carry (Adam or SGD
with momentum, batch norm buffers, dropout's random numbers, a scheduler), then a hash.
"""
import hashlib
import os
import signal
import sys

import torch
from torch import nn

import dlrover


def main():
    steps, optimizer_name, kill_at = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 300), nn.BatchNorm1d(300), nn.Dropout(0.2), nn.ReLU(),
                          nn.Linear(300, 5))
    if optimizer_name == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    ck = dlrover.bind(model, optimizer, scheduler, replicated="DDP" in os.environ)
    step = ck.restore()
    print(f"from {step}", flush=True)
    while step < steps:
        data = torch.randn(16, 20)
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
        scheduler.step()
        step += 1
        ck.step(step)
        if step == kill_at:
            ck.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    for state in optimizer.state_dict()["state"].values():
        for value in state.values():
            digest.update(value.numpy().tobytes() if torch.is_tensor(value) else repr(value).encode())
    print(f"saves {ck.stats()['saves']}")
    ck.close()
    print(digest.hexdigest())


main()
