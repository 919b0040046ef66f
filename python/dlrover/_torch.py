# SPDX-License-Identifier: Apache-2.0
"""A PyTorch model and its optimizer as the state of a rank."""
import functools
import os
import pickle
import types

import torch

from ._checkpoint import Checkpoint

EXTRA_ROOM = 1 << 20  # bytes for what is no tensor: learning rates, extra


class Bound:
    """A model and an optimizer whose every tensor is saved and restored in place.

        ck = dlrover.bind(model, optimizer)
        step = ck.restore()               # 0: a fresh start
        while step < last:
            loss(model(...)).backward()
            optimizer.step()              # waits first until the last save let go
            step += 1
            ck.step(step)

    Saved are parameters, buffers, the optimizer's state and options, torch's CPU random
    generator and extra (anything with state_dict and load_state_dict: a scheduler, a
    position in the data). Tensors must be contiguous and keep their memory.
    """

    def __init__(self, model, optimizer=None, extra=None, **options):
        self._model, self._optimizer, self._extra = model, optimizer, extra
        self._options = options
        self._ck = Checkpoint(**options)
        self._named = self._plain = False
        self._note = bytearray(EXTRA_ROOM)
        self._random = torch.get_rng_state()
        self._on_gpu = any(p.is_cuda for p in model.parameters())
        if optimizer is not None:
            self._fence_before_update(optimizer)
        if any(b.is_cuda for b in model.buffers()):
            # Forward passes write buffers; in host memory they are copied at once in begin.
            model.register_forward_pre_hook(lambda *_: self.fence())

    def _stream(self):
        return torch.cuda.current_stream().cuda_stream if self._on_gpu else None

    def _fence_before_update(self, optimizer):
        update = optimizer.step

        @functools.wraps(update)
        def step(_self, *args, **kwargs):
            self.fence()
            return update(*args, **kwargs)

        # A method again, since schedulers look into it.
        optimizer.step = types.MethodType(step, optimizer)

    def _state_tensors(self):
        """The optimizer's tensors by the position of their parameter."""
        at = 0
        for group in self._optimizer.param_groups if self._optimizer else ():
            for parameter in group["params"]:
                for key, value in sorted(self._optimizer.state.get(parameter, {}).items()):
                    if torch.is_tensor(value):
                        yield f"optimizer.{at}.{key}", value
                at += 1

    def _name_all(self):
        """Once every tensor exists: after the first update, or when it is to be loaded."""
        for name, tensor in self._model.named_parameters():
            self._ck.add("model." + name, tensor.detach())
        for name, tensor in self._model.named_buffers():
            self._ck.add("buffer." + name, tensor, "local" if tensor.is_cuda else "blob")
        for name, tensor in self._state_tensors():
            self._ck.add(name, tensor)
        self._ck.add("torch.random", self._random, "blob")
        self._ck.add("python", self._note, "blob")
        self._plain = any(self._plain_state())
        self._named = True

    def _make_state(self):
        """Lets the optimizer make its tensors by an update without gradients. What it does
        to them does not matter: they are about to be loaded.
        """
        kept = [(p, p.grad) for g in self._optimizer.param_groups for p in g["params"]]
        for parameter, _ in kept:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        type(self._optimizer).step(self._optimizer)
        for parameter, gradient in kept:
            parameter.grad = gradient

    def _start_again(self, weights):
        """Nothing was sound after all (files of a program without a job): as if nothing had
        been there.
        """
        with torch.no_grad():
            for parameter, value in zip(self._model.parameters(), weights):
                parameter.copy_(value)
        if self._optimizer is not None:
            self._optimizer.state.clear()
        self._ck.close()
        self._ck = Checkpoint(**self._options)
        self._named = False
        return 0

    def restore(self):
        """Loads the newest version that every rank has. Its step, 0 when there is none."""
        if not self._anything():
            return 0
        alone = "DLROVER_AGENT_SOCKET" not in os.environ
        weights = [p.detach().clone() for p in self._model.parameters()] if alone else []
        if self._optimizer is not None:
            self._make_state()
        self._name_all()
        step = self._ck.restore()
        if step is None:
            return self._start_again(weights)
        torch.set_rng_state(self._random)
        self._read_note()
        return step

    def _anything(self):
        try:
            return bool(self._ck.list(1))
        except OSError:
            return True  # restore says what is wrong with it, to the other ranks too

    def _write_note(self):
        groups = self._optimizer.param_groups if self._optimizer else ()
        note = {"groups": [{k: v for k, v in g.items() if k != "params"} for g in groups],
                "state": self._plain_state() if self._plain else []}
        if self._extra is not None:
            note["extra"] = self._extra.state_dict()
        text = pickle.dumps(note)
        if len(text) > EXTRA_ROOM:
            raise ValueError(f"extra and options take {len(text)} bytes, room is {EXTRA_ROOM}")
        self._note[:len(text)] = text
        self._ck.blob_size("python", len(text))

    def _plain_state(self):
        """What of the optimizer's state is no tensor."""
        return [{k: v for k, v in self._optimizer.state.get(p, {}).items()
                 if not torch.is_tensor(v)}
                for g in self._optimizer.param_groups for p in g["params"]
                ] if self._optimizer else []

    def _read_note(self):
        note = pickle.loads(self._note)  # ends by itself: what follows is not looked at
        parameters = []
        for group, saved in zip(self._optimizer.param_groups if self._optimizer else (),
                                note["groups"]):
            group.update(saved)
            parameters += group["params"]
        for parameter, saved in zip(parameters, note["state"]):
            self._optimizer.state[parameter].update(saved)
        if self._extra is not None:
            self._extra.load_state_dict(note["extra"])

    def step(self, step):
        """The state is that of step now; it is saved beside what follows when a save is due."""
        if not self._named:
            self._name_all()
        self._random.copy_(torch.get_rng_state())
        self._write_note()
        return self._ck.begin(step, self._stream())

    def fence(self):
        """For a program that changes its state elsewhere than in optimizer.step()."""
        self._ck.fence(self._stream())

    def stats(self):
        return self._ck.stats()

    def close(self):
        self._ck.close()


def bind(model, optimizer=None, extra=None, **options):
    """See Bound; options are those of Checkpoint."""
    return Bound(model, optimizer, extra, **options)
