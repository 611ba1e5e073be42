"""Labels of which each source gave some only: what a row lacks, it does not count for."""

import math

import pytest
import torch
from tensordict import TensorDict

from components.objectives import MultiObjectiveReward
from components.reward.function import FunctionReward
from rlcomp.batch import encode_texts
from rlcomp.functional.reward_model import multi_label_loss
from rlcomp.pareto.aggregator import Aggregator, Objectives
from rlcomp.pareto.objectives import centre_rewards, objective_statistics

NAMES = ("polite", "brief", "friendly", "formal", "polite_2", "brief_2", "vivid", "vivid_2")
# One text a row, eight labels; a dot is a label nobody gave.
LABELS = {
    "thank you very much": "1010....",
    "thanks": "1110....",
    "please wait": "11.....0",
    "go away": "01.....0",
    "hm": "0100....",
    "dear sir or madam": "10.1....",
    "good morning": "1.1.....",
    "morning": ".11.....",
    "no": "01......",
    "never mind": "........",
    "kind regards": "1..1....",
    "best wishes": "1.1.....",
    "see you soon": "..10..0.",
    "the sun burns red": "......1.",
    "a silver lake": "......11",
    "blue": ".1....10",
    "it is raining": "000.....",
    "what": "01......",
    "you are welcome": "1.1.....",
    "yes": "010.....",
}
TEXTS = list(LABELS)
ROWS = [[math.nan if mark == "." else float(mark) for mark in row] for row in LABELS.values()]
TABLE = torch.tensor(ROWS).double()


class Equal(Aggregator):
    """Weighs all alike and keeps what it saw."""

    seen: Objectives | None = None

    def weigh(self, objectives: Objectives) -> torch.Tensor:
        self.seen = objectives
        return torch.ones(len(objectives.names), dtype=torch.float64)


def label(name: str) -> FunctionReward:
    column = NAMES.index(name)
    return FunctionReward(function=lambda response: ROWS[TEXTS.index(response)][column], name=name)


def labelled(*names: str) -> tuple[TensorDict, Equal]:
    """The texts with the objectives ``names``; the first is the batch's own reward."""
    batch = TensorDict(
        {key: encode_texts(TEXTS) for key in ("prompt", "response", "answer")},
        batch_size=[len(TEXTS)],
    )
    batch["group_id"] = torch.arange(len(TEXTS)) % 2
    aggregator = Equal()
    parts = {name: label(name) for name in names[1:]}
    stage = MultiObjectiveReward(parts=parts, aggregator=aggregator, first=names[0])
    return stage(label(names[0])(batch)), aggregator


def test_each_objective_keeps_the_rows_that_have_it():
    batch, aggregator = labelled("polite", "brief", "friendly")

    # Counted in the columns: polite is known in rows 0-6, 8, 10, 11 and 16-19, and 1 in eight.
    known = {name: int((~batch["rewards", name].isnan()).sum()) for name in batch["rewards"].keys()}
    assert known == {"polite": 14, "brief": 12, "friendly": 10}
    torch.testing.assert_close(
        aggregator.seen.returns, torch.tensor([8 / 14, 9 / 12, 7 / 10]).double()
    )


def test_the_sum_is_valid_where_all_labels_are_known():
    batch, _ = labelled("polite", "brief", "friendly")

    valid = dict(zip(TEXTS, batch["reward_valid"].tolist(), strict=True))
    total = dict(zip(TEXTS, batch["reward"].tolist(), strict=True))
    complete = {"thank you very much": 2.0, "thanks": 3.0, "hm": 1.0}
    complete |= {"it is raining": 0.0, "yes": 1.0}
    assert {text for text in TEXTS if valid[text]} == set(complete)
    assert {text: total[text] for text in complete} == complete
    assert all(total[text] == 0.0 for text in TEXTS if not valid[text])


def test_the_gram_counts_only_rows_that_have_every_label():
    rewards, group = TABLE[:, :3], torch.arange(len(TEXTS)) % 2

    vectors = centre_rewards(rewards, group)

    # Complete rows: 0, 4, 16 (group 0) and 1, 19 (group 1). Politeness 1 0 0 | 1 0, centred
    # 2/3 -1/3 -1/3 | 1/2 -1/2; rows stay in order.
    wanted = torch.tensor([2 / 3, 1 / 2, -1 / 3, -1 / 3, -1 / 2]).double()
    torch.testing.assert_close(vectors[0], wanted)
    assert vectors.shape == (3, 5)


def test_a_label_nobody_has_leaves_the_others_their_means():
    batch, aggregator = labelled("polite", "polite_2")

    assert not batch["reward_valid"].any()
    assert aggregator.seen.returns[0] == 8 / 14
    assert aggregator.seen.returns[1].isnan()
    assert aggregator.seen.gram.abs().sum() == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_a_label_s_mean_is_that_of_its_known_rows(name):
    column = NAMES.index(name)
    marks = [row[column] for row in LABELS.values() if row[column] != "."]

    found = objective_statistics(NAMES, TABLE, torch.zeros(len(NAMES), 0), None).returns[column]

    assert found.isnan() if not marks else found == marks.count("1") / len(marks)


def test_unknown_labels_neither_cost_nor_teach():
    logits = torch.zeros_like(TABLE).requires_grad_()

    loss = multi_label_loss(logits, TABLE)
    loss.backward()

    # Each known label costs log 2 at log-odds 0, so their mean is log 2; the gradient of one is
    # (1/2 - label) / known.
    known = ~TABLE.isnan()
    assert loss.item() == pytest.approx(math.log(2))
    expected = torch.where(known, (0.5 - TABLE) / known.sum(), 0.0)
    torch.testing.assert_close(logits.grad, expected)
