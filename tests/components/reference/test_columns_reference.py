"""Reference log-probs from columns: lists, sums, and what does not fit."""

import pytest
import torch

from components.reference.columns import ColumnReference
from rlcomp.errors import DataError
from rlcomp.testing import check_component, make_batch

MASK = torch.tensor([[0, 1, 0, 1], [0, 1, 1, 1]]).bool()


def batch(**columns):
    return make_batch(
        response_mask=MASK,
        chosen=[False, True],
        columns=[columns, columns],
    )


def test_lists_are_of_tokens_and_a_sum_is_shared():
    rows = batch(ref_chosen_logps=-6.0, ref_rejected_logps=[-1, -2.5])

    written = ColumnReference()(rows)["ref_log_probs"]

    assert written.tolist() == [[0, -1, 0, -2.5], [0, -2, -2, -2]]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, "'ref_rejected_logps' of a pair holds None, but the answer has 2 tokens"),
        ({"ref_rejected_logps": [-1.0]}, "holds 1 values, but the answer has 2 tokens"),
        ({"ref_rejected_logps": ["a", "b"]}, "holds 2 values, but"),
    ],
)
def test_what_does_not_fit_is_refused(columns, words):
    with pytest.raises(DataError, match=words):
        ColumnReference()(batch(**columns))


def test_columns_may_have_other_names():
    rows = batch(a=-3.0, b=-2.0)

    written = ColumnReference(chosen="a", rejected="b")(rows)["ref_log_probs"]

    assert written.sum(1).tolist() == [-2.0, -3.0]


def test_it_keeps_the_contract():
    check_component(ColumnReference(), batch(ref_chosen_logps=-6.0, ref_rejected_logps=-2.0))
