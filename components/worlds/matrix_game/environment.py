"""Matrix game of two players, who move without seeing each other's move."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class MatrixGame:
    """Zero-sum matrix game: seat 0 is paid ``u(a, b)`` and seat 1 ``-u(a, b)``.

    Each seat is told what it plays (``roles``) and nothing of the other's move. A turn ends with
    the first move in it; one that holds anything else loses: the most that there is to lose.

    Args:
        moves: texts, none within another.
        payoffs: ``u``: a row for each move of seat 0, a column for each of seat 1.
        roles: what each seat is told.

    Raises:
        ConfigError: ``payoffs`` is not a square of as many numbers as there are moves, or there are
            not two roles.

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
        """Tell seat 0 its role."""
        del example, seed
        self.first = None
        return Turn(observation=self.roles[0], seat=0)

    def step(self, action: str) -> Turn:
        """Take a move; after the second, pay."""
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
        """Nothing."""
        return {}

    def fork(self) -> MatrixGame:
        """Another one at the same place."""
        return copy.copy(self)

    def close(self) -> None:
        """Nothing is held."""
