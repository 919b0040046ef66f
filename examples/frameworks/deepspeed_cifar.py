# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's CIFAR-10 example in small: a convolutional network under ZeRO, on images that are drawn here.

    srun python examples/frameworks/deepspeed_cifar.py --steps 200 --stage 2

The line with dlrover is all that the checkpoints need. Each process is a rank; its number and the address of the first
are in the environment, as Slurm's plugin, torchrun and DeepSpeed's launcher set them. Without a job, where
--save-every says so, engine.save_checkpoint() writes DeepSpeed's files and beside them ours.
"""
import argparse

import deepspeed
import torch
from torch import nn

import dlrover

CLASSES, BATCH = 10, 16


class Net(nn.Module):
    """Two convolutions and three layers over images of 3 x 32 x 32."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2))
        self.classes = nn.Sequential(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Dropout(0.1),
                                     nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES))

    def forward(self, images):
        return self.classes(self.features(images))


def draw(engine, samples=4096):
    """The next micro-batch: its place in the data follows from what is restored, engine.micro_steps."""
    each = BATCH * engine.world_size
    epoch, at = divmod(engine.micro_steps * each, samples)
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch))
    chosen = order[at:at + each][engine.global_rank::engine.world_size]
    labels = chosen % CLASSES
    colours = torch.rand(CLASSES, 3, 1, 1, generator=torch.Generator().manual_seed(1))
    images = torch.rand(len(chosen), 3, 32, 32, generator=torch.Generator().manual_seed(int(chosen[0])))
    images[:, :, 8:24, 8:24] = colours[labels]  # a square whose colour is the class
    return images.to(engine.device, torch.bfloat16), labels.to(engine.device)


def config_of(args):
    return {
        "train_micro_batch_size_per_gpu": BATCH, "gradient_accumulation_steps": 2, "steps_per_print": 20,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.8, 0.999], "torch_adam": True}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-3, "warmup_num_steps": 50}},
        "gradient_clipping": 1.0, "bf16": {"enabled": True}, "zero_optimization": {"stage": args.stage}}


def main():
    parser = argparse.ArgumentParser(description="Train a small network with DeepSpeed.")
    parser.add_argument("--steps", type=int, default=200, help="updates")
    parser.add_argument("--stage", type=int, default=2, choices=(0, 1, 2, 3), help="of ZeRO")
    parser.add_argument("--save-every", type=int, default=0, help="steps between engine.save_checkpoint()")
    parser.add_argument("--local_rank", type=int, help="set by DeepSpeed's launcher")
    args = parser.parse_args()
    torch.manual_seed(7)
    engine, _, _, _ = deepspeed.initialize(model=Net(), config=config_of(args))
    dlrover.deepspeed(engine)
    loss_of = nn.CrossEntropyLoss()
    while engine.global_steps < args.steps:
        images, labels = draw(engine)
        loss = loss_of(engine(images).float(), labels)
        engine.backward(loss)
        saves = args.save_every and engine.is_gradient_accumulation_boundary()
        engine.step()
        if saves and engine.global_steps % args.save_every == 0:
            engine.save_checkpoint("deepspeed-ckpt")
    if engine.global_rank == 0:
        print(f"done: {engine.global_steps} steps, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
