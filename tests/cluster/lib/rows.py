# SPDX-License-Identifier: Apache-2.0
# Ten rows, split over the ranks: each step turns them, and every rank logs a hash of each of its rows.
# What it is to do besides, its environment says.
import glob, hashlib, os, sys, time
import dlrover
ROWS, ROW = 10, 32768
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
last, log = int(sys.argv[1]), sys.argv[2]
first, end = ROWS * rank // world, ROWS * (rank + 1) // world
if os.environ.get("WHOLE") and os.environ["DLROVER_ROUND"] != "0":
    first, end = 0, ROWS
turn = bytes((7 * i + 3) % 256 for i in range(256))
rows = bytearray(bytes((i * 5 + i // ROW) % 256 for i in range(first * ROW, end * ROW)))
note = bytearray(b"rank %d of %d" % (rank, world))

def tell(step):
    with open(log, "a") as out:
        for at in range(first, end):
            row = rows[(at - first) * ROW:(at - first + 1) * ROW]
            out.write(f"{world} {step} {at} {hashlib.sha256(row).hexdigest()}\n")

def asked():  # to fail once
    try:
        os.unlink(f"fail.{os.environ['SLURM_JOB_ID']}")
        return True
    except FileNotFoundError:
        return False

def written():
    names = glob.glob(os.path.expanduser(
        f"~/.dlrover/job-{os.environ['SLURM_JOB_ID']}/rows/persist/manifest-*.json"))
    return [int(name[:-5].rsplit("-", 1)[1]) for name in names]

with dlrover.Checkpoint() as ck:
    ck.add("rows", rows, global_shape=(ROWS * ROW,), offset=(first * ROW,))
    ck.add("remark" if os.environ.get("RENAMED") else "note", note, "blob")
    made_by = ck.list()[0][3] if ck.list() else 0
    told = {r.name: r for r in ck.regions(rank)} if rank < made_by else {}
    if told and not os.environ.get("WHOLE"):
        box = [ROWS * n // made_by * ROW for n in (rank, rank + 1)]
        assert told["rows"].offset == (box[0],) and told["rows"].nbytes == box[1] - box[0], told
        assert "remark" in told or told["note"].nbytes == len(b"rank %d of %d" % (rank, made_by)), told
    if made_by and rank >= made_by:  # nobody had its note
        ck.allow(missing=True)
    step, marked, kept = ck.restore() or 0, False, 0
    if step and rank == 0:
        print("peek", ck.peek(made_by - 1, "note").decode(), flush=True)
    if step:
        tell(step)
    while step < last:
        time.sleep(0.05)
        ck.fence()
        rows[:] = rows.translate(turn)
        step += 1
        tell(step)
        # The same fault again: in the first round once something is committed, later at once.
        if os.environ.get("FAIL") and rank == 0 and (made_by or ck.stats()["committed_step"]):
            sys.exit(4)
        saved = ck.begin(step)
        if rank == 0 and asked():
            sys.exit(5)
        if os.environ.get("MARKED") and os.environ["DLROVER_ROUND"] == "0" and rank == 0:
            if ck.stats()["committed_step"] >= 40 and not marked:
                ck.mark_bad(30)
                marked = True
        # A region changes before its fence, and everybody has committed it by then.
        if os.environ.get("DLROVER_CKPT_AUDIT") and os.environ["DLROVER_ROUND"] == "0" and rank == 0:
            until = time.monotonic() + 2
            while saved and ck.stats()["committed_step"] >= 20 and time.monotonic() < until:
                if ck.stats()["committed_step"] == step:
                    rows[0] ^= 1
                    ck.fence()
                    sys.exit(3)
                time.sleep(0.01)
        # The first version is kept: those after it are bad, the two newest among them.
        if os.environ.get("VETTED") and os.environ["DLROVER_ROUND"] == "0" and rank == 0:
            kept = kept or ck.stats()["committed_step"]
            if kept and ck.stats()["committed_step"] >= kept + 6:
                ck.mark_bad(kept + 1)
                sys.exit(3)
        # What came after the first version on the disk is bad.
        if os.environ.get("BAD") and os.environ["DLROVER_ROUND"] == "0" and rank == 0:
            while step == 60 and not written():
                time.sleep(0.1)
            if written() and step >= min(written()) + 10:
                ck.mark_bad(min(written()) + 1)
                sys.exit(3)
    ck.fence()
