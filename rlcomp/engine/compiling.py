"""Kernel fusion by torch.compile, which a flag of the thread switches on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

from rlcomp.errors import ConfigError, in_one_line

P = ParamSpec("P")
T = TypeVar("T")
# Limit of compiled variants of a function: by dtypes, number of dimensions and need of a gradient.
_VARIANTS = 64


class ThreadFlag(threading.local):
    """Flag of the current thread, off by default.

    Examples:
        >>> flag = ThreadFlag()
        >>> with flag.set(True):
        ...     flag.on
        True
        >>> flag.on
        False
    """

    on = False

    @contextmanager
    def set(self, on: bool) -> Iterator[None]:
        """Set the flag within the context."""
        before, self.on = self.on, on
        try:
            yield
        finally:
            self.on = before


_compiles = ThreadFlag()
# The compiled version of each function.
_compiled_functions: dict[Callable[..., Any], Callable[..., Any]] = {}


def compiles() -> bool:
    """Return whether :func:`compiled` functions are compiled in this context and thread."""
    return _compiles.on


def compiling(on: bool) -> AbstractContextManager[None]:
    """Return a context in which :func:`compiled` functions are fused (``on``), or run eagerly."""
    return _compiles.set(on)


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function of tensors so that torch.compile fuses it within :func:`compiling`.

    The first call compiles it for all sizes, in some seconds. Results differ by rounding:
    intermediate results that eager mode rounds to half precision are float32 within a kernel.

    Args:
        function: function of tensors, numbers and dtypes; it must not read a size as
            a Python number, which would be a constant of the graph.

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
        if function not in _compiled_functions:
            import torch._dynamo.config as settings  # imported here: it takes two seconds
            import torch._functorch.config as functorch_settings

            # Several objectives share a forward pass, and each has its own backward pass.
            functorch_settings.donated_buffer = False
            # The default of torch is 8.
            settings.recompile_limit = max(settings.recompile_limit, _VARIANTS)
            torch_compile: Any = torch.compile
            _compiled_functions[function] = torch_compile(function, dynamic=True)
        try:
            result: T = _compiled_functions[function](*args, **kwargs)
        except Exception as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            raise ConfigError(
                f"engine.compile is true, and torch.compile failed ({in_one_line(error)}): install "
                "Triton for a GPU or a C++ compiler for a CPU, or set engine.compile=false"
            ) from error
        return result

    return call
