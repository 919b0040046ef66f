#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Megatron-core's training loop with a small GPT, and what its checkpoints in memory need: the lines with `ck`.

    torchrun --nproc-per-node 4 megatron_gpt.py --tp 2 --pp 2 --steps 100

It is the loop of Megatron-core's quick start with pipeline parallelism, bf16, the distributed optimizer and a
scheduler, on made-up data that depend on the step alone. It may be stopped at any moment and started again, also with
other sizes of --tp and --pp and on another number of ranks. dist_checkpointing.save() at the end is Megatron's own.
"""
import argparse
import os

import torch
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.transformer_config import TransformerConfig

import dlrover

VOCABULARY, LENGTH = 128, 32
MICRO_BATCH, BATCH = 2, 8  # sequences of a forward pass, and of all ranks in a step


def initialize(tp, pp):
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    torch.distributed.init_process_group(backend, rank=rank, world_size=world)
    parallel_state.initialize_model_parallel(tp, pp)
    torch.manual_seed(1)
    model_parallel_cuda_manual_seed(1)


def make(args):
    """Model, optimizer, scheduler: of this rank."""
    config = TransformerConfig(
        num_layers=args.layers, hidden_size=32, num_attention_heads=4, ffn_hidden_size=64, gated_linear_unit=True,
        activation_func=torch.nn.functional.silu, add_bias_linear=False, hidden_dropout=0.1, attention_dropout=0.1,
        tensor_model_parallel_size=args.tp, pipeline_model_parallel_size=args.pp, bf16=True,
        params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16, use_cpu_initialization=True,
        bias_activation_fusion=False, bias_dropout_fusion=False, gradient_accumulation_fusion=False,
        deterministic_mode=True)
    model = GPTModel(config, get_gpt_layer_local_spec(), VOCABULARY, LENGTH,
                     pre_process=parallel_state.is_pipeline_first_stage(),
                     post_process=parallel_state.is_pipeline_last_stage(), position_embedding_type="rope")
    if torch.cuda.is_available():
        model.cuda()
    ddp = DistributedDataParallelConfig(use_distributed_optimizer=True, grad_reduce_in_fp32=True)
    model = DistributedDataParallel(config, ddp, Float16Module(config, model))
    config.finalize_model_grads_func = finalize_model_grads
    optimizer = get_megatron_optimizer(OptimizerConfig(
        optimizer="adam", lr=1e-2, min_lr=1e-4, weight_decay=0.01, bf16=True, params_dtype=torch.bfloat16,
        use_distributed_optimizer=True, clip_grad=1.0), [model])
    scheduler = OptimizerParamScheduler(
        optimizer, init_lr=0.0, max_lr=1e-2, min_lr=1e-4, lr_warmup_steps=5 * BATCH, lr_decay_steps=200 * BATCH,
        lr_decay_style="cosine", start_wd=0.01, end_wd=0.01, wd_incr_steps=200 * BATCH, wd_incr_style="constant")
    return config, model, optimizer, scheduler


def batches(step):
    """The micro-batches of a step that this rank is given. Their order is the data's whole state."""
    seed = torch.Generator().manual_seed(step)
    text = torch.randint(VOCABULARY, (BATCH, 1), generator=seed) + torch.arange(LENGTH + 1) * 3
    rank, world = parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_world_size()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for rows in (text % VOCABULARY).to(device).split(MICRO_BATCH)[rank::world]:
        yield rows[:, :-1], rows[:, 1:]


def forward(data, model):
    tokens, labels = next(data)
    positions = torch.arange(LENGTH, device=tokens.device).expand_as(tokens)
    mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool, device=tokens.device).triu(1)
    output = model(tokens, positions, mask, labels=labels)

    def mean(losses):
        loss = losses.float().mean()
        return loss, {"loss": loss.detach().clone()}  # Megatron divides the other one

    return output, mean


def train(args, after=lambda step, loss: None):
    """Until step args.steps; after(step, loss) is called after each, loss being None but on the last stage."""
    config, model, optimizer, scheduler = make(args)
    ck = dlrover.megatron.bind(model, optimizer, scheduler=scheduler)
    step = ck.restore()
    run = get_forward_backward_func()
    count = BATCH // MICRO_BATCH // parallel_state.get_data_parallel_world_size()
    while step < args.steps:
        model.zero_grad_buffer()
        optimizer.zero_grad()
        losses = run(forward_step_func=forward, data_iterator=batches(step), model=model, num_microbatches=count,
                     seq_length=LENGTH, micro_batch_size=MICRO_BATCH, forward_only=False)
        optimizer.step()
        scheduler.step(increment=BATCH)
        step += 1
        ck.step(step)
        after(step, sum(float(one["loss"]) for one in losses) / count if losses else None)
    ck.close()
    return model, optimizer


def parse(more=()):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default, text in (("tp", 2, "ranks that a layer is cut for"), ("pp", 2, "stages"),
                                ("layers", 4, "of the model"), ("steps", 20, "train until this one")):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} (default: %(default)s)")
    parser.add_argument("--save", metavar="DIR", help="at the end save Megatron's own checkpoint there")
    for name, options in more:
        parser.add_argument(name, **options)
    return parser.parse_args()


def main():
    args = parse()
    initialize(args.tp, args.pp)
    model, _ = train(args, lambda step, loss: print(f"step {step} loss {loss:.4f}", flush=True) if loss else None)
    if args.save:
        os.makedirs(args.save, exist_ok=True)
        dist_checkpointing.save(model.module.module.sharded_state_dict(), args.save,
                                sharded_strategy=dlrover.megatron.SaveStrategy())
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
