"""Branching rollout (ARPO): trees of episodes, which fork where an observation has been read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rlcomp.episodes.host import Start
from rlcomp.episodes.rollout import Rollout
from rlcomp.functional.branching import normalised_entropy


@dataclass(frozen=True)
class Budget:
    """How many episodes a prompt gets, and where they come from.

    Attributes:
        rows: episodes of each prompt at most, ``M``.
        initial: those that begin by themselves at first, ``N``; branches are added up to ``M``.
        fill: what is left when all have ended begins by itself, too.
        rule: from changes of entropy at observations, shape ``[N]``, to probabilities of a branch.
    """

    rows: int
    initial: int
    fill: bool
    rule: Callable[[Tensor], Tensor]


@dataclass
class Place:
    """Where an episode stands in its tree.

    Attributes:
        prompt: number of its prompt.
        parent: number of the episode it was branched from; -1: none.
        depth: tokens it shares with that one.
        share: product of 1 / continuations over its branchings.
        entropies: where each of its turns began, over ``log V``.
    """

    prompt: int
    parent: int = -1
    depth: int = 0
    share: float = 1.0
    entropies: list[float] = field(default_factory=list)


class BranchingRollout(Rollout):
    """Episodes that fork after observations.

    All that may begin by themselves are opened together, and their environments reset; one whose
    place in the budget a branch has taken is not played. What an episode draws is what it would
    draw without branches.
    """

    def grow(self, starts: Sequence[Start], budget: Budget, generator: torch.Generator) -> None:
        """Roll out until each prompt has its episodes, and all of them are over.

        Args:
            starts: ``budget.rows`` of each prompt, those of prompt 0 first.
            budget: of each prompt.
            generator: of the decisions to branch, on the CPU.
        """
        self.budget, self.generator = budget, generator
        self.places = [Place(row // budget.rows) for row in range(len(starts))]
        # Of each prompt those that have not begun; and those that never will.
        numbers = range(0, len(starts), budget.rows)
        self.spare = [[*range(n + budget.initial, n + budget.rows)] for n in numbers]
        self.unplayed: set[int] = set()
        self.deltas: list[Tensor] = []
        try:
            alive = self._open(starts)
            self._wave([row for row in alive if row % budget.rows < budget.initial])
            left = {row for rows in self.spare for row in rows}
            self.spare = [[] for _ in self.spare]
            if budget.fill:
                self._wave([row for row in alive if row in left])
            else:
                self.unplayed |= left
            self._take_facts()
        finally:
            self.host.close()

    def order(self) -> list[int]:
        """The numbers of the episodes, prompt by prompt; no child stands before its parent."""
        played = [row for row in range(len(self.places)) if row not in self.unplayed]
        return sorted(played, key=lambda row: (self.places[row].prompt, row))

    def delta_entropy(self) -> Tensor:
        """Change of entropy at each observation against the first turn of its tree."""
        return torch.cat([torch.zeros(0), *self.deltas])

    def columns(self, order: Sequence[int], width: int) -> dict[str, Tensor]:
        """What the rows of a batch tell of the trees.

        Args:
            order: of each row its episode.
            width: tokens of a row.

        Returns:
            ``group_id``, ``branch_depth``, ``branch_parent``, ``branch_share`` ``[B]`` and
            ``turn_entropy`` ``[B, T]``.
        """
        row_of = {number: row for row, number in enumerate(order)} | {-1: -1}
        places = [self.places[number] for number in order]
        entropy = torch.zeros(len(order), width)
        for row, (number, place) in enumerate(zip(order, places, strict=True)):
            starts = [turn.start for turn in self.episodes[number].turns]
            entropy[row, starts] = torch.tensor(place.entropies)
        return {
            "group_id": torch.tensor([place.prompt for place in places]),
            "branch_depth": torch.tensor([place.depth for place in places]),
            "branch_parent": torch.tensor([row_of[place.parent] for place in places]),
            "branch_share": torch.tensor([place.share for place in places]),
            "turn_entropy": entropy,
        }

    def _wave(self, alive: list[int]) -> None:
        """Play episodes that have just begun, and their branches, to the end."""
        for number in range(self.limits.turns):
            if not alive:
                break
            delta = self._look(alive)
            if number:
                alive = alive + self._branch(alive, delta)
            alive = self._turn(alive, last=number + 1 == self.limits.turns)

    def _look(self, rows: list[int]) -> Tensor:
        """Note the entropy where a turn of each row begins; its change since the tree's first."""
        found = normalised_entropy(self.session.logits(rows)).tolist()
        for row, entropy in zip(rows, found, strict=True):
            self.places[row].entropies.append(entropy)
        first = torch.tensor([self.places[row].entropies[0] for row in rows])
        return torch.tensor(found) - first

    def _branch(self, rows: list[int], delta: Tensor) -> list[int]:
        """Fork some rows, in their order, while their prompts have something left."""
        self.deltas.append(delta)
        drawn = torch.rand(len(rows), generator=self.generator)
        chosen = (drawn < self.budget.rule(delta)).tolist()
        return [
            self._fork(row)
            for row, branches in zip(rows, chosen, strict=True)
            if branches and self.spare[self.places[row].prompt]
        ]

    def _fork(self, row: int) -> int:
        """A branch, in place of an episode that has not begun."""
        new, old = super()._fork(row), self.places[row]
        old.share /= 2
        depth = len(self.episodes[row].ids)
        self.places.append(Place(old.prompt, row, depth, old.share, [*old.entropies]))
        spare = self.spare[old.prompt].pop()
        self.unplayed.add(spare)
        self.session.close([spare])
        return new
