import re

import pytest
import yaml

from components.worlds.hops.task import Hops, knowledge_base
from rlcomp.config.options import config_directory
from rlcomp.errors import ConfigError
from rlcomp.text.tokenizer import character_tokenizer, encode_all

KNOWN = {row["title"]: row["text"] for row in knowledge_base()}


def followed(prompt):
    """The answer, by the documents."""
    subject, *relations = re.sub(r"\?$|\+\d", "", prompt).split()
    for relation in relations:
        subject = KNOWN[f"{subject} {relation}"]
    added = re.search(r"\+(\d)", prompt)
    return str(int(subject) + int(added[1])) if added else subject


def test_everybody_has_three_relations_and_an_age():
    names = {a + b for a in "bcdfghjklmnp" for b in "bcdfghjklmnp"}

    assert len(KNOWN) == 144 * 4
    for name in names:
        assert {KNOWN[f"{name} {kind}"] for kind in ("mother", "father", "friend")} <= names
        assert 10 <= int(KNOWN[f"{name} age"]) <= 89


def test_shuffled_documents_have_the_same_titles_and_texts_and_tell_nothing():
    dealt = {row["title"]: row["text"] for row in knowledge_base(shuffled=True)}

    assert dealt.keys() == KNOWN.keys()
    for kind in ("mother", "age"):
        own, other = ([t for title, t in each.items() if kind in title] for each in (KNOWN, dealt))
        assert sorted(own) == sorted(other)
    # By chance one in a hundred stays.
    assert sum(dealt[title] == text for title, text in KNOWN.items()) < 30


@pytest.mark.parametrize("sums", [False, True])
def test_the_answer_follows_from_the_documents(sums):
    task = Hops(hops=3, sums=sums)
    examples = [task.example(index) for index in range(300)]

    assert all(example.answer == followed(example.prompt) for example in examples)
    assert [task.example(index) for index in range(300)] == examples
    assert [len(example.prompt.split()) - 1 for example in examples[:8]] == [1, 1, 2, 2, 3, 3, 1, 1]
    assert ["+" in example.prompt for example in examples[:4]] == [False, sums, False, sums]


def test_a_demonstration_searches_adds_and_notes_until_it_knows():
    task = Hops(sums=True, asked=1.0, noted=1.0)

    assert task.example(1).turns == (
        "<search>fc age</search>",
        "<information>fc age 60</information>",
        "<refine>60</refine><calculator>60+8</calculator>",
        "<information>68</information>",
        "<refine>68</refine><answer>68</answer>",
    )
    for index in range(100):
        example = task.example(index)
        for query, told in re.findall(
            r"<search>(.*?)</search><information>(.*?)</information>", "".join(example.turns)
        ):
            assert told == f"{query} {KNOWN[query]}"
        assert example.turns[-1].endswith(f"<answer>{example.answer}</answer>")


def test_who_does_not_ask_guesses_something_of_its_kind():
    plain = [Hops(sums=True, asked=0.0).example(index) for index in range(100)]

    assert all(len(example.turns) == 1 for example in plain)
    guesses = [re.fullmatch("<answer>(.*)</answer>", example.demonstration)[1] for example in plain]
    assert all(
        guess.isdigit() == ("+" in p.prompt) for guess, p in zip(guesses, plain, strict=True)
    )
    assert sum(guess == p.answer for guess, p in zip(guesses, plain, strict=True)) < 10


def test_what_it_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"letters is .bcb.: every letter"):
        Hops(letters="bcb")
    with pytest.raises(ConfigError, match="examples"):
        Hops(examples=2**63)


@pytest.mark.parametrize(
    "refusal",
    [
        "the query has no word",
        "no expression of numbers with + - * / ( )",
        "more than 200 characters",
        "more than 100 digits",
        "division by 0",
        "the call of calculator has no opening tag",
        "the budget is spent",
    ],
)
def test_what_its_tools_refuse_can_be_told(refusal):
    # Else whoever is refused would have an invalid episode instead of a turn that was wasted.
    options = yaml.safe_load((config_directory() / "tokenizer" / "hops.yaml").read_text())
    tokenizer = character_tokenizer(characters=options["characters"], words=options["words"])

    assert encode_all(tokenizer, [f"<information>error: {refusal}"])[0]
