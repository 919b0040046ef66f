#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes of somebody else's for _plain.decode(): a value or ValueError, soon, and nothing is run. python_fuzz.py COUNT SEED"""
import collections
import json
import random
import signal
import sys

import numpy
import torch

from dlrover import _plain

LIMIT_S = 10  # of one input
FORBIDDEN = ("pickle.find_class", "exec", "compile", "open", "os.system", "os.exec", "os.posix_spawn",
             "subprocess.Popen", "socket.connect", "ctypes.dlopen", "import")
SAMPLES = [
    None, -1.5, "text", b"bytes", [1, [2, (3, "x")]], {"a": {1, 2}, 3: frozenset("b")},
    collections.OrderedDict(k=collections.deque([1, complex(1, 2)])), collections.Counter("aab"),
    torch.arange(6, dtype=torch.bfloat16).reshape(2, 3), torch.zeros(0, 4), numpy.arange(4.0),
    numpy.float32(2), torch.float16, torch.device("cpu"), _plain.Ref("model.w", "cpu"),
]
WORDS = [*_plain.SPECIAL, *_plain.SEQUENCES, *_plain.MAPPINGS, *_plain.DTYPES, "<f8", "|O8", "<U9", "cuda", "cpu",
         "__class__", "__reduce__", "_get", "value", "raw", "os", "", "\udc80"]
NUMBERS = [0, 1, -1, 7, 8, 255, 1 << 31, (1 << 63) - 1, 1 << 64, 10 ** 400, 1.5, float("inf"), float("nan"), True]
running = False


def watch(event, arguments):
    if running and event in FORBIDDEN:
        raise SystemExit(f"decode() did {event!r} {arguments!r}")


def tree(rng, depth):
    """What may stand for a value in the text, and what may not."""
    kind = rng.randrange(6 if depth else 2)
    if kind == 0:
        return rng.choice(WORDS)
    if kind == 1:
        return rng.choice(NUMBERS)
    some = [tree(rng, depth - 1) for _ in range(rng.randrange(5))]
    return some if kind < 4 else {rng.choice(WORDS): some}


def packed(text, raw):
    return _plain.HEAD.pack(_plain.MAGIC, _plain.VERSION, len(text), len(raw)) + text + raw


def changed(rng, data):
    """The bytes with some of them changed, lost or twice; the head fits them again in half of the cases."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        end = at + rng.randrange(8)
        data[at:end] = rng.choice((rng.randbytes(rng.randrange(8)), json.dumps(rng.choice(WORDS)).encode(),
                                   str(rng.choice(NUMBERS)).encode(), bytes(data[at:end]) * 2))
    if rng.random() < 0.5:
        body = bytes(data[_plain.HEAD.size:])
        cut = rng.randrange(len(body) + 1) if rng.random() < 0.3 else body.rfind(b"}") + 1 or len(body)
        return packed(body[:cut], body[cut:])
    return bytes(data)


def main(count, seed):
    global running
    rng, taken = random.Random(seed), 0
    print(f"SEED={seed}")
    samples = [_plain.encode(value, "sample") for value in SAMPLES]
    samples += [packed(b"[" * 100000, b""), packed(b'{"tuple":' * 9999, b"")]
    sys.addaudithook(watch)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a decoder that hangs ends the program
    for i in range(count):
        data = (packed(json.dumps(tree(rng, 4)).encode(), rng.randbytes(rng.randrange(64)))
                if rng.random() < 0.3 else changed(rng, rng.choice(samples)))
        signal.alarm(LIMIT_S)
        running = True
        try:
            _plain.decode(data)
            taken += 1
        except ValueError:
            pass
        except BaseException:
            print(f"input {i}: {data[:300]!r}")
            raise
        finally:
            running = False
    assert 0 < taken < count, taken
    print(f"{count} inputs, {taken} of them values")


main(int(sys.argv[1]), int(sys.argv[2]))
