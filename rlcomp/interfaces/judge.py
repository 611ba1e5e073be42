"""Judges of one response and of two."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from tensordict import TensorDict

from rlcomp.batch import encode_texts
from rlcomp.errors import ConfigError, RlcompWarning
from rlcomp.interfaces.protocols import Endpoint
from rlcomp.interfaces.reward import TextReward
from rlcomp.keys import Key
from rlcomp.seed import node_path
from rlcomp.verify.judge_reply import leading_option, option_masses, option_share, plain_option


class Judge(Protocol):
    """Judge of the agreement between a prediction and a reference text."""

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Return the score in [0, 1]; None if the pair cannot be judged."""
        ...


@runtime_checkable
class JudgesMany(Protocol):
    """Interface of judges that score several pairs at once faster than one by one."""

    def judge_all(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float | None]:
        """Score each prediction with its reference."""
        ...


def judge_all(judge: Judge, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
    """Score each prediction with its reference, all at once if the judge can.

    Examples:
        >>> judge_all(lambda prediction, reference: float(prediction == reference), [("a", "a")])
        [1.0]
    """
    if isinstance(judge, JudgesMany):
        return list(judge.judge_all(pairs))
    return [judge(prediction, reference) for prediction, reference in pairs]


class NoVerdict:
    """Reason of a judge's first missing verdict, which is reported once as a warning.

    Args:
        judge: name of the judge's class, for messages. The judge's constructor must create this
            object, so that messages contain the judge's config path.

    Attributes:
        path: config path of the judge, followed by a dot, for remedies; empty without a config.
        judge: config path and class of the judge, for messages.
        reason: reason with the judge's name; empty if every question so far had a verdict.
    """

    def __init__(self, judge: str) -> None:
        path = node_path()
        self.path = f"{path}." if path else ""
        self.judge = f"{path} ({judge})" if path else judge
        self.reason = ""

    def warn_once(self, number: int, questions: int, reason: str) -> None:
        """Warn once that questions have no verdict.

        Args:
            number: number of questions without a verdict.
            questions: number of all questions.
            reason: reason of the first missing verdict.
        """
        if not self.reason:
            self.reason = f"{self.judge}: {reason}"
            message = f"{self.judge}: {number} of {questions} questions have no verdict: {reason}"
            warnings.warn(message, RlcompWarning, stacklevel=3)


@runtime_checkable
class GivesReasons(Protocol):
    """Interface of judges that give a reason for a missing verdict."""

    no_verdict: NoVerdict


def write_reasons(batch: TensorDict, judge: object) -> TensorDict:
    """Write ``invalid_reason`` ``[B, W]``: a reason for rows without a valid reward, else empty.

    It is the reason of the judge's first missing verdict, or that the judge gave no verdict; rows
    whose environment failed get it, too.
    """
    reason = judge.no_verdict.reason if isinstance(judge, GivesReasons) else ""
    reason = (
        reason
        or f"its judge, {getattr(judge, '__qualname__', type(judge).__name__)}, gave no verdict"
    )
    reasons = ["" if valid else reason for valid in batch["reward_valid"].tolist()]
    batch["invalid_reason"] = encode_texts(reasons).to(batch["reward_valid"].device)
    return batch


# The first tokens of an answer decide.
_MAX_TOKENS = 8


def check_options(part: str, **options: str) -> None:
    """Refuse two options if one of them is a prefix of the other, apart from case and quotes.

    Args:
        part: name of their owner, for the message.
        options: two texts, by the names of the arguments.

    Raises:
        ConfigError: one option is a prefix of the other, so that an answer could match both.
    """
    (first_name, first), (second_name, second) = options.items()
    first_plain, second_plain = plain_option(first), plain_option(second)
    if first_plain.startswith(second_plain) or second_plain.startswith(first_plain):
        raise ConfigError(
            f"{part}: {first_name} is {first!r} and {second_name} is {second!r}: an answer could "
            "match both, since one begins with the other (apart from case and quotes): change one"
        )


def option_preferences(
    endpoint: Endpoint,
    questions: Sequence[str],
    options: tuple[str, str],
    *,
    read: Literal["log_probs", "text"],
    least_mass: float,
    alternatives: int,
    no_verdict: NoVerdict,
) -> list[float | None]:
    """Return for each question the preference for the first of two options, in [0, 1].

    Args:
        endpoint: the model.
        questions: complete questions.
        options: two texts.
        read: read the probabilities of the answer's first token, or the beginning of the answer.
        least_mass: least probability of both options together; below it the preference is None.
            ``read=text`` does not use it.
        alternatives: number of first tokens whose log-prob is requested, for ``log_probs``.
        no_verdict: reports answers that choose neither option.

    Returns:
        One preference per question, 1 or 0 for ``text``; None if there is no answer, if it chooses
        neither option, or if its reply has no log-probs while another one has.

    Raises:
        ConfigError: ``read`` is ``log_probs``, but no reply has log-probs.
    """
    if read == "text":
        replies = endpoint.ask(questions, max_tokens=_MAX_TOKENS)
        values = [leading_option(reply.text, *options) if reply else None for reply in replies]
        unclear = [
            reply.text
            for reply, value in zip(replies, values, strict=True)
            if reply and value is None
        ]
        if unclear:
            reason = _unclear_answer_reason(options, unclear[0], no_verdict.path)
            no_verdict.warn_once(len(unclear), len(questions), reason)
        return values
    replies = endpoint.ask(questions, max_tokens=1, alternatives=alternatives)
    firsts = [reply.first if reply else None for reply in replies]
    if any(replies) and not any(firsts):
        raise ConfigError(
            "read is log_probs, but the endpoint returns no log-probs of the first token "
            "(choices[0].logprobs.content[0].top_logprobs): set read=text"
        )
    masses = [option_masses(first, *options) if first else None for first in firsts]
    values = [option_share(mass, least_mass) if mass else None for mass in masses]
    low = [n for n, mass in enumerate(masses) if mass and values[n] is None]
    if low:
        first, mass = firsts[low[0]] or {}, masses[low[0]] or (0.0, 0.0)
        likeliest = max(first, key=lambda token: first[token])
        reason = low_mass_reason(options, sum(mass), least_mass, likeliest, no_verdict.path)
        no_verdict.warn_once(len(low), len(questions), reason)
    return values


def low_mass_reason(
    options: tuple[str, str], mass: float, least_mass: float, likeliest: str, path: str
) -> str:
    """Return the reason of a missing verdict: the two options are too improbable.

    Args:
        options: options of the judge.
        mass: probability of both options together, summed over their spellings.
        least_mass: least mass that the judge accepts.
        likeliest: the model's likeliest first token, or the answer that it writes.
        path: config path of the judge, followed by a dot.
    """
    first, second = options
    return (
        f"the probability of {first!r} and {second!r} together, in every spelling, is {mass:.2g} "
        f"({path}least_mass is {least_mass:g}); the likeliest answer is {likeliest[:60]!r}: "
        f"{_OPTIONS_REMEDY.format(path=path)}"
    )


def _unclear_answer_reason(options: tuple[str, str], answer: str, path: str) -> str:
    first, second = options
    return (
        f"the answer {answer[:60]!r} begins neither with {first!r} nor with {second!r}: "
        f"{_OPTIONS_REMEDY.format(path=path)}"
    )


_OPTIONS_REMEDY = (
    "let {path}template ask for one of the two alone, or use other options or another model"
)


class JudgedReward(TextReward):
    """Text reward by a judge; rows without a verdict are invalid and name the judge.

    Reads the keys of :class:`rlcomp.interfaces.reward.TextReward`. Writes its keys and
    ``invalid_reason`` (``[B, W]`` uint8 texts).

    Attributes:
        judge: gives the verdicts.
    """

    writes: ClassVar[tuple[Key, ...]] = (*TextReward.writes, "invalid_reason")

    judge: Judge

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row; write the reward entries and the reasons of invalid rows."""
        return write_reasons(super().forward(batch), self.judge)


class AnswerPair(NamedTuple):
    """A question and two answers, in the order in which a judge reads them.

    Attributes:
        prompt: the question.
        first: the answer in first place.
        second: the answer in second place.
        answer: the task's right answer, for simulated judges only.
        rationale: comments on both answers, written before the verdict.
    """

    prompt: str
    first: str
    second: str
    answer: str = ""
    rationale: str = ""


class PairwiseJudge(Protocol):
    """Judge that compares answers two by two."""

    def __call__(self, pairs: Sequence[AnswerPair]) -> Sequence[float | None]:
        """Return for each pair the probability that the first is better; None for no verdict."""
        ...
