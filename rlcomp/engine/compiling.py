"""Kernel fusion by torch.compile: the operations between the products of a pass, in few kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

from rlcomp.engine.context_flag import ThreadFlag
from rlcomp.errors import ConfigError, in_one_line

P = ParamSpec("P")
T = TypeVar("T")
# How many kinds of a call are compiled: dtypes, dimensions, with and without a gradient.
_KINDS = 64
_compiles = ThreadFlag()
# The compiled version of each function.
_made: dict[Callable[..., Any], Callable[..., Any]] = {}


def compiles() -> bool:
    """Return whether functions made by :func:`compiled` are compiled in this context and thread."""
    return _compiles.on


def compiling(wanted: bool) -> AbstractContextManager[None]:
    """Return a context that switches compilation by :func:`compiled` on or off in this thread."""
    return _compiles.set(wanted)


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function of tensors so that torch.compile fuses it within :func:`compiling`.

    Elsewhere it runs as it is. Its first call compiles it, for all sizes; this takes some seconds.
    Its numbers differ by rounding: intermediate results that are half precision between two steps
    are float32 within one kernel.

    Args:
        function: of tensors, numbers and dtypes; its result must not depend on sizes as constants.

    Raises:
        ConfigError: torch.compile lacks a compiler; raised when the function is called.

    Source:
        Ansel et al. 2024, "PyTorch 2: Faster machine learning through dynamic Python bytecode
        transformation and graph compilation", section 4: TorchInductor.

    Examples:
        >>> compiled(torch.add)(torch.tensor(1.0), 2)
        tensor(3.)
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not compiles():
            return function(*args, **kwargs)
        if function not in _made:
            import torch._dynamo.config as settings  # imported here: it takes two seconds
            import torch._functorch.config as gradients

            # Several objectives are differentiated one after the other through one forward pass.
            gradients.donated_buffer = False
            # The default of torch is 8.
            settings.recompile_limit = max(settings.recompile_limit, _KINDS)
            by_torch: Any = torch.compile
            _made[function] = by_torch(function, dynamic=True)
        with _refused():
            fast: T = _made[function](*args, **kwargs)
        return fast

    return call


@contextmanager
def _refused() -> Iterator[None]:
    """Turn an error of torch.compile about a missing compiler into a ConfigError."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        raise ConfigError(
            f"engine.compile is true, and torch.compile fails ({in_one_line(error)}): it needs "
            "Triton on a GPU, and a C++ compiler on a CPU; or set engine.compile=false"
        ) from error
