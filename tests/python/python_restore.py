#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What restore() of dlrover.bind() leaves when it fails, and what belongs to what: python_restore.py NAME… (all
without one).
"""
import gc
import os
import shutil
import sys
import warnings
import weakref

import torch
from torch import nn

import dlrover

DIR = os.environ["DLROVER_CKPT_DIR"]


class Position:
    """A place in the data, as loaders keep it."""

    def __init__(self, at=0):
        self.at = at

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, saved):
        self.at = saved["at"]


class Strict(Position):
    def load_state_dict(self, saved):
        raise RuntimeError("another data set")


def net(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))


def sgd(*groups):
    return torch.optim.SGD([{"params": list(one), "lr": rate} for one, rate in groups], momentum=0.9)


def train(model, optimizer):
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()


def saved(model, optimizer, **kept):
    shutil.rmtree(DIR, ignore_errors=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ck = dlrover.bind(model, optimizer, **kept)
        train(model, optimizer)
        assert ck.step(4)
        ck.close()


def refused(model, optimizer, said, untouched=True, **kept):
    """restore() is one Error; and the model is as it was, where nothing else is said."""
    before = [p.detach().clone() for p in model.parameters()]
    ck = dlrover.bind(model, optimizer, **kept)
    try:
        step = ck.restore()
    except dlrover.Error as error:
        assert said in str(error) and "\n" not in str(error), error
        assert untouched or "must not be used" in str(error), error
    else:
        raise AssertionError(f"{step} is restored: {said}")
    finally:
        ck.close()
    same = all(map(torch.equal, before, model.parameters()))
    assert same == untouched, f"tensors were {'not ' if same else ''}loaded: {said}"


def all_or_nothing():
    """What does not fit is found before a tensor is loaded; an object that does not take its state is named."""
    model = net()
    saved(model, sgd((model.parameters(), 0.1)), loaders={"train": Position(3), "test": Position(5)})
    loaders = {"train": Position(), "test": Position()}
    for make, kept, said in (
            (lambda m: sgd((m[0].parameters(), 0.1), (m[2].parameters(), 0.2)), {"loaders": loaders},
             "'optimizer' has 2 param_groups, it had 1"),
            (lambda m: sgd((m.parameters(), 0.1)), {}, "the version holds 'loaders'"),
            (lambda m: sgd((m.parameters(), 0.1)), {"loaders": loaders, "more": Position()}, "lacks 'more'"),
            (lambda m: sgd((m.parameters(), 0.1)), {"loaders": {**loaders, "valid": Position()}},
             "the version lacks 'loaders['valid']' (1 in all)"),
            (lambda m: sgd((m.parameters(), 0.1)), {"loaders": {"train": Position()}},
             "the version holds 'loaders['test']' (1 in all)")):
        other = net(2)
        refused(other, make(other), said, **kept)
    other = net(2)
    refused(other, sgd((other.parameters(), 0.1)), "'loaders['test']' did not take its state: another data set",
            untouched=False, loaders={"train": Position(), "test": Strict()})
    other, some = net(2), {"train": Position(), "valid": Position(7)}
    ck = dlrover.bind(other, sgd((other.parameters(), 0.1)), loaders=some)
    ck.allow(leftover=True, missing=True)
    assert ck.restore() == 4 and (some["train"].at, some["valid"].at) == (3, 7)
    ck.close()


def groups():
    """Options go by the names of the parameters: groups of equal shapes, in another order; not which cannot be."""
    model = net()
    saved(model, sgd((model[0].parameters(), 0.1), (model[2].parameters(), 0.2)))
    other = net(2)
    optimizer = sgd((other[2].parameters(), 0.8), (other[0].parameters(), 0.9))
    ck = dlrover.bind(other, optimizer)
    assert ck.restore() == 4
    assert [one["lr"] for one in optimizer.param_groups] == [0.2, 0.1]
    ck.close()
    other = net(2)
    mixed = sgd((other[0:1].parameters(), 0.8), (other[2:].parameters(), 0.9))
    mixed.param_groups[0]["params"].append(mixed.param_groups[1]["params"].pop())
    refused(other, mixed, "param_groups[0] of 'optimizer' has '0.weight' and '2.bias', which were in two groups "
            "that differ in 'lr'")


def groups_of_older_versions():
    """A version that does not say which parameters a group had: by position."""
    from dlrover._optimizer import State  # pylint: disable=import-outside-toplevel

    note = State.note
    State.note = lambda self: {k: v for k, v in note(self).items() if k in ("groups", "plain", "host", "keys", "other")}
    model = net()
    saved(model, sgd((model[0].parameters(), 0.1), (model[2].parameters(), 0.2)))
    State.note = note
    other = net(2)
    optimizer = sgd((other[0].parameters(), 0.8), (other[2].parameters(), 0.9))
    ck = dlrover.bind(other, optimizer)
    assert ck.restore() == 4
    assert [one["lr"] for one in optimizer.param_groups] == [0.1, 0.2]
    ck.close()


def masters():
    """f32 copies that are given in another order than before are refused, where they can be told apart."""
    def copies(model, order):
        parameters = [list(model.parameters())[i] for i in order]
        return sgd(([p.detach().float().requires_grad_() for p in parameters], 0.1))

    def make(seed, order):
        model = net(seed).bfloat16()
        optimizer = copies(model, order)
        for p in optimizer.param_groups[0]["params"]:
            p.grad = torch.ones_like(p)
        return model, optimizer

    saved(*make(1, (0, 1, 2, 3)))
    model, optimizer = make(2, (0, 1, 2, 3))
    ck = dlrover.bind(model, optimizer)
    assert ck.restore() == 4
    ck.close()
    refused(*make(2, (2, 1, 0, 3)), "parameter 0 of 'optimizer' was a copy of '0.weight', it is one of '2.weight'")


def resized():
    """A tensor that has another size, or other memory, is told once and saved as it is then."""
    def grow(p):
        p.requires_grad_(False).resize_(8, 3).fill_(2)

    def shrink(p):
        p.requires_grad_(False).resize_(2, 3)

    def turn(p):
        p.data = p.data.t()

    def replace(p):
        p.data = torch.full((3, 3), 5.)

    for change in grow, shrink, turn, replace:
        shutil.rmtree(DIR, ignore_errors=True)
        model = net()
        ck = dlrover.bind(model)
        assert ck.step(1)
        ck.fence()
        change(model[0].weight)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for step in 2, 3:
                assert ck.step(step)
        assert len(said) == 1 and "'model.0.weight'" in str(said[0].message), (change, [str(s.message) for s in said])
        ck.close()
        other = net(2)
        change(other[0].weight)
        ck = dlrover.bind(other)
        assert ck.restore() == 3, change
        assert torch.equal(other[0].weight, model[0].weight), (change, other[0].weight, model[0].weight)
        ck.close()


class Wrapper(torch.optim.Optimizer):
    """One with a state dict of its own, as Accelerate's."""

    def __init__(self, inner):
        self.inner = inner

    state = property(lambda self: self.inner.state)
    param_groups = property(lambda self: self.inner.param_groups)

    def state_dict(self):
        return {**self.inner.state_dict(), "count": 1}

    def load_state_dict(self, given):
        pass

    def step(self, closure=None):
        self.inner.step(closure)


def freed():
    """Nothing of the training is left when its names are gone, without a search for cycles."""
    for wrap in (lambda one: one), Wrapper:
        model = net()
        optimizer = sgd((model.parameters(), 0.1))
        ck = dlrover.bind(model, wrap(optimizer))
        train(model, optimizer)
        assert ck.step(1)
        ck.close()
        known = [weakref.ref(one) for one in (model, optimizer, ck)]
        gc.collect()
        gc.disable()
        del model, optimizer, ck
        assert [one() for one in known] == [None] * 3, [type(one()) for one in known]
        gc.enable()
        shutil.rmtree(DIR)


CHECKS = {one.__name__: one for one in (all_or_nothing, groups, groups_of_older_versions, masters, resized, freed)}

if __name__ == "__main__":
    torch.set_num_threads(1)
    failed = []
    for name in sys.argv[1:] or CHECKS:
        try:
            CHECKS[name]()
        except Exception as error:  # the next one may say more
            failed.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
        shutil.rmtree(DIR, ignore_errors=True)
    print("\n".join(failed))
    sys.exit(bool(failed))
