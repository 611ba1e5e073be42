"""Questions with two options, asked of an endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rlcomp.errors import ConfigError
from rlcomp.interfaces.endpoint import Endpoint
from rlcomp.verify.options import option_share, said_option

# An answer is read by how it begins.
_MAX_TOKENS = 8


def check_options(part: str, **options: str) -> None:
    """Refuse two options of which one begins with the other.

    Args:
        part: what has them, for the message.
        options: two texts, by the names of the arguments.

    Raises:
        ConfigError: both would be said at once.
    """
    (one, first), (other, second) = options.items()
    if first.startswith(second) or second.startswith(first):
        raise ConfigError(
            f"{part}: of {one} {first!r} and {other} {second!r} one begins with the other, so "
            "that both would be said at once: change one"
        )


def choices(
    endpoint: Endpoint,
    questions: Sequence[str],
    options: tuple[str, str],
    *,
    read: Literal["log_probs", "text"],
    least_mass: float,
    alternatives: int,
) -> list[float | None]:
    """For each question how far the first of two options is chosen, in [0, 1].

    Args:
        endpoint: what is asked.
        questions: whole ones.
        options: two texts.
        read: the probabilities of the answer's first token, or what it begins with.
        least_mass: of both options together; below it the answer is None.
        alternatives: first tokens whose log-prob is asked for.

    Returns:
        None where no answer came or it chooses neither.

    Raises:
        ConfigError: log-probs are to be read, and none of the replies tells any.
    """
    if read == "text":
        replies = endpoint.ask(questions, max_tokens=_MAX_TOKENS)
        return [said_option(reply.text, *options) if reply else None for reply in replies]
    replies = endpoint.ask(questions, max_tokens=1, alternatives=alternatives)
    firsts = [reply.first if reply else None for reply in replies]
    if any(replies) and not any(firsts):
        raise ConfigError(
            "read is log_probs, and the endpoint tells no log-probs of the first token "
            "(choices[0].logprobs.content[0].top_logprobs): set read=text"
        )
    return [option_share(first, *options, least_mass) if first else None for first in firsts]
