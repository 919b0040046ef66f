# SPDX-License-Identifier: Apache-2.0
"""Reads snapshot files (man pages dlr_persist(5), dlr_ckpt(5)) and the directories they are in."""
import collections
import ctypes
import errno
import json
import math
import mmap
import os
import re
import struct
import warnings

import torch

from . import _manifests
from ._checkpoint import TORCH_NAMES, Error

BLOCK, PAGE = 1 << 20, 4096
FORM = "dlrover-2"  # of the files
LISTINGS = 5  # of a directory whose files are removed while it is read
HEADER_MAX = 100_000_000  # what public readers of the form take
MAGIC, VERSION = 0x314d4c44, 1
HEAD = struct.Struct("<IHHIIIIIIiIQQQQQQ36sI")
HEAD_FIELDS = ("magic version head_bytes meta_bytes nregions nblocks ndims names_bytes round rank "
               "world key layout step data_off data_bytes wall_ns zero crc")
ENTRY = struct.Struct("<HBBI16sQQQ")
KINDS = ("shard", "replicated", "local", "blob")
SLOT_NAME = re.compile(r"r(0|[1-9]\d*)-(0|[1-9]\d*)\.safetensors")  # as a program without a job writes it

Head = collections.namedtuple("Head", HEAD_FIELDS)
Region = collections.namedtuple(
    "Region", "name kind dtype item_size shape offset local_shape at used")


def _crc_of():
    library = ctypes.CDLL("libisal.so.2")  # libdlrover is linked with it
    library.crc32_iscsi.restype = ctypes.c_uint
    library.crc32_iscsi.argtypes = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint
    return lambda address, size: library.crc32_iscsi(address, size, 0xffffffff) ^ 0xffffffff


class Slot:
    """One rank at one step in its file, mapped. Its head is checked here, its data by verify().
    rank None: the first that is in the file.
    """

    def __init__(self, path, rank=None):
        self.path, self._crc = path, _crc_of()
        with _manifests.open_file(path) as file:
            self._block = self._choose(self._read_blocks(file), rank)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._all = self._mapped(0, len(self._map))
        self.head = Head(*HEAD.unpack_from(self._block))
        self._check_head()
        try:
            self.regions = {region.name: region for region in self._read_regions()}
        except (struct.error, ValueError, IndexError):
            self._refuse("has a malformed region table")

    def _mapped(self, at, size):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it must not be written to: it is not
            return torch.frombuffer(self._map, dtype=torch.uint8, count=size, offset=at) if size else torch.empty(
                0, dtype=torch.uint8)

    def _refuse(self, why):
        raise Error(errno.EBADMSG, f"'{self.path}' {why}")

    def _read_blocks(self, file):
        """The meta blocks of the ranks that are in the file, a text of its header."""
        length = int.from_bytes(file.read(8), "little")
        self._body_at = 8 + length
        if length > HEADER_MAX or self._body_at > os.fstat(file.fileno()).st_size:
            self._refuse("is no snapshot file")
        try:
            said = json.loads(file.read(length))["__metadata__"]
            form, blocks = said["format"], [bytes.fromhex(text) for text in
                                            said["dlrover.slot"].split(" ")]
        except (ValueError, KeyError, TypeError, AttributeError):
            self._refuse("has a corrupt head")
        if form != FORM:
            self._refuse(f"is of the form {form}, this reads {FORM}")
        if any(len(block) < HEAD.size + 4 for block in blocks):
            self._refuse("has a corrupt head")
        return blocks

    def _choose(self, blocks, rank):
        """The rank's block. Each one's data begins at the next multiple of a page behind the header."""
        chosen, at, self._end = None, self._body_at, self._body_at
        for block in blocks:
            head = Head(*HEAD.unpack_from(block))
            if chosen is None and rank in (None, head.rank):
                chosen, self._data_at = block, at
            self._end = at + head.data_bytes
            at = self._body_at + -(-(self._end - self._body_at) // PAGE) * PAGE
        if chosen is None:
            self._refuse(f"has no rank {rank}")
        return chosen

    def _sum(self, at, size):
        return self._crc(self._all.data_ptr() + at, size)

    def _check_head(self):
        head, block = self.head, self._block
        if head.magic != MAGIC or self._crc(block, HEAD.size - 4) != head.crc:
            self._refuse("has a corrupt head")
        if head.version != VERSION:
            self._refuse(f"is of version {head.version}, this reads {VERSION}")
        self._sums_at = (HEAD.size + head.nregions * ENTRY.size + 8 * head.ndims + head.names_bytes)
        if (head.nblocks != -(-head.data_bytes // BLOCK)
                or self._sums_at + 4 * head.nblocks + 4 != len(block)):
            self._refuse("has a corrupt head")
        if head.meta_bytes != len(block) or self._end != len(self._map):
            self._refuse("is not as long as its head says")
        if self._crc(block, len(block) - 4) != struct.unpack_from("<I", block, len(block) - 4)[0]:
            self._refuse("has a corrupt region table")

    def _read_regions(self):
        head, block = self.head, self._block
        entry = HEAD.size
        dim = entry + head.nregions * ENTRY.size
        name = dim + head.ndims * 8
        for _ in range(head.nregions):
            name_bytes, kind, ndim, item, dtype, at, room, used = ENTRY.unpack_from(block, entry)
            dims = struct.unpack_from(f"<{3 * ndim}Q", block, dim)
            if not used <= room <= head.data_bytes - at or (
                    KINDS[kind] != "blob" and used != item * math.prod(dims[2 * ndim:])):
                raise ValueError("a region that is not where it says")
            yield Region(block[name:name + name_bytes].decode(), KINDS[kind],
                         dtype.rstrip(b"\0").decode(), item, dims[:ndim], dims[ndim:2 * ndim],
                         dims[2 * ndim:], self._data_at + at, used)
            entry, dim, name = entry + ENTRY.size, dim + 24 * ndim, name + name_bytes + 1

    def verify(self, passed=None):
        """Compares every byte with the checksums made when it was saved. Raises Error. passed, if given,
        is told the bytes of each block that is right.
        """
        for i in range(self.head.nblocks):
            at = i * BLOCK
            want, = struct.unpack_from("<I", self._block, self._sums_at + 4 * i)
            size = min(BLOCK, self.head.data_bytes - at)
            if self._sum(self._data_at + at, size) != want:
                self._refuse(f"is corrupt in block {i} of {self.head.nblocks}")
            if passed:
                passed(size)

    def bytes(self, region):
        """The region's bytes in the file, a tensor that must not be written to. Its storage is the region's alone:
        who writes a tensor writes all of its storage, or copies it first.
        """
        return self._mapped(region.at, region.used)


def torch_type(region):
    """The type of a region's items; None for a blob, and for what torch has no type for."""
    stem = region.dtype.rstrip("0123456789")
    name = {ours: theirs for theirs, ours in TORCH_NAMES.items()}.get(stem, stem)
    found = getattr(torch, name + region.dtype[len(stem):], None)
    fits = isinstance(found, torch.dtype) and torch.empty(0, dtype=found).element_size()
    return found if region.kind != "blob" and fits == region.item_size else None


def _of_names(directory, names):
    """Steps of which each rank has a file; how many there must be is in the first one's head."""
    files = collections.defaultdict(dict)
    for name in names:
        match = SLOT_NAME.fullmatch(name)
        if match:
            files[0, int(match[2])][int(match[1])] = os.path.join(directory, name)
    return files


def open_version(directory, step=None, watch=None):
    """The slots of the newest version (or of that step) that is whole, in the order of ranks: every
    byte verified, so that ranks which do this without a word between them come to the same.
    FileNotFoundError when there is none, Error when all there are is corrupt. watch, if given, is
    told the bytes of a version that is about to be verified, and gives what is told of its progress.
    """
    for _ in range(LISTINGS):
        names = sorted(os.listdir(directory))
        try:
            return _open_newest(directory, names, step, watch)
        except (Error, FileNotFoundError) as error:
            wrong = error
        if names == sorted(os.listdir(directory)):
            break
        # What was listed has been removed since: something newer has taken its place.
    if isinstance(wrong, FileNotFoundError) and wrong.filename != directory:
        wrong = Error(errno.EAGAIN, f"'{wrong.filename}' is gone, and so is what came after it")
    raise wrong


def _open_newest(directory, names, step, watch):
    found = _manifests.read(directory, names)
    promised = found is not None
    if not promised:
        found = _of_names(directory, names)
    wrong = None
    for version, files in sorted(found.items(), reverse=True):
        if step is not None and version[1] != step:
            continue
        try:
            return _open_all(version, files, watch)
        except FileNotFoundError as error:
            if promised and not wrong:
                wrong = Error(errno.EBADMSG, f"'{error.filename}' is in a manifest and not there")
        except Error as error:
            wrong = wrong or error
    if wrong:
        raise wrong
    what = "snapshot" if step is None else f"snapshot of step {step}"
    raise FileNotFoundError(errno.ENOENT, f"no whole {what}", directory)


def _open_all(version, files, watch):
    first = Slot(files[min(files)], min(files)).head
    absent = [rank for rank in range(first.world) if rank not in files]
    if absent:
        raise FileNotFoundError(errno.ENOENT, f"rank {absent[0]} of {first.world} has no file",
                                files[min(files)])
    slots = [Slot(files[rank], rank) for rank in range(first.world)]
    passed = watch(sum(slot.head.data_bytes for slot in slots)) if watch else None
    for rank, slot in enumerate(slots):
        head = slot.head
        if ((head.rank, head.world, (head.round, head.step), head.key)
                != (rank, first.world, version, first.key)):
            raise Error(errno.EBADMSG, f"'{slot.path}' is of another snapshot")
        slot.verify(passed)
    return slots
