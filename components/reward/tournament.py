"""Group tournament: pairwise comparisons of the responses to a prompt."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Probability
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.functional.games import ranks, win_rates
from rlcomp.interfaces.judge import AnswerPair, PairwiseJudge, write_reasons
from rlcomp.interfaces.reward import without_failed, write_reward
from rlcomp.metrics import record


class Tournament(Component):
    """Group tournament: every response is compared with every other of its group, in both orders.

    ``R_i = (1 / (n - 1)) sum_{j != i} p(i beats j)``, ``p(i beats j) = (p(i | i, j) + 1 - p(j | j,
    i)) / 2`` with the judge's probability of the answer shown first. ``score="rank"`` gives the
    share of the others with a lower ``R``, ties counted half, so that the scale of verdicts does
    not matter. The mean over a group is 1/2 in both cases: only differences within it count.

    Equal responses tie, without a call of the judge. A pair without a verdict in one of the orders
    is left out. A response without a judged pair is invalid, and so is the response of a group of
    one. A response whose environment failed (``episode_error``) is not compared.

    Reads ``prompt``, ``response`` (``[B, W]`` texts), ``group_id`` ``[B]``, and if present
    ``answer``, for simulated judges. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{tournament: [B]}``), ``correct``, ``reward_valid`` ``[B]`` and ``invalid_reason``
    ``[B, W]``. Records ``tournament/untold``, the share of compared pairs without a verdict, and
    the metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        judge: the judge; to replace it: ``pairwise_judge@reward.judge=simulated``.
        score: ``win_rate``, the rate of wins, or ``rank``, the rank by wins.
        correct_from: least reward of a correct response.

    Source:
        Round-robin (Copeland-like) ranking by expected wins; Shah and Wainwright 2018,
        arXiv:1512.08949, eq. 1.
    """

    reads = ("prompt", "response", "group_id")
    optional = ("answer", "episode_error")
    writes = ("reward", "rewards", "correct", "reward_valid", "invalid_reason")
    min_group_size = 2

    def __init__(
        self,
        *,
        judge: PairwiseJudge,
        score: Literal["win_rate", "rank"] = "win_rate",
        correct_from: Probability = 0.5,
    ) -> None:
        super().__init__()
        self.judge = judge
        self.score = score
        self.correct_from = correct_from

    def forward(self, batch: TensorDict) -> TensorDict:
        """Compare the responses of every group and write the reward entries."""
        groups: dict[int, list[int]] = {}
        complete = without_failed(batch, torch.ones_like(batch["group_id"], dtype=torch.bool))
        for row in complete.nonzero()[:, 0].tolist():
            groups.setdefault(int(batch["group_id"][row]), []).append(row)
        beats = self._beats(batch, list(groups.values()))
        reward, valid = torch.zeros(len(batch)), torch.zeros(len(batch), dtype=torch.bool)
        for rows, wins in zip(groups.values(), beats, strict=True):
            rates = win_rates(wins)
            judged = ~rates.isnan()
            if self.score == "rank":
                rates = ranks(rates)
            place = torch.tensor(rows)
            reward[place] = torch.where(judged, rates, 0.0).float()
            valid[place] = judged
        reward, valid = (each.to(batch["group_id"].device) for each in (reward, valid))
        correct = reward >= self.correct_from
        write_reward(batch, reward, {"tournament": reward}, correct, valid)
        return write_reasons(batch, self.judge)

    def _beats(self, batch: TensorDict, groups: list[list[int]]) -> list[Tensor]:
        """Return ``p(i beats j)`` of each group, shape ``[n, n]``; NaN without a verdict."""
        texts = {key: decode_texts(batch[key]) for key in ("prompt", "response")}
        answers = decode_texts(batch["answer"]) if "answer" in batch.keys() else None
        comparisons: dict[AnswerPair, None] = {}
        compared: list[tuple[int, int, int, AnswerPair, AnswerPair]] = []
        beats = [torch.full((len(rows), len(rows)), torch.nan).double() for rows in groups]
        for number, rows in enumerate(groups):
            for i, j in combinations(range(len(rows)), 2):
                first, second = texts["response"][rows[i]], texts["response"][rows[j]]
                if first == second:
                    beats[number][i, j] = beats[number][j, i] = 0.5
                    continue
                gold = answers[rows[i]] if answers else ""
                pair = AnswerPair(texts["prompt"][rows[i]], first, second, gold)
                swapped = pair._replace(first=second, second=first)
                comparisons |= dict.fromkeys((pair, swapped))
                compared.append((number, i, j, pair, swapped))
        verdicts = dict(
            zip(comparisons, self.judge([*comparisons]) if comparisons else (), strict=True)
        )
        missing = []
        for number, i, j, pair, swapped in compared:
            verdict, swapped_verdict = verdicts[pair], verdicts[swapped]
            missing.append(verdict is None or swapped_verdict is None)
            if verdict is not None and swapped_verdict is not None:
                beats[number][i, j] = (verdict + 1.0 - swapped_verdict) / 2.0
                beats[number][j, i] = 1.0 - beats[number][i, j]
        record("tournament/untold", torch.tensor(missing, dtype=torch.float64))
        return beats
