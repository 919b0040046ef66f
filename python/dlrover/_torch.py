# SPDX-License-Identifier: Apache-2.0
"""A PyTorch model and its optimizer as the state of a rank."""
from __future__ import annotations

import collections
import errno
import functools
import operator
import os
import types
import typing
import warnings

import torch

from . import _joined, _plain, _random
from ._checkpoint import Checkpoint, Error
from ._optimizer import State

LOOK_EVERY = 64  # steps: a new layout should be known before a save of it is due
NOTE, RANDOM = "python", "torch.random"  # regions beside the tensors
MAPPINGS = (dict, collections.OrderedDict, collections.Counter)
EXTRA_ROOM = 1 << 20  # bytes for what is no tensor: learning rates, extra


def _under_job():
    return "DLROVER_AGENT_SOCKET" in os.environ


def _values(state):
    """Without functions (some schedulers name one, or have others that do): they are the program's."""
    if type(state) in MAPPINGS:
        return type(state)({k: _values(v) for k, v in state.items() if not callable(v)})
    if type(state) in (list, tuple):
        return type(state)(_values(v) for v in state)
    return state


def _with_functions(saved, now):
    """As now has them, in the places where they were taken out."""
    if type(saved) in MAPPINGS and isinstance(now, dict):
        functions = {k: v for k, v in now.items() if callable(v)}
        return type(saved)({**functions, **{k: _with_functions(v, now.get(k)) for k, v in saved.items()}})
    if type(saved) in (list, tuple) and type(now) is type(saved) and len(now) == len(saved):
        return type(saved)(map(_with_functions, saved, now))
    return saved


def _state_of(one):
    return _values(one.state_dict())


def _load_state(one, saved):
    one.load_state_dict(_with_functions(saved, one.state_dict()))


class Bound:
    """A model and an optimizer whose every tensor is saved and restored in place.

        ck = dlrover.bind(model, optimizer, extra={"scheduler": scheduler, "scaler": scaler})
        step = ck.restore()               # 0: a fresh start
        while step < last:
            loss(model(...)).backward()
            optimizer.step()              # waits first until the last save let go
            step += 1
            ck.step(step)

    Saved are parameters, buffers, the optimizer's state and options, the generators of random
    numbers (torch's on the CPU and on every GPU it sees, Python's, numpy's) and extra: an object
    with state_dict and load_state_dict (a scheduler, a GradScaler, a loader's position), a
    dict of such objects, or a function which returns a value to keep when called without an
    argument and takes it back as its only one. What is kept of these are numbers, text, bytes,
    tensors, arrays, and lists, tuples, sets and dicts of them: never a pickle, which would be run
    when it is read. step() raises ValueError for anything else. Tied weights are stored once. A tensor
    that lies elsewhere in a later step, or state that appears then, makes another
    layout: all are named anew, the first time with a warning, since a save that is due then
    waits for memory. A forked child (a DataLoader's worker) saves nothing. A step that was captured
    into a CUDA graph runs no Python when it is replayed: call fence() before each replay and
    step() after it.

    Any number of ranks loads what any other number saved, where each has the whole model. A rank that was none
    then takes buffers, options and extra as rank 0 had them. Its random numbers are
    its own: all generators are seeded with 8 bytes of the SHA-256 of rank 0's torch
    generator, as saved, and " rank N"; so the same version gives it the same numbers again.

    replicated: parameters and the optimizer's state are the same, bit for bit, on every rank, as
    DistributedDataParallel keeps them when each rank's optimizer has all of them. A node with
    several ranks then holds and sends them once. It is not found out here, and it is not so with
    ZeroRedundancyOptimizer, FSDP or an update that is not the same everywhere: a restore would mix
    the ranks' values. Buffers (statistics of BatchNorm) and random numbers stay each rank's own.
    A version is loaded with what it was saved with.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None,
                 extra: typing.Any = None, replicated: bool = False,
                 **options: typing.Any) -> None:
        self._model, self._extra = model, extra
        self._kind = "replicated" if replicated else "shard"
        self._state = State(optimizer) if optimizer is not None else None
        self._options = options
        self._ck = Checkpoint(**options)
        self._holders, self._keys, self._names, self._addresses = [], [], [], []
        self._own = {}  # name: what each rank has for itself
        self._named = self._plain = self._told = self._off = False
        self._note = bytearray(EXTRA_ROOM)
        self._random = torch.get_rng_state()
        self._on_gpu = any(p.is_cuda for p in model.parameters())
        if optimizer is not None:
            self._fence_before_update(optimizer)
        if any(b.is_cuda for b in model.buffers()):
            # Forward passes write buffers; in host memory they are copied at once in begin.
            model.register_forward_pre_hook(lambda *_: self.fence())

    def _stream(self):
        return torch.cuda.current_stream().cuda_stream if self._on_gpu else None

    def _fence_before_update(self, optimizer):
        if hasattr(optimizer, "register_step_pre_hook"):  # PyTorch 2
            optimizer.register_step_pre_hook(lambda *_: self.fence())
            return
        update = optimizer.step

        @functools.wraps(update)
        def step(_self, *args, **kwargs):
            self.fence()
            return update(*args, **kwargs)

        # A method again, since schedulers look into it.
        optimizer.step = types.MethodType(step, optimizer)

    def _tensors(self):
        """(name, kind, holder, key) of each tensor, holder[key] being the live one."""
        for path, module in self._model.named_modules():
            path += "." if path else ""
            # pylint: disable=protected-access
            for key, value in module._parameters.items():
                if value is not None:
                    yield f"model.{path}{key}", self._kind, module._parameters, key
            for key, value in module._buffers.items():
                if value is not None:
                    kind = "local" if value.is_cuda else "blob"
                    yield f"buffer.{path}{key}", kind, module._buffers, key
        for name, holder, key in self._state.tensors() if self._state else ():
            yield name, self._kind, holder, key

    def _name_all(self):
        """Once every tensor exists: after the first update, or when it is to be loaded."""
        seen = set()
        for name, kind, holder, key in self._tensors():
            tensor = holder[key].detach()
            where = (tensor.data_ptr(), tensor.shape, tensor.dtype)
            self._holders.append(holder)
            self._keys.append(key)
            self._names.append(name)
            self._addresses.append(where[0])
            if where not in seen or not where[0]:
                self._ck.add(name, tensor, kind)
                if kind != self._kind:
                    self._own[name] = tensor
            seen.add(where)
        self._ck.add(RANDOM, self._random, "blob")
        self._ck.add(NOTE, self._note, "blob")
        self._own.update({RANDOM: self._random, NOTE: self._note})
        self._plain = bool(self._state and self._state.plain())
        self._named = True

    def _forget_names(self):
        self._holders, self._keys, self._names, self._addresses = [], [], [], []
        self._own = {}
        self._named = False

    def _start_again(self, weights):
        """Nothing was sound after all (files of a program without a job): as if nothing had
        been there.
        """
        self._put_back(weights)
        if self._state:
            self._state.clear()
        self._ck.close()
        self._ck = Checkpoint(**self._options)
        self._forget_names()
        return 0

    def _put_back(self, weights, names=None):
        """The values from before restore(), of all weights or of those called so."""
        with torch.no_grad():
            for name, parameter in self._model.named_parameters():
                if names is None or f"model.{name}" in names:
                    parameter.copy_(weights[name])

    def restore(self) -> int:
        """Loads the newest version that every rank has, in place. Its step, 0 when there is none.
        Before the first step(). Blocking, until all ranks load the same. Error names what does not
        fit.
        """
        if not self._anything():
            return 0
        weights = {}
        if not _under_job() or self._ck.allowed[1]:
            weights = {name: p.detach().clone() for name, p in self._model.named_parameters()}
        if self._state:
            self._state.make_all()
        self._name_all()
        step, lacking = _joined.load(self._ck, self._own)
        if step is None:
            return self._start_again(weights)
        missing = set(self._ck.missing())
        note = self._take_first(lacking)
        if note or NOTE not in missing:
            self._read_note(note or self._note, joined=bool(note))
        if missing - self._own.keys():
            self._leave_missing(weights, missing)
        return step

    def _leave_missing(self, weights, missing):
        """What the version lacks stays as it was: making the optimizer's state may have changed it."""
        self._put_back(weights, missing)
        if self._state:
            self._state.forget(self._state.positions(missing))

    def _take_first(self, lacking):
        """This rank is new: what it lacks is rank 0's, but for the random numbers. The note."""
        note = None
        for name in lacking:
            data = _joined.peek_first(self._ck, name)
            if name == RANDOM:
                _random.seed(bytes(data or b"") + f" rank {self._ck.rank}".encode())
            elif name == NOTE:
                note = data
            elif data:
                tensor = self._own[name]
                tensor.copy_(torch.frombuffer(data, dtype=tensor.dtype).reshape(tensor.shape))
        return note

    def _anything(self):
        try:
            return bool(self._ck.list(1))
        except OSError:
            return True  # restore says what is wrong with it, to the other ranks too

    def _get_extra(self):
        if isinstance(self._extra, dict):
            return {key: _state_of(one) for key, one in self._extra.items()}
        if hasattr(self._extra, "state_dict"):
            return _state_of(self._extra)
        return self._extra() if self._extra is not None else None

    def _put_extra(self, saved):
        if isinstance(self._extra, dict):
            for key, one in self._extra.items():
                _load_state(one, saved[key])
        elif hasattr(self._extra, "state_dict"):
            _load_state(self._extra, saved)
        elif self._extra is not None:
            self._extra(saved)

    def _write_note(self):
        note = {"random": _random.get()}
        if self._state:
            note["groups"], note["without"] = self._state.groups(), list(self._state.aside)
            note["state"] = self._state.plain() if self._plain else []
        text = _plain.encode({**note, "extra": self._get_extra()}, "the state")
        if len(text) > EXTRA_ROOM:
            raise ValueError(f"extra and options take {len(text)} bytes, room is {EXTRA_ROOM}")
        self._note[:len(text)] = text
        self._ck.blob_size(NOTE, len(text))
        self._random.copy_(torch.get_rng_state())

    def _read_note(self, text, joined=False):
        try:
            note = _plain.decode(text)  # ends by itself: what follows is not looked at
            if not isinstance(note, dict) or not {"random", "extra"} <= note.keys():
                raise ValueError("no random numbers")
        except ValueError as error:
            raise Error(errno.EBADMSG, f"'{NOTE}' is not what dlrover.bind() saves: {error}") from None
        if self._state and "groups" in note:
            self._state.put_groups(note["groups"])
            self._state.put_plain(note["state"])
            self._state.forget(note["without"])
        self._put_extra(note["extra"])
        if not joined:
            torch.set_rng_state(self._random)
            _random.put(note["random"])

    def _moved(self):
        """What is no longer as it was named; None when all of it is."""
        if self._state and not self._state.adopt():
            return "the optimizer has parameters or state it had not before"
        now = list(map(torch.Tensor.data_ptr, map(operator.getitem, self._holders, self._keys)))
        if now == self._addresses:
            return None
        at = next(i for i, old in enumerate(self._addresses) if now[i] != old)
        return f"'{self._names[at]}' is at another address than before"

    def _name_again(self, why):
        """What is trained is another layout. What was saved stays until that is saved whole."""
        try:
            self._ck.clear()
            self._forget_names()
            if self._state:
                self._state.aside.clear()
                self._state.set_aside_missing()
            self._name_all()
        except (Error, ValueError) as error:
            self._off = True
            warnings.warn(f"dlrover: {why}; nothing is saved any more: {error}", RuntimeWarning,
                          stacklevel=3)
            return
        if not self._told:
            warnings.warn(f"dlrover: {why}; all tensors are named anew", RuntimeWarning,
                          stacklevel=3)
        self._told = True

    def step(self, step: int) -> bool:
        """The state is that of step now; it is saved beside what follows when a save is due: True
        then. Does not block under a job; without one it waits for the last save. Steps must
        increase. ValueError when extra takes more than 1 MiB, or cannot be kept.
        """
        if self._ck.closed:
            return False
        if self._named and step % LOOK_EVERY and not self._ck.due(step):
            self._ck.progress(step)
            return False
        if not self._named:
            if self._state:
                self._state.set_aside_missing()
            self._name_all()
        moved = None if self._off else self._moved()
        if moved:
            self._name_again(moved)
        if self._off:
            self._ck.progress(step)
            return False
        if not _under_job():
            self.fence()  # an update that a scaler left out had none
        self._write_note()
        return self._ck.begin(step, self._stream())

    def fence(self) -> None:
        """For a program that changes its state elsewhere than in optimizer.step(). Blocking until
        the last snapshot has its copy, at most fence_ms.
        """
        self._ck.fence(self._stream())

    def allow(self, leftover: bool = False, missing: bool = False) -> None:
        """Lets restore() pass when names are left over in the version or missing from it: what is
        missing stays as it is. Before restore().
        """
        self._ck.allow(leftover, missing)

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

    def stats(self) -> dict[str, int]:
        """See Checkpoint.stats()."""
        return self._ck.stats()

    def close(self) -> None:
        """See Checkpoint.close()."""
        self._ck.close()


def bind(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None,
         extra: typing.Any = None, replicated: bool = False, **options: typing.Any) -> Bound:
    """See Bound; options are those of Checkpoint."""
    return Bound(model, optimizer, extra, replicated, **options)
