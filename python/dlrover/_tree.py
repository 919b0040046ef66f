# SPDX-License-Identifier: Apache-2.0
"""The state tree of a rank: what is named (modules, optimizers, objects, random numbers) and under which names, and
what changed since. Its tensors are regions, its small values are bytes in a note.
"""
from __future__ import annotations

import errno
import operator
import typing
import weakref

import torch

from . import _dtensor, _names, _plain, _random
from ._checkpoint import Checkpoint, Error, SavedRegion
from ._objects import Objects, check, has_state
from ._optimizer import Rest, State, companions, find, is_optimizer
from ._source import Given, Source

NOTE, RANDOM = "python", "torch.random"  # regions beside the tensors
OPTIONS = ("directory", "rank", "world", "every", "fence_ms", "threads")  # of Checkpoint
RESERVED = ("buffer", "python", "torch")  # names of regions begin with these


class Entry(typing.NamedTuple):
    """holder[key] is the live tensor."""

    name: str
    kind: str
    holder: typing.Any
    key: typing.Any
    box: tuple = (None, None)  # global shape and offset, where the tensor does not say it


def _is_ddp(model):
    """Whether model is, or wraps, a DistributedDataParallel that keeps all of its parameters the same."""
    while isinstance(model, torch.nn.Module):
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            return not getattr(model, "parameters_to_ignore", None) and not getattr(model, "_comm_hooks", None)
        model = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
    return False


def _memory(name, tensor):
    """What there is of it on this rank, global shape, offset (None: it is the whole). ValueError where it cannot be a
    region.
    """
    whole = offset = None
    if _dtensor.is_dtensor(tensor):
        try:
            whole, offset = _dtensor.box(tensor)
        except ValueError as error:
            raise ValueError(f"'{name}' {error}") from None
        tensor = _dtensor.local(tensor)
    _names.check(name, tensor)
    return tensor.detach(), whole, offset


def _room(size):
    """Of the note, which is longer in other steps: what outgrows it is another layout."""
    return 2 * size + 4096


def _each(given, name):
    """(object, name) of what was given as optimizer."""
    if isinstance(given, dict):
        return [(one, f"{name}.{key}") for key, one in given.items()]
    if isinstance(given, (list, tuple)):
        return [(one, f"{name}.{i}") for i, one in enumerate(given)]
    return [(given, name)]


def _forms(tensors):
    return [*map(operator.attrgetter("shape"), tensors), *map(torch.Tensor.is_contiguous, tensors)]


def _where(tensor):
    tensor = _dtensor.local(tensor)
    return tensor.data_ptr(), tensor.shape, tensor.dtype


def decode_note(text: bytearray) -> dict[str, typing.Any]:
    """What write() put there. Error where it is something else."""
    try:
        note = _plain.decode(text)  # ends by itself: what follows is not looked at
        if not isinstance(note, dict) or not {"random", "optimizers", "objects"} <= note.keys():
            raise ValueError("no random numbers")
    except ValueError as error:
        raise Error(errno.EBADMSG, f"'{NOTE}' is not what dlrover.bind() saves: {error}") from None
    return note


class Tree:
    """Names of all that is given, on one Checkpoint. add() each, then complete(). replicated: as bind() has it.
    Nothing here saves, waits or warns.

        save:     refresh(fence); why = look()
                  if why is not None or not fits(): make_room(), name_all(ck)
                  write(ck, fence)
        restore:  note = prepare(text, had, allowed), name_all(ck, had), the regions are filled, put(note, ...)
    """

    def __init__(self, model: torch.nn.Module, replicated: bool | None, sources: typing.Iterable[Source] = ()) -> None:
        self.modules, self.states = {"model": model}, []
        self._sources = [Given(source) for source in sources]
        self.own = {}  # name: what each rank has for itself
        self.on_gpu = False  # a tensor of it
        self.any_kind = False  # what is to be loaded may be replicated or not
        self.labels = {}  # id of a parameter: what it is called
        self._replicated, self._objects = replicated, {}
        self._same, self._text, self._gathering = {}, b"", []
        self._note, self._random = bytearray(), torch.get_rng_state()
        self.forget()

    # --- what is given -------------------------------------------------------------------

    def add_optimizer(self, name: str, given: typing.Any) -> None:
        """One, a collection, or what wraps one. ValueError where there is none in it."""
        found = {state.name: state.optimizer for state in self.states}
        before = len(found)
        find(given, name, found)
        self.states += [State(one, called) for called, one in list(found.items())[before:]]
        for one, called in _each(given, name):
            if Rest.needed(one):
                self._objects[f"{called}.rest"] = Rest(one, weakref.WeakMethod(self._known_addresses))
        given_already = [id(one) for one in self._objects.values()]
        self._objects.update({called: one for called, one in companions(given, name).items()
                              if id(one) not in given_already})

    def add(self, name: str, one: typing.Any) -> None:
        """A module, an optimizer, or an object as Objects takes it. ValueError where it is none of them."""
        if name in RESERVED:
            raise ValueError(f"dlrover.bind(): '{name}' cannot be a name: it is one of its own")
        if isinstance(one, torch.nn.Module):
            self.modules[name] = one
        elif is_optimizer(one):
            self.add_optimizer(name, one)
        else:
            if not has_state(one) and not callable(one) and not isinstance(one, dict):
                raise ValueError(f"dlrover.bind(): '{name}' is neither an option ({', '.join(OPTIONS)}) nor an object "
                                 f"with state_dict() and load_state_dict(), but a {type(one).__name__}")
            self.add_object(name, one)

    def add_object(self, name: str, one: typing.Any) -> None:
        """What is no module and no optimizer. complete() says whether it can be kept."""
        self._objects[name] = one

    def complete(self) -> None:
        """All is added. ValueError, before the first step, names what cannot be saved and says what to do."""
        for name, module in self.modules.items():
            extra_state = _names.ExtraState(module)
            if extra_state:
                self._objects[f"{name}.extra_state"] = extra_state
        self._kept = Objects(self._objects)
        self._kind = "replicated" if self._is_replicated() else "shard"
        self._label()
        for entry in self._entries():
            _memory(entry.name, entry.holder[entry.key])
        for name, one in self._objects.items():
            check(name, one)
            if has_state(one) or not callable(one):  # a function may not be ready yet
                _plain.encode(Objects({name: one}).look()[name], f"the state of '{name}'")
        for state in self.states:
            state.look()
            _plain.encode(state.note(), f"the state of '{state.name}'")
            state.find_sources({one.name: one.holder[one.key] for one in self._of_modules["model"]
                                if one.is_parameter})

    def _is_replicated(self):
        if self._replicated is not None:
            return self._replicated
        return _is_ddp(self.modules["model"]) and all(
            type(state.optimizer).__module__.startswith("torch.optim.") for state in self.states)

    def given(self) -> list[typing.Any]:
        """The objects, those in dicts too."""
        known = list(self._objects.values())
        return known + [one for group in known if isinstance(group, dict) for one in group.values()]

    def _known_addresses(self):
        return {_where(entry.holder[entry.key])[0] for entry in self._entries()}

    # --- names ---------------------------------------------------------------------------

    def _label(self):
        """What each parameter is called, which is what an optimizer's state of it is called, too."""
        self._gathering = [part for module in self.modules.values() for part in _dtensor.gathering(module)]
        self._reshard()
        self._of_modules = {name: _names.of_module(module) for name, module in self.modules.items()}
        self.labels = {}
        for name, tensors in self._of_modules.items():
            for one in tensors:
                label = one.name if name == "model" else f"{name}.{one.name}"
                self.labels.setdefault(id(one.holder[one.key]), label)
        for state in self.states:
            state.label(self.labels)
        covered = set()
        for source in self._sources:
            source.look()
            covered.update(map(id, source.call("covers") or ()))
        if covered:
            self._of_modules = {name: [one for one in tensors if id(one.holder[one.key]) not in covered]
                                for name, tensors in self._of_modules.items()}

    def _reshard(self):
        """After an evaluation FSDP2 may still have whole parameters in the place of those that optimizers know."""
        for part in self._gathering:
            part.reshard()

    def _entries(self):
        """After _label()."""
        for name, tensors in self._of_modules.items():
            for one in tensors:
                kind, of = self._kind, name
                if not one.is_parameter:
                    kind = "local" if one.holder[one.key].is_cuda else "blob"
                    of = "buffer" if name == "model" else name
                yield Entry(f"{of}.{one.name}", kind, one.holder, one.key)
        for state in self.states:
            for name, holder, key in state.tensors(self.labels):
                yield Entry(name, self._kind, holder, key)
        for source in self._sources:
            for name, kind, *box in source.forms():
                yield Entry(name, kind, source.tensors, name, tuple(box))

    def _counts(self):
        return ([_names.count(module) for module in self.modules.values()],
                [state.count() for state in self.states])

    @property
    def named(self) -> bool:
        """Whether what there was at the last look has its names."""
        return self._named

    @property
    def learns(self) -> bool:
        """Whether every parameter has an optimizer and gradients: what has not (a momentum encoder, a target network)
        may be changed by a program wherever it computes a loss. After name_all().
        """
        known = {id(p) for state in self.states for p in state.parameters()}
        return not self._sources and all(
            one.holder[one.key].requires_grad and id(one.holder[one.key]) in known
            for tensors in self._of_modules.values() for one in tensors if one.is_parameter)

    def forget(self) -> None:
        """The next save names all."""
        self._holders, self._keys, self._names, self._addresses, self._forms = [], [], [], [], []
        self._apart = []  # (holder, key, what is saved of a buffer that is no block of memory)
        self._count, self._named = None, False
        self._has_parts = self._as_saved = False

    def name_all(self, ck: Checkpoint, had: dict[str, SavedRegion] | None = None) -> None:
        """What there is now. ValueError and Error name what cannot be; nothing is named then. had: what a version
        that is to be loaded has.
        """
        self.forget()
        ck.clear()
        self._label()
        self.on_gpu, self.own = False, {}
        seen = set()
        for entry in self._entries():
            tensor, *box = _memory(entry.name, entry.holder[entry.key])
            self._has_parts |= box[0] is not None
            kind, box = self._form_of(entry, tensor, box, had or {})
            where = (*_where(tensor), *box)  # a source may have it as another box
            self._holders.append(entry.holder)
            self._keys.append(entry.key)
            self._names.append(entry.name)
            self._addresses.append(where[0])
            self.on_gpu |= tensor.is_cuda
            if where not in seen or not where[0]:
                self._add_tensor(ck, entry, kind, tensor, box)
            seen.add(where)
        for name, tensor, kind in (*((*one, "local") for one in self._kept.buffers.items()),
                                   (RANDOM, self._random, "blob"), (NOTE, self._note, "blob")):
            ck.add(name, tensor, kind)
            self.own[name] = tensor
        self._forms = _forms(self._live())
        self._count = self._counts()
        self._named = True

    def _form_of(self, entry, tensor, box, had):
        """Kind and box that it is named with."""
        kind = entry.kind
        if box[0] is None:
            box = entry.box
        elif kind == "replicated" or box[0] != tensor.shape:
            kind = "shard"  # a DTensor, of which each rank has another part, or some the same
        was = had[entry.name].kind if entry.name in had else kind
        if self.any_kind and {kind, was} == {"shard", "replicated"}:
            kind, self._as_saved = was, True
        return kind, box if kind in ("shard", "replicated") else (None, None)

    def _add_tensor(self, ck, entry, kind, tensor, box):
        if kind == "blob" and not tensor.is_contiguous():
            tensor = tensor.clone(memory_format=torch.contiguous_format)
            self._apart.append((entry.holder, entry.key, tensor))
        ck.add(entry.name, tensor, kind, *box)
        if kind in ("local", "blob"):
            self.own[entry.name] = tensor

    def _live(self):
        found = list(map(operator.getitem, self._holders, self._keys))
        return list(map(_dtensor.local, found)) if self._has_parts else found

    # --- restore -------------------------------------------------------------------------

    def lacking(self, had: typing.Container[str]) -> set[str]:
        """Names of parameters that are not in had."""
        self._label()
        first = {}
        for entry in self._entries():
            if isinstance(entry.holder[entry.key], torch.nn.Parameter):
                where = _where(entry.holder[entry.key])
                first.setdefault(where if where[0] else entry.name, entry.name)
        return {name for name in first.values() if name not in had}

    def prepare(self, text: bytearray, had: dict[str, SavedRegion],
                allowed: tuple[bool, bool]) -> dict[str, typing.Any]:
        """Makes room for what the version has, whose note is text and whose regions are had: the note. allowed: names
        that are left over, or missing. Error says what does not fit.
        """
        self._label()
        self._note = bytearray(_room(len(text)))
        note = decode_note(text)
        self._compare(note, allowed)
        try:
            for source in self._sources:
                source.call("prepare", had)
            for state in self.states:
                state.prepare(note["optimizers"].get(state.name, {}), had)
            self._share(note.get("same", {}))
            self._kept.prepare(note["objects"], had)
        except Exception as error:  # of a source, which is not ours; other ranks wait for this one to say so
            raise Error(errno.EBADMSG, " ".join(str(error).split()) or type(error).__name__) from error
        return note

    def _compare(self, note, allowed):
        """As the library does with names, for what is no region."""
        leftover, missing = allowed
        here, there = self._kept.names(note["objects"])
        here.update(state.name for state in self.states)
        there.update(note["optimizers"])
        lacks, holds = sorted(here - there), sorted(there - here)
        for names, what, allow in ((lacks, "lacks", missing), (holds, "holds", leftover)):
            if names and not allow:
                raise Error(errno.EBADMSG, f"the version {what} '{names[0]}' ({len(names)} in all), unlike what was "
                            "given to dlrover.bind(): allow() lets it be")
        for state in self.states:
            saved = note["optimizers"].get(state.name)
            groups = state.optimizer.param_groups
            if saved and len(saved["groups"]) != len(groups):
                raise Error(errno.EBADMSG, f"'{state.name}' has {len(groups)} param_groups, it had "
                            f"{len(saved['groups'])}: add_param_group() before restore()")

    def _find_same(self):
        """{name: first name} of what has several names, as tables that an optimizer's parameters have in common."""
        first, same = {}, {}
        for entry in self._entries():
            where = _where(entry.holder[entry.key])
            if where[0] and first.setdefault(where, entry.name) != entry.name:
                same[entry.name] = first[where]
        return same

    def _share(self, same):
        tensors = {entry.name: entry.holder[entry.key] for entry in self._entries()} if same else {}
        for name, first in same.items():
            for state in self.states:
                if first in tensors:
                    state.share(name, tensors[first])

    def put(self, note: dict[str, typing.Any], missing: typing.Container[str], joined: bool) -> None:
        """What was loaded is given to those that it is of; missing: names that were not in the version. joined: this
        rank is new, so its random numbers are its own.
        """
        for holder, key, copy in self._apart:
            _dtensor.local(holder[key]).detach().copy_(copy)
        self._kept.put(note["objects"])
        for state in self.states:
            if state.name in note["optimizers"]:
                state.put(note["optimizers"][state.name],
                          {label for label in self.labels.values() if f"model.{label}" in missing})
            else:
                state.give_up()
        for source in self._sources:
            source.call("loaded")
        if not joined:
            torch.set_rng_state(self._random)
            _random.put(note["random"])
        for state in self.states:
            state.look()
        self._same = self._find_same()
        self._hold()

    def give_up(self) -> None:
        """Nothing was loaded: what was made ready is not what the training has."""
        for state in self.states:
            state.give_up()
        self._kept.buffers = {}
        self.forget()

    def _hold(self):
        """What was named is looked for where it is now. Where it is something else, all is named at the first save."""
        now = list(self._entries())
        self._named = [entry.name for entry in now] == self._names and not self._as_saved
        self._holders, self._keys = [entry.holder for entry in now], [entry.key for entry in now]
        self._count = self._counts()

    # --- saving --------------------------------------------------------------------------

    def _changed(self):
        """What is no longer as it was named: None when all of it is, no text where that was to be expected."""
        counts = self._counts()
        if counts[0] != self._count[0]:
            return "the model has parameters or buffers it had not before"
        if [one[2:] for one in counts[1]] != [one[2:] for one in self._count[1]]:
            return "the optimizer has parameters it had not before"
        if counts != self._count or any(source.look() for source in self._sources):
            return ""  # it has made state
        try:
            tensors = self._live()
            now = list(map(torch.Tensor.data_ptr, tensors))
        except (KeyError, IndexError, TypeError, RuntimeError):
            return ""
        for old, new, what in ((self._addresses, now, "is at another address"),
                               (self._forms, _forms(tensors), "has another shape or order")):
            if old != new:
                at = next(i for i, one in enumerate(old) if new[i] != one)
                return f"'{self._names[at % len(tensors)]}' {what} than before"
        return None

    def refresh(self, fence: typing.Callable[[], None]) -> None:
        """What sources copy, before look(). fence() waits until the last save has let go of the copies."""
        if self._sources:
            fence()
        for source in self._sources:
            source.call("refresh")

    def look(self) -> str | None:
        """What there is now, and what is no tensor written down: why all is to be named anew, no text where that was
        to be expected, None where it has its names. Raises what prevents a save.
        """
        self._reshard()
        why = self._changed() if self._named else ""
        if why is not None:
            self._label()
            for state in self.states:
                state.look()
            self._same = self._find_same()
        self._text = _plain.encode({"random": _random.get(), "objects": self._kept.look(), "same": self._same,
                                    "optimizers": {state.name: state.note() for state in self.states}},
                                   "the state")
        return why

    def fits(self) -> bool:
        """After look(): whether what is copied has the room that was named."""
        return self._kept.fits() and len(self._text) <= len(self._note)

    def make_room(self) -> None:
        """For what look() found, before name_all()."""
        if not self._kept.fits():
            self._kept.make_buffers()
        if len(self._text) > len(self._note):
            self._note = bytearray(_room(len(self._text)))

    def write(self, ck: Checkpoint, fence: typing.Callable[[], None]) -> None:
        """Copies what is not saved in place. fence() waits until the last save has let go of the copies."""
        self._note[:len(self._text)] = self._text
        ck.blob_size(NOTE, len(self._text))
        self._kept.take_over(fence)
        for holder, key, copy in self._apart:
            copy.copy_(_dtensor.local(holder[key]).detach())
        self._random.copy_(torch.get_rng_state())
