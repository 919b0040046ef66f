# SPDX-License-Identifier: Apache-2.0
"""The ways of saving that field.py compares. Each saves into a directory of its own, in memory."""
import glob
import os
import select
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ANSWER_S = 60  # for DLRover's process


class Way:
    """start() and finish() are timed, settle() is not."""
    name = "nothing"
    stores = False

    def __init__(self, state, directory):
        self.state, self.directory = state, directory
        os.mkdir(directory)

    def start(self, step):
        pass

    def finish(self, step):
        pass

    def settle(self):
        pass

    def took(self):
        """Seconds, where the way measures itself."""
        return None

    def files(self):
        return [os.path.join(d, f) for d, _, names in os.walk(self.directory) for f in names]

    def load(self):
        """The newest state, by name; an exception, or an older one, when it was refused."""
        return None

    def close(self):
        pass

    def empty(self):
        return {name: tensor.clone().zero_() for name, tensor in self.state.items()}


class Nothing(Way):
    name = "nothing_again"


class Dlrover(Way):
    name = "dlrover"
    stores = True

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
        state = self.empty()
        with self.open(state) as handle:
            handle.restore()
        return state


class TorchSave(Way):
    name = "torch_save"
    stores = True

    def start(self, step):
        import torch  # pylint: disable=import-outside-toplevel
        torch.save(self.state, f"{self.directory}/new")
        os.replace(f"{self.directory}/new", f"{self.directory}/state")

    def load(self):
        import torch  # pylint: disable=import-outside-toplevel
        return torch.load(f"{self.directory}/state")


class DcpSave(Way):
    name = "dcp_save"
    stores = True

    def __init__(self, state, directory):
        super().__init__(state, directory)
        import torch.distributed.checkpoint as dcp  # pylint: disable=import-outside-toplevel
        self.dcp = dcp
        if not hasattr(dcp, "async_save"):
            raise ImportError("this PyTorch is too old")

    def start(self, step):
        self.dcp.save(self.state, checkpoint_id=self.directory)

    def load(self):
        state = self.empty()
        self.dcp.load(state, checkpoint_id=self.directory)
        return state


class DcpAsync(DcpSave):
    name = "dcp_async_save"
    saving = None

    def start(self, step):
        self.saving = self.dcp.async_save(self.state, checkpoint_id=self.directory)

    def settle(self):
        self.saving.result()


class NvrxLocal(Way):
    """NVIDIA's local checkpoint, which stands still for the write without a GPU."""
    name = "nvrx_local"
    stores = True

    def __init__(self, state, directory):
        super().__init__(state, directory)
        from nvidia_resiliency_ext.checkpointing.local import basic_state_dict
        from nvidia_resiliency_ext.checkpointing.local.ckpt_managers import local_manager

        class Host(basic_state_dict.BasicTensorAwareStateDict):
            """Of host memory, which the base refuses."""

            def __init__(self, state_dict):  # pylint: disable=super-init-not-called
                self.state_dict, self._is_hollow = state_dict, False

            def restore_tensor_device(self, non_blocking=True):
                pass

        self.host, self.manager = Host, local_manager.LocalCheckpointManager
        # torch.save() names a class by its module.
        Host.__qualname__ = "Host"
        setattr(sys.modules[Host.__module__], "Host", Host)
        self.saver = self.manager(directory)

    def start(self, step):
        self.saver.save(self.host(dict(self.state)), step, is_async=False)

    def load(self):
        manager = self.manager(self.directory)
        manager.find_latest()
        return manager.load()[0].state_dict


class TorchSnapshot(Way):
    name = "torchsnapshot"
    stores = True

    def __init__(self, state, directory):
        super().__init__(state, directory)
        import torchsnapshot  # pylint: disable=import-outside-toplevel
        self.module, self.path, self.old = torchsnapshot, None, None
        self.app = {"state": torchsnapshot.StateDict(**state)}

    def start(self, step):
        self.old, self.path = self.path, f"{self.directory}/{step}"
        self.module.Snapshot.take(self.path, self.app)

    def settle(self):
        if self.old:
            shutil.rmtree(self.old)

    def load(self):
        state = self.module.StateDict(**self.empty())
        self.module.Snapshot(self.path).restore({"state": state})
        return state


class TorchSnapshotAsync(TorchSnapshot):
    name = "torchsnapshot_async"
    saving = None

    def start(self, step):
        self.old, self.path = self.path, f"{self.directory}/{step}"
        self.saving = self.module.Snapshot.async_take(self.path, self.app)

    def settle(self):
        self.saving.wait()
        super().settle()


class Flash(Way):
    """DLRover's flash checkpoint, to its shared memory. Its process has a state of its own."""
    name = "flash_checkpoint"
    stores = True
    SHARED = f"/dev/shm/dlr-bench-{os.getpid()}_ckpt_shm_*"

    def __init__(self, state, directory):
        super().__init__(state, directory)
        mb = sum(t.numel() * t.element_size() for t in state.values()) // 1000000
        env = {**os.environ, "TORCHELASTIC_RUN_ID": f"dlr-bench-{os.getpid()}"}  # names its memory
        # pylint: disable=consider-using-with # ended in close()
        self.child = subprocess.Popen(
            [sys.executable, f"{HERE}/field_flash.py", directory, str(mb), str(len(state))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            start_new_session=True, env=env)
        self.seconds = None

    def ask(self, line):
        self.child.stdin.write(f"{line}\n".encode())
        if not select.select([self.child.stdout], [], [], ANSWER_S)[0]:
            raise TimeoutError(f"no answer in {ANSWER_S} s")
        answer = self.child.stdout.readline().decode().strip()
        if not answer:
            raise RuntimeError("its process ended")
        return answer

    def start(self, step):
        self.seconds = float(self.ask(f"step {step}"))

    def took(self):
        return self.seconds

    def files(self):
        return glob.glob(self.SHARED)

    def close(self):
        """Its saver is a process which outlives it."""
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
        for path in self.files():
            os.unlink(path)


WAYS = [Way, Nothing, Dlrover, TorchSave, DcpSave, DcpAsync, NvrxLocal, TorchSnapshot,
        TorchSnapshotAsync, Flash]


def flip(way, tensors):
    """One bit of the largest file, in the middle of a tensor near its middle."""
    newest = max(way.files(), key=lambda f: (os.path.getsize(f), os.path.getmtime(f)))
    with open(newest, "r+b") as f:
        f.seek(os.path.getsize(newest) * (tensors + 1) // (2 * tensors))
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 1]))


def wrong_byte(way, tensors):
    """What becomes of it: refused, taken, or (it was in none of the state's bytes) harmless. What is
    not right before the byte is flipped says nothing.
    """
    before = loads(way)
    if before != "right":
        return f"not known: a sound copy is {before}"
    flip(way, tensors)
    after = loads(way)
    return "harmless" if after == "right" else after


def loads(way):
    try:
        if isinstance(way, Flash):
            return way.ask("load")
        loaded = way.load()
    except Exception as e:  # pylint: disable=broad-exception-caught # whatever it says, it has noticed
        return f"refused: {type(e).__name__}: {e}"[:100].split("\n", 1)[0]
    if all(bool((loaded[name] == tensor).all()) for name, tensor in way.state.items()):
        return "right"
    # The state is another one in each round, so an older version is one that was chosen instead.
    older = all(bool((loaded[name] == tensor - 1).all()) for name, tensor in way.state.items())
    return "refused: the version before is loaded" if older else "taken"


def time_one(way, step, pause_s):
    """Seconds that the step stands still."""
    began = time.perf_counter()
    way.start(step)
    held = time.perf_counter() - began
    time.sleep(pause_s)
    began = time.perf_counter()
    way.finish(step)
    held += time.perf_counter() - began
    seconds = way.took()
    way.settle()
    return held if seconds is None else seconds
