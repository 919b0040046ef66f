# SPDX-License-Identifier: Apache-2.0
"""Where a process stands in torch.distributed, told on its rank's watch page: docs/watch.md.

A thread looks four times a second: how many operations each process group has begun, by PyTorch's own count, in which
call each thread stands, by its Python frames, and what gloo's recorder has in flight. Nothing of an operation is
wrapped but messages, which some releases count as well.
"""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import json
import os
import sys
import threading
import time
import typing
import weakref

TICK_S = 0.25
NO_ROOT = 2**32 - 1
ANY, GROUP = -1, -2
BETWEEN_RANKS = ("send", "recv", "recv_anysource")
FAILURES_MAX = 3  # looks in a row
RECORDED_MAX = 1900  # of gloo's recorder, which keeps 2000 operations


class Group(ctypes.Structure):
    """struct dlr_watch_group"""

    _fields_ = [("id", ctypes.c_uint64), ("size", ctypes.c_uint32), ("my_rank", ctypes.c_uint32),
                ("entered", ctypes.c_uint64), ("left", ctypes.c_uint64), ("call", ctypes.c_uint32),
                ("item", ctypes.c_uint32), ("root", ctypes.c_uint32), ("lost", ctypes.c_uint32),
                ("bytes", ctypes.c_uint64)]


class Wait(ctypes.Structure):
    """struct dlr_watch_wait"""

    _fields_ = [("group", ctypes.c_uint64), ("peer", ctypes.c_int32), ("tag", ctypes.c_int32),
                ("tid", ctypes.c_uint32), ("call", ctypes.c_uint32), ("bytes", ctypes.c_uint64),
                ("since_ns", ctypes.c_uint64)]


class Call(typing.NamedTuple):
    """A function of torch.distributed: where it has its tensor, and its root or peer; whether all members must name
    the same number of bytes."""

    tensor: str | None
    peer: str | None = None
    agreed: bool = False
    message: bool = False


CALLS = {
    "all_reduce": Call("tensor", agreed=True),
    "broadcast": Call("tensor", "src", agreed=True),
    "reduce": Call("tensor", "dst", agreed=True),
    "all_gather": Call("tensor"),
    "all_gather_into_tensor": Call("input_tensor", agreed=True),
    "gather": Call("tensor", "dst"),
    "scatter": Call("tensor", "src"),
    "reduce_scatter": Call("output"),
    "reduce_scatter_tensor": Call("output", agreed=True),
    "all_to_all": Call(None),
    "all_to_all_single": Call("input"),
    "barrier": Call(None),
    "monitored_barrier": Call(None),
    "send": Call("tensor", "dst", message=True),
    "recv": Call("tensor", "src", message=True),
}
# What other releases call them.
OTHER_NAMES = {"_all_gather_base": "all_gather_into_tensor", "all_gather_single": "all_gather_into_tensor",
               "_reduce_scatter_base": "reduce_scatter_tensor", "reduce_scatter_single": "reduce_scatter_tensor",
               "gather_single": "gather"}
# What a program does in place of steps, by the function of PyTorch in which it is.
PHASES = {
    ("/torch/_dynamo/convert_frame.py", "_compile"): "compile",
    ("/torch/_inductor/compile_fx.py", "compile_fx_inner"): "compile",
    ("/torch/distributed/checkpoint/state_dict_saver.py", "save"): "save",
    ("/torch/distributed/checkpoint/state_dict_saver.py", "save_state_dict"): "save",
    ("/torch/distributed/checkpoint/state_dict_saver.py", "async_save"): "save",
    ("/torch/distributed/checkpoint/state_dict_loader.py", "load"): "restore",
    ("/torch/distributed/checkpoint/state_dict_loader.py", "load_state_dict"): "restore",
    ("/torch/serialization.py", "save"): "save",
    ("/torch/serialization.py", "load"): "restore",
    ("/torch/distributed/distributed_c10d.py", "init_process_group"): "rendezvous",
    ("/torch/distributed/distributed_c10d.py", "new_group"): "rendezvous",
}
PHASE_NAMES = frozenset(name for _, name in PHASES)
OWN_FILE = (lambda: 0).__code__.co_filename

_messages: weakref.WeakKeyDictionary[typing.Any, _Messages] = weakref.WeakKeyDictionary()


class _Messages:
    """Of a process group: calls so far that are no collectives, and how far they moved PyTorch's count."""

    def __init__(self, group: typing.Any) -> None:
        self.calls = self.counted = 0
        self.unwrapped = 0  # PyTorch's count when messages came to be wrapped, which may have messages in it
        self.from_number: int | None = None  # before the call that is under way
        devices = getattr(group, "_device_types", ())
        try:
            self.mixed = len({id(group._get_backend(device)) for device in devices}) > 1
        except RuntimeError:  # a device without a backend
            self.mixed = False


def watched() -> bool:
    """Whether the job's setting `watch` asks for calls."""
    return os.environ.get("DLROVER_WATCH") in ("auto", "all") and bool(os.environ.get("DLROVER_AGENT_SOCKET"))


def _c10d() -> typing.Any:
    """torch.distributed's module of process groups, where the program has it; None."""
    return sys.modules.get("torch.distributed.distributed_c10d")


def _of(group: typing.Any) -> _Messages:
    found = _messages.get(group)
    if found is None:
        found = _messages[group] = _Messages(group)
    return found


def _number(group: typing.Any, mixed: bool) -> int | None:
    """How many operations of it were begun, as its backends count them."""
    try:
        if not mixed:
            return int(group._get_sequence_number_for_group())
        backends = {id(one): one for one in map(group._get_backend, group._device_types)}
        return sum(int(one._get_sequence_number_for_group()) for one in backends.values())
    except (RuntimeError, AttributeError, ValueError):
        return None  # a backend that does not count


def _counted(real: typing.Callable[..., typing.Any], most: int | None) -> typing.Callable[..., typing.Any]:
    @functools.wraps(real)
    def message(group: typing.Any, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        try:
            of_group = _of(group)
            before = _number(group, of_group.mixed)
        except (RuntimeError, TypeError):
            before = None  # a group that is otherwise
        if before is None:
            return real(group, *args, **kwargs)
        of_group.calls += 1
        of_group.from_number = before - of_group.counted
        try:
            return real(group, *args, **kwargs)
        finally:
            moved = max(0, (_number(group, of_group.mixed) or before) - before)
            of_group.counted += moved if most is None else min(most, moved)
            of_group.from_number = None

    message.dlrover = True  # type: ignore[attr-defined]
    return message


def count_messages() -> None:
    """From now on calls that are no collectives are told from them. Before any of them is best."""
    c10d, wrapped = _c10d(), False
    kind = getattr(c10d, "ProcessGroup", None)
    for name in (*BETWEEN_RANKS, "monitored_barrier") if kind and watched() else ():
        real = getattr(kind, name, None)
        if real is not None and not hasattr(real, "dlrover"):
            setattr(kind, name, _counted(real, None if name == "monitored_barrier" else 1))
            wrapped = True
    if wrapped:
        with contextlib.suppress(AttributeError, KeyError, RuntimeError, TypeError):  # then none is watched
            for group, _, _ in _groups(c10d):
                messages = _of(group)
                messages.unwrapped = _number(group, messages.mixed) or 0


def _groups(c10d: typing.Any) -> list[tuple[typing.Any, str, dict[int, int]]]:
    """(group, its name, its ranks by those of the world) of all in which this process is."""
    world = getattr(c10d, "_world", None)
    names, ranks, groups = ((world.pg_names, world.pg_group_ranks, world.pg_map) if world else
                            (c10d._pg_names, c10d._pg_group_ranks, c10d._pg_map))
    return [(group, names[group], ranks[group]) for group in list(groups) if group in names and group in ranks]


def groups() -> list[tuple[typing.Any, str, dict[int, int]]]:
    """As _groups(), of the program; [] where it has none, or PyTorch is otherwise."""
    c10d = _c10d()
    try:
        return _groups(c10d) if c10d else []
    except (AttributeError, KeyError, RuntimeError, TypeError):
        return []


def _trace(collectives: bool) -> dict[str, typing.Any]:
    """What gloo's recorder has, where there is one; up to 0.1 s with the operations themselves."""
    dump = getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_fr_trace_json", None)
    try:
        return dict(json.loads(dump(backend="gloo", includeCollectives=collectives))) if dump else {}
    except TypeError:
        return {}  # before PyTorch 2.15 there is NCCL's alone


def _in_flight() -> dict[str, int]:
    """{number of a group: its operations that were begun and have not ended}"""
    return {key: int(one["last_enqueued_collective"]) - int(one["last_completed_collective"])
            for key, one in _trace(False).get("pg_status", {}).items()}


def _recorded() -> list[dict[str, typing.Any]]:
    """The operations in gloo's recorder."""
    return list(_trace(True).get("entries", []))


def _bytes(value: typing.Any) -> tuple[int, int]:
    """(bytes, of an element)"""
    try:
        return value.numel() * value.element_size(), value.element_size()
    except (AttributeError, RuntimeError, NotImplementedError):
        return 0, 0


class _Place(typing.NamedTuple):
    """The call in which a thread stands, as at another look it would be the same."""

    tid: int
    frame: int
    instruction: int
    name: str
    group: int
    number: int | None
    messages: int


class _Line:
    """What is told of a group."""

    def __init__(self, group: typing.Any, name: str, ranks: dict[int, int], generation: int) -> None:
        words = f"{name} {generation} {sorted(ranks)}".encode()
        self.id = int.from_bytes(hashlib.sha256(words).digest()[:8], "little") | 2
        self.group, self.name, self.ranks = weakref.ref(group), name, ranks
        self.before, self.lost = self._from(group)
        self.told: tuple[typing.Any, ...] = ()
        self.entered, self.since_ns, self.stands = -1, 0, False
        self.key: str | None = None  # of gloo's recorder

    def _from(self, group: typing.Any) -> tuple[int, int]:
        """What its count was before this process was watched, and whether that can be told from messages' count."""
        messages = _of(group)
        if not messages.unwrapped or not hasattr(group, "_get_backend"):
            return 0, 0  # releases before 2.0 count no messages
        backend = str(_c10d().get_backend(group))
        if messages.mixed or backend not in ("gloo", "undefined"):
            return 0, int(backend != "nccl")
        for _ in range(3):  # an operation that is begun meanwhile may be in one of the two alone
            number = self._collectives(messages, group)
            time.sleep(0.001)  # what was counted is recorded a moment later
            entries = _recorded() if number < RECORDED_MAX else []
            if not entries or len(entries) >= RECORDED_MAX:
                break
            # The recorder outlives its groups, whose names are used again.
            ids = [one["pg_id"] for one in entries if one["process_group"][0] == self.name]
            own = ids.count(max(ids, default=None))
            if own and own <= number == self._collectives(messages, group):
                return number - own, 0
        return 0, 1

    @staticmethod
    def _collectives(messages: _Messages, group: typing.Any) -> int:
        """What PyTorch has counted without the messages that are known."""
        number = messages.from_number
        return (_number(group, messages.mixed) or 0) - messages.counted if number is None else number

    def look(self, now_ns: int) -> None:
        """How many of its operations were begun; since when that is so."""
        group = self.group()
        entered = max(0, self._collectives(_of(group), group) - self.before)
        self.stands = entered == self.entered
        if not self.stands:
            self.entered, self.since_ns = entered, now_ns


class Reader:
    """Tells what it sees by a handle of its own, until the process ends or is in another round."""

    def __init__(self, library: typing.Any, handle: ctypes.c_void_p,
                 see_phase: typing.Callable[[str | None], None]) -> None:
        self._library, self._handle, self._see_phase = library, handle, see_phase
        self._round, self.pid = os.environ.get("DLROVER_ROUND"), os.getpid()
        self._lines: dict[int, _Line] = {}
        self._generations: dict[str, int] = {}
        self._places: dict[int, _Place] = {}
        self._since: dict[_Place, int] = {}
        self._waits: tuple[typing.Any, ...] = ()
        self._phase: str | None = None
        self._keys: set[str] = set()  # of gloo's recorder, whose groups were looked for
        self._numbers = {name: library.dlr_watch_call_number(name.encode()) for name in (*CALLS, "async_op")}
        count_messages()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dlrover-watch", daemon=True)
        atexit.register(self.stop)  # a thread that is in PyTorch when Python ends would end it badly
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether another one may begin."""
        return self._round != os.environ.get("DLROVER_ROUND")

    def stop(self) -> None:
        """Looks once more, then nothing is told. Blocks meanwhile, 5 s at most."""
        if self.pid != os.getpid():
            return
        self._end.set()
        self._thread.join(5)

    def _run(self) -> None:
        failures, last = 0, False
        while not last:
            last = self._end.wait(TICK_S)
            if self.ended:
                break
            try:
                self.look()
                failures = 0
            except Exception as error:  # pylint: disable=broad-exception-caught
                self._forget()  # a group that ended meanwhile, or a release of PyTorch that is otherwise
                failures += 1
                if failures == FAILURES_MAX:
                    if os.environ.get("DLROVER_DEBUG"):
                        print(f"dlrover: torch.distributed is not watched: {error!r}", file=sys.stderr)
                    return
        self._library.dlr_watch_close(self._handle)

    def _forget(self) -> None:
        """What was told may be true no more. The next look tells all anew."""
        self._see_phase(None)
        self._library.dlr_watch_put_waits(self._handle, None, 0)
        self._waits = ()
        for line in self._lines.values():
            self._library.dlr_watch_del_group(self._handle, line.id)
            line.told = ()

    def look(self) -> None:
        """Looks once, and tells what is different."""
        c10d, now_ns = _c10d(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        frames = sys._current_frames()
        self._look_phase(frames.get(threading.main_thread().ident or 0))
        if c10d:
            count_messages()
            self._look_groups(c10d, now_ns)
            calls = self._look_calls(c10d, frames, now_ns)
            self._tell(calls)

    def _look_phase(self, frame: typing.Any) -> None:
        seen = None
        while frame is not None and seen is None:
            code = frame.f_code
            if code.co_name in PHASE_NAMES:
                at = code.co_filename.rfind("/torch/")
                seen = PHASES.get((code.co_filename[at:], code.co_name)) if at >= 0 else None
            frame = frame.f_back
        self._see_phase(seen if seen == self._phase else None)
        self._phase = seen

    def _look_groups(self, c10d: typing.Any, now_ns: int) -> None:
        groups = _groups(c10d) if c10d.is_initialized() else []
        if groups and c10d.get_rank() != self._library.dlr_watch_rank(self._handle):
            groups = []  # ranks of PyTorch are not the job's
        live = {id(group) for group, _, _ in groups}
        for key in [key for key, line in self._lines.items() if key not in live or line.group() is None]:
            self._library.dlr_watch_del_group(self._handle, self._lines.pop(key).id)
        for group, name, ranks in groups:
            if id(group) not in self._lines:
                number = self._generations.get(name, -1) + 1
                self._lines[id(group)] = _Line(group, name, dict(ranks), number)
                self._generations[name] = number
            self._lines[id(group)].look(now_ns)

    def _line_of(self, c10d: typing.Any, group: typing.Any) -> _Line | None:
        if group is None or group is getattr(c10d.GroupMember, "WORLD", None):
            group = c10d._get_default_group()
        line = self._lines.get(id(group))
        return line if line and line.group() is group else None

    def _look_calls(self, c10d: typing.Any, frames: dict[int, typing.Any],
                    now_ns: int) -> list[tuple[_Line, Call, str, dict[str, typing.Any], int, int]]:
        """(line, call, its name, its variables, thread, since) of the calls in which a thread stood at the look before,
        too."""
        found = []
        places, since = {}, {}
        for ident, frame in frames.items() if self._lines else ():
            while frame is not None and frame.f_code.co_filename == OWN_FILE and frame.f_code.co_name == "message":
                frame = frame.f_back
            if frame is None or frame.f_code.co_filename != c10d.is_initialized.__code__.co_filename:
                continue
            name = OTHER_NAMES.get(frame.f_code.co_name, frame.f_code.co_name)
            thread = threading._active.get(ident)  # type: ignore[attr-defined]
            if name not in CALLS or thread is None:
                continue
            variables = frame.f_locals
            line = self._line_of(c10d, variables.get("group"))
            if not line:
                continue
            # A forked process's first thread still has its parent's number in some releases of Python.
            tid = os.getpid() if thread is threading.main_thread() else thread.native_id or 0
            place = _Place(tid, id(frame), frame.f_lasti, name, line.id, line.entered, _of(line.group()).calls)
            places[ident] = place
            since[place] = self._since.get(place, now_ns)
            if self._places.get(ident) == place:
                found.append((line, CALLS[name], name, variables, place.tid, since[place]))
        self._places, self._since = places, since
        return found

    def _flights(self, lines: list[_Line]) -> dict[int, int]:
        """Operations in flight of those that stand, which nobody is seen to wait for."""
        if not lines:
            return {}
        keys = _in_flight()
        unknown = {key for key, count in keys.items() if count > 0} - self._keys
        if unknown:
            self._keys |= unknown
            names = {one["process_group"][0]: str(one["pg_id"]) for one in _recorded()}
            for line in self._lines.values():
                line.key = names.get(line.name, line.key)
        return {line.id: keys.get(line.key or "", 0) for line in lines}

    def _tell(self, calls: list[tuple[_Line, Call, str, dict[str, typing.Any], int, int]]) -> None:
        standing = {line.id: (call, name, variables) for line, call, name, variables, _, _ in calls
                    if not call.message and name != "monitored_barrier"}
        flights = self._flights([line for line in self._lines.values()
                                 if line.stands and line.entered and line.id not in standing])
        waits = []
        for line in self._lines.values():
            inside, call, item, root, size = 0, 0, 0, NO_ROOT, 0
            if line.id in standing and line.entered:
                inside = 1
                call, item, root, size = self._describe(line, *standing[line.id])
            elif flights.get(line.id, 0) > 0:
                inside = min(flights[line.id], line.entered)
                waits.append((line.id, GROUP, 0, threading.get_native_id(), self._numbers["async_op"], 0,
                              line.since_ns))
            state = (line.entered, line.entered - inside, call, item, root, line.lost, size)
            if state != line.told:
                group = Group(line.id, len(line.ranks), line.ranks[_world_rank()], *state)
                self._library.dlr_watch_put_group(self._handle, ctypes.byref(group))
                line.told = state
        for line, call, name, variables, tid, since_ns in calls:
            size, peer = _bytes(variables.get(call.tensor or ""))[0], GROUP
            if call.message:
                peer = _peer(line, call, variables)
            waits.append((line.id, peer, int(variables.get("tag") or 0), tid, self._numbers[name], size, since_ns))
        if tuple(waits) != self._waits:
            array = (Wait * max(1, len(waits)))(*waits)
            self._library.dlr_watch_put_waits(self._handle, array, len(waits))
            self._waits = tuple(waits)

    def _describe(self, line: _Line, call: Call, name: str,
                  variables: dict[str, typing.Any]) -> tuple[int, int, int, int]:
        size, item = _bytes(variables.get(call.tensor or ""))
        root = _peer(line, call, variables) if call.peer else ANY
        return self._numbers[name], item if call.agreed else 0, root if root >= 0 else NO_ROOT, size


def _world_rank() -> int:
    return int(_c10d().get_rank())


def _peer(line: _Line, call: Call, variables: dict[str, typing.Any]) -> int:
    """In the group's ranks."""
    own = variables.get(f"group_{call.peer}")
    if isinstance(own, int):
        return own
    peer = variables.get(call.peer or "")
    return line.ranks.get(peer, ANY) if isinstance(peer, int) else ANY

