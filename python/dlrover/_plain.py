# SPDX-License-Identifier: Apache-2.0
"""Values as bytes and back: text, numbers and what holds them, nothing that is code. A snapshot
may be somebody else's, and to read a pickle is to run it. The form: dlr_persist(5), VALUES.
"""
from __future__ import annotations

import collections
import json
import math
import re
import struct
import sys
import typing

import torch

HEAD = struct.Struct("<4sIQQ")  # magic, version, bytes of the text, bytes of the raw part behind it
MAGIC, VERSION = b"DLRV", 1
DTYPES = {name: getattr(torch, name) for name in (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2")
    if hasattr(torch, name)}
ARRAY_TYPE = re.compile(r"[<>|][biufc][0-9]{1,2}")
PLAIN = (type(None), bool, int, float, str)
SEQUENCES = {"tuple": tuple, "set": set, "frozenset": frozenset, "deque": collections.deque}
MAPPINGS = {"dict": dict, "OrderedDict": collections.OrderedDict,
            "Counter": lambda pairs: collections.Counter(dict(pairs))}
TAGS = {tuple: "tuple", torch.Size: "tuple", set: "set", frozenset: "frozenset",
        collections.deque: "deque", dict: "dict", collections.OrderedDict: "OrderedDict",
        collections.Counter: "Counter"}


class Ref(typing.NamedTuple):
    """In the place of a tensor that is a region of its own."""

    region: str
    device: str  # "cpu" or "cuda"


class _Writer:
    def __init__(self):
        self.raw, self.size = [], 0

    def _put(self, data):
        at = self.size
        self.raw.append(data)
        self.size += len(data)
        return at

    def node(self, value, path):
        """What stands for value in the text. path is what to call it."""
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is list:
            return [self.node(one, f"{path}[{i}]") for i, one in enumerate(value)]
        tag = TAGS.get(kind)
        if tag in MAPPINGS:
            return {tag: [[self.node(key, path), self.node(one, f"{path}[{key!r}]")]
                          for key, one in value.items()]}
        if tag:
            return {tag: [self.node(one, path) for one in value]}
        return self._special(value, kind, path)

    def _special(self, value, kind, path):
        numpy = sys.modules.get("numpy")
        if kind in (bytes, bytearray):
            return {"bytes": [self._put(bytes(value)), len(value)]}
        if kind in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided:
            name = str(value.dtype)[len("torch."):]
            if name in DTYPES:
                flat = value.detach().cpu().contiguous().reshape(-1)
                return {"tensor": [name, list(value.shape), value.device.type,
                                   self._put(flat.view(torch.uint8).numpy().tobytes())]}
        if numpy and (kind is numpy.ndarray or isinstance(value, numpy.generic)):
            if ARRAY_TYPE.fullmatch(value.dtype.str):
                tag = "array" if kind is numpy.ndarray else "number"
                return {tag: [value.dtype.str, list(value.shape), self._put(value.tobytes())]}
        if kind is Ref:
            return {"region": list(value)}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if kind is torch.dtype:
            return {"dtype": str(value)[len("torch."):]}
        if kind is torch.device:
            return {"device": str(value)}
        raise ValueError(f"{path} is a {kind.__module__}.{kind.__qualname__}, which cannot be kept: "
                         "numbers, text, bytes, tensors, arrays and lists, tuples, sets and dicts "
                         "of them can")


def encode(value: typing.Any, name: str) -> bytes:
    """ValueError says what cannot be kept; name is what to call the whole there."""
    writer = _Writer()
    try:
        text = json.dumps(writer.node(value, name), separators=(",", ":")).encode("ascii")
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply, or holds itself") from None
    return HEAD.pack(MAGIC, VERSION, len(text), writer.size) + text + b"".join(writer.raw)


class _Reader:
    def __init__(self, raw):
        self.raw = raw

    def value(self, node):
        if type(node) in PLAIN:
            return node
        if type(node) is list:
            return [self.value(one) for one in node]
        (tag, body), = node.items()
        if tag in MAPPINGS:
            return MAPPINGS[tag]([(self.value(key), self.value(one)) for key, one in body])
        if tag in SEQUENCES:
            return SEQUENCES[tag]([self.value(one) for one in body])
        return getattr(self, SPECIAL[tag])(body)

    def _get(self, at, size):
        if type(at) is not int or type(size) is not int or not 0 <= at <= at + size <= len(self.raw):
            raise ValueError("bytes beyond the end")
        return bytearray(self.raw[at:at + size])

    @staticmethod
    def _count(shape):
        if not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError("no shape")
        return math.prod(shape)

    def bytes(self, body):
        at, size = body
        return bytes(self._get(at, size))

    def tensor(self, body):
        name, shape, device, at = body
        dtype = DTYPES[name]
        count = self._count(shape)
        data = self._get(at, count * torch.empty(0, dtype=dtype).element_size())
        made = torch.frombuffer(data, dtype=dtype) if count else torch.empty(0, dtype=dtype)
        to_gpu = device == "cuda" and torch.cuda.is_available()  # the one of this process
        return made.reshape(shape).to("cuda" if to_gpu else "cpu")

    def array(self, body):
        import numpy  # pylint: disable=import-outside-toplevel
        text, shape, at = body
        if not ARRAY_TYPE.fullmatch(text):
            raise ValueError("no type of numbers")
        dtype = numpy.dtype(text)
        data = self._get(at, self._count(shape) * dtype.itemsize)
        return numpy.frombuffer(data, dtype).reshape(shape)

    def number(self, body):
        return self.array(body)[()]

    def region(self, body):
        name, device = body
        if type(name) is not str or device not in ("cpu", "cuda"):
            raise ValueError("no region")
        return Ref(name, device)

    def complex(self, body):
        real, imag = body
        return complex(float(real), float(imag))

    def dtype(self, body):
        return DTYPES[body]

    def device(self, body):
        return torch.device(body)


SPECIAL = {tag: tag for tag in ("bytes", "tensor", "array", "number", "region", "complex", "dtype", "device")}


def decode(data: typing.Any) -> typing.Any:
    """The value; what is behind its end is not looked at. ValueError when these are not the bytes
    of one: nothing in them is run.
    """
    data = memoryview(data).cast("B")
    try:
        magic, version, text, raw = HEAD.unpack_from(data)
        if magic != MAGIC or HEAD.size + text + raw > len(data):
            raise ValueError("not a value, or cut off")
        if version != VERSION:
            raise ValueError(f"version {version}, this reads {VERSION}")
        end = HEAD.size + text
        return _Reader(data[end:end + raw]).value(json.loads(str(data[HEAD.size:end], "ascii")))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, struct.error,
            OverflowError, RecursionError, RuntimeError) as error:
        raise ValueError(str(error) if type(error) is ValueError else repr(error)) from None
