"""Check of a chat template: it must append to its earlier text, as ids of episodes require."""

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
    """Check that a template appends to its earlier text, as the ids of episodes require.

    Warns of a template that drops the thoughts of earlier turns: in episodes they stay.

    Args:
        template: is tested on conversations of three turns.
        make: as in :class:`rlcomp.text.chat_dialogue.ChatDialogue`.
        role: of the messages that hold observations.

    Raises:
        ConfigError: it rewrites anything else, or does not write such messages.
    """
    for text in (SAID, _THOUGHT + SAID):
        try:
            chat, read, whole = _both(template, make, role, text)
        except DataError as error:
            raise ConfigError(_refusal(role, str(error))) from error
        if read == whole:
            continue
        new, later = difference(chat, read, whole)
        change = f"once others follow ({new[:60]!r} becomes {later[:60]!r})"
        if text == SAID and _bare(read) != _bare(whole):
            why = f"{template.name} writes turns in another way {change}, and ids are only appended"
            raise ConfigError(_refusal(role, why))
        other = "prompt.observations=tool, as some keep thoughts before what tools say, or " * (
            role == "user"
        )
        warnings.warn(
            f"{template.name} writes the thought of a turn in another way {change}: in episodes it "
            "stays as the policy wrote it, in training and in evaluation, which a server of the "
            f"model will not do; use {other}a template that keeps turns as they were, "
            "prompt.template=FILE",
            RlcompWarning,
            stacklevel=2,
        )
        return


def _both(template: ChatTemplate, make: Make, role: str, answer: str) -> tuple[Chat, str, str]:
    """Return a conversation of three turns: in appended form, and in the template's own form."""
    turns = turns_of(answer, role, _TOLD)
    prompt, before = rendered(make(turns[:1])), rendered(make(turns)).partition(answer)[0]
    end, frame = behind(template, make(turns_of(SAID, role, _TOLD)))
    if _TOLD not in frame:
        raise DataError(f"{template.name} leaves messages of the role {role!r} out")
    # Mistral's template puts a space before an assistant's text, and the policy writes the space.
    space = before.removeprefix(prompt)
    answer = answer if space.strip() else space + answer
    chat = make([*turns, *turns[1:]])
    return chat, prompt + (answer + end + frame) * 2, rendered(chat)


def _bare(text: str) -> str:
    """Remove thoughts and white space from a text."""
    return "".join(re.sub(r"(?s)<think>.*?</think>|<think>", "", text).split())


def _refusal(role: str, why: str) -> str:
    return (
        f"prompt.observations is {role!r}, but {why}; set prompt.observations=inline, which writes "
        "what an environment says as plain text into the assistant's turn, or give another "
        "template, prompt.template=FILE"
    )
