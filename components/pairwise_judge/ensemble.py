"""Ensemble of judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch

from rlcomp.arguments import Checked, MinLen, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import AnswerPair, PairwiseJudge
from rlcomp.metrics import record


class JudgeEnsemble(metaclass=Checked):
    """Ensemble of judges, ``p = mean_j p_j`` over the judges with a verdict.

    Records ``judges/disagreement``, the mean standard deviation of a pair's probabilities, over
    pairs with two or more verdicts.

    Args:
        judges: the judges by name.
        least: least number of verdicts of a pair; with fewer there is no result.

    Raises:
        ConfigError: there are fewer judges than ``least``.

    Examples:
        >>> one, other = (lambda pairs, p=p: [p] * len(pairs) for p in (0.5, 1.0))
        >>> JudgeEnsemble(judges={"one": one, "other": other})([AnswerPair("", "a", "b")])
        [0.75]
    """

    def __init__(
        self, *, judges: Annotated[dict[str, PairwiseJudge], MinLen(1)], least: PositiveInt = 1
    ) -> None:
        if least > len(judges):
            raise ConfigError(
                f"JudgeEnsemble: least is {least}, and there are {len(judges)} judges: lower least"
            )
        self.judges = dict(judges)
        self.least = least

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the mean probability that the first is better."""
        columns = zip(*(judge(pairs) for judge in self.judges.values()), strict=True)
        known = [[p for p in verdicts if p is not None] for verdicts in columns]
        several = [torch.tensor(ps, dtype=torch.float64) for ps in known if len(ps) > 1]
        record("judges/disagreement", torch.tensor([float(ps.std()) for ps in several]))
        return [sum(ps) / len(ps) if len(ps) >= self.least else None for ps in known]
