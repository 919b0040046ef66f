#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training of a character-level language model with PyTorch.

The same kind of model as mpi_train's, on CPUs with gloo, started by a bare srun. What a
program has to add for its checkpoints are the lines with `ck` in train().

Gradients lie in one flat tensor that is summed by one all_reduce: its order depends on the
number of ranks alone. (DistributedDataParallel arranges its buckets anew after the first
step, so that its sums differ after a restart even from a perfect checkpoint.) With one thread
and data drawn from seed, step and rank, a run that was killed and went on from a checkpoint
ends with the same bits as one which was left in peace.
"""
import argparse
import ctypes
import datetime
import fcntl
import hashlib
import os
import re
import socket
import struct
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

VOCAB = 96  # newline and the 95 printable ASCII characters
CONTEXT = 32
# Wide tables, which cost only additions, and thin matrices: Debian's default BLAS is slow.
SIZES = {"small": (128, 64), "default": (1024, 128), "large": (2048, 128)}
SIOCGIFADDR = 0x8915


class CharLM(nn.Module):
    """Predicts a character from the CONTEXT before it: an embedding for each position."""

    def __init__(self, hidden, inner):
        super().__init__()
        self.table = nn.EmbeddingBag(CONTEXT * VOCAB, hidden, mode="sum")
        nn.init.uniform_(self.table.weight, -((3 / CONTEXT) ** 0.5), (3 / CONTEXT) ** 0.5)
        self.middle = nn.Linear(hidden, inner)
        self.out = nn.Linear(inner, VOCAB)
        self.register_buffer("rows", torch.arange(CONTEXT) * VOCAB, persistent=False)

    def forward(self, codes):
        hidden = torch.relu(self.table(codes + self.rows))
        return self.out(torch.relu(self.middle(hidden)))


def parse():
    parser = argparse.ArgumentParser(
        description="Train a character-level language model, one process per rank.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter, allow_abbrev=False)
    add = parser.add_argument
    add("--params", choices=sorted(SIZES), default="default", help="size of the model")
    add("--steps", type=int, default=400, help="train until this step")
    add("--batch", type=int, default=64, help="samples of a rank in a step")
    add("--seed", type=int, default=1, help="of the first weights and the order of the data")
    add("--text", default="/usr/share/common-licenses", metavar="DIR", help="learn its files")
    add("--no-ckpt", action="store_true", help="do not use libdlrover at all")
    add("--save-weights", metavar="FILE", help="at the end rank 0 writes weights and moments")
    add("--every", type=int, default=1, help="print each N-th step")
    add("--hash-log", metavar="FILE", help="each rank appends 'step hash rank' after each step")
    add("--resilient", action="store_true", help="stay in this process when another node is lost")
    add("--timeout", type=int, default=300, metavar="S", help="limit of one wait for the others")
    args = parser.parse_args()
    for name in ("steps", "batch", "every", "timeout"):
        if getattr(args, name) < 1:
            parser.error(f"--{name}: must be 1 or more")
    return args


def environment(*names, default=None):
    return next((os.environ[name] for name in names if name in os.environ), default)


def first_host(nodelist):
    """The first host of a list as Slurm writes it: n[3-4,7],m1 gives n3."""
    return re.sub(r"\[(\w+)[^]]*\]", r"\1", re.match(r"(?:\[[^]]*\]|[^,[])+", nodelist)[0])


def interface_towards(host):
    """The network interface whose address this machine would use to reach host."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # sends nothing: asks the routing table
        own = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # has no address
            if socket.inet_ntoa(answer[20:24]) == own:
                return name
    return None


def join(timeout_s):
    """Finds the other ranks: as torchrun would say it, else from Slurm's own variables."""
    rank = int(environment("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", default=0))
    world = int(environment("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", default=1))
    if world == 1:
        return rank, world
    nodes = environment("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", default="127.0.0.1")
    key = int(environment("SLURM_JOB_ID", default=0)) * 16
    key += int(environment("SLURM_STEP_ID", default=0))
    host = environment("MASTER_ADDR", default=first_host(nodes))
    port = int(environment("MASTER_PORT", default=20000 + key % 10000))
    # Gloo takes the address of the host's own name, which on many machines is 127.0.1.1.
    if "GLOO_SOCKET_IFNAME" not in os.environ:
        interface = interface_towards(host)
        if interface:
            os.environ["GLOO_SOCKET_IFNAME"] = interface
    dist.init_process_group("gloo", f"tcp://{host}:{port}", rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=timeout_s))
    return rank, world


def load_text(directory, rank, world):
    """Every file of directory as codes; rank 0 reads, so that all ranks have the same."""
    text = torch.empty(0, dtype=torch.uint8)
    if rank == 0:
        codes = bytes(0 if byte == 10 else byte - 31 if 32 < byte < 127 else 1
                      for byte in range(256))
        files = {os.path.realpath(entry): None
                 for entry in sorted(item.path for item in os.scandir(directory))
                 if os.path.isfile(entry)}
        data = bytearray()
        for name in files:
            with open(name, "rb") as file:
                data += file.read().translate(codes)
        if len(data) <= CONTEXT:
            sys.exit(f"torch_train: no text in '{directory}'")
        text = torch.frombuffer(data, dtype=torch.uint8)
    if world > 1:
        length = torch.tensor([len(text)])
        dist.broadcast(length, 0)
        text = text if rank == 0 else torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(text, 0)
    return text


def draw(text, args, step, rank):
    """The samples of a step: they depend on seed, step and rank only."""
    random = torch.Generator().manual_seed((args.seed << 44) ^ (step << 20) ^ rank)
    start = torch.randint(len(text) - CONTEXT, (args.batch, 1), generator=random)
    rows = text[start + torch.arange(CONTEXT + 1)].long()
    return rows[:, :-1], rows[:, -1]


def flatten_gradients(model):
    """One tensor for all gradients and, as its last item, the loss."""
    flat = torch.zeros(sum(p.numel() for p in model.parameters()) + 1)
    at = 0
    for p in model.parameters():
        p.grad = flat[at:at + p.numel()].view_as(p)
        at += p.numel()
    return flat


def state_bytes(model, optimizer):
    """The memory of weights and moments, piece by piece."""
    tensors = list(model.state_dict().values())
    for p in model.parameters():
        tensors += [value for _, value in sorted(optimizer.state[p].items())]
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        yield (ctypes.c_char * size).from_address(tensor.data_ptr())


def state_hash(model, optimizer):
    digest = hashlib.blake2b(digest_size=8)
    for piece in state_bytes(model, optimizer):
        digest.update(piece)
    return digest.hexdigest()


def append_line(path, line):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    os.write(fd, line.encode())
    os.close(fd)


def train(args, rank, world, text):
    torch.manual_seed(args.seed)
    model = CharLM(*SIZES[args.params])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_of = nn.CrossEntropyLoss()
    step, ck = 0, None
    if not args.no_ckpt:
        import dlrover  # pylint: disable=import-outside-toplevel
        ck = dlrover.bind(model, optimizer)  # names the state
        step = ck.restore()  # loads what an earlier attempt left; 0: nothing
    if rank == 0:
        size = sum(p.numel() for p in model.parameters())
        print(f"{size} parameters, {size * 12e-6:.1f} MB of state in each of {world} ranks")
        if step:
            print(f"resumed from step {step}", flush=True)
    flat = flatten_gradients(model)
    since, printed = time.monotonic(), step
    while step < args.steps:
        codes, targets = draw(text, args, step, rank)
        flat.zero_()
        loss = loss_of(model(codes), targets)
        loss.backward()
        flat[-1] = loss.detach()
        if world > 1:
            dist.all_reduce(flat)
            flat /= world
        optimizer.step()  # waits first until the last state is copied: ck saw to that
        step += 1
        if ck:
            ck.step(step)  # from here the state is that of this step
        if args.hash_log:
            append_line(args.hash_log, f"{step} {state_hash(model, optimizer)} {rank}\n")
        if rank == 0 and (step % args.every == 0 or step == args.steps):
            now = time.monotonic()
            print(f"step {step}/{args.steps} loss {flat[-1]:.4f} "
                  f"{(step - printed) / (now - since):.1f} steps/s", flush=True)
            since, printed = now, step
    if ck:
        ck.close()
    return model, optimizer


def finish(args, rank, world, model, optimizer):
    """Ranks that drifted apart would be a fault of ours: the result is worth nothing then."""
    value = state_hash(model, optimizer)
    if world > 1:
        values = [None] * world
        dist.all_gather_object(values, value)
        if len(set(values)) > 1:
            sys.exit(f"torch_train: the ranks differ: {' '.join(values)}")
    if rank == 0 and args.save_weights:
        with open(args.save_weights, "wb") as file:
            for piece in state_bytes(model, optimizer):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
    if rank == 0:
        print(f"done: {args.steps} steps, state {value}", flush=True)


def run(args):
    rank, world = join(args.timeout)
    text = load_text(args.text, rank, world)
    model, optimizer = train(args, rank, world, text)
    finish(args, rank, world, model, optimizer)
    if world > 1:
        dist.destroy_process_group()


def main():
    args = parse()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if args.resilient:
        import dlrover  # pylint: disable=import-outside-toplevel
        dlrover.resilient(run)(args)
    else:
        run(args)


if __name__ == "__main__":
    main()
