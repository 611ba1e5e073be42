"""ARPO's hard attribution: by hand, and the same gradient as the soft one."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.attribution import HardAttribution
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import SequenceMean, TokenMean
from components.loss.trust_region.clip import NoTrustRegion
from rlcomp.functional.branching import shared_prefixes
from rlcomp.testing import check_component, make_batch


def batch_of(tokens, advantage, *, group, mask=None, valid=None):
    tokens = torch.tensor(tokens)
    mask = torch.ones_like(tokens).bool() if mask is None else torch.tensor(mask).bool()
    advantage = torch.tensor(advantage, dtype=torch.float64)[:, None] * mask
    valid = torch.ones(len(tokens)).bool() if valid is None else torch.tensor(valid)
    return make_batch(
        tokens=tokens,
        response_mask=mask,
        advantage=torch.where(valid[:, None], advantage, 0.0),
        reward_valid=valid,
        group_id=group,
    )


def test_shared_tokens_get_the_mean_of_their_rows():
    # A prompt 9; 5 is shared by rows 0 to 2, then 6 by 0 and 1. Row 3 is of another group, row 4
    # has the same tokens as row 0 behind another first one.
    tokens = [[9, 5, 6, 1], [9, 5, 6, 2], [9, 5, 7, 6], [9, 5, 6, 1], [9, 8, 6, 1]]
    mask = [[0, 1, 1, 1]] * 5
    batch = batch_of(tokens, [3.0, 0.0, -6.0, 7.0, 1.0], group=[0, 0, 0, 1, 0], mask=mask)

    found = HardAttribution()(batch)["advantage"]

    assert found.tolist() == [
        [0.0, -1.0, 1.5, 3.0],
        [0.0, -1.0, 1.5, 0.0],
        [0.0, -1.0, -6.0, -6.0],
        [0.0, 7.0, 7.0, 7.0],
        [0.0, 1.0, 1.0, 1.0],
    ]


def test_rows_that_could_not_be_judged_are_in_no_mean():
    batch = batch_of([[5, 1], [5, 2], [5, 3]], [4.0, 8.0, 6.0], group=[0] * 3)
    batch["reward_valid"][1] = False

    found = HardAttribution()(batch)["advantage"]

    assert found.tolist() == [[5.0, 4.0], [0.0, 0.0], [5.0, 6.0]]


def test_rows_of_one_prefix_are_told_by_content():
    # A different token parts them for good.
    node = shared_prefixes(torch.tensor([[1, 2, 3], [1, 4, 3], [1, 2, 3]]), torch.zeros(3).long())

    assert (node[0] == node[2]).all()
    assert (node[0] == node[1]).tolist() == [True, False, False]
    assert len(node.unique()) == 5


def gradient(batch, reduction):
    """With respect to one log-prob for each prefix and token, which rows that share it share."""
    node = shared_prefixes(batch["tokens"], batch["group_id"])
    table = torch.zeros(int(node.max()) + 1, dtype=torch.float64, requires_grad=True)
    rows = batch.copy().update({"log_probs": table[node], "old_log_probs": table[node].detach()})
    loss = PolicyLoss(ratio=TokenRatio(), trust_region=NoTrustRegion(), reduction=reduction)
    return torch.autograd.grad(loss(rows)["loss"], table)[0]


ROWS = st.integers(2, 7).flatmap(
    lambda rows: st.tuples(
        st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=rows, max_size=rows),
        st.lists(st.integers(-8, 8), min_size=rows, max_size=rows),
        st.lists(st.integers(0, 1), min_size=rows, max_size=rows),
        st.lists(st.booleans(), min_size=rows, max_size=rows),
    )
)


@given(ROWS)
@settings(max_examples=40, deadline=None)
def test_hard_and_soft_have_the_same_gradient_under_equal_weights(drawn):
    tokens, advantage, group, valid = drawn
    batch = batch_of(tokens, advantage, group=group, valid=valid)

    hard = HardAttribution()(batch.copy())

    torch.testing.assert_close(
        gradient(hard, TokenMean()), gradient(batch, TokenMean()), rtol=0, atol=1e-12
    )


def test_they_part_where_a_short_row_weighs_more_per_token():
    # Row 0 ends after the shared token: by sequence_mean it weighs twice what row 1 does there.
    batch = batch_of([[5, 0], [5, 6]], [1.0, -1.0], group=[0, 0], mask=[[1, 0], [1, 1]])
    soft, hard = (
        gradient(rows, SequenceMean()) for rows in (batch, HardAttribution()(batch.copy()))
    )

    # Of the shared token: -(1/2 x 1 + 1/4 x -1) against 0.
    assert float(soft[0]) == -0.25
    assert float(hard[0]) == 0.0


def test_it_keeps_the_contract():
    check_component(HardAttribution())
