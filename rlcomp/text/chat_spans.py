"""Assistant spans: the tokens of a rendered conversation that the policy wrote.

A turn begins where its prompt ends, and ends with the token that ends turns. Both are found by
rendering the conversation up to there.
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
    """The text of a conversation, and the spans of its trained turns.

    Attributes:
        text: the whole text, with the placeholders of its
            :class:`rlcomp.text.chat_template.Chat`.
        trained: start and end of every trained turn, in characters, in order.
        rewritten: the first turn that is not trained because the template rewrites it when later
            turns follow: the turn as the policy writes it, and as rewritten; None if there is none.
    """

    text: str
    trained: list[tuple[int, int]]
    rewritten: tuple[str, str] | None

    def demonstration(self, chat: Chat) -> Demonstration:
        """Return token ids, and the flags of the trained ones.

        The ids are those of the whole text, unless a token crosses the border of a turn: then each
        piece is tokenised separately, like a prompt and a sampled response.
        """
        borders = [0, *(border for span in self.trained for border in span), len(self.text)]
        texts = [self.text[a:b] for a, b in pairwise(borders)]
        pieces = [chat.ids(text) if text else [] for text in texts]
        ids, lengths = [token for piece in pieces for token in piece], [*map(len, pieces)]
        whole = chat.ids(self.text)
        if ids != whole:  # some tokenizers put a space in front of every text
            # No token crosses a border if the ids up to each border begin those of the whole text.
            prefixes = [chat.ids(self.text[:border]) if border else [] for border in borders[:-1]]
            if all(whole[: len(prefix)] == prefix for prefix in prefixes):
                counts = [*map(len, prefixes), len(whole)]
                ids, lengths = whole, [b - a for a, b in pairwise(counts)]
        # Every second piece is a turn of the assistant.
        flags = [n % 2 == 1 for n, length in enumerate(lengths) for _ in range(length)]
        return Demonstration(ids, flags)


def assistant_spans(template: ChatTemplate, chat: Chat, *, unchanged_only: bool) -> Spans:
    """Return the assistant's turns in a conversation that ends with one.

    A turn is trained if the text up to it equals its prompt exactly; with ``unchanged_only`` it
    must also have the text that it had as the last turn. DataError if the last turn does not end
    with the token that ends turns, or does not begin with the text that the template opens it with.
    """
    last = len(chat.messages) - 1
    whole = _trained_text(template, chat, chat.text(last + 1, add_generation_prompt=False), last)
    spans, change = list[tuple[int, int]](), None
    for turn in (n for n in range(1, last) if chat.messages[n]["role"] == "assistant"):
        start = chat.text(turn, add_generation_prompt=True)
        new = chat.text(turn + 1, add_generation_prompt=False)
        end = _end(template, new, len(start)) if new.startswith(start) else -1
        is_trained = end >= 0 and whole.startswith(new[:end])
        if not is_trained and not unchanged_only and end >= 0 and whole.startswith(start):
            end = _end(template, whole, len(start))
            is_trained = end >= 0
        if is_trained:
            spans.append((len(start), end))
        elif change is None:
            change = difference(chat, new if whole.startswith(start) else start, whole)
    start = chat.text(last, add_generation_prompt=True)
    spans.append((len(start), len(whole)))
    return Spans(whole, spans, change)


def _end(template: ChatTemplate, text: str, start: int) -> int:
    """Return the index after the end token of the turn that begins at ``start``; -1 for none."""
    index = text.find(template.stop, start)
    return index + len(template.stop) if index >= 0 else -1


def _trained_text(template: ChatTemplate, chat: Chat, text: str, last: int) -> str:
    """Return the text up to the token that ends the last turn, after that turn's prompt.

    Some templates open a turn with the beginning of a thought, and leave thoughts out of a finished
    turn. Then the trained text is the message without that opening.
    """
    start = chat.text(last, add_generation_prompt=True)
    if not text.startswith(start):
        opening = start[_common_prefix(start, text) :]
        answer = _answer_text(chat.messages[last])
        if not answer.startswith(opening):
            raise DataError(
                f"{template.name} opens a turn with {chat.unescape(opening)[:60]!r}, and a "
                f"demonstration begins with {chat.unescape(answer)[:60]!r}; the policy would "
                "never read what it is trained on. Give demonstrations with thoughts (in <think> "
                "tags or 'reasoning_content'), prompt.arguments such as {enable_thinking: false}, "
                "or another template, prompt.template=FILE"
            )
        return start + answer.removeprefix(opening) + template.stop
    end = _end(template, text, len(start))
    if end < 0:
        raise DataError(
            f"{template.name} does not end the turn {chat.unescape(text[len(start) :])[:60]!r} by "
            f"{template.stop!r}: the policy would not learn to stop; give another template, "
            "prompt.template=FILE"
        )
    return text[:end]


def _answer_text(message: dict[str, Any]) -> str:
    reasoning, content = message.get("reasoning_content"), str(message.get("content", ""))
    return f"<think>\n{reasoning.strip()}\n</think>\n\n{content}" if reasoning else content


def _common_prefix(first: str, second: str) -> int:
    """Count the characters at the beginning that two texts share."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))


def difference(chat: Chat, new: str, later: str) -> tuple[str, str]:
    """Return the ends of two texts, from ten characters before the place where they differ."""
    start = max(_common_prefix(new, later) - 10, 0)
    return chat.unescape(new[start:]), chat.unescape(later[start:])
