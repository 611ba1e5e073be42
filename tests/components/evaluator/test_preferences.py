"""Held-out pairs: two by hand, with a reference and without."""

import pytest
import torch

from components.evaluator.likelihood import HeldOutPairs
from rlcomp.component import Component
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.run.stages import Nothing
from rlcomp.text.tokenizer import byte_tokenizer


class Two:
    """Two held-out pairs."""

    held_out = 1.0

    def __len__(self):
        return 2

    def example(self, index):
        given = [("1?", "aa", "b"), ("2?", "b", "aaa")][index]
        return Example(given[0], given[1], given[1], columns={"rejected": given[2]})


class Letters(Component):
    """``log p`` of each token: that of ``a`` is -1, of ``b`` -4, of EOS -0.5."""

    reads = ("tokens", "response_mask")
    writes = ("ref_log_probs",)

    def __init__(self, *, a: float = -1.0) -> None:
        super().__init__()
        self.tokenizer = byte_tokenizer()
        self.device = torch.device("cpu")
        self.a = a

    def log_probs(self, rows):
        known = dict(zip(self.tokenizer.encode("ab"), (self.a, -4.0), strict=True))
        known[self.tokenizer.eos_token_id] = -0.5
        values = [
            [known.get(token, float("nan")) for token in row] for row in rows["tokens"].tolist()
        ]
        return torch.tensor(values)

    def forward(self, batch):
        batch["ref_log_probs"] = self.log_probs(batch)
        return batch


def measured(reference):
    stage = HeldOutPairs(policy=Letters(), task=Two(), reference=reference, name="pairs")
    with recording() as ledger:
        stage(None)
    return ledger.means()


# Chosen -2.5 and -4.5, rejected -4.5 and -3.5.
LIKELY = {"pairs/chosen_log_prob": -3.5, "pairs/rejected_log_prob": -4.0}


def test_without_a_reference_the_margin_is_that_of_the_log_probs():
    # Margins 2 and -1.
    assert measured(Nothing()) == pytest.approx(
        {**LIKELY, "pairs/margin": 0.5, "pairs/accuracy": 0.5}
    )


def test_with_a_reference_the_margin_is_that_of_the_changes():
    # The reference has -2 for a: changes +2 and 0 of the chosen, 0 and +3 of the rejected answers.
    assert measured(Letters(a=-2.0)) == pytest.approx(
        {
            **LIKELY,
            "pairs/chosen_change": 1.0,
            "pairs/rejected_change": 1.5,
            "pairs/margin": -0.5,
            "pairs/accuracy": 0.5,
        }
    )


def test_the_reference_is_told_that_these_are_no_training_batches():
    seen = []

    class Noted(Letters):
        def forward(self, batch):
            seen.append(self.training)
            return super().forward(batch)

    reference = Noted(a=-1.0)
    measured(reference)

    assert seen == [False]
    assert reference.training


def test_a_policy_that_is_its_reference_prefers_neither():
    assert measured(Letters())["pairs/accuracy"] == 0.5
