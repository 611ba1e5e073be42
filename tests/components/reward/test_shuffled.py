import pytest
import torch
from tensordict import TensorDict

from components.reward.composite import ShuffledReward
from components.reward.function import FunctionReward
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.errors import RlcompWarning
from rlcomp.testing import make_batch
from rlcomp.workers.executor import FailedCall, ReturnedCall


def number(response: str) -> float | None:
    return None if response == "?" else float(response)


def batch(*responses: str) -> TensorDict:
    texts = encode_texts(responses)
    return make_batch(prompt=texts, response=texts, answer=texts)


def shuffled(seed: int = 0) -> ShuffledReward:
    torch.manual_seed(seed)
    return ShuffledReward(reward=FunctionReward(function=number))


def test_the_values_are_the_same_but_on_other_rows():
    responses = [str(n) for n in range(50)]

    dealt = shuffled()(batch(*responses))["reward"].tolist()

    assert sorted(dealt) == [float(n) for n in range(50)]
    assert dealt != [float(n) for n in range(50)]


def test_the_parts_and_the_verdict_move_with_the_reward():
    result = shuffled()(batch("0", "1", "2", "3", "?"))

    assert result["rewards", "function"].tolist() == result["reward"].tolist()
    assert result["correct"].tolist() == [value >= 1.0 for value in result["reward"].tolist()]
    assert result["reward_valid"].tolist() == [True, True, True, True, False]


def test_an_invalid_row_takes_part_in_nothing():
    for seed in range(20):
        dealt = shuffled(seed)(batch("1", "?", "2"))["reward"].tolist()

        assert dealt[1] == 0.0
        assert sorted(dealt) == [0.0, 1.0, 2.0]


def test_over_many_batches_each_row_gets_the_mean():
    # 400 deals of 0 or 1 to each row: mean 0.5, standard error 0.025.
    deal = shuffled()

    dealt = torch.stack([deal(batch("0", "1"))["reward"] for _ in range(400)])

    assert torch.all((dealt.mean(0) - 0.5).abs() < 5 * 0.025)


def test_the_deal_follows_the_seed_of_the_construction():
    responses = [str(n) for n in range(20)]
    first, again, other = (shuffled(seed)(batch(*responses))["reward"] for seed in (0, 0, 1))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_deal_does_not_touch_the_global_generator():
    deal = shuffled()
    before = torch.get_rng_state()

    deal(batch("0", "1", "2"))

    assert torch.equal(torch.get_rng_state(), before)


def test_why_a_row_is_invalid_stays_with_the_row():
    class CallExecutor:
        def map(self, function, arguments, **_):
            return [FailedCall("error", "why"), *(ReturnedCall(float(n), 0.0) for n in range(1, 9))]

    inner = FunctionReward(function="platform.node", calls=CallExecutor())
    with pytest.warns(RlcompWarning, match="why"):
        result = ShuffledReward(reward=inner)(batch(*"abcdefghi"))

    assert decode_texts(result["invalid_reason"]) == ["why", *[""] * 8]
    assert not result["reward_valid"][0]
