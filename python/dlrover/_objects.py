# SPDX-License-Identifier: Apache-2.0
"""What is kept of a trainer's further objects: schedulers, scalers, averages, positions in the data."""
from __future__ import annotations

import collections
import typing

import torch

from . import _slots
from ._dtensor import is_dtensor
from ._names import short
from ._plain import Ref

APART = 1 << 16  # bytes of a tensor that is a region; smaller ones are in the note
MAPPINGS = (dict, collections.OrderedDict, collections.Counter)


def _split(node, path, found):
    """node with a Ref for each large tensor, which goes into found by name. Without functions (some
    schedulers name one, or have others that do): they are the program's.
    """
    if type(node) in MAPPINGS:
        return type(node)({k: _split(v, f"{path}.{k}", found) for k, v in node.items()
                           if isinstance(v, torch.Tensor) or not callable(v)})
    if type(node) in (list, tuple):
        return type(node)(_split(v, f"{path}.{i}", found) for i, v in enumerate(node))
    if (isinstance(node, torch.Tensor) and node.layout is torch.strided and not is_dtensor(node)
            and node.numel() * node.element_size() >= APART):
        found[short(path)] = node.detach()
        return Ref(short(path), node.device.type)
    return node


def _join(node, tensors):
    """The value again, of what _split() made of it."""
    if type(node) is Ref:
        return tensors[node.region].clone()  # the object may keep it and change it
    if type(node) in MAPPINGS:
        return type(node)({k: _join(v, tensors) for k, v in node.items()})
    if type(node) in (list, tuple):
        return type(node)(_join(v, tensors) for v in node)
    return node


def _refs(node):
    if type(node) is Ref:
        yield node
    elif type(node) in (list, tuple, *MAPPINGS):
        for one in node.values() if type(node) in MAPPINGS else node:
            yield from _refs(one)


def _with_functions(saved, now):
    """As now has them, in the places where they were taken out."""
    if type(saved) in MAPPINGS and isinstance(now, dict):
        functions = {k: v for k, v in now.items() if callable(v)}
        return type(saved)({**functions, **{k: _with_functions(v, now.get(k)) for k, v in saved.items()}})
    if type(saved) in (list, tuple) and type(now) is type(saved) and len(now) == len(saved):
        return type(saved)(map(_with_functions, saved, now))
    return saved


def has_state(one: typing.Any) -> bool:
    return hasattr(one, "state_dict") and hasattr(one, "load_state_dict")


def check(name: str, one: typing.Any) -> None:
    """ValueError where an object is not one that can be kept."""
    for key, part in one.items() if isinstance(one, dict) else [(None, one)]:
        if not has_state(part) and not (callable(part) and key is None):
            what = name if key is None else f"{name}[{key!r}]"
            raise ValueError(f"{what} is a {type(part).__name__}, which has no state_dict() and load_state_dict(): "
                             "give an object that has them, a dict of such objects, or a function")


def read(one: typing.Any) -> typing.Any:
    if isinstance(one, dict):
        return {key: part.state_dict() for key, part in one.items()}
    return one.state_dict() if has_state(one) else one()


def _called(name, one):
    """The names of what one is, as messages have them."""
    return [f"{name}[{key!r}]" for key in one] if isinstance(one, dict) else [name]


def _write(one, saved, name):
    """ValueError, with the name of what did not take it."""
    if isinstance(one, dict):
        for (key, part), called in zip(one.items(), _called(name, one)):
            if key in saved:
                _write(part, saved[key], called)
        return
    try:
        if has_state(one):
            one.load_state_dict(_with_functions(saved, one.state_dict()))
        else:
            one(saved)
    except Exception as error:  # pylint: disable=broad-exception-caught
        text = " ".join(str(error).split())  # it is not ours: it may be anything
        raise ValueError(f"'{name}' did not take its state: {text or type(error).__name__}") from error


class Objects:
    """Objects by name. Their small values go into the note; a tensor of 64 KiB or more is copied into
    a buffer, which is a region: nobody knows when such an object changes.
    """

    def __init__(self, objects: dict[str, typing.Any]) -> None:
        self._objects = objects
        self._found, self.buffers = {}, {}

    def look(self) -> dict[str, typing.Any]:
        """The values as they are now, for the note. ValueError when one holds itself."""
        self._found = {}
        try:
            return {name: _split(read(one), name, self._found) for name, one in self._objects.items()}
        except RecursionError:
            raise ValueError("the state is nested too deeply, or holds itself") from None

    @staticmethod
    def _form(tensors):
        return {name: (one.shape, one.dtype, one.device) for name, one in tensors.items()}

    def fits(self) -> bool:
        """Whether what look() found has the buffers it needs."""
        return self._form(self._found) == self._form(self.buffers)

    def make_buffers(self) -> None:
        self.buffers = {name: torch.empty(one.shape, dtype=one.dtype, device=one.device)
                        for name, one in self._found.items()}

    def take_over(self, fence: typing.Callable[[], None]) -> None:
        """Fills them. The last save may be reading them: fence() comes first."""
        if self.buffers:
            fence()
        for name, one in self._found.items():
            self.buffers[name].copy_(one)
        self._found = {}  # they may be copies that the object made for this

    def prepare(self, saved: dict[str, typing.Any], had: dict[str, typing.Any]) -> None:
        """Buffers for what the version has."""
        self.buffers = {}
        for ref in _refs(saved):
            if ref.region not in had:
                raise ValueError(f"the version lacks the tensor '{ref.region}'")
            region = had[ref.region]
            on_gpu = ref.device == "cuda" and torch.cuda.is_available()
            self.buffers[ref.region] = torch.empty(region.shape, dtype=_slots.torch_type(region),
                                                   device="cuda" if on_gpu else "cpu")

    def put(self, saved: dict[str, typing.Any]) -> None:
        """What was loaded, given to the objects."""
        for name, one in self._objects.items():
            if name in saved:
                _write(one, _join(saved[name], self.buffers), name)

    def names(self, saved: dict[str, typing.Any]) -> tuple[set[str], set[str]]:
        """Of the objects here, and of those that were saved: the parts of what is a dict of them by themselves."""
        here, there = set(), set()
        for name in self._objects.keys() | saved.keys():
            one, was = self._objects.get(name), saved.get(name)
            if name in self._objects:
                here.update(_called(name, one))
            if name in saved:
                there.update(_called(name, was) if isinstance(one, dict) else [name])
        return here, there
