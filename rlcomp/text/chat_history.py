"""Chat history: whether a template goes on behind what it wrote, as the ids of episodes do."""

from __future__ import annotations

import re
import warnings

from rlcomp.errors import ConfigError, DataError, RlcompWarning
from rlcomp.text.chat_dialogue import SAID, Make, behind, rendered, turns_of
from rlcomp.text.chat_spans import difference
from rlcomp.text.chat_template import Chat, ChatTemplate

_TOLD = "Quokka"
_THOUGHT = "<think>\nHm.\n</think>\n\n"


def check_appends(template: ChatTemplate, make: Make, role: str) -> None:
    """Check that a template goes on behind what it wrote before, as the ids of episodes do.

    Warns of one that leaves the thoughts of earlier turns out: in episodes they stay.

    Args:
        template: is tried on conversations of three turns.
        make: as of :class:`ChatDialogue`.
        role: of the messages that observations become.

    Raises:
        ConfigError: it writes anything else anew, or has no place for such messages.
    """
    for said in (SAID, _THOUGHT + SAID):
        try:
            chat, read, whole = _both(template, make, role, said)
        except DataError as error:
            raise ConfigError(_refusal(role, str(error))) from error
        if read == whole:
            continue
        new, later = difference(chat, read, whole)
        told = f"once others follow ({new[:60]!r} becomes {later[:60]!r})"
        if said == SAID and _bare(read) != _bare(whole):
            why = f"{template.name} writes turns in another way {told}, and ids are only appended"
            raise ConfigError(_refusal(role, why))
        other = "prompt.observations=tool, as some keep thoughts before what tools say, or " * (
            role == "user"
        )
        warnings.warn(
            f"{template.name} writes the thought of a turn in another way {told}: in episodes it "
            "stays as the policy wrote it, in training and in evaluation, which a server of the "
            f"model will not do; use {other}a template that keeps turns as they were, "
            "prompt.template=FILE",
            RlcompWarning,
            stacklevel=2,
        )
        return


def _both(template: ChatTemplate, make: Make, role: str, said: str) -> tuple[Chat, str, str]:
    """A conversation of three turns: as an episode appends it, and as the template writes it."""
    turns = turns_of(said, role, _TOLD)
    asked, before = rendered(make(turns[:1])), rendered(make(turns)).partition(said)[0]
    end, frame = behind(template, make(turns_of(SAID, role, _TOLD)))
    if _TOLD not in frame:
        raise DataError(f"{template.name} leaves messages of the role {role!r} out")
    # Mistral's begins what an assistant says with a space, which the policy writes.
    space = before.removeprefix(asked)
    said = said if space.strip() else space + said
    chat = make([*turns, *turns[1:]])
    return chat, asked + (said + end + frame) * 2, rendered(chat)


def _bare(text: str) -> str:
    """A text without thoughts and white space."""
    return "".join(re.sub(r"(?s)<think>.*?</think>|<think>", "", text).split())


def _refusal(role: str, why: str) -> str:
    return (
        f"prompt.observations is {role!r}, but {why}; set prompt.observations=inline, which writes "
        "what an environment says as plain text into the assistant's turn, or give another "
        "template, prompt.template=FILE"
    )
