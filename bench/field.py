#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a save holds a paced step up, beside what PyTorch has for it, and whether a wrong byte is found.

One process and its state in host memory, 10 MB, 100 MB and 1 GB (BENCH_FIELD_MB), saved into one directory
of memory (/dev/shm; BENCH_FIELD_DIR): with libdlrover alone, without a job; with torch.save; with
torch.distributed.checkpoint's save and async_save. All ways take turns; between the two calls of a way that
has two the step sleeps for 100 ms, as one on a GPU does for the host. Then one bit of a tensor in the
largest file of each is flipped, and it is loaded again. "nothing", twice, is the noise of the clock and of the
machine. PyTorch is that of DLROVER_TORCH_VENV (scripts/install-deps --torch-venv), else Debian's, which
is too old for the last two. Takes about 2 minutes.
"""
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings

from lib.rows import load, median_interval, percentile, row, say

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZES = [int(w) for w in os.environ.get("BENCH_FIELD_MB", "10,100,1000").split(",")]
ROUNDS = {10: 31, 100: 21, 1000: 7}
STEP_S = 0.1
TENSORS = 16
PLACE = os.environ.get("BENCH_FIELD_DIR", "/dev/shm")


def choose_python():
    """Goes on in the interpreter that has the newer PyTorch."""
    python = os.path.join(os.environ.get("DLROVER_TORCH_VENV", "/opt/dlrover-torch"), "bin/python")
    if os.access(python, os.X_OK) and sys.prefix == sys.base_prefix:
        os.execv(python, [python, *sys.argv])


def library():
    sys.path.insert(0, f"{REPO}/python")
    stage = os.environ.get("DLROVER_STAGE", f"{REPO}/build/stage")
    path = f"{stage}{os.environ.get('PREFIX', '/opt/dlrover')}/lib/libdlrover.so.0"
    if os.path.exists(path):
        os.environ.setdefault("DLROVER_LIB", path)


class Way:
    """Saves into a directory of its own. start() and finish() are timed, settle() is not."""
    name = "nothing"

    def __init__(self, state, directory):
        self.state, self.directory = state, directory
        os.mkdir(directory)

    def start(self, step):
        pass

    def finish(self, step):
        pass

    def settle(self):
        pass

    def load(self):
        """The newest state, by name; an exception, or an older one, when it was refused."""
        return None


class Nothing(Way):
    name = "nothing_again"


class Dlrover(Way):
    name = "dlrover"

    def __init__(self, state, directory):
        super().__init__(state, directory)
        self.handle = self.open(state)

    def open(self, state):
        import dlrover  # pylint: disable=import-outside-toplevel
        handle = dlrover.Checkpoint(directory=self.directory, rank=0, world=1, every=1)
        for name, tensor in state.items():
            handle.add(name, tensor.numpy())
        return handle

    def start(self, step):
        self.handle.begin(step)

    def finish(self, step):
        self.handle.fence()

    def load(self):
        self.handle.close()
        state = {name: tensor.clone().zero_() for name, tensor in self.state.items()}
        with self.open(state) as handle:
            handle.restore()
        return state


class TorchSave(Way):
    name = "torch_save"

    def start(self, step):
        import torch  # pylint: disable=import-outside-toplevel
        torch.save(self.state, f"{self.directory}/new")
        os.replace(f"{self.directory}/new", f"{self.directory}/state")

    def load(self):
        import torch  # pylint: disable=import-outside-toplevel
        return torch.load(f"{self.directory}/state")


class DcpSave(Way):
    name = "dcp_save"

    def __init__(self, state, directory):
        super().__init__(state, directory)
        import torch.distributed.checkpoint as dcp  # pylint: disable=import-outside-toplevel
        self.dcp = dcp

    def start(self, step):
        self.dcp.save(self.state, checkpoint_id=self.directory)

    def load(self):
        state = {name: tensor.clone().zero_() for name, tensor in self.state.items()}
        self.dcp.load(state, checkpoint_id=self.directory)
        return state


class DcpAsync(DcpSave):
    name = "dcp_async_save"
    saving = None

    def start(self, step):
        self.saving = self.dcp.async_save(self.state, checkpoint_id=self.directory)

    def settle(self):
        self.saving.result()


def flip(directory):
    """One bit of the largest file, in the middle of a tensor near its middle."""
    files = [os.path.join(d, f) for d, _, names in os.walk(directory) for f in names]
    newest = max(files, key=lambda f: (os.path.getsize(f), os.path.getmtime(f)))
    with open(newest, "r+b") as f:
        f.seek(os.path.getsize(newest) * (TENSORS + 1) // (2 * TENSORS))
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 1]))


def wrong_byte(way):
    """What becomes of it: refused, taken, or (it was in none of the state's bytes) harmless."""
    flip(way.directory)
    try:
        loaded = way.load()
    except Exception as e:  # pylint: disable=broad-exception-caught # whatever it says, it has noticed
        return f"refused: {type(e).__name__}"
    if all(bool((loaded[name] == tensor).all()) for name, tensor in way.state.items()):
        return "harmless"
    # The state is another one in each round, so an older version is one that was chosen instead.
    older = all(bool((loaded[name] == tensor - 1).all()) for name, tensor in way.state.items())
    return "refused: the version before is loaded" if older else "taken"


def ways_here(torch, state, directory):
    ways = [Way, Nothing, Dlrover, TorchSave]
    if dcp_is_new():
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{directory}/meet", rank=0, world_size=1)
        ways += [DcpSave, DcpAsync]
    return [w(state, f"{directory}/{w.name}") for w in ways]


def dcp_is_new():
    try:
        import torch.distributed.checkpoint as dcp  # pylint: disable=import-outside-toplevel
    except ImportError:
        return False
    return hasattr(dcp, "async_save")


def measure(torch, ways, rounds):
    """Seconds that each way held the step up, round by round, by its name."""
    took = {way.name: [] for way in ways}
    for step in range(1, rounds + 2):
        for tensor in ways[0].state.values():
            tensor += 1
        for way in ways:
            began = time.perf_counter()
            way.start(step)
            held = time.perf_counter() - began
            time.sleep(STEP_S)
            began = time.perf_counter()
            way.finish(step)
            took[way.name].append(held + time.perf_counter() - began)
            way.settle()
    return {name: values[1:] for name, values in took.items()}  # the first makes the files


def report(torch, mb, ways, took, began_load):
    floor = abs(statistics.median(took["nothing"]) - statistics.median(took["nothing_again"]))
    for way in ways:
        values = [1e3 * t for t in took[way.name]]
        found = None if isinstance(way, Nothing) or way.name == "nothing" else wrong_byte(way)
        row(f"field.{way.name}.{mb}mb", statistics.median(values), "ms",
            f"{mb} MB in {TENSORS} tensors of host memory, paced by sleeps of {STEP_S * 1e3:.0f} ms, files in "
            f"{PLACE}; one process, no replica; torch {torch.__version__}; {os.cpu_count()} cores; "
            f"load {began_load:.1f} at its start, {load():.1f} now",
            noise=max(median_interval(values) or 0, 1e3 * floor), p99=percentile(values, 99),
            max=max(values), n=len(values), wrong_byte=found,
            what="the step stands still for the save: median of all saves")
        if found:
            say(f"{mb} MB {way.name}: {statistics.median(values):.3g} ms, a wrong byte is {found}")


def main():
    choose_python()
    warnings.simplefilter("ignore")
    library()
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        say("field: no PyTorch, nothing measured")
        return
    torch.set_num_threads(1)
    for mb in SIZES:
        began_load, group = load(), None
        state = {f"t{i}": torch.zeros(mb * 1000000 // 4 // TENSORS) for i in range(TENSORS)}
        directory = tempfile.mkdtemp(prefix="dlr-bench-field.", dir=PLACE)
        try:
            ways = ways_here(torch, state, directory)
            group = torch.distributed.is_available() and torch.distributed.is_initialized()
            report(torch, mb, ways, measure(torch, ways, ROUNDS.get(mb, 7)), began_load)
        finally:
            if group:
                torch.distributed.destroy_process_group()
            shutil.rmtree(directory, ignore_errors=True)


main()
