# SPDX-License-Identifier: Apache-2.0
"""What a round leaves in a process that stays: docs/resilient.md."""
from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import types
import typing
import weakref

from . import _groups

OWN_THREADS = ("dlrover-round", "dlrover-watch", "dlrover-abort")
COMPILER = "InductorSubproc"  # threads of torch.compile's pool, which goes on over rounds
JOIN_S = 0.05  # for a worker of a data loader to end by itself
JOIN_ALL_S = 0.5  # for all of them, one after the other
DIE_S = 0.1  # for processes that were told to end
FIND_S = 0.3  # to ask who holds what; the last question may end later
ASK_MAX = 4  # modules
OBJECTS_MAX = 2_000_000  # above that a look at all would cost the next round
AGAIN = "wrap the model again in each round"
# What keeps a process group that its round has taken along.
WRAPPERS = (("torch.nn.parallel", "DistributedDataParallel"), ("torch.distributed.fsdp", "FullyShardedDataParallel"),
            ("torch.distributed.fsdp", "FSDPModule"))
LOADER = ("torch.utils.data.dataloader", "_MultiProcessingDataLoaderIter")
GRAPH = ("torch.cuda", "CUDAGraph")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
GRAD = "torch's gradient mode"
MODES = (("torch's default dtype", "get_default_dtype"), (GRAD, "is_grad_enabled"),
         ("torch's inference mode", "is_inference_mode_enabled"),
         ("torch's deterministic mode", "are_deterministic_algorithms_enabled"))


class Loaders:
    """hurry(): a data loader whose last reference goes waits 0.05 s for each worker in the middle of a sample, less
    where they are many, and not the 5 s for which it would miss the next round. Until calm().
    """

    def __init__(self) -> None:
        self._usual: float | None = None

    def hurry(self) -> None:
        utils = sys.modules.get("torch.utils.data._utils")
        usual = getattr(utils, "MP_STATUS_CHECK_INTERVAL", None)
        if self._usual is None and usual is not None:
            self._usual = usual
            # Counted, and not asked: another thread may be asking them.
            children = len(getattr(multiprocessing.process, "_children", ()))
            utils.MP_STATUS_CHECK_INTERVAL = min(JOIN_S, JOIN_ALL_S / max(1, children))  # type: ignore[union-attr]

    def calm(self) -> None:
        usual, self._usual = self._usual, None
        if usual is not None:
            sys.modules["torch.utils.data._utils"].MP_STATUS_CHECK_INTERVAL = usual  # type: ignore[attr-defined]


class _Late(Exception):
    """It takes too long to look."""


class _Found:
    """The objects of these classes, where their modules are imported, by one look at all objects. By their types alone:
    what stands for another object must not be asked. Held weakly, so that it is not we who hold them.
    """

    def __init__(self, *wanted: tuple[str, str]) -> None:
        self._found: dict[tuple[str, str], list[weakref.ref[typing.Any]]] = {one: [] for one in wanted}
        classes = [(one, kind) for one in wanted
                   if isinstance(kind := getattr(sys.modules.get(one[0]), one[1], None), type)]
        if not classes:
            return
        objects = gc.get_objects()
        if len(objects) > OBJECTS_MAX:
            raise _Late(f"there are {len(objects)} objects")
        of: dict[type, tuple[str, str] | None] = {}
        for thing in objects:
            kind = type(thing)
            if kind not in of:
                of[kind] = next((one for one, wanted_kind in classes if issubclass(kind, wanted_kind)), None)
            one = of[kind]
            if one is not None:
                with contextlib.suppress(TypeError):
                    self._found[one].append(weakref.ref(thing))

    def of(self, one: tuple[str, str]) -> list[typing.Any]:
        return [thing for thing in (ref() for ref in self._found.get(one, ())) if thing is not None]


def _of_loaders(found: _Found) -> set[typing.Any]:
    """Workers and threads of data loaders that are to keep them."""
    stay: set[typing.Any] = set()
    for loader in found.of(LOADER):
        if getattr(loader, "_persistent_workers", False):
            stay.update(loader._workers)
            stay.add(getattr(loader, "_pin_memory_thread", None))
            stay.update(queue._thread for queue in loader._index_queues)
    return stay


def _has_cuda() -> bool:
    cuda = sys.modules.get("torch.cuda")
    return bool(cuda and cuda.is_initialized())


def _settings() -> dict[str, typing.Any]:
    """What is of the whole process, and a round may change."""
    found: dict[str, typing.Any] = {f"the handler of {number.name}": signal.getsignal(number) for number in SIGNALS}
    with contextlib.suppress(OSError):  # it was removed
        found["the working directory"] = os.getcwd()
    torch = sys.modules.get("torch")
    for what, name in MODES:
        if hasattr(torch, name):
            found[what] = getattr(torch, name)()
    return found


def _name(place: dict[str, typing.Any], thing: typing.Any) -> str:
    return next((f" as '{key}'" for key, value in list(place.items()) if value is thing), "")


def _is_torchs(thing: typing.Any) -> bool:
    return str(type(thing).__module__).partition(".")[0] == "torch"


def _part(thing: typing.Any, name: str) -> typing.Any:
    """An attribute of an object that may be any. None."""
    try:
        return getattr(thing, name, None)
    except Exception:  # pylint: disable=broad-exception-caught
        return None  # one that stands for another object, which is not there


def _module_of(place: dict[str, typing.Any]) -> types.ModuleType | None:
    """Whose variables they are."""
    module = sys.modules.get(str(place.get("__name__")))
    return module if isinstance(module, types.ModuleType) and vars(module) is place else None


class _Holders:
    """Who has something of the program's, for people. A question is a look at all objects."""

    def __init__(self) -> None:
        self._until = time.monotonic() + FIND_S

    def _referrers(self, *things: typing.Any) -> list[typing.Any]:
        if time.monotonic() > self._until:
            raise _Late(f"it takes more than {FIND_S} s")
        return gc.get_referrers(*things)

    def of(self, thing: typing.Any) -> str | None:
        """None when PyTorch alone does, whose caches and hooks come and go."""
        for referrer in self._referrers(thing):
            found = None
            if isinstance(referrer, dict):
                found = self._of_dict(referrer, thing)
            elif isinstance(referrer, (list, set)):
                found = None if self._is_torchs(self._referrers(referrer)) else f"a {type(referrer).__name__}"
            elif type(referrer).__module__ not in ("builtins", "functools") and not _is_torchs(referrer):
                found = f"'{type(referrer).__name__}'{_name(_part(referrer, '__dict__') or {}, thing)}"
            if found:
                return found
        return None

    def _of_dict(self, place: dict[str, typing.Any], thing: typing.Any) -> str | None:
        """As of(), of one that is in this dict."""
        module = _module_of(place)
        if module is not None:
            return None if _is_part_of_torch(module) else f"module '{module.__name__}'{_name(place, thing)}"
        owners = self._referrers(place)
        for owner in owners:
            if isinstance(owner, dict) and owner.get("_modules") is place or _part(owner, "_modules") is place:
                return None  # a part of a module
            if _part(owner, "__dict__") is place:
                return None if _is_torchs(owner) else f"'{type(owner).__name__}'{_name(place, thing)}"
        return None if self._is_torchs(owners) else "a dict"

    def _is_torchs(self, owners: list[typing.Any]) -> bool:
        """Whether one of them is PyTorch's: an object, or the variables of an object or a module."""
        if any(_is_torchs(owner) for owner in owners):
            return True
        places = [owner for owner in owners if isinstance(owner, dict)]
        modules = [_module_of(place) for place in places]
        if any(module is not None and _is_part_of_torch(module) for module in modules):
            return True
        places = [place for place, module in zip(places, modules) if module is None]
        return bool(places) and any(
            _is_torchs(one) and any(_part(one, "__dict__") is place for place in places)
            for one in self._referrers(*places))


def _is_part_of_torch(module: types.ModuleType) -> bool:
    return module.__name__.partition(".")[0] == "torch"


def _outermost(modules: list[typing.Any]) -> list[weakref.ref[typing.Any]]:
    """Those that are no parts of others."""
    parts = {id(part) for module in modules for name, part in module.named_modules() if name}
    return [weakref.ref(module) for module in modules if id(module) not in parts]


class Leftovers:
    """Made when a round begins; find() says in lines what is left when it has ended."""

    def __init__(self, number: int) -> None:
        self._where = f"round {number} has ended, and"
        self._threads = set(threading.enumerate())
        self._children = {child.pid for child in multiprocessing.active_children()}
        self._graphs: weakref.WeakSet[typing.Any] | None = weakref.WeakSet()
        if _has_cuda():
            try:
                self._graphs.update(_Found(GRAPH).of(GRAPH))
            except _Late:
                self._graphs = None  # those of the round cannot be told from others
        self._settings = _settings()
        self._changed: dict[str, typing.Any] = {}  # was put back
        self._groups: dict[int, tuple[typing.Any, str, int]] = {}  # (who is there when it is, name, size)

    def note_groups(self) -> None:
        """Before the process groups are left."""
        for group, name, ranks in _groups.groups():
            with contextlib.suppress(TypeError):  # it cannot be seen whether that one is held
                self._groups[id(group)] = (weakref.ref(group), name, len(ranks))

    def put_back(self) -> None:
        """An exception may meet no_grad() on its way out, in a generator or in C."""
        was = self._settings.get(GRAD)
        torch = sys.modules.get("torch")
        if was is not None and torch is not None and torch.is_grad_enabled() != was:
            torch.set_grad_enabled(was)
            self._changed[GRAD] = not was

    def find(self) -> typing.Iterator[str]:
        """After put_back()."""
        yield from (f"{self._where} {line}" for line in self._lines())

    def _lines(self):
        try:
            found = _Found(*WRAPPERS, LOADER, GRAPH)
        except _Late as late:
            found = None
            yield f"what it has left in memory is not looked for: {late}"
        if _groups.groups():
            yield "its process group is still there"
        elif found:
            yield from self._of_groups(found)
        if found:  # those of loaders could not be told from others
            yield from self._of_processes(found)
        yield from self._of_settings()
        if found and self._graphs is not None and _has_cuda():
            graphs = sum(graph not in self._graphs for graph in found.of(GRAPH))
            if graphs:
                yield (f"CUDA graphs that were captured in it are still held ({graphs}): capture those with "
                       "collective calls again")

    def _of_groups(self, found):
        wrapped = False
        for one in WRAPPERS[:-1]:
            count = len(found.of(one))
            if count:
                wrapped = True
                yield f"a {one[1]} of it is still held{f' ({count} of them)' if count > 1 else ''}: {AGAIN}"
        holders = _Holders()
        try:
            if self._holds_one(holders, _outermost(found.of(WRAPPERS[-1]))):
                wrapped = True
                yield f"a {WRAPPERS[-1][1]} of it is still held: {AGAIN}"
            if not wrapped:  # they hold theirs
                yield from self._of_held(holders)
        except _Late as late:
            yield f"something of its process groups is still held, and {late} to find out by whom"

    @staticmethod
    def _holds_one(holders, modules):
        for ref in modules[:ASK_MAX]:
            module = ref()
            if module is not None and holders.of(module):
                return True
        return False

    def _of_held(self, holders):
        for group, name, size in self._groups.values():
            held = group()
            holder = holders.of(held) if held is not None else None
            if holder:
                yield f"process group '{name}' of {size} ranks is still held by {holder}: make it in each round"

    def _of_processes(self, found):
        threads = [thread for thread in threading.enumerate()
                   if thread not in self._threads and thread.name not in OWN_THREADS
                   and not thread.name.startswith(COMPILER)
                   and not isinstance(thread, threading._DummyThread)]  # was not made by Python
        children = [child for child in multiprocessing.active_children() if child.pid not in self._children]
        stay = _of_loaders(found) if children else set()
        for thread in threads:
            if thread not in stay:
                yield f"thread '{thread.name}' that was started in it still runs"
        until = time.monotonic() + DIE_S
        for child in children:
            if child not in stay:
                child.join(max(0, until - time.monotonic()))  # a loader may just have told it to end
                if child.is_alive():
                    yield f"process '{child.name}' ({child.pid}) that was started in it still runs"

    def _of_settings(self):
        now = {**_settings(), **self._changed}
        for what, was in self._settings.items():
            if what in now and now[what] != was:
                yield (f"{what} is {now[what]!r}, and was {was!r} when it began"
                       f"{': it is so again' if what in self._changed else ''}")
