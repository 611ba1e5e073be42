import gzip
import json
import time

import pytest

from components.reward.benchmark import IFEval
from rlcomp.errors import DataError
from rlcomp.verify.ifeval import RULES, ifeval, instruction_verdicts
from rlcomp.verify.language import count_sentences, words

AT_LEAST = {"relation": "at least"}
LESS = {"relation": "less than"}
# instruction, its arguments, a text that follows it, a text that does not
CASES = [
    ("keywords:existence", {"keywords": ["Ada", "c++"]}, "ada wrote C++", "Ada wrote C"),
    ("keywords:frequency", {"keyword": "a", "frequency": 2, **AT_LEAST}, "A cat", "A dog"),
    ("keywords:frequency", {"keyword": "a", "frequency": 2, **LESS}, "A dog", "A cat"),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "category", "A Cat."),
    (
        "keywords:letter_frequency",
        {"letter": "N", "let_frequency": 2, "let_relation": "at least"},
        "Nun",
        "nut",
    ),
    (
        "language:response_language",
        {"language": "ru"},
        "Решетка - это что-то вроде сетки, которую рисуют",
        "a lattice is a net that is drawn",
    ),
    ("language:response_language", {"language": "ru"}, "42", "this is an English sentence"),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, **AT_LEAST},
        "One. Two",
        "Dr. One",
    ),
    ("length_constraints:number_words", {"num_words": 3, **LESS}, "two words", "it's me"),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb", "a\n***"),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "***a***b***", "a*** ***b"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Then"},
        "First.\n\n'\"then, it",
        "First.\n\nIt then",
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "then"},
        "then\n\nb",
        "then\n\nb\n\nc",
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"},
        "a\n\nthen\n\n ",
        "a\n\n\n\nthen",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[[a] [b]", "[a] [b"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "x\np. s. y", "PS y"),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "p.p. s", "P.S. y"),
    ("detectable_content:postscript", {"postscript_marker": "Note:"}, "note: y", "Noted"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n - b\n** c", "* a"),
    ("detectable_format:constrained_response", {}, "So: My answer is no.", "My answer is no"),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        "*a* and *b*",
        "*a* and * *",
    ),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "**a**", "*a\n*"),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Part", "num_sections": 2},
        "Part 1\na\nPart2",
        "Part 1\npart 2",
    ),
    ("detectable_format:json_format", {}, '```JSON\n{"a": 1}\n```', "{'a': 1}"),
    ("detectable_format:json_format", {}, "3", "```json"),
    ("detectable_format:title", {}, "so\n<<a title>>", "<< >>"),
    ("detectable_format:title", {}, "<<<x>>>", ">>a<<"),
    ("combination:two_responses", {}, "a******b", "a****** a"),
    ("combination:two_responses", {}, "******a******b******", "a******b******c"),
    ("combination:two_responses", {}, "a******b******", "a****** ******b"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it. "}, " say it. It", "It. Say it."),
    ("startend:end_checker", {"end_phrase": "The End."}, '"it. the end." ', "the end. x"),
    ("startend:quotation", {}, ' "a" ', '"'),
    ("startend:quotation", {}, '""', '"a'),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "at least"},
        "I saw U.S. troops",
        "I saw U2s",
    ),
    ("change_case:english_capital", {}, "THIS IS AN ENGLISH TEXT", "THIS IS an ENGLISH TEXT"),
    ("change_case:english_capital", {}, "WE ALL LIKE THE WEATHER", "DAS IST EIN DEUTSCHER SATZ"),
    ("change_case:english_lowercase", {}, "this is an english text", "This is an english text"),
    ("punctuation:no_comma", {}, "a b", "a, b"),
]


@pytest.mark.parametrize(("name", "given", "right", "wrong"), CASES)
def test_an_instruction_is_followed_or_not(name, given, right, wrong):
    if name.startswith(("language", "change_case:english")):
        pytest.importorskip("langdetect")

    assert ifeval(wrong, [name], [given]) == 0.0
    assert ifeval(right, [name], [given]) == 1.0


def test_every_instruction_has_a_case():
    assert {case[0] for case in CASES} == set(RULES)


def test_loose_looks_past_an_introduction_a_farewell_and_asterisks():
    quoted = ["startend:quotation"]
    for text in ('Sure:\n"a"', '"a"\nBye.', 'Sure:\n"a"\nBye.', '*"a"*', 'Sure:\n**"a"**\nBye.'):
        assert instruction_verdicts(text, quoted, [{}]) == [False]
        assert instruction_verdicts(text, quoted, [{}], loose=True) == [True]
    assert instruction_verdicts('One.\nTwo.\n"a"\nBye.', quoted, [{}], loose=True) == [False]


def test_part_of_the_instructions():
    names = ["punctuation:no_comma", "startend:quotation", "detectable_format:title"]

    assert ifeval('"a"', names, [{}, {}, {}]) == 0.0
    assert ifeval('"a"', names, [{}, {}, {}], partial=True) == pytest.approx(2 / 3)


@pytest.mark.parametrize("loose", [False, True])
def test_an_empty_response_follows_nothing(loose):
    assert instruction_verdicts(" \n", ["punctuation:no_comma"], [{}], loose=loose) == [False]


def test_arguments_that_are_null_count_as_missing():
    assert ifeval("a", ["punctuation:no_comma"], [{"keyword": None}]) == 1.0


@pytest.mark.parametrize(
    ("names", "kwargs", "message"),
    [
        (["no_comma"], [{}], r"'no_comma' is no instruction of IFEval.*punctuation:no_comma"),
        (["punctuation:no_comma"], [{}, {}], "1 instructions in instruction_id_list and 2 entries"),
        ([], [], "0 instructions"),
        (["punctuation:no_comma"], [{"a": 1}], r"'punctuation:no_comma' cannot be given {'a': 1}"),
        (["startend:end_checker"], [{}], "missing.*end_phrase"),
        (["startend:end_checker"], [{"end_phrase": 5}], "cannot be given {'end_phrase': 5}"),
        (
            ["keywords:frequency"],
            [{"keyword": "a", "frequency": 1, "relation": "at most"}],
            "cannot be given .*at most",
        ),
        (
            ["length_constraints:nth_paragraph_first_word"],
            [{"num_paragraphs": 1, "nth_paragraph": -5, "first_word": "a"}],
            "cannot be given .*-5",
        ),
        ("punctuation:no_comma", [{}], "must be a list of names"),
        (["punctuation:no_comma"], ["no"], "a list of mappings"),
        ([["punctuation:no_comma"]], [{}], "must be a list of names"),
    ],
)
def test_an_unknown_instruction_is_refused(names, kwargs, message):
    with pytest.raises(DataError, match=message):
        ifeval("a", names, kwargs)


def test_the_reward_reads_the_columns_of_the_data_set():
    row = {"prompt": "", "response": "Sure:\na", "answer": ""}
    row |= {"instruction_id_list": ["punctuation:no_comma", "startend:quotation"]}
    row |= {"kwargs": [{}, {}]}

    assert IFEval().score_row(row) == 0.0
    assert IFEval(partial=True).score_row(row) == 0.5
    assert IFEval(loose=True).score_row(row | {"response": 'Sure:\n"a"'}) == 1.0
    with pytest.raises(DataError, match=r"needs the column 'kwargs'.*rows of the task"):
        IFEval().score_row({key: value for key, value in row.items() if key != "kwargs"})


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("One", 1),
        ("One. two.", 2),
        ("Mr. Smith vs. Dr. J. Doe.", 1),
        ("(e.g. this) is one", 1),
        ("So am I. Really.", 2),
        ('"No!" "Why?" (Yes.)', 3),
        ("wait... what... Well. No… yes", 3),
        ("Wait... What", 2),
        ("3.5 is no end.x", 1),
        ("ab.\n\nb!\nc?", 3),
    ],
)
def test_sentences_are_counted(text, count):
    assert count_sentences(text) == count


def test_words():
    assert words("(U.S.-based) don't x_1 A/B.") == ["U.S", "based", "don", "t", "x", "1", "A/B"]


@pytest.mark.parametrize("piece", ["[", "*", "<<", "\n", ". ", ".", "- ", "a.", "***", '"', "p. "])
def test_hostile_text_of_100_000_characters_is_judged_at_once(piece):
    text = (piece * 100_000)[:100_000]
    cases = [case for case in CASES if not case[0].startswith(("language", "change_case:english"))]
    start = time.thread_time()  # threads of others are not counted

    for name, given, _, _ in cases:
        instruction_verdicts(text, [name], [given])

    assert time.thread_time() - start < 20  # 0.3 s; a quadratic pattern takes minutes


# The one verdict of 672 that we do not share. Google's checker puts a random letter in place of one
# that is none, here "#", and its two verdicts contradict each other.
DEVIATIONS = {("loose", "keywords:letter_frequency", "#")}


def test_every_verdict_on_the_answers_of_gpt_4_is_google_s(shared_data):
    pytest.importorskip("langdetect")
    file = shared_data / "instruct" / "ifeval_gpt4_graded.jsonl.gz"
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    wrong, count = set(), 0

    for row in rows:
        for mode in ("strict", "loose"):
            names, kwargs = row["instruction_id_list"], row["kwargs"]
            ours = instruction_verdicts(row["response"], names, kwargs, loose=mode == "loose")
            for name, given, mine, theirs in zip(names, kwargs, ours, row[mode], strict=True):
                count += 1
                if mine != theirs:
                    wrong.add((mode, name, given["letter"]))

    assert count == 672
    assert wrong == DEVIATIONS
