"""A sentence an arm, and the digits in it."""

import pytest

from rlcomp.report.findings import (
    headline_metric,
    judge_difference,
    short_names,
    write_verdict_sentences,
)
from rlcomp.report.groups import group_runs
from rlcomp.report.runs import find_runs
from rlcomp.report.statistics import (
    MeanEstimate,
    format_estimate,
    format_number,
    round_to_interval,
)
from rlcomp.report.tables import results


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        # The last digit is worth a twentieth to a half of the half width: for 0.006 a thousandth.
        (0.0024, 0.006, "0.002"),
        (0.0024, 0.0021, "0.002"),
        (0.0024, 0.0019, "0.0024"),
        (0.0024, 0.0199, "0.002"),
        (0.0024, 0.02, "0.00"),
        (-0.0024, 0.02, "0.00"),
        (-0.0251, 0.02, "−0.03"),
        (51234.0, 300.0, "51,200"),
        (51234.0, 30.0, "51,230"),
        (3.0, 12.7, "3"),
        (0.5, 0.0, "0.5"),
        (1.2345e-9, 2e-11, "1.23e−09"),
        (0.0, 2e-11, "0e+00"),
    ],
)
def test_as_many_digits_as_the_interval_supports(value, half, text):
    assert round_to_interval(value, half) == text


def test_a_difference_shows_its_sign():
    assert round_to_interval(0.0024, 0.006, sign=True) == "+0.002"
    assert round_to_interval(-0.0024, 0.006, sign=True) == "−0.002"
    assert round_to_interval(0.5, 0.0, sign=True) == "+0.5"
    assert round_to_interval(0.0, 0.0, sign=True) == "0"
    assert round_to_interval(1500.4, 0.0, sign=True) == "+1,500"


def test_numbers_without_an_interval():
    assert [format_number(value) for value in (0.031256, -1234.5, 1000, None)] == [
        "0.03126",
        "−1,234",
        "1,000",
        "",
    ]


def test_an_estimate_in_words():
    assert format_estimate(MeanEstimate(0.5123, 0.5003, 0.5243, 3)) == "0.512 ± 0.012"
    assert format_estimate(MeanEstimate(0.5123, None, None, 1)) == "0.5123"
    assert format_estimate(MeanEstimate(0.25, 0.25, 0.25, 3)) == "0.25 ± 0"
    assert format_estimate(MeanEstimate(0.5, 0.25, 0.75, 3), sign=True) == "+0.5 ± 0.2"
    assert format_estimate(None) == ""


@pytest.mark.parametrize(
    ("ends", "direction", "judgement"),
    [
        ((-0.1, 0.2), "higher", "no difference"),
        ((0.0, 0.2), "higher", "no difference"),
        ((-0.2, 0.0), "lower", "no difference"),
        ((0.1, 0.2), "higher", "better"),
        ((0.1, 0.2), "lower", "worse"),
        ((-0.2, -0.1), "higher", "worse"),
        ((-0.2, -0.1), "lower", "better"),
        ((0.1, 0.2), "", "higher"),
        ((-0.2, -0.1), "", "lower"),
        ((None, None), "higher", "unknown"),
    ],
)
def test_judgements_of_intervals(ends, direction, judgement):
    assert judge_difference(MeanEstimate(0.0, *ends, 2), direction) == judgement


def said(folder, metric="reward/mean", control=0):
    groups = group_runs(find_runs([str(folder)]))
    rows = results(groups, [metric], groups[control])
    return [
        (one.sentence, one.judgement)
        for one in write_verdict_sentences(groups, rows, groups[control], metric)
    ]


@pytest.fixture
def arms(make_run, tmp_path):
    """Writes arms: last values by seed."""

    def write(metric="reward/mean", **ends):
        for name, values in ends.items():
            for seed, value in values.items():
                make_run(
                    f"{name}{seed}", [{metric: value}], seed=seed, overrides=[f"p={name}"], p=name
                )
        return tmp_path

    return write


def test_an_arm_that_differs_is_better_and_one_that_may_not_is_not(arms):
    # b: 0.3 and 0.5 above; their mean 0.4, s / sqrt(2) = 0.1, t(1) = 12.706: -0.87 to 1.67.
    # c: 0.5 above both times.
    folder = arms(a={0: 0.25, 1: 0.25}, b={0: 0.55, 1: 0.75}, c={0: 0.75, 1: 0.75})

    assert said(folder) == [
        ("b − a = +0.4, 95 % −0.9 to 1.7, n = 2: no difference seen", "no difference"),
        ("c − a = +0.5, 95 % 0.5 to 0.5, n = 2: c is better", "better"),
    ]
    assert said(folder, control=2)[0] == (
        "a − c = −0.5, 95 % −0.5 to −0.5, n = 2: a is worse",
        "worse",
    )


def test_where_lower_is_better_more_is_worse(arms):
    folder = arms("rollout/truncated", a={0: 0.25, 1: 0.25}, b={0: 0.75, 1: 0.75})
    assert said(folder, "rollout/truncated")[0][1] == "worse"


def test_where_neither_is_better_an_arm_is_higher(arms):
    folder = arms("rollout/length", a={0: 1.0, 1: 2.0}, b={0: 3.0, 1: 4.0})

    assert said(folder, "rollout/length") == [
        ("b − a = +2, 95 % 2 to 2, n = 2: b is higher", "higher")
    ]


def test_one_seed_has_no_interval_and_no_judgement(arms):
    folder = arms(a={0: 0.25}, b={0: 0.5, 1: 0.75})

    assert said(folder) == [("b − a = +0.25, n = 1 (one seed: no interval)", "unknown")]


def test_incomparable_arms_have_a_reason(arms, make_run):
    folder = arms(a={0: 0.25}, b={1: 0.5})
    make_run("c0", [{"reward/mean": 1.0}], steps=5, overrides=["p=c"], p="c")

    assert said(folder) == [
        ("b − a: no seed in common", "unknown"),
        ("c − a: no finished run of c has the metric", "unknown"),
    ]


def test_a_single_group_has_its_final_value(arms):
    # The mean of 0.5 and 0.7, t(1) s / sqrt(2) = 12.706 * 0.1.
    assert said(arms(a={0: 0.5, 1: 0.7})) == [
        ("a0: reward/mean = 0.6, 95 % −0.7 to 1.9, n = 2", "unknown")
    ]


def test_sentences_are_about_the_hypervolume_where_there_is_one(arms):
    folder = arms(a={0: 0.5})
    groups = group_runs(find_runs([str(folder)]))
    (row, _) = results(groups, ["reward/mean"], groups[0])
    volume = row.__class__("a", "evaluation/hypervolume", "final", row.value, None)

    assert headline_metric([row]) == "reward/mean"
    assert headline_metric([row, volume]) == "evaluation/hypervolume"
    assert headline_metric([]) is None


def test_names_are_short_where_one_setting_differs():
    assert short_names(["a=1", "a=2"]) == ["1", "2"]
    assert short_names(["a=1", "b=2"]) == ["a=1", "b=2"]
    assert short_names(["a=1 b=1", "a=2 b=1"]) == ["a=1 b=1", "a=2 b=1"]
    assert short_names(["a=1"]) == ["a=1"]


def test_a_control_arm_without_the_metric_is_named(arms, make_run):
    folder = arms(b={0: 0.5}, c={0: 0.75})
    make_run("a0", [{"loss": 1.0}], seed=0, overrides=["p=a"], p="a")
    groups = group_runs(find_runs([str(folder)]))
    names = [group.name for group in groups]
    control = next(index for index, name in enumerate(names) if name.endswith("a"))

    assert said(folder, control=control) == [
        ("b − a: no finished run of a has the metric", "unknown"),
        ("c − a: no finished run of a has the metric", "unknown"),
    ]


def test_the_noise_of_equal_numbers_is_no_width():
    assert round_to_interval(0.4, 4e-16) == "0.4"
    assert round_to_interval(0.4, 4e-10) == "4.000000000e−01"
