"""Demonstrated moves of a game in which the seats see nothing but their role."""

from __future__ import annotations

import random
from collections.abc import Sequence

from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Moves(metaclass=Checked):
    """``"?a"`` asks the seat that is told ``a`` for its move, which is drawn from ``strategies``.

    What a policy imitates before it plays: a strategy for each seat, which need not be a good one.

    Args:
        prompt: what stands in front of the role.
        roles: what each seat is told.
        moves: texts of the moves.
        strategies: for each seat the probability of each move.
        examples: how many; the seats take turns.
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
        """How many examples there are, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """A move of the seat whose turn the index is."""
        seat = index % len(self.roles)
        draw = random.Random(named_seed(index, "moves"))
        (move,) = draw.choices(self.moves, self.strategies[seat])
        return Example(self.prompt + self.roles[seat], move, move, source=str(index))
