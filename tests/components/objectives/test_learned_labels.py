"""Eight labels of which each text has some: a classifier learns them, its outputs are objectives.

The names are those of the moderation labels of Markov et al. 2022 (arXiv:2208.03274); the texts are
about weather and animals, and a label stands for a word that occurs in them.
"""

import math

import pytest
import torch
from transformers import AutoModelForSequenceClassification, Qwen2Config

from components.advantage.group import GroupMean
from components.advantage.per_objective import PerObjectiveAdvantage
from components.objectives import MultiObjectiveReward
from components.pareto.scalarisation import LinearScalarisation
from components.reward.function import FunctionReward
from components.reward.reward_model import LearnedReward
from rlcomp.batch import encode_texts
from rlcomp.model.text_classifier import classify, train_classifier
from rlcomp.testing import make_batch
from rlcomp.text.tokenizer import character_tokenizer

NAMES = ("S", "H", "V", "HR", "SH", "S3", "H2", "V2")
WORDS = ("sun", "hat", "van", "rain", "sea", "snow", "hen", "vine")
# 1, 0, or a dot where nobody said; the last two labels have a yes only, S3 is never given.
LABELS = {
    "sun and rain": "1..1....",
    "the hat": "010.....",
    "a van, a hat": "011.0...",
    "sea": "...01...",
    "sun on the sea": "1.0.1...",
    "rain, no sun": "..01....",
    "a hen": ".0....1.",
    "hen in a vine": "..0...11",
    "vine": "0......1",
    "van": "0.1.....",
    "hat": ".1..0...",
    "rain": "...1....",
    "snow": "........",
    "sun": "1.......",
    "sea and van": "..1.1...",
    "grass": "00000...",
}
TEXTS = list(LABELS)
ROWS = [[math.nan if mark == "." else float(mark) for mark in row] for row in LABELS.values()]
TABLE = torch.tensor(ROWS)
KNOWN = ~TABLE.isnan()
TOKENIZER = character_tokenizer(characters="abcdefghijklmnopqrstuvwxyz ,")


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(TOKENIZER),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=32,
        id2label=dict(enumerate(NAMES)),
        pad_token_id=TOKENIZER.pad_token_id,
    )
    model = AutoModelForSequenceClassification.from_config(config)
    before = model.score.weight.detach().clone()
    history = train_classifier(model, TOKENIZER, TEXTS, TABLE, epochs=40, batch_size=8, lr=1e-2)
    return model, before, history


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory):
    where = tmp_path_factory.mktemp("labels")
    trained[0].save_pretrained(where)
    TOKENIZER.save_pretrained(where)
    return str(where)


def batch(known="S"):
    """The texts as answers; the batch's own reward is a label that only some rows have."""
    rows = len(TEXTS)
    some = make_batch(
        prompt=[""] * rows,
        response=encode_texts(TEXTS),
        answer=[""] * rows,
        group_id=torch.arange(rows) % 2,
        response_mask=torch.ones(rows, 1, dtype=torch.bool),
    )
    return labelled(known)(some)


def labelled(name):
    column = NAMES.index(name)
    return FunctionReward(function=lambda response: ROWS[TEXTS.index(response)][column], name=name)


def test_the_labels_are_what_the_words_say():
    for row, text in enumerate(TEXTS):
        for column, word in enumerate(WORDS):
            if KNOWN[row, column]:
                assert TABLE[row, column] == (word in text), (text, word)
    assert KNOWN.sum(0).tolist() == [8, 5, 8, 5, 6, 0, 2, 2]


def test_a_classifier_learns_the_labels_it_was_given(trained):
    model, before, history = trained

    with torch.no_grad():
        yes = classify(model, TOKENIZER, TEXTS) > 0

    # Over 12 runs (seeds of weights and order) no label was wrong, the least certain output was 4.1
    # nats on its side (mean 4.41, sd .10), and the loss went from .65-.72 to .003-.004.
    assert yes[KNOWN].equal(TABLE[KNOWN] > 0.5)
    assert history[-1] < 0.1 < history[0]
    # Only weight decay (0.01 * 0.01 in each of 80 steps) moves an output without a label.
    decayed = before[NAMES.index("S3")] * (1 - 1e-4) ** 80
    torch.testing.assert_close(model.score.weight[NAMES.index("S3")].detach(), decayed)


def test_its_outputs_are_objectives_in_every_row(folder, trained):
    names = ("H", "HR", "V2")
    parts = {name: LearnedReward(path=folder, label=name) for name in names}

    result = MultiObjectiveReward(
        parts=parts, aggregator=LinearScalarisation(weights=None), first="S"
    )(batch())

    with torch.no_grad():
        outputs = classify(trained[0], TOKENIZER, TEXTS)
    for name in names:
        wanted = outputs[:, NAMES.index(name)]
        torch.testing.assert_close(result["rewards", name], wanted, atol=1e-5, rtol=1e-5)
    # The first objective is a given label: only its eight rows have everything.
    assert result["rewards", "S"].isnan().equal(~KNOWN[:, 0])
    assert result["reward_valid"].equal(KNOWN[:, 0])


def test_each_label_teaches_the_rows_that_have_it():
    stage = MultiObjectiveReward(
        parts={name: labelled(name) for name in NAMES[1:]},
        aggregator=LinearScalarisation(weights=None),
        first=NAMES[0],
    )
    result = stage(batch())
    # No row has all eight labels, so that none has a sum.
    assert not result["reward_valid"].any()
    estimate = PerObjectiveAdvantage(
        advantage=GroupMean(),
        aggregator=LinearScalarisation(weights=dict.fromkeys(NAMES, 1.0)),
        scale="none",
    )

    taught = estimate(result)

    advantages = taught["advantages"][:, 0]
    for group in (0, 1):
        rows = torch.arange(len(TEXTS)) % 2 == group
        for column in range(len(NAMES)):
            have = rows & KNOWN[:, column]
            labels = TABLE[have, column]
            torch.testing.assert_close(advantages[have, column], labels - labels.mean())
    assert not bool(advantages[~KNOWN].any())
    torch.testing.assert_close(taught["advantage"][:, 0], advantages.sum(1))
    assert taught["reward_valid"].equal(KNOWN.any(1))
    assert not taught["reward_valid"][TEXTS.index("snow")]
