import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ConfigError
from rlcomp.functional.group import greedy_baseline, squared_score_norm, weighted_token_advantage


def double(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_greedy_reward_by_hand():
    reward, group = double(1, 0.25, 3, 2), torch.tensor([7, 7, 3, 3])
    greedy = torch.tensor([False, True, True, False])

    baseline, mask = greedy_baseline(reward, group, torch.ones(4).bool(), greedy)

    assert baseline.tolist() == [0.25, 0.25, 3.0, 3.0]
    assert mask.all()


def test_greedy_reward_of_an_invalid_greedy_answer_is_masked():
    reward, group = double(1, float("nan"), 3, 2), torch.tensor([7, 7, 3, 3])
    greedy, valid = (
        torch.tensor([False, True, True, False]),
        torch.tensor([True, False, True, True]),
    )

    baseline, mask = greedy_baseline(reward, group, valid, greedy)

    assert mask.tolist() == [False, False, True, True]
    assert baseline.isfinite().all()


def test_a_group_without_a_greedy_answer_raises_with_the_remedy():
    greedy = torch.tensor([True, False, False])

    with pytest.raises(ConfigError, match=r"group 9 \(row 2\).*collector@rollout=greedy_baseline"):
        greedy_baseline(double(1, 2, 3), torch.tensor([4, 4, 9]), torch.ones(3).bool(), greedy)


def test_squared_score_norm_equals_autograd():
    logits = double(0.3, -1.0, 2.0, 0.0).requires_grad_()
    log_probs = logits.log_softmax(0)
    (gradient,) = torch.autograd.grad(log_probs[1], logits)
    probs = log_probs.detach().exp()

    one = torch.ones(1, 1, dtype=torch.bool)
    energy = squared_score_norm(
        log_probs[1].detach()[None, None], (probs**2).sum()[None, None], one
    )

    assert energy.item() == pytest.approx((gradient**2).sum().item(), rel=1e-12)


def test_squared_score_norm_of_a_certain_policy_is_0():
    squares, mask = torch.tensor([[1 - 1e-7, float("nan")]]), torch.tensor([[True, False]])

    energy = squared_score_norm(torch.tensor([[0.0, float("nan")]]), squares, mask)

    assert energy.tolist() == [[0.0, 0.0]]


def test_weighted_token_advantage_by_hand():
    # Column 0: (1 x 4 + 3 x 0) / 4 = 1 of G = (4, 0). Column 1: row 1 is over, rows 0 and 2 have
    # (2 x 4 + 1 x 1) / 3 = 3. Column 2: row 2 is alone. Nothing outside the mask counts.
    nan = float("nan")
    returns = double([4, 4, -9], [0, nan, 9], [nan, 1, 6])
    weight = double([1, 2, 9], [3, nan, 9], [nan, 1, 2])
    mask = torch.tensor([[True, True, False], [True, False, False], [False, True, True]])

    advantage = weighted_token_advantage(returns, weight, mask, torch.tensor([5, 5, 5]))

    assert advantage.tolist() == [[3.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, -2.0, 0.0]]


def test_token_baseline_with_weights_0_is_0():
    returns, mask = double([1], [0]), torch.ones(2, 1, dtype=torch.bool)

    advantage = weighted_token_advantage(
        returns, torch.zeros(2, 1).double(), mask, torch.tensor([0, 0])
    )

    assert advantage.tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize(("value", "answers"), [(0.7, 7), (0.7, 12), (0.1, 8)])
def test_token_baseline_of_equal_returns_is_0(value, answers):
    returns, mask = torch.full((answers, 3), value), torch.ones(answers, 3, dtype=torch.bool)
    weight = torch.arange(3.0 * answers).view(answers, 3) / 7

    advantage = weighted_token_advantage(returns, weight, mask, torch.zeros(answers).long())

    assert advantage.abs().max().item() == 0.0


def test_token_baseline_of_no_rows_is_empty():
    none = torch.zeros(0, 3)

    assert weighted_token_advantage(none, none, none.bool(), torch.zeros(0).long()).shape == (0, 3)


rows = st.lists(
    st.tuples(
        st.lists(st.integers(-4, 4), min_size=4, max_size=4),
        st.lists(st.integers(0, 3), min_size=4, max_size=4),
        st.lists(st.booleans(), min_size=4, max_size=4),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=7,
)


@given(rows)
def test_weighted_token_advantages_of_a_group_sum_to_0(drawn):
    returns, weight, mask, group = (torch.tensor(column) for column in zip(*drawn, strict=True))
    returns = torch.where(mask, returns.double(), float("nan"))

    advantage = weighted_token_advantage(returns, weight.double(), mask, group)

    assert not advantage[~mask].any()
    for label in set(group.tolist()):
        moved = torch.where(mask, weight, 0)[group == label]
        sums = (moved * advantage[group == label]).sum(0)
        assert sums.tolist() == pytest.approx([0.0] * 4, abs=1e-12)
