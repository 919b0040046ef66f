# SPDX-License-Identifier: Apache-2.0
"""What the tensors of a program are called: the same, whatever a model or an optimizer is wrapped in."""
from __future__ import annotations

import hashlib
import re
import typing

import torch

NAME_MAX = 255  # bytes of a region's name
LABEL_MAX = 200  # of a parameter's: what its optimizer calls its state comes behind it
# Of torch.compile, FSDP and activation checkpoints; DDP's "module." is only at the front.
WRAPPERS = re.compile(r"(^|\.)(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
DDP = "module."


def unwrapped(names: typing.Sequence[str]) -> list[str]:
    """The names without what torch.compile, DDP and FSDP put before them; as they are where two would
    become one.
    """
    found, last = list(names), None
    while found != last:
        last, found = found, [WRAPPERS.sub(r"\1", name) for name in found]
        if found and all(name.startswith(DDP) for name in found):
            found = [name[len(DDP):] for name in found]
    return found if len(set(found)) == len(set(names)) else list(names)


def _plainly(mapping):
    """{path without what wrappers put before the keys of its dicts: [name]}, of {name: path}."""
    keys, found = {}, {}
    for path in mapping.values():
        for at, key in enumerate(path):
            if type(key) is str:
                keys.setdefault(path[:at], {})[key] = None
    plain = {path: dict(zip(ones, unwrapped(list(ones)))) for path, ones in keys.items()}
    for name, path in mapping.items():
        found.setdefault(tuple(plain[path[:at]][key] if type(key) is str else key
                               for at, key in enumerate(path)), []).append(name)
    return found


def counterparts(here: dict[str, tuple], there: dict[str, tuple]) -> dict[str, str]:
    """{name here: name there} of what is called the same but for its wrappers. Both are {name: path}, as DCP has
    them of a state dict.
    """
    if here.keys() <= there.keys():
        return {}
    theirs = _plainly(there)
    pairs = [(names, theirs.get(path, ())) for path, names in _plainly(here).items()]
    return {ours[0]: its[0] for ours, its in pairs
            if len(ours) == len(its) == 1 and ours[0] not in there and its[0] not in here}


def short(name: str, most: int = NAME_MAX) -> str:
    """Of at most so many bytes, and still one name for one thing."""
    text = name.encode()
    if len(text) <= most:
        return name
    return f"{text[:most - 33].decode(errors='ignore')}~{hashlib.sha256(text).hexdigest()[:32]}"


class ModuleTensor(typing.NamedTuple):
    """holder[key] is the live one."""

    name: str
    is_parameter: bool
    holder: dict
    key: str


def of_module(module: torch.nn.Module) -> list[ModuleTensor]:
    """All parameters and buffers, those that a state dict leaves out (persistent=False) too."""
    found = []
    for path, part in module.named_modules():
        path += "." if path else ""
        # pylint: disable=protected-access
        for holder in part._parameters, part._buffers:
            found += [ModuleTensor(path + key, holder is part._parameters, holder, key)
                      for key, value in holder.items() if value is not None]
    names = unwrapped([one.name for one in found])
    return [one._replace(name=short(name, LABEL_MAX)) for one, name in zip(found, names)]


def count(module: torch.nn.Module) -> tuple[int, int]:
    """How many of_module() gives; and what is another number where a part was replaced by one like it."""
    # pylint: disable=protected-access
    holders = [holder for part in module.modules() for holder in (part._parameters, part._buffers)]
    return sum(value is not None for one in holders for value in one.values()), hash(tuple(map(id, holders)))


def why_not(tensor: torch.Tensor) -> str:
    """Why a tensor is not memory of its own that a region can be, and what to do; empty where it is."""
    if hasattr(tensor, "device_mesh") and hasattr(tensor, "placements"):
        return ("is a DTensor, of which this rank has a part: add() its local tensor with global_shape and offset, or "
                "use dlrover.bind()")
    if hasattr(tensor, "ds_tensor"):
        return "is cut by DeepSpeed's ZeRO-3, whose parts are not found here: use dlrover.deepspeed(engine)"
    if torch.nn.parameter.is_lazy(tensor):
        return "has no shape yet: run the model once before dlrover.bind()"
    if tensor.is_meta:
        return "is on the meta device: give it memory (to_empty) before dlrover.bind()"
    if tensor.layout is not torch.strided:
        return f"is a tensor of the layout {tensor.layout}: only dense ones are saved"
    if tensor.is_quantized:
        return f"is quantised ({tensor.dtype}), and its scale is no tensor: keep both as tensors"
    if any(size > 1 and step == 0 for size, step in zip(tensor.shape, tensor.stride())):
        return "is an expanded tensor, whose items overlap: give it memory of its own (clone)"
    if tensor.is_conj() or tensor.is_neg():
        return "is the conjugate or the negative of what is in its memory: resolve_conj() or resolve_neg() it"
    if tensor.numel() and not tensor.data_ptr():
        return f"is a {type(tensor).__name__} without memory of its own"
    return ""


def check(name: str, tensor: torch.Tensor) -> None:
    """ValueError where it is none."""
    why = why_not(tensor)
    if why:
        raise ValueError(f"'{name}' {why}")


class ExtraState:
    """What modules keep beside their tensors (get_extra_state). An object as Objects takes it."""

    def __init__(self, module: torch.nn.Module) -> None:
        parts = {path: part for path, part in module.named_modules()
                 if type(part).get_extra_state is not torch.nn.Module.get_extra_state}
        self._parts = dict(zip(unwrapped([path and f"{path}." for path in parts]), parts.values()))

    def __bool__(self) -> bool:
        return bool(self._parts)

    def state_dict(self) -> dict[str, typing.Any]:
        return {path: part.get_extra_state() for path, part in self._parts.items()}

    def load_state_dict(self, saved: dict[str, typing.Any]) -> None:
        if saved.keys() != self._parts.keys():
            raise ValueError(f"{sorted(saved.keys() ^ self._parts.keys())[0]!r} has it on one side only")
        for path, part in self._parts.items():
            part.set_extra_state(saved[path])
