#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lightning with dlrover.LightningCheckpoint: frameworks_lightning.py [TEST…] (all without one).

A training is run undisturbed; and again, cut off after a save and gone on with in new objects with other first
values. The batches of every rank, the losses, what callbacks and schedulers know and the final weights must be the
same then, bit for bit. Cut off: by SIGKILL in processes of their own, or for the many rows of the table in one
process, by an exception.

frameworks_lightning.py --train --steps N --out FILE trains under srun (SLURMEnvironment, gloo), see train().
"""
import argparse
import contextlib
import hashlib
import io
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a process that has had a backward pass with a GPU cannot be forked
try:
    import lightning.pytorch as pl
    import torch
    import torchmetrics
    from lightning.fabric import Fabric
    from lightning.pytorch import callbacks as plc
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

import dlrover
import forks
import python_agent

torch.set_num_threads(1)
BATCHES, SIZE, EPOCHS = 8, 4, 3
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


class Cut(BaseException):
    """Instead of a SIGKILL."""


class Rows(torch.utils.data.Dataset):
    """Row i is a function of i; random: with noise of the process's own generator."""

    def __init__(self, count, noise=False):
        self.count, self.noise = count, noise

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        x = torch.sin(torch.arange(6.) * (i + 1))
        return i, x + 0.1 * torch.rand(6) if self.noise else x


class Stream(torch.utils.data.IterableDataset):
    """Without a length."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        rows = Rows(self.count)
        return iter([rows[i] for i in torch.randperm(self.count).tolist()])


class Stateful(torch.utils.data.DataLoader):
    """One that knows its place, as torchdata's does."""

    order = resumed = None

    def __iter__(self):
        self.order = self.resumed or [torch.randperm(len(self.dataset)).tolist(), 0]
        self.resumed = None
        return self.draw()

    def draw(self):
        for at in range(self.order[1], len(self)):
            self.order[1] = at + 1
            yield self.collate_fn([self.dataset[i] for i in self.order[0][at * SIZE:(at + 1) * SIZE]])

    def state_dict(self):
        return {"order": self.order and [list(self.order[0]), self.order[1]]}

    def load_state_dict(self, state):
        self.resumed = state["order"]


class Net(pl.LightningModule):
    """Dropout, a scheduler, logged averages; tells every batch and loss."""

    def __init__(self, seen, scheduler="step", lr=0.05):
        super().__init__()
        self.seen, self.scheduler, self.lr = seen, scheduler, lr
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.Tanh(),
                                       torch.nn.Dropout(0.3), torch.nn.Linear(16, 1))
        self.error = torchmetrics.MeanSquaredError()

    def loss(self, batch):
        return (self.net(batch[1]).squeeze(1) - batch[0].float().cos()).square().mean()

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.seen(self.trainer, batch_idx, batch[0].tolist(), loss)
        self.log("loss", loss, on_step=True, on_epoch=True, batch_size=len(batch[0]))
        self.error(loss.detach().reshape(1), torch.zeros(1))
        self.log("error", self.error, on_step=False, on_epoch=True, batch_size=len(batch[0]))
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", self.loss(batch) + 0.001 * torch.rand(()), batch_size=len(batch[0]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr)
        if self.scheduler == "plateau":
            plan = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.5)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plan, "monitor": "loss_epoch"}}
        if self.scheduler == "plateau of steps":
            plan = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.5)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plan, "monitor": "val", "interval": "step",
                                                             "frequency": 4}}
        plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
        return [optimizer], [{"scheduler": plan, "interval": self.scheduler}]


class TwoOptimizers(Net):
    """By hand."""

    def __init__(self, *args):
        super().__init__(*args)
        self.automatic_optimization = False
        self.other = torch.nn.Linear(6, 1)

    def training_step(self, batch, batch_idx):
        first, second = self.optimizers()
        loss = super().training_step(batch, batch_idx)
        first.zero_grad()
        self.manual_backward(loss)
        first.step()
        second.zero_grad()
        self.manual_backward(self.other(batch[1]).square().mean())
        second.step()
        self.lr_schedulers().step()

    def configure_optimizers(self):
        first = torch.optim.AdamW(self.net.parameters(), lr=0.05)
        return [first, torch.optim.SGD(self.other.parameters(), lr=0.01, momentum=0.9)], [
            torch.optim.lr_scheduler.StepLR(first, 3, 0.5)]


class OfTwoLoaders(Net):
    """One of them is shorter, and begins again in mid-epoch: in an order of its own generator, since that of the
    process has been used for the training then.
    """

    def training_step(self, batch, batch_idx):
        return super().training_step([torch.cat(parts) for parts in zip(*batch)], batch_idx)


class Thaws(Net):
    """Its first layers are trained from an epoch on."""

    @property
    def backbone(self):
        return self.net[:2]

    def configure_optimizers(self):
        return torch.optim.AdamW(self.net[4].parameters(), lr=0.05)


class Sharded(Net):
    """FSDP2."""

    def configure_model(self):
        from torch.distributed.fsdp import fully_shard
        if not isinstance(self.net[0].weight, torch.distributed.tensor.DTensor):
            fully_shard(self.net, mesh=self.device_mesh["data_parallel"])


class DrawsItself(Net):
    """training_step() takes the loader's iterator."""

    def training_step(self, dataloader_iter):
        batch, batch_idx, _ = next(dataloader_iter)
        return super().training_step(batch, batch_idx)


class Drawing(plc.Callback):
    """Draws random numbers in every hook that others may, and keeps state of its own."""

    def __init__(self):
        self.batches = self.epochs = 0

    def on_train_start(self, *_):
        torch.rand(3)

    def on_train_epoch_start(self, *_):
        torch.rand(2)
        self.epochs += 1

    def on_train_batch_end(self, *_):
        torch.rand(1)
        self.batches += 1

    def state_dict(self):
        return {"batches": self.batches, "epochs": self.epochs}

    def load_state_dict(self, state):
        vars(self).update(state)


class Data(pl.LightningDataModule):
    """With a state."""

    def __init__(self, rows):
        super().__init__()
        self.rows, self.handed_out = rows, 0

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.rows, SIZE, shuffle=True)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        self.handed_out += self.trainer.training
        return batch

    def val_dataloader(self):
        return torch.utils.data.DataLoader(Rows(8), SIZE)

    def state_dict(self):
        return {"handed_out": self.handed_out}

    def load_state_dict(self, state):
        self.handed_out = state["handed_out"]


class Order(plc.Callback):
    """Orders a save after update `save`, as a supervisor does, and cuts off after update `cut`."""

    def __init__(self, ours, save, cut, kill=False):
        self.ours, self.save, self.cut, self.kill = ours, save, cut, kill

    def on_train_batch_start(self, trainer, *_):
        if self.cut is not None and trainer.global_step >= self.cut:
            self.ours._session.flush()
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise Cut

    def on_before_optimizer_step(self, trainer, *_):
        if trainer.global_step + 1 == self.save:
            self.ours.save_now()


def loader(kind="shuffled", count=BATCHES * SIZE):
    if kind == "stream":
        return torch.utils.data.DataLoader(Stream(count), SIZE)
    if kind == "stateful":
        return Stateful(Rows(count), SIZE)
    given = {"workers": {"num_workers": 2}, "generator": {"generator": torch.Generator().manual_seed(5)}}.get(kind, {})
    return torch.utils.data.DataLoader(Rows(count, kind == "noise"), SIZE, shuffle=True, **given)


class Run:
    """A training of a row: what it saw and has at the end."""

    def __init__(self, row, directory, save=None, cut=None, kill=False, seed=1, ours=True, ckpt_path=None, where=None):
        row = dict(row)
        self.seen, self.where = [], where
        pl.seed_everything(seed, verbose=False)
        kind, net, scheduler = (row.pop(key, default) for key, default in (
            ("data", "shuffled"), ("net", Net), ("scheduler", "step")))
        monitor, validate = row.pop("monitor", "val"), row.pop("validate", True)
        self.ours = dlrover.LightningCheckpoint(directory=os.path.join(directory, "ours")) if ours else None
        self.best = plc.ModelCheckpoint(os.path.join(directory, "theirs"), "{step}", monitor=monitor, save_top_k=2,
                                        **row.pop("best", {}))
        self.stop = plc.EarlyStopping(monitor, patience=row.pop("patience", 9), mode=row.pop("mode", "min"))
        self.drawing, more = Drawing(), row.pop("callbacks", lambda: [])()
        given = [self.drawing, self.stop, self.best, *more]
        if ours:
            given += [self.ours, Order(self.ours, save, cut, kill)]
        else:
            given += [Order(None, None, cut, kill)] if kill else []
        row.setdefault("max_epochs", EPOCHS)
        row["plugins"] = row.get("plugins", lambda: None)()
        count = row.pop("count", BATCHES * SIZE)
        if row.get("strategy") == "sharded":
            row["strategy"], net = pl.strategies.ModelParallelStrategy(data_parallel_size=row["devices"],
                                                                       tensor_parallel_size=1), Sharded
        self.model = net(self.note, scheduler)
        pl.seed_everything(7, verbose=False)
        row.setdefault("max_epochs", EPOCHS)
        self.trainer = pl.Trainer(callbacks=given, default_root_dir=directory, **QUIET, **row)
        data = {"datamodule": Data(Rows(count))} if kind == "module" else {
            "train_dataloaders": {"cycle": [loader(), loader("generator", 12)]}.get(kind) or loader(kind, count),
            "val_dataloaders": torch.utils.data.DataLoader(Rows(8), SIZE) if validate else None}
        self.first = None
        with contextlib.suppress(Cut):
            self.trainer.fit(self.model, **data, ckpt_path=ckpt_path)

    def note(self, trainer, batch_idx, rows, loss):
        one = [trainer.current_epoch, batch_idx, trainer.global_step, rows, loss.item().hex()]
        self.seen.append(one)
        if self.where:
            with open(f"{self.where}.{trainer.global_rank}", "a", encoding="ascii") as out:
                out.write(json.dumps(one) + "\n")

    def result(self):
        """All that must be the same, in words that can be compared."""
        loops = {key: one for key, one in self.trainer.fit_loop.state_dict().items()
                 if "val_loop" not in key and key != "state_dict"}  # nor the order of a loader that is not used again
        return {"weights": weights(self.model), "step": self.trainer.global_step, "epoch": self.trainer.current_epoch,
                "stop": self.stop.state_dict(), "drawing": self.drawing.state_dict(),
                "best": {key: str(one).replace("-v1", "") for key, one in self.best.state_dict().items()
                         if key != "current_score"},  # which Lightning does not load
                "rates": [group["lr"] for one in self.trainer.optimizers for group in one.param_groups],
                "plans": [str(one.scheduler.state_dict()) for one in self.trainer.lr_scheduler_configs],
                "random": hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest(),
                "module": getattr(self.trainer.datamodule, "handed_out", None),
                "metrics": {key: str(one) for key, one in self.trainer.callback_metrics.items()}, "loops": loops}


def weights(model):
    digest = hashlib.sha256()
    for name, one in sorted(model.state_dict().items()):
        one = getattr(one, "_local_tensor", one)
        digest.update(name.encode() + one.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def equal(ours, whole, what):
    for key, one in whole.items():
        assert ours[key] == one, f"{what}: {key} is\n  {ours[key]}, undisturbed\n  {one}"


# What people train, a row each: arguments of Trainer, and those that Run takes out.
ROWS = {
    "shuffled, accumulated": {"accumulate_grad_batches": 2},
    "noise drawn with the data": {"data": "noise"},
    "validation twice an epoch": {"val_check_interval": 0.5, "accumulate_grad_batches": 2},
    "validation each 3 batches": {"val_check_interval": 3, "check_val_every_n_epoch": None},
    "a stream without length": {"data": "stream"},
    "a loader that knows its place": {"data": "stateful"},
    "a loader's own generator": {"data": "generator"},
    "two loaders": {"data": "cycle", "net": OfTwoLoaders},
    "worker processes": {"data": "workers", "max_epochs": 2},
    "a data module": {"data": "module"},
    "max_steps": {"max_steps": 21, "max_epochs": -1},
    "early stopping": {"mode": "max", "patience": 2, "max_epochs": 9},
    "a monitored average of the epoch": {"monitor": "loss_epoch", "validate": False, "scheduler": "plateau"},
    "a measure of the epoch": {"monitor": "error", "validate": False, "scheduler": "epoch"},
    "a plan that follows validation": {"scheduler": "plateau of steps", "val_check_interval": 4},
    "two optimizers by hand": {"net": TwoOptimizers},
    "a step that draws itself": {"net": DrawsItself, "validate": False, "monitor": "loss_epoch"},
    "averaged weights": {"callbacks": lambda: [plc.EMAWeightAveraging(decay=0.9)]},
    "stochastic weight averaging": {"callbacks": lambda: [plc.StochasticWeightAveraging(0.01, 1, 1)],
                                    "scheduler": "epoch"},
    "a backbone that thaws": {"net": Thaws, "callbacks": lambda: [plc.BackboneFinetuning(1, lambda _epoch: 1.5)]},
    "f16 with a scaler": {"plugins": lambda: [pl.plugins.MixedPrecision("16-mixed", "cpu",
                                                                        torch.amp.GradScaler("cpu", 2.**40))]},
    "bf16": {"precision": "bf16-mixed"},
}


def test_rows_of_people(rows=None, every=5):
    """A save after every so many steps, gone on with from there."""
    for name, row in ROWS.items():
        if rows and name not in rows:
            continue
        with tempfile.TemporaryDirectory() as directory:
            whole = Run(row, directory, ours=False)
            shutil.rmtree(os.path.join(directory, "theirs"))
            steps = whole.trainer.global_step
            for save in (*range(1, steps - 2, every), steps - 2):  # the last is of a training that is done then
                shutil.rmtree(os.path.join(directory, "ours"), ignore_errors=True)
                shutil.rmtree(os.path.join(directory, "theirs"), ignore_errors=True)
                cut = Run(row, directory, save=save, cut=save + 2)
                again = Run(row, directory, seed=3)
                what = f"{name}, saved at {save}"
                first = again.seen[0] if again.seen else None
                assert not first or first[2] >= save - 1, f"{what}: went on from {first}"
                kept = [one for one in cut.seen if not again.seen or one[:2] < again.seen[0][:2]]
                other = [pair for pair in zip(kept + again.seen, whole.seen) if pair[0] != pair[1]]
                assert kept + again.seen == whole.seen, (f"{what}: {len(kept)} and {len(again.seen)} batches, "
                                                         f"{len(whole.seen)} undisturbed: {other[:1]}")
                had = whole.result()
                if not again.seen:
                    del had["plans"]  # of no use after the end: averaging of weights makes its own in an epoch only
                equal(again.result(), had, what)
        print(f"  {name}: {steps} steps", flush=True)


# --- processes of their own -

def child(text):
    """A rank; its batches go to files, its result too."""
    given = json.loads(text)
    run = Run(given.pop("row"), **given)
    rank = run.trainer.global_rank
    with open(f"{given['where']}.result.{rank}", "w", encoding="ascii") as out:
        json.dump(run.result(), out, default=str)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Rank:
    """Of a training under srun: forked, so that Lightning is imported once."""

    def __init__(self, given, env, told):
        self.pid, self.returncode = os.fork(), None
        if self.pid == 0:
            code = 1
            try:
                os.setsid()
                os.dup2(told.fileno(), 2)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.environ.update(env)
                torch.set_num_threads(1)  # a fork leaves torch's pool of threads behind
                child(json.dumps(given))
                code = 0
            except BaseException:  # pylint: disable=broad-exception-caught
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)

    def wait(self, timeout):
        if self.returncode is None:
            self.returncode = forks.code_of(self.pid, timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.returncode


def start(ranks, srun=True, **given):
    """Processes under an environment as srun makes it, or one that starts the others by itself: their exit statuses
    and what they say.
    """
    port, found = str(free_port()), []
    for rank in range(ranks if srun else 1):
        told = tempfile.TemporaryFile("w+")  # no pipe: an orphan would hold it open
        if srun:
            env = {"SLURM_NTASKS": str(ranks), "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank),
                   "SLURM_NODEID": "0", "SLURM_NNODES": "1", "SLURM_NTASKS_PER_NODE": str(ranks),
                   "SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "train", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                   "RANK": str(rank), "WORLD_SIZE": str(ranks)}
            found.append((Rank(given, env, told), told))
        else:
            found.append((subprocess.Popen([sys.executable, __file__, "--child", json.dumps(given)], stderr=told,
                                           stdout=subprocess.DEVNULL, start_new_session=True), told))
    for one, _ in found:
        if one.wait(timeout=600) == -signal.SIGKILL:
            for other, _ in found:  # as srun does, with what they started
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(other.pid, signal.SIGKILL)
    errors = []
    for _, told in found:
        told.seek(0)
        errors.append(told.read())
    return [one.returncode for one, _ in found], errors


def read_result(where, rank):
    with open(f"{where}.result.{rank}", encoding="ascii") as text:
        return json.load(text)


def read_batches(where, rank):
    try:
        with open(f"{where}.{rank}", encoding="ascii") as text:
            return [json.loads(line) for line in text]
    except FileNotFoundError:
        return []


def ranks(count, strategy, srun=True):
    """Killed in mid-epoch, gone on with; and Lightning's own resume beside it, which draws other batches."""
    row = {"accumulate_grad_batches": 2, "devices": count, "count": BATCHES * SIZE * count, "strategy": strategy,
           "best": {"every_n_train_steps": 3, "save_last": True, "train_time_interval": None}}
    with tempfile.TemporaryDirectory() as directory:
        places = {name: os.path.join(directory, name) for name in ("whole", "cut", "own")}
        codes, errors = start(count, srun, row=row, directory=places["whole"], where=places["whole"], ours=False)
        assert not any(codes), errors
        codes, errors = start(count, srun, row=row, directory=places["cut"], where=places["cut"], cut=8, kill=True)
        assert -signal.SIGKILL in codes, (codes, errors)
        before = [read_batches(places["cut"], rank) for rank in range(count)]
        shutil.copytree(places["cut"], places["own"])
        codes, errors = start(count, srun, row=row, directory=places["cut"], where=places["cut"], seed=3)
        assert not any(codes), errors
        codes, errors = start(count, srun, row=row, directory=places["own"], where=places["own"], seed=3,
                              ours=False, ckpt_path=os.path.join(places["own"], "theirs", "last.ckpt"))
        assert not any(codes), errors
        for rank in range(count):
            undisturbed, ours = (read_batches(places[one], rank) for one in ("whole", "cut"))
            ours = ours[len(before[rank]):]
            assert 6 <= ours[0][2] < 8 and ours[0][1] > 0, f"went on from {ours[0]}"
            at = undisturbed.index(ours[0])
            assert ours == undisturbed[at:], f"rank {rank}: other batches or losses"
            result, theirs = read_result(places["cut"], rank), read_result(places["own"], rank)
            whole = read_result(places["whole"], rank)
            for one in result, whole, theirs:
                one["best"] = plain(one["best"], directory)
            equal(result, whole, f"rank {rank}")
            own = read_batches(places["own"], rank)
            print(f"  rank {rank} of {count}: ours goes on at batch {ours[0][:2]} with {len(ours)} batches as "
                  f"undisturbed; Lightning's own ckpt_path: "
                  f"{sum(one in undisturbed for one in own)} of {len(own)} batches, weights "
                  f"{'equal' if theirs['weights'] == whole['weights'] else 'differ'}")


def plain(best, directory):
    """Files' names without where they are."""
    text = json.dumps(best)
    for name in "whole", "cut", "own":
        text = text.replace(os.path.join(directory, name), "")
    return text


def test_a_process_is_killed():
    ranks(1, "auto")


def test_two_ranks_of_ddp_are_killed():
    ranks(2, "ddp")


def test_two_ranks_that_lightning_starts_are_killed():
    ranks(2, "ddp", srun=False)


def test_two_ranks_of_fsdp2_are_killed():
    ranks(2, "sharded")


def test_another_number_of_ranks_sees_the_rest_of_the_epoch():
    row = {"devices": 2, "strategy": "ddp", "best": {"every_n_train_steps": 2}, "max_epochs": 1, "validate": False,
           "monitor": "loss"}
    with tempfile.TemporaryDirectory() as directory:
        where = os.path.join(directory, "log")
        codes, errors = start(2, row=row, directory=directory, where=where, cut=3, kill=True)
        assert -signal.SIGKILL in codes, errors
        seen = [i for rank in range(2) for one in read_batches(where, rank) if one[2] < 2 for i in one[3]]
        row.update(devices=1)
        codes, errors = start(1, row=row, directory=directory, where=where + "2", seed=3)
        assert codes == [0], errors
        rest = read_batches(where + "2", 0)
        assert rest[0][2] == 2 and sorted(seen + [i for one in rest for i in one[3]]) == list(range(32)), (seen, rest)


# --- what users do around it -

def small(directory, *more, ours=None, epochs=1, net=Net, **arguments):
    """Trainer and arguments of fit() of a training with nothing but ours."""
    arguments.setdefault("enable_checkpointing", False)
    trainer = pl.Trainer(max_epochs=epochs, callbacks=[*([ours] if ours else []), *more], default_root_dir=directory,
                         **QUIET, **arguments)
    return trainer, net(lambda *_: None), loader()


def fails(error, part, call):
    try:
        call()
    except error as one:
        assert part in str(one) and "\n" not in str(one), f"{part!r} is not in one line of {one!r}"
    else:
        raise AssertionError(f"no {error.__name__} that says {part!r}")


def test_it_is_given_as_a_plugin():
    with tempfile.TemporaryDirectory() as directory:
        ours = dlrover.LightningCheckpoint(directory=directory + "/ours")
        trainer = pl.Trainer(max_steps=4, plugins=[ours], default_root_dir=directory, **QUIET)
        assert trainer.callbacks[0] is ours and trainer.strategy.checkpoint_io is ours
        trainer.fit(Net(lambda *_: None), loader())
        path = directory + "/one.ckpt"
        trainer.save_checkpoint(path)
        assert torch.load(path, weights_only=False)["global_step"] == 4
        assert os.listdir(directory + "/ours")


def test_the_other_package_has_it_too():
    code = ("import pytorch_lightning as pl, dlrover, sys; ours = dlrover.LightningCheckpoint(); "
            "from pytorch_lightning.demos.boring_classes import BoringModel; "
            "pl.Trainer(max_steps=3, callbacks=[ours], logger=False, enable_progress_bar=False, accelerator='cpu')"
            ".fit(BoringModel()); assert isinstance(ours, pl.Callback) and 'lightning.pytorch' not in sys.modules; "
            "again = dlrover.LightningCheckpoint(); t = pl.Trainer(max_steps=5, plugins=[again], logger=False, "
            "enable_progress_bar=False, accelerator='cpu'); t.fit(BoringModel()); assert again._session._step == 5")
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run([sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert os.listdir(directory + "/dlrover-ckpt")


def test_lightnings_own_file_is_as_without_us():
    files = []
    for ours in True, False:
        with tempfile.TemporaryDirectory() as directory:
            Run({"max_epochs": 2, "best": {"save_last": True}}, directory, ours=ours)
            files.append(torch.load(directory + "/theirs/last.ckpt", weights_only=False))
            text = str(sorted(files[-1].items())).replace(directory, "")
            files[-1] = text
    assert files[0] == files[1]


def test_validate_test_and_predict_do_nothing():
    with tempfile.TemporaryDirectory() as directory:
        ours = dlrover.LightningCheckpoint(directory=directory + "/ours")
        trainer, model, data = small(directory, ours=ours)
        trainer.validate(model, data, verbose=False)
        trainer.predict(torch_predicts(model), data)
        assert not os.path.exists(directory + "/ours") and ours._session is None


def torch_predicts(model):
    model.predict_step = lambda batch, batch_idx: model.net(batch[1])
    return model


def test_fit_after_validate_and_a_second_fit():
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ours = dlrover.LightningCheckpoint(directory=directory + "/ours")
        trainer, model, data = small(directory, ours=ours, enable_checkpointing=True)
        trainer.validate(model, data, verbose=False)
        trainer.fit(model, data)
        had = weights(model)
        trainer.fit_loop.max_epochs = 2
        trainer.fit(model, data)
        assert weights(model) != had and trainer.current_epoch == 2
        assert sum("a second fit() is not saved" in str(one.message) for one in told) == 1
        trainer, model, data = small(directory, ours=dlrover.LightningCheckpoint(directory=directory + "/ours"))
        trainer.fit(model, data)  # was done: returns at once
        assert weights(model) == had and trainer.global_step == BATCHES


def test_a_tuner_is_not_saved():
    with tempfile.TemporaryDirectory() as directory:
        ours = dlrover.LightningCheckpoint(directory=directory + "/ours")
        trainer, model, data = small(directory, ours=ours, enable_checkpointing=True)
        pl.tuner.Tuner(trainer).lr_find(model, data, num_training=5, update_attr=False)
        assert ours._session is None
        trainer.fit(model, data)
        assert ours._session._saved == BATCHES


def test_a_ckpt_path_says_where_a_fresh_training_begins():
    with tempfile.TemporaryDirectory() as directory:
        trainer, model, data = small(directory, enable_checkpointing=True)
        trainer.fit(model, data)
        path = directory + "/begin.ckpt"
        trainer.save_checkpoint(path)
        def go(ours, epochs):
            trainer, model, data = small(directory, ours=ours, enable_checkpointing=True, epochs=epochs)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                trainer.fit(model, data, ckpt_path=path)
            return trainer.global_step, [str(one.message) for one in told if "ckpt_path, where" in str(one.message)]
        assert go(dlrover.LightningCheckpoint(directory=directory + "/ours"), 2) == (2 * BATCHES, [])
        steps, told = go(dlrover.LightningCheckpoint(directory=directory + "/ours"), 3)
        assert steps == 3 * BATCHES and told == ["dlrover.LightningCheckpoint: goes on from step 16, not from "
                                                 "ckpt_path, where a fresh training begins"], told


def test_a_job_restores_and_saves_one_fit_of_a_process():
    from dlrover.frameworks import lightning as adapter
    with tempfile.TemporaryDirectory() as directory:
        whole = Run(ROWS["shuffled, accumulated"], directory, ours=False)
        shutil.rmtree(directory + "/theirs")
        Run(ROWS["shuffled, accumulated"], directory, save=6, cut=7)
        with python_agent.Agent(directory + "/ours", 0, step=6, made_by=1) as agent, warnings.catch_warnings(
                record=True) as told:
            warnings.simplefilter("always")
            again = Run(ROWS["shuffled, accumulated"], directory, seed=3)
            other = Run({"max_epochs": 1}, directory + "/2", seed=4)
        adapter.LightningCheckpoint._used_in_job = False
        assert agent.restored == 0 and again.ours._session.in_job and not other.ours._used
        assert again.seen == whole.seen[-len(again.seen):] and again.seen[0][2] == 6
        assert weights(again.model) == weights(whole.model) and len(other.seen) == BATCHES
        assert [str(one.message) for one in told if str(one.message).startswith("dlrover")] == [
            "dlrover.LightningCheckpoint: a second fit() is not saved, the first was"], list(map(str, told))


def test_slurms_requeue_is_left_to_the_supervisor():
    environment = type("SLURMEnvironment", (), {"auto_requeue": True})()
    trainer = type("T", (), {"is_global_zero": True})()
    trainer._accelerator_connector = type("C", (), {"cluster_environment": environment})()
    from dlrover.frameworks import lightning_trainer
    with contextlib.redirect_stderr(io.StringIO()) as told:
        lightning_trainer.no_requeue(trainer)
    assert not environment.auto_requeue and told.getvalue() == (
        "dlrover: this job is requeued by its supervisor, not by Lightning: SLURMEnvironment(auto_requeue=False)\n")


def test_what_fails_in_a_save_is_one_warning():
    class Fails(Net):
        def on_save_checkpoint(self, checkpoint):
            if self.trainer.global_step:
                raise OSError("no room")

    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ours = dlrover.LightningCheckpoint(directory=directory + "/ours")
        trainer, model, data = small(directory, Order(ours, 3, None), ours=ours, epochs=2, net=Fails)
        trainer.fit(model, data)
        assert trainer.current_epoch == 2 and ours.failures == 1, ours.failures
        assert sum("is not saved, the training goes on: no room" in str(one.message) for one in told) == 1


def test_weights_that_lightning_saves_alone_are_a_save_too():
    with tempfile.TemporaryDirectory() as directory:
        ours = dlrover.LightningCheckpoint(directory=directory + "/ours")
        best = plc.ModelCheckpoint(directory + "/theirs", save_weights_only=True, every_n_train_steps=3)
        trainer, model, data = small(directory, best, ours=ours, enable_checkpointing=True)
        trainer.fit(model, data)
        assert ours._session._saved == 6 and "save_checkpoint" not in vars(trainer)


def test_what_cannot_be_saved_is_said_before_the_first_step():
    class Odd(plc.Callback):
        def state_dict(self):
            return {"odd": object()}

    with tempfile.TemporaryDirectory() as directory:
        def ours():
            return dlrover.LightningCheckpoint(directory=directory + "/ours")
        trainer, model, data = small(directory, Odd(), ours=ours())
        fails(ValueError, "['odd'] is a builtins.object, which cannot be kept", lambda: trainer.fit(model, data))
        trainer, model, data = small(directory, ours(), ours=ours())
        fails(ValueError, "this model is saved by dlrover.LightningCheckpoint already",
              lambda: trainer.fit(model, data))
        trainer, model, data = small(directory, ours=ours())
        trainer.strategy.__class__ = type("MyStrategy", (pl.strategies.Strategy,), dict(vars(type(trainer.strategy))))
        fails(ValueError, "what a rank has under strategy MyStrategy is not known, and would be lost",
              lambda: trainer.fit(model, data))
        with torch.device("meta"):
            trainer, model, data = small(directory, ours=ours())
        fails((ValueError, NotImplementedError), "meta", lambda: trainer.fit(model, data))


def test_fabric_binds():
    def go(directory, last, seed):
        fabric = Fabric(accelerator="cpu", devices=1)
        pl.seed_everything(seed, verbose=False)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
        model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters()))
        ck = dlrover.bind(model.module, optimizer, replicated=fabric.world_size > 1, directory=directory, every=1)
        first = step = ck.restore()
        while step < last:
            loss = model(torch.rand(4, 6)).square().mean()
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            ck.step(step)
        ck.close()
        return first, weights(model.module)

    with tempfile.TemporaryDirectory() as directory:
        whole = go(directory + "/a", 8, 1)[1]
        go(directory + "/b", 5, 1)
        assert go(directory + "/b", 8, 2) == (5, whole)


# --- under srun -

def train(arguments):
    """Two layers of 64, dropout, DDP over all tasks. Prints 'step N loss X' and 'rank R epoch E batch B rows …'; rank
    0 writes the SHA-256 of the final weights to --out.
    """
    from lightning.pytorch.plugins.environments import SLURMEnvironment
    world = int(os.environ.get("SLURM_NTASKS", "1"))
    nodes = int(os.environ.get("SLURM_NNODES", "1"))

    def seen(trainer, batch_idx, rows, loss):
        print(f"rank {trainer.global_rank} epoch {trainer.current_epoch} batch {batch_idx} rows "
              f"{','.join(map(str, rows))}", flush=True)
        if trainer.is_global_zero:
            print(f"step {trainer.global_step + 1} loss {loss.item():.9g}", flush=True)

    pl.seed_everything(7, verbose=False)
    model = Net(seen)
    trainer = pl.Trainer(
        max_steps=arguments.steps, callbacks=[dlrover.LightningCheckpoint()], devices=world // nodes, num_nodes=nodes,
        strategy="ddp" if world > 1 else "auto", plugins=[SLURMEnvironment()] if world > 1 else None,
        enable_checkpointing=False, **QUIET)
    trainer.fit(model, loader(count=BATCHES * SIZE * world))
    if trainer.is_global_zero:
        with open(arguments.out, "w", encoding="ascii") as out:
            out.write(weights(model) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out")
    parser.add_argument("--child")
    parser.add_argument("--row", action="append", help="rows of the table alone")
    parser.add_argument("--every", type=int, default=5, help="of how many steps one is saved and gone on from")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    if arguments.child:
        return child(arguments.child)
    if arguments.train:
        return train(arguments)
    warnings.filterwarnings("ignore", module="(lightning|torch)\\.")
    if arguments.row:
        return test_rows_of_people(arguments.row, arguments.every)
    tests = {name: one for name, one in globals().items() if name.startswith("test_")}
    failed = []
    for name in arguments.names or tests:
        try:
            tests[name]()
            print(f"ok {name[5:]}", flush=True)
        except Exception:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
            print(f"not ok {name[5:]}", flush=True)
            failed.append(name)
    print(f"{len(arguments.names or tests) - len(failed)} passed" + f", {len(failed)} failed" * bool(failed))
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
