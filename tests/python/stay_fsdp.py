# SPDX-License-Identifier: Apache-2.0
"""A model under FSDP2 whose processes stay when a node is lost (docs/resilient.md): stay_fsdp.py NAME STEPS.
Inside a supervised job. A data loader with a worker, AdamW, dropout. Each rank writes the whole model's hash to NAME.
"""
import hashlib
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Dataset

import dlrover

sys.path.insert(0, "/opt/dlrover/share/dlrover/examples")
import torch_train  # noqa: E402 pylint: disable=wrong-import-position

NAME, STEPS = sys.argv[1], int(sys.argv[2])
BATCH = 2


class Codes(Dataset):
    """Sample i is a function of i."""

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        return torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(i))


def make():
    torch.manual_seed(7)
    net = nn.Sequential(nn.Embedding(64, 48), nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Dropout(0.1),
                                                            nn.Linear(96, 48)), nn.Linear(48, 64))
    fully_shard(net[1])
    return fully_shard(net)


def load(step, rank, world):
    """What this rank reads from here on. The generator is the loader's own: else it draws from the program's each time
    that it begins, once more in a run that was restored."""
    batches = ((n * world + rank) * BATCH for n in range(step, STEPS))
    return DataLoader(Codes(), batch_size=BATCH, num_workers=1, generator=torch.Generator(),
                      sampler=[first + i for first in batches for i in range(BATCH)])


def train():
    rank, world = torch_train.join(60)
    net = make()  # wrapped anew: what is sharded holds the process group of its round
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=False)
    checkpoint = dlrover.bind(net, optimizer)
    step = checkpoint.restore() or 0
    for codes in load(step, rank, world):
        logits = net(codes)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), codes.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        checkpoint.step(step)
        until = time.monotonic() + 180
        while step == 20 and not os.path.exists("go") and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.05)
    text = b"".join(p.full_tensor().detach().numpy().tobytes() for p in net.parameters())
    with open(f"{NAME}.{rank}", "w", encoding="ascii") as out:
        out.write(hashlib.sha256(text).hexdigest() + "\n")
    checkpoint.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    dlrover.resilient(train)()
