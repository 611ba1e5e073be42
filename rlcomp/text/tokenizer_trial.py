"""Trial of a ``tokenizer.json`` in a worker process, before the run reads it."""

from __future__ import annotations

import importlib
import string
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from rlcomp.errors import DataError
from rlcomp.text.untrusted_input import json_object

# Maximum number of characters that rules may make of one; Unicode's normal forms make 18.
_MOST_GROWTH = 4096
# Maximum number of rules; the time of their check is quadratic in it.
_MOST_RULES = 1000
# Maximum number of tokens beside the vocabulary; loading adds them one by one. Speech models have
# 65,000.
_MOST_TOKENS = 100_000
# Maximum number of special tokens around a text, and of tokens for a character within it.
_MOST_ADDED, _MOST_PER_CHARACTER = 1000, 64
# Repetitions of a character in a probe: with so many, a pattern with exponential backtracking
# reaches the regular expression library's limit.
_REPEATED = 32
_PROBES = ("", *(f"{char * _REPEATED}!" for char in string.printable), string.printable)


def try_tokenizer(file: str) -> str | None:
    """Return the fault of a ``tokenizer.json``; None if it has none of these faults.

    It is no JSON object, adds too many tokens, or makes huge outputs or endless matches. Other
    faults are reported when the tokenizer is loaded. The call also starts the import of the
    renderer of chat templates (:func:`_import_renderer`).
    """
    try:
        config = json_object(Path(file))
    except DataError as error:
        return str(error)
    if isinstance(added := config.get("added_tokens"), list) and len(added) > _MOST_TOKENS:
        return (
            f"{file}: it has {len(added):,} added_tokens, more than {_MOST_TOKENS:,}: use the "
            "tokenizer.json that belongs to the model"
        )
    for part in ("normalizer", "decoder"):
        factor = growth([*_rules(config.get(part))])
        if factor > _MOST_GROWTH:
            return (
                f"{file}: the Replace rules of its {part} can make {factor:.0e} characters of one, "
                f"more than {_MOST_GROWTH:,}: use the tokenizer.json that belongs to the model"
            )
    fault = _encoding_fault(file)
    _import_renderer(Path(file).parent)
    return fault


def growth(rules: Sequence[Mapping[str, Any]]) -> float:
    """Return the maximum number of characters that a normalizer's ``Replace`` rules make of one.

    Each rule's growth is multiplied by the largest growth of a later rule that may apply to its
    output. The result is infinite for more than 1,000 rules.

    Examples:
        >>> growth([{"pattern": {"String": "a"}, "content": "bb"}] * 3)
        2.0
        >>> growth([{"pattern": {"String": "a"}, "content": "aa"}] * 3)
        8.0
    """
    if len(rules) > _MOST_RULES:
        return float("inf")
    outputs = [_characters(str(rule.get("content", ""))) for rule in rules]
    patterns = [_pattern(rule) for rule in rules]
    factors: list[float] = [1.0] * len(rules)
    for index in reversed(range(len(rules))):
        later = (
            factors[later_index]
            for later_index in range(index + 1, len(rules))
            if patterns[later_index] is None
            or outputs[index] & _characters(patterns[later_index] or "")
        )
        factor = _rule_growth(str(rules[index].get("content", "")), patterns[index])
        factors[index] = factor * max(later, default=1.0)
    return max(factors, default=1.0)


def _rule_growth(content: str, pattern: str | None) -> float:
    """Return the maximum number of characters that one rule makes of one."""
    if not pattern:  # a regular expression may match between any two characters
        return 1.0 + len(content)
    return max(1.0, len(content) / len(pattern))


def _pattern(rule: Mapping[str, Any]) -> str | None:
    """Return the text that a rule replaces; None for a regular expression or an empty text."""
    pattern = rule.get("pattern")
    text = pattern.get("String") if isinstance(pattern, Mapping) else None
    return text if isinstance(text, str) and text else None


def _characters(text: str) -> set[str]:
    """Return characters in either case, because a rule in between may change the case."""
    return {*text, *text.lower(), *text.upper()}


def _rules(part: object) -> Iterator[Mapping[str, Any]]:
    """Yield the ``Replace`` rules in a part of a ``tokenizer.json``, at any depth."""
    if isinstance(part, Mapping):
        if part.get("type") == "Replace":
            yield part
        for value in part.values():
            yield from _rules(value)
    elif isinstance(part, list):
        for value in part:
            yield from _rules(value)


def _encoding_fault(file: str) -> str | None:
    """Return the fault that encoding the probes shows; None if they show none."""
    try:
        tokenizer = Tokenizer.from_file(file)
    except BaseException:  # a malformed file; the Rust code may panic
        return None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for probe in _PROBES:
        try:
            ids = tokenizer.encode(probe).ids
            tokenizer.decode(ids)
        except BaseException as error:
            if "retry-limit" in str(error):
                return (
                    f"{file}: a regular expression in it does not end on {probe!r:.60} ({error}): "
                    "use the tokenizer.json that belongs to the model"
                )
            continue  # a small vocabulary cannot write every text
        if len(ids) > _MOST_ADDED + _MOST_PER_CHARACTER * len(probe):
            return (
                f"{file}: it makes {len(ids):,} tokens of {len(probe)} characters: use the "
                "tokenizer.json that belongs to the model"
            )
    return None


def _import_renderer(folder: Path) -> None:
    """Import the renderer of chat templates in a thread, if the folder has a template.

    The first rendering in this process then need not wait for the import.
    """
    settings = folder / "tokenizer_config.json"
    if (folder / "chat_template.jinja").exists() or (
        settings.exists() and "chat_template" in json_object(settings)
    ):
        name = "rlcomp.text.template_rendering"
        threading.Thread(target=importlib.import_module, args=(name,), daemon=True).start()
