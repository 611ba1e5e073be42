import inspect

import pytest
import torch
from tensordict import TensorDict

from components.replay.stages import Extend, Sample
from components.replay.uniform import UniformReplay
from rlcomp.checkpoint.state import collect, restore
from rlcomp.errors import CheckpointError, ConfigError, FlowError
from rlcomp.metrics import recording
from rlcomp.run.check_flow import built_flow
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


def replay(capacity=10, seed=0):
    with seeded(seed, "replay"):
        return UniformReplay(capacity=capacity)


def numbers(buffer):
    return buffer.rows()["observation"].flatten().tolist()


def test_the_oldest_rows_are_overwritten():
    buffer = replay(4)
    extend = Extend(replay=buffer)

    extend(steps(0, 3))
    extend(steps(3, 3))

    # Places 0 to 3 hold 0 1 2 3, then 4 and 5 come over 0 and 1.
    assert numbers(buffer) == [4.0, 5.0, 2.0, 3.0]
    assert (len(buffer), buffer.cursor) == (4, 2)


def test_copies_are_laid_out_flat_and_stay_in_the_batch():
    buffer = replay()
    batch = steps(0, 2, copies=2)

    with recording() as ledger:
        handed = Extend(replay=buffer)(batch)

    assert handed is batch
    assert numbers(buffer) == [0.0, 1.0, 2.0, 3.0]
    assert ledger.means()["replay/size"] == 4.0


def test_what_nobody_reads_is_not_stored():
    buffer = replay()
    Extend(replay=buffer)(steps(0, 2))

    assert "loc" not in buffer.rows().keys()
    assert buffer.rows()["next", "reward"].flatten().tolist() == [0.0, -1.0]


def test_draws_are_uniform_whole_rows():
    buffer = replay()
    Extend(replay=buffer)(steps(0, 4))
    drawn = Sample(replay=buffer, batch_size=4)

    rows = torch.cat([drawn()["observation"] for _ in range(2000)]).flatten()
    row = drawn()

    # 8,000 draws of 4: each 2,000 times, sd sqrt(8000 * .25 * .75) = 39.
    counts = torch.bincount(rows.long(), minlength=4)
    assert counts.tolist() == pytest.approx([2000] * 4, abs=200)
    assert torch.equal(row["action"], 2 * row["observation"])
    assert torch.equal(row["next", "observation"], row["observation"] + 0.5)


def test_a_replay_smaller_than_a_batch_is_told_with_the_remedy():
    buffer = replay()
    Extend(replay=buffer)(steps(0, 3))

    with pytest.raises(FlowError, match=r"holds 3 steps, batch_size is 4: .*phases\.warm_up"):
        Sample(replay=buffer, batch_size=4)()


def test_a_replay_that_never_holds_a_batch_is_refused_when_it_is_built():
    Sample(replay=replay(4), batch_size=4)
    with pytest.raises(ConfigError, match=r"replay\.capacity is 4, but 5 rows are drawn at a time"):
        Sample(replay=replay(4), batch_size=5)


@pytest.mark.parametrize("stored", [3, 4, 6])
def test_a_restored_replay_draws_and_overwrites_as_the_first(tmp_path, stored):
    first, again = replay(4), replay(4, seed=9)
    Extend(replay=first)(steps(0, stored))
    Sample(replay=first, batch_size=2)()
    restore(tmp_path, {"replay": again}, *collect({"replay": first}), keep_generators=False)

    assert numbers(again) == numbers(first)
    assert [*again.run_state()["rows"]] == [*first.run_state()["rows"]]
    for buffer in (first, again):
        Extend(replay=buffer)(steps(100, 2))
    assert numbers(again) == numbers(first)
    one, other = (Sample(replay=buffer, batch_size=3)() for buffer in (first, again))
    assert torch.equal(one["observation"], other["observation"])
    assert again.rows()["next", "reward"].shape == (4, 1)


def test_an_empty_replay_is_restored_as_such(tmp_path):
    again = replay(seed=9)

    restore(tmp_path, {"replay": again}, *collect({"replay": replay()}), keep_generators=False)

    assert len(again) == 0


@pytest.mark.parametrize(
    "state",
    [
        {"rows": {"action": torch.zeros(5, 1)}, "cursor": 0},
        {"rows": {"action": torch.zeros(3, 1)}, "cursor": 1},
        {"rows": {"action": torch.zeros(3, 1), "observation": torch.zeros(2, 1)}, "cursor": 3},
        {"rows": {}, "cursor": 4},
    ],
)
def test_rows_that_are_no_replay_of_this_size_are_refused(state):
    with pytest.raises(CheckpointError, match="capacity=4"):
        replay(4).load_run_state(state)


@pytest.mark.parametrize("entry", [3, torch.zeros(())])
def test_what_are_no_rows_is_refused(entry):
    with pytest.raises(CheckpointError, match="are tensors with a row for each step"):
        replay(4).load_run_state({"rows": {"action": entry}, "cursor": 0})


def test_what_is_drawn_is_what_was_stored():
    extend = built_flow(Extend(replay=replay()))
    sample = built_flow(Sample(replay=replay(), batch_size=1))

    assert sample.fresh
    assert extend.reads == sample.writes


@pytest.mark.parametrize(("part", "numbers"), [(UniformReplay, {"capacity": 1000000})])
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
