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
from rlcomp.verify.choice_answer import option_masses, plain_option, said_option, share_of


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
    """Reason of a judge for a missing verdict: the first one, given once as a warning.

    Args:
        judge: name of the judge's class, for messages. The judge's constructor makes this object,
            so that messages have the judge's config path as well.

    Attributes:
        path: config path of the judge and a dot, for remedies; empty outside of a config.
        reason: with the judge's name; empty if every question had a verdict.
    """

    def __init__(self, judge: str) -> None:
        path = node_path()
        self.path = f"{path}." if path else ""
        self.judge = f"{path} ({judge})" if path else judge
        self.reason = ""

    def tell(self, number: int, questions: int, reason: str) -> None:
        """Warn once that a number of questions have no verdict."""
        if not self.reason:
            self.reason = f"{self.judge}: {reason}"
            message = f"{self.judge}: {number} of {questions} questions have no verdict: {reason}"
            warnings.warn(message, RlcompWarning, stacklevel=3)


@runtime_checkable
class GivesReasons(Protocol):
    """Interface of judges that give a reason for a missing verdict."""

    no_verdict: NoVerdict


def write_reasons(batch: TensorDict, judge: object) -> TensorDict:
    """Write the judge's reason as ``invalid_reason`` ``[B, W]`` of rows without a valid reward."""
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
    """Refuse two options if one begins with the other, apart from case and quotes.

    Args:
        part: their owner, for the message.
        options: two texts, by the names of the arguments.

    Raises:
        ConfigError: an answer could match both.
    """
    (one, first), (other, second) = options.items()
    one_plain, other_plain = plain_option(first), plain_option(second)
    if one_plain.startswith(other_plain) or other_plain.startswith(one_plain):
        raise ConfigError(
            f"{part}: of {one} {first!r} and {other} {second!r} one begins with the other "
            "(case and quotes do not count), so that an answer may choose both: change one"
        )


def choices(
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
        least_mass: least mass of both options together; below it the answer is None.
        alternatives: number of first tokens whose log-prob is requested.
        no_verdict: is notified of answers that choose neither.

    Returns:
        None for a question without an answer, or whose answer chooses neither.

    Raises:
        ConfigError: log-probs are to be read, but no reply has any.
    """
    if read == "text":
        replies = endpoint.ask(questions, max_tokens=_MAX_TOKENS)
        values = [said_option(reply.text, *options) if reply else None for reply in replies]
        unclear = [
            reply.text for reply, one in zip(replies, values, strict=True) if reply and one is None
        ]
        if unclear:
            no_verdict.tell(
                len(unclear), len(questions), _other_words(options, unclear[0], no_verdict.path)
            )
        return values
    replies = endpoint.ask(questions, max_tokens=1, alternatives=alternatives)
    firsts = [reply.first if reply else None for reply in replies]
    if any(replies) and not any(firsts):
        raise ConfigError(
            "read is log_probs, and the endpoint tells no log-probs of the first token "
            "(choices[0].logprobs.content[0].top_logprobs): set read=text"
        )
    masses = [option_masses(first, *options) if first else None for first in firsts]
    values = [share_of(mass, least_mass) if mass else None for mass in masses]
    low = [n for n, mass in enumerate(masses) if mass and values[n] is None]
    if low:
        first, mass = firsts[low[0]] or {}, masses[low[0]] or (0.0, 0.0)
        likeliest = max(first, key=lambda token: first[token])
        reason = low_mass(options, sum(mass), least_mass, likeliest, no_verdict.path)
        no_verdict.tell(len(low), len(questions), reason)
    return values


def low_mass(
    options: tuple[str, str], mass: float, least_mass: float, likeliest: str, path: str
) -> str:
    """Return the reason of a missing verdict: the model's own answer, and the remedy.

    Args:
        options: options of the judge.
        mass: probability of both, in every spelling.
        least_mass: limit of the judge.
        likeliest: the model's likeliest first token, or its answer.
        path: config path of the judge, with a dot.
    """
    one, other = options
    return (
        f"{one!r} and {other!r} have {mass:.2g} of the probability together, in every spelling "
        f"({path}least_mass is {least_mass:g}), and the model would rather say {likeliest[:60]!r}: "
        f"let {path}template ask for one of the two alone, take other options, or another model"
    )


def _other_words(options: tuple[str, str], answer: str, path: str) -> str:
    one, other = options
    return (
        f"the answer begins neither with {one!r} nor with {other!r}, but {answer[:60]!r}: let "
        f"{path}template ask for one of the two alone, take other options, or another model"
    )


class JudgedReward(TextReward):
    """Text reward by a judge; rows without a verdict are invalid and name the judge.

    Writes the reward entries and ``invalid_reason`` (``[B, W]`` uint8 texts).

    Attributes:
        judge: gives the verdicts.
    """

    writes: ClassVar[tuple[Key, ...]] = (*TextReward.writes, "invalid_reason")

    judge: Judge

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row; write the reward entries and the reasons of invalid rows."""
        return write_reasons(super().forward(batch), self.judge)


class AnswerPair(NamedTuple):
    """Two answers in the order in which a judge sees them.

    Attributes:
        prompt: the question.
        first: the answer in first place.
        second: the other one.
        answer: the task's right answer; only a simulated judge may look.
        rationale: comments on the two before the verdict.
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
