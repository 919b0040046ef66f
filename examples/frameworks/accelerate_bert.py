#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Accelerate's own first example in small: a BERT learns whether two sentences say the same. No network is needed: the
sentences are numbers, those above WORDS / 2 are about one thing, those below about another.

    python accelerate_bert.py                             one process
    accelerate launch --cpu --num_processes 2 accelerate_bert.py
    srun --dlrover=on python accelerate_bert.py           killed and begun again, it ends as if nothing had been

What a training adds for its checkpoints are the two lines that are marked.
"""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

import dlrover

WORDS, LENGTH = 60, 8
FIRST, BETWEEN = WORDS, WORDS + 1  # special tokens


def sentence_pairs(count, seed):
    random = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        about, same = torch.randint(2, (2,), generator=random).tolist()
        one, other = torch.randint(WORDS // 2, (2, LENGTH), generator=random)
        one, other = one + about * WORDS // 2, other + (about ^ same ^ 1) * WORDS // 2
        rows.append({"input_ids": torch.cat([torch.tensor([FIRST]), one, torch.tensor([BETWEEN]), other]),
                     "token_type_ids": torch.arange(2 * LENGTH + 2) // (LENGTH + 1), "labels": torch.tensor(same)})
    return rows


def training_function(args):
    accelerator = Accelerator(cpu=args.cpu, mixed_precision=args.mixed_precision,
                              gradient_accumulation_steps=args.gradient_accumulation_steps)
    accelerator = dlrover.accelerate(accelerator)  # dlrover
    set_seed(args.seed)
    train_dataloader = DataLoader(sentence_pairs(args.samples, 1), args.batch_size, shuffle=True)
    eval_dataloader = DataLoader(sentence_pairs(256, 2), 64)
    model = BertForSequenceClassification(BertConfig(vocab_size=WORDS + 2, hidden_size=32, num_hidden_layers=2,
                                                     num_attention_heads=2, intermediate_size=64, num_labels=2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    steps = len(train_dataloader) * args.num_epochs // args.gradient_accumulation_steps
    lr_scheduler = get_linear_schedule_with_warmup(optimizer, steps // 20, steps)
    model, optimizer, train_dataloader, eval_dataloader, lr_scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, eval_dataloader, lr_scheduler)

    for epoch in accelerator.dlrover.epochs(args.num_epochs):  # dlrover: was range(args.num_epochs)
        model.train()
        for batch in train_dataloader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()

        model.eval()
        right = seen = 0
        for batch in eval_dataloader:
            with torch.no_grad():
                predictions = model(**batch).logits.argmax(dim=-1)
            predictions, labels = accelerator.gather_for_metrics((predictions, batch["labels"]))
            right, seen = right + int((predictions == labels).sum()), seen + len(labels)
        accelerator.print(f"epoch {epoch}: accuracy {right / seen:.3f}", flush=True)
        if args.output_dir:
            accelerator.save_state(f"{args.output_dir}/epoch_{epoch}")
    accelerator.end_training()


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter, allow_abbrev=False)
    parser.add_argument("--mixed_precision", choices=["no", "fp16", "bf16"], default="no")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU")
    parser.add_argument("--num_epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--samples", type=int, default=2048, help="pairs of sentences to learn from")
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output_dir", help="Accelerate's own checkpoints, one for each epoch")
    training_function(parser.parse_args())


if __name__ == "__main__":
    main()
