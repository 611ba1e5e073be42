"""Reward from a user-supplied function."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from rlcomp.arguments import NonEmptyText
from rlcomp.errors import ConfigError
from rlcomp.interfaces.reward import TextReward

_OFFERED = ("prompt", "response", "answer")


class Function(TextReward):
    """Reward from a user function of any of ``prompt``, ``response``, ``answer``.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`.

    Args:
        function: such as ``def brevity(response): return -len(response) / 100``; None or NaN means
            "cannot be judged", an exception stops the run. In yaml: ``{_target_: my_module.brevity,
            _partial_: true}``.
        name: of the part.

    Raises:
        ConfigError: the function needs an argument that no text reward has.

    Examples:
        >>> Function(function=lambda response: -float(len(response))).score("", "four", "")
        -4.0
    """

    def __init__(
        self, *, function: Callable[..., float | None], name: NonEmptyText = "function"
    ) -> None:
        super().__init__()
        self.function = function
        self.name = name
        self._named = _named(function)

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """The value of the function."""
        texts = {"prompt": prompt, "response": response, "answer": answer}
        return self.function(**{name: texts[name] for name in self._named})


def _named(function: Callable[..., object]) -> list[str]:
    if not callable(function):
        raise ConfigError(f"Function: function is {function!r}: must be callable")
    parameters = inspect.signature(function).parameters
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = [name for name, p in parameters.items() if p.kind in by_name and name in _OFFERED]
    for name, parameter in parameters.items():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if name not in named and parameter.default is parameter.empty and not variadic:
            raise ConfigError(
                f"Function: the function needs {name!r}; a reward is called by name with "
                f"{', '.join(_OFFERED)}: rename the parameter or give it a default"
            )
    return named
