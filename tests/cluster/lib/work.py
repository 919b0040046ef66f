# SPDX-License-Identifier: Apache-2.0
"""A rank that saves every step until there is a file called stop.JOB."""
import ctypes, os, time
lib = ctypes.CDLL("/opt/dlrover/lib/libdlrover.so")
ck, step = ctypes.c_void_p(), ctypes.c_uint64()
state = ctypes.create_string_buffer(b"secret " * 4096)
assert lib.dlr_ckpt_open(None, ctypes.byref(ck)) == 0
assert lib.dlr_ckpt_add_array(ck, b"w", 0, b"u8", ctypes.c_size_t(1), state, ctypes.c_size_t(len(state))) >= 0
assert lib.dlr_ckpt_restore(ck, ctypes.byref(step)) >= 0
while not os.path.exists("stop." + os.environ["SLURM_JOB_ID"]):
    step.value += 1
    lib.dlr_ckpt_begin(ck, step, None)
    time.sleep(float(os.environ.get("STEP_S", "0.05")))
    lib.dlr_ckpt_fence(ck, None)
lib.dlr_ckpt_close(ck)
