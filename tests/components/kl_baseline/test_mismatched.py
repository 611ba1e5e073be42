"""KTO's reference point: each prompt with the answer to another one."""

import pytest
import torch

from components.kl_baseline import MismatchedKL
from components.loss.preference import KTOLoss
from components.loss.score import LogRatio
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.run.stages import Nothing
from rlcomp.testing import make_batch
from rlcomp.text.tokenizer import byte_tokenizer


class Scorer(Component):
    """``log p`` of a token: minus a share of its id."""

    reads = ("tokens", "response_mask")
    writes = ("ref_log_probs",)

    def __init__(self, *, share: float, context_length: int = 9) -> None:
        super().__init__()
        self.share = share
        self.context_length = context_length
        self.tokenizer = byte_tokenizer()
        self.device = torch.device("cpu")
        self.seen = None

    def log_probs(self, rows):
        self.seen = rows
        return -self.share * rows["tokens"].float()

    def forward(self, batch):
        batch["ref_log_probs"] = self.log_probs(batch)
        return batch


class Wants(Component):
    """A learner whose loss reads the reference point."""

    runs = ("loss",)

    def __init__(self, *, loss: Component) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, batch):
        return batch


# Two rows of one prompt, then a longer one; 5 and 6 are prompts, padding is 0.
ROWS = make_batch(
    tokens=[[5, 10, 20, 0], [5, 30, 0, 0], [6, 6, 40, 50]],
    attention_mask=torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]]).bool(),
    response_mask=torch.tensor([[0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1]]).bool(),
    group_id=[3, 3, 8],
)
KTO = Wants(loss=KTOLoss(score=LogRatio()))


def test_it_is_the_mean_log_ratio_of_answers_to_the_next_other_prompt():
    policy = Scorer(share=0.1)
    stage = MismatchedKL(policy=policy, reference=Scorer(share=0.2), learner=KTO)

    written = stage(ROWS.copy())["kl_baseline"]

    rows = [row["tokens"][row["attention_mask"]].tolist() for row in policy.seen]
    assert rows == [[5, 40, 50], [5, 40, 50], [6, 6, 10, 20]]
    assert policy.seen["response_mask"].sum(1).tolist() == [2, 2, 2]
    # (0.2 - 0.1) (90 + 90 + 30) / 3
    assert written.tolist() == pytest.approx([7.0, 7.0, 7.0])


def test_it_is_not_negative():
    stage = MismatchedKL(policy=Scorer(share=0.2), reference=Scorer(share=0.1), learner=KTO)

    assert stage(ROWS.copy())["kl_baseline"].tolist() == [0.0, 0.0, 0.0]


def test_answers_are_cut_where_the_context_ends():
    policy = Scorer(share=0.1, context_length=3)

    MismatchedKL(policy=policy, reference=Scorer(share=0.2), learner=KTO)(ROWS.copy())

    assert policy.seen["response_mask"].sum(1).tolist() == [2, 2, 1]


def test_where_no_loss_reads_it_nothing_is_computed():
    policy = Scorer(share=0.1)
    stage = MismatchedKL(policy=policy, reference=Nothing(), learner=Wants(loss=Nothing()))

    assert stage(ROWS.copy())["kl_baseline"].tolist() == [0.0, 0.0, 0.0]
    assert policy.seen is None


def test_kto_without_a_reference_is_refused():
    with pytest.raises(ConfigError, match=r"is a Nothing, .*but a loss reads"):
        MismatchedKL(policy=Scorer(share=0.1), reference=Nothing(), learner=KTO)


def test_a_batch_of_one_prompt_has_no_mismatched_answers():
    stage = MismatchedKL(policy=Scorer(share=0.1), reference=Scorer(share=0.1), learner=KTO)

    with pytest.raises(ConfigError, match="all rows of the batch answer one prompt"):
        stage(ROWS[:2].copy())


def test_the_reference_is_told_that_these_are_no_training_batches():
    seen = []

    class Noted(Scorer):
        def forward(self, batch):
            seen.append(self.training)
            return super().forward(batch)

    reference = Noted(share=0.2)
    MismatchedKL(policy=Scorer(share=0.1), reference=reference, learner=KTO)(ROWS.copy())

    assert seen == [False]
    assert reference.training
