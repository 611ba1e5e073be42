"""TTRL's majority-vote reward."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import torch
from tensordict import TensorDict

from rlcomp.arguments import RegularExpression
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.pooled_reward import record_calls
from rlcomp.interfaces.reward import write_reward
from rlcomp.interfaces.verdicts import JUDGE_KEYS, Pair, comparison_rows, first_votes
from rlcomp.metrics import record, recording
from rlcomp.verify.pattern import time_limit


def last_match(text: str, *, pattern: RegularExpression = "\\A[0-9]+\\Z") -> str | None:
    """Return the first group of a pattern's last match in a text, or the whole match.

    Return None without a match, and for an empty match.

    Raises:
        ConfigError: the search takes more than five seconds of processor time.

    Examples:
        >>> last_match("so 3+4=7", pattern="=([0-9]+)"), last_match("I give up", pattern="[0-9]+")
        ('7', None)
    """
    last = None
    with time_limit(pattern, text):
        for match in re.finditer(pattern, text):
            last = match
    return (last and last[min(1, last.re.groups)]) or None


class MajorityVote(Component):
    r"""Majority-vote reward of test-time reinforcement learning (TTRL): no gold answers.

    ``R_i = 1[vote_i in the largest class of equal votes of the group]``. A response votes with its
    answer. Two answers are equal if the verifier accepts one with the other as the gold answer
    (:func:`rlcomp.interfaces.verdicts.first_votes`). If two classes are largest, the first one
    counts. Responses without an answer do not vote and get 0. So the mean reward is the majority
    ratio, which rises both in success and in collapse. If no response votes (``reward/unread`` is
    1), there is nothing to learn: check ``vote``.

    For metrics it also runs the verifier on the responses and on the votes with the gold answers;
    the batch does not get these entries.

    Reads ``prompt``, ``response``, ``answer`` (``[B, W]`` uint8 texts), ``group_id`` ``[B]`` and
    the keys of the verifier. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{majority_vote: [B]}``), ``correct`` (the vote is in the majority) and ``reward_valid``
    (False only if the environment failed). Records ``reward/majority_ratio`` (mean over groups),
    ``reward/label_correct`` (share of groups whose majority is right by the gold answer),
    ``reward/agreement`` (share of rows with the same verdict by the gold answer),
    ``reward/unread`` (share of rows without an answer), the metrics of
    :func:`rlcomp.interfaces.reward.write_reward`, and of the verifier only the metrics of calls
    (:func:`rlcomp.interfaces.pooled_reward.record_calls`).

    Args:
        reward: the verifier.
        vote: function from a response to its answer or None, such as a partial of
            :func:`last_match`.

    Raises:
        ConfigError: the verifier reads more than texts.

    Source:
        Zuo et al. 2025 (TTRL), arXiv:2504.16084, section 2.
    """

    reads = ("prompt", "response", "answer", "group_id")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    runs = ("reward",)
    contained = True
    min_group_size = 2

    def __init__(self, *, reward: Component, vote: Callable[[str], str | None]) -> None:
        super().__init__()
        if others := sorted({*reward.reads} - {*JUDGE_KEYS}):
            raise ConfigError(
                f"MajorityVote: reward is a {type(reward).__name__}, which reads "
                f"{', '.join(others)}: a vote is a text, so name a verifier of texts"
            )
        self.reward = reward
        self.vote = vote

    def forward(self, batch: TensorDict) -> TensorDict:
        """Vote in each group, and write the reward entries."""
        votes = [self.vote(response) for response in decode_texts(batch["response"])]
        groups: dict[int, list[int]] = {}
        for row, group in enumerate(batch["group_id"].tolist()):
            groups.setdefault(group, []).append(row)
        reward, labels = torch.zeros(len(votes)), dict[int, str]()
        for rows, first in zip(groups.values(), self._classes(batch, votes, groups), strict=True):
            winners = _largest(rows, votes, first)
            reward[winners] = 1.0
            record("reward/majority_ratio", torch.tensor(len(winners) / len(rows)))
            if winners:
                labels[rows[0]] = str(votes[winners[0]])
        reward = reward.to(batch["response"].device)
        record("reward/unread", torch.tensor([float(vote is None) for vote in votes]))
        self._record_gold_agreement(batch, reward, labels, len(groups))
        right = reward > 0
        valid = torch.ones_like(right)
        return write_reward(batch, reward, {"majority_vote": reward}, right, valid)

    def _classes(
        self, batch: TensorDict, votes: Sequence[str | None], groups: Mapping[int, Sequence[int]]
    ) -> list[dict[str, str]]:
        """Return for each group a mapping from each vote to the first vote equal to it."""
        first_rows = [rows[0] for rows in groups.values()]
        group_votes = [
            [vote for row in rows if (vote := votes[row]) is not None] for rows in groups.values()
        ]

        def equal(pairs: Sequence[Pair]) -> list[bool]:
            row_pairs = [(first_rows[group], first, other) for group, first, other in pairs]
            return self._verdicts(comparison_rows(batch, row_pairs))

        return first_votes(group_votes, equal)

    def _record_gold_agreement(
        self, batch: TensorDict, reward: torch.Tensor, labels: dict[int, str], groups: int
    ) -> None:
        # ``labels``: a vote of the majority, by the first row of its group; ``groups``: number of
        # groups, also of those without a vote.
        correct = torch.tensor(self._verdicts(batch.copy()), device=reward.device)
        record("reward/agreement", (correct == (reward > 0)).float())
        labelled: list[bool] = []
        if labels:
            rows = batch[[*labels]]
            rows["response"] = encode_texts([*labels.values()]).to(reward.device)
            labelled = self._verdicts(rows)
        record("reward/label_correct", torch.tensor(sum(labelled) / groups))

    def _verdicts(self, rows: TensorDict) -> list[bool]:
        """Return whether the verifier accepts each row; it may write into the rows."""
        with recording() as ledger:  # drop the verifier's metrics of these rows
            right: list[bool] = self.reward(rows)["correct"].tolist()
        record_calls(ledger)
        return right


def _largest(
    rows: Sequence[int], votes: Sequence[str | None], first: Mapping[str, str]
) -> list[int]:
    """Return the rows of the largest class of equal votes; the first one if there are two."""
    classes = {row: first[vote] for row in rows if (vote := votes[row]) is not None}
    if not classes:
        return []
    ((largest, _),) = Counter(classes.values()).most_common(1)
    return [row for row, vote_class in classes.items() if vote_class == largest]
