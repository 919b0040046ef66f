# SPDX-License-Identifier: Apache-2.0
"""heed.py CODE: a rank that saves each step; on SIGTERM it takes 2 s, says so and ends with CODE ("no": it goes on)."""
import ctypes, os, signal, sys, time
lib = ctypes.CDLL("/opt/dlrover/lib/libdlrover.so")
ck, step = ctypes.c_void_p(), ctypes.c_uint64()
state = ctypes.create_string_buffer(b"state " * 4096)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(time.time()))


def say(what):
    with open(f"heed.{os.environ['SLURM_JOB_ID']}", "a") as f:
        f.write(f"{what} {os.environ['RANK']} {step.value}\n")


assert lib.dlr_ckpt_open(None, ctypes.byref(ck)) == 0
assert lib.dlr_ckpt_add_array(ck, b"w", 0, b"u8", ctypes.c_size_t(1), state, ctypes.c_size_t(len(state))) >= 0
assert lib.dlr_ckpt_restore(ck, ctypes.byref(step)) >= 0
say("begin")
while not told or (sys.argv[1] == "no" and time.time() < told[0] + 60):
    step.value += 1
    lib.dlr_ckpt_begin(ck, step, None)
    time.sleep(0.05)
    lib.dlr_ckpt_fence(ck, None)
say("term")
time.sleep(2)
say("done")
os._exit(int(sys.argv[1]))
