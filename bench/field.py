#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a save holds a paced step up, beside what else there is, and whether a wrong byte is found.

One process and its state in host memory, 10 MB, 100 MB and 1 GB (BENCH_FIELD_MB), saved into one directory
of memory (/dev/shm; BENCH_FIELD_DIR): with libdlrover alone, without a job; with torch.save; with
torch.distributed.checkpoint's save and async_save; with the local checkpoint of nvidia-resiliency-ext, with
torchsnapshot's take and async_take, and with DLRover's flash checkpoint (to its own shared memory, from a
process of its own, which takes its own time). All ways take turns; between the two calls of a way that
has two the step sleeps for 100 ms, as one on a GPU does for the host. Then one bit of a tensor in the
largest file of each is flipped, and it is loaded again. "nothing", twice, is the noise of the clock and of the
machine. PyTorch is that of scripts/install-deps --torch-venv, the rest comes from PyPI into
build/field-venv; what cannot be had is named, with the reason, in the row field.absent. Takes about 4 minutes.
"""
import importlib.metadata
import json
import os
import shutil
import statistics
import sys
import tempfile
import warnings

from lib.rows import load, median_interval, percentile, room_for, row, say

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZES = [int(w) for w in os.environ.get("BENCH_FIELD_MB", "10,100,1000").split(",")]
ROUNDS = {10: 31, 100: 21, 1000: 7}
STEP_S = 0.1
TENSORS = 16
PLACE = os.environ.get("BENCH_FIELD_DIR", "/dev/shm")
COPIES = 20  # of the state, at most, in all ways' memory and files


def choose_python():
    """Goes on in the interpreter that has PyTorch and the rest; {what is not there: why}."""
    if "BENCH_FIELD_ABSENT" in os.environ:
        return json.loads(os.environ.pop("BENCH_FIELD_ABSENT"))
    from lib import field_venv  # pylint: disable=import-outside-toplevel
    python, absent = field_venv.prepare()
    os.environ["BENCH_FIELD_ABSENT"] = json.dumps(absent)
    os.execv(python, [python, *sys.argv])


def library():
    sys.path.insert(0, f"{REPO}/python")
    stage = os.environ.get("DLROVER_STAGE", f"{REPO}/build/stage")
    path = f"{stage}{os.environ.get('PREFIX', '/opt/dlrover')}/lib/libdlrover.so.0"
    if os.path.exists(path):
        os.environ.setdefault("DLROVER_LIB", path)


def why(error):
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no text'}"[:160]


def ways_here(state, directory, absent):
    from lib.field_ways import WAYS  # pylint: disable=import-outside-toplevel
    ways = []
    for make in WAYS:
        try:
            ways.append(make(state, f"{directory}/{make.name}"))
        except Exception as error:  # pylint: disable=broad-exception-caught # others' code
            absent.setdefault(make.name, why(error))
    return ways


def measure(ways, rounds, absent):
    """Seconds that each way held the step up, round by round, by its name; one that fails leaves."""
    from lib.field_ways import time_one  # pylint: disable=import-outside-toplevel
    took = {way.name: [] for way in ways}
    for step in range(1, rounds + 2):
        for tensor in ways[0].state.values():
            tensor += 1
        for way in list(ways):
            try:
                took[way.name].append(time_one(way, step, STEP_S))
            except Exception as error:  # pylint: disable=broad-exception-caught
                if not way.stores or way.name == "dlrover":
                    raise
                absent.setdefault(way.name, why(error))
                way.close()
                ways.remove(way)
    return {name: values[1:] for name, values in took.items()}  # the first makes the files


def version_of(way):
    package = {"nvrx_local": "nvidia-resiliency-ext", "torchsnapshot": "torchsnapshot",
               "torchsnapshot_async": "torchsnapshot", "flash_checkpoint": "dlrover"}.get(way.name)
    return f"{package} {importlib.metadata.version(package)}; " if package else ""


def report(torch, mb, ways, took, began_load):
    from lib.field_ways import wrong_byte  # pylint: disable=import-outside-toplevel
    floor = abs(statistics.median(took["nothing"]) - statistics.median(took["nothing_again"]))
    for way in ways:
        values = [1e3 * t for t in took[way.name]]
        found = wrong_byte(way, TENSORS) if way.stores else None
        row(f"field.{way.name}.{mb}mb", statistics.median(values), "ms",
            f"{version_of(way)}{mb} MB in {TENSORS} tensors of host memory, paced by sleeps of "
            f"{STEP_S * 1e3:.0f} ms, files in {PLACE}; one process, no replica; torch {torch.__version__}; "
            f"{os.cpu_count()} cores; load {began_load:.1f} at its start, {load():.1f} now",
            noise=max(median_interval(values) or 0, 1e3 * floor), p99=percentile(values, 99),
            max=max(values), n=len(values), wrong_byte=found,
            what="the step stands still for the save: median of all saves")
        if found:
            say(f"{mb} MB {way.name}: {statistics.median(values):.3g} ms, a wrong byte is {found}")


def measure_size(torch, mb, absent):
    began_load, ways = load(), []
    state = {f"t{i}": torch.zeros(mb * 1000000 // 4 // TENSORS) for i in range(TENSORS)}
    directory = tempfile.mkdtemp(prefix="dlr-bench-field.", dir=PLACE)
    try:
        ways = ways_here(state, directory, absent)
        report(torch, mb, ways, measure(ways, ROUNDS.get(mb, 7), absent), began_load)
    finally:
        for way in ways:
            way.close()
        shutil.rmtree(directory, ignore_errors=True)


def main():
    absent = choose_python()
    warnings.simplefilter("ignore")
    library()
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        say("field: no PyTorch, nothing measured")
        return
    torch.set_num_threads(1)
    group = torch.distributed.is_available() and hasattr(torch.distributed, "init_process_group")
    with tempfile.TemporaryDirectory() as meet:
        if group:
            torch.distributed.init_process_group("gloo", init_method=f"file://{meet}/meet", rank=0,
                                                 world_size=1)
        for mb in [mb for mb in SIZES if room_for(mb, COPIES)]:
            measure_size(torch, mb, absent)
        if group:
            torch.distributed.destroy_process_group()
    for name, reason in absent.items():
        say(f"not measured: {name}: {reason}")
    row("field.absent", len(absent), "ways", "; ".join(f"{n}: {r}" for n, r in absent.items()))


main()
