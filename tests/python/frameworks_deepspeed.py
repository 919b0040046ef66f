#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's engines, killed and gone on: frameworks_deepspeed.py [WORD…] runs the tests whose names hold a word.

frameworks_deepspeed.py --train --steps N --out FILE [--zero N] [--dtype D]: one rank of a training, for the virtual
cluster; rank and address are in the environment. FILE gets a SHA-256 of the weights at the end.
"""
import argparse
import contextlib
import copy
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import traceback
import unittest.mock
import warnings

os.environ["DS_ACCELERATOR"] = "cpu"
PARTS, BATCH, WIDTH, WORDS, LENGTH = 2, 3, 17, 29, 8
STEPS, SAVED, KILLED = 9, 5, 7

try:
    import torch
    from torch import nn

    import deepspeed
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)
import dlrover

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # gloo: to compile it takes minutes
deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True  # slow on most CPUs, but right


class Net(nn.Module):
    """Odd sizes, so that partitions have padding; a tied weight, a frozen layer, dropout and running statistics."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.frozen = nn.Linear(WIDTH, WIDTH)
        self.inner = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH + 1), nn.GELU(), nn.Dropout(0.2),
                                   nn.Linear(2 * WIDTH + 1, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("seen", torch.zeros(1, dtype=torch.long))
        self.frozen.requires_grad_(False)

    def forward(self, words):
        self.seen += words.numel()
        hidden = self.table(words[:, :-1])
        hidden = self.norm(hidden + self.inner(self.frozen(hidden)))
        return nn.functional.cross_entropy(self.head(hidden).float().transpose(1, 2), words[:, 1:])


def config_of(args, world):
    config = {
        "train_micro_batch_size_per_gpu": BATCH, "gradient_accumulation_steps": args.parts,
        "train_batch_size": BATCH * args.parts * world, "steps_per_print": 10**9, "gradient_clipping": 1.0,
        "zero_force_ds_cpu_optimizer": False, "zero_allow_untested_optimizer": True,
        "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0., "warmup_max_lr": 0.02,
                                                     "warmup_num_steps": 6}},
        "zero_optimization": {"stage": args.zero, "reduce_bucket_size": 5000, "allgather_bucket_size": 5000,
                              "stage3_param_persistence_threshold": 40, "stage3_prefetch_bucket_size": 1000}}
    if args.dtype != "fp32":
        config[args.dtype[:4]] = {"enabled": True}
    if args.dtype == "fp16":  # the first steps overflow
        config["fp16"].update(initial_scale_power=18, loss_scale_window=2, hysteresis=1)
    if args.dtype == "bf16-fp32":  # BF16_Optimizer
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    for key, value in args.config.items():
        config.setdefault(key, {}).update(value) if isinstance(value, dict) else config.update({key: value})
    return config


def groups_of(model):
    """Two of them, with other options."""
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return [{"params": [p for name, p in trained if name.endswith("weight")], "weight_decay": 0.1},
            {"params": [p for name, p in trained if not name.endswith("weight")], "weight_decay": 0.0}]


def engine_of(args, start=1):
    torch.manual_seed(start)
    world = int(os.environ["WORLD_SIZE"])
    deepspeed.init_distributed("gloo", verbose=False)
    model = Net()
    config = config_of(args, world)
    if args.zero == 3:
        torch.manual_seed(start)
        with deepspeed.zero.Init(config_dict_or_path=config):
            model = Net()
    kind = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[args.optimizer]
    more = {"momentum": 0.9, "dampening": 0.1} if args.optimizer == "sgd" else {}
    optimizer = kind(groups_of(model), lr=0.01, **more)
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]


def batch_of(step, part):
    """Depends on the step, the part and the rank alone."""
    seed = (step * PARTS + part) * 64 + int(os.environ["RANK"])
    return torch.randint(WORDS, (BATCH, LENGTH), generator=torch.Generator().manual_seed(seed)), seed


def sha(tensor):
    return hashlib.sha256(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()).hexdigest()


@contextlib.contextmanager
def whole(p):
    with deepspeed.zero.GatheredParameters([p]) if hasattr(p, "ds_id") else contextlib.nullcontext():
        yield p


def bits_of(engine):
    """All that a training has, by DeepSpeed's own calls. Collective."""
    found, optimizer = {}, engine.optimizer
    inner = getattr(optimizer, "optimizer", optimizer)
    if hasattr(optimizer, "_link_all_hp_params"):  # DeepSpeed does not link them before a first step, nor after a load
        linked = [p for p in engine.module.parameters() if getattr(p, "_hp_mapping", None)]
        optimizer._hp_optimizer_states_linked = not linked or not inner.state
        getattr(optimizer, "_lazy_init_hp_params_optimizer_state", lambda: None)()
    for name, p in engine.module.named_parameters():
        with whole(p):
            found[name] = f"{p.dtype} {sha(p)}"
        if engine.zero_optimization_stage() and p.requires_grad:
            found[f"{name} master"] = sha(safe_get_full_fp32_param(p))
            for key in "exp_avg", "exp_avg_sq", "momentum_buffer":
                if any(key in state for state in inner.state.values()):
                    state = safe_get_full_optimizer_state(p, key)
                    found[f"{name} {key}"] = "none" if state is None else sha(state)
    if not engine.zero_optimization_stage():
        for i, p in enumerate(p for group in inner.param_groups for p in group["params"]):
            found[f"master {i}"] = sha(p)
            found.update({f"state {i} {key}": sha(one) for key, one in inner.state[p].items()})
    numbers = [float(one["step"]) for one in inner.state.values() if "step" in one]
    scale = getattr(optimizer, "loss_scaler", getattr(optimizer, "loss_scale_config", None))
    plain = {key: one for key, one in vars(scale).items() if type(one) in (int, float, bool)} if scale else {}
    return {**found, "numbers": numbers, "scale": plain, "seen": engine.module.seen.item(),
            "options": [[group["lr"], group["weight_decay"]] for group in inner.param_groups],
            "scheduler": engine.lr_scheduler.state_dict(),
            "counters": [engine.global_steps, engine.skipped_steps, engine.micro_steps, engine.global_samples]}


def weights_of(engine):
    digest = hashlib.sha256()
    for _, p in engine.module.named_parameters():
        with whole(p):
            digest.update(sha(p).encode())
    return digest.hexdigest()


def say(*words):
    print(*words, flush=True)


def evaluate(engine):
    engine.eval()
    with torch.no_grad():
        engine(batch_of(10**6, 0)[0])
    engine.train()


def update(engine):
    evaluate(engine)
    for part in range(engine.gradient_accumulation_steps()):
        words, seed = batch_of(engine.global_steps, part)
        say(f"batch {seed}")
        loss = engine(words)
        engine.backward(loss)
        engine.step()
        yield part
    if engine.global_rank == 0:
        say(f"step {engine.global_steps} loss {loss.item():.6f}")


def train(args):
    """One life of one rank."""
    engine = engine_of(args, args.start)
    if args.start != 1 and args.ours:
        list(update(engine))  # what it leaves behind is overwritten
    ck = dlrover.deepspeed(engine, directory=args.directory, every=args.orders) if args.ours else None
    if ck and args.orders:
        ck.session.in_job = True  # the library orders each N-th step then, as a supervisor does
    if args.native and args.load:
        engine.load_checkpoint(args.native)
    say(f"from {engine.global_steps}")
    found = {"from": engine.global_steps, "loaded": bits_of(engine), "saved": None}
    while engine.global_steps < args.steps:
        for part in update(engine):
            if args.native and not args.load and (engine.global_steps, part) == (args.save_at, args.save_part):
                engine.save_checkpoint(args.native)
                found["saved"] = bits_of(engine)
        if ck and engine.global_steps == args.kill_at:
            ck.session.flush()
            keep(args, found)
            torch.distributed.barrier()
            if engine.global_rank == engine.world_size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
    found["ended"] = bits_of(engine)
    keep(args, found)
    digest = weights_of(engine)
    if args.out and engine.global_rank == 0:
        with open(args.out, "w", encoding="ascii") as file:
            file.write(f"{digest}\n")
    if ck:
        assert ck.session.failures == 0, ck.session.failures
        ck.close()
        assert not {"step", "save_checkpoint", "load_checkpoint"} & vars(engine).keys()
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def keep(args, found):
    if args.found and os.environ["RANK"] == "0":
        with open(args.found, "w", encoding="ascii") as file:
            json.dump(found, file)


# --- the tests: each life is a process of its own for each rank --------------------------------

DEFAULTS = argparse.Namespace(
    steps=STEPS, zero=2, dtype="bf16", optimizer="adamw", parts=PARTS, config={}, start=1, ours=True, directory=None,
    native=None, load=False, save_at=0, save_part=PARTS - 1, kill_at=0, orders=0, out=None, found=None)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def become(rank, world, port, log, body):
    """The rest of a forked process."""
    code = 1
    try:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1)
        os.dup2(1, 2)
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
        torch.set_num_threads(1)
        body()
        code = 0
    except BaseException:  # what it was is in the log
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(place, world, body):
    """Exit statuses and what was printed, by rank. A rank that fails ends the others, as a launcher does."""
    logs, port, ranks = [os.path.join(place, f"log{rank}") for rank in range(world)], free_port(), {}
    for rank, log in enumerate(logs):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(log)
        pid = os.fork()
        if pid == 0:
            become(rank, world, port, log, body)
        ranks[pid] = rank
    ended, alive = {}, set(ranks)
    while alive:
        pid, status = os.wait()
        alive.discard(pid)
        ended[ranks[pid]] = os.waitstatus_to_exitcode(status)
        if status != 0:
            for other in alive:
                os.kill(other, signal.SIGKILL)
    texts = [open(log, encoding="utf-8", errors="replace").read() for log in logs]
    return [ended[rank] for rank in range(world)], texts


def life(place, world=2, ends=0, **more):
    """What a training found, and what it printed."""
    args = copy.copy(DEFAULTS)
    vars(args).update({"found": os.path.join(place, "found"), "directory": os.path.join(place, "ours"), **more})
    with contextlib.suppress(FileNotFoundError):
        os.unlink(args.found)
    codes, texts = run(place, world, lambda: train(args))
    assert codes[-1] == ends, f"{more}: {codes}\n" + "\n".join(texts)[-6000:]
    with open(args.found, encoding="ascii") as file:
        return json.load(file), texts


def differing(one, other, without=()):
    return [key for key in one.keys() | other.keys() if key not in without and one.get(key) != other.get(key)]


def batches(text):
    return [int(seed) for seed in re.findall(r"^batch (\d+)$", re.split(r"^from \d+$", text, flags=re.M)[1], re.M)]


def goes_on(place, world=2, **more):
    """Killed after a step that was not saved; the rest is the same as of the undisturbed training, bit for bit."""
    calm, seen = life(place, world, ours=False, **more)
    native = os.path.join(place, "native")
    killed, _ = life(place, world, ends=-signal.SIGKILL, save_at=SAVED, kill_at=KILLED, native=native, **more)
    assert not os.path.exists(os.path.join(place, "ours", f"r0-{KILLED}.safetensors"))
    again, seen_again = life(place, world, start=77, **more)
    assert again["from"] == SAVED, again["from"]
    assert not differing(again["loaded"], killed["saved"]), differing(again["loaded"], killed["saved"])
    assert not differing(again["ended"], calm["ended"]), differing(again["ended"], calm["ended"])
    for text, text_again in zip(seen, seen_again):
        assert batches(text_again) == batches(text)[SAVED * PARTS:]
    reference, _ = life(place, world, start=77, ours=False, native=native, load=True, steps=SAVED, **more)
    wrong = differing(reference["loaded"], again["loaded"])
    assert set(wrong) <= {"counters"}, wrong  # DeepSpeed's own begins to count parts anew
    return calm


def each_stage(place, dtype, stages=(0, 1, 2, 3), **more):
    for stage in stages:
        within = os.path.join(place, str(stage))
        os.mkdir(within)
        goes_on(within, zero=stage, dtype=dtype, **more)


def fp32_goes_on_to_the_same_bits(place):
    each_stage(place, "fp32")


def bf16_goes_on_to_the_same_bits(place):
    each_stage(place, "bf16")


def bf16_with_fp32_accumulation_goes_on_to_the_same_bits(place):
    each_stage(place, "bf16-fp32", (1, 2, 3))


def fp16_goes_on_with_its_loss_scale(place):
    for stage in 0, 1, 2, 3:
        within = os.path.join(place, str(stage))
        os.mkdir(within)
        calm = goes_on(within, zero=stage, dtype="fp16")
        assert calm["ended"]["scale"] and (stage == 0 or calm["ended"]["counters"][1] > 0), calm["ended"]


def one_rank_goes_on_to_the_same_bits(place):
    each_stage(place, "bf16", (1, 2, 3), world=1)


def momentum_and_uncommon_partitions_go_on(place):
    each_stage(place, "fp32", (2,), optimizer="sgd")
    each_stage(os.path.join(place, "2"), "bf16", (1, 2), config={"zero_optimization": {"round_robin_gradients": True}})
    each_stage(os.path.join(place, "2", "1"), "bf16", (3,), config={"zero_optimization": {"sub_group_size": 300}})


def another_number_of_ranks_goes_on(place):
    """All that is saved is the same on them; batches are not, so that they end elsewhere."""
    for stage in 0, 1, 2, 3:
        for before, after in (2, 1), (1, 2), (2, 3):
            within = os.path.join(place, f"{stage}-{before}-{after}")
            os.mkdir(within)
            saved, _ = life(within, before, zero=stage, steps=SAVED, save_at=SAVED, native=os.path.join(within, "n"))
            parts = PARTS * before // after if after < before else PARTS
            found, _ = life(within, after, zero=stage, start=77, steps=SAVED + 1, parts=parts or 1)
            wrong = differing(found["loaded"], saved["saved"], ("counters",))
            assert found["from"] == SAVED and not wrong, (stage, before, after, wrong)


def another_stage_is_told_but_1_and_2_are_one(place):
    for stage in 0, 1, 2, 3:
        os.mkdir(os.path.join(place, str(stage)))
        saved, _ = life(os.path.join(place, str(stage)), zero=stage, steps=SAVED, save_at=SAVED,
                        native=os.path.join(place, "native", str(stage)))
        for other in {0, 1, 2, 3} - {stage}:
            more = {"zero": other, "start": 77, "steps": SAVED, "directory": os.path.join(place, str(stage), "ours")}
            if {stage, other} == {1, 2}:
                found, _ = life(place, **more)
                assert not differing(found["loaded"], saved["saved"]), differing(found["loaded"], saved["saved"])
                continue
            args = argparse.Namespace(**{**vars(DEFAULTS), **more})
            codes, texts = run(place, 1, lambda: train(args))
            reason = "goes on under the stage that it had" if stage and other else " 'optimizer' (1 in all)"
            assert codes == [1] and reason in texts[0], texts[0][-2000:]


def a_save_between_the_parts_comes_after_the_last(place):
    saved, _ = life(place, steps=SAVED + 1, save_at=SAVED - 1, save_part=0, native=os.path.join(place, "native"))
    assert os.listdir(os.path.join(place, "native"))
    found, _ = life(place, start=77, steps=SAVED)
    calm, _ = life(place, ours=False, steps=SAVED)
    assert found["from"] == SAVED, found["from"]
    assert not differing(found["loaded"], calm["ended"]), differing(found["loaded"], calm["ended"])
    assert saved["from"] == 0


def ordered_saves_come_at_the_end_of_a_step(place):
    for stage in 0, 2, 3:
        within = os.path.join(place, str(stage))
        os.mkdir(within)
        calm, _ = life(within, ours=False, zero=stage)
        life(within, ends=-signal.SIGKILL, zero=stage, orders=3, kill_at=KILLED)
        again, _ = life(within, start=77, zero=stage)
        assert again["from"] == 6, again["from"]
        assert not differing(again["ended"], calm["ended"]), differing(again["ended"], calm["ended"])


def offload_to_the_cpu_goes_on(place):
    offload = {"zero_optimization": {"offload_optimizer": {"device": "cpu", "pin_memory": False}}}
    each_stage(place, "bf16", (1, 2, 3), config=offload)


def refuses(args, engine, reason):
    try:
        dlrover.deepspeed(engine, directory=args.directory)
    except ValueError as error:
        assert reason in str(error) and "\n" not in str(error), error
        return
    raise AssertionError(f"not refused: {reason}")


class OnebitAdam(torch.optim.Optimizer):
    """By its name."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.1, "weight_decay": 0.})

    def step(self, closure=None):
        pass


def bad_input_is_one_line(place):
    def body():
        args = copy.copy(DEFAULTS)
        vars(args).update(directory=os.path.join(place, "ours"), zero=1)
        refuses(args, Net(), "a Net is no engine of deepspeed.initialize()")
        refuses(args, None, "a NoneType is no engine of deepspeed.initialize()")
        config = {**config_of(args, 1), "gradient_clipping": 0.}
        net = Net()
        refuses(args, deepspeed.initialize(model=net, optimizer=OnebitAdam(groups_of(net)), config=config)[0],
                "OnebitAdam cannot be saved: the state that it has of each rank or layer would be lost")
        stages = deepspeed.pipe.PipelineModule([nn.Linear(2, 2)], num_stages=1, loss_fn=torch.sum)
        refuses(args, deepspeed.initialize(model=stages, optimizer=torch.optim.Adam(stages.parameters()),
                                           config=config)[0], "a pipeline's stages cannot be saved")
        config.update(zero_optimization={"stage": 3}, scheduler={})
        refuses(args, deepspeed.initialize(model=Net(), config=config)[0], "has no optimizer")
        engine = engine_of(args)
        ck = dlrover.deepspeed(engine, directory=args.directory)
        refuses(args, engine, "saved by dlrover.deepspeed already")
        next(update(engine))
        ck.close()
        refuses(args, engine, "a call between the parts of a step cannot be saved")
        engine.micro_steps = 0
        for one, name, value, reason in (
                (engine, "has_moe_layers", True, "a mixture of experts cannot be saved"),
                (engine, "mp_world_size", 2, "tensor parallelism cannot be saved"),
                (engine.optimizer, "swap_optimizer", True, "offload to NVMe cannot be saved"),
                (engine.optimizer, "backup_optimizer", None, "offload of a part of the optimizer (ratio) cannot be")):
            with unittest.mock.patch.object(one, name, value, create=True):
                refuses(args, engine, reason)
        dlrover.deepspeed(engine, directory=args.directory).close()
        engine.optimizer.__class__ = type("ZenFlowZeroOptimizer", (type(engine.optimizer),), {})
        refuses(args, engine, "cannot be saved: its masters would be lost")

    codes, texts = run(place, 1, body)
    assert codes == [0], texts[0][-4000:]


def a_load_after_it_is_told(place):
    def body():
        args = copy.copy(DEFAULTS)
        args.directory, native = os.path.join(place, "ours"), os.path.join(place, "native")
        engine = engine_of(args)
        ck = dlrover.deepspeed(engine, directory=args.directory)
        for step in 1, 2:
            list(update(engine))
            if step == 1:
                engine.save_checkpoint(native)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            engine.load_checkpoint(native)
        said = [str(one.message) for one in said if "dlrover" in str(one.message)]
        assert len(said) == 1 and "put step 1 in the place of step 2" in said[0], said
        ck.close()

    codes, texts = run(place, 1, body)
    assert codes == [0], texts[0][-4000:]


class Odd(torch.optim.AdamW):
    """Has state that is neither of a partition's form nor a number."""

    def step(self, closure=None):
        super().step(closure)
        for p, state in self.state.items():
            state["rows"] = p.new_zeros(3)


def what_is_saved_waits_and_what_cannot_be_is_told(place):
    def body():
        for stage in 1, 2, 3:
            args = copy.copy(DEFAULTS)
            vars(args).update(directory=os.path.join(place, str(stage)), zero=stage)
            engine = engine_of(args)
            ck = dlrover.deepspeed(engine, directory=args.directory)
            inner, asked = engine.optimizer.optimizer, []
            masters = next(getattr(engine.optimizer, name) for name in (
                "single_partition_of_fp32_groups", "fp32_partitioned_groups_flat") if hasattr(engine.optimizer, name))
            list(update(engine))
            list(update(engine))  # its learning rate is 0
            ck.session.fence = lambda masters=masters, asked=asked: asked.append(sha(masters[0]))
            before = sha(masters[0])
            list(update(engine))
            assert asked[0] == before != sha(masters[0]), "the masters change before the last save has let go of them"
            inner.__class__ = Odd
            list(update(engine))
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                engine.save_checkpoint(os.path.join(place, "native"))
            reason = "step 4 is not saved, the training goes on: Odd's 'rows' has the shape (3,)"
            assert [reason in str(one.message) for one in said if "dlrover" in str(one.message)] == [True], said
            ck.close()
            asked.clear()
            list(update(engine))
            assert not asked and not ck.session.failures and "step" not in vars(engine)

    codes, texts = run(place, 1, body)
    assert codes == [0], texts[0][-4000:]


TESTS = (bad_input_is_one_line, a_load_after_it_is_told, another_stage_is_told_but_1_and_2_are_one,
         what_is_saved_waits_and_what_cannot_be_is_told, a_save_between_the_parts_comes_after_the_last,
         ordered_saves_come_at_the_end_of_a_step, offload_to_the_cpu_goes_on,
         fp32_goes_on_to_the_same_bits, bf16_goes_on_to_the_same_bits,
         bf16_with_fp32_accumulation_goes_on_to_the_same_bits, fp16_goes_on_with_its_loss_scale,
         one_rank_goes_on_to_the_same_bits, momentum_and_uncommon_partitions_go_on, another_number_of_ranks_goes_on)


def main():
    if "--train" in sys.argv:
        parser = argparse.ArgumentParser()
        parser.add_argument("--train", action="store_true")
        parser.add_argument("--steps", type=int, required=True)
        parser.add_argument("--out", required=True)
        parser.add_argument("--zero", type=int, default=2)
        parser.add_argument("--dtype", default="bf16", choices=("fp32", "bf16", "fp16"))
        args = argparse.Namespace(**{**vars(DEFAULTS), **vars(parser.parse_args())})
        torch.set_num_threads(1)
        train(args)
        return
    import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: F401  # most of the time of a life, for all of them once
    words, passed = sys.argv[1:], 0
    for test in TESTS:
        if words and not any(word in test.__name__ for word in words):
            continue
        place = tempfile.mkdtemp(prefix="deepspeed.", dir=os.environ.get("DLROVER_CKPT_DIR"))
        try:
            test(place)
        finally:
            shutil.rmtree(place)
        passed += 1
        say(f"ok {test.__name__}")
    say(f"{passed} passed")


if __name__ == "__main__":
    main()
