"""Questions with two options, answered by an endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rlcomp.errors import ConfigError
from rlcomp.interfaces.endpoint import Endpoint
from rlcomp.interfaces.judge import NoVerdict
from rlcomp.verify.options import option_masses, plain_option, said_option, share_of

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
