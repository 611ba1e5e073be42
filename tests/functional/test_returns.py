from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rlcomp.errors import NumericalError, ShapeError
from rlcomp.functional.returns import (
    gae,
    length_adaptive_lambda,
    reward_to_go,
    td_lambda_returns,
    vtrace,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "policy"
EXACT = {"atol": 1e-9, "rtol": 1e-9}


def double(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def cases(name, arguments):
    """(arguments, tensors) of each case of a file."""
    tensors = load_file(GOLDEN / f"{name}.safetensors")
    for case in sorted({key.split("/")[0] for key in tensors}, key=int):
        start = f"{case}/"
        result = {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
        yield arguments[int(case) % len(arguments)], result


def without_holes(mask):
    """Positions of rows whose mask has no hole."""
    reopened = (mask[:, 1:] & ~mask[:, :-1]).any(1)
    return mask & ~reopened[:, None]


def ragged(seed):
    """Rewards, value, ratio, mask: 5 rows with holes, row 3 empty, garbage outside the mask."""
    draw = torch.Generator().manual_seed(seed)
    rewards, value, noise = torch.randn(3, 5, 7, dtype=torch.float64, generator=draw)
    mask = torch.rand(5, 7, generator=draw) < 0.6
    mask[3] = False
    return rewards, value, (0.5 * noise).exp(), mask


seeds = st.integers(0, 10_000)


def test_a_tool_token_is_no_step_of_the_trace():
    # Steps 0, 1, 3, 4; gamma 0.9, lambda 0.8, product 0.72.
    # A4 = 1 - 0.4 = 0.6; A3 = 0.9 x 0.4 - 0.1 + 0.72 x 0.6 = 0.692;
    # A1 = 0.9 x 0.1 - 0.2 + 0.72 x 0.692 = 0.38824; A0 = 0.9 x 0.2 - 0.5 + 0.72 x 0.38824.
    rewards, value = double([0, 0, 0, 0, 1]), double([0.5, 0.2, 9, 0.1, 0.4])
    mask = torch.tensor([[True, True, False, True, True]])

    advantage = gae(rewards, value, mask, gamma=0.9, gae_lambda=0.8)

    torch.testing.assert_close(advantage, double([-0.0404672, 0.38824, 0, 0.692, 0.6]))


def test_an_outcome_reaches_the_turns_before_a_tool_call():
    mask = torch.tensor([[True, True, False, True, True]])

    returns = reward_to_go(double([0, 0, 0, 0, 1]), mask, gamma=1.0)

    assert returns.tolist() == [[1, 1, 0, 1, 1]]


def test_what_follows_the_last_step_is_discounted_like_any_value():
    # A1 = 1 + 0.5 x 4 - 2 = 1; A0 = 0.5 x 2 - 3 + 0.25 x 1 = -1.75; returns are A + V.
    rewards, value, mask = double([0, 1, 7]), double([3, 2, 7]), torch.tensor([[1, 1, 0]])

    advantage = gae(rewards, value, mask, 0.5, 0.5, last_value=double(4))
    returns = td_lambda_returns(rewards, value, mask, 0.5, 0.5, last_value=double(4))

    assert advantage.tolist() == [[-1.75, 1, 0]]
    assert returns.tolist() == [[1.25, 3, 0]]


def test_vtrace_by_hand():
    # ratios 0.5 and 2, both caps 1, gamma 0.5: d1 = 1 x (1 - 2) = -1, vs1 = 1;
    # d0 = 0.5 x (0 + 0.5 x 2 - 3) = -1; vs0 = 3 - 1 + 0.5 x 0.5 x (1 - 2) = 1.75;
    # advantages 0.5 x (0.5 x 1 - 3) = -1.25 and 1 x (1 - 2) = -1.
    everything = torch.ones(1, 2).bool()

    advantage, returns = vtrace(
        double([0, 1]), double([3, 2]), double([0.5, 2]), everything, 0.5, 1.0, 1.0
    )

    assert advantage.tolist() == [[-1.25, -1]]
    assert returns.tolist() == [[1.75, 1]]


@pytest.mark.parametrize(
    ("length", "wanted"),
    # 1 - 1 / (0.05 l) = 1 - 20 / l; below 20 tokens that is negative.
    [(0, 0), (5, 0), (10, 0), (20, 0), (21, 1 / 21), (40, 0.5), (100, 0.8), (1000, 0.98)],
)
def test_longer_responses_have_longer_traces(length, wanted):
    mask = torch.arange(1200)[None, :] < length

    assert length_adaptive_lambda(mask, alpha=0.05).item() == pytest.approx(wanted, abs=1e-12)


@given(seeds, st.sampled_from([0.0, 0.7, 1.0]), st.sampled_from([0.0, 0.6, 1.0]))
def test_positions_outside_the_mask_are_as_if_they_were_not_there(seed, gamma, trace):
    rewards, value, ratio, mask = ragged(seed)
    after = value[:, 0] + 1

    def all_of(rows, r, v, rho, m):
        return (
            reward_to_go(r, m, gamma),
            gae(r, v, m, gamma, trace, after[rows]),
            td_lambda_returns(r, v, m, gamma, trace, after[rows]),
            *vtrace(r, v, rho, m, gamma, 1.2, 0.9, after[rows]),
        )

    together = all_of(slice(None), rewards, value, ratio, mask)
    for row, kept in enumerate(mask):
        short = [x[row, kept][None] for x in (rewards, value, ratio, mask)]
        alone = all_of(slice(row, row + 1), *short)
        for one, many in zip(alone, together, strict=True):
            torch.testing.assert_close(one[0], many[row, kept], **EXACT)
            assert not many[row, ~kept].any()


@given(seeds, st.sampled_from([0.5, 0.9, 1.0]))
def test_a_full_trace_leaves_nothing_of_the_critic_but_the_baseline(seed, gamma):
    rewards, value, _, mask = ragged(seed)
    returns = reward_to_go(rewards, mask, gamma)

    advantage = gae(rewards, value, mask, gamma, 1.0)

    torch.testing.assert_close(advantage, torch.where(mask, returns - value, 0.0), **EXACT)
    torch.testing.assert_close(
        gae(rewards, torch.zeros_like(value), mask, gamma, 1.0), returns, **EXACT
    )


@given(seeds)
def test_without_a_trace_the_advantage_is_the_error_of_one_step(seed):
    rewards, value, _, mask = ragged(seed)

    advantage = gae(rewards, value, mask, 0.9, 0.0)

    for row, kept in enumerate(mask):
        values = [*value[row, kept].tolist(), 0.0]
        steps = zip(rewards[row, kept].tolist(), values, values[1:], strict=False)
        expected = [r + 0.9 * after - before for r, before, after in steps]
        assert advantage[row, kept].tolist() == pytest.approx(expected, abs=1e-12)


@given(seeds, st.floats(0, 1), st.floats(0, 1))
def test_gae_is_the_td_lambda_return_above_the_value(seed, gamma, trace):
    rewards, value, _, mask = ragged(seed)
    after = value[:, 0] + 1

    returns = td_lambda_returns(rewards, value, mask, gamma, trace, after)

    advantage = gae(rewards, value, mask, gamma, trace, after)
    torch.testing.assert_close(returns, torch.where(mask, advantage + value, 0.0), **EXACT)


@given(seeds, st.floats(0, 1))
def test_vtrace_on_policy_is_the_return_to_the_end(seed, gamma):
    rewards, value, ratio, mask = ragged(seed)

    advantage, returns = vtrace(rewards, value, torch.ones_like(ratio), mask, gamma, 1.0, 1.0)

    torch.testing.assert_close(returns, reward_to_go(rewards, mask, gamma), **EXACT)
    torch.testing.assert_close(advantage, gae(rewards, value, mask, gamma, 1.0), **EXACT)


def test_each_row_may_have_its_own_lambda():
    rewards, value, _, mask = ragged(3)
    traces = double(0.0, 0.3, 0.5, 0.8, 1.0)

    together = gae(rewards, value, mask, 0.9, traces)

    alone = [gae(rewards[[i]], value[[i]], mask[[i]], 0.9, float(traces[i])) for i in range(5)]
    torch.testing.assert_close(together, torch.cat(alone), **EXACT)


def test_a_reward_moves_earlier_advantages_by_the_decayed_trace():
    # d A_0 / d r_k = (gamma lambda)^k over the steps, 0 at the hole.
    rewards = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, False, True]])

    gae(rewards, torch.zeros_like(rewards), mask, 0.5, 0.8)[0, 0].backward()

    torch.testing.assert_close(rewards.grad, double([1, 0.4, 0, 0.16]))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_garbage_outside_the_mask_changes_neither_value_nor_gradient(bad):
    rewards, value, ratio, mask = ragged(1)
    results = []
    for filling in (0.0, bad):
        inputs = [torch.where(mask, x, filling).requires_grad_() for x in (rewards, value, ratio)]
        advantage, returns = vtrace(*inputs, mask, 0.9, 1.0, 1.0)
        (advantage + returns).square().sum().backward()
        results.append([advantage, returns, *(x.grad for x in inputs)])

    for clean, corrupted in zip(*results, strict=True):
        assert torch.equal(clean, corrupted)


def test_a_value_that_is_not_finite_is_named():
    value = double([0.0, float("nan")])
    with pytest.raises(NumericalError, match=r"'value' is nan at \[0, 1\]"):
        gae(torch.zeros(1, 2), value, torch.ones(1, 2).bool(), 1.0, 1.0)


def test_tensors_that_do_not_fit_are_named():
    with pytest.raises(ShapeError, match=r"'value' has shape \[1, 3\], 'mask' \[1, 2\]"):
        gae(torch.zeros(1, 2), torch.zeros(1, 3), torch.ones(1, 2).bool(), 1.0, 1.0)


def test_rewards_in_half_precision_are_summed_in_float32():
    # 257 is not a bfloat16 number.
    ones = torch.ones(1, 257, dtype=torch.bfloat16)

    assert reward_to_go(ones, torch.ones(1, 257).bool(), 1.0)[0, 0].item() == 257


def test_responses_of_no_tokens_have_no_returns():
    nothing = torch.zeros(2, 0)

    assert gae(nothing, nothing, nothing.bool(), 1.0, 0.95).shape == (2, 0)


def test_a_hole_is_no_state_of_value_0_as_it_is_in_openrlhf():
    differing = 0
    for (gamma, trace), case in cases("openrlhf__gae", [(1.0, 1.0), (0.99, 0.95)]):
        mask = case["in/mask"].bool()
        holed = mask & ~without_holes(mask)
        ours = gae(case["in/rewards"], case["in/values"], mask, gamma, trace)
        differing += int(((ours - case["out/advantages"]).abs() > 1e-3)[holed].sum())

    assert differing > 0


def everything(parts):
    return torch.ones_like(parts["reward"], dtype=torch.bool)
