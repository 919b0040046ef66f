# SPDX-License-Identifier: Apache-2.0
"""What a program tells with dlrover.watch(), phase() and pause() is on its rank's page; without a job nothing is."""
import os
import struct
import tempfile
import time

import dlrover
from python_agent import Agent


def page(agent):
    """step, total, phase, limit in seconds, flags."""
    _, flags, step, _, total = struct.unpack("<IIQQQ", os.pread(agent.watch, 32, 64))
    _, _, since, limit, name = struct.unpack("<IIQQ40s", os.pread(agent.watch, 64, 128))
    return step, total, name.rstrip(b"\0").decode() if since else None, limit // 10**9, flags & 3


def refuses(limit):
    try:
        with dlrover.phase("eval", limit=limit):
            return False
    except ValueError as error:
        return str(error) == f"limit={limit!r} is no time such as 90, '90s', '20m' or '2h'"


def say_nothing():
    watch = dlrover.watch(total=3)
    watch.step(1)
    with dlrover.phase("eval"), dlrover.pause():
        pass
    assert not watch.active


def say_all(agent):
    with dlrover.watch(total=100) as watch:
        assert watch.active and dlrover.watch() is watch
        watch.step(41)
        assert page(agent) == (41, 100, None, 0, 0)
        with dlrover.phase("eval", limit="20m"):
            assert page(agent) == (41, 100, "eval", 1200, 0)
            with dlrover.phase("save a picture, " * 9, limit=1.5), dlrover.pause(), dlrover.pause():
                assert page(agent) == (41, 100, ("save a picture, " * 9)[:39], 2, 1)
            assert page(agent) == (41, 100, "eval", 1200, 0)
        try:
            with dlrover.phase("ends by an error", limit="2h"):
                raise KeyError
        except KeyError:
            pass
        assert page(agent) == (41, 100, None, 0, 0)
        assert all(refuses(limit) for limit in ("20 minutes", "", 0, -5, "1e9h", "nan"))
        child = os.fork()
        if child == 0:
            watch.step(99)
            os._exit(0)
        os.waitpid(child, 0)
        watch.step(42)
    assert page(agent) == (42, 100, None, 0, 2)
    watch.step(43)  # it is closed
    assert page(agent)[0] == 42
    assert dlrover.watch() is not watch


say_nothing()
os.environ.update(RANK="0", WORLD_SIZE="1")
with tempfile.TemporaryDirectory() as directory:
    with Agent(directory, 0, 0, 1) as played:
        say_all(played)
        calls = dlrover.watch()
        began = time.perf_counter_ns()
        for number in range(100000):
            calls.step(number)
        print(f"ok, {(time.perf_counter_ns() - began) // 100000} ns a step")
