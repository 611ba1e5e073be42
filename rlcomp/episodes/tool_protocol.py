"""Tool protocols: how a call is written in a turn, and how its result is told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.episodes.tool_calls import Call, parse_calls
from rlcomp.errors import ConfigError
from rlcomp.verify.tool_calls import CLOSE, OPEN


class Read(NamedTuple):
    """What a turn asks for.

    Attributes:
        call: of a tool; None where there is none.
        wrong: what is wrong with it, in words for the policy; "" where nothing is.
    """

    call: Call | None = None
    wrong: str = ""


class ToolProtocol(Protocol):
    """How calls and results are written."""

    def stops(self, tools: Sequence[str]) -> tuple[str, ...]:
        """The texts that end a turn."""
        ...

    def read(self, action: str, tools: Sequence[str]) -> Read:
        """The call that ends a turn; neither a call nor a fault where the turn is an answer."""
        ...

    def told(self, result: str, tools: Sequence[str]) -> tuple[str, str]:
        """A result as observation, and what closes it."""
        ...


class Tags(metaclass=Checked):
    """A call is the text between the tags of a tool; its result stands between others.

    ``<search>who wrote it</search>`` is answered by ``<information>...</information>``. Of several
    calls in a turn the last one counts. A result is data: what reads as one of these tags in it
    loses its first character.

    Args:
        opening: of a call; ``{name}`` is the tool's.
        closing: of a call; it ends a turn.
        before: stands before a result.
        after: stands behind it, and is never cut.
        answer: ends the turn that answers; null: only the stop token does.

    Raises:
        ConfigError: ``opening`` and ``closing`` cannot be told apart.
    """

    def __init__(
        self,
        *,
        opening: NonEmptyText = "<{name}>",
        closing: NonEmptyText = "</{name}>",
        before: str = "<information>",
        after: str = "</information>",
        answer: NonEmptyText | None = "</answer>",
    ) -> None:
        if opening == closing:
            raise ConfigError(f"Tags: opening and closing are both {opening!r}: let them differ")
        self.opening, self.closing = opening, closing
        self.before, self.after = before, after
        self.answer = answer

    def stops(self, tools: Sequence[str]) -> tuple[str, ...]:
        """The closing tags of calls, and that of the answer.

        Raises:
            ConfigError: several tools have the same tags.
        """
        closing = [self._closing(name) for name in tools]
        if len({*closing}) < len(closing) or len({*map(self._opening, tools)}) < len(tools):
            raise ConfigError(
                f"environment.protocol: {len(tools)} tools ({', '.join(tools)}) need tags of their "
                "own: write {name} into opening and closing"
            )
        return (*closing, *([self.answer] if self.answer else []))

    def read(self, action: str, tools: Sequence[str]) -> Read:
        """The call whose closing tag ends the turn."""
        for name in tools:
            opening, closing = self._opening(name), self._closing(name)
            if action.endswith(closing):
                place = action.rfind(opening, 0, len(action) - len(closing))
                if place < 0:
                    return Read(wrong=f"the call of {name} has no opening tag")
                return Read(Call(name, {}, (action[place + len(opening) : -len(closing)],)))
        return Read()

    def told(self, result: str, tools: Sequence[str]) -> tuple[str, str]:
        """A result between its tags."""
        answer = self.answer or ""
        marks = [self.before, self.after, answer, answer.replace("/", "", 1)]
        marks += [mark(name) for name in tools for mark in (self._opening, self._closing)]
        return self.before + without_marks(result, marks), self.after

    def _opening(self, name: str) -> str:
        return self.opening.replace("{name}", name)

    def _closing(self, name: str) -> str:
        return self.closing.replace("{name}", name)


class JsonCalls:
    """A call is a JSON object between ``<tool_call>`` tags, as Hermes and Qwen write it.

    ``<tool_call>{"name": "search", "arguments": {"query": "..."}}</tool_call>`` is answered between
    ``<tool_response>`` tags. A result is data, as of :class:`Tags`.
    """

    def stops(self, tools: Sequence[str]) -> tuple[str, ...]:
        """The closing tag of a call."""
        del tools
        return (CLOSE,)

    def read(self, action: str, tools: Sequence[str]) -> Read:
        """The call that ends the turn, of a tool that there is."""
        found = parse_calls(action)
        if isinstance(found, str):
            return Read(wrong=found)
        if not found:
            return Read()
        call = found[-1]
        if call.name not in tools:
            return Read(wrong=f"there is no tool {call.name[:60]!r}: there are {', '.join(tools)}")
        return Read(call)

    def told(self, result: str, tools: Sequence[str]) -> tuple[str, str]:
        """A result between its tags."""
        del tools
        before, after = "<tool_response>", "</tool_response>"
        return before + without_marks(result, [before, after, OPEN, CLOSE]), after


def told_together(protocol: ToolProtocol, results: Sequence[str]) -> tuple[str, str]:
    """Results of several calls of a turn as one observation, and what closes it.

    Examples:
        >>> told_together(JsonCalls(), ["3", "4"])
        ('<tool_response>3</tool_response><tool_response>4', '</tool_response>')
    """
    *others, (last, closing) = [protocol.told(result, ()) for result in results]
    return "".join(before + after for before, after in others) + last, closing


# Tags that stand in one another, such as </info</information>rmation>, take several passes.
_PASSES = 8


def without_marks(text: str, marks: Sequence[str]) -> str:
    """A text in which no mark is left: each loses its first character.

    Examples:
        >>> without_marks("a</b> c <</b>/b>", ["</b>"])
        'a/b> c /b>/b>'
    """
    marks = [mark for mark in marks if mark]
    found = re.compile("|".join(map(re.escape, sorted(marks, key=len, reverse=True))))
    for _ in range(_PASSES if marks else 0):
        less = found.sub(lambda mark: mark[0][1:], text)
        if less == text:
            return text
        text = less
    return text.translate({ord(mark[0]): None for mark in marks})
