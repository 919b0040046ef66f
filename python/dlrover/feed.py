# SPDX-License-Identifier: Apache-2.0
"""Which samples a training step reads: each once an epoch, on any number of ranks, over every failure and restart.

What step s reads is computed from the seed, the length of the data and s. So a version of the checkpoint, which is of a
step, says which samples it has seen, and a program that goes on from it reads on there, however many ranks it has now.

    feed = dlrover.feed.Feed(len(data), global_batch=1024, micro_batch=8, seed=1)
    ck = dlrover.bind(model, optimizer, feeds=[feed])
    ck.restore()
    batches = iter(DataLoader(data, batch_sampler=feed.sampler(last), num_workers=4))
    while feed.done < last:
        with feed.step(model) as now:                   # model: DistributedDataParallel, or none
            for micro in now:                           # of this rank; ranks differ by one at most
                x, y = next(batches)
                (micro.weight * loss(model(x), y)).backward()       # a mean over the micro-batch
        optimizer.step()
        optimizer.zero_grad()
        ck.step(feed.done)

docs/data.md says what is promised, and what is not. Without PyTorch all but ExactSum works.
"""
from __future__ import annotations

import contextlib
import ctypes
import errno
import operator
import sys
import typing

from . import _lib
from ._checkpoint import Error, lib, own_place

__all__ = ["ExactSum", "Feed", "Micro", "Place", "Step"]

SOURCES_MAX = 64
STATE_MAX = 16384  # bytes


class Source(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint64), ("files", ctypes.c_size_t),
                ("records", ctypes.POINTER(ctypes.c_uint64)), ("weight", ctypes.c_double)]


class Conf(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("seed", ctypes.c_uint64), ("global_batch", ctypes.c_uint32),
                ("micro_batch", ctypes.c_uint32), ("order", ctypes.c_char_p), ("ends", ctypes.c_char_p),
                ("length", ctypes.c_uint64), ("sources", ctypes.c_uint), ("source", ctypes.POINTER(Source)),
                ("part", ctypes.c_uint), ("parts", ctypes.c_uint), ("grown", ctypes.c_int)]


class StepOfC(ctypes.Structure):
    _fields_ = [("position", ctypes.c_uint64), ("epoch", ctypes.c_uint64), ("record", ctypes.c_uint64),
                ("samples", ctypes.c_uint32), ("micro_batch", ctypes.c_uint32), ("micro_batches", ctypes.c_uint32),
                ("first", ctypes.c_uint32), ("count", ctypes.c_uint32)]


class PlaceOfC(ctypes.Structure):
    _fields_ = [("source", ctypes.c_uint), ("file", ctypes.c_size_t), ("record", ctypes.c_uint64)]


_U32, _U64, _HANDLE = ctypes.c_uint32, ctypes.c_uint64, _lib.HANDLE
_CALLS = {
    "open": (ctypes.c_int, _HANDLE, ctypes.POINTER(Conf), ctypes.POINTER(_HANDLE)),
    "step": (ctypes.c_int, _HANDLE, _U64, ctypes.POINTER(StepOfC)),
    "look": (ctypes.c_int, _HANDLE, _U64, ctypes.POINTER(StepOfC)),
    "indices": (ctypes.c_int, _HANDLE, _U64, _U32, ctypes.POINTER(_U64), ctypes.c_size_t),
    "key": (_U64, _HANDLE, _U64, _U32),
    "locate": (ctypes.c_int, _HANDLE, _U64, ctypes.POINTER(PlaceOfC)),
    "set_batch": (ctypes.c_int, _HANDLE, _U64, _U32, _U32),
    "set_weights": (ctypes.c_int, _HANDLE, _U64, ctypes.POINTER(ctypes.c_double), ctypes.c_uint),
    "skip": (ctypes.c_int, _HANDLE, _U64, _U64),
    "extend": (ctypes.c_int, _HANDLE, _U64, ctypes.POINTER(Source)),
    "save": (ctypes.c_int, _HANDLE, ctypes.c_void_p, ctypes.c_size_t),
    "load": (ctypes.c_int, _HANDLE, _U64, ctypes.c_char_p, ctypes.c_size_t),
    "error": (ctypes.c_char_p, _HANDLE),
    "close": (None, _HANDLE),
}


def _declare():
    """The library's calls; an older one has none of them."""
    for name, (result, *arguments) in _CALLS.items():
        try:
            call = getattr(lib, f"dlr_feed_{name}")
        except AttributeError:
            raise ImportError("this libdlrover has no feeds: it is older than the package dlrover") from None
        call.restype, call.argtypes = result, arguments


_declare()


class Step(typing.NamedTuple):
    """What is to be read in a step. position of its first sample in the run; epoch of that sample and which record of
    the epoch it is, 0 in a mixture; samples of all ranks; first and count: the micro-batches of this part.
    """

    position: int
    epoch: int
    record: int
    samples: int
    micro_batch: int
    micro_batches: int
    first: int
    count: int


class Place(typing.NamedTuple):
    """Where a record is: which source, its file (0 where there are none), its number there."""

    source: int
    file: int
    record: int


class Micro(typing.NamedTuple):
    """A micro-batch of a step. indices of its records; key: a seed for random numbers, the same on whatever rank;
    weight: what a mean loss over it is multiplied by before backward(), so that the gradient of the step is the mean
    over all its samples.
    """

    number: int
    indices: typing.List[int]
    key: int
    weight: float


def _number(value, what, most):
    value = operator.index(value)
    if not 0 <= value <= most:
        raise ValueError(f"{what} is {value}: it must be 0 to {most}")
    return value


def _source(data, weight=1.0):
    """A length, something that has one, or the numbers of records of files."""
    if hasattr(data, "__index__"):
        return Source(_number(data, "length", 2**64 - 1), 0, None, weight)
    if isinstance(data, (list, tuple)) and data and all(hasattr(n, "__index__") for n in data):
        records = (_U64 * len(data))(*(_number(n, "the records of a file", 2**64 - 1) for n in data))
        return Source(0, len(data), records, weight)
    return Source(len(data), 0, None, weight)


class Feed:
    """The samples of a run, in an order of its own; the same on all ranks.

    data: how many records there are, or something that has a length; a list of numbers: files with so many records
    each; with weights: a list of such, which are mixed (their records are numbered one source after the other, as
    ConcatDataset does). global_batch: samples of a step; micro_batch: of a part of it, which a rank computes at once;
    divides global_batch. order: "full", "blocks:B", "blocks:BxK" (blocks of B records, K of them at a time, for files
    that are read in runs) or "none". ends: "span" (a batch may have samples of two epochs), "keep" (an epoch's last
    batch may be short) or "drop". part of parts: this rank of all unless given; ranks that compute one replica between
    them (tensor or pipeline parallel) say the same part. grown: data that is longer than in the version is read from
    the next epoch on, and not refused.

    Error (an OSError) says what cannot be. It may be pickled, and used in forked and spawned loaders.
    """

    def __init__(self, data: typing.Any, global_batch: int, micro_batch: int, seed: int = 0, order: str = "full",
                 ends: str = "span", weights: typing.Sequence[float] | None = None, name: str = "feed",
                 part: int = 0, parts: int = 0, grown: bool = False) -> None:
        if weights is not None and len(weights) != len(data):
            raise ValueError(f"{len(weights)} weights of {len(data)} sources")
        if not parts:
            part, parts = own_place()
        self._handle = None
        sources = [_source(data)] if weights is None else [_source(*one) for one in zip(data, map(float, weights))]
        self._given = {"global_batch": _number(global_batch, "global_batch", 2**32 - 1),
                       "micro_batch": _number(micro_batch, "micro_batch", 2**32 - 1),
                       "seed": _number(seed, "seed", 2**64 - 1), "order": order, "ends": ends, "name": name,
                       "part": _number(part, "part", 2**31), "parts": _number(parts, "parts", 2**31),
                       "grown": bool(grown)}
        self._plain = [(s.length, s.records[:s.files], s.weight) for s in sources]
        self.name, self.part, self.parts = name, part, parts
        self.done = 0
        self._open()

    def _open(self):
        sources = [Source(length, len(records), (_U64 * len(records))(*records) if records else None, weight)
                   for length, records, weight in self._plain]
        given = {key: value.encode() if isinstance(value, str) else value for key, value in self._given.items()}
        conf = Conf(sources=len(sources), source=(Source * max(1, len(sources)))(*sources), **given)
        handle = _HANDLE()
        code = lib.dlr_feed_open(None, conf, handle)
        if code < 0:
            raise Error(-code, lib.dlr_feed_error(None).decode(errors="replace"))
        self._handle = handle

    def __del__(self):
        if getattr(self, "_handle", None) and lib:
            lib.dlr_feed_close(self._handle)
            self._handle = None

    def __getstate__(self):
        state = dict(self.__dict__)
        del state["_handle"]
        return {**state, "_bytes": self._save()}

    def __setstate__(self, state):
        saved = state.pop("_bytes")
        self.__dict__.update(state)
        self._open()
        self._load(self.done, saved)

    def _check(self, code):
        if code < 0:
            raise Error(-code, lib.dlr_feed_error(self._handle).decode(errors="replace"))
        return code

    # --- what a step reads -------------------------------------------------------------------

    def plan(self, step: int) -> Step:
        """What is to be read in a step, any step. Error where there are more parts than micro-batches."""
        plan = StepOfC()
        if lib.dlr_feed_look(self._handle, _number(step, "step", 2**64 - 1), plan) < 0:
            self._check(lib.dlr_feed_step(self._handle, step, plan))  # which says why
        return Step(*(getattr(plan, name) for name in Step._fields))

    def begin(self) -> Step:
        """Step done begins: it cannot be changed any more. step() says it by itself."""
        self._check(lib.dlr_feed_step(self._handle, self.done, StepOfC()))
        return self.plan(self.done)

    def indices(self, step: int, micro_batch: int) -> list[int]:
        """The records of a micro-batch. Any thread and any process that has this may ask, of any step."""
        room = self._given["micro_batch"]
        while True:
            found = (_U64 * room)()
            code = lib.dlr_feed_indices(self._handle, step, micro_batch, found, room)
            if code >= 0:
                return found[:code]
            if code != -errno.ENOSPC:
                raise Error(-code, f"feed '{self.name}': no micro-batch {micro_batch} in step {step}")
            room *= 2  # another micro-batch than at the start

    def key(self, step: int, micro_batch: int) -> int:
        """A seed for the random numbers of a micro-batch: of its samples, not of the rank."""
        return lib.dlr_feed_key(self._handle, step, micro_batch)

    def locate(self, index: int) -> Place:
        """Where a record is. Error where there is none such."""
        place = PlaceOfC()
        code = lib.dlr_feed_locate(self._handle, _number(index, "index", 2**64 - 1), place)
        if code < 0:
            raise Error(-code, f"feed '{self.name}' has no record {index}")
        return Place(place.source, place.file, place.record)

    def sampler(self, last: int | None = None) -> Sampler:
        """What DataLoader takes as its batch_sampler, with any number of workers: the micro-batches of this part from
        step done on, to before step last; None: without an end.
        """
        return Sampler(self, last)

    def share(self, last: int | None = None) -> typing.Iterator[typing.List[int]]:
        """The same for an IterableDataset that is loaded with batch_size=None: of these micro-batches those that are
        this worker's, so that the loader has them in order. With persistent_workers a second iter() of the loader
        begins where the first did, as workers do not hear of steps that are done: make the loader anew.
        """
        data = sys.modules.get("torch.utils.data")
        worker = data.get_worker_info() if data else None
        for number, indices in enumerate(self.sampler(last)):
            if not worker or number % worker.num_workers == worker.id:
                yield indices

    @contextlib.contextmanager
    def step(self, model: typing.Any = None) -> typing.Iterator[Now]:
        """Step done: the micro-batches of this part, each a Micro. When the block ends without an exception it is
        done. model: one whose gradients are averaged over the ranks in backward() (DistributedDataParallel, FSDP):
        that is left out but for the last micro-batch, and weights are made for it. Without one the gradients of all
        ranks are to be added up.
        """
        now = Now(self, model)
        yield now
        self.done = now.number + 1  # bind()'s step() may have said so in the block

    # --- changes -----------------------------------------------------------------------------

    def set_batch(self, step: int, global_batch: int, micro_batch: int) -> None:
        """From step on. This and the next three are said on all ranks alike, of a step that has not begun; said again,
        as at the start of a program that goes on, they count once. They are said after restore(), which drops one that
        the version does not have. A loader may have read that step ahead: make it anew after a change. Error says why
        not.
        """
        self._check(lib.dlr_feed_set_batch(self._handle, step, global_batch, micro_batch))

    def set_weights(self, step: int, weights: typing.Sequence[float]) -> None:
        """Of a mixture, from step on. Each source goes on where it is."""
        row = (ctypes.c_double * len(weights))(*weights)
        self._check(lib.dlr_feed_set_weights(self._handle, step, row, len(weights)))

    def skip(self, step: int, steps: int) -> None:
        """The samples that the next so many steps would have read are left out."""
        self._check(lib.dlr_feed_skip(self._handle, step, steps))

    def extend(self, step: int, data: typing.Any) -> None:
        """From the epoch after step on: data as the class takes it, longer than before, beginning with what it was. A
        restart gives the class the long data, and grown=True.
        """
        source = _source(data)
        self._check(lib.dlr_feed_extend(self._handle, step, source))
        length, records, weight = self._plain[0]
        more = source.records[:source.files]
        if (source.length or sum(more)) > (length or sum(records)):
            self._plain = [(source.length, more, weight)]

    # --- state -------------------------------------------------------------------------------

    def _save(self):
        room = ctypes.create_string_buffer(STATE_MAX)
        size = self._check(lib.dlr_feed_save(self._handle, room, STATE_MAX))
        return room.raw[:size]

    def _load(self, step, saved):
        self._check(lib.dlr_feed_load(self._handle, step, saved, len(saved)))

    def state_dict(self) -> dict[str, typing.Any]:
        """The steps that are done, and what was changed: some hundred bytes, the same on all ranks."""
        return {"done": self.done, "state": self._save()}

    def load_state_dict(self, state: dict[str, typing.Any]) -> None:
        """Goes on there. Error, with both values, where the version has read other data or in another way."""
        done = _number(state["done"], "done", 2**48)
        self._load(done, bytes(state["state"]))
        self.done = done

    def reached(self, step: int) -> None:
        """So many steps are done. bind(feeds=) says it by itself."""
        self.done = _number(step, "step", 2**48)
        if step:
            lib.dlr_feed_step(self._handle, self.done - 1, StepOfC())  # cannot be changed any more


class Sampler:
    """See Feed.sampler()."""

    def __init__(self, feed: Feed, last: int | None) -> None:
        self._feed, self._last = feed, last

    def _steps(self):
        step = self._feed.done
        while self._last is None or step < self._last:
            yield step
            step += 1

    def __iter__(self) -> typing.Iterator[typing.List[int]]:
        for step in self._steps():
            first, count = self._feed.plan(step)[-2:]
            for micro in range(first, first + count):
                yield self._feed.indices(step, micro)

    def __len__(self) -> int:
        if self._last is None:
            raise TypeError("a sampler without a last step has no length")
        return sum(self._feed.plan(step).count for step in self._steps())


class Now:
    """The step that a block of Feed.step() is in."""

    def __init__(self, feed: Feed, model: typing.Any) -> None:
        self._feed, self._model = feed, model
        self.number, self.plan = feed.done, feed.begin()
        if model is not None and self.plan.count == 0:
            raise ValueError(f"feed '{feed.name}': no micro-batch of step {self.number} is this rank's, and the others "
                             "wait for its gradient: ends='keep' is for evaluation")
        averaged = hasattr(model, "no_sync") or hasattr(model, "set_requires_gradient_sync")
        self._factor = (feed.parts if averaged else 1) / self.plan.samples

    def _apart(self, last):
        """In it backward() adds to this rank's gradients only."""
        if hasattr(self._model, "set_requires_gradient_sync"):  # FSDP2
            self._model.set_requires_gradient_sync(last)
        elif not last and hasattr(self._model, "no_sync"):
            return self._model.no_sync()
        return contextlib.nullcontext()

    def __len__(self) -> int:
        return self.plan.count

    def __iter__(self) -> typing.Iterator[Micro]:
        first, count = self.plan.first, self.plan.count
        for number in range(first, first + count):
            indices = self._feed.indices(self.number, number)
            with self._apart(number == first + count - 1):
                yield Micro(number, indices, self._feed.key(self.number, number), len(indices) * self._factor)


class ExactSum:
    """Adds gradients up so that the sum does not depend on their order: the bits of a training are then the same on any
    number of ranks. For tests, and to find where a run parts from another: it moves twice the bytes.

        exact = ExactSum(model.parameters(), terms=feed.plan(0).micro_batches)
        ... loss.backward(); exact.add()      # after each micro-batch; model without DDP, weights of step(None)
        exact.reduce()                        # over all ranks, into .grad

    Each gradient becomes whole multiples of 2**-bits, in 64 bits. terms: how many are added up at most, on all ranks.
    OverflowError where a gradient is so large, or no number, that the sum might not fit.
    """

    def __init__(self, parameters: typing.Iterable[typing.Any], terms: int, bits: int = 40) -> None:
        import torch  # pylint: disable=import-outside-toplevel

        self._torch, self._terms, self._unit = torch, terms, 2.0**bits
        self._limit = 2.0**62 / (terms * self._unit)
        self._parameters = list(parameters)
        self._sums = [torch.zeros(p.shape, dtype=torch.int64, device=p.device) for p in self._parameters]
        self._added = 0

    def add(self) -> None:
        """What backward() has left in .grad, which is None after it."""
        for parameter, total in zip(self._parameters, self._sums):
            if parameter.grad is None:
                continue
            gradient = parameter.grad.detach().double()
            if gradient.numel() and not bool((gradient.abs() < self._limit).all()):
                raise OverflowError(f"a gradient is not below {self._limit}: fewer bits, or a smaller loss")
            total += (gradient * self._unit).round().to(self._torch.int64)
            parameter.grad = None
        self._added += 1
        if self._added > self._terms:
            raise OverflowError(f"more than {self._terms} gradients were added")

    def reduce(self, group: typing.Any = None) -> None:
        """The sum over all ranks into .grad, where there is more than one; collective then."""
        dist = self._torch.distributed
        many = dist.is_available() and dist.is_initialized()
        for parameter, total in zip(self._parameters, self._sums):
            if many:
                dist.all_reduce(total, group=group)
            parameter.grad = (total.double() / self._unit).to(parameter.dtype)
            total.zero_()
        self._added = 0
