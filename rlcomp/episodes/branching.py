"""Branching rollout (ARPO): trees of episodes that fork after an observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rlcomp.episodes.host import Start
from rlcomp.episodes.rollout import Rollout
from rlcomp.functional.branching import normalised_entropy


@dataclass(frozen=True)
class BranchingBudget:
    """Number of episodes of a prompt, and the rule of their starts.

    Attributes:
        rows: maximum number of episodes of each prompt, ``M``.
        initial: episodes that start from the prompt, ``N``; branches are added up to ``M``.
        fill: whether the remaining episodes start from the prompt when all others have ended.
        rule: maps changes of entropy at observations, shape ``[N]``, to probabilities of a branch.
    """

    rows: int
    initial: int
    fill: bool
    rule: Callable[[Tensor], Tensor]


@dataclass
class EpisodeOrigin:
    """Origin of an episode in its tree.

    Attributes:
        prompt: index of its prompt.
        parent: index of the episode that it branches from; -1: none.
        depth: number of tokens that it shares with its parent.
        share: product of 1 / continuations over its branchings.
        entropies: entropy before each turn, divided by ``log V``.
    """

    prompt: int
    parent: int = -1
    depth: int = 0
    share: float = 1.0
    entropies: list[float] = field(default_factory=list)


class BranchingRollout(Rollout):
    """Episodes that fork after observations.

    All episodes that may start from the prompt are opened together, and their environments reset;
    each branch then replaces one of them in the budget. The draws of an episode are the same as
    without branches.
    """

    def grow(
        self, starts: Sequence[Start], budget: BranchingBudget, generator: torch.Generator
    ) -> None:
        """Roll out the episodes of all prompts.

        Args:
            starts: ``budget.rows`` for each prompt, prompt 0 first.
            budget: the budget of each prompt.
            generator: draws the decisions to branch, on the CPU.
        """
        self.budget, self.generator = budget, generator
        self.origins = [EpisodeOrigin(row // budget.rows) for row in range(len(starts))]
        # spare: episodes of each prompt that have not begun; unused: episodes that never begin.
        first_rows = range(0, len(starts), budget.rows)
        self.spare = [[*range(n + budget.initial, n + budget.rows)] for n in first_rows]
        self.unused: set[int] = set()
        self.deltas: list[Tensor] = []
        try:
            alive = self._open(starts)
            self._play([row for row in alive if row % budget.rows < budget.initial])
            left = {row for rows in self.spare for row in rows}
            self.spare = [[] for _ in self.spare]
            if budget.fill:
                self._play([row for row in alive if row in left])
            else:
                self.unused |= left
            self._read_facts()
        finally:
            self.host.close()

    def order(self) -> list[int]:
        """Return the numbers of the episodes, prompt by prompt, each parent before its children."""
        episodes = [row for row in range(len(self.origins)) if row not in self.unused]
        return sorted(episodes, key=lambda row: (self.origins[row].prompt, row))

    def delta_entropy(self) -> Tensor:
        """Return the change of entropy at each observation against the first turn of its tree."""
        return torch.cat([torch.zeros(0), *self.deltas])

    def columns(self, order: Sequence[int], width: int) -> dict[str, Tensor]:
        """Return the columns that describe the trees.

        Args:
            order: the episode of each row.
            width: tokens of a row.

        Returns:
            ``group_id``, ``branch_depth``, ``branch_parent`` (a row, or -1), ``branch_share``
            ``[B]``, and ``turn_entropy`` ``[B, T]``: the entropy at the first token of each turn, 0
            elsewhere.
        """
        row_of = {number: row for row, number in enumerate(order)} | {-1: -1}
        origins = [self.origins[number] for number in order]
        entropy = torch.zeros(len(order), width)
        for row, (number, origin) in enumerate(zip(order, origins, strict=True)):
            starts = [turn.start for turn in self.episodes[number].turns]
            entropy[row, starts] = torch.tensor(origin.entropies)
        return {
            "group_id": torch.tensor([origin.prompt for origin in origins]),
            "branch_depth": torch.tensor([origin.depth for origin in origins]),
            "branch_parent": torch.tensor([row_of[origin.parent] for origin in origins]),
            "branch_share": torch.tensor([origin.share for origin in origins]),
            "turn_entropy": entropy,
        }

    def _play(self, alive: list[int]) -> None:
        """Play new episodes and their branches to the end."""
        for number in range(self.limits.turns):
            if not alive:
                break
            delta = self._entropy_change(alive)
            if number:
                alive = alive + self._branch(alive, delta)
            alive = self._turn(alive, last=number + 1 == self.limits.turns)

    def _entropy_change(self, rows: list[int]) -> Tensor:
        """Record the entropy before a turn of each row; return its change since the first turn."""
        entropies = normalised_entropy(self.session.logits(rows)).tolist()
        for row, entropy in zip(rows, entropies, strict=True):
            self.origins[row].entropies.append(entropy)
        first = torch.tensor([self.origins[row].entropies[0] for row in rows])
        return torch.tensor(entropies) - first

    def _branch(self, rows: list[int], delta: Tensor) -> list[int]:
        """Fork rows at random, in order, within their prompts' budgets; return the branches."""
        self.deltas.append(delta)
        uniform = torch.rand(len(rows), generator=self.generator)
        forks = (uniform < self.budget.rule(delta)).tolist()
        return [
            self._fork(row)
            for row, forked in zip(rows, forks, strict=True)
            if forked and self.spare[self.origins[row].prompt]
        ]

    def _fork(self, row: int) -> int:
        """Add a branch in place of an episode that has not begun."""
        new, old = super()._fork(row), self.origins[row]
        old.share /= 2
        depth = len(self.episodes[row].ids)
        self.origins.append(EpisodeOrigin(old.prompt, row, depth, old.share, [*old.entropies]))
        spare = self.spare[old.prompt].pop()
        self.unused.add(spare)
        self.session.close([spare])
        return new
