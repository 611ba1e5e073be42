"""Assistant spans: which tokens of a rendered conversation the policy wrote.

A turn begins where the prompt that asks for it ends, and ends with the token that ends turns. Both
are found by rendering the conversation up to there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rlcomp.errors import DataError
from rlcomp.interfaces.prompt import Demonstration
from rlcomp.text.chat_template import Chat, ChatTemplate


@dataclass(frozen=True)
class Spans:
    """A conversation as text.

    Attributes:
        text: all of it, with the marks of its :class:`rlcomp.text.chat_template.Chat`.
        trained: start and end of every trained turn, in characters, in order.
        rewritten: of the first turn that is not trained because the template writes it in another
            way later, both ways; None if there is none.
    """

    text: str
    trained: list[tuple[int, int]]
    rewritten: tuple[str, str] | None

    def demonstration(self, chat: Chat) -> Demonstration:
        """Token ids and which of them are trained.

        The ids are those of the whole text, unless a token reaches over the border of a turn: then
        each piece is tokenised by itself, as a prompt and a sampled response are.
        """
        borders = [0, *(place for span in self.trained for place in span), len(self.text)]
        texts = [self.text[a:b] for a, b in pairwise(borders)]
        pieces = [chat.ids(text) if text else [] for text in texts]
        ids, lengths = [one for piece in pieces for one in piece], [*map(len, pieces)]
        whole = chat.ids(self.text)
        if ids != whole:  # as of tokenizers that put a space in front of whatever they are given
            before = [chat.ids(self.text[:border]) if border else [] for border in borders[:-1]]
            if all(whole[: len(part)] == part for part in before):
                counts = [*map(len, before), len(whole)]
                ids, lengths = whole, [b - a for a, b in pairwise(counts)]
        # Every other piece is a turn of the assistant.
        trained = [n % 2 == 1 for n, length in enumerate(lengths) for _ in range(length)]
        return Demonstration(ids, trained)


def assistant_spans(template: ChatTemplate, chat: Chat, *, as_new: bool) -> Spans:
    """The assistant's turns in a conversation that ends in one.

    A turn is trained if the conversation reads, up to it, exactly as the prompt that asks for it.

    Args:
        template: writes it.
        chat: the conversation.
        as_new: train a turn only if it stands as it did when it was the last one.

    Raises:
        DataError: a turn does not end with the token that ends turns, or what opens the last one
            is not what it begins with.
    """
    last = len(chat.messages) - 1
    whole = _closed(template, chat, chat.text(last + 1, due=False), last)
    trained, rewritten = list[tuple[int, int]](), None
    for turn in (n for n in range(1, last) if chat.messages[n]["role"] == "assistant"):
        start = chat.text(turn, due=True)
        new = chat.text(turn + 1, due=False)
        end = _end(template, new, len(start)) if new.startswith(start) else -1
        same = end >= 0 and whole.startswith(new[:end])
        if not same and not as_new and end >= 0 and whole.startswith(start):
            end = _end(template, whole, len(start))
            same = end >= 0
        if same:
            trained.append((len(start), end))
        elif rewritten is None:
            rewritten = difference(chat, new if whole.startswith(start) else start, whole)
    start = chat.text(last, due=True)
    trained.append((len(start), len(whole)))
    return Spans(whole, trained, rewritten)


def _end(template: ChatTemplate, text: str, start: int) -> int:
    """Behind the token that ends the turn which begins at ``start``; -1 without one."""
    place = text.find(template.stop, start)
    return place + len(template.stop) if place >= 0 else -1


def _closed(template: ChatTemplate, chat: Chat, text: str, last: int) -> str:
    """The whole text up to the token that ends the last turn, behind the prompt that asks for it.

    Some templates open a turn with the begin of a thought, and leave thoughts out of turns that
    are given: then the turn is what the message says behind that.
    """
    start = chat.text(last, due=True)
    if not text.startswith(start):
        opened = start[_shared(start, text) :]
        said = _said(chat.messages[last])
        if not said.startswith(opened):
            raise DataError(
                f"{template.name} asks for a turn by {chat.shown(opened)[:60]!r}, and a "
                f"demonstration does not begin so: {chat.shown(said)[:60]!r}; the policy would "
                "never read what it is trained on. Give demonstrations with thoughts (in <think> "
                "tags or 'reasoning_content'), prompt.arguments such as {enable_thinking: false}, "
                "or another template, prompt.template=FILE"
            )
        return start + said.removeprefix(opened) + template.stop
    end = _end(template, text, len(start))
    if end < 0:
        raise DataError(
            f"{template.name} does not end the turn {chat.shown(text[len(start) :])[:60]!r} by "
            f"{template.stop!r}: the policy would not learn to stop; give another template, "
            "prompt.template=FILE"
        )
    return text[:end]


def _said(message: dict[str, Any]) -> str:
    reasoning, content = message.get("reasoning_content"), str(message.get("content", ""))
    return f"<think>\n{reasoning.strip()}\n</think>\n\n{content}" if reasoning else content


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def difference(chat: Chat, new: str, later: str) -> tuple[str, str]:
    """What a text reads behind the beginning that it shares with a later one, and the later."""
    shared = max(_shared(new, later) - 10, 0)
    return chat.shown(new[shared:]), chat.shown(later[shared:])
