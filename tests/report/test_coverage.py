import json

import pytest

from rlcomp.errors import DataError
from rlcomp.functional.coverage import Crossing
from rlcomp.report.coverage import ProblemCounts, compare, read_counts
from rlcomp.report.figures import coverage_figure

ROW = {"total": 5, "evaluator": "coverage", "problem": "a", "n": 4, "c": 2, "d": 1, "level": "6"}


def run(tmp_path, *rows):
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_counts_are_those_of_one_evaluation(tmp_path):
    other = ROW | {"problem": "b", "c": 0, "d": None, "level": None}
    rows = [ROW, ROW | {"evaluator": "train"}, {"prompt": "x"}, other, ROW | {"total": 9, "c": 3}]
    directory = run(tmp_path, *rows)

    assert read_counts(directory) == {"a": ProblemCounts(4, 3, 1, "6")}
    assert read_counts(directory, total=5) == {
        "a": ProblemCounts(4, 2, 1, "6"),
        "b": ProblemCounts(4, 0, None, None),
    }


def test_as_many_answers_as_binomials_are_made_of_in_time(tmp_path):
    assert read_counts(run(tmp_path, ROW | {"n": 100_000}))["a"].n == 100_000


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"evaluator": "other"}, "no counts of the evaluator 'other'; check that it ran"),
        ({"total": 6}, r"after step 6, only after \[5\]"),
    ],
)
def test_a_missing_evaluation_is_refused(tmp_path, asked, told):
    with pytest.raises(DataError, match=told):
        read_counts(run(tmp_path, ROW), **asked)


@pytest.mark.parametrize(
    "changed",
    [
        {"total": "5"},
        {"problem": 7},
        {"n": 4.5},
        {"c": -1},
        {"c": 5},
        {"d": 3},
        {"level": 6},
        {"n": 100_001},
    ],
)
def test_counts_that_no_run_wrote_are_refused(tmp_path, changed):
    with pytest.raises(DataError, match="counts of"):
        read_counts(run(tmp_path, ROW | changed))


def counted(*counts, n=8, level=None):
    return {f"p{i}": ProblemCounts(n, c, max(c - 1, 0), level) for i, c in enumerate(counts)}


def test_a_policy_that_is_surer_and_narrower_crosses():
    # Half of the problems always, half never, against one of eight everywhere: at k = 1 .5 against
    # .125, at k = 8 .5 against 1. 40 problems: a standard error of .08.
    base, trained = counted(*[1] * 40), counted(*[8, 0] * 20)

    found = compare(base, trained)

    assert [point.k for point in found.difference] == [1, 2, 4, 8]
    means = [point.mean for point in found.difference]
    assert means == pytest.approx([3 / 8, 1 / 4, 0.0, -1 / 2])
    assert [point.mean for point in found.base] == pytest.approx([1 / 8, 1 / 4, 1 / 2, 1])
    assert [point.mean for point in found.trained] == [0.5] * 4
    assert found.crossings == [Crossing(2, 8, True)]
    assert found.problems == 40


def test_only_problems_of_both_runs_and_of_the_level_count():
    base = counted(1, 2, level="4") | {
        "hard": ProblemCounts(8, 0, 0, "6"),
        "lost": ProblemCounts(8, 8, 8, "6"),
    }
    trained = counted(2, 4) | {"hard": ProblemCounts(6, 3, 0, "6")}

    assert compare(base, trained).problems == 3
    assert compare(base, trained, level="4").base[0].mean == pytest.approx(3 / 16)
    hard = compare(base, trained, level="6")
    assert (hard.problems, hard.trained[0].mean) == (1, 0.5)
    assert [point.k for point in hard.difference] == [1, 2, 4, 6]


def test_the_reasoning_may_count():
    found = compare(counted(3), counted(5), right="reasoning")

    assert (found.base[0].mean, found.trained[0].mean) == (2 / 8, 4 / 8)


def test_incomparable_evaluations_are_refused():
    with pytest.raises(DataError, match="no problem in common"):
        compare(counted(1), {"other": ProblemCounts(8, 1, 1, None)})
    with pytest.raises(DataError, match="no problem of level '9'"):
        compare(counted(1), counted(1), level="9")
    with pytest.raises(DataError, match="the reasoning was not judged"):
        compare(
            {"p": ProblemCounts(8, 1, None, None)},
            {"p": ProblemCounts(8, 1, None, None)},
            right="reasoning",
        )


def test_the_picture_has_both_curves_and_their_crossing(tmp_path):
    found = compare(counted(*[1] * 40), counted(*[8, 0] * 20))

    figure = coverage_figure({"all $problems$": found, "again": found})

    panels = figure.axes
    assert [axes.get_title() for axes in panels] == [
        "all $problems$ (40 problems)",
        "again (40 problems)",
    ]
    assert [tick.get_text() for tick in panels[0].get_xticklabels()] == ["1", "2", "4", "8"]
    assert figure.get_figwidth() > 1.8 * coverage_figure({"all": found}).get_figwidth()
    base, trained, crossing = panels[0].get_lines()
    assert base.get_ydata() == pytest.approx([1 / 8, 1 / 4, 1 / 2, 1])
    assert list(trained.get_xdata()) == [1, 2, 4, 8]
    assert [line.get_label() for line in (base, trained)] == ["base", "trained"]
    assert crossing.get_xdata()[0] == 4  # between 2 and 8, on a logarithmic axis
    assert crossing.get_linestyle() == "-"
    figure.savefig(tmp_path / "coverage.png")


def test_a_crossing_that_may_be_chance_is_dotted():
    found = compare(counted(2, 2, 2), counted(8, 0, 0))

    assert found.crossings[0].significant is False
    assert coverage_figure({"few": found}).axes[0].get_lines()[2].get_linestyle() == ":"
