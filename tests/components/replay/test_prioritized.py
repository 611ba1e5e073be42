import pytest
import torch
from tensordict import TensorDict

from components.replay.prioritized import PrioritizedReplay, Reprioritise
from rlcomp.checkpoint.state import collect, restore
from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.metrics import recording
from rlcomp.seed import seeded
from rlcomp.testing import make_batch


def replay(capacity=4, seed=0, **changed):
    given = {"alpha": 1.0, "beta": 1.0, "epsilon": 0.5, **changed}
    with seeded(seed, "replay"):
        return PrioritizedReplay(capacity=capacity, **given)


def steps(first, last):
    number = torch.arange(first, last).float()[:, None]
    return make_batch(observation=number)


def test_rows_are_drawn_in_proportion_to_error_and_epsilon():
    buffer = replay()
    buffer.extend(steps(0, 3))
    buffer.reprioritise(torch.tensor([0, 1, 2]), torch.tensor([0.5, 1.5, -3.5]))

    drawn = buffer.sample(7000)

    # 1, 2, 4 of 7: 1,000, 2,000, 4,000 draws, standard deviation at most 42.
    counts = torch.bincount(drawn["index"], minlength=3)
    assert counts.tolist() == pytest.approx([1000, 2000, 4000], abs=170)
    assert torch.equal(drawn["observation"][:, 0], drawn["index"].float())
    # (3 P)^-1 = 7/3, 7/6, 7/12, over the greatest.
    weight = {
        int(i): float(w) for i, w in zip(drawn["index"], drawn["priority_weight"], strict=True)
    }
    assert weight == {0: pytest.approx(1.0), 1: pytest.approx(0.5), 2: pytest.approx(0.25)}


def test_new_rows_have_the_greatest_priority_so_far():
    buffer = replay()
    buffer.extend(steps(0, 2))
    assert buffer.priority.tolist() == [1.0, 1.0]
    buffer.reprioritise(torch.tensor([0]), torch.tensor([2.5]))
    buffer.reprioritise(torch.tensor([0]), torch.tensor([0.25]))
    buffer.extend(steps(2, 5))

    # The fifth row comes over the first.
    assert buffer.priority.tolist() == [3.0, 1.0, 3.0, 3.0]
    assert buffer.rows()["observation"].flatten().tolist() == [4.0, 1.0, 2.0, 3.0]


def test_errors_that_are_not_finite_change_no_priority():
    buffer = replay()
    buffer.extend(steps(0, 3))

    buffer.reprioritise(torch.tensor([0, 1, 2]), torch.tensor([torch.nan, 1.5, torch.inf]))

    assert buffer.priority.tolist() == [1.0, 2.0, 1.0]
    assert buffer.greatest == 2.0
    buffer.reprioritise(torch.tensor([1]), torch.tensor([torch.nan]))
    assert buffer.priority.tolist() == [1.0, 2.0, 1.0]


def test_alpha_and_beta_of_zero_are_a_uniform_replay():
    buffer = replay(alpha=0.0, beta=0.0)
    buffer.extend(steps(0, 4))
    buffer.reprioritise(torch.tensor([0]), torch.tensor([100.0]))

    drawn = buffer.sample(4000)

    assert torch.bincount(drawn["index"]).tolist() == pytest.approx([1000] * 4, abs=130)
    assert drawn["priority_weight"].unique().tolist() == [1.0]


def test_a_restored_replay_draws_the_same(tmp_path):
    first, again = replay(), replay(seed=9)
    first.extend(steps(0, 6))
    first.reprioritise(torch.tensor([1, 3]), torch.tensor([5.0, 0.1]))
    restore(tmp_path, {"replay": again}, *collect({"replay": first}), keep_generators=False)

    assert torch.equal(first.sample(20)["index"], again.sample(20)["index"])
    assert again.greatest == 5.5
    for buffer in (first, again):
        buffer.extend(steps(9, 10))
    assert torch.equal(first.priority, again.priority)


@pytest.mark.parametrize(
    "change",
    [
        {"priority": torch.ones(2)},
        {"priority": torch.tensor([1.0, -1.0, 1.0])},
        {"priority": torch.tensor([1.0, torch.nan, 1.0])},
        {"priority": 3},
        {"greatest": 0.0},
    ],
)
def test_a_state_that_is_none_is_refused(change):
    buffer = replay()
    buffer.extend(steps(0, 3))

    with pytest.raises(CheckpointError):
        replay().load_run_state({**buffer.run_state(), **change})


@pytest.mark.parametrize("change", [{"alpha": 1.5}, {"beta": -0.1}, {"epsilon": 0.0}])
def test_values_out_of_range_are_refused(change):
    with pytest.raises(ConfigError, match=next(iter(change))):
        replay(**change)


class Told:
    errors = (torch.tensor([1, 2]), torch.tensor([0.5, 2.5]))


class Untold:
    errors = None


def test_the_errors_of_a_loss_become_priorities():
    buffer = replay()
    buffer.extend(steps(0, 3))
    batch = TensorDict({}, batch_size=[])
    with recording() as ledger:
        assert Reprioritise(loss=Told(), replay=buffer)(batch) is batch

    assert buffer.priority.tolist() == [1.0, 1.0, 3.0]
    assert ledger.means() == {"replay/error": 1.5}


def test_before_a_loss_has_seen_rows_nothing_changes():
    buffer = replay()
    buffer.extend(steps(0, 3))

    Reprioritise(loss=Untold(), replay=buffer)(TensorDict({}, batch_size=[]))

    assert buffer.priority.tolist() == [1.0, 1.0, 1.0]
