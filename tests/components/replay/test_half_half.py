import pytest
import torch
from tensordict import TensorDict

from components.replay.stages import Extend, SampleHalfHalf
from components.replay.uniform import UniformReplay
from rlcomp.errors import ConfigError, FlowError
from rlcomp.metrics import recording
from rlcomp.seed import seeded


def steps(start, count, copies=1):
    """Steps whose observations are numbered."""
    shape = (copies, count)
    number = torch.arange(start, start + copies * count).float().view(*shape, 1)
    flag = torch.zeros(*shape, 1, dtype=torch.bool)
    after = {"observation": number + 0.5, "reward": -number, "done": flag, "terminated": flag}
    return TensorDict(
        {"observation": number, "action": 2 * number, "loc": number, "next": after},
        batch_size=shape,
    )


def half_half(own=9, shown=2, batch_size=8, seed=0, capacity=50):
    """Own steps are numbered from 0, demonstrations from 100."""
    parts = []
    for name, first, count in (("replay", 0, own), ("demonstrations", 100, shown)):
        with seeded(seed, name):
            parts.append(UniformReplay(capacity=capacity))
        if count:
            Extend(replay=parts[-1])(steps(first, count))
    return SampleHalfHalf(replay=parts[0], demonstrations=parts[1], batch_size=batch_size)


def test_exactly_half_of_every_batch_are_demonstrations_however_few_they_are():
    sample = half_half()

    for _ in range(20):
        number = sample()["observation"][:, 0]
        assert (number[:4] >= 100).all()
        assert (number[4:] < 100).all()


def test_both_halves_are_drawn_anew_and_uniformly():
    sample = half_half()

    number = torch.cat([sample()["observation"][:, 0] for _ in range(2000)]).long()

    # 8,000 draws each, of 9 and of 2 steps: 889 (sd 28) and 4,000 (sd 45).
    assert number.bincount()[:9].tolist() == pytest.approx([889] * 9, abs=150)
    assert number.bincount()[100:].tolist() == pytest.approx([4000] * 2, abs=250)


def test_rows_are_whole_steps():
    batch = half_half()()

    assert batch.batch_size == (8,)
    assert torch.equal(batch["next", "observation"], batch["observation"] + 0.5)
    assert torch.equal(batch["action"], 2 * batch["observation"])


def test_what_only_one_of_the_two_holds_is_left_out():
    sample = half_half(own=0)
    flagged = steps(0, 9).set("intervened", torch.zeros(1, 9, 1, dtype=torch.bool))
    Extend(replay=sample.replay)(flagged)

    assert "intervened" not in sample().keys()


def test_the_number_of_demonstrations_is_recorded():
    sample = half_half()

    with recording() as ledger:
        sample()

    assert ledger.means() == {"replay/demonstrations": 2.0}


def test_without_demonstrations_the_remedy_is_told():
    with pytest.raises(FlowError, match=r"no demonstrations .*phases\.demonstrate.*=sample\)"):
        half_half(shown=0)()


def test_half_a_batch_of_own_steps_is_enough_and_needed():
    assert half_half(own=4)().batch_size == (8,)
    with pytest.raises(FlowError, match="holds 3 steps, half of batch_size is 4"):
        half_half(own=3)()


def test_the_replay_must_have_room_for_half_a_batch():
    half_half(own=0, shown=0, capacity=4)
    with pytest.raises(ConfigError, match=r"replay\.capacity is 3, but 4 rows are drawn"):
        half_half(own=0, shown=0, capacity=3)


def test_an_odd_batch_has_no_halves():
    with pytest.raises(ConfigError, match="batch_size is 7"):
        half_half(batch_size=7)
