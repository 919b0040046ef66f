# SPDX-License-Identifier: Apache-2.0
"""Finds libdlrover and declares its calls, as <dlrover/ckpt.h>, <dlrover/resilient.h> and <dlrover/watch.h> have them."""
import ctypes
import os
import shutil

DIMS_MAX = 8
LEFTOVER, MISSING = 1, 2
KINDS = {"shard": 0, "replicated": 1, "local": 2, "blob": 3}


class Conf(ctypes.Structure):
    _fields_ = [("dir", ctypes.c_char_p), ("rank", ctypes.c_int), ("world", ctypes.c_int),
                ("every", ctypes.c_uint), ("fence_ms", ctypes.c_uint),
                ("threads", ctypes.c_uint)]


class Region(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_int),
                ("dtype", ctypes.c_char_p), ("item_size", ctypes.c_uint32),
                ("ndim", ctypes.c_uint32), ("global_shape", ctypes.c_uint64 * DIMS_MAX),
                ("offset", ctypes.c_uint64 * DIMS_MAX),
                ("local_shape", ctypes.c_uint64 * DIMS_MAX),
                ("stride", ctypes.c_int64 * DIMS_MAX), ("addr", ctypes.c_void_p)]


class Version(ctypes.Structure):
    _fields_ = [("round", ctypes.c_uint32), ("step", ctypes.c_uint64),
                ("bytes", ctypes.c_uint64), ("world", ctypes.c_uint32)]


class Stats(ctypes.Structure):
    _fields_ = [("saves", ctypes.c_uint64), ("given_up", ctypes.c_uint64),
                ("committed_step", ctypes.c_uint64), ("begin_ns", ctypes.c_uint64),
                ("fence_ns", ctypes.c_uint64), ("copied_bytes", ctypes.c_uint64),
                ("changed", ctypes.c_uint64), ("skipped", ctypes.c_uint64),
                ("held_ns", ctypes.c_uint64),
                ("load_ns", ctypes.c_uint64)]


HANDLE = ctypes.c_void_p
CALLS = {
    "dlr_ckpt_open": (ctypes.c_int, ctypes.POINTER(Conf), ctypes.POINTER(HANDLE)),
    "dlr_ckpt_add": (ctypes.c_int, HANDLE, ctypes.POINTER(Region)),
    "dlr_ckpt_clear": (ctypes.c_int, HANDLE),
    "dlr_ckpt_blob_size": (ctypes.c_int, HANDLE, ctypes.c_char_p, ctypes.c_uint64),
    "dlr_ckpt_list": (ctypes.c_int, HANDLE, ctypes.POINTER(Version), ctypes.c_uint),
    "dlr_ckpt_regions": (ctypes.c_int, HANDLE, ctypes.c_int, ctypes.POINTER(Region),
                         ctypes.POINTER(ctypes.c_uint64), ctypes.c_uint),
    "dlr_ckpt_allow": (ctypes.c_int, HANDLE, ctypes.c_uint),
    "dlr_ckpt_unmatched": (ctypes.c_int, HANDLE, ctypes.c_uint,
                           ctypes.POINTER(ctypes.c_char_p), ctypes.c_uint),
    "dlr_ckpt_peek": (ctypes.c_int, HANDLE, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p,
                      ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64),
                      ctypes.POINTER(Region)),
    "dlr_ckpt_mark_bad": (ctypes.c_int, HANDLE, ctypes.c_uint64),
    "dlr_ckpt_restore": (ctypes.c_int, HANDLE, ctypes.POINTER(ctypes.c_uint64)),
    "dlr_ckpt_go_on": (ctypes.c_int, HANDLE, ctypes.c_uint64),
    "dlr_ckpt_due": (ctypes.c_int, HANDLE, ctypes.c_uint64),
    "dlr_ckpt_begin": (ctypes.c_int, HANDLE, ctypes.c_uint64, ctypes.c_void_p),
    "dlr_ckpt_fence": (ctypes.c_int, HANDLE, ctypes.c_void_p),
    "dlr_ckpt_flush": (ctypes.c_int, HANDLE),
    "dlr_ckpt_save_now": (ctypes.c_int, HANDLE),
    "dlr_ckpt_wait": (ctypes.c_int, HANDLE, ctypes.c_uint64, ctypes.c_uint),
    "dlr_ckpt_progress": (ctypes.c_int, HANDLE, ctypes.c_uint64),
    "dlr_ckpt_stats": (None, HANDLE, ctypes.POINTER(Stats)),
    "dlr_ckpt_error": (ctypes.c_char_p, HANDLE),
    "dlr_ckpt_close": (None, HANDLE),
    "dlr_resilient_open": (ctypes.c_int, ctypes.POINTER(HANDLE)),
    "dlr_resilient_wait": (ctypes.c_int, HANDLE, ctypes.c_int),
    "dlr_resilient_next": (ctypes.c_int, HANDLE),
    "dlr_watch_open": (ctypes.c_int, ctypes.POINTER(HANDLE)),
    "dlr_watch_active": (ctypes.c_int, HANDLE),
    "dlr_watch_step": (None, HANDLE, ctypes.c_uint64),
    "dlr_watch_total": (None, HANDLE, ctypes.c_uint64),
    "dlr_watch_phase": (None, HANDLE, ctypes.c_char_p, ctypes.c_uint),
    "dlr_watch_pause": (None, HANDLE),
    "dlr_watch_resume": (None, HANDLE),
    "dlr_watch_call_number": (ctypes.c_uint32, ctypes.c_char_p),
    "dlr_watch_rank": (ctypes.c_int, HANDLE),
    "dlr_watch_put_group": (ctypes.c_int, HANDLE, ctypes.c_void_p),
    "dlr_watch_del_group": (None, HANDLE, ctypes.c_uint64),
    "dlr_watch_put_waits": (None, HANDLE, ctypes.c_void_p, ctypes.c_uint),
    "dlr_watch_close": (None, HANDLE),
}


def candidates():
    """Where the library may be: told, beside this package as installed or built, beside the
    command dlrover, where the suite is installed by default, where the loader looks.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    if os.environ.get("DLROVER_LIB"):
        return [os.environ["DLROVER_LIB"]]
    command = os.path.realpath(shutil.which("dlrover") or "/usr/local/bin/dlrover")
    lib = os.path.join("lib", "libdlrover.so.0")
    paths = [os.path.join(here, "..", "..", "..", "libdlrover.so.0"),
             os.path.join(here, "..", "..", "build", "libdlrover.so"),
             os.path.join(os.path.dirname(command), "..", lib),
             os.path.join("/opt/dlrover", lib)]
    return [path for path in paths if os.path.exists(path)] + ["libdlrover.so.0"]


def load():
    reasons = []
    for path in candidates():
        try:
            lib = ctypes.CDLL(path)
            break
        except OSError as error:
            reasons.append(str(error))
    else:
        raise ImportError("no libdlrover (DLROVER_LIB names one): " + "; ".join(reasons))
    for name, (result, *arguments) in CALLS.items():
        call = getattr(lib, name)
        call.restype, call.argtypes = result, arguments
    return lib
