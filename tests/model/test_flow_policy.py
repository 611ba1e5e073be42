import inspect
import math

import pytest
import torch

from rlcomp.component import limit_outputs
from rlcomp.interfaces.policy import Policy, ScoresRows
from rlcomp.model.flow_policy import FlowPolicy, velocity_network
from rlcomp.model.weight_snapshot import WeightSnapshot
from rlcomp.testing import make_batch


def policy(num_steps=4, level=0.7):
    torch.manual_seed(1)
    return FlowPolicy(
        velocity=velocity_network(size=2, num_cells=[8]),
        size=2,
        num_steps=num_steps,
        noise_level=level,
    )


def rows(states, mask=None):
    count, steps = states.shape[0], states.shape[1] - 1
    everywhere = torch.ones(count, steps, dtype=torch.bool)
    return make_batch(
        tokens=torch.arange(steps).expand(count, steps),
        response_mask=everywhere if mask is None else mask,
        flow_state=states[:, :-1],
        flow_next=states[:, 1:],
    )


def test_scoring_gives_the_log_probs_that_sampling_recorded():
    flow = policy()
    states, recorded = flow.draw(6, torch.Generator().manual_seed(0))

    scored = flow(rows(states))["log_probs"]

    # The ratio of the first step is 1.
    torch.testing.assert_close(scored, recorded)
    assert scored.requires_grad
    assert not recorded.requires_grad
    assert states.shape == (6, 5, 2)


def test_the_log_prob_of_a_step_by_hand():
    flow = policy(num_steps=2)
    states = torch.tensor([[[1.0, -1.0], [0.5, 0.25], [0.0, 2.0]]])

    scored = flow(rows(states))

    # Times 1 and .5, dt = -.5. s = .7 sqrt(1 / .5) and .7 sqrt(.5 / .5).
    for k, (time, s) in enumerate([(1.0, 0.7 * math.sqrt(2)), (0.5, 0.7)]):
        x = states[0, k]
        v = flow.velocity_net(torch.cat([x, torch.tensor([time])]))
        share = s * s / (2 * time)
        mean = x * (1 - 0.5 * share) - 0.5 * v * (1 + share * (1 - time))
        normal = torch.distributions.Normal(mean, s * math.sqrt(0.5))
        torch.testing.assert_close(
            scored["log_probs"][0, k], normal.log_prob(states[0, k + 1]).sum()
        )
        torch.testing.assert_close(scored["entropy"][0, k], normal.entropy().sum())


def test_outside_the_mask_nothing_is_scored_whatever_stands_there():
    flow = policy()
    states, _ = flow.draw(2, torch.Generator().manual_seed(0))
    states[1, 2] = math.nan
    mask = torch.tensor([[True] * 4, [True, False, False, True]])

    scored = flow(rows(states, mask))

    assert scored["log_probs"][1, 1:3].tolist() == [0.0, 0.0]
    assert scored["entropy"][1, 1:3].tolist() == [0.0, 0.0]
    scored["log_probs"].sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in flow.parameters())


def test_where_nobody_asks_for_the_entropy_it_is_not_written():
    flow = policy()
    states, _ = flow.draw(2, torch.Generator().manual_seed(0))

    with limit_outputs({"log_probs"}):
        assert "entropy" not in flow(rows(states)).keys()


def test_other_weights_score_for_a_reference():
    flow = policy()
    copied = WeightSnapshot(flow)
    states, _ = flow.draw(3, torch.Generator().manual_seed(0))
    before = flow.log_probs(rows(states)).detach()
    with torch.no_grad():
        for weight in flow.parameters():
            weight.add_(0.1)

    torch.testing.assert_close(flow.log_probs(rows(states), copied.weights()), before)
    assert not torch.allclose(flow.log_probs(rows(states)), before)


def test_it_is_what_a_learner_and_a_reference_ask_for_and_no_policy_of_texts():
    flow = policy()
    flow.updated()

    assert isinstance(flow, ScoresRows)
    assert not isinstance(flow, Policy)
    assert flow.version == 1
    assert "steps_taken" in flow.state_dict()
    assert flow.device.type == "cpu"


def test_the_flow_follows_the_velocity_in_even_steps():
    class Constant(torch.nn.Module):
        def forward(self, seen):
            # v = (1, t): over steps of 1/2 from t = 1, x - 1 and y - (1 + .5) / 2.
            return torch.stack([torch.ones_like(seen[:, 2]), seen[:, 2]], dim=1)

    flow = FlowPolicy(velocity=Constant(), size=2, num_steps=3, noise_level=0.7)
    start = torch.randn(5, 2, generator=torch.Generator().manual_seed(7))

    end = flow.flow(5, 2, torch.Generator().manual_seed(7))

    torch.testing.assert_close(end, start - torch.tensor([1.0, 0.75]))


def test_the_velocity_sees_point_and_time():
    network = velocity_network(size=3, num_cells=[5, 6])

    shapes = [tuple(p.shape) for p in network.parameters() if p.dim() == 2]
    assert shapes == [(5, 4), (6, 5), (3, 6)]
    assert any(isinstance(layer, torch.nn.SiLU) for layer in network)


@pytest.mark.parametrize("level", [0.3, 0.9])
def test_samples_of_gaussian_data_have_its_mean_and_spread(level):
    class Exact(torch.nn.Module):
        """Velocity of data N(1.5, .4^2)."""

        def forward(self, seen):
            x, time = seen[:, :1], seen[:, 1:]
            left = 1 - time
            slope = (time - left * 0.16) / (left**2 * 0.16 + time**2)
            return -1.5 + slope * (x - left * 1.5)

    flow = FlowPolicy(velocity=Exact(), size=1, num_steps=400, noise_level=level)

    samples = flow.draw(4000, torch.Generator().manual_seed(0))[0][:, -1]

    # Standard errors: .4 / sqrt(4,000) = .0063 of the mean, .0045 of the spread; 4 of them, and
    # the error of the steps.
    assert float(samples.mean()) == pytest.approx(1.5, abs=0.03)
    assert float(samples.std()) == pytest.approx(0.4, abs=0.025)


@pytest.mark.parametrize(
    ("part", "numbers"), [(FlowPolicy, {"size": 2, "num_steps": 10, "noise_level": 0.7})]
)
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
