"""Rewards of a response's form: length, repetition, language."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping

import torch
from tensordict import TensorDict

from rlcomp.arguments import (
    NonEmptyText,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from rlcomp.component import Component
from rlcomp.errors import ConfigError, require
from rlcomp.interfaces.reward import TextReward, write_reward
from rlcomp.verify.language import language_share, repetition
from rlcomp.verify.pattern import time_limit


class Brevity(TextReward):
    """Brevity reward.

    ``R = max(0, 1 - characters / longest)``: 1 for an empty response, 0 from ``longest`` characters
    on.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``brevity``.

    Args:
        longest: least number of characters with reward 0.

    Examples:
        >>> Brevity(longest=8).score("", "12", "")
        0.75
    """

    name = "brevity"
    has_verdict = False

    def __init__(self, *, longest: PositiveInt) -> None:
        super().__init__()
        self.longest = longest

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return ``max(0, 1 - characters / longest)``."""
        return max(0.0, 1.0 - len(response) / self.longest)


class Length(Component):
    """Clipped length reward.

    ``R = clip(tokens / target, low, high)`` with ``tokens`` of the response, EOS included.

    Reads ``response_mask`` ``[B, T]``. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{"length": [B]}``), ``correct`` (the upper bound is reached) and ``reward_valid`` (False only
    if the environment failed). Records the metrics of
    :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        target: number of tokens with reward 1.
        low: lowest reward.
        high: highest reward.

    Raises:
        ConfigError: ``low`` is not below ``high``.

    Source:
        He et al. 2025, arXiv:2508.07768 (``target`` = 140).
    """

    reads = ("response_mask",)
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    has_verdict = False

    def __init__(self, *, target: PositiveFloat, low: float = 0.0, high: float = 1.0) -> None:
        super().__init__()
        if not low < high:
            raise ConfigError(f"Length: low is {low:g}: must be below high, {high:g}")
        self.target = target
        self.low = low
        self.high = high

    def forward(self, batch: TensorDict) -> TensorDict:
        """Count the tokens of every response."""
        tokens = batch["response_mask"].sum(1)
        reward = (tokens.float() / self.target).clamp(self.low, self.high)
        is_right = reward >= self.high
        return write_reward(
            batch, reward, {"length": reward}, is_right, torch.ones_like(is_right), decides=False
        )


class Regex(TextReward):
    r"""Reward 1 if a pattern matches in the response (and its group is the answer), else 0.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``regex``.

    Args:
        pattern: regular expression; its first match anywhere in the response counts. ``\A...\Z``
            requires the whole response.
        group: the compared group; 0 is the whole match.
        compare: whether the group must equal the answer, with white space around both ignored.

    Raises:
        ConfigError: the pattern is no regular expression or has no such group, or (when called) it
            takes more than five seconds of processor time.
    """

    name = "regex"

    def __init__(
        self, *, pattern: NonEmptyText, group: NonNegativeInt = 0, compare: bool = False
    ) -> None:
        super().__init__()
        self.pattern = pattern
        self.group = group
        self.compare = compare
        try:
            self._compiled = re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"Regex: pattern {pattern!r} is no regular expression: {error}"
            ) from None
        if group > self._compiled.groups:
            raise ConfigError(
                f"Regex: group is {group}, but pattern {pattern!r} has {self._compiled.groups}"
            )

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return 1 if the pattern matches, else 0."""
        with time_limit(self.pattern, response):
            match = self._compiled.search(response)
        if match is None or not self.compare:
            return float(match is not None)
        text: str | None = match[self.group]
        return float(text is not None and text.strip() == answer.strip())


class Repetition(Component):
    """Repetition penalty by the share of distinct n-grams.

    ``R = -penalty (1 - distinct / all)``, with the numbers of distinct and of all n-grams of the
    response's tokens; 0 for a response with fewer than ``n`` tokens.

    Reads ``tokens``, ``response_mask`` ``[B, T]``. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{"repetition": [B]}``), ``correct`` (nothing is repeated) and ``reward_valid`` (False only
    if the environment failed). Records the metrics of
    :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        size: n, tokens of an n-gram.
        penalty: penalty of a response that only repeats, in reward units.

    Source:
        Yeo et al. 2025, arXiv:2502.03373; agrees with TRL's repetition penalty reward.
    """

    reads = ("tokens", "response_mask")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    has_verdict = False

    def __init__(self, *, size: PositiveInt = 3, penalty: NonNegativeFloat = 1.0) -> None:
        super().__init__()
        self.size = size
        self.penalty = penalty

    def forward(self, batch: TensorDict) -> TensorDict:
        """Count the n-grams of every response."""
        rows = zip(batch["tokens"].cpu(), batch["response_mask"].cpu(), strict=True)
        shares = [repetition(row[mask].tolist(), self.size) for row, mask in rows]
        share = torch.tensor(shares, dtype=torch.float32, device=batch["tokens"].device)
        reward = -self.penalty * share
        valid = torch.ones_like(share, dtype=torch.bool)
        return write_reward(batch, reward, {"repetition": reward}, share == 0, valid, decides=False)


class Gibberish(Component):
    """Gibberish penalty by the mean log-probability.

    ``R = -penalty`` if ``(1 / T) sum_t log pi(y_t) < below`` under the sampling policy, else 0. An
    empty response cannot be judged.

    Reads ``rollout_log_probs``, ``response_mask`` ``[B, T]``. Writes ``reward``, float32 ``[B]``,
    ``rewards`` (``{"gibberish": [B]}``), ``correct`` (no gibberish) and ``reward_valid``. Records
    the metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        below: threshold of the mean log-probability of a token, in nats; a uniform choice among V
            tokens has -log V.
        penalty: size of the penalty, in reward units.
    """

    reads = ("rollout_log_probs", "response_mask")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    has_verdict = False

    def __init__(self, *, below: float, penalty: NonNegativeFloat = 1.0) -> None:
        super().__init__()
        self.below = below
        self.penalty = penalty

    def forward(self, batch: TensorDict) -> TensorDict:
        """Judge every response."""
        mask = batch["response_mask"]
        total = torch.where(mask, batch["rollout_log_probs"], 0.0).sum(1)
        fluent = total >= self.below * mask.sum(1)
        reward = torch.where(fluent, 0.0, -self.penalty)
        return write_reward(
            batch, reward, {"gibberish": reward}, fluent, mask.any(1), decides=False
        )


class LanguageConsistency(TextReward):
    """Reward equal to the share of the response, thought included, in the required language.

    ``R = letters of lines in the language / letters of all lines``; lines of fewer than 20 letters
    are joined (:func:`rlcomp.verify.language.language_share`). A response is correct if ``R`` is 1;
    a response without letters cannot be judged.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``language_consistency``.

    Args:
        language: a language such as ``en`` or ``zh``; an example's column ``language`` replaces it.

    Raises:
        MissingExtra: langdetect is not installed (extra ``verify``).

    Source:
        DeepSeek-AI 2025 (R1), arXiv:2501.12948, section 2.3.2.
    """

    name = "language_consistency"

    def __init__(self, *, language: NonEmptyText = "en") -> None:
        super().__init__()
        require("langdetect", "verify")
        self.language = language

    def score_row(self, row: Mapping[str, object]) -> float | None:
        """Return the share of the response in the language."""
        return language_share(str(row["response"]), str(row.get("language", self.language)))


class ScriptConsistency(TextReward):
    """Reward equal to the share of the response's letters in the script of the prompt.

    ``R = letters in the script / letters``. The script of the prompt is the most frequent one of
    its letters (the first of equals). A letter's script is the first word of its Unicode name
    (``LATIN``, ``CYRILLIC``, ``CJK``). It serves responses that are too short for
    ``reward=language_consistency``, which also distinguishes languages of one script.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``script_consistency``. Without letters in prompt or response there is no verdict.

    Source:
        Language consistency as a reward: Mistral 2025 (Magistral), arXiv:2506.10910, section 2.2.4.

    Examples:
        >>> ScriptConsistency().score("ab>", "a-b\u0431", "")
        0.6666666666666666
    """

    name = "script_consistency"

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """Return the share, from 0 to 1."""
        required, used = Counter(_scripts(prompt)), Counter(_scripts(response))
        if not required or not used:
            return None
        return used[required.most_common(1)[0][0]] / used.total()


def _scripts(text: str) -> list[str]:
    return [unicodedata.name(letter, "?").split()[0] for letter in text if letter.isalpha()]
