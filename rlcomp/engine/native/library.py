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
    """The best instruction set that this machine has and that objects are made for.

    torch says which one its own kernels may use; ``ATEN_CPU_CAPABILITY`` lowers that for both.
    """
    made = instruction_sets()
    if "neon" in made:
        return "neon"
    capability = torch.backends.cpu.get_cpu_capability().lower()
    return capability if capability in made else None


def absent() -> str | None:
    """Why there is no native library here; None if there is one."""
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
        reason: of :func:`absent`.
    """
    _LOG.warning(
        "sampling and updates run without the native library, in about twice the time: %s", reason
    )


def library() -> ctypes.CDLL:
    """The shared object; a call lets go of the interpreter's lock.

    Raises:
        RuntimeError: there is none (:func:`absent`).
    """
    return _loaded(instruction_set(), OBJECTS)


@cache  # called for every norm: what the sources are is looked up once
def _loaded(name: str | None, objects: Path) -> ctypes.CDLL:
    why = absent()
    if why is not None:
        raise RuntimeError(why)
    assert name is not None
    return declare(ctypes.CDLL(str(objects / object_path(name).name)))
