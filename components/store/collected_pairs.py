"""Collected pairs: a preference data set of the policy's own answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tensordict import TensorDict
from torch import Tensor

from components.store.collected import Collected
from rlcomp.arguments import PositiveInt
from rlcomp.functional.reduction import unit_mean
from rlcomp.keys import Key, OwnKey


class CollectedPairs(Collected):
    """Store of sampled, judged and paired answers for a later phase.

    Works like :class:`~components.store.collected.Collected` with two rows as a unit: two pairs are
    equal if both answers are. A pair is left out if an answer has no valid reward.

    Reads what :class:`~components.store.collected.Collected` reads, and ``chosen`` ``[B]``: rows 2k
    and 2k + 1 are a pair; ``label_noise`` ``[B]`` if a judge has written it. Writes nothing.

    Records ``collected_pairs/kept_fraction``, the share of the batch's rows that it keeps, and
    ``collected_pairs/rows``, two per pair.

    Args:
        distinct: whether equal pairs are kept only once.
        limit: most rows, two per pair; None for no limit.
        emptied: whether a phase that fills it begins with an empty store.

    Raises:
        ShapeError: the number of rows is odd.

    Source:
        Llama Team 2024 (Llama 3), arXiv:2407.21783, section 4.2.1: preference data of a round.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "label_noise": ("B", "float", "probability that the label of the row's pair is wrong"),
    }
    reads: ClassVar[tuple[str, ...]] = (*Collected.reads, "chosen")
    optional: ClassVar[tuple[str, ...]] = (*Collected.optional, "label_noise")
    unit_rows: ClassVar[int] = 2
    name: ClassVar[str] = "collected_pairs"

    def __init__(
        self, *, distinct: bool = True, limit: PositiveInt | None = None, emptied: bool = True
    ) -> None:
        super().__init__(choose="all", distinct=distinct, limit=limit, emptied=emptied)

    def _chosen(self, batch: TensorDict) -> Tensor:
        return unit_mean(batch["reward_valid"], self.unit_rows) > 0
