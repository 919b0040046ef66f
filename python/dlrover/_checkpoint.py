# SPDX-License-Identifier: Apache-2.0
"""The calls of libdlrover for tensors, arrays and buffers."""
from __future__ import annotations

import ctypes
import errno
import functools
import operator
import os
import re
import threading
import time
import typing
import warnings
import weakref

from . import _lib

lib = _lib.load()

PLACES = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
          ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))  # as the library asks them
WAIT_S = 0.5  # a part of a longer wait: Ctrl-C and close() end it after one
TORCH_NAMES = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


opened: weakref.WeakSet[Checkpoint] = weakref.WeakSet()  # those that may have to be closed with their round


class Error(OSError):
    """A call failed; errno and the library's reason."""


class RoundEnded(Exception):
    """Another node of the job was lost. Raised inside dlrover.round(), which catches it."""


class SavedRegion(typing.NamedTuple):
    """What a rank of a version had under a name, in items; nbytes of a blob are its length then,
    shape the room it had. dtype is the short name that is kept with the data (f32, u8).
    """

    name: str
    kind: str
    dtype: str
    item_size: int
    global_shape: typing.Tuple[int, ...]
    offset: typing.Tuple[int, ...]
    shape: typing.Tuple[int, ...]
    nbytes: int


def own_place() -> tuple[int, int]:
    """Rank and number of ranks, as the launcher closest to the program says."""
    given = [os.environ.get(name) for name in PLACES[0]]
    tasks = [os.environ.get(name) for name in PLACES[-1]]
    # as the library: the plugin's say nothing beside those of a launcher below the task, and 0 of 1
    # is of the shell from which the job was submitted
    from_task = "DLROVER_ROUND" in os.environ and given == tasks
    for rank, world in PLACES[from_task:]:
        if from_task and os.environ.get(world) == "1":
            continue
        if os.environ.get(rank, "").isdecimal() and os.environ.get(world, "").isdecimal():
            return int(os.environ[rank]), int(os.environ[world])
    return 0, 1


def _short(dtype):
    """float32 as f32, bool as bool: text that is kept with the data and compared at restore."""
    text = str(dtype).replace("torch.", "")
    stem = text.rstrip("0123456789")
    return TORCH_NAMES.get(stem, stem) + text[len(stem):]


def _describe(array):
    """Address, shape, bytes of an item, the type's name and strides in bytes, empty in C order."""
    if hasattr(array, "data_ptr"):  # a torch tensor
        from ._names import why_not  # pylint: disable=import-outside-toplevel

        why = why_not(array)
        if why:
            raise ValueError(f"it {why}")
        item, strides = array.element_size(), ()
        if not array.is_contiguous():
            strides = tuple(item * step for step in array.stride())
        return array.data_ptr(), tuple(array.shape), item, _short(array.dtype), strides
    if hasattr(array, "__array_interface__"):  # a numpy array
        if not array.flags.writeable:
            raise ValueError("the array is not writable")
        if array.dtype.hasobject:
            raise ValueError("the array holds Python objects, of which it has the addresses only")
        if type(array).__module__.startswith("numpy.ma"):
            raise ValueError("the array has a mask: name its data and its mask")
        strides = () if array.flags.c_contiguous else array.strides
        return array.ctypes.data, array.shape, array.itemsize, _short(array.dtype), strides
    view = memoryview(array)
    if view.readonly or not view.c_contiguous:
        raise ValueError("the buffer is not contiguous and writable")
    address = ctypes.addressof((ctypes.c_char * view.nbytes).from_buffer(array))
    return address, (view.nbytes,), 1, "u8", ()


def _let_go(handle, _kept):
    """Of a checkpoint that nobody closed and nobody has any more: its arrays go when they are not read any more."""
    if lib.dlr_ckpt_fence(handle, None) < 0:
        warnings.warn(f"dlrover: {lib.dlr_ckpt_error(handle).decode(errors='replace')}", RuntimeWarning, stacklevel=2)


class Checkpoint:
    """The memory of this rank that is its state. See ckpt.h for what each call promises.

    Failures of naming and restoring raise Error; failures of saving warn, since they must
    not end a training: once of each matter until something is saved again, but each time that flush() is called. After
    close(), and in a forked child, whose threads the library's are not, saving does nothing; what names or reads
    something raises Error.

    directory: of the files, without a job (DLROVER_CKPT_DIR, else ./dlrover-ckpt). rank of world:
    from the launcher's environment when world is 0. every: without a job, each N-th step is saved
    (DLROVER_CKPT_EVERY, else as many as DLROVER_CKPT_BUDGET allows). fence_ms: milliseconds that a fence
    waits at most, then its snapshot is given up (DLROVER_CKPT_FENCE_MS, else 10,000). threads: that copy
    (DLROVER_CKPT_THREADS, else 1; from a GPU up to 4). Opening blocks under a job until what is to be restored is on
    this node.

    Without a job files are written beside the program, from two copies of the state in memory. flush(), close()
    and the end of the program wait for them, 5 minutes at most; one that is killed has its newest file, which is one or
    two saves older. Where nobody has the object any more, or the program ends, and it was not closed, its arrays stay
    until they are not read any more, fence_ms at most.
    """

    def __init__(self, directory: str | os.PathLike | None = None, rank: int = 0, world: int = 0,
                 every: int = 0, fence_ms: int = 0, threads: int = 0) -> None:
        conf = _lib.Conf(os.fsencode(directory) if directory else None, rank, world, every,
                         fence_ms, threads)
        handle = _lib.HANDLE()
        self._handle = None
        self.rank, self.world = (rank, world) if world else own_place()
        self.allowed = False, False  # leftover, missing
        self._waits = threading.RLock()  # close() of another thread comes between two parts of a wait
        self._told = {}  # matter: the step that had been saved when it was told last
        self._kept = []  # what must live as long as its address is known
        self._check(lib.dlr_ckpt_open(conf, handle))
        self._handle = handle
        opened.add(self)
        self._let_go = weakref.finalize(self, _let_go, handle, self._kept)

    @property
    def closed(self) -> bool:
        return not self._handle

    def _open_handle(self):
        if not self._handle:
            raise Error(errno.EBADF, "the checkpoint is closed")
        return self._handle

    def _check(self, code):
        if code < 0:
            raise Error(-code, lib.dlr_ckpt_error(self._handle).decode(errors="replace"))
        return code

    def _warn(self, code, once=True):
        """Once of each matter, until something has been saved again: a disk may be full for many saves."""
        if code < 0:
            text = lib.dlr_ckpt_error(self._handle).decode(errors="replace")
            about, saved = re.sub(r"\d+", "", text), self.stats()["committed_step"]
            if not once or self._told.get(about) != saved:
                warnings.warn(f"dlrover: {text}", RuntimeWarning, stacklevel=3)
            self._told[about] = saved
        return code

    def add(self, name: str, array: typing.Any, kind: str = "shard",
            global_shape: typing.Sequence[int] | None = None,
            offset: typing.Sequence[int] | None = None) -> None:
        """Names an array: a torch tensor or a numpy array, views included, or a writable buffer.
        After the first begin() too: what is named at the next one is another layout.

        kind: "shard" (the box at offset of a whole of global_shape, in items; without them the
        array is the whole), "replicated" (the same on every rank, bit for bit, and named by every
        rank: the ranks of a node keep a part each), "local" (this rank's own) or
        "blob" (copied at once in begin; may be of another size each time, up to the array's).
        The array is kept alive and must keep its memory. ValueError and Error name what is wrong.
        """
        try:
            address, shape, item, dtype, strides = _describe(array)
        except ValueError as error:
            raise ValueError(f"'{name}': {error}") from None
        if kind not in _lib.KINDS:
            raise ValueError(f"'{name}': kind is '{kind}', not one of {', '.join(_lib.KINDS)}")
        for given, what in ((global_shape, "global_shape"), (offset, "offset")):
            if given is not None and len(given) != len(shape):
                raise ValueError(f"'{name}': {what} has {len(given)} numbers, the array has {len(shape)} dimensions")
        if len(shape) > _lib.DIMS_MAX:
            raise ValueError(f"'{name}': more than {_lib.DIMS_MAX} dimensions")
        if any(size > 1 and step == 0 for size, step in zip(shape, strides)):
            raise ValueError(f"'{name}': its items overlap")  # all 0 would say C order
        row = ctypes.c_uint64 * _lib.DIMS_MAX
        region = _lib.Region(
            name=name.encode(), kind=_lib.KINDS[kind], dtype=dtype.encode(), item_size=item,
            ndim=len(shape), global_shape=row(*(global_shape or shape)),
            offset=row(*(offset or ())), local_shape=row(*shape),
            stride=(ctypes.c_int64 * _lib.DIMS_MAX)(*strides), addr=address or None)
        self._check(lib.dlr_ckpt_add(self._open_handle(), region))
        self._kept.append(array)

    def clear(self) -> None:
        """Forgets every array, so that those named next make the layout of the next begin()."""
        self._check(lib.dlr_ckpt_clear(self._open_handle()))
        self._kept.clear()

    def blob_size(self, name: str, size: int) -> None:
        """The bytes of a blob that count from now on."""
        self._check(lib.dlr_ckpt_blob_size(self._open_handle(), name.encode(), size))

    def list(self, most: int = 16) -> typing.List[typing.Tuple[int, int, int, int]]:
        """(round, step, bytes, world) of what can be restored, newest first."""
        versions = (_lib.Version * most)()
        found = self._check(lib.dlr_ckpt_list(self._open_handle(), versions, most))
        return [(v.round, v.step, v.bytes, v.world) for v in versions[:found]]

    def regions(self, rank: int | None = None) -> typing.List[SavedRegion]:
        """What a rank (None: this one's number) of the version that restore() takes had: before
        anything is allocated or named, until the first begin(). Error when there is nothing to
        restore, or no such rank. Blocking, as dlr_ckpt_regions in ckpt.h says.
        """
        call = functools.partial(lib.dlr_ckpt_regions, self._open_handle(),
                                 self.rank if rank is None else rank)
        count = self._check(call(None, None, 0))
        found, sizes = (_lib.Region * count)(), (ctypes.c_uint64 * count)()
        self._check(call(found, sizes, count))
        kinds = {number: kind for kind, number in _lib.KINDS.items()}
        return [SavedRegion(r.name.decode(), kinds[r.kind], r.dtype.decode(), r.item_size,
                            *(tuple(row[:r.ndim]) for row in
                              (r.global_shape, r.offset, r.local_shape)), size)
                for r, size in zip(found, sizes)]

    def allow(self, leftover: bool = False, missing: bool = False) -> None:
        """Lets restore pass when names are left over in the version or missing from it. Error after a restore that
        went well, or the first begin.
        """
        what = _lib.LEFTOVER * leftover + _lib.MISSING * missing
        self._check(lib.dlr_ckpt_allow(self._open_handle(), what))
        self.allowed = bool(leftover), bool(missing)

    def _unmatched(self, what):
        count = lib.dlr_ckpt_unmatched(self._open_handle(), what, None, 0)
        names = (ctypes.c_char_p * max(count, 1))()
        lib.dlr_ckpt_unmatched(self._open_handle(), what, names, count)
        return [name.decode(errors="replace") for name in names[:count]]

    def leftover(self) -> typing.List[str]:
        """Names that restore found in the version only."""
        return self._unmatched(_lib.LEFTOVER)

    def missing(self) -> typing.List[str]:
        """Names that restore did not find in the version."""
        return self._unmatched(_lib.MISSING)

    def peek(self, rank: int, name: str) -> bytearray:
        """The bytes of a region of any rank of the version that restore() loads, as a bytearray:
        before or after restore(), until the first begin().
        """
        size = ctypes.c_uint64()
        call = functools.partial(lib.dlr_ckpt_peek, self._open_handle(), rank, name.encode())
        self._check(call(None, 0, size, None))
        data = bytearray(size.value)
        if data:
            self._check(call((ctypes.c_char * len(data)).from_buffer(data), len(data), size,
                             None))
        return data

    def restore(self) -> int | None:
        """Fills what was named, in place; the step it is of, None when there is nothing. Before the
        first begin. Blocking: until all ranks have loaded it under a job, without one until they agree which version it
        is. Error names what does not fit.
        """
        step = ctypes.c_uint64()
        found = self._check(lib.dlr_ckpt_restore(self._open_handle(), step))
        return step.value if found else None

    def go_on(self, step: int) -> None:
        """In place of restore(), without a job: what is saved goes on from the version of step, which the program
        has read by itself. Before the first begin. Error when there is none, and under a job.
        """
        self._check(lib.dlr_ckpt_go_on(self._open_handle(), operator.index(step)))

    def due(self, step: int) -> bool:
        """Whether begin(step) may save; when not, progress(step) does as much, without the state
        being ready.
        """
        return bool(self._handle) and lib.dlr_ckpt_due(self._handle, operator.index(step)) > 0

    def begin(self, step: int, stream: int | None = None) -> bool:
        """The state is that of step and at rest until fence(). True when it is being saved. Does not
        block under a job; without one it waits, fence_ms at most, while two earlier saves are still being written to
        files. Steps must increase. stream: a cudaStream_t whose work precedes the copies.
        """
        if not self._handle:
            return False
        return self._warn(lib.dlr_ckpt_begin(self._handle, operator.index(step), stream)) > 0

    def fence(self, stream: int | None = None) -> None:
        """After it the state may change. Blocking for host memory, fence_ms at most; for a GPU's
        the stream is made to wait.
        """
        if self._handle:
            self._warn(lib.dlr_ckpt_fence(self._handle, stream))

    def flush(self) -> None:
        """Waits until what was saved is durable: without a job its file is, 5 minutes at most. Under a job until it is
        copied, fence_ms at most. A warning says what is not. close() waits, too.
        """
        if self._handle:
            self._warn(lib.dlr_ckpt_flush(self._handle), once=False)

    def save_now(self) -> None:
        """Asks for a save of the next step, whatever is due. Does not block, and may be called by other threads and
        signal handlers. Under a job one rank's word is enough: the supervisor orders a save for all at a step a few
        steps from now, and asking with every step gives one save after the other. Without one the next begin() is due,
        of this rank: all ranks ask before the same step.
        """
        if self._handle:
            lib.dlr_ckpt_save_now(self._handle)

    def wait_until_committed(self, step: int, limit_s: float = 300) -> bool:
        """Whether step or a later one is safe (under a job committed, without one in this rank's file): waits for it
        limit_s seconds at most. False at once where no step from step on was begun and is being saved, since none can
        come while this waits, and when the checkpoint is closed meanwhile. A warning says why nothing is committed any
        more. Blocking, without using the CPU.
        """
        until = time.monotonic() + limit_s
        while True:
            left = max(until - time.monotonic(), 0)
            with self._waits:
                if not self._handle:
                    return False
                code = lib.dlr_ckpt_wait(self._handle, operator.index(step), int(1000 * min(left, WAIT_S)))
                if code in (-errno.ENODATA, 1):
                    return code > 0
                if code == -errno.EBUSY:
                    self._check(code)
                self._warn(code)
            if code < 0 or left <= 0:
                return False

    def progress(self, step: int) -> None:
        """Reports a step without saving it."""
        if self._handle:
            self._warn(lib.dlr_ckpt_progress(self._handle, operator.index(step)))

    def mark_bad(self, step: int) -> None:
        """Nothing of step or later that was saved up to now is restored any more: the numbers were bad. Exit after
        it.
        """
        self._check(lib.dlr_ckpt_mark_bad(self._open_handle(), operator.index(step)))

    def stats(self) -> dict[str, int]:
        """Counts, and nanoseconds spent in begin and fence, as dlr_ckpt_stats has them."""
        stats = _lib.Stats()
        if self._handle:
            lib.dlr_ckpt_stats(self._handle, stats)
        return {name: getattr(stats, name) for name, _ in stats._fields_}

    def close(self) -> None:
        """Waits for what is being saved, as flush does. The arrays may go after it."""
        with self._waits:
            if self._handle:
                self._let_go.detach()
                lib.dlr_ckpt_close(self._handle)
            self._handle = None
            self._kept.clear()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
