#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer and TRL with dlrover.TrainerCallback(): a training that is killed ends with the bits of one
that was not.

    frameworks_trainer.py [NAME …]                      runs all tests, or those named; prints 'N passed'
    frameworks_trainer.py --train --steps N --out FILE  is one rank of a training (RANK and the like from the
                                                        environment, gloo); rank 0 writes the weights' hash to FILE

What users of the Trainer do, and where it is tested here:
  torchrun, or srun with RANK set; FSDP2 (ddp, sharded; --train)
  gradient accumulation, the last step of an epoch a short one (all); a stream's last one too short (leftover)
  fp16's scaler, bf16 (scaler, numbers); schedulers, that on a plateau too (numbers, plateau)
  save_strategy steps, epoch, no, best; load_best_model_at_end; early stopping (strategies, stopped_early)
  resume_from_checkpoint=True given as well (given); evaluation and predict in between (all, numbers)
  several calls of train(), Trainers one after another (calls); hyperparameter_search (bad_input)
  group_by_length (lengths); masked tokens, random crops (masked); worker processes of a loader (workers)
  IterableDataset shorter than max_steps (stream); callbacks that end epochs, stop, or hold state (short_epochs, all)
  max_steps or epochs (all, epochs), more of them later (finished); ignore_data_skip (numbers)
  label smoothing, NEFTune, full_determinism, seeds (numbers)
  push_to_hub, which takes of output_dir what does not begin with _ (finished)
"""
import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
import types
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
os.environ.update({"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
                   "CUDA_VISIBLE_DEVICES": "", "TQDM_DISABLE": "1"})
try:
    import accelerate
    import torch
    import torch._dynamo  # each fork would take four seconds for it
    import transformers
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)
import dlrover

LIMIT_S = 240
NOISE = ("runtime", "per_second", "_time")  # what differs in the logs of two equal trainings
now = {}  # of this process: the Trainer that trains, and the file of its batches


# --- a small training --------------------------------------------------------------------------

class Model(GPT2LMHeadModel):
    """Writes down which samples are computed, with what in them, in which step."""

    def forward(self, input_ids=None, labels=None, index=None, **more):
        if self.training and index is not None and "batches" in now:
            step = now["trainer"].state.global_step + 1
            now["batches"].write(f"{step} {index.tolist()} {int((input_ids * torch.arange(1, 9)).sum())}\n")
            now["batches"].flush()
        return super().forward(input_ids=input_ids, labels=labels, **more)


def make_model():
    torch.manual_seed(7)
    return Model(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0,
                            eos_token_id=0))


class Samples(torch.utils.data.Dataset):
    def __init__(self, count, lengths=False, drawn=False):
        numbers = torch.Generator().manual_seed(3)
        self.tokens = torch.randint(1, 64, (count, 8), generator=numbers)
        self.lengths, self.drawn = lengths, drawn

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        tokens = self.tokens[i].clone()
        if self.drawn:  # as a crop or a mask is
            tokens[torch.randint(0, 8, (2,))] = 0
        kept = tokens[:3 + i % 6] if self.lengths else tokens
        return {"input_ids": kept, "labels": kept, "index": i}


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, count):
        self.samples = Samples(count)

    def __iter__(self):
        return (self.samples[i] for i in range(len(self.samples)))


def collate(items):
    """All to 8 tokens."""
    def pad(row, by):
        return torch.nn.functional.pad(row, (0, 8 - len(row)), value=by)

    return {"input_ids": torch.stack([pad(one["input_ids"], 0) for one in items]),
            "labels": torch.stack([pad(one["labels"], -100) for one in items]),
            "index": torch.tensor([one["index"] for one in items])}


def collate_masked(items):
    batch = collate(items)
    batch["input_ids"][torch.rand(batch["input_ids"].shape) < 0.2] = 0
    return batch


class Each(transformers.TrainerCallback):
    """Asks ours to save each step, kills at one, and may end epochs early."""

    def __init__(self, ours, case, kill):
        self.ours, self.case, self.kill = ours, case, kill

    def on_step_end(self, args, state, control, **_):
        if self.ours and self.case.get("each", True):
            self.ours.save_now()
        if self.case.get("short_epochs") and state.global_step % 4 == 0:
            control.should_epoch_stop = True
        self._kill("step", state)
        return control

    def on_substep_end(self, args, state, control, **_):
        self._kill("substep", state)

    def on_evaluate(self, args, state, control, **_):
        self._kill("evaluate", state)

    def _kill(self, where, state):
        if self.kill == [where, state.global_step] and os.environ.get("RANK", "0") == self.case.get("victim", "0"):
            if self.ours:
                self.ours._call.session.flush()
            os.kill(os.getpid(), signal.SIGKILL)


class Counter(transformers.TrainerCallback, transformers.trainer_callback.ExportableState):
    """A callback with a state of its own."""

    def __init__(self):
        self.seen = 0

    def on_step_end(self, args, state, control, **_):
        self.seen += 1
        if control.should_log:
            state.log_history.append({"seen": self.seen})

    def state(self):
        return {"args": {}, "attributes": {"seen": self.seen}}


class Average:
    """An average of weights, as the user's own object."""

    def __init__(self, model):
        self.model, self.mean = model, [p.detach().clone() for p in model.parameters()]

    def update(self):
        for mean, p in zip(self.mean, self.model.parameters()):
            mean.lerp_(p.detach(), 0.1)

    def state_dict(self):
        return {"mean": list(self.mean)}

    def load_state_dict(self, saved):
        self.mean = saved["mean"]


def digest(tensors):
    whole = hashlib.sha256()
    for one in tensors:
        one = one.full_tensor() if hasattr(one, "full_tensor") else one
        whole.update(one.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def result_of(trainer, metrics):
    optimizer = [value for state in trainer.optimizer.state.values() for value in state.values()]
    logs = [{key: value for key, value in one.items() if not any(word in key for word in NOISE)}
            for one in trainer.state.log_history]
    return {"weights": digest(trainer.model.state_dict().values()), "optimizer": digest(optimizer),
            "numbers": digest([torch.get_rng_state()]), "step": trainer.state.global_step, "logs": logs,
            "rate": trainer.lr_scheduler.get_last_lr(), "best": trainer.state.best_metric,
            "epoch": trainer.state.epoch, "loss": metrics.get("train_loss"), "flos": trainer.state.total_flos}


def make_trainer(folder, case, ours, kill=None):
    given = {"max_steps": 15, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "logging_steps": 2,
             "eval_strategy": "steps", "eval_steps": 3, "save_strategy": "no", "learning_rate": 1e-2,
             "warmup_steps": 3, "seed": 5, "use_cpu": True, "report_to": [], "disable_tqdm": True,
             "dataloader_pin_memory": False, **case.get("args", {})}
    data = Stream(12) if case.get("stream") else Samples(21, case.get("lengths"), case.get("drawn"))
    callbacks = [Counter(), *case.get("callbacks", list)(), *([ours] if ours else []), Each(ours, case, kill)]
    return case.get("trainer", Trainer)(
        model=case.get("model", make_model)(), args=TrainingArguments(output_dir=os.path.join(folder, "out"), **given),
        train_dataset=data, eval_dataset=Samples(5), callbacks=callbacks,
        data_collator=collate_masked if case.get("masked") else collate)


def train(folder, case, with_ours, kill, resume):
    ours = dlrover.TrainerCallback(**case.get("options", {})) if with_ours else None
    trainer = now["trainer"] = make_trainer(folder, case, ours, kill)
    if case.get("predict"):
        trainer.evaluate()
    metrics = trainer.train(resume_from_checkpoint=resume).metrics
    return result_of(trainer, metrics)


# --- its processes --------------------------------------------------------------------------------

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def child(folder, name, rank, world, port, body):
    """A process of its own, forked, so that PyTorch is imported once. Its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        log = os.open(f"{folder}/{name}.{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        torch.set_num_threads(1)
        if world > 1:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world),
                              LOCAL_WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        now["batches"] = open(f"{folder}/{name}.{rank}.batches", "w")  # pylint: disable=consider-using-with
        found = body()
        with open(f"{folder}/{name}.{rank}.json", "w") as file:
            json.dump(found, file)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def wait(pids):
    """Ends all when one is killed. The statuses, by rank."""
    ended, limit = {}, time.monotonic() + LIMIT_S
    while len(ended) < len(pids):
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in pids:
            ended[pid] = status
        if pid == 0:
            time.sleep(0.02)
        if time.monotonic() > limit or any(os.WIFSIGNALED(one) for one in ended.values()):
            for one in pids:
                if one not in ended:
                    os.kill(one, signal.SIGKILL)
    return [ended[pid] for pid in pids]


def text_of(folder, name, rank=0):
    with open(f"{folder}/{name}.{rank}.log", errors="replace") as file:
        return file.read()


def run(folder, name, body, world=1, killed=False):
    """What body returned on each rank; None when it was killed, as it should be."""
    port = free_port()
    statuses = wait([child(folder, name, rank, world, port, body) for rank in range(world)])
    if killed:
        assert any(os.WIFSIGNALED(one) for one in statuses), f"{name} was not killed:\n{text_of(folder, name)[-2000:]}"
        return None
    for rank, status in enumerate(statuses):
        assert status == 0, f"{name} rank {rank} ended with {status}:\n{text_of(folder, name, rank)[-3000:]}"
    found = []
    for rank in range(world):
        with open(f"{folder}/{name}.{rank}.json") as file:
            found.append(json.load(file))
    return found


def batches_of(folder, name, rank=0):
    """{step: [what was computed]}"""
    found = {}
    with open(f"{folder}/{name}.{rank}.batches") as file:
        for line in file:
            step, rest = line.rstrip("\n").split(" ", 1)
            found.setdefault(int(step), []).append(rest)
    return found


@contextlib.contextmanager
def temporary():
    folder = tempfile.mkdtemp(prefix="dlrover-trainer-")
    yield folder
    shutil.rmtree(folder)  # what failed stays


def same(calm, found, what, but=()):
    if transformers.__version__ < "5":
        but = (*but, "logs", "loss")  # the sum of losses that is logged next is nobody's but the loop's there
    for key in calm:
        if key not in but:
            assert calm[key] == found[key], f"{what}: {key} is {found[key]}, undisturbed {calm[key]}"


def compare(case, kills, world=1, but=()):
    """Undisturbed without ours; then for each of kills one that is killed there and goes on."""
    with temporary() as folder:
        calm = run(folder, "calm", lambda: train(folder + "/calm", case, False, None, None), world)
        for kill in kills:
            name, what = f"{kill[0]}{kill[1]}", f"killed at {kill}"
            at = f"{folder}/{name}"
            run(folder, name, lambda at=at, kill=kill: train(at, case, True, kill, None), world, killed=True)
            found = run(folder, name + "on", lambda at=at: train(at, case, True, None, None), world)
            for rank in range(world):
                same(calm[rank], found[rank], what, but)
                want, on = batches_of(folder, "calm", rank), batches_of(folder, name + "on", rank)
                assert min(on) > 1, f"{what}: it began from nothing:\n{text_of(folder, name + 'on', rank)[-3000:]}"
                assert on == {step: one for step, one in want.items() if step >= min(on)}, \
                    f"{what}: batches of rank {rank} differ: {on}, undisturbed {want}"
                for step, one in batches_of(folder, name, rank).items():
                    assert one == want[step][:len(one)], f"{what}: step {step} had other batches before the kill"
    return calm


def own_resume(case, kill):
    """Whether the Trainer's own resume, which saves each step, ends with the bits of the undisturbed training."""
    args = {**case.get("args", {}), "save_strategy": "steps", "save_steps": 1}
    with temporary() as folder:
        calm = run(folder, "calm", lambda: train(folder + "/calm", case, False, None, None))
        case = {**case, "args": args}
        run(folder, "killed", lambda: train(folder, case, False, kill, None), killed=True)
        found = run(folder, "on", lambda: train(folder, case, False, None, True))
        on, want = batches_of(folder, "on"), batches_of(folder, "calm")
        return {"weights": calm[0]["weights"] == found[0]["weights"], "logs": calm[0]["logs"] == found[0]["logs"],
                "batches": all(on[step] == want.get(step) for step in on)}


# --- tests -------------------------------------------------------------------------------------------

LENGTHS = ({"train_sampling_strategy": "group_by_length"} if hasattr(TrainingArguments, "train_sampling_strategy")
           else {"group_by_length": True})
BEST = {"metric_for_best_model": "loss"}
beside = {}  # name: what the Trainer's own resume gave


def test_all():
    """Dropout, shuffling, accumulation, evaluation each 3 steps: killed at a step, within one, while it evaluates."""
    compare({}, [["step", 2], ["substep", 3], ["evaluate", 6], ["step", 7], ["evaluate", 9], ["step", 13]])
    beside["all"] = own_resume({}, ["step", 7])


def test_epochs():
    compare({"args": {"max_steps": -1, "num_train_epochs": 3, "eval_strategy": "epoch", "logging_strategy": "epoch"}},
            [["step", 6], ["step", 7], ["evaluate", 12], ["step", 17]])


def test_lengths():
    compare({"args": LENGTHS, "lengths": True}, [["step", 4], ["step", 9]])
    beside["lengths"] = own_resume({"args": LENGTHS, "lengths": True}, ["step", 9])


def test_masked():
    """The batches themselves are drawn, one ahead of the step."""
    case = {"masked": True, "drawn": True}
    for parts in (1, 2, 3):
        compare({**case, "args": {"gradient_accumulation_steps": parts}}, [["step", 5], ["evaluate", 9], ["step", 14]])
    compare({**case, "args": LENGTHS}, [["step", 9]])
    beside["masked"] = own_resume(case, ["step", 9])


def test_workers():
    compare({"args": {"dataloader_num_workers": 2}}, [["step", 9]])


def test_stream():
    compare({"stream": True}, [["step", 2], ["step", 5], ["evaluate", 9], ["step", 11]])
    compare({"stream": True, "masked": True}, [["step", 5]])
    beside["stream"] = own_resume({"stream": True}, ["step", 5])


def test_leftover():
    """A stream's last batches are too few for an update: their gradients go into the next pass, and are not saved."""
    args = {"gradient_accumulation_steps": 4, "max_steps": 8}
    compare({"stream": True, "args": args}, [["step", 3]])
    compare({"stream": True, "each": False, "args": {**args, "save_strategy": "epoch"}}, [["step", 4]])


def test_short_epochs():
    compare({"short_epochs": True}, [["step", 4], ["step", 5], ["step", 7], ["step", 10]])
    beside["short_epochs"] = own_resume({"short_epochs": True}, ["step", 7])


def test_strategies():
    """Without a job the Trainer's own saves are ours."""
    steps = {"save_strategy": "steps", "save_steps": 3, "save_total_limit": 2}
    for args, came_from in (({**steps, "save_steps": 4}, 8), ({"save_strategy": "best", **BEST}, 9),
                            ({**steps, "load_best_model_at_end": True, **BEST}, 9),
                            ({"save_strategy": "epoch", "max_steps": -1, "num_train_epochs": 2}, 6)):
        compare({"args": args, "each": False}, [["step", came_from + 2]])
    with temporary() as folder:
        case = {"each": False}
        calm = run(folder, "calm", lambda: train(folder + "/calm", case, False, None, None))
        run(folder, "killed", lambda: train(folder, case, True, ["step", 9], None), killed=True)
        found = run(folder, "on", lambda: train(folder, case, True, None, None))
        same(calm[0], found[0], "save_strategy no")
        assert min(batches_of(folder, "on")) == 1


def test_stopped_early():
    args = {**BEST, "greater_is_better": True}
    case = {"args": args, "callbacks": lambda: [transformers.EarlyStoppingCallback(2)]}
    calm = compare(case, [["step", 5], ["evaluate", 6], ["step", 8]])
    assert calm[0]["step"] < 15, "it was to stop early"
    beside["stopped_early"] = own_resume(case, ["step", 8])


def test_plateau():
    compare({"args": {"lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": {"patience": 0}, **BEST}},
            [["step", 8], ["evaluate", 9]])


def test_numbers():
    """What else is drawn or counted: bf16, label smoothing, NEFTune, determinism, seeds, a scheduler."""
    compare({"args": {"bf16": True, "label_smoothing_factor": 0.1, "neftune_noise_alpha": 5, "full_determinism": True,
                      "data_seed": 11, "lr_scheduler_type": "cosine", "include_num_input_tokens_seen": "all"},
             "predict": True}, [["step", 8]])
    with temporary() as folder:  # the data begins anew, as asked: only that it goes on
        case = {"args": {"ignore_data_skip": True}}
        run(folder, "killed", lambda: train(folder, case, True, ["step", 9], None), killed=True)
        run(folder, "again", lambda: train(folder, case, True, ["step", 12], None), killed=True)
        found = run(folder, "on", lambda: train(folder, case, True, None, None))
        assert found[0]["step"] == 15 and min(batches_of(folder, "on")) == 12


def test_given():
    """resume_from_checkpoint too: the later of both."""
    case = {"args": {"save_strategy": "steps", "save_steps": 2}}
    with temporary() as folder:
        calm = run(folder, "calm", lambda: train(folder + "/calm", case, False, None, None))
        run(folder, "ours", lambda: train(folder, case, True, ["step", 8], None), killed=True)
        run(folder, "both", lambda: train(folder, case, True, ["step", 10], True), killed=True)
        assert min(batches_of(folder, "both")) == 8, "ours were older"
        run(folder, "theirs", lambda: train(folder, case, False, ["step", 13], True), killed=True)
        found = run(folder, "on", lambda: train(folder, case, True, None, True))
        assert min(batches_of(folder, "on")) == 13, "theirs are of step 12"
        same(calm[0], found[0], "both", but=("logs", "loss"))  # the Trainer's own resume forgets a part of a loss


def train_twice(folder, with_ours, kill):
    """Two stages on one model, and a second Trainer: three trainings of a process."""
    ours = dlrover.TrainerCallback() if with_ours else None
    trainer = now["trainer"] = make_trainer(folder, {}, ours)
    trainer.train()
    trainer.args.max_steps = 9
    each = trainer.callback_handler.callbacks[-2 if isinstance(trainer.callback_handler.callbacks[-2], Each) else -1]
    each.kill = kill[1:] if kill and kill[0] == 2 else None
    now["batches"].write("0 second\n")
    second = result_of(trainer, trainer.train().metrics)
    now["batches"].write("0 third\n")
    return [second, train(folder, {}, with_ours, kill[1:] if kill and kill[0] == 3 else None, None)]


def test_calls():
    with temporary() as folder:
        calm = run(folder, "calm", lambda: train_twice(folder + "/calm", False, None))[0]
        for kill, untold in (([2, "step", 7], 1), ([3, "step", 5], 2)):
            at = f"{folder}/{kill[0]}"
            run(folder, "killed", lambda at=at, kill=kill: train_twice(at, True, kill), killed=True)
            found = run(folder, "on", lambda at=at: train_twice(at, True, None))[0]
            for want, one in zip(calm, found):
                same(want, one, f"killed in train() {kill[0]}")
            assert text_of(folder, "on").count("is run again and not saved") == untold, text_of(folder, "on")
            steps = batches_of(folder, "on")
            want = batches_of(folder, "calm")[kill[2] - 1]
            assert len(steps[kill[2] - 1]) < len(want), "it was trained from its start"


def test_finished():
    """A training that has ended is not trained again, unless it is to be longer now."""
    case = {"args": {"save_strategy": "steps", "save_steps": 4, "lr_scheduler_type": "constant_with_warmup"}}
    longer = {"args": {**case["args"], "max_steps": 20}}
    with temporary() as folder:
        calm = run(folder, "calm", lambda: train(folder + "/calm", longer, False, None, None))
        first = run(folder, "first", lambda: train(folder, case, True, None, None))
        again = run(folder, "again", lambda: train(folder, case, True, None, None))
        assert not batches_of(folder, "again") and "nothing is trained" in text_of(folder, "again")
        same(first[0], again[0], "again", but=("logs", "numbers"))
        found = run(folder, "longer", lambda: train(folder, longer, True, None, None))
        assert min(batches_of(folder, "longer")) == 16
        same(calm[0], found[0], "longer")
        assert os.listdir(f"{folder}/out/_dlrover"), "a push to the hub would take it"


def test_ddp():
    case = {"victim": "1"}
    compare(case, [["step", 4], ["evaluate", 6], ["step", 11]], world=2)
    compare({**case, "masked": True, "lengths": True, "args": LENGTHS}, [["step", 8]], world=2)
    compare({**case, "stream": True}, [["step", 5]], world=2)


class Sharded(Trainer):
    """Accelerate takes its FSDP plugin on accelerators only; what it makes works on CPUs."""

    def create_accelerator_and_postprocess(self):
        self.args.device  # pylint: disable=pointless-statement
        accelerate.PartialState._shared_state["distributed_type"] = accelerate.DistributedType.MULTI_GPU
        super().create_accelerator_and_postprocess()


def test_sharded():
    """FSDP2: each rank has a part of each parameter."""
    case = {"victim": "1", "trainer": Sharded, "args": {"fsdp": "full_shard", "eval_strategy": "no", "fsdp_config": {
        "version": 2, "transformer_layer_cls_to_wrap": ["GPT2Block"]}}}
    compare(case, [["step", 8]], world=2)


class Scaled(Trainer):
    """With a scaler, as of fp16 on a GPU."""

    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        self.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)


def train_scaled(folder, kill):
    model = make_model()
    average = Average(model)
    ours = dlrover.TrainerCallback(average=average)
    case = {"trainer": Scaled, "model": lambda: model}
    trainer = now["trainer"] = make_trainer(folder, case, ours, kill)

    class Update(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            average.update()

    trainer.add_callback(Update())
    result = result_of(trainer, trainer.train().metrics)
    return {**result, "scale": trainer.accelerator.scaler.state_dict(), "average": digest(average.mean)}


def test_scaler():
    with temporary() as folder:
        calm = run(folder, "calm", lambda: train_scaled(folder + "/calm", None))[0]
        assert calm["scale"]["scale"] > 8 and calm["scale"]["_growth_tracker"] >= 0, calm["scale"]
        run(folder, "killed", lambda: train_scaled(folder, ["step", 8]), killed=True)
        same(calm, run(folder, "on", lambda: train_scaled(folder, None))[0], "scaler")


def refused(text, body):
    """body() raises, or warns of, one line with text in it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            body()
        except Exception as error:  # pylint: disable=broad-exception-caught
            caught = [error]
    told = [str(getattr(one, "message", one)) for one in caught]
    told = [one for one in told if text in one]
    assert len(told) == 1 and "\n" not in told[0] and len(told[0]) < 400, f"'{text}' is not in one line of {told}"


class Late(transformers.TrainerCallback):
    """Adds ours when a training is under way."""

    def on_step_end(self, args, state, control, **_):
        if state.global_step == 2:
            now["trainer"].add_callback(dlrover.TrainerCallback())


class OwnLoop(Trainer):
    def _inner_training_loop(self, *args, **kwargs):
        self.callback_handler.on_train_begin(self.args, self.state, self.control)


class Broken(Counter):
    def state(self):
        if self.seen:
            raise RuntimeError("no state today")
        return super().state()


def bad_input(folder):
    from dlrover import frameworks
    from dlrover.frameworks import _train_call

    def trainer(ours, **case):
        now["trainer"] = make_trainer(folder, {"args": {"max_steps": 4}, **case}, ours)
        return now["trainer"]

    ours = dlrover.TrainerCallback()
    refused("a Trainer has 2 of them", trainer(ours, callbacks=lambda: [dlrover.TrainerCallback()]).train)
    refused("train() began without it", trainer(None, callbacks=lambda: [Late()]).train)
    refused("train() began without it", trainer(ours, trainer=OwnLoop).train)
    refused("only predicts", lambda: trainer(ours).predict(Samples(3)))
    trainer(ours).model.to("meta")  # before, the Trainer refuses it
    refused("meta", now["trainer"].train)
    refused("'wrong' is neither", trainer(dlrover.TrainerCallback(wrong=7)).train)
    refused("trials", lambda: dlrover.TrainerCallback().run(trainer(None), lambda *_, **__: None, (), {"trial": 1}))
    refused("needs transformers 99", lambda: frameworks.versions.require("transformers", "99"))
    refused("has no transformers.Trainer.no_loop", lambda: frameworks.versions.require(
        "transformers", "4", ["Trainer.no_loop"]))
    for text, of_it in (("DeepSpeed", {"is_deepspeed_enabled": True}),
                        ("FSDP of version 1", {"is_deepspeed_enabled": False, "is_fsdp_enabled": True})):
        plugin = types.SimpleNamespace(state=types.SimpleNamespace(fsdp_plugin=types.SimpleNamespace(fsdp_version=1)))
        refused(text, lambda of_it=of_it: _train_call._check(
            types.SimpleNamespace(accelerator=plugin, **of_it)))
    broken = dlrover.TrainerCallback()
    refused("no state today", trainer(broken, callbacks=lambda: [Broken()]).train)
    assert now["trainer"].state.global_step == 4, "the training ended"
    unmoved = [name for name in ("get_batch_samples", "_load_rng_state") if name in vars(now["trainer"])]
    assert not unmoved, unmoved
    return True


def test_bad_input():
    with temporary() as folder:
        assert run(folder, "bad", lambda: bad_input(folder))[0]


def train_sft(folder, with_ours, kill):
    """TRL's SFTTrainer, on texts."""
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from trl import SFTConfig, SFTTrainer

    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(64)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w1", pad_token="w2")
    texts = [" ".join(f"w{3 + (7 * i + j * j) % 61}" for j in range(4 + i % 9)) for i in range(21)]
    ours = dlrover.TrainerCallback() if with_ours else None
    trainer = now["trainer"] = SFTTrainer(
        model=make_model(), train_dataset=Dataset.from_dict({"text": texts}),
        eval_dataset=Dataset.from_dict({"text": texts[:4]}), processing_class=tokenizer,
        args=SFTConfig(output_dir=folder, max_steps=12, per_device_train_batch_size=2, gradient_accumulation_steps=2,
                       logging_steps=2, eval_strategy="steps", eval_steps=3, save_strategy="no", use_cpu=True,
                       report_to=[], max_length=16, bf16=False, disable_tqdm=True),
        callbacks=[*([ours] if ours else []), Each(ours, {}, kill)])
    return result_of(trainer, trainer.train().metrics)


def test_sft():
    try:
        import trl  # noqa: F401  pylint: disable=unused-import
    except ImportError as error:
        print(f"skipped: sft: {error}")
        return
    with temporary() as folder:
        calm = run(folder, "calm", lambda: train_sft(folder + "/calm", False, None))[0]
        run(folder, "killed", lambda: train_sft(folder, True, ["step", 8]), killed=True)
        same(calm, run(folder, "on", lambda: train_sft(folder, True, None))[0], "SFTTrainer")


# --- one rank of a job ---------------------------------------------------------------------------------

class Printed(transformers.TrainerCallback):
    def __init__(self, pause):
        self.pause = pause

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in logs and state.is_world_process_zero:
            print(f"step {state.global_step} loss {logs['loss']!r}", flush=True)
            time.sleep(self.pause)


def one_rank(args):
    """Under srun, torchrun or alone. Its batches are added to FILE.batches.RANK."""
    if os.path.exists(args.out):
        print("finished already")
        return
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        os.environ.setdefault("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0"))
    torch.set_num_threads(1)
    now["batches"] = open(f"{args.out}.batches.{os.environ.get('RANK', '0')}", "a")
    trainer = now["trainer"] = make_trainer(args.out + ".trainer", {
        "args": {"max_steps": args.steps, "logging_steps": 1, "save_strategy": "steps", "save_steps": 5,
                 "save_only_model": True, "save_total_limit": 1,
                 # else DDP arranges its buckets anew after the first step: sums of three ranks differ after a restart
                 "ddp_find_unused_parameters": True},
        "each": False, "callbacks": lambda: [Printed(args.pause)]}, dlrover.TrainerCallback())
    trainer.train()
    if trainer.is_world_process_zero():
        with open(args.out + ".part", "w") as file:
            file.write(digest(trainer.model.state_dict().values()) + "\n")
        os.rename(args.out + ".part", args.out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out")
    parser.add_argument("--pause", type=float, default=0, help="seconds after each step")
    args = parser.parse_args()
    if args.train:
        one_rank(args)
        return
    for name in ("DLROVER_AGENT_SOCKET", "DLROVER_CKPT_DIR", "DLROVER_CKPT_EVERY", "RANK", "WORLD_SIZE",
                 "SLURM_PROCID", "SLURM_NTASKS"):
        os.environ.pop(name, None)
    dlrover.TrainerCallback  # imported once, before processes are forked
    tests = {name[len("test_"):]: test for name, test in globals().items() if name.startswith("test_")}
    failed = 0
    for name in args.names or tests:
        began = time.monotonic()
        try:
            tests[name]()
            print(f"ok {name} {time.monotonic() - began:.0f} s", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"FAILED {name}: {error}", flush=True)
    for name, found in beside.items():
        print(f"beside: the Trainer's own resume in '{name}': equal " + ", ".join(
            f"{what} {'yes' if equal else 'NO'}" for what, equal in found.items()))
    print(f"{len(args.names or tests) - failed} passed" + (f", {failed} FAILED" if failed else ""))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
