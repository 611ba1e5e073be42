"""Match of tool calls with gold calls that have alternatives (BFCL)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rlcomp.verify.tool_calls import Call, read_calls

# Texts are compared without spaces and these signs, as in BFCL.
_IGNORED = re.compile(r"[ ,./\-_*^()]")


def tool_match(
    response: str, ground_truth: Sequence[Mapping[str, Mapping[str, Sequence[object]]]]
) -> float:
    """Return 1 if the calls of a response are the gold ones, in any order, else 0.

    Each gold call is ``{name: {parameter: alternatives}}``; a parameter may be left out if ``""``
    is among its alternatives, and unknown parameters are wrong. Each call counts once. Without gold
    calls, a response without calls, or with calls that cannot be read, is right (irrelevance).

    Texts are compared in lower case, without spaces and ``,./-_*^()``; both kinds of quotes are
    the same. 5 and 5.0 are the same number, a bool is not a number.

    Args:
        response: see :func:`rlcomp.verify.tool_calls.read_calls`.
        ground_truth: the gold calls, as in BFCL's ``possible_answer``.

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
    gold_calls = [_gold_call(entry) for entry in ground_truth]
    if len(calls) != len(gold_calls):
        return 0.0
    fits = [[n for n, gold in enumerate(gold_calls) if _matches(call, gold)] for call in calls]
    return float(_match_all(fits))


def _gold_call(
    entry: Mapping[str, Mapping[str, Sequence[object]]],
) -> tuple[str, dict[str, list[object]]]:
    """Return the name of a gold call, and the alternatives of each parameter."""
    ((name, parameters),) = entry.items()
    return name, {key: list(options) for key, options in parameters.items()}


def _matches(call: Call, gold: tuple[str, Mapping[str, Sequence[object]]]) -> bool:
    (name, arguments), (gold_name, options) = call, gold
    if name != gold_name or not arguments.keys() <= options.keys():
        return False
    return all(
        _is_one_of(arguments[key], alternatives) if key in arguments else "" in alternatives
        for key, alternatives in options.items()
    )


def _is_one_of(value: object, options: Sequence[object]) -> bool:
    return any(_equals_option(value, option) for option in options if option != "" or value == "")


def _equals_option(value: object, option: object) -> bool:
    """Return whether a value equals an alternative; a mapping has alternatives for each entry."""
    if isinstance(option, Mapping):
        if not isinstance(value, dict) or not value.keys() <= option.keys():
            return False
        entries = {key: _as_options(alternatives) for key, alternatives in option.items()}
        return all(
            _is_one_of(value[key], options) if key in value else "" in options
            for key, options in entries.items()
        )
    if isinstance(option, list):
        if not isinstance(value, (list, tuple)) or len(value) != len(option):
            return False
        return all(_equals_option(*pair) for pair in zip(value, option, strict=True))
    if isinstance(value, str) and isinstance(option, str):
        return _normalise(value) == _normalise(option)
    if isinstance(value, bool) or isinstance(option, bool):
        return value is option
    return value == option


def _as_options(options: object) -> Sequence[object]:
    return options if isinstance(options, list) else [options]


def _normalise(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _match_all(fits: Sequence[Sequence[int]]) -> bool:
    """Return whether calls match distinct gold calls (bipartite matching by augmenting paths)."""
    owner: dict[int, int] = {}
    return all(_assign(call, fits, owner, set()) for call in range(len(fits)))


def _assign(
    call: int, fits: Sequence[Sequence[int]], owner: dict[int, int], visited: set[int]
) -> bool:
    for gold in fits[call]:
        if gold not in visited:
            visited.add(gold)
            if gold not in owner or _assign(owner[gold], fits, owner, visited):
                owner[gold] = call
                return True
    return False
