#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What dlrover.feed promises, one function each: python_feed.py NAME…"""
import collections
import errno
import os
import pickle
import random
import sys
import tempfile
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

import dlrover
from dlrover.feed import ExactSum, Feed

N, BATCH, MICRO = 1000, 48, 2


class Numbers:
    """Records that are their numbers."""

    def __len__(self):
        return N

    def __getitem__(self, index):
        return index


def steps_of(feeds, last, workers=0):
    """The records that these parts read in each step, by a stock DataLoader each."""
    loaders = [iter(DataLoader(Numbers(), batch_sampler=feed.sampler(last), num_workers=workers)) for feed in feeds]
    read = []
    while feeds[0].done < last:
        step = []
        for feed, loader in zip(feeds, loaders):
            with feed.step() as now:
                for micro in now:
                    batch = next(loader).tolist()
                    assert batch == micro.indices
                    step += batch
        read.append(step)
    return read


def parts_of(count, **more):
    return [Feed(N, BATCH, MICRO, seed=3, part=part, parts=count, **more) for part in range(count)]


def order():
    want = steps_of(parts_of(1), 50)
    assert all(len(step) == BATCH for step in want)
    flat = sum(want, [])
    for epoch in 0, 1:
        assert sorted(flat[epoch * N:(epoch + 1) * N]) == list(range(N))
    assert flat[:N] != flat[N:2 * N] != list(range(N))
    for count in 2, 5, 24:
        assert steps_of(parts_of(count), 50) == want, count
    assert steps_of(parts_of(2), 50, workers=2) == want
    assert len(parts_of(5)[1].sampler(10)) == sum(1 for _ in parts_of(5)[1].sampler(10))


class InOrder(IterableDataset):
    def __init__(self, feed):
        self.feed = feed

    def __iter__(self):
        return self.feed.share(9)


def share():
    """Data that is read by the dataset itself, in a worker each."""
    feed = parts_of(3)[1]
    want = [index for batch in feed.sampler(9) for index in batch]
    for workers in 0, 2:
        got = [index for batch in DataLoader(InOrder(feed), batch_size=None, num_workers=workers) for index in batch]
        assert got == want, workers
    again = pickle.loads(pickle.dumps(feed))  # as loaders that are spawned get it
    assert list(again.sampler(9)) == list(feed.sampler(9))


def lives(make, ends):
    """What is read where each life has another number of parts, and is killed."""
    state, read = None, []
    for count, last in ends:
        feeds = make(count)
        for feed in feeds:
            if state:
                feed.load_state_dict(state)
        read += steps_of(feeds, last)
        state = pickle.loads(pickle.dumps(feeds[-1].state_dict()))
    return read


def resized():
    def make(count):
        feeds = parts_of(count)
        for feed in feeds:
            feed.set_batch(10, 24, 2)  # said at each start
        return feeds

    ends = (8, 7), (6, 12), (3, 30), (8, 33), (1, 40)
    assert lives(make, ends) == steps_of(make(4), 40)


def torch_epoch(ends, batch):
    """torch's DistributedSampler over one epoch, which goes on at a saved step: it multiplies that by the ranks there
    are now."""
    read, done = [], 0
    for world, steps in ends:
        parts = [list(DistributedSampler(range(60000), world, rank, seed=1)) for rank in range(world)]
        for step in range(done, done + steps):
            for part in parts:
                read += part[step * batch:(step + 1) * batch]
        done += steps
    return read


def changed():
    """A block that says its step is done, data that has grown, and changes of what was read."""
    feed = Feed(N, BATCH, MICRO, seed=3)
    for done in 1, 2:
        with feed.step():
            feed.reached(feed.done + 1)  # as bind()'s step() does
        assert feed.done == done
    feed.set_batch(0, BATCH, MICRO)  # said again
    for step in 0, 1:
        try:
            feed.skip(step, 1)
            raise SystemExit("taken")
        except dlrover.Error as error:
            assert "was asked for already" in str(error), error
    feed.extend(5, 2 * N)
    feed.extend(5, 2 * N)  # said again
    again = pickle.loads(pickle.dumps(feed))
    assert [again.indices(step, 0) for step in range(2, 70)] == [feed.indices(step, 0) for step in range(2, 70)]
    assert max(max(again.indices(step, 0)) for step in range(21, 60)) >= N
    state, later = feed.state_dict(), Feed(2 * N, BATCH, MICRO, seed=3, grown=True)
    later.load_state_dict(state)
    assert later.indices(60, 0) == feed.indices(60, 0)
    try:
        later.skip(1, 1)
        raise SystemExit("taken")
    except dlrover.Error as error:
        assert "was asked for already" in str(error), error
    try:
        dlrover.bind(small_model(), feeds=[feed, later])
        raise SystemExit("taken")
    except ValueError as error:
        assert "two feeds are named 'feed'" in str(error), error


def negative_control():
    """8 -> 6 -> 8 ranks: theirs repeats samples and leaves others out, ours does neither."""
    theirs = collections.Counter(torch_epoch(((8, 400), (6, 300), (8, 400)), 8))
    repeated = sum(count - 1 for count in theirs.values())
    assert repeated > 1000, repeated
    assert 60000 - len(theirs) > 1000, len(theirs)

    done, read = 0, []
    for world, last in ((8, 400), (6, 700), (8, 938)):
        feeds = [Feed(60000, 64, 8, seed=1, part=part, parts=world) for part in range(world)]
        for step in range(done, last):
            for feed in feeds:
                plan = feed.plan(step)
                for micro in range(plan.first, plan.first + plan.count):
                    read += feed.indices(step, micro)
        done = last
    assert sorted(read[:60000]) == list(range(60000))


def data_of(indices):
    x = torch.tensor(indices, dtype=torch.float32)
    return torch.stack((x.sin(), (x * 0.7).cos(), (x * 1.3).sin()), 1), (x * 0.37).sin().unsqueeze(1)


def small_model():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))


def same_bits():
    """The weights of a training that shrinks and grows, with gradients added up exactly and not."""
    def train(ends, exactly):
        model, loss, done = small_model(), nn.MSELoss(), 0
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        exact = ExactSum(model.parameters(), terms=BATCH // MICRO)
        for count, last in ends:
            feeds = parts_of(count)
            for feed in feeds:
                feed.reached(done)
            for done in range(done + 1, last + 1):
                sums = []
                for feed in feeds:
                    with feed.step() as now:
                        for micro in now:
                            x, y = data_of(micro.indices)
                            (micro.weight * loss(model(x), y)).backward()
                            if exactly:
                                exact.add()
                    if not exactly:
                        sums.append([p.grad for p in model.parameters()])
                        optimizer.zero_grad(set_to_none=True)
                if exactly:
                    exact.reduce()
                else:
                    for p, *parts in zip(model.parameters(), *sums):
                        p.grad = sum(parts)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    torch.set_num_threads(1)
    resized_ends = (8, 4), (3, 9), (7, 12)
    assert torch.equal(train(((4, 12),), True), train(resized_ends, True))
    plain = train(((4, 12),), False)
    assert not torch.equal(plain, train(resized_ends, False))  # why it is there
    assert torch.allclose(plain, train(resized_ends, True), atol=1e-4)


def overflow():
    p = nn.Parameter(torch.zeros(2))
    exact = ExactSum([p], terms=2)
    for bad in float("nan"), float("inf"), 3e6:
        p.grad = torch.tensor([0.0, bad])
        try:
            exact.add()
            raise SystemExit("taken")
        except OverflowError:
            pass
    exact.reduce()
    assert not p.grad.any()


def averaged():
    """Two ranks with one and two of three micro-batches, whose gradients DistributedDataParallel averages."""
    model, loss = small_model(), nn.MSELoss()
    indices = Feed(N, 6, 2, seed=3).indices(0, 0) + Feed(N, 6, 2, seed=3).indices(0, 1) + Feed(
        N, 6, 2, seed=3).indices(0, 2)
    x, y = data_of(indices)
    loss(model(x), y).backward()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store, rank = tempfile.mktemp(), 0 if os.fork() else 1
    torch.distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=2)
    wrapped = nn.parallel.DistributedDataParallel(small_model())
    feed = Feed(N, 6, 2, seed=3, part=rank, parts=2)
    with feed.step(wrapped) as now:
        assert len(now) == 1 + rank
        for micro in now:
            a, b = data_of(micro.indices)
            (micro.weight * loss(wrapped(a), b)).backward()
    good = feed.done == 1 and all(torch.allclose(p.grad, q.grad, atol=1e-6)
                                  for p, q in zip(wrapped.parameters(), model.parameters()))
    torch.distributed.barrier()
    if rank:
        os._exit(not good)
    assert good and os.wait()[1] == 0
    os.unlink(store)


def life(last, kill_at=None, seed=3, **more):
    """A training by dlrover.bind(): what it read, and its weights."""
    model, loss, read = small_model(), nn.MSELoss(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    feed = Feed(Numbers(), BATCH, 8, seed=seed, **more)
    ck = dlrover.bind(model, optimizer, feeds=[feed])
    step = ck.restore()
    assert feed.done == step
    batches = iter(DataLoader(Numbers(), batch_sampler=feed.sampler(last), num_workers=1))
    for step in range(step, last):
        if step == 4:
            feed.skip(4, 5)
            batches = iter(DataLoader(Numbers(), batch_sampler=feed.sampler(last)))
        with feed.step() as now:
            for micro in now:
                batch = next(batches).tolist()
                assert batch == micro.indices and len(batch) == 8
                read.append((step, batch))
                x, y = data_of(batch)
                noise = torch.Generator().manual_seed(micro.key % 2**63)
                (micro.weight * loss(model(x + torch.randn(x.shape, generator=noise)), y)).backward()
        optimizer.step()
        optimizer.zero_grad()
        ck.step(step + 1)
        ck.flush()
        if step + 1 == kill_at:
            return read, ck  # no word to anybody
    ck.close()
    return read, torch.cat([p.detach().flatten() for p in model.parameters()])


def told():
    """A loop of one's own: bind()'s step() says how far the feed is."""
    model, feed = small_model(), Feed(N, BATCH, 8, seed=3)
    ck = dlrover.bind(model, feeds=[feed], directory=os.environ["DLROVER_CKPT_DIR"] + "-told")
    assert ck.restore() == 0 == feed.done
    for step in 1, 2, 3:
        ck.step(step)
        assert feed.done == step
    ck.close()
    again = Feed(N, BATCH, 8, seed=3)
    ck = dlrover.bind(model, feeds=[again], directory=os.environ["DLROVER_CKPT_DIR"] + "-told")
    assert ck.restore() == 3 == again.done
    assert next(iter(again.sampler())) == feed.indices(3, 0)
    ck.close()


def bound():
    where = os.environ["DLROVER_CKPT_DIR"]
    os.environ["DLROVER_CKPT_DIR"] = where + "-calm"
    calm, weights = life(12)
    os.environ["DLROVER_CKPT_DIR"] = where
    read, _killed = life(12, kill_at=3)
    for kill_at in 7, None:
        more, end = life(12, kill_at=kill_at)
        read += more
    assert read == calm
    assert torch.equal(end, weights)
    for wrong, said in (({"seed": 4}, "feed 'feed': seed 3 in the version, 4 here"),
                        ({"order": "none"}, "feed 'feed': order full in the version, none here")):
        try:
            life(13, **wrong)
            raise SystemExit("taken")
        except dlrover.Error as error:
            assert error.errno == errno.EBADMSG and said in str(error), error


def refused():
    for wrong, said in (((0, 8, 2), "source 0 has no records"), ((9, 8, 3), "micro_batch 3 does not divide"),
                        (([], 8, 2), "source 0 has no records"), ((9, -1, 2), "global_batch is -1"),
                        ((9, 8, 2, 1, "random"), "order 'random' is not"),
                        ((9, 8, 2, 1, "full", "pad"), "ends 'pad' is not"),
                        (([9, 9], 8, 2, 1, "full", "span", [1, float("nan")]), "weight 1 is nan"),
                        (([9, 9], 8, 2, 1, "full", "span", [1]), "1 weights of 2 sources")):
        try:
            Feed(*wrong)
            raise SystemExit(f"taken: {wrong}")
        except (dlrover.Error, ValueError) as error:
            assert said in str(error), error
    try:
        Feed(9, 8, 2, parts=5).begin()
        raise SystemExit("taken")
    except dlrover.Error as error:
        assert "at most 4 parts have something to do" in str(error), error
    feed = Feed([Numbers(), [3, 0, 4], 9], 8, 2, weights=[1, 2, 3])
    assert feed.locate(N + 5) == (1, 2, 2) and feed.locate(N + 7) == (2, 0, 0)
    for call in (lambda: feed.locate(N + 16), lambda: feed.indices(0, 4), lambda: feed.set_weights(0, [1]),
                 lambda: feed.load_state_dict({"done": 1, "state": b"dlr-feed"}), lambda: feed.extend(3, 99)):
        try:
            call()
            raise SystemExit("taken")
        except dlrover.Error as error:
            assert "feed" in str(error), error
    feed.set_batch(5, 64, 32)
    assert len(feed.indices(6, 1)) == 32
    draw = random.Random(8)
    saved = bytearray(feed.state_dict()["state"])
    for _ in range(200):
        spoilt = bytearray(saved)
        spoilt[draw.randrange(len(saved))] ^= 1 << draw.randrange(8)
        try:
            feed.load_state_dict({"done": 9, "state": bytes(spoilt)})
            raise SystemExit("taken")
        except dlrover.Error:
            pass


warnings.simplefilter("error")
warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than this machine has CPUs
for name in sys.argv[1:]:
    globals()[name]()
    print(f"ok {name}", flush=True)
