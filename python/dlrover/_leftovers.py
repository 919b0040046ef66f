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
import typing
import weakref

from . import _groups

OWN_THREADS = ("dlrover-round", "dlrover-watch", "dlrover-abort")
JOIN_S = 0.05  # for a worker of a data loader to end by itself
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


@contextlib.contextmanager
def quick_loaders() -> typing.Iterator[None]:
    """Inside, a data loader whose last reference goes waits 0.05 s for each worker in the middle of a sample, and not
    the 5 s for which it would miss the next round.
    """
    utils = sys.modules.get("torch.utils.data._utils")
    usual = getattr(utils, "MP_STATUS_CHECK_INTERVAL", None)
    if usual is None:
        yield
        return
    utils.MP_STATUS_CHECK_INTERVAL = JOIN_S  # type: ignore[union-attr]
    try:
        yield
    finally:
        utils.MP_STATUS_CHECK_INTERVAL = usual  # type: ignore[union-attr]


def _alive(*kinds: tuple[str, str]) -> list[typing.Any]:
    """The objects of these classes, where their modules are imported. By their types alone: what stands for another
    object must not be asked."""
    found = tuple(kind for kind in (getattr(sys.modules.get(module), name, None) for module, name in kinds)
                  if isinstance(kind, type))
    is_one: dict[type, bool] = {}
    things = []
    for thing in gc.get_objects() if found else ():
        kind = type(thing)
        if kind not in is_one:
            is_one[kind] = issubclass(kind, found)
        if is_one[kind]:
            things.append(thing)
    return things


def _of_loaders() -> set[typing.Any]:
    """Workers and threads of data loaders that are to keep them."""
    found: set[typing.Any] = set()
    for loader in _alive(LOADER):
        if getattr(loader, "_persistent_workers", False):
            found.update(loader._workers)
            found.add(getattr(loader, "_pin_memory_thread", None))
            found.update(queue._thread for queue in loader._index_queues)
    return found


def _graphs() -> list[typing.Any]:
    cuda = sys.modules.get("torch.cuda")
    return _alive(GRAPH) if cuda and cuda.is_initialized() else []


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
    return type(thing).__module__.partition(".")[0] == "torch"


def _of_dict(place: dict[str, typing.Any], thing: typing.Any) -> str | None:
    """As _holder(), of one that is in this dict."""
    module = sys.modules.get(str(place.get("__name__")))
    if module is not None and vars(module) is place:
        return f"module '{module.__name__}'{_name(place, thing)}"
    for owner in gc.get_referrers(place):
        if isinstance(owner, dict) and owner.get("_modules") is place or getattr(owner, "_modules", None) is place:
            return None  # a part of a module
        if getattr(owner, "__dict__", None) is place:
            return None if _is_torchs(owner) else f"'{type(owner).__name__}'{_name(place, thing)}"
    return "a dict"


def _holder(thing: typing.Any) -> str | None:
    """Who has it of the program's, for people; None when PyTorch alone does, whose caches and hooks come and go."""
    for referrer in gc.get_referrers(thing):
        found = None
        if isinstance(referrer, dict):
            found = _of_dict(referrer, thing)
        elif isinstance(referrer, (list, set)):
            found = f"a {type(referrer).__name__}"
        elif type(referrer).__module__ not in ("builtins", "functools") and not _is_torchs(referrer):
            found = f"'{type(referrer).__name__}'{_name(getattr(referrer, '__dict__', {}), thing)}"
        if found:
            return found
    return None


class Leftovers:
    """Made when a round begins; find() says in lines what is left when it has ended."""

    def __init__(self, number: int) -> None:
        self._where = f"round {number} has ended, and"
        self._threads = set(threading.enumerate())
        self._children = {child.pid for child in multiprocessing.active_children()}
        self._graphs = weakref.WeakSet(_graphs())
        self._settings = _settings()
        self._groups: dict[int, tuple[typing.Any, str, int]] = {}  # (who is there when it is, name, size)

    def note_groups(self) -> None:
        """Before the process groups are left."""
        for group, name, ranks in _groups.groups():
            with contextlib.suppress(TypeError):  # it cannot be seen whether that one is held
                self._groups[id(group)] = (weakref.ref(group), name, len(ranks))

    def find(self) -> typing.Iterator[str]:
        where = self._where
        yield from (f"{where} {line}" for line in (*self._of_groups(), *self._of_processes(), *self._of_settings()))
        graphs = sum(graph not in self._graphs for graph in _graphs())
        if graphs:
            yield (f"{where} CUDA graphs that were captured in it are still held ({graphs}): capture those with "
                   "collective calls again")

    def _of_groups(self):
        if _groups.groups():
            yield "its process group is still there"
            return
        wrappers: dict[str, int] = {}
        alive = _alive(*WRAPPERS)
        while alive:
            thing = alive.pop()  # so that it is not we who hold it
            name = next(name for module, name in WRAPPERS
                        if isinstance(thing, getattr(sys.modules.get(module), name, ())))
            if name != "FSDPModule" or _holder(thing):
                wrappers[name] = wrappers.get(name, 0) + 1
        for name, count in wrappers.items():
            yield f"a {name} of it is still held{f' ({count} of them)' if count > 1 else ''}: {AGAIN}"
        for group, name, size in self._groups.values():
            held = group()
            holder = _holder(held) if held is not None and not wrappers else None  # they hold theirs
            if holder:
                yield f"process group '{name}' of {size} ranks is still held by {holder}: make it in each round"

    def _of_processes(self):
        threads = [thread for thread in threading.enumerate()
                   if thread not in self._threads and thread.name not in OWN_THREADS]
        children = [child for child in multiprocessing.active_children() if child.pid not in self._children]
        stay = _of_loaders() if children else set()
        for thread in threads:
            if thread not in stay:
                yield f"thread '{thread.name}' that was started in it still runs"
        for child in children:
            if child not in stay:
                yield f"process '{child.name}' ({child.pid}) that was started in it still runs"

    def _of_settings(self):
        now = _settings()
        for what, was in self._settings.items():
            if what in now and now[what] != was:
                back = what == GRAD  # an exception may meet no_grad() on its way out
                if back:
                    sys.modules["torch"].set_grad_enabled(was)
                yield (f"{what} is {now[what]!r}, and was {was!r} when it began"
                       f"{': it is so again' if back else ''}")
