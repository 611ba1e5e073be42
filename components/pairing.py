"""Pairs of answers from a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, NonNegativeInt
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.functional.group_statistics import is_rounding
from rlcomp.interfaces.judge import AnswerPair, PairwiseJudge
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record
from rlcomp.seed import new_generator
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.text.rows import response_rows


class BestWorstPairs(Component):
    """On-policy pairs by any reward: the best answer of a group is chosen, the worst rejected.

    Ties are broken at random. A group whose valid rewards differ by at most ``gap``, or only by
    rounding, gives two rows without a valid reward, which every loss ignores. A group of one row
    gives no rows.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``. Writes ``chosen`` and
    ``reward_valid`` of the remaining rows: row 2k is chosen, row 2k + 1 rejected.

    Records ``pairing/pairs``, the share of the groups of two or more rows that give a pair, and
    ``pairing/gap``, the mean difference of its rewards.

    Args:
        rejected: the rejected answer: ``worst``, or a ``random`` answer worse than the best.
        gap: the rewards of a pair differ by more than ``gap``, in reward units.

    Source:
        Guo et al. 2024 (online DPO), arXiv:2402.04792; Yuan et al. 2024 (Self-Rewarding),
        arXiv:2401.10020, section 2.3 (best and worst).
    """

    reads = ("reward", "reward_valid", "group_id")
    writes = ("chosen", "reward_valid")
    drops_rows = True
    min_group_size = 2

    def __init__(
        self, *, rejected: Literal["worst", "random"] = "worst", gap: NonNegativeFloat = 0.0
    ) -> None:
        super().__init__()
        self.rejected = rejected
        self.gap = gap
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of the pairs."""
        candidates = [self._pair(batch, group) for group in batch["group_id"].unique().tolist()]
        pairs = [pair for pair in candidates if pair is not None]
        index = torch.tensor([row for best, worst, _ in pairs for row in (best, worst)])
        valid = torch.tensor([is_pair for *_, is_pair in pairs], dtype=torch.bool)
        rows = batch[index.long().to(batch["group_id"].device)]
        device = rows["reward"].device
        rows["chosen"] = torch.arange(len(index), device=device) % 2 == 0
        rows["reward_valid"] = valid.repeat_interleave(2).to(device)
        record("pairing/pairs", valid.double())
        gaps = rows["reward"].view(-1, 2)
        record("pairing/gap", gaps[:, 0] - gaps[:, 1], where=valid.to(device))
        return rows

    def _pair(self, batch: TensorDict, group: int) -> tuple[int, int, bool] | None:
        """Return chosen and rejected row, and True for a pair; None for a group of one row."""
        rows = (batch["group_id"] == group).nonzero().flatten().cpu()
        if len(rows) < 2:
            return None
        valid = batch["reward_valid"].cpu()[rows]
        reward = torch.where(valid, batch["reward"].detach().cpu()[rows], torch.nan)
        best = self._draw_row(reward == reward[valid].max()) if bool(valid.any()) else None
        worse = self._worse(reward, reward[best]) if best is not None else valid & ~valid
        if best is None or not bool(worse.any()):
            return int(rows[0]), int(rows[1]), False
        if self.rejected == "worst":
            worse = reward == reward[valid].min()
        return int(rows[best]), int(rows[self._draw_row(worse)]), True

    def _worse(self, reward: Tensor, best: Tensor) -> Tensor:
        """Return the mask of rewards below the best by more than gap and rounding; NaN is never."""
        return (reward < best - self.gap) & ~is_rounding(reward, best.expand_as(reward))

    def _draw_row(self, mask: Tensor) -> int:
        """Return the index of a random row of the mask."""
        rows = mask.nonzero().flatten()
        draw = torch.randint(len(rows), (), generator=self.generator)
        return int(rows[draw])


class ConstructedPairs(Component):
    """Preference pairs labelled by construction, without a judge (Curriculum-RLAIF).

    With ``kind: easy`` the gold answer is chosen and an unrelated answer is rejected: the gold
    answer of the next prompt in the batch. ``bridge`` alternates between gold over sampled answer
    and sampled over unrelated answer. The sampled answer is the first answer of a group. Two equal
    texts give two rows without a valid reward, which every loss ignores.

    Reads ``prompt``, ``response``, ``answer`` (``[B, W]`` texts), ``group_id`` ``[B]``. Writes a
    new batch of two rows per group: ``tokens``, ``attention_mask``, ``response_mask`` ``[2G, T]``,
    ``prompt``, ``response`` ``[2G, W]``, ``group_id``, ``chosen`` and ``reward_valid`` ``[2G]``:
    row 2k is chosen, row 2k + 1 rejected.

    Records ``pairing/pairs``, the share of groups that give a pair.

    Args:
        policy: the policy, whose tokenizer encodes the rows.
        kind: the answers that are paired, ``easy`` or ``bridge``.
        prompt: the format of prompts; null: plain text.

    Source:
        Curriculum-RLAIF (2025), arXiv:2505.20075, section 3.
    """

    reads = ("prompt", "response", "answer", "group_id")
    optional = ("columns",)
    writes = (
        *("tokens", "attention_mask", "response_mask", "prompt", "response"),
        *("group_id", "chosen", "reward_valid"),
    )
    fresh = True
    keeps_prompt = True

    def __init__(
        self,
        *,
        policy: Policy,
        kind: Literal["easy", "bridge"] = "easy",
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        self.prompt = resolve_prompt_format(prompt, policy.tokenizer)
        self.tokenizer = policy.tokenizer
        self.kind = kind

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of the pairs."""
        groups = batch["group_id"].cpu()
        firsts = [int((groups == group).nonzero()[0]) for group in groups.unique()]
        pairs = self._pairs(batch[torch.tensor(firsts, dtype=torch.long)])
        texts = [text for pair in pairs for text in pair]
        index = torch.tensor(firsts, dtype=torch.long).repeat_interleave(2)
        source = batch[index.to(batch["group_id"].device)]
        rows = response_rows(source, texts, prompt=self.prompt, tokenizer=self.tokenizer)
        different = torch.tensor([better != worse for better, worse in pairs])
        device = rows["tokens"].device
        rows["chosen"] = (torch.arange(len(texts)) % 2 == 0).to(device)
        rows["reward_valid"] = different.repeat_interleave(2).to(device)
        record("pairing/pairs", different.double())
        return rows

    def _pairs(self, batch: TensorDict) -> list[tuple[str, str]]:
        """Return the better and the worse answer of each group."""
        gold, sampled = (decode_texts(batch[key]) for key in ("answer", "response"))
        unrelated = [*gold[1:], *gold[:1]]
        if self.kind == "easy":
            return [*zip(gold, unrelated, strict=True)]
        answers = zip(gold, sampled, unrelated, strict=True)
        return [(s, u) if n % 2 else (g, s) for n, (g, s, u) in enumerate(answers)]


class JudgedPairs(Component):
    """Labels of pairs by an AI judge (RLAIF), ``p(a) = (p(a | a, b) + 1 - p(b | b, a)) / 2``.

    ``p(a | a, b)`` is the judge's probability of the answer that it sees first; the mean over both
    orders cancels a bias for a position. The more likely answer is chosen. The first two rows of
    each group are compared. Two equal texts, a missing verdict of one order, and ``p`` of exactly
    1/2 give two rows without a valid reward, which every loss ignores. A group of one row gives no
    rows.

    Reads ``prompt``, ``response`` (``[B, W]`` texts), ``group_id`` ``[B]``; if present
    ``answer`` ``[B, W]``, for simulated judges, and ``reward``, ``reward_valid`` ``[B]``, for
    ``pairing/agreement``. Writes ``chosen``, ``reward_valid`` and ``label_noise`` ``[B]`` of the
    remaining rows: row 2k is chosen, row 2k + 1 rejected.

    Records ``pairing/pairs``, the share of the groups of two or more rows that give a pair; over
    pairs with a verdict in both orders ``pairing/order_flips``, the share whose verdict changes
    with the order, and ``pairing/first_shown``, the mean probability of the answer shown first (0.5
    without a position bias); ``pairing/unjudged``, the share of compared pairs that lack a verdict
    of an order; and ``pairing/agreement``, the share of pairs with unequal rewards whose chosen
    answer has the higher reward.

    Args:
        judge: the judge; choose it by ``pairwise_judge@pairing.judge=simulated``.
        soft: whether ``label_noise`` is ``1 - p`` of the chosen answer, so that a loss learns the
            probability. False: ``label_noise`` is 0.
        votes: number of sampled verdicts in each order, whose mean is the probability
            (self-consistency). 0: the judge's own probability.

    Source:
        Lee et al. 2023 (RLAIF), arXiv:2309.00267, sections 2.1 and 2.2.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "label_noise": ("B", "float", "probability that the label of the row's pair is wrong"),
    }
    reads = ("prompt", "response", "group_id")
    optional = ("answer", "reward", "reward_valid")
    writes = ("chosen", "reward_valid", "label_noise")
    drops_rows = True
    min_group_size = 2

    def __init__(
        self, *, judge: PairwiseJudge, soft: bool = True, votes: NonNegativeInt = 0
    ) -> None:
        super().__init__()
        self.judge = judge
        self.soft = soft
        self.votes = votes
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of the pairs."""
        groups = batch["group_id"].cpu()
        rows = [(groups == group).nonzero().flatten()[:2].tolist() for group in groups.unique()]
        pairs = [pair for pair in rows if len(pair) == 2]
        preferences = self._preferences(batch, pairs)
        valid = [p is not None and p != 0.5 for p in preferences]
        probabilities = [0.5 if p is None else p for p in preferences]
        first_wins = [p >= 0.5 for p in probabilities]
        order = [pair if wins else pair[::-1] for pair, wins in zip(pairs, first_wins, strict=True)]
        device = batch["group_id"].device
        labelled = batch[torch.tensor(order, dtype=torch.long, device=device).flatten()]
        judged = torch.tensor(valid, dtype=torch.bool, device=device)
        noise = torch.tensor([min(p, 1.0 - p) if self.soft else 0.0 for p in probabilities])
        if {"reward", "reward_valid"} <= set(batch.keys()):
            gap = labelled["reward"].view(-1, 2).diff(dim=1).flatten()
            comparable = labelled["reward_valid"].view(-1, 2).all(1) & judged & (gap != 0)
            record("pairing/agreement", gap < 0, where=comparable)
        record("pairing/pairs", judged)
        labelled["chosen"] = torch.arange(2 * len(order), device=device) % 2 == 0
        labelled["reward_valid"] = judged.repeat_interleave(2)
        labelled["label_noise"] = noise.to(device).repeat_interleave(2)
        return labelled

    def _preferences(self, batch: TensorDict, pairs: list[list[int]]) -> list[float | None]:
        """Return the probability of the first row of each pair; None without a verdict."""
        texts = {key: decode_texts(batch[key]) for key in ("prompt", "response")}
        answers = decode_texts(batch["answer"]) if "answer" in batch.keys() else None
        forward, backward, numbers = [], [], []
        for number, (a, b) in enumerate(pairs):
            first, second = texts["response"][a], texts["response"][b]
            if first != second:
                answer = answers[a] if answers else ""
                forward.append(AnswerPair(texts["prompt"][a], first, second, answer))
                backward.append(AnswerPair(texts["prompt"][a], second, first, answer))
                numbers.append(number)
        verdicts = self._judge([*forward, *backward])
        preferences: list[float | None] = [None] * len(pairs)
        both_orders = list(zip(verdicts[: len(numbers)], verdicts[len(numbers) :], strict=True))
        for number, (p, q) in zip(numbers, both_orders, strict=True):
            if p is not None and q is not None:
                preferences[number] = (p + 1.0 - q) / 2.0
        _record_orders(both_orders)
        return preferences

    def _judge(self, pairs: list[AnswerPair]) -> list[float | None]:
        """Return the judge's probabilities, or the means of verdicts sampled from them."""
        probabilities = list(self.judge(pairs))
        if not self.votes:
            return probabilities
        uniform = torch.rand(
            len(probabilities), self.votes, generator=self.generator, dtype=torch.float64
        )
        return [
            None if p is None else float((row < p).double().mean())
            for p, row in zip(probabilities, uniform, strict=True)
        ]


def _record_orders(both_orders: list[tuple[float | None, float | None]]) -> None:
    """Record the effect of the order on each pair's probabilities of the answer shown first."""
    complete = [(p, q) for p, q in both_orders if p is not None and q is not None]
    # Each speaks of the answer shown first, which the orders exchange: equal numbers are a flip.
    flips = [(p > 0.5) == (q > 0.5) for p, q in complete]
    record("pairing/order_flips", torch.tensor(flips, dtype=torch.float64))
    record("pairing/first_shown", torch.tensor(complete, dtype=torch.float64).flatten())
    missing = [p is None or q is None for p, q in both_orders]
    record("pairing/unjudged", torch.tensor(missing, dtype=torch.float64))
