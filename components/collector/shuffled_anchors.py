"""Shuffled anchors (control): the states of turns permuted within their group."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.seed import new_generator, next_request


class ShuffledAnchors(Component):
    """Control that permutes ``anchor_id`` over the turns of each group.

    As many turns as before share an anchor, but their states differ. A gain that credit by state
    (``advantage=gigpo``) still shows with this control is not due to the states.

    Reads and writes what the inner collector does; permutes ``anchor_id`` ``[B, T]`` by
    ``turn_id`` ``[B, T]`` and ``group_id`` ``[B]``.

    Args:
        collector: plays the episodes.
    """

    runs = ("collector",)

    def __init__(self, *, collector: Component) -> None:
        super().__init__()
        self.collector = collector
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Roll out and permute the anchors."""
        rows = self.collector(batch)
        anchor, turn = rows["anchor_id"].cpu().clone(), rows["turn_id"].cpu()
        group = rows["group_id"].cpu()
        for each in group.unique():
            here = (turn >= 0) & (group == each)[:, None]
            row, _ = here.nonzero(as_tuple=True)
            turns = torch.stack([row, turn[here]], 1)
            kinds, place = torch.unique(turns, dim=0, return_inverse=True)
            known = anchor.new_zeros(len(kinds))
            known[place] = anchor[here]
            order = torch.randperm(len(known), generator=self.generator)
            anchor[here] = known[order][place]
        next_request(self.generator)
        rows["anchor_id"] = anchor.to(rows["group_id"].device)
        return rows
