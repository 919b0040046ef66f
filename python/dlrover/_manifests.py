# SPDX-License-Identifier: Apache-2.0
"""The manifests of a run's persist directory (man page dlr_persist(5)), each field checked: what
they name is opened.
"""
from __future__ import annotations

import errno
import json
import os
import re
import stat
import typing
import warnings

from ._checkpoint import Error

NAME = re.compile(r"manifest.*\.json")
VERSION = 2
BYTES_MAX = 256 << 20
RANKS_MAX = 1 << 20


def _number(said, key, most):
    value = said[key]
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"'{key}' is {value!r}")
    return value


def _check(said, name):
    """The version, and the name of each rank's file."""
    if said["t"] != "manifest" or _number(said, "v", 1 << 31) != VERSION:
        raise ValueError(f"it is a {said['t']!r} of form {said['v']}, this reads {VERSION}")
    world = _number(said, "world", RANKS_MAX)
    version = _number(said, "vround", (1 << 32) - 1), _number(said, "step", (1 << 63) - 1)
    if name != f"manifest-{version[0]}-{version[1]}.json":
        raise ValueError("it says another version than its name")
    if not re.fullmatch("[0-9a-fA-F]{1,16}", said["layout"]):
        raise ValueError("'layout' is no hash")
    files = {}
    for row in said["slices"]:
        file = row["file"]
        for key in ("at", "bytes", "room"):
            _number(row, key, (1 << 63) - 1)
        if not re.fullmatch("[0-9a-f]{8}", row["crc"]):
            raise ValueError(f"'crc' is {row['crc']!r}")
        if not isinstance(file, str) or not file.startswith(("n", "r")) or "/" in file or "\0" in file:
            raise ValueError(f"'file' is {file!r}")
        files[_number(row, "rank", world - 1)] = file
    if world == 0 or len(said["slices"]) != world or len(files) != world:
        raise ValueError(f"{len(files)} of {world} ranks")
    return version, files


def open_file(path: str) -> typing.BinaryIO:
    """To read. Error when something else has its name: to open a FIFO waits for who writes."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Error(errno.EBADMSG, f"'{path}' is no regular file")
    return open(fd, "rb")


def _load(path):
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > BYTES_MAX:
            raise Error(errno.EBADMSG, f"'{path}' is too long for a manifest")
        text = file.read()
    try:
        return _check(json.loads(text), os.path.basename(path))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Error(errno.EBADMSG, f"'{path}' is malformed: {error}") from None


def read(directory: str | os.PathLike, names: list[str]) -> dict | None:
    """{(round, step): {rank: path}} of those of names that are manifests; None when none is. One
    that is malformed is passed over with a warning, Error when all are. FileNotFoundError when one
    is gone meanwhile.
    """
    found, wrong = {}, None
    for name in filter(NAME.fullmatch, names):
        try:
            version, files = _load(os.path.join(directory, name))
        except Error as error:
            wrong = error
            warnings.warn(f"dlrover: {error.strerror}, ignoring it", RuntimeWarning, stacklevel=2)
            continue
        found[version] = {rank: os.path.join(directory, file) for rank, file in files.items()}
    if wrong and not found:
        raise wrong
    return found or None
