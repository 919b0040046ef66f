# SPDX-License-Identifier: Apache-2.0
"""What the adapters need of a framework, asked before anything of it is used."""
from __future__ import annotations

import importlib
import re
import types
import typing


def numbers(text: str) -> tuple[int, ...]:
    """The release of a version, without what follows it (rc, dev, a local part): "2.6.1+cpu" gives (2, 6, 1)."""
    return tuple(int(part) for part in re.match(r"[0-9]*(?:\.[0-9]+)*", text)[0].split(".") if part)


def _has(module, path):
    """Whether module.path is there, parts of it being modules that were not imported yet."""
    found, name = module, module.__name__
    for part in path.split("."):
        name = f"{name}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            if not isinstance(found, types.ModuleType):
                return False
            try:
                found = importlib.import_module(name)
            except ImportError:
                return False
    return True


def require(module: str, oldest: str, attributes: typing.Sequence[str] = ()) -> types.ModuleType:
    """The imported module. attributes are paths from it, as "Trainer.add_callback" or "plugins.io.CheckpointIO".
    ImportError, in one line, where it is not installed, older than oldest, or lacks one of them.
    """
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"dlrover needs {module} {oldest} or newer, which cannot be imported: {error}") from error
    version = str(getattr(found, "__version__", "of no version"))
    if numbers(version) and numbers(version) < numbers(oldest):
        raise ImportError(f"dlrover needs {module} {oldest} or newer, this is {version}")
    lacks = [path for path in attributes if not _has(found, path)]
    if lacks:
        raise ImportError(f"{module} {version} has no {module}.{lacks[0]}, which dlrover uses: take another version "
                          f"of {module}, or a newer one of dlrover")
    return found
