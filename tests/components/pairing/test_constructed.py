"""Constructed pairs: gold, sampled and unrelated answers, by hand."""

from types import SimpleNamespace

import pytest
import torch

from components.pairing import ConstructedPairs
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.metrics import recording
from rlcomp.testing import make_batch
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abcdefpqr>")
POLICY = SimpleNamespace(tokenizer=TOKENIZER)


def batch(golds, samples, groups=(7, 7, 2, 2, 5)):
    prompts = {7: "p>", 2: "q>", 5: "r>"}
    return make_batch(
        prompt=[prompts[group] for group in groups],
        response=encode_texts(samples),
        answer=[golds[group] for group in groups],
        group_id=groups,
        reward=torch.ones(len(groups)),
    )


GOLDS = {7: "ab", 2: "cd", 5: "ef"}
SAMPLES = ["ba", "a", "c", "dc", "f"]


def texts(rows):
    return [*zip(decode_texts(rows["prompt"]), decode_texts(rows["response"]), strict=True)]


def test_easy_pairs_are_of_the_gold_answer_and_that_of_the_next_prompt():
    rows = ConstructedPairs(policy=POLICY)(batch(GOLDS, SAMPLES))

    # The groups by their number: 2, 5, 7.
    assert texts(rows) == [
        ("q>", "cd"),
        ("q>", "ef"),
        ("r>", "ef"),
        ("r>", "ab"),
        ("p>", "ab"),
        ("p>", "cd"),
    ]
    assert rows["chosen"].tolist() == [True, False] * 3
    assert rows["reward_valid"].tolist() == [True] * 6
    assert rows["group_id"].tolist() == [2, 2, 5, 5, 7, 7]
    assert decode_texts(rows["answer"]) == ["cd", "cd", "ef", "ef", "ab", "ab"]
    assert "reward" not in rows.keys()


def test_bridging_pairs_take_turns_between_gold_over_sampled_and_sampled_over_unrelated():
    rows = ConstructedPairs(policy=POLICY, kind="bridge")(batch(GOLDS, SAMPLES))

    assert texts(rows) == [
        ("q>", "cd"),
        ("q>", "c"),
        ("r>", "f"),
        ("r>", "ab"),
        ("p>", "ab"),
        ("p>", "ba"),
    ]


def test_tokens_are_prompt_answer_and_end():
    rows = ConstructedPairs(policy=POLICY)(batch(GOLDS, SAMPLES))
    row = rows["tokens"][3][rows["attention_mask"][3]]

    assert TOKENIZER.convert_ids_to_tokens(row.tolist()) == ["r", ">", "a", "b", "<eos>"]
    assert rows["response_mask"][3].sum() == 3


def test_equal_texts_are_no_pair():
    golds = {7: "ab", 2: "ab", 5: "ef"}

    with recording() as told:
        rows = ConstructedPairs(policy=POLICY)(batch(golds, SAMPLES))

    # 2 against 5, 5 against 7, 7 against 2: the last two texts are equal.
    assert rows["reward_valid"].tolist() == [True, True, True, True, False, False]
    assert told.means()["pairing/pairs"] == pytest.approx(2 / 3)


def test_one_prompt_alone_has_nothing_unrelated():
    rows = ConstructedPairs(policy=POLICY)(batch(GOLDS, ["a", "b"], (7, 7)))

    assert rows["reward_valid"].tolist() == [False, False]
