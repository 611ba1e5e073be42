"""The native library: its C structs and functions for ctypes, and the loader of its object.

The structs repeat ``src/model.h`` and ``src/session.h``. An object is loaded only if it was
compiled from these sources (:func:`rlcomp.engine.native.build.digest`).
"""

from __future__ import annotations

import ctypes
import logging
import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlcomp.engine.native.build import OBJECTS, compiler, instruction_sets, object_path

_LOG = logging.getLogger(__name__)
_BUILD_REMEDY = "run python -m rlcomp.engine.native.build"
_I, _D, _P = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class LinearStruct(ctypes.Structure):
    """``x w^T + bias``: weight ``[out, in]``, bias ``[out]`` or null."""

    _fields_ = (("weight", _P), ("bias", _P), ("outputs", _I), ("inputs", _I))


class NormStruct(ctypes.Structure):
    """A LayerNorm (``centred``) or a root-mean-square norm; a null weight stands for no norm."""

    _fields_ = (("weight", _P), ("bias", _P), ("eps", _D), ("centred", _I))


class LayerStruct(ctypes.Structure):
    """One layer; parts that it lacks are zeros."""

    _fields_ = (
        *((n, NormStruct) for n in ("before_attention", "before_feed", "of_queries", "of_keys")),
        *((name, LinearStruct) for name in ("q", "k", "v", "out", "gate", "up", "down")),
    )


class ModelStruct(ctypes.Structure):
    """A model: sizes, and pointers to its weights."""

    _fields_ = (
        *((n, _I) for n in ("layers", "hidden", "heads", "kv_heads", "head_size", "inner")),
        ("activation", _I),
        ("scale", _D),
        *((name, _P) for name in ("embedding", "position_embedding", "cosine", "sine")),
        ("layer", ctypes.POINTER(LayerStruct)),
        ("norm", NormStruct),
        ("head", LinearStruct),
    )


class TextsStruct(ctypes.Structure):
    """Byte strings in one buffer, and the end of each."""

    _fields_ = (("bytes", _P), ("ends", _P), ("count", _I))


class TurnStruct(ctypes.Structure):
    """Some steps of some rows: the request, and buffers for the results."""

    _fields_ = (
        ("count", _I),
        ("steps", _I),
        *((name, _P) for name in ("rows", "limits", "uniform")),
        ("temperature", _D),
        ("suppressed", _P),
        ("num_suppressed", _I),
        ("stops", _P),
        ("num_stops", _I),
        ("texts", TextsStruct),
        ("table", TextsStruct),
        ("goes_on", _I),
        ("closes", _I),
        *((name, _P) for name in ("tokens", "log_probs", "lengths", "ended")),
    )


_M, _T = ctypes.POINTER(ModelStruct), ctypes.POINTER(TurnStruct)
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "rlcomp_session": (_M, ctypes.POINTER(_P)),
    "rlcomp_open": (_P, _P, _P, _I, _P, _I),
    "rlcomp_read": (_P, _P, _I, _P, _P),
    "rlcomp_logits": (_P, _P, _I, _P),
    "rlcomp_generate": (_P, _T),
    "rlcomp_fork": (_P, _I, ctypes.POINTER(_I)),
    "rlcomp_rollout": (_M, _P, _P, _I, _P, _T),
}
# Functions whose argument types ctypes infers from the arguments. Those of norm and gate return
# nothing, so their results need no check: they are not listed.
_KERNELS = (
    *("rlcomp_tree_attention", "rlcomp_tree_attention_backward", "rlcomp_bf16x6"),
    *("rlcomp_log_probs", "rlcomp_log_probs_backward"),
    *("rlcomp_entropies", "rlcomp_entropies_backward"),
)
_INTERPRETER = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch")


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Set the types of the library's functions and the check of their results.

    Signal handlers run during a call; an exception in a handler ends the call. A function returns
    0; 1 if there is no memory; 2 if a handler raised an exception; 3 if an earlier call of the
    session ended early.
    """

    def check(result: int, function: Any, arguments: tuple[Any, ...]) -> None:  # noqa: ANN401
        del arguments
        if result == 1:
            raise MemoryError(f"no memory is left for {function.__name__}: lower the batch size")
        if result == 2:
            _raise_interruption(library)
        if result == 3:
            raise RuntimeError(
                "a call of this session was interrupted, and its state is unknown: begin another "
                "session"
            )

    for name in (*_FUNCTIONS, *_KERNELS):
        function = getattr(library, name)
        function.argtypes = _FUNCTIONS.get(name)
        function.restype, function.errcheck = ctypes.c_int, check
    for name, arguments in {"rlcomp_free": (_P,), "rlcomp_close": (_P, _I)}.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, None
    python = ctypes.PyDLL(None)
    pointers = [ctypes.cast(getattr(python, name), _P) for name in _INTERPRETER]
    library.rlcomp_heed_signals((_P * len(pointers))(*pointers))
    return library


def _raise_interruption(library: ctypes.CDLL) -> None:
    """Raise the exception that a signal handler has raised during a call of the library."""
    exception = (_P * 3)()
    library.rlcomp_raised(exception)
    restore = ctypes.PyDLL(None).PyErr_Restore
    restore.argtypes, restore.restype = (_P, _P, _P), None
    restore(*exception)  # ctypes raises the restored exception


def int64_tensor(values: Any) -> Tensor:  # noqa: ANN401
    """Return integers as an int64 tensor, the type that the library reads."""
    return torch.tensor(values, dtype=torch.int64)


def address(tensor: Tensor) -> ctypes.c_void_p:
    """Return the address of a tensor's first number; keep the tensor alive during the call."""
    return _P(tensor.data_ptr())


def int64(value: int) -> ctypes.c_int64:
    """Convert an integer to ``int64_t``."""
    return _I(value)


def instruction_set() -> str | None:
    """Return the best instruction set that torch may use here; None if it is not supported.

    The environment variable ``ATEN_CPU_CAPABILITY`` lowers it.
    """
    available = instruction_sets()
    if "neon" in available:
        return "neon"
    capability = torch.backends.cpu.get_cpu_capability().lower()
    return capability if capability in available else None


def why_missing() -> str | None:
    """Return why the native library is missing; None if it is not."""
    name = instruction_set()
    if name is None:
        return f"this processor ({platform.machine()}) has neither AVX-512, AVX2 nor NEON"
    if object_path(name).exists():
        return None
    if any(OBJECTS.glob("*.so")):
        return f"the library was compiled from other sources: {_BUILD_REMEDY}"
    if compiler() is None:
        remedy = f"install a C++ compiler (g++ or clang++), then {_BUILD_REMEDY}"
        return f"the library is not compiled: {remedy}"
    return f"the library is not compiled: {_BUILD_REMEDY}"


@cache
def warn_of_absence(reason: str) -> None:
    """Log once that models run without the library; ``reason`` is from :func:`why_missing`."""
    _LOG.warning(
        "sampling and updates run without the native library and take about twice as long: %s",
        reason,
    )


def library() -> ctypes.CDLL:
    """Return the shared object; its calls release the GIL.

    Raises:
        RuntimeError: the shared object is missing (:func:`why_missing`).
    """
    return _load(instruction_set(), OBJECTS)


@cache  # called for every norm: hash the sources once
def _load(name: str | None, objects: Path) -> ctypes.CDLL:
    if (reason := why_missing()) is not None:
        raise RuntimeError(reason)
    assert name is not None
    return declare(ctypes.CDLL(str(objects / object_path(name).name)))
