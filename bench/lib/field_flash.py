# SPDX-License-Identifier: Apache-2.0
"""DLRover's flash checkpoint, in a process of its own, since its package has our package's name:
field_flash.py DIRECTORY MB TENSORS. Lines come in, one goes out for each: "step N" changes the state
and saves it (the seconds that took), "load" says whether what is loaded is the state.
"""
import logging
import os
import sys
import time
import warnings


def main():
    directory, mb, tensors = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever it prints
    import torch  # pylint: disable=import-outside-toplevel
    from dlrover.trainer.torch.flash_checkpoint.checkpointer import StorageType
    from dlrover.trainer.torch.flash_checkpoint.ddp import DdpCheckpointer
    torch.set_num_threads(1)
    state = {f"t{i}": torch.zeros(mb * 1000000 // 4 // tensors) for i in range(tensors)}
    checkpointer = DdpCheckpointer(directory)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "load":
            loaded = checkpointer.load_checkpoint()
            same = all(torch.equal(loaded[name], state[name]) for name in state)
            print("right" if same else "taken", file=answers)
            continue
        for tensor in state.values():
            tensor += 1
        began = time.perf_counter()
        checkpointer.save_checkpoint(int(rest[0]), state, storage_type=StorageType.MEMORY)
        print(time.perf_counter() - began, file=answers)


if __name__ == "__main__":
    main()
