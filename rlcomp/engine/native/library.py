"""The native library: the shared object of this machine's instruction set, loaded once."""

from __future__ import annotations

import ctypes
import logging
import platform
from functools import cache
from pathlib import Path

import torch

from rlcomp.engine.native.abi import declare
from rlcomp.engine.native.build import OBJECTS, compiler, instruction_sets, object_path

_LOG = logging.getLogger(__name__)
_HOW = "run python -m rlcomp.engine.native.build"


def instruction_set() -> str | None:
    """Return the best instruction set of this machine for which there are objects.

    torch names the set that its own kernels may use; ``ATEN_CPU_CAPABILITY`` lowers both.
    """
    available = instruction_sets()
    if "neon" in available:
        return "neon"
    capability = torch.backends.cpu.get_cpu_capability().lower()
    return capability if capability in available else None


def why_missing() -> str | None:
    """Return why the native library is missing; None if it is there."""
    name = instruction_set()
    if name is None:
        return f"this processor ({platform.machine()}) has neither AVX-512, AVX2 nor NEON"
    if object_path(name).exists():
        return None
    if any(OBJECTS.glob("*.so")):
        return f"the library was compiled from other sources: {_HOW}"
    if compiler() is None:
        return f"the library is not compiled: install a C++ compiler (g++ or clang++), then {_HOW}"
    return f"the library is not compiled: {_HOW}"


@cache
def warn_of_absence(reason: str) -> None:
    """Log once that models run without the library.

    Args:
        reason: the result of :func:`why_missing`.
    """
    _LOG.warning(
        "sampling and updates run without the native library, in about twice the time: %s", reason
    )


def library() -> ctypes.CDLL:
    """Return the shared object; its calls release the interpreter's lock.

    Raises:
        RuntimeError: it is missing (:func:`why_missing`).
    """
    return _loaded(instruction_set(), OBJECTS)


@cache  # called for every norm: hash the sources once
def _loaded(name: str | None, objects: Path) -> ctypes.CDLL:
    why = why_missing()
    if why is not None:
        raise RuntimeError(why)
    assert name is not None
    return declare(ctypes.CDLL(str(objects / object_path(name).name)))
