"""Task of demonstrated moves in a game in which each seat sees only its role."""

from __future__ import annotations

import random
from collections.abc import Sequence

from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class MoveDemonstrations(metaclass=Checked):
    """Task of moves: ``"?a"`` asks the seat with role ``a`` for a move drawn from its strategy.

    A policy imitates the strategies before it plays. They need not be good strategies.

    Args:
        prompt: text before the role.
        roles: text for each seat.
        moves: texts of the moves.
        strategies: for each seat a weight of each move, proportional to its probability.
        examples: number of examples; the seats alternate.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: ``strategies`` is not a weight of each move for each role, or the weights of a
            role are negative or all 0.

    Examples:
        >>> task = MoveDemonstrations(
        ...     roles=["a", "b"], moves=["h", "t"], strategies=[[1, 0], [0, 1]]
        ... )
        >>> [(e.prompt, e.demonstration) for e in map(task.example, (0, 1))]
        [('?a', 'h'), ('?b', 't')]
    """

    def __init__(
        self,
        *,
        prompt: NonEmptyText = "?",
        roles: Sequence[str],
        moves: Sequence[str],
        strategies: Sequence[Sequence[float]],
        examples: PositiveInt = 10_000,
        held_out: Fraction = 0.1,
    ) -> None:
        valid = [len(row) == len(moves) and min(row) >= 0 < sum(row) for row in strategies]
        if len(strategies) != len(roles) or not all(valid):
            raise ConfigError(
                f"MoveDemonstrations: strategies is {strategies}: must be a list for each of "
                f"{len(roles)} roles, with a probability for each of {len(moves)} moves"
            )
        self.prompt = prompt
        self.roles = list(roles)
        self.moves = list(moves)
        self.strategies = [list(row) for row in strategies]
        self.examples = examples
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return a move of the seat ``index % len(roles)``."""
        seat = index % len(self.roles)
        draw = random.Random(named_seed(index, "moves"))
        (move,) = draw.choices(self.moves, self.strategies[seat])
        return Example(self.prompt + self.roles[seat], move, move, source=str(index))
