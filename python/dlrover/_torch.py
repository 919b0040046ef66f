# SPDX-License-Identifier: Apache-2.0
"""A PyTorch model and its optimizer as the state of a rank."""
from __future__ import annotations

import errno
import functools
import operator
import os
import types
import typing
import warnings
import weakref

import torch

if typing.TYPE_CHECKING:
    from .feed import Feed

from . import _joined, _random
from ._checkpoint import Checkpoint, Error
from ._groups import watched
from ._objects import has_state
from ._optimizer import Rest
from ._source import Source
from ._tree import NOTE, OPTIONS, RANDOM, Tree, decode_note
from ._watch import watch

LOOK_EVERY = 64  # steps: a new layout should be known before a save of it is due
UNFIT = "tensors of it are in the model, which must not be used: make model and optimizer anew"


# Modules that were bound in this round, and in a former one of this process: {module: number of that round}.
_bound: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
_former: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()


def leave_round(number: int) -> None:
    """The process stays: what half a step has left in .grad would be added to the next one's."""
    for module in list(_bound):
        parameters = list(module.parameters(recurse=False))
        for parameter in parameters:
            parameter.grad = None
        if any(parameter.requires_grad for parameter in parameters):  # others are not trained
            _former[module] = number
    _bound.clear()


def _regions(ck, rank):
    return {region.name: region for region in ck.regions(rank)}


def _find_note(ck):
    """(its regions by name, the note) of this rank, of the first where this one is new. Error when neither is there."""
    for rank in (ck.rank, 0):
        try:
            return _regions(ck, rank), ck.peek(rank, NOTE)
        except Error as error:
            wrong = error
    raise wrong


def peek_objects(ck: Checkpoint) -> dict[str, typing.Any]:
    """{name: value} of the objects that were given to bind(), in the version that restore() loads; a tensor of 64 KiB
    or more is no value here. {} where there is no version, or it cannot be read: restore() tells that, to the other
    ranks too. Blocking as Checkpoint.regions() is.
    """
    try:
        return decode_note(_find_note(ck)[1])["objects"] if ck.list(1) else {}
    except OSError:
        return {}


def _under_job():
    return "DLROVER_AGENT_SOCKET" in os.environ


class _Fence:
    """What optimizers and modules hold: nothing that holds them. In a copy or a pickle of a module it is something
    that does nothing, and that is read where there is no dlrover.
    """

    def __init__(self, ck):
        self._ck, self.on_gpu = ck, False
        self.updates_only = False  # all that is saved in place changes in updates, and not in a closure

    def stream(self):
        return torch.cuda.current_stream().cuda_stream if self.on_gpu else None

    def __call__(self, *_):
        self._ck.fence(self.stream())

    def __reduce__(self):
        return getattr, ({}, "get")  # of a hook's module and arguments it gives the arguments back


def _runs_closure_first(optimizer):
    """Whether its step(closure) changes nothing before the closure has run: torch.optim's own do not. Others may (SAM),
    and one that calls it between its changes is not looked into (LBFGS).
    """
    owner = next(kind for kind in type(optimizer).__mro__ if "step" in vars(kind))
    return f"{owner.__module__}.".startswith("torch.optim.") and owner is not torch.optim.LBFGS


def _wait_after_closure(fence):
    """A hook before step(): it waits, or lets the closure wait at its end, after forward and backward pass."""
    def hook(_optimizer, args, kwargs):
        closure = kwargs.get("closure", (*args, None)[1])  # args[0] is the optimizer
        if not fence.updates_only or not callable(closure):
            return fence()

        @functools.wraps(closure)
        def closure_and_wait():
            value = closure()
            fence()
            return value

        if "closure" in kwargs:
            return args, {**kwargs, "closure": closure_and_wait}
        return (args[0], closure_and_wait, *args[2:]), kwargs

    return hook


def _fence_before_update(optimizer, fence):
    """What takes it out again."""
    hook = _wait_after_closure(fence) if _runs_closure_first(optimizer) else fence
    if hasattr(optimizer, "register_step_pre_hook"):  # PyTorch 2
        return getattr(optimizer.register_step_pre_hook(hook), "remove", lambda: None)
    update, had = optimizer.step, vars(optimizer).get("step")
    own = getattr(update, "__func__", lambda _self, *args, **kwargs: update(*args, **kwargs))

    @functools.wraps(update)
    def step(*args, **kwargs):
        args, kwargs = hook(args[0], args, kwargs) or (args, kwargs)
        return own(*args, **kwargs)

    del step.__wrapped__  # it holds the optimizer
    # A method again, since schedulers look into it.
    ours = optimizer.step = types.MethodType(step, optimizer)

    def remove():
        if vars(optimizer).get("step") is ours:
            vars(optimizer).pop("step")
            vars(optimizer).update({"step": had} if had else {})

    return remove


def _watch(look_at):
    """look_at, a method, is called with each optimizer that steps (PyTorch 2). What stops it."""
    try:
        from torch.optim.optimizer import register_optimizer_step_pre_hook  # pylint: disable=import-outside-toplevel
    except ImportError:
        return lambda: None
    method = weakref.WeakMethod(look_at)

    def look(optimizer, *_):
        known = method()
        if known:
            known(optimizer)

    return register_optimizer_step_pre_hook(look).remove


class Bound:
    """A model and an optimizer whose every tensor is saved and restored in place.

        ck = dlrover.bind(model, optimizer, scheduler=scheduler, scaler=scaler, ema=ema)
        step = ck.restore()               # 0: a fresh start
        while step < last:
            loss(model(...)).backward()
            optimizer.step()              # waits first until the last save let go
            step += 1
            ck.step(step)

    Saved are parameters, buffers, what modules keep beside them (get_extra_state), the optimizer's state and options,
    the generators of random numbers (torch's on the CPU and on every GPU it sees, Python's, numpy's) and what is given
    by a name, nothing else. Gradients are not: step() comes after an update, not between the parts of an accumulated
    one. What is given by a name may be
      a module (averaged weights, a second network), whose tensors are saved in place;
      an optimizer;
      an object with state_dict and load_state_dict (a scheduler, a GradScaler, a sampler's or
      loader's position, averages in a class of one's own), or a dict of such objects;
      a function, which returns a value to keep when called without an argument, and takes it
      back as its only one.
    extra is one more of these. What is kept of objects are numbers, text, bytes, tensors,
    arrays, and lists, tuples, sets and dicts of them: never a pickle, which would be run when it
    is read. Their tensors of 64 KiB or more are copied at each save.

    optimizer is one, a list or a dict of them, or what wraps one (Accelerate's, Megatron's): its
    scaler is saved, too, and what its state dict has beside. Parameters of an optimizer that are
    no tensors of a module given here, as f32 copies of bf16 weights, are saved with it. Names are
    those of the model without what torch.compile, DDP and FSDP put before them. bind() raises
    ValueError for what cannot be saved, and says what to do. An optimizer that steps parameters of these modules and
    was not given is one warning (PyTorch 2), and so is a scheduler that was not.

    No step() of an optimizer is called: restore() makes its state as the version has it. Tied
    weights are stored once. State that appears later, a tensor that lies elsewhere, a value that
    grows make another layout: all are named anew, and what was not to be expected is told once; a
    save that is due then waits for memory. A forked child (a DataLoader's worker) saves nothing. A step that
    was captured into a CUDA graph runs no Python when it is replayed: call fence() before each replay and
    step() after it.

    A DTensor (FSDP2, tensor parallelism) is saved as this rank's part of the whole, and the optimizer's state of it
    likewise. No collective is called. Where FSDP2 has gathered parameters at step(), they are resharded.

    sources: state that no module and no torch optimizer has as it is to be saved; each is an object as
    dlrover._source.Source says. feeds: dlrover.feed.Feed, which go on at the step that was restored; their steps are
    those of step().

    Any number of ranks loads what any other number saved, where each has the whole model, or DTensors of it. A rank
    that was none
    then takes buffers, options and objects as rank 0 had them. Its random numbers are
    its own: all generators are seeded with 8 bytes of the SHA-256 of rank 0's torch
    generator, as saved, and " rank N"; so the same version gives it the same numbers again.

    replicated: parameters and the optimizer's state are the same, bit for bit, on every rank, as
    DistributedDataParallel keeps them when each rank's optimizer has all of them. A node with
    several ranks then holds and sends them once. It is not found out here, and it is not so with
    ZeroRedundancyOptimizer, FSDP or an update that is not the same everywhere: a restore would mix
    the ranks' values. Buffers (statistics of BatchNorm) and random numbers stay each rank's own.
    A version is loaded with what it was saved with, or see allow(). None: True where model is, or wraps, a
    DistributedDataParallel without a communication hook, and the optimizers are torch.optim's.
    """

    def __init__(self, model: torch.nn.Module, optimizer: typing.Any = None,
                 extra: typing.Any = None, replicated: bool | None = False,
                 sources: typing.Iterable[Source] = (), feeds: typing.Iterable[Feed] = (),
                 **more: typing.Any) -> None:
        options = {name: more.pop(name) for name in OPTIONS if name in more}
        checkpoint = more.pop("checkpoint", None)
        self._tree = Tree(model, replicated, sources)
        if extra is not None:
            self._tree.add_object("extra", extra)
        if optimizer is not None:
            self._tree.add_optimizer("optimizer", optimizer)
        for name, one in more.items():
            self._tree.add(name, one)
        self._feeds = list(feeds)
        for number, feed in enumerate(self._feeds):
            if any(feed.name == other.name for other in self._feeds[:number]):
                raise ValueError(f"two feeds are named '{feed.name}': each needs a name of its own")
            self._tree.add(f"feed.{feed.name}", feed)
        self._tree.complete()
        self._modules = weakref.WeakSet(part for one in self._tree.modules.values() for part in one.modules())
        _bound.update(self._modules)
        self._ck = checkpoint or Checkpoint(**options)
        self._told, self._quiet_until, self._unsaved = set(), 0, 0
        self._fence, self._guarded = _Fence(self._ck), set()
        self._hooks = [_fence_before_update(state.optimizer, self._fence) for state in self._tree.states]
        self._seen = weakref.WeakSet()  # optimizers that step
        self._hooks.append(_watch(self._look_at))

    def _name_all(self, had=None):
        self._tree.name_all(self._ck, had)
        self._fence.on_gpu, self._fence.updates_only = self._tree.on_gpu, self._tree.learns
        # Forward passes write buffers; in host memory they are copied at once in begin. Where they lie is known when
        # they are named: a model may be moved after bind().
        for name, module in self._tree.modules.items():
            if name not in self._guarded and any(b.is_cuda for b in module.buffers()):
                self._guarded.add(name)
                self._hooks.append(module.register_forward_pre_hook(self._fence).remove)

    # --- restore -------------------------------------------------------------------------

    def restore(self) -> int:
        """Loads the newest version that every rank has, in place. Its step, 0 when there is none.
        Before the first step(). Blocking: until all ranks have loaded it under a job, without one until they agree
        which version it is. Error names what does not fit; model and optimizer are then as they were, or its text
        says that they must not be used (an object given here did not take its state, or a copy went bad while it was
        loaded). The optimizer's step() is not called: its state is made as the version has it. Options of its
        param_groups go by the names of the parameters in them; by position where a version has no names.
        """
        if not self._anything():
            return self._begin_fresh()
        step = None
        try:
            step = self._load(*self._prepare())  # what was saved, note, what is wrong
        finally:
            if step is None:  # what was made ready is not what the training has
                self._tree.give_up()
        self._tell_feeds(step or 0)
        return self._begin_fresh() if step is None else step

    def _begin_fresh(self):
        """Not with what a round of this process has trained."""
        former = [_former[module] for module in self._modules if module in _former]
        if former:
            raise Error(errno.ENODATA, f"there is no version to restore, and the weights are those of round "
                        f"{max(former)}, not fresh ones: the process must start again")
        return 0

    def _tell_feeds(self, step):
        for feed in self._feeds:
            feed.reached(step)

    def _load(self, had, note, wrong):
        if wrong:
            return self._load_nothing(wrong)
        self._name_all(had)
        try:
            step, lacking = _joined.load(self._ck, self._tree.own)
        except Error as error:
            if "block" not in error.strerror:
                raise  # names, types and shapes are compared before anything is loaded
            raise Error(error.errno, f"{error.strerror}; {UNFIT}") from error
        if step is not None:
            try:
                self._take_first(lacking)
                self._tree.put(note, set(self._ck.missing()), joined=NOTE in lacking)
            except Exception as error:
                raise Error(errno.EBADMSG, f"step {step}: {error}; {UNFIT}") from error
        return step

    def _load_nothing(self, wrong):
        """The other ranks wait for this one to load what they load."""
        if self.pass_over() is not None:
            raise wrong

    def pass_over(self) -> int | None:
        """In place of restore(), on all ranks: no tensor is touched, and what is saved goes on from the newest
        version. Its step, None when there is none. Blocking as restore() is.
        """
        self._ck.clear()
        allowed = self._ck.allowed
        self._ck.allow(leftover=True, missing=True)
        step = self._ck.restore()
        self._ck.allowed = allowed
        return step

    def _prepare(self):
        """Room for what the version has: its regions, its note, None; or what is wrong with it in the last place."""
        try:
            had, text = _find_note(self._ck)
            had = self._with_others(had)
        except Error as error:
            return None, None, error  # to be told by the load, to the other ranks too
        try:
            return had, self._tree.prepare(text, had, self._ck.allowed), None
        except Error as error:
            return None, None, error

    def _with_others(self, had):
        """had, and what other ranks of the version had of parameters that this one has now, which is how the
        optimizer's state of them is known. Looks at all ranks only where the first and the last have other names.
        """
        lacking = self._tree.lacking(had)
        if not lacking:
            return had
        world = self._ck.list(1)[0][3]
        if all(_regions(self._ck, rank).keys() == had.keys() for rank in (0, world - 1)):
            return had
        for rank in range(world):
            if lacking:
                more = _regions(self._ck, rank)
                lacking -= more.keys()
                had = {**more, **had}
        return had

    def _take_first(self, lacking):
        """This rank is new: what it lacks is rank 0's, but for the random numbers."""
        for name in lacking:
            data = _joined.peek_first(self._ck, name)
            if name == RANDOM:
                _random.seed(bytes(data or b"") + f" rank {self._ck.rank}".encode())
            elif name != NOTE and data:
                tensor = self._tree.own[name]
                tensor.copy_(torch.frombuffer(data, dtype=tensor.dtype).reshape(tensor.shape))

    def _anything(self):
        try:
            return bool(self._ck.list(1))
        except OSError:
            return True  # restore says what is wrong with it, to the other ranks too

    # --- saving --------------------------------------------------------------------------

    def _make_ready(self):
        """All that there is now is named, and what is no tensor written down: why anew, where that is not to be
        expected. Raises what prevents it.
        """
        self._tree.refresh(self.fence)
        why = self._tree.look()
        if why is not None or not self._tree.fits():
            self._tree.make_room()  # another layout: what was saved stays until that is saved whole
            self._name_all()
        self._tree.write(self._ck, self.fence)
        return why

    def _look_at(self, optimizer):
        """Nobody would see that its state starts from its beginning."""
        if optimizer in self._seen:
            return
        self._seen.add(optimizer)
        tree = self._tree
        if any(state.optimizer.state is optimizer.state for state in tree.states) or any(
                one is optimizer or not isinstance(one, (dict, Rest)) and not has_state(one) for one in tree.given()):
            return  # one of ours, or a function may see to it
        names = [tree.labels[id(p)] for group in optimizer.param_groups for p in group["params"]
                 if id(p) in tree.labels]
        if names:
            self._warn(f"an optimizer ({type(optimizer).__name__}) that was not given to dlrover.bind() updates "
                       f"'{names[0]}': after a restore its state begins anew", "optimizer")

    def _warn_of_schedulers(self):
        """Nobody would see that the learning rate starts from its beginning."""
        known = self._tree.given()
        if any(hasattr(one, "optimizer") or hasattr(one, "optimizers") or not has_state(one)
               for one in known if not isinstance(one, (dict, Rest))):
            return  # a scheduler, or a function that may see to it
        for state in self._tree.states:
            update = state.optimizer.step
            if hasattr(update, "_wrapped_by_lr_sched") or hasattr(update, "_with_counter"):
                self._warn("a scheduler drives the learning rate and was not given to dlrover.bind(): after a "
                           "restore it begins anew (scheduler=...)", "scheduler")

    def _warn(self, text, about):
        """Once of each matter: a training that goes on for weeks is not to be flooded."""
        if about not in self._told:
            warnings.warn(f"dlrover: {text}", RuntimeWarning, stacklevel=3)
        self._told.add(about)

    def step(self, step: int) -> bool:
        """The state is that of step now; it is saved beside what follows when a save is due: True
        then. Does not block under a job; without one it waits, fence_ms at most, while two earlier
        saves are still being written to files. Steps must increase. What prevents a save is one warning, and counted
        (stats(): unsaved, or given_up); the training goes on, and the next save is tried as if nothing had been.
        """
        if self._ck.closed:
            return False
        step = operator.index(step)
        self._tell_feeds(step)
        if self._tree.named and step % LOOK_EVERY and not self._ck.due(step) or step < self._quiet_until:
            self._ck.progress(step)
            return False
        try:
            if not self._tree.named:
                self._warn_of_schedulers()
            why = self._make_ready()
        except Exception as error:  # pylint: disable=broad-exception-caught
            # Of objects that are not ours: none of it may end a training.
            self._unsaved += 1
            if not self._tree.named:
                self._quiet_until = step + LOOK_EVERY  # to name all costs more than a step may
            self._warn(f"step {step} is not saved, the training goes on: {error}", str(error)[:40])
            self._ck.progress(step)
            return False
        if why:
            self._warn(f"{why}; all tensors are named anew", "anew")
        if not _under_job():
            self.fence()  # an update that a scaler left out had none
        return self._ck.begin(step, self._fence.stream())

    def fence(self) -> None:
        """For a program that changes its state elsewhere than in optimizer.step(), or in a closure of it. Blocking
        until the last snapshot has its copy, at most fence_ms.
        """
        self._fence()

    def flush(self) -> None:
        """See Checkpoint.flush()."""
        self._ck.flush()

    def save_now(self) -> None:
        """See Checkpoint.save_now(): without a job the next step() is saved, under one a step soon after it."""
        self._ck.save_now()

    def wait_until_committed(self, step: int, limit_s: float = 300) -> bool:
        """See Checkpoint.wait_until_committed(): for a step that step() has saved."""
        return self._ck.wait_until_committed(step, limit_s)

    def allow(self, leftover: bool = False, missing: bool = False, kind: bool = False) -> None:
        """Lets restore() pass when names are left over in the version or missing from it: what is
        missing stays as it is; kind: when what is replicated here was not in the version, or the other way round.
        Before restore().
        """
        self._ck.allow(leftover, missing)
        self._tree.any_kind = kind

    def leftover(self) -> list[str]:
        """Names that restore() found in the version only."""
        return self._ck.leftover()

    def missing(self) -> list[str]:
        """Names that restore() did not find in the version."""
        return self._ck.missing()

    def peek(self, rank: int, name: str) -> bytearray:
        """See Checkpoint.peek(): after restore(), before the first step()."""
        return self._ck.peek(rank, name)

    def mark_bad(self, step: int) -> None:
        """The state was bad from step on (a loss that is no number): exit with an error after it."""
        self._ck.mark_bad(step)

    @property
    def checkpoint(self) -> Checkpoint:
        """What it saves with."""
        return self._ck

    def stats(self) -> dict[str, int]:
        """See Checkpoint.stats(). unsaved: steps whose state could not be had or named."""
        return {**self._ck.stats(), "unsaved": self._unsaved}

    def close(self) -> None:
        """See Checkpoint.close(). Nothing of the library's is left at model and optimizer."""
        self._ck.close()
        for remove in self._hooks:
            remove()
        self._hooks = []


def bind(model: torch.nn.Module, optimizer: typing.Any = None,
         extra: typing.Any = None, replicated: bool | None = False, **more: typing.Any) -> Bound:
    """See Bound; more are sources, objects to keep, and the options of Checkpoint."""
    if watched():
        watch()
    return Bound(model, optimizer, extra, replicated, **more)
