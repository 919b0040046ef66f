#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Causal language modelling with Hugging Face's Trainer, as its documentation begins it, in small: a GPT-2 of two
layers learns the text of this file, character by character. One line is ours (and one imports it); see trainer.diff.

    python trainer.py                                   kill it and start it again: it goes on
    torchrun --nproc-per-node 2 trainer.py
    srun --dlrover python trainer.py                    in a job script: nodes may die
"""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import dlrover

BLOCK = 32


def blocks():
    """Of the text, each third character begins one. The labels are shifted by the model."""
    with open(__file__, encoding="ascii") as file:
        text = torch.tensor(list(file.read().encode("ascii")))
    return [{"input_ids": text[i:i + BLOCK], "labels": text[i:i + BLOCK]} for i in range(0, len(text) - BLOCK, 3)]


def main():
    data = blocks()
    model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=BLOCK, n_embd=32, n_layer=2, n_head=2,
                                       bos_token_id=0, eos_token_id=0))
    training_args = TrainingArguments(
        output_dir="trainer-output",
        learning_rate=3e-3,
        per_device_train_batch_size=16,
        num_train_epochs=3,
        eval_strategy="epoch",
        save_strategy="steps",
        save_steps=10,
        save_total_limit=2,
        logging_steps=20,
        report_to=[],
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=data[:-50],
        eval_dataset=data[-50:],
        callbacks=[dlrover.TrainerCallback()],  # ours
    )
    trainer.train()
    print(f"loss {trainer.evaluate()['eval_loss']:.4f}")


if __name__ == "__main__":
    main()
