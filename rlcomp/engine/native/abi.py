"""C structs of the native library and its functions, as ctypes declares them.

They repeat ``src/model.h``, ``src/session.h`` and the functions at the end of ``src/session.cpp``.
An object is loaded only if its sources are these files (:func:`rlcomp.engine.native.build.digest`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_I, _D, _P = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class LinearStruct(ctypes.Structure):
    """``x w^T + bias``: weight ``[out, in]``, bias ``[out]`` or null."""

    _fields_ = (("weight", _P), ("bias", _P), ("outputs", _I), ("inputs", _I))


class NormStruct(ctypes.Structure):
    """A LayerNorm (``centred``) or a root-mean-square norm; without a weight there is none."""

    _fields_ = (("weight", _P), ("bias", _P), ("eps", _D), ("centred", _I))


class LayerStruct(ctypes.Structure):
    """One layer; parts that it lacks are zeros."""

    _fields_ = (
        *(
            (name, NormStruct)
            for name in ("before_attention", "before_feed", "of_queries", "of_keys")
        ),
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


# Functions that take tensors by value. Their argument types are known to ctypes.
_KERNELS = (
    *("rlcomp_tree_attention", "rlcomp_tree_attention_backward", "rlcomp_bf16x6"),
    *("rlcomp_log_probs", "rlcomp_log_probs_backward"),
    *("rlcomp_entropies", "rlcomp_entropies_backward"),
)
_INTERPRETER = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch")


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Set the types of the library's functions and the check of their results.

    Signal handlers run during a call; an exception in a handler ends the call.
    """
    for name in (*_FUNCTIONS, *_KERNELS):
        function = getattr(library, name)
        function.argtypes = _FUNCTIONS.get(name)
        function.restype, function.errcheck = ctypes.c_int, _checks(library)
    for name, arguments in {"rlcomp_free": (_P,), "rlcomp_close": (_P, _I)}.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, None
    python = ctypes.PyDLL(None)
    of_python = [ctypes.cast(getattr(python, name), _P) for name in _INTERPRETER]
    library.rlcomp_heed_signals((_P * len(of_python))(*of_python))
    return library


def _checks(library: ctypes.CDLL) -> Callable[[int, Any, tuple[Any, ...]], None]:
    """Return a function that raises the error that a result stands for."""

    def check(result: int, function: Any, arguments: tuple[Any, ...]) -> None:  # noqa: ANN401
        del arguments
        if result == 1:
            raise MemoryError(f"no memory is left for {function.__name__}: lower the batch size")
        if result == 2:
            _raise_interruption(library)
        if result == 3:
            raise RuntimeError(
                "a call of this session was interrupted, so that its state is not known: begin "
                "another session"
            )

    return check


def _raise_interruption(library: ctypes.CDLL) -> None:
    """Raise the exception that a signal handler raised during a call."""
    raised = (_P * 3)()
    library.rlcomp_raised(raised)
    restore = ctypes.PyDLL(None).PyErr_Restore
    restore.argtypes, restore.restype = (_P, _P, _P), None
    restore(*raised)  # ctypes raises the restored exception


def int64_tensor(values: Any) -> Tensor:  # noqa: ANN401
    """Convert a list of numbers to a tensor that the library can read."""
    return torch.tensor(values, dtype=torch.int64)


def address(tensor: Tensor) -> ctypes.c_void_p:
    """Return the address of a tensor's numbers; the tensor must live as long as they are read."""
    return _P(tensor.data_ptr())


def int64(value: int) -> ctypes.c_int64:
    """Convert a number to the type that the library reads."""
    return _I(value)
