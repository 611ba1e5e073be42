"""Matrix game of two players with simultaneous moves."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class MatrixGame:
    """Zero-sum matrix game: seat 0 is paid ``u(a, b)`` and seat 1 ``-u(a, b)``.

    Each seat reads its role (``roles``) and not the other's move. A turn ends with the first move
    in it. A turn with any other text pays the worst payoff.

    Args:
        moves: texts of the moves, none within another.
        payoffs: ``u``: a row for each move of seat 0, a column for each move of seat 1.
        roles: text for each seat.

    Raises:
        ConfigError: ``payoffs`` is not a square matrix of the size of ``moves``, or there are not
            two roles.

    Examples:
        >>> game = MatrixGame(moves=["h", "t"], payoffs=[[1, -1], [-1, 1]], roles=["a", "b"])
        >>> _ = game.reset(Example("?", "", ""), seed=0)
        >>> game.step("h").observation, game.step("t").payoffs
        ('b', (-1.0, 1.0))
    """

    def __init__(
        self, *, moves: Sequence[str], payoffs: Sequence[Sequence[float]], roles: Sequence[str]
    ) -> None:
        if len(payoffs) != len(moves) or any(len(row) != len(moves) for row in payoffs):
            raise ConfigError(
                f"environment.payoffs is {payoffs}: must be {len(moves)} rows of {len(moves)} "
                "numbers, one for each move of either seat"
            )
        if len(roles) != 2:
            raise ConfigError(f"environment.roles is {roles}: must be a text for each of two seats")
        self.stops = tuple(moves)
        self.moves = list(moves)
        self.payoffs = [[float(value) for value in row] for row in payoffs]
        self.roles = list(roles)
        self.first: str | None = None

    def reset(self, example: Example, seed: int) -> Turn:
        """Return the role of seat 0."""
        del example, seed
        self.first = None
        return Turn(observation=self.roles[0], seat=0)

    def step(self, action: str) -> Turn:
        """Store a move; pay after the second."""
        if self.first is None:
            self.first = action
            return Turn(observation=self.roles[1], seat=1)
        paid = self._paid(self.first, action)
        return Turn(done=True, payoffs=(paid, -paid))

    def _paid(self, first: str, second: str) -> float:
        lost = max(abs(value) for row in self.payoffs for value in row)
        known = first in self.moves, second in self.moves
        if not all(known):
            return 0.0 if not any(known) else lost if known[0] else -lost
        return self.payoffs[self.moves.index(first)][self.moves.index(second)]

    def facts(self) -> Mapping[str, float]:
        """Return no facts."""
        return {}

    def fork(self) -> MatrixGame:
        """Return a copy with the same state."""
        return copy.copy(self)

    def close(self) -> None:
        """No-op: it holds nothing."""
