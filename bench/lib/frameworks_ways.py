# SPDX-License-Identifier: Apache-2.0
"""The trainings that frameworks.py measures. Each has ways to save, and a loop that is its framework's own."""
import glob
import multiprocessing
import os
import shutil
import sys
import time

import torch
from torch import nn

import dlrover

STEP_S, BATCH, WIDTH, LAYERS = 0.1, 4, 32, 8


class Way:
    """save() is timed, settle() is not."""

    def __init__(self, name, says, save, settle=lambda: None):
        self.name, self.says, self.save, self.settle = name, says, save, settle


class Net(nn.Module):
    """mb of weights and two moments. After the first step only its head has gradients, where the optimizer allows."""

    def __init__(self, mb, all_learn=False):
        super().__init__()
        side = int((mb * 1e6 / 12 / LAYERS) ** 0.5)
        self.wide = nn.ParameterList(nn.Parameter(torch.randn(side, side)) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, 1)
        self.all_learn, self.first = all_learn, True

    def forward(self, x):
        time.sleep(STEP_S)
        loss = self.head(x).square().mean()
        if self.first or self.all_learn:
            loss = loss + 1e-9 * sum(one.sum() for one in self.wide).to(loss.dtype)
        self.first = False
        return {"loss": loss}


class Data(torch.utils.data.Dataset):
    """As many samples as a training may want."""

    def __len__(self):
        return 100000

    def __getitem__(self, at):
        return {"x": torch.full((WIDTH,), at / len(self))}


class Training:
    """name; says: what it is; ways; absent: {way: why}. ours: what has wait_until_committed(), once it trains.
    own_from: the framework's own checkpoint that run() goes on from; None: it does not. asks_before: run() asks whether
    to end before each step, and not after it.
    """

    absent, own_from, asks_before = {}, None, False

    def __init__(self, mb, directory):
        self.mb, self.directory = mb, directory
        self.written = 0

    def place(self):
        """Where the next of the framework's own goes."""
        self.written += 1
        return f"{self.directory}/own-{self.written}"

    def newest_own(self):
        """The framework's own that was written last."""
        return max(glob.glob(f"{self.directory}/own-*") + glob.glob(f"{self.directory}/run/checkpoint-*"),
                   key=os.path.getmtime)

    def tidy(self):
        """Its files take memory."""
        for name in os.listdir(self.directory):
            if name.startswith("own-"):
                path = os.path.join(self.directory, name)
                (shutil.rmtree if os.path.isdir(path) else os.unlink)(path)

    def nothing(self):
        return Way("nothing", "no save at all", lambda: None)


class Trainer(Training):
    name = "trainer"
    absent = {"own_async": "it has none"}

    def __init__(self, mb, directory):
        super().__init__(mb, directory)
        import transformers  # pylint: disable=import-outside-toplevel
        self.hf, self.says = transformers, f"transformers {transformers.__version__}"
        self.ours = dlrover.TrainerCallback(directory=f"{directory}/ours")
        args = transformers.TrainingArguments(
            f"{directory}/run", max_steps=10**6, per_device_train_batch_size=BATCH, save_strategy="no", use_cpu=True,
            logging_strategy="no", report_to="none", disable_tqdm=True)
        self.trainer = transformers.Trainer(Net(mb), args, train_dataset=Data(), callbacks=[self.ours])
        self.ways = [
            self.nothing(),
            Way("ours", "TrainerCallback.save_now()", self.ours.save_now),
            Way("own", "Trainer._save_checkpoint(), as at a save step",
                lambda: self.trainer._save_checkpoint(self.trainer.model, None), self.tidy)]

    def tidy(self):
        shutil.rmtree(f"{self.directory}/run", ignore_errors=True)

    def run(self, between_steps):
        class Between(self.hf.TrainerCallback):
            """Ends the training when all is measured."""

            def on_step_end(self, args, state, control, **_):
                control.should_training_stop = between_steps()

        self.trainer.add_callback(Between())
        self.trainer.train(resume_from_checkpoint=self.own_from)


class Accelerate(Training):
    name = "accelerate"
    absent = {"own_async": "it has none"}

    def __init__(self, mb, directory):
        super().__init__(mb, directory)
        import accelerate  # pylint: disable=import-outside-toplevel
        self.says = f"accelerate {accelerate.__version__}"
        self.accelerator = dlrover.accelerate(accelerate.Accelerator(cpu=True), directory=f"{directory}/ours")
        self.ours = self.accelerator.dlrover
        model = Net(mb)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(
            model, torch.optim.AdamW(model.parameters()), torch.utils.data.DataLoader(Data(), BATCH))
        self.ways = [
            self.nothing(),
            Way("ours", "accelerator.dlrover.save_now()", self.accelerator.dlrover.save_now),
            Way("own", "accelerator.save_state()", self.own, self.tidy)]

    def own(self):
        """Without ours, which follows the accelerator's own method."""
        type(self.accelerator).save_state(self.accelerator, self.place())

    def run(self, between_steps):
        if self.own_from:
            self.accelerator.load_state(self.own_from)
        for batch in self.loader:
            loss = self.model(**batch)["loss"]
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
            if between_steps():
                break
        self.accelerator.end_training()


class Lightning(Training):
    name, asks_before = "lightning", True

    def __init__(self, mb, directory):
        super().__init__(mb, directory)
        import lightning.pytorch as pl  # pylint: disable=import-outside-toplevel
        self.pl, self.says = pl, f"lightning {pl.__version__}"
        self.ours = dlrover.LightningCheckpoint(directory=f"{directory}/ours")
        self.beside = pl.plugins.io.AsyncCheckpointIO(pl.plugins.io.TorchCheckpointIO())
        self.trainer = None
        self.ways = [
            self.nothing(),
            Way("ours", "save_now()", self.ours.save_now),
            Way("own", "trainer.save_checkpoint()", self.own, self.tidy),
            Way("own_async", "trainer.save_checkpoint() with AsyncCheckpointIO",
                lambda: self.own(self.beside), self.settle)]

    def own(self, through=None):
        strategy, usual = self.trainer.strategy, self.trainer.strategy.checkpoint_io
        strategy.checkpoint_io = through or usual
        self.trainer.save_checkpoint(self.place())
        strategy.checkpoint_io = usual
        self.ours._asked = False  # it follows each of Lightning's saves

    def settle(self):
        self.beside.teardown()
        self.tidy()

    def run(self, between_steps):
        class Module(self.pl.LightningModule):
            """The net, and when to end."""

            def __init__(self, net):
                super().__init__()
                self.net = net

            def training_step(self, batch):
                return self.net(**batch)["loss"]

            def on_train_batch_start(self, *_):
                return -1 if between_steps() else None

            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters())

        self.trainer = self.pl.Trainer(
            max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, callbacks=[self.ours])
        self.trainer.fit(Module(Net(self.mb)), torch.utils.data.DataLoader(Data(), BATCH), ckpt_path=self.own_from,
                         weights_only=False)


class DeepSpeed(Training):
    name, asks_before = "deepspeed", True
    absent = {"own_async": "its decoupled writer compiles an operator over libaio, which is not installed"}

    def __init__(self, mb, directory):
        super().__init__(mb, directory)
        import deepspeed  # pylint: disable=import-outside-toplevel
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29561")
        self.says = f"deepspeed {deepspeed.__version__}, ZeRO 2, f32 masters of bf16 weights"
        model = Net(mb, all_learn=True)
        self.engine = deepspeed.initialize(
            model=model, optimizer=torch.optim.AdamW(model.parameters()), config={
                "train_micro_batch_size_per_gpu": BATCH, "steps_per_print": 10**9, "bf16": {"enabled": True},
                "zero_optimization": {"stage": 2}, "zero_force_ds_cpu_optimizer": False,
                "zero_allow_untested_optimizer": True})[0]
        self.ours = dlrover.deepspeed(self.engine, directory=f"{directory}/ours")
        self.ways = [
            self.nothing(),
            Way("ours", "save_now()", self.ours.save_now),
            Way("own", "engine.save_checkpoint()", self.own, self.tidy)]

    def own(self):
        """Without ours, which follows the engine's own method."""
        type(self.engine).save_checkpoint(self.engine, self.place())

    def run(self, between_steps):
        if self.own_from:
            self.engine.load_checkpoint(self.own_from)
        data = Data()
        while not between_steps():
            x = torch.stack([data[i]["x"] for i in range(BATCH)]).to(torch.bfloat16)
            self.engine.backward(self.engine(x)["loss"])
            self.engine.step()
        self.ours.close()


class Megatron(Training):
    """Megatron-core's loop on a CPU, as its tests run it."""

    name = "megatron"

    def __init__(self, mb, directory):
        super().__init__(mb, directory)
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1")
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "python"))
        # pylint: disable=import-outside-toplevel
        import frameworks_megatron as on_cpu  # it gives Megatron the CPU in the place of a GPU
        from megatron.core import dist_checkpointing
        from megatron.core.dist_checkpointing.strategies import async_utils, filesystem_async
        # Of the process that writes; by itself Megatron's imports all of this again.
        filesystem_async._results_queue = multiprocessing.get_context("fork").Manager().Queue()
        self.files, self.calls = dist_checkpointing, async_utils.AsyncCallsQueue()
        self.says = (f"megatron-core {on_cpu.megatron.core.__version__}, distributed optimizer, f32 masters of bf16 "
                     "weights")
        os.environ["MASTER_PORT"] = str(on_cpu.free_port())
        on_cpu.example.initialize(1, 1)
        self.model, self.optimizer = self.make(mb)
        self.ours = dlrover.megatron.bind(self.model, self.optimizer, directory=f"{directory}/ours", every=10**9)
        self.ways = [
            self.nothing(),
            Way("ours", "save_now()", self.ours.save_now),
            Way("own", "dist_checkpointing.save()", self.own, self.tidy),
            Way("own_async", "dist_checkpointing.save(async_sharded_save=True)",
                lambda: self.calls.schedule_async_request(self.own(async_sharded_save=True)), self.settle)]

    @staticmethod
    def make(mb):
        # pylint: disable=import-outside-toplevel
        from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
        from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
        from megatron.core.enums import ModelType
        from megatron.core.transformer.module import Float16Module, MegatronModule
        from megatron.core.transformer.transformer_config import TransformerConfig

        class Module(MegatronModule):
            """The net."""

            def __init__(self, config):
                super().__init__(config)
                self.net, self.model_type = Net(mb), ModelType.encoder_or_decoder

            def set_input_tensor(self, _):
                """From the stage before this one: there is none."""

            def forward(self, x):
                return self.net(x)["loss"]

        config = TransformerConfig(num_layers=1, hidden_size=WIDTH, num_attention_heads=1, bf16=True,
                                   params_dtype=torch.bfloat16, gradient_accumulation_fusion=False)
        model = DistributedDataParallel(config, DistributedDataParallelConfig(use_distributed_optimizer=True),
                                        Float16Module(config, Module(config)))
        return model, get_megatron_optimizer(OptimizerConfig(
            optimizer="adam", lr=1e-3, bf16=True, params_dtype=torch.bfloat16, use_distributed_optimizer=True), [model])

    def state(self, loading=False):
        """As Megatron-LM names it by default."""
        model = self.model.module.module.sharded_state_dict()
        return {"model": model, "optimizer": self.optimizer.sharded_state_dict(
            model, is_loading=loading, metadata={"distrib_optim_sharding_type": "dp_reshardable"})}

    def own(self, **more):
        place = self.place()
        os.makedirs(place)
        return self.files.save(self.state(), place, **more)

    def load(self):
        """Without Apex Megatron wants PyTorch's Adam to have its step before it loads, and then does not know it."""
        inner, = self.optimizer.chained_optimizers
        for p in (p for group in inner.optimizer.param_groups for p in group["params"]):
            inner.optimizer.state[p] = {"step": torch.tensor(0.0), "exp_avg": torch.zeros_like(p),
                                        "exp_avg_sq": torch.zeros_like(p)}
        put, had = inner._set_main_param_and_optimizer_states, inner._get_main_param_and_optimizer_states
        inner._set_main_param_and_optimizer_states = lambda p, tensors: put(p, {**had(p), **tensors})
        found = self.files.load(self.state(loading=True), self.own_from)
        self.model.module.module.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])

    def settle(self):
        self.calls.maybe_finalize_async_calls(blocking=True)
        self.tidy()

    def run(self, between_steps):
        from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
        step = self.ours.restore()
        if self.own_from:
            self.load()
        data, train = Data(), get_forward_backward_func()

        def forward(batches, model):
            return model(next(batches)), lambda loss: (loss, {})

        while True:
            self.model.zero_grad_buffer()
            self.optimizer.zero_grad()
            batch = torch.stack([data[i]["x"] for i in range(BATCH)])
            train(forward_step_func=forward, data_iterator=iter([batch]), model=self.model, num_microbatches=1,
                  seq_length=1, micro_batch_size=BATCH, forward_only=False)
            self.optimizer.step()
            step += 1
            self.ours.step(step)
            self.calls.maybe_finalize_async_calls()
            if between_steps():
                break
        self.ours.close()


FRAMEWORKS = {one.name: one for one in (Trainer, Accelerate, Lightning, DeepSpeed, Megatron)}
