# SPDX-License-Identifier: Apache-2.0
"""Stays in the process over the loss of another node: docs/resilient.md."""
from __future__ import annotations

import ctypes
import functools
import gc
import os
import signal
import socket
import sys
import threading
import time
import traceback
import types
import typing

from . import _checkpoint, _groups, _lib
from ._checkpoint import RoundEnded
from ._leftovers import Leftovers, Loaders

ERROR_S = 0.5  # for the program's own calls to fail, before an exception is raised in it
ABORT_S = 1  # for NCCL's abort, until it is said that it is waited for
WORD_S = 3  # a failed call may have heard of a lost node before the supervisor has
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "MASTER_ADDR",
         "MASTER_PORT")
LOADER_END = "_shutdown_workers"  # of PyTorch's data loader, which is hurried
PREFIXES = ("SLURM_", "SLURMD_", "DLROVER_")


def _say(text):
    print(f"dlrover: {text}", file=sys.stderr, flush=True)


def _connections():
    """Open TCP connections of this process: inode and descriptor."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            fd = int(name)
            inode = os.readlink(f"/proc/self/fd/{fd}")
            if not inode.startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(fd)) as own:
                if own.type == socket.SOCK_STREAM and own.family in (socket.AF_INET, socket.AF_INET6):
                    own.getpeername()
                    found[inode] = fd
        except (OSError, ValueError):
            continue  # closed meanwhile, or not connected
    return found


def _shut(before):
    """Ends the connections that were made since: who waits in a collective call gets an error."""
    for inode, fd in _connections().items():
        if inode in before:
            continue
        try:
            with socket.socket(fileno=os.dup(fd)) as own:
                own.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _initialized():
    """torch.distributed, where it was used."""
    dist = sys.modules.get("torch.distributed")
    return dist if dist and dist.is_available() and dist.is_initialized() else None


def _try(what, call):
    """What goes wrong in it does not end a process that could stay. None then."""
    try:
        return call()
    except Exception as error:  # pylint: disable=broad-exception-caught
        _say(f"{what}: {error!r}")
        return None


def _on_device():
    """The backends of the process groups whose calls wait on the device, where no socket ends them."""
    found = []
    for group, _, _ in _groups.groups():
        for device in getattr(group, "_device_types", ()):
            try:
                backend = group._get_backend(device)
                if "nccl" in backend.name():
                    found.append(backend)
            except Exception:  # pylint: disable=broad-exception-caught
                continue  # a device without one, or one without a name
    return found


def _abort():
    """By PyTorch, whose call takes all communicators together; one by one where it does not end well."""
    backends = _on_device()
    try:
        sys.modules["torch.distributed"].distributed_c10d._abort_process_group()
        return
    except Exception as error:  # pylint: disable=broad-exception-caught
        _say(f"PyTorch cannot abort its process groups at once: {error}")
    for backend in backends:
        try:
            backend.abort()
        except Exception as error:  # pylint: disable=broad-exception-caught
            _say(f"the communicator of '{backend.name()}' cannot be aborted: {error}")


def _leave_groups():
    dist = _initialized()
    if not dist:
        return
    try:
        dist.destroy_process_group()
    except Exception as error:  # pylint: disable=broad-exception-caught
        _say(f"the process group could not be left: {error}")


def _sync_environment(everything=False):
    """The library has set them for C."""
    entries = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    for entry in iter(entries):
        if entry is None:
            return
        name, _, value = os.fsdecode(entry).partition("=")
        if everything or name in NAMES or name.startswith(PREFIXES):
            os.environ[name] = value


class _Process:
    """What this process has of its rounds, once."""

    def __init__(self):
        self.lock = threading.Lock()
        self.handle = _lib.HANDLE()
        self.word = threading.Event()  # the round has ended
        self.inside = None  # the thread that is in a round
        self.outside = threading.Event()  # it is not any more
        self.connections = {}  # from before it
        self.leftovers = None  # what was before it
        self.loaders = Loaders()
        self.abort = None  # the thread that aborts NCCL's communicators
        warm = "DLROVER_WARM" in os.environ  # on a spare, without a rank: it waits for one
        if warm:
            sys.stdout.flush()  # what was printed so far is not of the round
        code = _checkpoint.lib.dlr_resilient_open(self.handle)
        self.stays = code == 0
        if warm:
            self._begin()
        if self.stays:
            self._watch()

    def _begin(self):
        if not self.stays:
            os._exit(1)  # no rank will come
        del os.environ["DLROVER_WARM"]
        _sync_environment(everything=True)
        _say(f"this process has run ahead: it begins in round {os.environ.get('DLROVER_ROUND')}")

    def _watch(self):
        threading.Thread(target=self._await_word, name="dlrover-round", daemon=True).start()

    def _await_word(self):
        while True:
            code = _checkpoint.lib.dlr_resilient_wait(self.handle, -1)
            if code < 0:
                return  # the agent is gone, and ends us
            if code:
                break
        with self.lock:
            self.word.set()
            outside = self.outside
            if self.inside is None:
                return
            self.note_groups()
            _try("data loaders are waited for", self.loaders.hurry)
        # Most leave by the error of a call. An exception that meets them on their way out would end the program. Who
        # has connected meanwhile waits again.
        while not outside.is_set():
            _shut(self.connections)
            with self.lock:
                if not outside.is_set() and (self.abort is None or not self.abort.is_alive()):
                    self._abort()
            if outside.wait(ERROR_S):
                return
            with self.lock:
                if not outside.is_set():
                    self._raise()

    def note_groups(self):
        if self.leftovers:
            _try("what holds the process groups will not be known", self.leftovers.note_groups)

    def _abort(self):
        """In a thread of its own: what hangs there must not keep us from the rest."""
        if _on_device():
            abort = threading.Thread(target=_abort, name="dlrover-abort", daemon=True)
            _try("NCCL's communicators cannot be aborted", abort.start)
            self.abort = abort if abort.ident is not None else None

    def _raise(self):
        if self.inside == threading.main_thread().ident and signal.getsignal(signal.SIGURG) == self._interrupt:
            signal.pthread_kill(self.inside, signal.SIGURG)
        else:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.inside), ctypes.py_object(RoundEnded))

    def _interrupt(self, _number, frame):
        """A signal ends a sleep or a wait for a data loader, where an exception alone would come too late."""
        while frame is not None:
            if frame.f_code in OWN_CODE or frame.f_code.co_name == LOADER_END:
                return  # it is on its way, or would be lost where it is
            frame = frame.f_back
        if self.inside == threading.get_ident() and self.word.is_set():
            raise RoundEnded

    def await_abort(self):
        """Without a limit of ours: the agent has one, and kills who does not park."""
        with self.lock:
            if self.abort is None:
                self._abort()  # the program was out before the word came
            abort, self.abort = self.abort, None
        if abort is None:
            return
        abort.join(ABORT_S)
        if abort.is_alive():
            _say("NCCL's abort has not ended yet: if it does not before park-timeout this process is killed")
            abort.join()

    def enter(self, number):
        with self.lock:
            if self.inside is not None:
                raise RuntimeError("dlrover.round(): this process is in a round already")
            self.connections = _connections() if self.stays else {}
            if self.word.is_set():
                return False
            self.leftovers = _try("what the round leaves will not be known",
                                  lambda: Leftovers(number)) if self.stays else None
            if self.stays and threading.current_thread() is threading.main_thread() and \
                    signal.getsignal(signal.SIGURG) == signal.SIG_DFL:
                signal.signal(signal.SIGURG, self._interrupt)
            self.inside = threading.get_ident()
            self.outside = threading.Event()
        return True

    def leave(self):
        with self.lock:
            thread, self.inside = self.inside, None
            self.outside.set()
            if thread is not None:  # what was not delivered yet
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None)

    def look_back(self):
        """Says what the round has left."""
        leftovers, self.leftovers = self.leftovers, None
        if leftovers:
            _try("the gradient mode may be another", leftovers.put_back)
            _try("what else is left of the round is not known", lambda: [_say(line) for line in leftovers.find()])

    def forget(self):
        """The round ends as the program's end, or as an error of it."""
        self.leftovers = None
        self.loaders.calm()

    def ended(self, error):
        """Whether the round has: a connection that broke may be the first sign of it."""
        if not self.stays:
            return False
        if isinstance(error, (RuntimeError, OSError)):
            return self.word.wait(WORD_S)
        return self.word.is_set()

    def next_round(self):
        code = _checkpoint.lib.dlr_resilient_next(self.handle)
        if code < 0:
            os._exit(1)  # its node is without an agent
        _sync_environment()
        self.word.clear()
        self._watch()


_own: typing.Optional[_Process] = None


def _process():
    global _own  # pylint: disable=global-statement
    if _own is None:
        _own = _Process()
    return _own


class Round:
    """A round in which this process takes part. ended: it has ended, because another node was lost; when that is
    known, this process has left it and the next one has begun. number: of the round.
    """

    def __init__(self) -> None:
        self.ended = False
        self.number = 0

    def __enter__(self) -> Round:
        process = _process()
        while True:
            self.number = int(os.environ.get("DLROVER_ROUND", 0))
            if process.enter(self.number):
                return self
            self._pass(process, time.monotonic())  # it ended between two of them

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: types.TracebackType | None) -> bool:
        process = _process()
        began = time.monotonic()
        process.leave()
        if error is not None and not isinstance(error, Exception) or not process.ended(error):
            process.forget()  # Ctrl-C and sys.exit() are the program's, too
            return False
        self.ended = True
        process.note_groups()
        process.loaders.hurry()
        while error is not None:  # its frames hold what was made in the round
            traceback.clear_frames(error.__traceback__)
            error = error.__context__
        del error, trace
        self._pass(process, began)
        return True

    def _pass(self, process, began):
        for checkpoint in list(_checkpoint.opened):
            checkpoint.close()
        process.await_abort()
        _leave_groups()
        process.loaders.hurry()
        gc.collect()
        process.look_back()
        process.loaders.calm()
        states = sys.modules.get("dlrover._torch")
        if states:
            states.leave_round(self.number)
        left = time.monotonic()
        process.next_round()
        _say(f"round {self.number} ended because a node was lost; left it in {left - began:.2f} s, this process goes on "
             f"in round {os.environ.get('DLROVER_ROUND')} after {time.monotonic() - began:.2f} s")


OWN_CODE = (Round.__enter__.__code__, Round.__exit__.__code__)  # no exception of ours is raised in what they do


def resilient(function: typing.Callable[..., typing.Any]) -> typing.Callable[..., typing.Any]:
    """See dlrover.resilient."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        while True:
            with Round() as current:
                result = function(*args, **kwargs)
            if not current.ended:
                return result
            result = None

    return call
