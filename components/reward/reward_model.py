"""Rewards of scoring models: classifiers, reward models, a sentiment lexicon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import MinLen, NonEmptyText, NonNegativeFloat, PositiveInt
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.errors import require
from rlcomp.functional.moments import merged_moments, running_std
from rlcomp.functional.process_reward import Aggregation, aggregate_steps
from rlcomp.functional.reduction import masked
from rlcomp.functional.reward_model import Combination, combine_scores
from rlcomp.interfaces.reward import TextReward, write_reward
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record
from rlcomp.model.scorer import Scorer, TokenScorer
from rlcomp.model.text_classifier import classify, label_index, load_classifier
from rlcomp.text.reasoning import StepTokens, split_steps


class LearnedReward(Component):
    """Reward-model score: an output of a sequence classifier for prompt + response.

    The score is the raw output: the scalar of a reward model, or the logit of a classifier. A
    response is ``correct`` if its score is above 0. An empty text (prompt + response) has no valid
    reward.

    Reads ``prompt``, ``response`` (``[B, W]`` uint8 texts). Writes ``reward``, float32 ``[B]``,
    ``rewards`` (``{learned: [B]}``), ``correct`` and ``reward_valid`` (bool ``[B]``). Records the
    metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        path: a folder with the model and its tokenizer, written by ``save_pretrained``
            (:func:`rlcomp.model.text_classifier.train_classifier` trains one).
        label: name of the output in the model's ``id2label``; None if there is only one.
        batch_size: texts per forward pass.

    Raises:
        DataError: there is no such model in the folder.
        ConfigError: the model has no such label, or it has several and none is named.
    """

    reads = ("prompt", "response")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    has_verdict = False
    name = "learned"

    def __init__(
        self, *, path: NonEmptyText, label: str | None = None, batch_size: PositiveInt = 32
    ) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.model, self.tokenizer = load_classifier(path)
        self._output = label_index(self.model, label, path)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row."""
        pairs = zip(decode_texts(batch["prompt"]), decode_texts(batch["response"]), strict=True)
        texts = [prompt + response for prompt, response in pairs]
        rows = [row for row, text in enumerate(texts) if text]
        reward = torch.zeros(len(texts))
        # Sort texts by length to save padding. The model is in evaluation mode.
        rows.sort(key=lambda row: len(texts[row]))
        with torch.no_grad():
            for start in range(0, len(rows), self.batch_size):
                chunk = rows[start : start + self.batch_size]
                outputs = classify(self.model, self.tokenizer, [texts[row] for row in chunk])
                reward[chunk] = outputs[:, self._output].cpu()
        reward = reward.to(batch["response"].device)
        valid = torch.tensor([bool(text) for text in texts], device=reward.device)
        return write_reward(batch, reward, {"learned": reward}, reward > 0, valid, decides=False)


class ScorerReward(Component):
    """Reward from reward models of the run: ``R = C_m((r_m - b_m) / s_m)``.

    ``C`` combines the members. Without ``normalised`` ``b`` = 0 and ``s`` = 1; with it they are the
    mean and the standard deviation of all scores of the member so far, this batch included.

    The scorers are frozen here: they run without gradient and in eval mode. Only a
    learner of these scorers changes them. A phase with an untrained scorer is refused.

    An answer is ``correct`` if its reward is above 0. This makes sense only for centred or
    normalised scores, so use a verifier in the evaluation. (An evaluation with this reward adds its
    answers to the statistics.)

    Reads ``tokens``, ``attention_mask`` ``[B, T]``. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{scored: [B]}``), ``correct`` and ``reward_valid`` (bool ``[B]``; False for a score that is
    not finite and for a row without tokens). Records the metrics of
    :func:`rlcomp.interfaces.reward.write_reward`, ``reward/disagreement``, the standard deviation
    over the members, and, with ``normalised``, ``reward/raw_score``, the mean over the members
    before normalisation, on a fixed scale.

    Args:
        scorers: the members, at least one.
        combination: ``mean``, ``median``, ``min``, ``mean_minus_std``, ``mean_minus_variance``.
        penalty: lambda of the last two, per standard deviation or variance.
        normalised: whether each member is scaled to mean 0 and standard deviation 1.

    Source:
        Ouyang et al. 2022, arXiv:2203.02155; ensembles: Coste et al. 2023, arXiv:2310.02743.
    """

    reads = ("tokens", "attention_mask")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    has_verdict = False
    earlier = ("scorers",)
    name = "scored"

    # Moments of the members' scores so far: count, mean, sum of squared distances from the mean.
    count: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(
        self,
        *,
        scorers: Annotated[list[Scorer], MinLen(1)],
        combination: Combination = "mean",
        penalty: NonNegativeFloat = 0.5,
        normalised: bool = False,
    ) -> None:
        super().__init__()
        # Not submodules: the nodes that are trained own the tensors.
        object.__setattr__(self, "scorers", scorers)
        self.combination = combination
        self.penalty = penalty
        self.normalised = normalised
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(len(scorers), dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(len(scorers), dtype=torch.float64))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row."""
        with torch.no_grad():
            scores = torch.stack([scorer.scores(batch) for scorer in self.scorers])
        valid = scores.isfinite().all(0) & batch["attention_mask"].any(1)
        if self.normalised:
            record("reward/raw_score", scores.mean(0), where=valid)
            scores = self._normalise(scores, valid)
        scores = torch.where(valid, scores, 0.0)
        reward = combine_scores(scores, self.combination, self.penalty)
        record("reward/disagreement", scores.std(0, correction=0), where=valid)
        return write_reward(batch, reward, {"scored": reward}, reward > 0, valid, decides=False)

    def _normalise(self, scores: Tensor, valid: Tensor) -> Tensor:
        """Add the scores to the statistics (Chan's formula) and normalise with them."""
        buffers = self.count, self.mean, self.squares
        moments = merged_moments(*buffers, scores[:, valid].double())
        # In place, so that other holders of the buffers see the change.
        for buffer, new in zip(buffers, moments, strict=True):
            buffer.copy_(new)
        std = running_std(*moments)
        return ((scores - self.mean[:, None]) / std[:, None]).to(scores.dtype)


class ProcessScorerReward(Component):
    """Process reward: ``R = min_k p_k`` (or product, last, mean) over the steps of an answer.

    ``p_k = sigmoid(q_k)`` with the scorer's output ``q_k`` at the token that completes step ``k``.
    A step ends with a separator, the last step with the text. The scorer is frozen here, as in
    ``reward=scored``.

    The scores of the steps are written beside the reward and are not added to it:
    ``shaping=step_rewards`` turns the scores into rewards, and ``shaping=potential`` uses them as
    potentials. An answer is ``correct`` if its reward is above 1/2; use a verifier in the
    evaluation.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``. Writes ``reward``, float32
    ``[B]``, ``rewards`` (``{process_scored: [B]}``), ``correct`` and ``reward_valid`` (bool
    ``[B]``; False for an empty answer or a score that is not finite), ``step_score`` (``p_k`` at
    the step's last token) and ``step_end`` ``[B, T]``. Records the metrics of
    :func:`rlcomp.interfaces.reward.write_reward`, and ``reward/steps``, the steps per answer.

    Args:
        scorer: the process reward model.
        aggregation: ``min``, ``prod``, ``last`` or ``mean``.
        separator: text that ends a step; empty: every character is a step.

    Source:
        Lightman et al. 2023, arXiv:2305.20050; Wang et al. 2023, arXiv:2312.08935.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "step_score": (
            "B T",
            "float",
            "p_k: probability that the step ending at this token is right",
            {"example": "probability"},
        ),
    }
    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid", "step_score", "step_end")
    has_verdict = False
    earlier = ("scorer",)
    name = "process_scored"

    scorer: TokenScorer

    def __init__(
        self, *, scorer: TokenScorer, aggregation: Aggregation = "min", separator: str = "\n"
    ) -> None:
        super().__init__()
        # Not a submodule: the node that is trained owns the tensors.
        object.__setattr__(self, "scorer", scorer)
        self.aggregation: Aggregation = aggregation
        self.separator = separator
        self._tokens = StepTokens(scorer.policy.tokenizer)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row."""
        with torch.no_grad():
            log_prob = F.logsigmoid(self.scorer.token_scores(batch))
        ends = self._ends(batch["tokens"], batch["response_mask"])
        finite = (log_prob.isfinite() | ~ends).all(1)
        reward = aggregate_steps(log_prob, ends & finite[:, None], self.aggregation).float()
        valid = finite & ends.any(1)
        batch["step_score"] = masked(log_prob.exp(), ends & valid[:, None])
        batch["step_end"] = ends & valid[:, None]
        record("reward/steps", ends.sum(1), where=valid)
        return write_reward(
            batch, reward, {"process_scored": reward}, reward > 0.5, valid, decides=False
        )

    def _ends(self, tokens: Tensor, response_mask: Tensor) -> Tensor:
        """Return the tokens that complete a step, shape ``[B, T]``."""
        mask = response_mask.cpu()
        ends = torch.zeros_like(mask)
        for row, row_mask in enumerate(mask):
            positions = row_mask.nonzero()[:, 0]
            ids = tokens[row].cpu()[positions].tolist()
            text = self._tokens.text(ids)
            if text:
                counts = self._tokens.counts(ids, text, split_steps(text, self.separator))
                ends[row, positions[torch.tensor(counts) - 1]] = True
        return ends.to(tokens.device)


# Most words of a text that count: VADER's time grows with the square of their number.
_MAX_WORDS = 1000


class Sentiment(TextReward):
    """Reward equal to the sentiment of the response by a lexicon (VADER).

    ``R = s / sqrt(s^2 + 15)`` in (-1, 1), ``s`` the sum of the valences of its words, -4 to 4 each,
    after VADER's rules for negation, degree, capitals and exclamation marks. 0 for a text without a
    word of the lexicon. A positive response is ``correct``. Only the first 1,000 words of a text
    count.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``sentiment``.

    Raises:
        MissingExtra: vaderSentiment is not installed (extra ``sentiment``).

    Source:
        Hutto & Gilbert 2014, ICWSM; as an objective beside length: He et al. 2025,
        arXiv:2508.07768.
    """

    name = "sentiment"
    has_verdict = False

    def __init__(self) -> None:
        super().__init__()
        vader: Any = require("vaderSentiment.vaderSentiment", "sentiment")
        self.analyzer = vader.SentimentIntensityAnalyzer()

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return VADER's compound score of the response."""
        words = response.split()
        text = response if len(words) <= _MAX_WORDS else " ".join(words[:_MAX_WORDS])
        return float(self.analyzer.polarity_scores(text)["compound"])

    def is_correct(self, score: float) -> bool:
        """Return whether the response is positive."""
        return score > 0
