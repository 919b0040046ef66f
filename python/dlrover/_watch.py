# SPDX-License-Identifier: Apache-2.0
"""A program says how far it is: docs/watch.md. Without a job, or where it is not watched, all of it does nothing."""
from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import sys
import threading
import typing

from . import _groups, _lib
from ._checkpoint import Error

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
LIMIT_MAX_S = 2**32 - 1

lib = _lib.load()


def limit_seconds(limit: float | str | None) -> int:
    """Of 90, "90s", "20m", "2h"; None, not known, is 0. ValueError."""
    if limit is None:
        return 0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(limit).strip())
    seconds = float(found[1]) * UNITS[found[2]] if found else 0
    if not 0 < seconds <= LIMIT_MAX_S:
        raise ValueError(f"limit={limit!r} is no time such as 90, '90s', '20m' or '2h'")
    return max(1, round(seconds))


class Watch:
    """What dlrover.watch() returns, one for the process. For one thread at a time."""

    def __init__(self) -> None:
        self._handle = ctypes.c_void_p()
        self._pid, self._round = os.getpid(), os.environ.get("DLROVER_ROUND")
        self._phases: list[tuple[str, int]] = []
        self._pauses = 0
        self._seen: str | None = None
        self._changing = threading.RLock()  # the handle, and its phase
        rc = lib.dlr_watch_open(self._handle)
        if rc == -errno.EINVAL:
            raise Error(errno.EINVAL, "the environment names a rank that cannot be")
        if rc < 0:
            raise Error(-rc, os.strerror(-rc))

    @property
    def active(self) -> bool:
        """Whether what is told is seen."""
        return bool(self._handle and lib.dlr_watch_active(self._handle))

    def is_of_now(self) -> bool:
        """Whether it is of this process and of the round that it is in."""
        return bool(self._handle) and (self._pid, self._round) == (os.getpid(), os.environ.get("DLROVER_ROUND"))

    def step(self, step: int) -> None:
        """Step begins. bind().step() and Checkpoint.begin() tell it by themselves."""
        if self._handle:
            lib.dlr_watch_step(self._handle, step)

    def total(self, steps: int) -> None:
        """How many steps there will be; 0: unknown."""
        if self._handle:
            lib.dlr_watch_total(self._handle, steps)

    def close(self) -> None:
        """The program has no steps any more."""
        if self._pid != os.getpid():
            self._changing = threading.RLock()  # a thread of the parent may have had it
        with self._changing:
            if self._handle:
                lib.dlr_watch_close(self._handle)
                self._handle = ctypes.c_void_p()

    def see_phase(self, name: str | None) -> None:
        """What the program is seen to do in place of steps; what it says itself goes before."""
        with self._changing:
            if name != self._seen:
                self._seen = name
                self._show_phase()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _show_phase(self) -> None:
        if self._handle:
            name, limit_s = self._phases[-1] if self._phases else (self._seen, 0)
            lib.dlr_watch_phase(self._handle, name and name.encode(errors="replace"), limit_s)

    @contextlib.contextmanager
    def phase(self, name: str, limit: float | str | None = None) -> typing.Iterator[None]:
        """See dlrover.phase()."""
        limit_s = limit_seconds(limit)
        with self._changing:
            self._phases.append((name, limit_s))
            self._show_phase()
        try:
            yield
        finally:
            with self._changing:
                self._phases.pop()
                self._show_phase()

    @contextlib.contextmanager
    def pause(self) -> typing.Iterator[None]:
        """See dlrover.pause()."""
        self._pauses += 1
        if self._handle:
            lib.dlr_watch_pause(self._handle)
        try:
            yield
        finally:
            self._pauses -= 1
            if self._handle and self._pauses == 0:
                lib.dlr_watch_resume(self._handle)


_of_process: Watch | None = None
_reader: _groups.Reader | None = None


def _see_phase(name: str | None) -> None:
    if _of_process is not None and _of_process.is_of_now():
        _of_process.see_phase(name)


def _see_calls() -> None:
    """From now on what PyTorch does is told, too, where the job asks for it; in a forked child not."""
    global _reader  # pylint: disable=global-statement
    if "torch" not in sys.modules or not _groups.watched() or (_reader and _reader.pid != os.getpid()):
        return
    if _reader is None or _reader.ended:
        handle = ctypes.c_void_p()
        if lib.dlr_watch_open(handle) == 0:
            _reader = _groups.Reader(lib, handle, _see_phase)


def watch(total: int | None = None) -> Watch:
    """This process's, opened when it is first asked for, and again in another round or in a forked child."""
    global _of_process  # pylint: disable=global-statement
    if _of_process is None or not _of_process.is_of_now():
        _of_process = Watch()
    _see_calls()
    if total is not None:
        _of_process.total(total)
    return _of_process
