"""Tool calls: read from a response, and matched with gold calls that have alternatives (BFCL)."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Call = tuple[str, dict[str, object]]

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_SPACE = re.compile(r"[ \t\n\r]*")
# Longer ones are refused: nobody calls a tool with that much, and parsers are slow on it.
_LONGEST = 10_000
_DECODER = json.JSONDecoder()
# White space and these do not count in texts, as BFCL compares them.
_IGNORED = re.compile(r"[ ,./\-_*^()]")


def tool_match(
    response: str, ground_truth: Sequence[Mapping[str, Mapping[str, Sequence[object]]]]
) -> float:
    """1 if the calls of a response are the gold ones, in any order, else 0.

    Each gold call is ``{name: {parameter: alternatives}}``; a parameter may be left out where
    ``""`` is among its alternatives, and no other parameter may be given. Each call counts once.
    Without gold calls, calling nothing is right (irrelevance).

    Texts are compared in small letters, without spaces and ``,./-_*^()``, quotes of both kinds
    alike; 5 and 5.0 are the same number, a bool is none.

    Args:
        response: see :func:`read_calls`.
        ground_truth: as in BFCL's ``possible_answer``.

    Source:
        Patil et al. 2025, the Berkeley Function Calling Leaderboard (AST evaluation).

    Examples:
        >>> gold = [{"add": {"a": [1], "b": [2, 3], "c": ["", 0]}}]
        >>> tool_match("[add(b=3, a=1)]", gold), tool_match("[add(a=1, b=4)]", gold)
        (1.0, 0.0)
        >>> tool_match("I cannot do that.", []), tool_match("[add(a=1)]", [])
        (1.0, 0.0)
    """
    calls = read_calls(response)
    if not ground_truth or calls is None:
        return float(not ground_truth and not calls)
    options = [_gold(entry) for entry in ground_truth]
    if len(calls) != len(options):
        return 0.0
    fits = [[n for n, gold in enumerate(options) if _fits(call, gold)] for call in calls]
    return float(_paired(fits))


class Tagged(NamedTuple):
    """What stands between a pair of tags.

    Attributes:
        body: without the tags; None where no closing tag ends it.
        start: of the opening tag in the text.
        end: behind the closing one.
    """

    body: str | None
    start: int
    end: int


def tagged_calls(text: str) -> list[Tagged]:
    """Return what stands between ``<tool_call>`` tags, each pair in turn.

    A JSON value ends where its decoder says, so that a tag within one of its texts is text.
    Anything else ends at the next closing tag, if no opening one stands before it.

    Examples:
        >>> [call.body for call in tagged_calls('<tool_call>"</tool_call>"</tool_call>')]
        ['"</tool_call>"']
        >>> tagged_calls("<tool_call>{}")
        [Tagged(body=None, start=0, end=11)]
    """
    found = list[Tagged]()
    while (start := text.find(OPEN, found[-1].end if found else 0)) >= 0:
        inside = start + len(OPEN)
        end = _json_end(text, inside)
        if end is None:
            following = text.find(OPEN, inside)
            end = text.find(CLOSE, inside, following if following >= 0 else len(text))
        if end < 0:
            found.append(Tagged(None, start, inside))
        else:
            found.append(Tagged(text[inside:end], start, end + len(CLOSE)))
    return found


def _json_end(text: str, start: int) -> int | None:
    """Where the closing tag behind a JSON value stands; None where there is no such value."""
    piece = text[start : start + _LONGEST + len(CLOSE) + 1]
    try:
        _, end = _DECODER.raw_decode(piece, _spaced(piece, 0))
    except (ValueError, RecursionError, MemoryError):
        return None
    end = _spaced(piece, end)
    return start + end if piece.startswith(CLOSE, end) else None


def _spaced(text: str, place: int) -> int:
    space = _SPACE.match(text, place)
    return space.end() if space else place


def outside_calls(text: str, calls: Sequence[Tagged]) -> list[str]:
    """Return the texts before, between and behind the calls of a text.

    Examples:
        >>> text = "a<tool_call>1</tool_call>b"
        >>> outside_calls(text, tagged_calls(text))
        ['a', 'b']
    """
    ends, starts = [0, *(call.end for call in calls)], [*(call.start for call in calls), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


def arguments_of(call: Mapping[str, object]) -> object:
    """Return the arguments of a JSON call, which stand under ``arguments`` or ``parameters``.

    None where both are there; an empty mapping where neither is.

    Examples:
        >>> arguments_of({"name": "f", "parameters": {"a": 1}})
        {'a': 1}
    """
    if "arguments" in call and "parameters" in call:
        return None
    return call.get("arguments", call.get("parameters", {}))


def read_calls(response: str) -> list[Call] | None:
    """The tool calls of a response, behind its thought; None if there are none to be read.

    Read are ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` (or ``parameters``), as
    often as they are there, by the reader of environments (:func:`tagged_calls`); else the whole
    response as JSON, one such object or a list of them, or as Python calls with literal arguments
    by name: ``[f(a=1), g()]``.

    Examples:
        >>> read_calls('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>')
        [('f', {'a': 1})]
        >>> read_calls("[f(a=1), m.g()]")
        [('f', {'a': 1}), ('m.g', {})]
    """
    said = response.rpartition("</think>")[2].strip()
    if len(said) > _LONGEST:
        return None
    tagged = tagged_calls(said)
    texts = [call.body for call in tagged] or [_unfenced(said)]
    if tagged and any(CLOSE in text for text in outside_calls(said, tagged)):
        return None
    found = [text and (_json_calls(text) or _python_calls(text)) for text in texts]
    calls = [call for some in found for call in some or ()]
    return calls if calls and all(found) else None


def _unfenced(text: str) -> str:
    if not (text.startswith("```") and text.endswith("```")):
        return text
    return text[3:-3].removeprefix("json").removeprefix("python").strip()


def _json_calls(text: str) -> list[Call] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    entries = value if isinstance(value, list) else [value]
    calls = [_json_call(entry) for entry in entries]
    return None if None in calls else [call for call in calls if call is not None]


def _json_call(entry: object) -> Call | None:
    if not isinstance(entry, dict):
        return None
    entry = entry.get("function", entry) if isinstance(entry.get("function"), dict) else entry
    name, arguments = entry.get("name"), arguments_of(entry)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return name, arguments


def _python_calls(text: str) -> list[Call] | None:
    try:
        with warnings.catch_warnings():  # of Python, on the policy's escapes
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
        entries = tree.elts if isinstance(tree, (ast.List, ast.Tuple)) else [tree]
        return [_python_call(entry) for entry in entries]
    # TypeError: of a list in a set, or as a key
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _python_call(entry: ast.expr) -> Call:
    """A call with literal arguments by name; ValueError where it is something else."""
    if not isinstance(entry, ast.Call) or entry.args:
        raise ValueError
    arguments = {}
    for keyword in entry.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError
        arguments[keyword.arg] = ast.literal_eval(keyword.value)
    return ast.unparse(entry.func), arguments


def _gold(
    entry: Mapping[str, Mapping[str, Sequence[object]]],
) -> tuple[str, dict[str, list[object]]]:
    ((name, parameters),) = entry.items()
    return name, {key: list(options) for key, options in parameters.items()}


def _fits(call: Call, gold: tuple[str, Mapping[str, Sequence[object]]]) -> bool:
    (name, given), (gold_name, options) = call, gold
    if name != gold_name or not given.keys() <= options.keys():
        return False
    return all(
        _is_one_of(given[key], some) if key in given else "" in some
        for key, some in options.items()
    )


def _is_one_of(value: object, options: Sequence[object]) -> bool:
    return any(_same(value, option) for option in options if option != "" or value == "")


def _same(value: object, option: object) -> bool:
    """Whether a value is one of the alternatives; of a mapping each entry has alternatives."""
    if isinstance(option, Mapping):
        if not isinstance(value, dict) or not value.keys() <= option.keys():
            return False
        return all(
            _is_one_of(value[key], _listed(some)) if key in value else "" in _listed(some)
            for key, some in option.items()
        )
    if isinstance(option, list):
        if not isinstance(value, (list, tuple)) or len(value) != len(option):
            return False
        return all(_same(one, other) for one, other in zip(value, option, strict=True))
    if isinstance(value, str) and isinstance(option, str):
        return _plain(value) == _plain(option)
    if isinstance(value, bool) or isinstance(option, bool):
        return value is option
    return value == option


def _listed(options: object) -> Sequence[object]:
    return options if isinstance(options, list) else [options]


def _plain(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _paired(fits: Sequence[Sequence[int]]) -> bool:
    """Whether each call has a gold call of its own (bipartite matching by augmenting paths)."""
    owner: dict[int, int] = {}
    return all(_assign(call, fits, owner, set()) for call in range(len(fits)))


def _assign(
    call: int, fits: Sequence[Sequence[int]], owner: dict[int, int], seen: set[int]
) -> bool:
    for gold in fits[call]:
        if gold not in seen:
            seen.add(gold)
            if gold not in owner or _assign(owner[gold], fits, owner, seen):
                owner[gold] = call
                return True
    return False
