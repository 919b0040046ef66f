# SPDX-License-Identifier: Apache-2.0
# An array that is there from the beginning, and one that joins it after some steps.
import hashlib, os, signal, sys, time
import dlrover
SIZE = 300000
rank, round_ = int(os.environ["RANK"]), int(os.environ["DLROVER_ROUND"])

def fill(what, step):  # what each array holds after each step
    return hashlib.sha256(f"{what} {rank} {step}".encode()).digest() * (len(state[what]) // 32)

state = {"weights": bytearray(SIZE * 32)}
with dlrover.Checkpoint() as ck:
    ck.add("weights", state["weights"], "local")
    if round_ > 0:
        state["moments"] = bytearray(5 * SIZE * 32)
        ck.add("moments", state["moments"], "local")
        ck.allow(missing=True)
    step = ck.restore() or 0
    absent = ck.missing() if step else []
    for name in state:
        want = bytes(len(state[name])) if name in absent or not step else fill(name, step)
        print(f"round {round_} step {step} {name} {'ok' if state[name] == want else 'WRONG'}"
              f"{' absent' if name in absent else ''}", flush=True)
    open(f"grow.said.{round_}.{rank}", "w").close()
    more = None
    if round_ == 1 and rank == 1:
        while not os.path.exists("grow.said.1.0"):  # its lines are among those that are looked for
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)  # its larger slots are asked for, nothing is saved
    while step < 2000 and os.path.exists("grow.on"):
        ck.fence()
        step += 1
        for name in state:
            state[name][:] = fill(name, step)
        late = round_ == 0 and not more and ck.stats()["committed_step"] >= 3
        if late:
            more = bytearray(5 * SIZE * 32)
            ck.add("moments", more, "local")
        ck.begin(step)
        if late and rank == 0:
            sys.exit(4)
        time.sleep(0.03)
    ck.fence()
