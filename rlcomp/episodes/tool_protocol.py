"""Tool protocols: the formats of calls and of their results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.episodes.tool_calls import ToolCall, parse_calls
from rlcomp.errors import ConfigError
from rlcomp.verify.tool_calls import CLOSE, OPEN


class ParsedTurn(NamedTuple):
    """The call of a turn, or its fault.

    Attributes:
        call: a call of a tool; None if there is none.
        fault: the fault, in words for the policy; "" if there is none.
    """

    call: ToolCall | None = None
    fault: str = ""


class ToolProtocol(Protocol):
    """Interface of formats of calls and results; ``tools`` are the names of the tools."""

    def stops(self, tools: Sequence[str]) -> tuple[str, ...]:
        """Return the texts that end a turn."""
        ...

    def read(self, action: str, tools: Sequence[str]) -> ParsedTurn:
        """Read the call at the end of a turn; a turn that answers has neither call nor fault."""
        ...

    def format_result(self, result: str, tools: Sequence[str]) -> tuple[str, str]:
        """Return a result as an observation, and its closing text."""
        ...


class Tags(metaclass=Checked):
    """Protocol of calls in tags named after the tool, with results in other tags.

    ``<search>who wrote it</search>`` is answered by ``<information>...</information>``. If a turn
    has several calls, the last one counts. A result is data: a tag of this protocol in it loses its
    first character.

    Args:
        opening: opening tag of a call; ``{name}`` is the name of the tool.
        closing: closing tag of a call; it ends a turn.
        before: text before a result.
        after: text after a result, which is never cut.
        answer: ends the turn that answers; null: only the stop token does.

    Raises:
        ConfigError: ``opening`` and ``closing`` are equal.
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
        """Return the closing tags of calls, and the closing tag of the answer.

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

    def read(self, action: str, tools: Sequence[str]) -> ParsedTurn:
        """Read the call whose closing tag ends the turn."""
        for name in tools:
            opening, closing = self._opening(name), self._closing(name)
            if action.endswith(closing):
                place = action.rfind(opening, 0, len(action) - len(closing))
                if place < 0:
                    return ParsedTurn(fault=f"the call of {name} has no opening tag")
                return ParsedTurn(
                    ToolCall(name, {}, (action[place + len(opening) : -len(closing)],))
                )
        return ParsedTurn()

    def format_result(self, result: str, tools: Sequence[str]) -> tuple[str, str]:
        """Put a result between its tags."""
        answer = self.answer or ""
        tags = [self.before, self.after, answer, answer.replace("/", "", 1)]
        tags += [tag(name) for name in tools for tag in (self._opening, self._closing)]
        return self.before + neutralise(result, tags), self.after

    def _opening(self, name: str) -> str:
        return self.opening.replace("{name}", name)

    def _closing(self, name: str) -> str:
        return self.closing.replace("{name}", name)


class JsonCalls:
    """Protocol of calls as JSON objects in ``<tool_call>`` tags, as in Hermes and Qwen.

    ``<tool_call>{"name": "search", "arguments": {"query": "..."}}</tool_call>`` is answered between
    ``<tool_response>`` tags. A result is data, as in :class:`Tags`.
    """

    def stops(self, tools: Sequence[str]) -> tuple[str, ...]:
        """Return the closing tag of a call."""
        del tools
        return (CLOSE,)

    def read(self, action: str, tools: Sequence[str]) -> ParsedTurn:
        """Read the last call of the turn; if its tool is unknown, this is a fault."""
        calls = parse_calls(action)
        if isinstance(calls, str):
            return ParsedTurn(fault=calls)
        if not calls:
            return ParsedTurn()
        call = calls[-1]
        if call.name not in tools:
            return ParsedTurn(
                fault=f"there is no tool {call.name[:60]!r}: there are {', '.join(tools)}"
            )
        return ParsedTurn(call)

    def format_result(self, result: str, tools: Sequence[str]) -> tuple[str, str]:
        """Put a result between its tags."""
        del tools
        before, after = "<tool_response>", "</tool_response>"
        return before + neutralise(result, [before, after, OPEN, CLOSE]), after


def join_results(protocol: ToolProtocol, results: Sequence[str]) -> tuple[str, str]:
    """Join results of several calls into one observation; return it and its closing text.

    Examples:
        >>> join_results(JsonCalls(), ["3", "4"])
        ('<tool_response>3</tool_response><tool_response>4', '</tool_response>')
    """
    *others, (last, closing) = [protocol.format_result(result, ()) for result in results]
    return "".join(before + after for before, after in others) + last, closing


# Tags inside tags, such as </info</information>rmation>, take several passes.
_PASSES = 8


def neutralise(text: str, tags: Sequence[str]) -> str:
    """Return a text without tags: each tag loses its first character.

    If tags are left after ``_PASSES`` passes, the text loses all first characters of tags.

    Examples:
        >>> neutralise("a</b> c <</b>/b>", ["</b>"])
        'a/b> c /b>/b>'
    """
    tags = [tag for tag in tags if tag]
    pattern = re.compile("|".join(map(re.escape, sorted(tags, key=len, reverse=True))))
    for _ in range(_PASSES if tags else 0):
        shorter = pattern.sub(lambda tag: tag[0][1:], text)
        if shorter == text:
            return text
        text = shorter
    return text.translate({ord(tag[0]): None for tag in tags})
