# SPDX-License-Identifier: Apache-2.0
"""The state of a PyTorch optimizer, by the names of its parameters. It is never made here: what the
optimizer has not made in its own steps is not there, and a version says what it had.
"""
from __future__ import annotations

import json
import re
import typing
import weakref

import torch

from . import _slots
from ._dtensor import is_dtensor, local

INNER = ("state", "param_groups")  # what a wrapper's state dict has of the optimizer in it
SAMPLE = 256  # items of a tensor by which a copy is known
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")  # of a tensor that is a region by itself


def is_optimizer(one: typing.Any) -> bool:
    return all(hasattr(one, name) for name in (*INNER, "step")) and not isinstance(one, type)


def _parts(given):
    """What a wrapper or a collection is made of: (part of the name, object)."""
    if isinstance(given, dict):
        return [(f".{key}", one) for key, one in given.items()]
    if isinstance(given, (list, tuple)):
        return [(f".{i}", one) for i, one in enumerate(given)]
    found = []
    for name, one in vars(given).items() if hasattr(given, "__dict__") else ():
        for suffix, inner in _parts(one) if isinstance(one, (list, tuple)) else [("", one)]:
            if is_optimizer(inner):
                found.append((f".{name}{suffix}", inner))
    return found


def find(given: typing.Any, name: str, found: dict[str, torch.optim.Optimizer]) -> None:
    """Puts into found, by name, each optimizer with a state of its own that given is, wraps or holds. Alone in
    its wrapper it has the wrapper's name. ValueError when there is none.
    """
    parts = _parts(given)
    own = given if is_optimizer(given) else None
    if own is not None and any(is_optimizer(p) and p.state is own.state for _, p in parts):
        own = None  # a view of the one inside
    if own is not None and all(own.state is not one.state for one in found.values()):
        found[name] = own
    for suffix, one in parts:
        alone = own is None and len(parts) == 1 and not isinstance(given, (dict, list, tuple))
        if all(one is not known for known in found.values()):
            find(one, name if alone else name + suffix, found)
    if own is None and not parts:
        raise ValueError(f"{name} is a {type(given).__name__}, which has neither state and param_groups nor "
                         "an optimizer that has them: give the torch.optim.Optimizer itself")


def companions(given: typing.Any, name: str) -> dict[str, typing.Any]:
    """Scalers that a wrapper has beside its optimizer (as Accelerate's and Megatron's), by name."""
    if isinstance(given, (dict, list, tuple)):
        found = {}
        for suffix, one in _parts(given):
            found.update(companions(one, name + suffix))
        return found
    return {f"{name}.{key}": one for key, one in getattr(given, "__dict__", {}).items()
            if key.endswith("scaler") and hasattr(one, "state_dict") and hasattr(one, "load_state_dict")}


class Rest:
    """What the state dict of an optimizer, or of its wrapper, has beside state, options and tensors that are
    named anyhow: loss scales, counters. An object as Objects takes it.
    """

    def __init__(self, given: typing.Any, named: weakref.WeakMethod) -> None:
        self._given, self._named = given, named  # weak: its object holds this one

    @staticmethod
    def needed(given: typing.Any) -> bool:
        own = getattr(type(given), "state_dict", None)
        return own not in (None, torch.optim.Optimizer.state_dict) and not isinstance(given, dict)

    def _walk(self, node, path, named, found):
        if isinstance(node, torch.Tensor) and local(node).data_ptr() in named:
            return
        if isinstance(node, dict):
            inner = all(key in node for key in INNER)
            for key, one in node.items():
                if not (inner and key in INNER):
                    self._walk(one, (*path, key), named, found)
        elif isinstance(node, (list, tuple)):
            for i, one in enumerate(node):
                self._walk(one, (*path, i), named, found)
        else:
            found[path] = node

    def state_dict(self) -> dict[tuple, typing.Any]:
        found = {}
        self._walk(self._given.state_dict(), (), self._named()(), found)
        return found

    def load_state_dict(self, saved: dict[tuple, typing.Any]) -> None:
        """Through the wrapper's own, with all else as it is; not when nothing differs."""
        whole = self._given.state_dict()
        now = {}
        self._walk(whole, (), self._named()(), now)
        if all(key in now and _same(one, now[key]) for key, one in saved.items()):
            return
        for path, one in saved.items():
            whole = _with(whole, path, one)
        self._given.load_state_dict(whole)


def _same(a, b):
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return type(a) is type(b) and a.shape == b.shape and bool((a == b).all())
    return type(a) is type(b) and a == b


def _with(node, path, value):
    """A copy of node in which value is at path."""
    if not path:
        return value
    at = path[0]
    if isinstance(node, dict):
        copy = type(node)(node)
    else:
        copy = list(node)
    copy[at] = _with(node[at], path[1:], value)
    return tuple(copy) if isinstance(node, tuple) else copy


def _sample(tensor, dtype):
    tensor = local(tensor).detach()
    return tuple(tensor.shape), tensor.reshape(-1)[:SAMPLE].to(dtype).cpu().view(torch.uint8).numpy().tobytes()


def _sources(copies, weights):
    """{name of a copy: name of the weight that it is of}, by what they hold; none where that is not one alone. Both
    are {name: tensor}.
    """
    found = {}
    for dtype in {one.dtype for one in weights.values()} if copies else ():
        of, by = {}, {}
        for names, tensors in (of, weights), (by, copies):
            for name, one in tensors.items():
                if one.numel() and (tensors is copies or one.dtype == dtype):
                    names.setdefault(_sample(one, dtype), []).append(name)
        found.update({ours[0]: of[key][0] for key, ours in by.items() if len(ours) == len(of.get(key, ())) == 1})
    return found


class State:
    """One optimizer's. labels: what the model's parameters are called, by their id; a parameter that is
    none of these (f32 copies that an optimizer steps in the place of the weights) is a region itself.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, name: str) -> None:
        self.optimizer, self.name = optimizer, name
        self._labels = []
        self._ready = None  # {label: {key: tensor}} that restore() fills
        self._has_plain, self._on_host, self._order = False, set(), {}
        self._members, self._copied, self._groups_from = b"[]", {}, []

    def parameters(self) -> list[torch.Tensor]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def count(self) -> tuple[int, ...]:
        """Another one means that there is something that has no name yet, or is gone."""
        held = [one for one in self.optimizer.state.values() if isinstance(one, dict)]
        # By identity, too: a state that was emptied and made again has as many.
        return (hash(tuple(map(id, held))), len(self.optimizer.state) + sum(map(len, held)),
                *(len(group["params"]) for group in self.optimizer.param_groups))

    @staticmethod
    def _is_region(key, value):
        return isinstance(value, torch.Tensor) and type(key) is str and KEY.fullmatch(key)

    def label(self, labels: dict[int, str]) -> None:
        """ValueError for state of what is no parameter, which nothing could find again."""
        parameters = self.parameters()
        self._labels = [labels.get(id(p)) or f"master.{at}" for at, p in enumerate(parameters)]
        known = {id(p) for p in parameters}
        if len(set(self._labels)) < len(known):
            twice = next(one for one in self._labels if self._labels.count(one) > 1)
            raise ValueError(f"{self.name} has two parameters that are called '{twice}', of the model and of a module "
                             "beside it: give that module another name")
        for key in self.optimizer.state:
            if isinstance(key, torch.Tensor) and id(key) not in known:
                raise ValueError(f"{self.name} keeps state of a tensor of shape {tuple(key.shape)} that is in "
                                 "none of its param_groups: add_param_group() it")

    def find_sources(self, weights: dict[str, torch.Tensor]) -> None:
        """Of which weights its own parameters are copies, while they still are: before the first step."""
        own = {label: p for label, p in zip(self._labels, self.parameters()) if label not in weights}
        self._copied = _sources(own, weights)

    def _members_now(self):
        at, found = 0, []
        for group in self.optimizer.param_groups:
            found.append(self._labels[at:at + len(group["params"])])
            at += len(group["params"])
        return found

    def tensors(self, labels: dict[int, str]) -> typing.Iterator[tuple[str, typing.Any, typing.Any]]:
        """(name, holder, key) of each tensor, after label()."""
        at = 0
        for group in self.optimizer.param_groups:
            for i, p in enumerate(group["params"]):
                name = f"{self.name}.{self._labels[at]}"
                if id(p) not in labels:
                    yield f"{name}.parameter", group["params"], i
                holder = self._holder(at, p)
                for key in sorted(k for k, v in holder.items() if self._is_region(k, v)):
                    yield f"{name}.{key}", holder, key
                at += 1

    def _holder(self, at, p):
        if self._ready is not None:
            return self._ready.get(self._labels[at], {})
        holder = self.optimizer.state.get(p)
        return holder if isinstance(holder, dict) else {}

    # --- what is no tensor -----------------------------------------------------------------

    def _plain_of(self, holder):
        if isinstance(holder, dict):
            return {k: v for k, v in holder.items() if not self._is_region(k, v)}
        return holder

    def note(self) -> dict[str, typing.Any]:
        """Options, and what of the state is no tensor of a parameter."""
        state, plain = self.optimizer.state, {}
        if self._has_plain:
            for label, p in zip(self._labels, self.parameters()):
                found = self._plain_of(state[p]) if p in state else {}
                if not isinstance(found, dict) or found or not state.get(p, True):
                    plain[label] = found
        groups = [{k: v for k, v in g.items() if k != "params" and not callable(v) or isinstance(v, torch.Tensor)}
                  for g in self.optimizer.param_groups]
        return {"groups": groups, "members": self._members, "copied": self._copied, "plain": plain,
                "host": sorted(self._on_host), "keys": list(self._order),
                "other": {k: v for k, v in state.items() if not isinstance(k, torch.Tensor)}}

    def look(self) -> None:
        """What there is besides tensors, once for a layout."""
        self._has_plain, self._on_host, self._order = False, set(), {}
        self._members = json.dumps(self._members_now()).encode()
        for p in self.parameters():
            holder = self.optimizer.state.get(p)
            if holder is None:
                continue
            if not isinstance(holder, dict) or not holder or self._plain_of(holder):
                self._has_plain = True
            self._order.update(dict.fromkeys(holder if isinstance(holder, dict) else ()))
            if p.device.type != "cpu" and isinstance(holder, dict):
                self._on_host.update(k for k, v in holder.items() if self._is_region(k, v)
                                     and v.device.type == "cpu")

    # --- restore ----------------------------------------------------------------------------

    def prepare(self, note: dict[str, typing.Any], had: dict[str, typing.Any]) -> None:
        """Makes room beside the optimizer's state for the tensors that the version has. Nothing of the
        optimizer's is called or changed, but that a tensor is loaded in place that is there already. ValueError
        where parameters are not where they were.
        """
        self._groups_from = self._match_groups(note)
        self._check_copies(note.get("copied", {}))
        at_of = dict(zip(self._labels, self.parameters()))
        self._ready = {}
        for name, region in had.items():
            label, key = self._split(name)
            if label in at_of:
                self._ready.setdefault(label, {})[key] = self._room(
                    at_of[label], name, region, key in note.get("host", ()))

    def _match_groups(self, note):
        """For each group the one of the version that had its parameters; by position where none is named (or
        None, when that is another's).
        """
        saved, known = note.get("groups", []), json.loads(note.get("members", b"[]"))
        of = {label: at for at, labels in enumerate(known) for label in labels}
        found = []
        for at, labels in enumerate(self._members_now()):
            theirs = {of[label]: label for label in reversed(labels) if label in of}
            first, *others = sorted(theirs) or [None]
            for other in others:
                self._same_options(at, theirs, saved, (first, other))
            found.append(first)
        taken = set(found)
        return [at if one is None and at not in taken else one for at, one in enumerate(found)]

    def _same_options(self, at, theirs, saved, pair):
        first, other = (saved[one] for one in pair)
        for key in first.keys() | other.keys():
            if not _same(first.get(key), other.get(key)):
                raise ValueError(f"param_groups[{at}] of '{self.name}' has '{theirs[pair[0]]}' and "
                                 f"'{theirs[pair[1]]}', which were in two groups that differ in '{key}': "
                                 "group them as they were")

    def _check_copies(self, copied):
        for at, label in enumerate(self._labels):
            was, now = copied.get(label), self._copied.get(label)
            if was and now and was != now:
                raise ValueError(f"parameter {at} of '{self.name}' was a copy of '{was}', it is one of '{now}': "
                                 "give them in the order in which they were")

    def _split(self, name):
        """Label and key of a tensor of the state; no label where it is something else."""
        path, _, key = name.rpartition(".")
        label = path[len(self.name) + 1:]
        master = label.startswith("master.") and key == "parameter"
        if not path.startswith(f"{self.name}.") or master or not KEY.fullmatch(key):
            return None, key
        return label, key

    def share(self, name: str, tensor: torch.Tensor) -> None:
        """After prepare(): what the version has under another name only is one tensor again."""
        label, key = self._split(name)
        if label in self._labels:
            self._ready.setdefault(label, {})[key] = tensor

    def _room(self, p, name, region, on_host):
        dtype, device = _slots.torch_type(region), torch.device("cpu") if on_host else p.device
        now = self.optimizer.state.get(p)
        now = now.get(name.rpartition(".")[2]) if isinstance(now, dict) else None
        if (isinstance(now, torch.Tensor) and now.shape == region.global_shape and now.dtype == dtype
                and (now.device == device or is_dtensor(now))):
            return now
        if p.shape == region.global_shape:  # strides, and placements, as the optimizer gives them
            where = {} if is_dtensor(p) else {"device": device}
            return torch.empty_like(p.detach(), dtype=dtype, requires_grad=False, **where)
        if region.shape != region.global_shape:
            raise ValueError(f"'{name}' was saved in parts of a whole of {region.global_shape}, which is not the shape "
                             f"of its parameter, {tuple(p.shape)}: make the optimizer's state before restore()")
        return torch.empty(region.shape, dtype=dtype, device=device)

    def give_up(self) -> None:
        self._ready = None

    def put(self, note: dict[str, typing.Any], new: typing.Container[str]) -> None:
        """What was loaded becomes the optimizer's. Parameters whose label is in new keep what they have."""
        ready, self._ready = self._ready, None
        for label, p in zip(self._labels, self.parameters()):
            if label in new:
                continue
            loaded, plain = ready.get(label, {}), note["plain"].get(label)
            if not isinstance(plain, (dict, type(None))):
                self.optimizer.state[p] = plain
            elif loaded or plain is not None:
                values = {**loaded, **(plain or {})}
                order = [key for key in note["keys"] if key in values]
                self._put_one(p, {**dict.fromkeys(order), **values})
            else:
                self.optimizer.state.pop(p, None)
        self.optimizer.state.update(note["other"])
        self.put_groups(note["groups"])

    def _put_one(self, p, values):
        now = self.optimizer.state.get(p)
        if not isinstance(now, dict):
            now = self.optimizer.state[p] = {}
        now.clear()
        now.update(values)

    def put_groups(self, saved: list[dict]) -> None:
        for group, at in zip(self.optimizer.param_groups, self._groups_from):
            for key, value in saved[at].items() if at is not None else ():
                now = group.get(key)
                if isinstance(now, torch.Tensor) and isinstance(value, torch.Tensor) and now.shape == value.shape:
                    with torch.no_grad():
                        now.copy_(value)  # schedulers and graphs know this one
                else:
                    group[key] = value
