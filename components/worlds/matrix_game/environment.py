"""Environment of a matrix game between two players."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class MatrixGame:
    """Zero-sum matrix game: seat 0 gets the payoff ``u(a, b)``, seat 1 gets ``-u(a, b)``.

    ``a`` is the move of seat 0, ``b`` the move of seat 1. Each seat observes its role (``roles``)
    but not the other seat's move. The text of a move ends the turn. A seat whose turn is another
    text gets the worst payoff, ``-max |u|``; if both do so, both get 0.

    Args:
        moves: texts of the moves; no text may contain another.
        payoffs: ``u``, with a row for each move of seat 0 and a column for each move of seat 1.
        roles: text for each of the two seats.

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
                "numbers, a row for each move of seat 0 and a column for each move of seat 1"
            )
        if len(roles) != 2:
            raise ConfigError(f"environment.roles is {roles}: must be two texts, one for each seat")
        self.stops = tuple(moves)
        self.moves = list(moves)
        self.payoffs = [[float(value) for value in row] for row in payoffs]
        self.roles = list(roles)
        self.first_move: str | None = None

    def reset(self, example: Example, seed: int) -> Turn:
        """Start a game and return the role of seat 0; nothing is random."""
        del example, seed
        self.first_move = None
        return Turn(observation=self.roles[0], seat=0)

    def step(self, action: str) -> Turn:
        """Store the move of seat 0; after the move of seat 1 return the payoffs."""
        if self.first_move is None:
            self.first_move = action
            return Turn(observation=self.roles[1], seat=1)
        payoff = self._payoff(self.first_move, action)
        return Turn(done=True, payoffs=(payoff, -payoff))

    def _payoff(self, first: str, second: str) -> float:
        """Return the payoff of seat 0."""
        is_move = first in self.moves, second in self.moves
        if not all(is_move):
            largest = max(abs(value) for row in self.payoffs for value in row)
            return largest * (is_move[0] - is_move[1])
        return self.payoffs[self.moves.index(first)][self.moves.index(second)]

    def facts(self) -> Mapping[str, float]:
        """Return no facts."""
        return {}

    def fork(self) -> MatrixGame:
        """Return a copy with the same state."""
        return copy.copy(self)

    def close(self) -> None:
        """No-op."""
