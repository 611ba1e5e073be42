from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.component import Component
from rlcomp.errors import ConfigError, FlowError, NoRows, RlcompWarning
from rlcomp.metrics import record, recording
from rlcomp.run.stages import (
    Branch,
    Every,
    Nothing,
    Refill,
    Repeat,
    Sequence,
    empty_batch,
    run_stages,
)
from rlcomp.testing import make_batch


class Add(Component):
    """Adds to ``reward``, by a new tensor."""

    reads = ("reward",)
    writes = ("reward",)

    def __init__(self, amount: float = 1.0) -> None:
        super().__init__()
        self.amount = amount

    def forward(self, batch):
        batch["reward"] = batch["reward"] + self.amount
        return batch


class Double(Component):
    reads = ("reward",)
    writes = ("reward",)

    def forward(self, batch):
        batch["reward"] = batch["reward"] * 2
        return batch


class Rows(Component):
    """A new batch of groups of two rows; one count per call."""

    writes = ("reward", "group_id")
    fresh = True

    def __init__(self, *counts):
        super().__init__()
        self.counts = list(counts)
        self.calls = 0

    def forward(self, batch):
        count = self.counts[self.calls]
        self.calls += 1
        return make_batch(
            reward=torch.full((count,), float(self.calls)),
            group_id=torch.arange(count) // 2,
        )


def batch(value=1.0):
    return make_batch(reward=[value])


def reward(result):
    return result["reward"].tolist()


def test_a_sequence_runs_its_stages_in_order():
    assert reward(Sequence(stages=[Add(), Double()])(batch())) == [4.0]  # (1 + 1) * 2
    assert reward(Sequence(stages=[Double(), Add()])(batch())) == [3.0]  # 1 * 2 + 1


def test_run_stages_runs_foreign_modules_too():
    assert run_stages([torch.nn.Identity(), Add()], batch())["reward"].item() == 2.0


def test_repeat_runs_all_its_stages_so_many_times():
    # ((1 + 1) * 2 + 1) * 2
    assert reward(Repeat(times=2, stages=[Add(), Double()])(batch())) == [10.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Repeat(times=0, stages=[]),
        lambda: Every(k=0, stages=[]),
        lambda: Refill(rows=0, stages=[]),
    ],
)
def test_a_count_of_nothing_is_refused(make):
    with pytest.raises(ConfigError, match="is 0: must be greater than 0"):
        make()


def test_the_empty_slot_hands_on_the_very_batch():
    given = batch()

    assert Nothing()(given) is given


def test_an_empty_slot_takes_the_empty_batch():
    assert list(Nothing()(empty_batch()).keys()) == []


def test_every_runs_on_each_kth_call_only():
    rows = Rows(1, 1, 1)
    every = Every(k=3, stages=[rows])

    for _ in range(8):
        every(batch())

    assert rows.calls == 2  # calls 3 and 6


def test_what_every_runs_leaves_the_batch_alone():
    given = batch()

    result = Every(k=1, stages=[Add()])(given)

    assert result is given
    assert reward(result) == [1.0]


def test_every_counts_its_calls_in_a_buffer_so_that_a_checkpoint_knows_them():
    every = Every(k=2, stages=[Rows(1)])
    every(batch())
    again = Every(k=2, stages=[rows := Rows(1)])

    again.load_state_dict(every.state_dict())
    again(batch())

    assert every.state_dict()["calls"].item() == 1
    assert rows.calls == 1


def test_a_branch_leaves_the_batch_alone():
    given = batch()

    result = Branch(stages=[Add(), Double()])(given)

    assert result is given
    assert reward(result) == [1.0]


def test_the_stages_of_a_branch_see_the_batch_and_one_another():
    seen = []

    class Look(Component):
        reads = ("reward",)

        def forward(self, batch):
            seen.append(batch["reward"].item())
            return batch

    Branch(stages=[Add(), Look()])(batch())

    assert seen == [2.0]


def test_no_component_of_ours_leaks_out_of_a_branch():
    # A shallow copy shares its tensors: a component that wrote into one in place would show here.
    from components.advantage.group import GroupMean
    from components.kl import KLInReward
    from components.kl_controller import FixedKL
    from components.old_log_probs import RolloutLogProbs
    from rlcomp.testing.batch import example_batch

    kl = KLInReward(controller=FixedKL(kl_coef=0.5), estimator="k1")
    stages = [RolloutLogProbs(), kl, GroupMean()]
    keys = {key for stage in stages for key in stage.reads}
    given = example_batch(sorted(keys))
    before = given.clone()

    result = Branch(stages=stages)(given)

    assert set(result.keys()) == set(before.keys())
    for key in before.keys():
        assert torch.equal(result[key], before[key]), key


def test_refill_goes_on_until_there_are_enough_rows():
    rows = Rows(2, 0, 2, 2)

    result = Refill(rows=4, stages=[rows])(empty_batch())

    assert rows.calls == 3
    assert reward(result) == [1.0, 1.0, 3.0, 3.0]


def test_refill_keeps_groups_apart():
    result = Refill(rows=4, stages=[Rows(2, 2)])(empty_batch())

    assert result["group_id"].tolist() == [0, 0, 1, 1]


def test_refill_cuts_to_exactly_the_rows_asked_for():
    assert Refill(rows=2, stages=[Rows(6)])(empty_batch()).shape == (2,)


def test_refill_never_cuts_a_group_in_two():
    with pytest.raises(FlowError, match="rows=3 cuts a group in two; use a multiple of group_size"):
        Refill(rows=3, stages=[Rows(4)])(empty_batch())


class TwoRoles(Component):
    """A new batch: a group of four rows, and one of three."""

    writes = ("group_id",)
    fresh = True

    def forward(self, batch):
        return make_batch(group_id=torch.tensor([0] * 4 + [1] * 3))


@pytest.mark.parametrize(("rows", "kept"), [(4, 4), (5, 7), (7, 7), (8, 11), (11, 11)])
def test_refill_keeps_the_last_group_whole_where_groups_differ_in_size(rows, kept):
    result = Refill(rows=rows, stages=[TwoRoles()])(empty_batch())

    assert result["group_id"].tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3][:kept]


def test_refill_may_end_with_a_group():
    assert Refill(rows=4, stages=[Rows(6)])(empty_batch())["group_id"].tolist() == [0, 0, 1, 1]


def test_refill_gives_up_with_what_there_is_and_says_what_to_change():
    with pytest.warns(
        RlcompWarning,
        match=r"2 of 4 rows after max_tries=3 rounds \(kept_fraction 100%\); raise max_tries",
    ):
        result = Refill(rows=4, stages=[Rows(2, 0, 0, 2)], max_tries=3)(empty_batch())

    assert result["group_id"].tolist() == [0, 0]


def test_refill_without_a_row_has_nothing_to_hand_on():
    with pytest.raises(NoRows, match="0 of 4 rows after max_tries=2 rounds"):
        Refill(rows=4, stages=[Rows(0, 0)], max_tries=2)(empty_batch())


def test_refill_records_how_many_rounds_it_took():
    with recording() as ledger:
        Refill(rows=4, stages=[Rows(2, 2)])(empty_batch())

    assert ledger.means() == {"refill/tries": 2.0, "refill/kept_fraction": 1.0}


def test_a_single_row_that_is_kept_is_all_of_them():
    with recording() as ledger:
        Refill(rows=1, stages=[Rows(1)])(empty_batch())

    assert ledger.means() == {"refill/tries": 1.0, "refill/kept_fraction": 1.0}


class Judged(Component):
    """A new batch of groups of two answers, right or wrong as listed, one list per call."""

    writes = ("correct", "reward_valid", "group_id")
    fresh = True

    def __init__(self, *rounds):
        super().__init__()
        self.rounds = list(rounds)

    def forward(self, batch):
        right = torch.tensor(self.rounds.pop(0), dtype=torch.bool)
        return make_batch(
            correct=right,
            reward_valid=torch.ones_like(right),
            group_id=torch.arange(len(right)) // 2,
        )


class Mixed(Component):
    """Drops the groups of two with one verdict."""

    reads = ("correct",)
    drops_rows = True

    def forward(self, batch):
        pairs = batch["correct"].view(-1, 2)
        differ = pairs[:, 0] != pairs[:, 1]
        record("filter/even_fraction", float((~differ).float().mean()))
        return batch[differ.repeat_interleave(2)]


def test_without_rows_refill_wants_what_the_first_round_had_before_it_was_filtered():
    rounds = Judged([1, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0])

    result = Refill(stages=[rounds, Mixed()])(empty_batch())

    # 2 rows are left of the first round's 4, none of the second's, 4 of the third's: cut to 4.
    assert result["correct"].tolist() == [False, True, False, True]
    assert result["group_id"].tolist() == [0, 0, 1, 1]


def test_refill_records_what_became_of_the_rows_it_made():
    rounds = Judged([1, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1])

    with recording() as ledger:
        Refill(stages=[rounds, Mixed()])(empty_batch())

    # 12 rows made, 4 kept; the filter dropped half of the first round, all, and half again.
    assert ledger.means() == pytest.approx(
        {
            "refill/tries": 3.0,
            "refill/kept_fraction": 4 / 12,
            "filter/even_fraction": (0.5 + 1.0 + 0.5) / 3,
        }
    )


def test_a_refill_that_fails_quotes_what_its_own_filters_recorded():
    rounds = Judged([1, 1, 1, 1], [0, 0, 1, 1])

    with recording() as ledger:
        record("filter/even_fraction", 0.0)  # of another stage, before
        with pytest.raises(NoRows, match=r"\(kept_fraction 0%, filter/even_fraction 100%\);"):
            Refill(stages=[rounds, Mixed()], max_tries=2)(empty_batch())

    assert ledger.means()["filter/even_fraction"] == pytest.approx(2 / 3)


def test_outside_a_run_too_a_refill_that_fails_says_why():
    rounds = Judged([1, 1, 1, 1], [0, 0, 0, 0])

    with pytest.raises(NoRows, match=r"0 of 4 rows .* filter/even_fraction 100%\)"):
        Refill(stages=[rounds, Mixed()], max_tries=2)(empty_batch())


def test_refill_cuts_no_group_whose_rows_stand_apart():
    class Interleaved(Component):
        writes = ("group_id",)
        fresh = True

        def forward(self, batch):
            return make_batch(group_id=[0, 1, 0, 1])

    with pytest.raises(FlowError, match="cuts a group in two"):
        Refill(rows=2, stages=[Interleaved()])(empty_batch())


@given(st.lists(st.lists(st.booleans(), min_size=8, max_size=8), min_size=1, max_size=5))
def test_refill_gives_whole_varied_groups_or_none(rounds):
    refill = Refill(stages=[Judged(*rounds), Mixed()], max_tries=len(rounds))
    wanted = [a for verdicts in rounds for a in zip(verdicts[::2], verdicts[1::2], strict=True)]
    wanted = [pair for pair in wanted if pair[0] != pair[1]]

    if not wanted:
        with pytest.raises(NoRows, match="0 of 8 rows"):
            refill(empty_batch())
        return
    few = pytest.warns(RlcompWarning, match=f"{2 * len(wanted)} of 8 rows")
    with few if len(wanted) < 4 else nullcontext():
        pairs = refill(empty_batch())["correct"].view(-1, 2)
    assert [tuple(pair) for pair in pairs.tolist()] == wanted[:4]


def test_refill_gives_every_round_the_batch_it_was_given():
    assert reward(Refill(rows=2, stages=[Add()])(batch())) == [2.0, 2.0]


def test_a_stage_without_its_key_says_what_the_batch_has():
    with pytest.raises(KeyError, match=r"Add reads 'reward' .*, the batch has \['value'\]"):
        Sequence(stages=[Add()])(make_batch(value=torch.ones(1)))
