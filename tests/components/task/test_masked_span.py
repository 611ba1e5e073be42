"""Masked spans, and proposals of masks."""

import pytest

from components.position import PatternMatches, WordSpans
from components.task.masked_span import MaskedSpan, MaskProposal
from components.task.text import TextTask
from rlcomp.data.masked_text import mask_span, span_problem
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.text.tokenizer import byte_tokenizer


def made(kind, text, tmp_path, pattern=r"(\w+)", **arguments):
    (tmp_path / "a.txt").write_text(text)
    corpus = TextTask(path=str(tmp_path / "a.txt"), shortest=1)
    given = {"position": PatternMatches(pattern=pattern)} | arguments
    return kind(corpus=corpus, tokenizer=byte_tokenizer(), **given)


def test_every_occurrence_of_the_span_is_masked(tmp_path):
    text = "a rose is a rose."
    task = made(MaskedSpan, text, tmp_path, pattern="(rose)")

    assert len(task) == 2
    assert task.example(1) == Example(
        prompt="a [mask] is a [mask].<think>",
        answer="rose",
        demonstration=r"</think>\boxed{rose}",
        answer_ends=None,
        source=text,
    )


def test_the_span_has_no_white_space_at_its_ends_and_is_composed(tmp_path):
    task = made(MaskedSpan, "one cafe\u0301\n two", tmp_path, pattern=r"one( \S+\s)")

    example = task.example(0)
    assert example.answer == "caf\u00e9"
    assert example.prompt == "one [mask]\n two<think>"
    assert example.source == "one cafe\u0301\n two"


def test_unmaskable_spans_are_left_out(tmp_path):
    task = made(MaskedSpan, "a  b", tmp_path, pattern=r"(\s+|.)")

    assert [task.example(n).answer for n in range(len(task))] == ["a", "b"]


def test_the_thought_is_of_the_masked_text(tmp_path):
    task = made(MaskedSpan, "a b", tmp_path, thought=str.upper, mask="_", template="{text}")

    assert task.example(0).prompt == "_ b"
    assert task.example(0).demonstration == r"_ B</think>\boxed{a}"


def test_a_proposal_is_a_span_of_the_text(tmp_path):
    task = made(MaskProposal, "a rose", tmp_path, pattern="(rose)", thought=str.title)

    assert task.example(0) == Example(
        prompt="a rose<mask>",
        answer="a rose",
        demonstration=r"A Rose\mask{rose}",
        answer_ends=None,
        source="a rose",
    )


def test_random_words_of_a_text_are_fair_proposals():
    corpus = TextTask(longest=400)
    task = MaskProposal(
        corpus=corpus, tokenizer=byte_tokenizer(), position=WordSpans(per_document=3)
    )

    for index in range(0, len(task), 97):
        example = task.example(index)
        span = example.demonstration.removeprefix(r"\mask{").removesuffix("}")
        assert span_problem(example.answer, span) is None
        assert span not in mask_span(example.answer, span, "#")


@pytest.mark.parametrize("kind", [MaskedSpan, MaskProposal])
def test_malformed_templates_are_refused(kind, tmp_path):
    with pytest.raises(ConfigError, match=r"template '<mask>' lacks {text}"):
        made(kind, "a b", tmp_path, template="<mask>")
    with pytest.raises(ConfigError, match=r"names {span}"):
        made(kind, "a b", tmp_path, response="{span}")
