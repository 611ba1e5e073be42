"""Held-out rated answers and a reward model with scores by a rule."""

import pytest

from components.evaluator.reward_model import RatingAgreement
from rlcomp.engine.decoding import Decoding
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import Scorer
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="ab?")


class Answers:
    """Ratings 1, 2, 3 and 3 of answers with none, two, one and three ``a``."""

    held_out = 1.0

    def __len__(self):
        return 4

    def example(self, index):
        text, rating = [("bbb", 1), ("aab", 2), ("abb", 3), ("aaa", 3)][index]
        return Example("?" * (index + 1), text, text, columns={"rating": rating})


class Counts(Scorer):
    """Score: the number of ``a``."""

    def scores(self, batch):
        return (batch["tokens"] == TOKENIZER.convert_tokens_to_ids("a")).sum(1).float()


def test_four_answers_by_hand():
    policy = LanguageModel(model=tiny_model(TOKENIZER), tokenizer=TOKENIZER, decoding=Decoding())
    with recording() as ledger:
        RatingAgreement(scorer=Counts(policy=policy), task=Answers(), name="held")(None)

    # Five pairs differ in rating; of 2 and the first 3 the worse one leads.
    assert ledger.means()["held/accuracy"] == pytest.approx(4 / 5)
    # Ranks 1, 2, 3.5, 3.5 and 1, 3, 2, 4: products sum to 3, squares to 4.5 and 5.
    assert ledger.means()["held/rank_correlation"] == pytest.approx(3 / 22.5**0.5)


class Alike(Answers):
    """Ratings 1 and 2 of answers with one ``a`` each, and 3 of one with none."""

    def __len__(self):
        return 3

    def example(self, index):
        text, rating = [("abb", 1), ("bab", 2), ("bbb", 3)][index]
        return Example("?" * (index + 1), text, text, columns={"rating": rating})


def test_equal_scores_of_unequal_ratings_are_half_right():
    policy = LanguageModel(model=tiny_model(TOKENIZER), tokenizer=TOKENIZER, decoding=Decoding())
    with recording() as ledger:
        RatingAgreement(scorer=Counts(policy=policy), task=Alike())(None)

    assert ledger.means()["held_out/accuracy"] == pytest.approx((1 / 2 + 0 + 0) / 3)
