import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ConfigError, ShapeError
from rlcomp.metrics import (
    end_phase,
    keep_best,
    merge,
    nested_recording,
    progress,
    record,
    record_sample,
    record_total,
    recording,
    step,
)


def test_outside_a_run_nothing_happens():
    record("reward/mean", 1.0)
    record_sample(prompt="a")

    assert progress() == 0.0


def test_the_mean_of_a_metric_weighs_every_observation_the_same():
    with recording() as ledger:
        record("x/y", torch.tensor([1.0, 2.0, 3.0]))
        record("x/y", 10.0)

    # (1 + 2 + 3 + 10) / 4
    assert ledger.means() == {"x/y": 4.0}


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=10), st.integers(0, 10))
def test_splitting_the_observations_changes_no_mean(values, cut):
    with recording() as whole:
        record("x/y", torch.tensor(values, dtype=torch.float64))
    with recording() as split:
        record("x/y", torch.tensor(values[:cut], dtype=torch.float64))
        record("x/y", torch.tensor(values[cut:], dtype=torch.float64))

    assert split.means()["x/y"] == pytest.approx(whole.means()["x/y"], abs=1e-9)


def test_what_the_mask_leaves_out_does_not_count_even_nan():
    with recording() as ledger:
        record("x/y", torch.tensor([1.0, float("nan")]), where=torch.tensor([True, False]))

    assert ledger.means() == {"x/y": 1.0}


def test_a_metric_never_seen_is_not_logged():
    with recording() as ledger:
        record("x/y", torch.tensor([1.0]), where=torch.tensor([False]))

    assert ledger.means() == {}


def test_recording_with_a_prefix_hands_on_to_the_run():
    with recording() as outer, recording("eval/"):
        record("x/y", 2.0)
        record_sample(prompt="a")

    assert outer.means() == {"eval/x/y": 2.0}
    assert outer.samples == [{"prompt": "a"}]


def test_recording_without_a_prefix_keeps_to_itself():
    with recording() as outer, recording() as inner:
        record("x/y", 2.0)
        record("x/z", torch.tensor(3.0))

    assert outer.means() == {}
    assert inner.means() == {"x/y": 2.0, "x/z": 3.0}


def test_progress_is_seen_from_inside():
    with recording(progress=0.25), recording("eval/"):
        assert progress() == 0.25


def test_a_ledger_of_another_process_is_merged():
    with recording() as theirs:
        record("x/mean", torch.tensor([1.0, 3.0]))
        record_total("x/tokens", 5)
        record_sample(prompt="p")

    with recording() as ours:
        record("x/mean", torch.tensor([7.0]))
        record_total("x/tokens", 2)
        merge(pickle.loads(pickle.dumps(theirs)))

    # (1 + 3 + 7) / 3 observations; amounts add up.
    assert ours.means() == {"x/mean": pytest.approx(11 / 3), "x/tokens": 7.0}
    assert ours.samples == [{"prompt": "p"}]


@pytest.mark.parametrize("mean_first", [True, False])
def test_a_name_is_a_mean_or_an_amount_and_never_both(mean_first):
    told = r"metric 'x/y' is recorded both as a mean \(record\) and as an amount"
    kinds = [record, record_total] if mean_first else [record_total, record]
    with recording():
        kinds[0]("x/y", 3.0)
        with pytest.raises(ConfigError, match=told):
            kinds[1]("x/y", 4.0)


@pytest.mark.parametrize("mean_first", [True, False])
def test_a_mean_is_not_merged_into_an_amount(mean_first):
    kinds = [record, record_total] if mean_first else [record_total, record]
    with recording() as theirs:
        kinds[1]("x/y", 4.0)

    with recording() as ours:
        kinds[0]("x/y", 3.0)
        with pytest.raises(ConfigError, match="'x/y'"):
            merge(theirs)

    assert ours.means() == {"x/y": 3.0}


def test_merging_outside_a_run_does_nothing():
    with recording() as theirs:
        record("x/mean", 1.0)

    merge(theirs)

    assert theirs.means() == {"x/mean": 1.0}


def test_the_ledger_outside_comes_back_after_an_error():
    with recording() as outer:
        with pytest.raises(RuntimeError), recording("eval/"):
            raise RuntimeError
        record("x/y", 1.0)

    assert outer.means() == {"x/y": 1.0}


def test_a_value_with_gradient_is_recorded_without_it():
    value = torch.tensor(2.0, requires_grad=True)
    with recording() as ledger:
        record("x/y", value)

    assert ledger.means() == {"x/y": 2.0}


def test_a_total_is_summed_over_the_step_and_not_averaged():
    with recording() as ledger:
        for tokens in (56.0, 40.0):
            record_total("rollout/tokens", tokens)

    assert ledger.means() == {"rollout/tokens": 96.0}


@pytest.mark.parametrize("where", [torch.tensor([1, 0, 1]), torch.tensor([True, False])])
def test_what_counts_is_a_mask_of_the_same_shape(where):
    # As indices [1, 0, 1] would take 20, 10, 20.
    with recording(), pytest.raises(ShapeError, match=r"record\('a/b'\): where is torch"):
        record("a/b", torch.tensor([10.0, 20.0, 30.0]), where=where)


def ask(**changed):
    keep_best(**({"metric": "a/b", "better": "higher", "value": 0.5} | changed))


def test_what_a_part_asks_of_the_loop_reaches_it_from_within():
    with recording() as run:
        with nested_recording():
            ask()
        with recording("eval/"):
            end_phase("enough")

    assert run.best == {"metric": "a/b", "better": "higher", "value": 0.5}
    assert run.ended == "enough"


def test_with_a_prefix_the_best_is_that_of_the_metric_as_it_is_logged():
    with recording() as run, recording("eval/"):
        ask()

    assert run.best["metric"] == "eval/a/b"


def test_the_first_reason_of_a_step_stays_the_first():
    with recording() as run:
        end_phase("first")
        with nested_recording():
            end_phase("second")

    assert run.ended == "first"


def test_what_ends_no_phase_and_is_no_best_leaves_none():
    with recording() as run:
        ask()
        with nested_recording():
            record("a/b", 1.0)

    assert run.best["value"] == 0.5
    assert run.ended is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"value": torch.tensor(0.5)}, r"value of a/b is tensor.*must be a finite number"),
        ({"value": float("nan")}, "value of a/b is nan: must be a finite number"),
        ({"value": True}, "value of a/b is True"),
        ({"metric": ""}, "keep_best: metric is ''"),
        ({"metric": None}, "keep_best: metric is None"),
        ({"better": "more"}, "better is 'more': must be 'higher' or 'lower'"),
    ],
)
def test_a_best_step_that_nobody_could_read_is_refused(changed, told):
    with pytest.raises(ConfigError, match=told):
        ask(**changed)


@pytest.mark.parametrize("reason", ["", None, 3])
def test_an_end_without_a_reason_is_refused(reason):
    with pytest.raises(ConfigError, match="end_phase: reason is"):
        end_phase(reason)


def test_the_steps_of_the_run_are_those_of_the_context_and_of_those_inside():
    assert step() == 0
    with recording(step=7, progress=0.5):
        with recording(), nested_recording():
            assert (step(), progress()) == (7, 0.5)
        with recording(step=0):
            assert step() == 0
