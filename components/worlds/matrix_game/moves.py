"""Demonstrated moves of a game in which the seats see only their role."""

from __future__ import annotations

import random
from collections.abc import Sequence

from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Moves(metaclass=Checked):
    """Task of moves: ``"?a"`` asks the seat with role ``a`` for a move drawn from ``strategies``.

    A policy imitates these strategies before it plays. They need not be good ones.

    Args:
        prompt: text before the role.
        roles: text for each seat.
        moves: texts of the moves.
        strategies: probability of each move, for each seat.
        examples: number of examples; the seats alternate.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: ``strategies`` are not probabilities of each move for each role.

    Examples:
        >>> task = Moves(roles=["a", "b"], moves=["h", "t"], strategies=[[1, 0], [0, 1]])
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
        good = [len(each) == len(moves) and min(each) >= 0 < sum(each) for each in strategies]
        if len(strategies) != len(roles) or not all(good):
            raise ConfigError(
                f"Moves: strategies is {strategies}: must hold, for each of {len(roles)} roles, "
                f"{len(moves)} probabilities, one for each move"
            )
        self.prompt = prompt
        self.roles = list(roles)
        self.moves = list(moves)
        self.strategies = [list(each) for each in strategies]
        self.examples = examples
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return a move of the seat that the index chooses."""
        seat = index % len(self.roles)
        draw = random.Random(named_seed(index, "moves"))
        (move,) = draw.choices(self.moves, self.strategies[seat])
        return Example(self.prompt + self.roles[seat], move, move, source=str(index))
