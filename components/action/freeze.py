"""Frozen weights."""

from __future__ import annotations

import re

from torch import nn

from rlcomp.arguments import NonEmptyText
from rlcomp.errors import ConfigError
from rlcomp.interfaces.learner import FreezesParameters


class Freeze(nn.Module):
    """Action that freezes a learner's parameters at the begin of a phase: no step, no decay.

    The clipped norm of the gradient is over the other parameters. Parameters that an earlier
    phase froze thaw first, so that ``parameters: null`` thaws all.

    Args:
        learner: the learner whose steps leave them as they are.
        parameters: a regular expression, searched in their names (``policy.model.``...); null
            freezes none.

    Raises:
        ConfigError: it is no regular expression, or it matches none or all of the parameters.
    """

    learner: FreezesParameters

    def __init__(
        self, *, learner: FreezesParameters, parameters: NonEmptyText | None = None
    ) -> None:
        super().__init__()
        # Not a submodule: the learner owns its tensors.
        object.__setattr__(self, "learner", learner)
        self.names = _found(list(learner.trained_names), parameters)

    def begin_phase(self) -> None:
        """Freeze exactly these parameters."""
        self.learner.freeze(self.names)


def _found(names: list[str], pattern: str | None) -> list[str]:
    if pattern is None:
        return []
    try:
        matching = [name for name in names if re.search(pattern, name)]
    except re.error as error:
        raise ConfigError(
            f"Freeze: parameters is {pattern!r}: {error}; write a regular expression"
        ) from error
    if not matching or len(matching) == len(names):
        which = "none" if not matching else "all, so that nothing would be learnt,"
        raise ConfigError(
            f"Freeze: parameters is {pattern!r}, which finds {which} of the learner's "
            f"{len(names)} parameters (such as {names[0]})"
        )
    return matching
