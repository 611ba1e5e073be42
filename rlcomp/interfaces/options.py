"""Questions with two options, asked of an endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rlcomp.errors import ConfigError
from rlcomp.interfaces.endpoint import Endpoint
from rlcomp.interfaces.judge import NoVerdict
from rlcomp.verify.options import option_masses, plain_option, said_option, share_of

# An answer is read by how it begins.
_MAX_TOKENS = 8


def check_options(part: str, **options: str) -> None:
    """Refuse two options of which one begins with the other, whatever their case and quotes.

    Args:
        part: what has them, for the message.
        options: two texts, by the names of the arguments.

    Raises:
        ConfigError: both would be said at once.
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
    """For each question how far the first of two options is chosen, in [0, 1].

    Args:
        endpoint: what is asked.
        questions: whole ones.
        options: two texts.
        read: the probabilities of the answer's first token, or what it begins with.
        least_mass: of both options together; below it the answer is None.
        alternatives: first tokens whose log-prob is asked for.
        no_verdict: is told of answers that choose neither.

    Returns:
        None where no answer came or it chooses neither.

    Raises:
        ConfigError: log-probs are to be read, and none of the replies tells any.
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
    """Return why a model has no verdict: what it would rather say, and the remedy.

    Args:
        options: of the judge.
        mass: probability of both, in every spelling.
        least_mass: of the judge.
        likeliest: the model's likeliest first token, or its answer.
        path: of the judge in the config, with a dot.
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
