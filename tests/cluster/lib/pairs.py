# SPDX-License-Identifier: Apache-2.0
# Ranks that hold the same state, and a little of their own.
import hashlib, os, sys, time
import dlrover
rank, world, round_ = (int(os.environ[n]) for n in ("RANK", "WORLD_SIZE", "DLROVER_ROUND"))
last = int(sys.argv[1])

def at(step):  # no two blocks are the same
    return b"".join(hashlib.sha256(b"%d %d" % (step, i)).digest() * 128 for i in range(256))

state, own = bytearray(at(0)), bytearray(b"rank %04d" % rank)
with dlrover.Checkpoint() as ck:
    ck.add("state", state, "replicated")
    ck.add("own", own, "local")
    has = ck.list()[0][2] if ck.list() else 0
    step = ck.restore() or 0
    if step:
        good = state == at(step) and own == b"rank %04d" % rank
        peeked = ck.peek(world - 1, "state") == at(step) and ck.peek(0, "own") == b"rank 0000"
        print(f"{rank} of {world} has {has} {'ok' if good and peeked else 'WRONG'}", flush=True)
    while step < last:
        time.sleep(0.05)
        ck.fence()
        step += 1
        state[:] = at(step)
        if len(sys.argv) > 2 and round_ == 0 and rank == 1 and ck.stats()["committed_step"] >= 10:
            sys.exit(4)
        ck.begin(step)
    ck.fence()
