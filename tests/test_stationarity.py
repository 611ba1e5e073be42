"""The estimates of experiments/pareto/stationarity.py, on numbers worked out by hand."""

import runpy
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

from rlcomp.testing import make_batch

SCRIPT = Path(__file__).parents[1] / "experiments" / "pareto" / "stationarity.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


def test_squares_of_means_leave_out_the_squares_of_estimates(script):
    # Two estimates of two gradients: (1, 0) and (3, 2) of the first, (0, 2) and (4, 1) of the
    # second. First: <(1, 0), (3, 2)> = 3, where |mean|^2 = |(2, 1)|^2 = 5. Second: <(0, 2), (4, 1)>
    # = 2. Between them: (<(1, 0), (4, 1)> + <(3, 2), (0, 2)>) / 2 = (4 + 4) / 2.
    rows = torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[3.0, 2.0], [4.0, 1.0]]])

    gram = script["unbiased_gram"](script["products"](rows))

    assert gram.tolist() == [[3.0, 4.0], [4.0, 2.0]]


def test_pure_noise_has_no_length_on_average(script):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(400, 8, 2, 50, generator=generator)

    found = [script["least_square"](script["products"](each)) for each in rows]

    # |mean|^2 of 8 estimates would be 50 / 8 = 6.25 a gradient. Of noise the mean over 400 is 0
    # but for chance: sd of one is below sqrt(2 * 50 / (4 * 3)) = 2.9, of the mean 0.14.
    assert abs(sum(found) / len(found)) < 0.5


def test_the_least_square_is_that_of_the_shortest_combination(script):
    # Without noise: (3, 0) and (0, 4): c = (16, 9) / 25, the square 9 * 16 / 25 = 5.76.
    rows = torch.tensor([[3.0, 0.0], [0.0, 4.0]]).expand(4, 2, 2)

    assert script["least_square"](script["products"](rows)) == pytest.approx(5.76)


def test_the_weights_do_not_follow_squares_below_0(script):
    # Of [[-4, 0], [0, 1]] the first is cut to 0, and takes all the weight.
    weights = script["weights_of"](torch.tensor([[-4.0, 0.0], [0.0, 1.0]], dtype=torch.float64))

    assert weights.tolist() == pytest.approx([1.0, 0.0])


def test_noise_is_the_standard_deviation_of_the_square_without_a_gradient(script):
    generator = torch.Generator().manual_seed(1)
    # A mean far from 0 is taken off first: it must not count as noise.
    rows = torch.randn(2000, 16, 2, 20, generator=generator) + torch.tensor([[[5.0], [0.0]]])
    first = torch.tensor([1.0, 0.0], dtype=torch.float64)

    told = [script["noise_of"](script["products"](each), first) for each in rows[:200]]

    # Of the square of d = 20 entries from M = 16: sqrt(2 * 20 / (16 * 15)) = 0.408; the mean taken
    # off costs up to 2 / 16 of it.
    assert sum(told) / len(told) == pytest.approx(0.408, rel=0.13)
    squares = [
        script["unbiased_gram"](script["products"](each - torch.tensor([[[5.0], [0.0]]])))[0, 0]
        for each in rows
    ]
    assert float(torch.stack(squares).std()) == pytest.approx(0.408, rel=0.1)


class Coin:
    """Answers of one token, heads with probability ``sigmoid(bias[0])``; ``bias[1]`` is idle."""

    def __init__(self):
        self.bias = torch.zeros(2, requires_grad=True)

    def weights(self):
        return {"bias": self.bias}

    def __call__(self, batch):
        heads = torch.nn.functional.logsigmoid(self.bias[0])
        tails = torch.nn.functional.logsigmoid(-self.bias[0])
        taken = torch.where(batch["heads"], heads, tails)
        # The first column is the prompt's: nothing there may count.
        batch["log_probs"] = torch.stack([torch.full((8,), torch.nan), taken], 1) + 0 * self.bias[1]
        return batch


class Objectives:
    def per_objective(self, batch):
        right = batch["heads"].float()
        return make_batch(right=right, same=torch.ones(8))


def test_gradients_are_those_of_the_expected_rewards(script):
    heads = torch.tensor([True, False, False, False, False, False, False, False])
    rows = {"heads": heads, "group_id": torch.zeros(8, dtype=torch.int64)}
    mask = torch.tensor([[False, True]]).expand(8, 2)
    sampled = TensorDict({**rows, "response_mask": mask}, batch_size=[8])
    nodes = {"prompts": lambda _: sampled, "rollout": lambda b: b, "reward": lambda b: b}

    names, returns, found = script["gradients"](
        {**nodes, "objectives": Objectives(), "policy": Coin()}
    )

    # d log p / d bias is 1 / 2 for heads, -1 / 2 for tails. The others' mean as baseline: heads 1
    # above it, each of seven tails 1 / 7 below: (1 / 2 + 7 (1 / 7) (1 / 2)) / 8.
    assert names == ("right", "same")
    assert returns.tolist() == [0.125, 1.0]
    assert found.tolist() == [[pytest.approx(0.125), 0.0], [0.0, 0.0]]
