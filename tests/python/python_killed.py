# SPDX-License-Identifier: Apache-2.0
"""python_killed.py FLAG PROGRAM ARGUMENT…: runs PROGRAM; rank 1 is killed when it has saved step
KILL_AT, once: FLAG is the file that says it was.
"""
import os
import runpy
import signal
import sys

flag, sys.argv = sys.argv[1], sys.argv[2:]


def main():
    from dlrover import _torch

    saved = _torch.Bound.step

    def step(self, at):
        done = saved(self, at)
        if at == int(os.environ["KILL_AT"]) and os.environ["RANK"] == "1" and not os.path.exists(flag):
            self.flush()
            open(flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    _torch.Bound.step = step
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
