"""Held-out pairs and a reward model with scores by a rule."""

import math

import pytest
import torch

from components.evaluator.reward_model import RewardModelPairs
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import Scorer
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="ab?")


class Pairs:
    """Four held-out pairs: two more ``a`` twice, three more ``b``, and two equal answers."""

    held_out = 1.0

    def __len__(self):
        return 4

    def example(self, index):
        chosen, rejected = [("aa", "b"), ("aa", "bb"), ("bbb", "aaa"), ("ab", "ba")][index]
        return Example("?" * (index + 1), chosen, chosen, columns={"rejected": rejected})


class Counts(Scorer):
    """Score: log 3 for each ``a``."""

    def scores(self, batch):
        a = TOKENIZER.convert_tokens_to_ids("a")
        return (batch["tokens"] == a).sum(1) * math.log(3)


def measured(**settings):
    policy = LanguageModel(model=tiny_model(TOKENIZER), tokenizer=TOKENIZER, decoding=Decoding())
    with recording() as ledger:
        RewardModelPairs(scorer=Counts(policy=policy), task=Pairs(), name="held", **settings)(None)
    return ledger.means()


def test_four_pairs_by_hand():
    # P(chosen) = 9/10, 9/10, 1/28 and 1/2; the last pair counts as half right.
    metrics = measured()

    chances = [0.9, 0.9, 1 / 28, 0.5]
    assert metrics["held/accuracy"] == pytest.approx(2.5 / 4)
    assert metrics["held/margin"] == pytest.approx(math.log(3) / 4)
    assert metrics["held/nll"] == pytest.approx(-sum(map(math.log, chances)) / 4)
    assert metrics["held/brier"] == pytest.approx(sum((1 - p) ** 2 for p in chances) / 4)


def test_the_calibration_is_that_of_both_sides():
    # One bin: two of four pairs are turned round, so that half come true. The probabilities of the
    # first answers are those of chosen answers in two pairs, 1 - P in the others: which, the order
    # of the held-out pairs says.
    chances = [0.9, 0.9, 1 / 28, 0.5]
    options = [
        sum(p if place in kept else 1 - p for place, p in enumerate(chances)) / 4
        for kept in ([0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3])
    ]

    metrics = measured(bins=1)["held/ece"]

    assert any(metrics == pytest.approx(abs(0.5 - mean)) for mean in options)


def test_the_diagram_is_drawn(tmp_path):
    figure = tmp_path / "new" / "reliability.png"

    measured(figure=str(figure))

    assert figure.read_bytes().startswith(b"\x89PNG")


def test_it_changes_nothing_of_the_reward_model():
    policy = LanguageModel(model=tiny_model(TOKENIZER), tokenizer=TOKENIZER, decoding=Decoding())
    stage = RewardModelPairs(scorer=Scorer(policy=policy), task=Pairs())

    assert list(stage.parameters()) == []
    assert torch.is_grad_enabled()


class WithTie(Pairs):
    """The first of them, two more ``a``, is a tie."""

    def example(self, index):
        plain = super().example(index)
        tie = {"tie": True} if index == 0 else {}
        return Example(plain.prompt, plain.answer, plain.answer, columns={**plain.columns, **tie})


def test_ties_are_measured_apart():
    policy = LanguageModel(model=tiny_model(TOKENIZER), tokenizer=TOKENIZER, decoding=Decoding())
    with recording() as ledger:
        RewardModelPairs(scorer=Counts(policy=policy), task=WithTie(), name="held")(None)

    assert ledger.means()["held/tied_gap"] == pytest.approx(2 * math.log(3))
    assert ledger.means()["held/accuracy"] == pytest.approx(1.5 / 3)


def test_ties_alone_are_refused():
    class Ties(WithTie):
        def example(self, index):
            return super().example(0)

    policy = LanguageModel(model=tiny_model(TOKENIZER), tokenizer=TOKENIZER, decoding=Decoding())
    with pytest.raises(DataError, match="all of the 1 held-out pairs are ties"):
        RewardModelPairs(scorer=Counts(policy=policy), task=Ties(), name="held")
