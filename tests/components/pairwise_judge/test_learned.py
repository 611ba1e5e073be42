"""Verdicts of a saved classifier, by hand from its outputs."""

import math

import pytest
import torch
from transformers import AutoModelForSequenceClassification, Qwen2Config

from components.pairwise_judge.bradley_terry import LearnedJudge
from components.pairwise_judge.verdicts import JudgeEnsemble
from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import AnswerPair
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="ab>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("classifier")
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(TOKENIZER),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=24,
        max_position_embeddings=16,
        id2label={0: "kind", 1: "toxic"},
        pad_token_id=TOKENIZER.pad_token_id,
        initializer_range=0.5,
    )
    AutoModelForSequenceClassification.from_config(config).save_pretrained(path)
    TOKENIZER.save_pretrained(path)
    return str(path)


def outputs(folder, text):
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        return model(input_ids=torch.tensor([TOKENIZER(text)["input_ids"]])).logits[0].tolist()


@pytest.mark.parametrize(("label", "column", "scale"), [("kind", 0, 1.0), ("toxic", 1, -2.0)])
def test_the_verdict_is_the_sigmoid_of_the_scaled_difference(folder, label, column, scale):
    one, other = (outputs(folder, text)[column] for text in (">ab", ">bba"))

    (found,) = LearnedJudge(path=folder, label=label, scale=scale)([AnswerPair(">", "ab", "bba")])

    assert found == pytest.approx(1 / (1 + math.exp(-scale * (one - other))), abs=1e-5)


def test_orders_mirror_equal_texts_are_even_and_batches_change_nothing(folder):
    pairs = [AnswerPair(">", "ab", "bba"), AnswerPair(">", "bba", "ab"), AnswerPair(">", "a", "a")]

    there, back, even = LearnedJudge(path=folder, label="kind", batch_size=1)(pairs)

    assert there + back == pytest.approx(1.0)
    assert even == 0.5
    found = LearnedJudge(path=folder, label="kind")(pairs)
    assert found == pytest.approx([there, back, even], abs=1e-5)


def test_an_empty_text_cannot_be_judged(folder):
    assert LearnedJudge(path=folder, label="kind")([AnswerPair("", "a", "")]) == [None]
    assert LearnedJudge(path=folder, label="kind")([]) == []


def test_classifiers_of_several_kinds_are_an_ensemble(folder):
    judges = {"kind": LearnedJudge(path=folder, label="kind")}
    judges["toxic"] = LearnedJudge(path=folder, label="toxic", scale=-1.0)
    pair = AnswerPair(">", "ab", "bba")

    (found,) = JudgeEnsemble(judges=judges)([pair])

    assert found == pytest.approx(sum(judge([pair])[0] for judge in judges.values()) / 2)


@pytest.mark.parametrize(
    ("settings", "told"),
    [({}, "has 2 outputs"), ({"label": "kin"}, "did you mean"), ({"scale": 0.0}, "scale is 0")],
)
def test_settings_that_cannot_work_are_refused(settings, told, folder):
    with pytest.raises(ConfigError, match=told):
        LearnedJudge(path=folder, **settings)
