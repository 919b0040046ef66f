# SPDX-License-Identifier: Apache-2.0
"""A rank of a plain srun: it changes its part of an array step by step, saves each step in
DLROVER_CKPT_DIR, and says at its end what it has. With KILL set rank 2 is killed at step 20, when all
have saved ten, and the others come no further than step 30.
"""
import glob
import hashlib
import os
import signal
import sys
import time

import dlrover

last, out = int(sys.argv[1]), sys.argv[2]
rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
size, turn = 100_000, bytes((7 * i + 3) % 256 for i in range(256))
part = bytearray((rank * 7 + i * 5 + i // 256) % 256 for i in range(size))


def saved_ten(other):
    names = glob.glob(f"{os.environ['DLROVER_CKPT_DIR']}/r{other}-*.safetensors")
    return any(int(name.rsplit("-", 1)[1].split(".")[0]) >= 10 for name in names)


with dlrover.Checkpoint() as ck:
    ck.add("part", part, global_shape=(world * size,), offset=(rank * size,))
    start = ck.restore() or 0
    for step in range(start + 1, last + 1):
        ck.fence()
        part[:] = part.translate(turn)
        ck.begin(step)
        if os.environ.get("KILL") and rank == 2 and step == 20:
            while not all(map(saved_ten, range(world))):
                time.sleep(0.05)  # srun ends the job's patience
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("KILL") and step == 30:
            signal.pause()
    ck.fence()
with open(f"{out}.{rank}", "w", encoding="ascii") as file:
    print(start, os.environ["SLURMD_NODENAME"], hashlib.sha256(part).hexdigest(), file=file)
