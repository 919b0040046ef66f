# SPDX-License-Identifier: Apache-2.0
"""The state of a PyTorch optimizer as tensors that exist before they are loaded."""
import torch


def _has_tensors(holder):
    return any(torch.is_tensor(value) for value in holder.values())


class State:
    """The optimizer's tensors and plain values, by the position of their parameter.

    A parameter without a gradient in the first step has no state yet, and regions that are added
    later cost a new layout. So its tensors are made and set aside, named like the others, and put in the
    place of the optimizer's own when those appear.
    """

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.aside = {}  # position: the state kept ready
        self._look()

    def _look(self):
        """As it is now: load_state_dict puts a new mapping in the old one's place."""
        self.state = self.optimizer.state
        self.parameters = [p for g in self.optimizer.param_groups for p in g["params"]]
        self._note_named()

    def _note_named(self):
        self._known = len(self.state)
        self._named = {id(p) for p, holder in self.state.items() if _has_tensors(holder)}

    def _make(self, chosen):
        """Lets the optimizer make the tensors of chosen by an update without gradients: in
        the types it wants, where load_state_dict would give them the parameter's. Weights may
        change by it (weight decay).
        """
        kept = [p.grad for p in self.parameters]
        try:
            for at, p in enumerate(self.parameters):
                p.grad = torch.zeros_like(p) if at in chosen else None
            type(self.optimizer).step(self.optimizer)
        finally:
            for p, gradient in zip(self.parameters, kept):
                p.grad = gradient

    def make_all(self):
        self._look()
        self._make({at for at, p in enumerate(self.parameters) if p.requires_grad})

    def set_aside_missing(self):
        """Makes ready what the first steps did not bring; weights stay as they are."""
        self._look()
        missing = {at: p.detach().clone() for at, p in enumerate(self.parameters)
                   if p.requires_grad and not self.state.get(p)}
        if not missing:
            return
        try:
            self._make(missing)
        except TypeError:  # LBFGS wants a closure; it keeps all its state at one parameter
            pass
        with torch.no_grad():
            for at, value in missing.items():
                self.parameters[at].copy_(value)
        self.forget(missing)

    def forget(self, positions):
        """These have no state yet: the next update is their first."""
        for at in positions:
            made = self.state.pop(self.parameters[at], None)
            if made:
                self.aside[at] = made
        self._note_named()

    def clear(self):
        self.aside.clear()
        self.optimizer.state.clear()

    def tensors(self):
        """(name, holder, key) of each tensor."""
        for at, p in enumerate(self.parameters):
            holder = self.aside.get(at) or self.state.get(p, {})
            for key in sorted(k for k, v in holder.items() if torch.is_tensor(v)):
                yield f"optimizer.{at}.{key}", holder, key

    @staticmethod
    def positions(names):
        """Whose tensors these are, of the names that tensors() gives."""
        return sorted({int(name.split(".")[1]) for name in names if name.startswith("optimizer.")})

    def adopt(self):
        """After updates that made state: the tensors set aside take its values and place.
        False when there is state that was never named.
        """
        if (self.optimizer.state is not self.state
                or sum(len(g["params"]) for g in self.optimizer.param_groups)
                != len(self.parameters)):
            return False
        if len(self.state) == self._known:
            return True
        for at in [at for at in self.aside if self.state.get(self.parameters[at])]:
            if not self._take_place(self.aside.pop(at), self.parameters[at]):
                return False
        self._known = len(self.state)
        return all(id(p) in self._named or not _has_tensors(holder)
                   for p, holder in self.state.items())

    def _take_place(self, ready, parameter):
        for key, value in self.state[parameter].items():
            if not torch.is_tensor(value):
                ready[key] = value
            elif key in ready and ready[key].shape == value.shape:
                ready[key].copy_(value)
            else:
                return False
        self.state[parameter] = ready
        self._named.add(id(parameter))
        return True

    def plain(self):
        """What of the state is no tensor; empty when all of it is."""
        found = [{k: v for k, v in self.state.get(p, {}).items() if not torch.is_tensor(v)}
                 for p in self.parameters]
        return found if any(found) else []

    def put_plain(self, saved):
        for p, values in zip(self.parameters, saved):
            if values:
                self.state[p].update(values)

    def groups(self):
        return [{k: v for k, v in g.items() if k != "params"}
                for g in self.optimizer.param_groups]

    def put_groups(self, saved):
        for group, values in zip(self.optimizer.param_groups, saved):
            group.update(values)
