"""IFEval: verifiable instructions, checked strictly or loosely."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product

from rlcomp.errors import DataError, in_one_line, nearest
from rlcomp.verify.language import count_sentences, detect_language, words

_FENCE = re.compile(r"\A```(?:json)?|```\Z", re.IGNORECASE)
_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "less than": operator.lt,
    "at least": operator.ge,
}


def _compare(count: int, relation: str, bound: int) -> bool:
    return _RELATIONS[relation](count, bound)


def _existence(text: str, *, keywords: Sequence[str]) -> bool:
    return all(re.search(re.escape(word), text, re.IGNORECASE) for word in keywords)


def _frequency(text: str, *, keyword: str, frequency: int, relation: str) -> bool:
    matches = re.findall(re.escape(keyword), text, re.IGNORECASE)
    return _compare(len(matches), relation, frequency)


def _forbidden_words(text: str, *, forbidden_words: Sequence[str]) -> bool:
    patterns = (rf"\b{re.escape(word)}\b" for word in forbidden_words)
    return not any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def _letter_frequency(text: str, *, letter: str, let_frequency: int, let_relation: str) -> bool:
    return _compare(text.lower().count(letter.lower()), let_relation, let_frequency)


def _response_language(text: str, *, language: str) -> bool:
    # A text of unknown language follows the instruction, as in IFEval's own code.
    return detect_language(text) in (language, None)


def _number_sentences(text: str, *, num_sentences: int, relation: str) -> bool:
    return _compare(count_sentences(text), relation, num_sentences)


def _number_words(text: str, *, num_words: int, relation: str) -> bool:
    return _compare(len(re.findall(r"\w+", text)), relation, num_words)


def _number_paragraphs(text: str, *, num_paragraphs: int) -> bool:
    """Check the number of parts between ``***``; an empty first or last part does not count."""
    paragraphs = [bool(part.strip()) for part in text.split("***")]
    return all(paragraphs[1:-1]) and sum(paragraphs) == num_paragraphs


def _nth_paragraph_first_word(
    text: str, *, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> bool:
    """Check a paragraph's first word; empty paragraphs count for its index, not for the number."""
    paragraphs = text.split("\n\n")
    count = sum(bool(part.strip()) for part in paragraphs)
    if nth_paragraph > count or not paragraphs[nth_paragraph - 1].strip():
        return False
    word = paragraphs[nth_paragraph - 1].split()[0].lstrip("'").lstrip('"')
    bare = re.split(r"[.,?!'\"]", word)[0].lower()
    return count == num_paragraphs and bare == first_word.lower()


def _number_placeholders(text: str, *, num_placeholders: int) -> bool:
    return sum(map(_brackets, text.split("\n"))) >= num_placeholders


def _brackets(line: str) -> int:
    """Count the ``[...]``, each from an opening bracket to the next closing one."""
    count, start = 0, line.find("[")
    while start >= 0 and (end := line.find("]", start)) >= 0:
        count, start = count + 1, line.find("[", end)
    return count


def _postscript(text: str, *, postscript_marker: str) -> bool:
    patterns = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    pattern = patterns.get(postscript_marker, re.escape(postscript_marker.lower()))
    return re.search(pattern, text.lower()) is not None


def _number_bullet_lists(text: str, *, num_bullets: int) -> bool:
    lines = [line.lstrip() for line in text.split("\n")]
    starred = [line.startswith("*") and not line.startswith("**") for line in lines]
    return sum(starred) + sum(line.startswith("-") for line in lines) == num_bullets


def _constrained_response(text: str) -> bool:
    return any(f"My answer is {word}." in text for word in ("yes", "no", "maybe"))


def _number_highlighted_sections(text: str, *, num_highlights: int) -> bool:
    single = [part.strip("*").strip() for part in re.findall(r"\*[^\n*]*\*", text)]
    double = [part[2:-2].strip() for part in re.findall(r"\*\*[^\n*]*\*\*", text)]
    return sum(map(bool, single + double)) >= num_highlights


def _multiple_sections(text: str, *, section_spliter: str, num_sections: int) -> bool:
    return len(re.findall(rf"{re.escape(section_spliter)}\s?\d+", text)) >= num_sections


def _json_format(text: str) -> bool:
    try:
        json.loads(_FENCE.sub("", text.strip()).strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(text: str) -> bool:
    spans = ((line, line.find("<<"), line.rfind(">>")) for line in text.split("\n"))
    return any(line[start:end].strip("<").strip() for line, start, end in spans if 0 <= start < end)


def _two_responses(text: str) -> bool:
    """Check for two different parts between ``******``; an empty first or last part is ignored."""
    parts = [part.strip() for part in text.split("******")]
    responses = [part for part in parts if part]
    return all(parts[1:-1]) and len(responses) == 2 and responses[0] != responses[1]


def _repeat_prompt(text: str, *, prompt_to_repeat: str) -> bool:
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


def _end_checker(text: str, *, end_phrase: str) -> bool:
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def _quotation(text: str) -> bool:
    bare = text.strip()
    return len(bare) > 1 and bare[0] == bare[-1] == '"'


def _capital_word_frequency(text: str, *, capital_frequency: int, capital_relation: str) -> bool:
    count = sum(word.isupper() for word in words(text))
    return _compare(count, capital_relation, capital_frequency)


def _english_capital(text: str) -> bool:
    return text.isupper() and detect_language(text) == "en"


def _english_lowercase(text: str) -> bool:
    return text.islower() and detect_language(text) == "en"


def _no_comma(text: str) -> bool:
    return "," not in text


RULES: dict[str, Callable[..., bool]] = {
    "keywords:existence": _existence,
    "keywords:frequency": _frequency,
    "keywords:forbidden_words": _forbidden_words,
    "keywords:letter_frequency": _letter_frequency,
    "language:response_language": _response_language,
    "length_constraints:number_sentences": _number_sentences,
    "length_constraints:number_words": _number_words,
    "length_constraints:number_paragraphs": _number_paragraphs,
    "length_constraints:nth_paragraph_first_word": _nth_paragraph_first_word,
    "detectable_content:number_placeholders": _number_placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": _number_bullet_lists,
    "detectable_format:constrained_response": _constrained_response,
    "detectable_format:number_highlighted_sections": _number_highlighted_sections,
    "detectable_format:multiple_sections": _multiple_sections,
    "detectable_format:json_format": _json_format,
    "detectable_format:title": _title,
    "combination:two_responses": _two_responses,
    "combination:repeat_prompt": _repeat_prompt,
    "startend:end_checker": _end_checker,
    "startend:quotation": _quotation,
    "change_case:capital_word_frequency": _capital_word_frequency,
    "change_case:english_capital": _english_capital,
    "change_case:english_lowercase": _english_lowercase,
    "punctuation:no_comma": _no_comma,
}


def ifeval(
    response: str,
    instruction_id_list: Sequence[str],
    kwargs: Sequence[Mapping[str, object]],
    *,
    loose: bool = False,
    partial: bool = False,
) -> float:
    """Return 1 if a response follows all its instructions, else 0; or the share that it follows.

    Args:
        response: text of the policy; an empty one follows no instruction.
        instruction_id_list: names such as ``punctuation:no_comma``.
        kwargs: arguments of each instruction; None counts as missing.
        loose: see :func:`instruction_verdicts`.
        partial: return the share of the followed instructions instead of all or nothing.

    Raises:
        DataError: an instruction is unknown, or it does not take its arguments.

    Source:
        Zhou et al. 2023, arXiv:2311.07911 (prompt-level and instruction-level accuracy).

    Examples:
        >>> rules = ["punctuation:no_comma", "startend:quotation"]
        >>> ifeval("one, two", rules, [{}, {}]), ifeval('"one', rules, [{}, {}], partial=True)
        (0.0, 0.5)
    """
    verdicts = instruction_verdicts(response, instruction_id_list, kwargs, loose=loose)
    return sum(verdicts) / len(verdicts) if partial else float(all(verdicts))


def instruction_verdicts(
    response: str,
    instruction_id_list: Sequence[str],
    kwargs: Sequence[Mapping[str, object]],
    *,
    loose: bool = False,
) -> list[bool]:
    """Return whether each instruction is followed.

    Loose: by any of eight versions of the response, with and without its first line, its last line
    and its asterisks, because models introduce their texts.

    Raises:
        DataError: an instruction is unknown, or it does not take its arguments.

    Source:
        Zhou et al. 2023, arXiv:2311.07911.
    """
    _check(instruction_id_list, kwargs)
    texts = [text for text in (_versions(response) if loose else [response]) if text.strip()]
    return [
        any(_follows(text, name, arguments) for text in texts)
        for name, arguments in zip(instruction_id_list, kwargs, strict=True)
    ]


def _versions(response: str) -> list[str]:
    lines = response.split("\n")
    cuts = [response, *("\n".join(lines[a:b]).strip() for a, b in ((1, None), (0, -1), (1, -1)))]
    return [text.replace("*", mark) for text, mark in product(cuts, ("*", ""))]


def _follows(text: str, name: str, arguments: Mapping[str, object]) -> bool:
    known = {key: value for key, value in arguments.items() if value is not None}
    try:
        return RULES[name](text, **known)
    # An unknown argument, a number for a text, a paragraph or a relation that does not exist.
    except (TypeError, AttributeError, LookupError) as error:
        raise DataError(
            f"the instruction {name!r} cannot be given {known!r:.200}: {in_one_line(error)}"
        ) from error


def _check(names: Sequence[str], kwargs: Sequence[Mapping[str, object]]) -> None:
    if not _all_are(str, names) or not _all_are(Mapping, kwargs):
        raise DataError(
            f"instruction_id_list is {names!r:.80} and kwargs is {kwargs!r:.80}: must be a list of "
            "names and a list of mappings, as in the data set"
        )
    if not names or len(names) != len(kwargs):
        raise DataError(
            f"there are {len(names)} instructions in instruction_id_list and {len(kwargs)} entries "
            "in kwargs: give each instruction its arguments, {} where it takes none"
        )
    for name in names:
        if name not in RULES:
            raise DataError(f"{name!r} is no instruction of IFEval{nearest(name, RULES)}")


def _all_are(kind: type, values: object) -> bool:
    return isinstance(values, (list, tuple)) and all(isinstance(each, kind) for each in values)
