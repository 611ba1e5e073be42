"""Kernel fusion by torch.compile: what lies between the products of a pass, in few kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

from rlcomp.engine.switch import Switch
from rlcomp.errors import ConfigError, in_one_line

P = ParamSpec("P")
T = TypeVar("T")
# Kinds of a call that are compiled: dtypes, dimensions, with and without a gradient.
_KINDS = 64
_compiles = Switch()
# By function, what was compiled of it.
_made: dict[Callable[..., Any], Callable[..., Any]] = {}


def compiles() -> bool:
    """Whether functions of :func:`compiled` are compiled here and now."""
    return _compiles.on


def compiling(wanted: bool) -> AbstractContextManager[None]:
    """Within it, and in this thread, functions of :func:`compiled` are compiled, or are not."""
    return _compiles.set(wanted)


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """A function of tensors whose kernels torch.compile fuses within :func:`compiling`.

    Elsewhere it runs as it is. It is compiled where it is first called, for some seconds, and for
    all sizes. Its numbers differ by rounding: what is half precision between two of its steps is
    float32 when they are one kernel.

    Args:
        function: of tensors, numbers and dtypes; none of its sizes is part of its meaning.

    Raises:
        ConfigError: torch.compile lacks a compiler; when the function is called.

    Source:
        Ansel et al. 2024, "PyTorch 2: Faster machine learning through dynamic Python bytecode
        transformation and graph compilation", section 4: TorchInductor.

    Examples:
        >>> compiled(torch.add)(torch.tensor(1.0), 2)
        tensor(3.)
    """

    @wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> T:
        if not compiles():
            return function(*given, **named)
        if function not in _made:
            import torch._dynamo.config as settings  # here: it takes two seconds
            import torch._functorch.config as gradients

            # Several objectives are differentiated one after the other through one forward pass.
            gradients.donated_buffer = False
            # Torch allows for 8.
            settings.recompile_limit = max(settings.recompile_limit, _KINDS)
            by_torch: Any = torch.compile
            _made[function] = by_torch(function, dynamic=True)
        with _refused():
            fast: T = _made[function](*given, **named)
        return fast

    return call


@contextmanager
def _refused() -> Iterator[None]:
    """Context in which torch.compile tells what it lacks."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        raise ConfigError(
            f"engine.compile is true, and torch.compile fails ({in_one_line(error)}): it needs "
            "Triton on a GPU, and a C++ compiler on a CPU; or set engine.compile=false"
        ) from error
