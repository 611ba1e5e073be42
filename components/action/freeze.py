"""Frozen weights."""

from __future__ import annotations

import re

from torch import nn

from rlcomp.arguments import NonEmptyText
from rlcomp.errors import ConfigError
from rlcomp.interfaces.learner import FreezesParameters


class Freeze(nn.Module):
    """Freeze a learner's parameters from the begin of a phase on: they get no step, no decay.

    The gradient's norm, which is clipped, is of the others. What was frozen before thaws, so that
    ``parameters: null`` thaws all.

    Args:
        learner: in whose steps they stay as they are.
        parameters: a regular expression, looked for in their names (``policy.model.``...); null for
            none of them.

    Raises:
        ConfigError: it is no regular expression, or finds no parameter of the learner, or all.
    """

    learner: FreezesParameters

    def __init__(
        self, *, learner: FreezesParameters, parameters: NonEmptyText | None = None
    ) -> None:
        super().__init__()
        # Past nn.Module: the learner's tensors belong to the learner.
        object.__setattr__(self, "learner", learner)
        self.names = _found(list(learner.trained_names), parameters)

    def begin_phase(self) -> None:
        """Freeze these, and only these."""
        self.learner.freeze(self.names)


def _found(names: list[str], pattern: str | None) -> list[str]:
    if pattern is None:
        return []
    try:
        found = [name for name in names if re.search(pattern, name)]
    except re.error as error:
        raise ConfigError(
            f"Freeze: parameters is {pattern!r}: {error}; write a regular expression"
        ) from error
    if not found or len(found) == len(names):
        which = "none" if not found else "all, so that nothing would be learnt,"
        raise ConfigError(
            f"Freeze: parameters is {pattern!r}, which finds {which} of the learner's "
            f"{len(names)} parameters (such as {names[0]})"
        )
    return found
