# SPDX-License-Identifier: Apache-2.0
"""Processes that a test has forked."""
import os
import select


def code_of(pid, limit_s):
    """The exit status of a child, which has ended then; None when it has not within the limit."""
    ended = os.pidfd_open(pid)
    try:
        if not select.select([ended], [], [], limit_s)[0]:
            return None
    finally:
        os.close(ended)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
