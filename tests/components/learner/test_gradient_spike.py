import logging
from functools import partial

import pytest
import torch

from components.learner.anomaly import MedianSpike, SkipNonFinite
from components.learner.gradient import Learner
from rlcomp.component import Component
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

TAKEN = {
    "count": "",
    "warn": "the optimiser step is taken, with clipping if it is set",
    "skip": "the optimiser step is skipped",
}


def told(spike, *norms):
    return [spike.is_spike(norm) for norm in norms]


def test_a_norm_above_the_factor_times_the_median_of_a_full_window_is_a_spike():
    spike = MedianSpike(factor=3.0, window=3, action="count")

    # 100 comes before the window is full; then the medians are 2 and 2 and 4.
    assert told(spike, 1.0, 100.0, 2.0, 6.0) == [False, False, False, False]
    # The last three are 100, 2, 6: 18 is three times 6, not above; then 2, 6, 18 and 6, 18, 18.1.
    assert told(spike, 18.0, 18.1, 54.1) == [False, True, True]


def test_a_lasting_change_of_scale_becomes_the_median():
    spike = MedianSpike(factor=2.0, window=3, action="skip")

    assert told(spike, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0) == [False, False, False, True, True, False]


def test_steps_without_a_gradient_do_not_count():
    spike = MedianSpike(factor=2.0, window=2, action="count")

    assert told(spike, 0.0, 0.0, 0.0, 5.0, 1.0, 0.0, 4.0) == [False] * 7  # the median is 3
    assert told(spike, 0.0, 5.1) == [False, True]  # of 1 and 4: 2.5


def test_the_window_goes_along_with_a_checkpoint():
    one = MedianSpike(factor=2.0, window=2, action="count")
    told(one, 7.0, 1.0, 3.0)
    other = MedianSpike(factor=2.0, window=2, action="count")

    other.load_run_state(one.run_state())

    assert other.run_state() == {"norms": [1.0, 3.0]}
    assert told(other, 4.1) == [True]


@pytest.mark.parametrize(("action", "said"), [("count", 0), ("warn", 1), ("skip", 1)])
def test_the_warning_about_a_spike(action, said, caplog):
    caplog.set_level(logging.WARNING)

    told(MedianSpike(factor=2.0, window=2, action=action), 1.0, 3.0, 8.0)

    # The norms 1 and 3 have the median 2. Outside a run every step is the first.
    wanted = (
        f"step 1: the gradient norm 8 is 4 times its median, more than factor=2: {TAKEN[action]}"
    )
    assert [message.partition(";")[0] for message in caplog.messages] == [wanted] * said


class Scaled(Component):
    """The reward times a weight: the gradient of its mean is the mean reward."""

    reads = ("reward",)
    writes = ("value",)

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, batch):
        batch["value"] = (self.weight * batch["reward"])[:, None]
        return batch


class MeanValue(RowLoss):
    reads = ("value",)

    def forward(self, batch):
        batch = self.weighted(batch)
        return scalars(loss=(batch["value"][:, 0] * batch["row_weight"]).sum())


def learner(action):
    return Learner(
        model=Scaled(),
        losses={"mean": MeanValue()},
        optimizer=partial(torch.optim.SGD, lr=1.0),
        max_grad_norm=None,
        non_finite=SkipNonFinite(),
        gradient_spike=MedianSpike(factor=2.0, window=2, action=action),
    )


def rows(reward):
    return make_batch(reward=torch.full((2,), reward), attention_mask=torch.ones(2, 1).bool())


@pytest.mark.parametrize(("action", "moved"), [("count", 8.0), ("warn", 8.0), ("skip", 0.0)])
def test_a_spike_is_counted_and_its_step_taken_or_skipped(action, moved):
    made = learner(action)
    made(rows(1.0))
    made(rows(1.0))
    before = made.model.weight.item()

    with recording() as ledger:
        made(rows(8.0))

    assert ledger.means()["learner/gradient_spikes"] == 1.0
    assert ledger.means()["learner/non_finite"] == 0.0
    assert ("loss/mean" in ledger.means()) == (moved > 0)
    assert before - made.model.weight.item() == moved


def test_an_ordinary_step_is_counted_as_none():
    made = learner("skip")

    with recording() as ledger:
        made(rows(1.0))

    assert ledger.means()["learner/gradient_spikes"] == 0.0


def test_skipped_spikes_do_not_stop_the_run():
    made = learner("skip")
    made(rows(1.0))

    for reward in (1.0, 4.0, 40.0, 400.0, 4000.0):
        made(rows(reward))

    assert made.non_finite.in_a_row == 0
