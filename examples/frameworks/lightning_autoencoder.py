#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An autoencoder in Lightning, as its documentation begins with, of digits that are drawn here instead of downloaded.

    srun --dlrover --nodes=2 --ntasks-per-node=1 python lightning_autoencoder.py --nodes 2   # under a supervisor
    python lightning_autoencoder.py             # alone: files in ./dlrover-ckpt

Killed and started again, it goes on at the batch where it was. What is ours is marked.
"""
import argparse
import os

import lightning as L
import torch

import dlrover  # ours


class Digits(torch.utils.data.Dataset):
    """28 x 28 pixels: a bright bar whose place is the row's number."""

    def __len__(self):
        return 2048

    def __getitem__(self, i):
        image = torch.zeros(28, 28)
        image[i % 28, : 1 + i // 28 % 28] = 1
        return image.flatten()


class AutoEncoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
        self.decoder = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 784))

    def training_step(self, batch, batch_idx):
        loss = torch.nn.functional.mse_loss(self.decoder(self.encoder(batch)), batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--accelerator", default="auto")
    arguments = parser.parse_args()
    L.seed_everything(1, workers=True)
    trainer = L.Trainer(
        max_epochs=arguments.epochs, accelerator=arguments.accelerator, num_nodes=arguments.nodes,
        devices=int(os.environ.get("SLURM_NTASKS_PER_NODE", 1)), logger=False,
        callbacks=[dlrover.LightningCheckpoint()])  # ours
    trainer.fit(AutoEncoder(), torch.utils.data.DataLoader(Digits(), batch_size=64, shuffle=True))
    print(f"step {trainer.global_step} loss {trainer.callback_metrics['train_loss'].item():.6f}")


if __name__ == "__main__":
    main()
