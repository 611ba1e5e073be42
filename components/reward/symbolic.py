"""Symbolic verifier of mathematical answers (math-verify)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import NonNegativeInt, PositiveFloat
from rlcomp.errors import require
from rlcomp.interfaces.pooled_reward import PooledReward
from rlcomp.workers.calls import Calls


class Symbolic(PooledReward):
    r"""Reward 1 if the response's answer is mathematically equal to the gold one, else 0.

    :func:`rlcomp.verify.symbolic.symbolic` compares the answers in the reward pool and refuses some
    before parsing. A gold answer that cannot be read makes the row invalid, and so does a
    comparison that takes too long.

    Reads, writes and records: see :class:`rlcomp.interfaces.pooled_reward.PooledReward`; the part
    is ``symbolic``.

    Args:
        where: place of the answer after the thought: ``boxed`` as ``\boxed{...}`` or ``tagged`` as
            ``<answer>...</answer>``. ``anywhere`` is for evaluation only, because a policy that is
            trained on it learns to scatter numbers.
        decimals: number of decimals that fractions are rounded to before the comparison.
        timeout: time limit of a comparison, in seconds.
        calls: the reward pool that runs the comparisons; by default they run in the process,
            without a limit.

    Raises:
        MissingExtra: math-verify is not installed (extra ``verify``).

    Source:
        math-verify 0.9 (Kydlíček, Hugging Face), Apache-2.0.
    """

    name = "symbolic"
    function = "rlcomp.verify.symbolic.symbolic"

    def __init__(
        self,
        *,
        where: Literal["boxed", "tagged", "anywhere"] = "boxed",
        decimals: NonNegativeInt = 6,
        timeout: PositiveFloat = 10.0,
        calls: Calls | None = None,
    ) -> None:
        super().__init__(timeout=timeout, calls=calls)
        require("math_verify", "verify")
        self.where = where
        self.decimals = decimals

    def arguments(self, row: Mapping[str, object]) -> Mapping[str, object]:
        """Return both texts and the options of reading them."""
        texts = {"response": row["response"], "answer": row["answer"]}
        return {**texts, "where": self.where, "decimals": self.decimals}
