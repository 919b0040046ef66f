# SPDX-License-Identifier: Apache-2.0
"""Loading a version on a rank that was none when it was saved: what each rank has for itself
comes from rank 0.
"""
from __future__ import annotations

import errno
import typing

from ._checkpoint import Checkpoint, Error


def _is_new(ck):
    """Whether one of the versions that may be loaded is of too few ranks to have this one."""
    try:
        return any(world <= ck.rank for _round, _step, _bytes, world in ck.list())
    except OSError:
        return False  # restore says what is wrong with it, to the other ranks too


def load(ck: Checkpoint, own: typing.Container[str]) -> tuple[int | None, list[str]]:
    """As ck.restore(); and which of own, the names of what each rank has for itself, this one
    still lacks, being new. Error as there, for other names that are missing.
    """
    leftover, missing = ck.allowed
    new = _is_new(ck)
    ck.allow(leftover, missing or new)
    step = ck.restore()
    ck.allowed = leftover, missing
    if step is None or not new:
        return step, []
    lacks = ck.missing()
    others = [name for name in lacks if name not in own]
    if others and not missing:
        raise Error(errno.EBADMSG, f"the version lacks '{others[0]}' ({len(others)} in all), named "
                    "here: allow(missing=True) lets it be")
    return step, [name for name in lacks if name in own]


def peek_first(ck: Checkpoint, name: str) -> bytearray | None:
    """What rank 0 had under name; None when it had nothing and that is allowed."""
    try:
        return ck.peek(0, name)
    except Error as error:
        if error.errno == errno.ENOENT and ck.allowed[1]:
            return None
        raise
