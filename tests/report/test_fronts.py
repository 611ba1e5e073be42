"""Fronts in the report: from hand-made runs whose points are known."""

import csv
import json
import re
import sys

import numpy as np
import pytest

from rlcomp.cli.report import report
from rlcomp.errors import ConfigError, DataError
from rlcomp.report.charts import run_front, sweep_front
from rlcomp.report.figures import ON_FRONT, run_figure
from rlcomp.report.fronts import ALL, compute_fronts
from rlcomp.report.groups import group_runs
from rlcomp.report.returns import (
    evaluation_path,
    final_returns,
    objectives_of,
    returns_by_preference,
)
from rlcomp.report.runs import find_runs
from rlcomp.report.summary import summarise

HOSTILE = "</script><script>alert(1)</script> $a_b$"


def returns(label="", **objectives):
    return {f"evaluation/return/{name}{label}": value for name, value in objectives.items()}


CONDITIONED = {
    **returns(a=0.4, b=0.4),
    **returns("@0:1", a=0.0, b=1.0),
    **returns("@0.5:0.5", a=0.6, b=0.6),
    **returns("@1:0", a=0.5, b=0.5),
}


def scattered(axes):
    """Points of every cloud, by its label ("_child..." for those without)."""
    return {cloud.get_label(): cloud.get_offsets().tolist() for cloud in axes.collections}


def told(axes):
    return {note.get_text(): [*note.xy] for note in axes.texts}


@pytest.fixture
def swept(make_run, tmp_path):
    """w = 0, 1, 2 with two seeds each: (1, 3), (2, 2) and, dominated, (1, 1), on average."""
    for w, points in enumerate([((1, 2), (1, 4)), ((2, 2), (2, 2)), ((0, 1), (2, 1))]):
        for seed, (a, b) in enumerate(points):
            rows = [returns(a=0.0, b=0.0), returns(a=a, b=b)]
            make_run(f"{w}{seed}", rows, seed=seed, overrides=[f"m.w.a={w}"], m={"w": {"a": w}})
    return tmp_path


def fronts(folder, along=""):
    return compute_fronts(group_runs(find_runs([str(folder)])), along)


def test_objectives_exclude_interval_ends_and_preferences():
    row = {**returns(a=1.0, a_low=0.5, a_high=2.0, low=3.0), **returns("@1:0", a=1.0)}

    assert objectives_of([{"evaluation/return": 1.0}, row]) == ("a", "low")


def test_the_way_of_a_run_leaves_out_what_was_not_measured():
    rows = [
        {"total": 1, **returns(a=1.0, b=2.0)},
        {"total": 2},
        {"total": 3, **returns(a=None, b=2.0)},
        {"total": 4, **returns(a=3.0, b=4.0)},
    ]

    steps, points = evaluation_path(rows, ["a", "b"])

    assert steps.tolist() == [1, 4]
    assert points.tolist() == [[1, 2], [3, 4]]
    assert evaluation_path([], ["a", "b"])[1].shape == (0, 2)


def test_a_conditioned_run_ends_in_its_last_returns_for_every_preference():
    rows = [{"total": 1, **returns("@0:1", a=9.0, b=9.0)}, {"total": 2, **CONDITIONED}]

    found = {
        label: point.tolist() for label, point in returns_by_preference(rows, ["a", "b"]).items()
    }

    assert found == {"0:1": [0, 1], "0.5:0.5": [0.6, 0.6], "1:0": [0.5, 0.5]}
    assert list(final_returns(rows, ["a", "b"])) == list(found)
    assert list(final_returns(rows[:0], ["a", "b"])) == []


def test_one_objective_has_no_front(make_run, tmp_path):
    make_run("0", [returns(a=1.0)])

    assert fronts(tmp_path) is None


def test_means_over_seeds_are_compared(swept):
    found = fronts(swept)

    assert found.names == ("a", "b")
    shown = {point.family: (point.mean.tolist(), point.on_front) for point in found.points}
    assert shown == {
        "m.w.a=0": ([1, 3], True),
        "m.w.a=1": ([2, 2], True),
        "m.w.a=2": ([1, 1], False),
    }


def test_hypervolume_is_a_mean_over_seeds(swept):
    qualities = {row.family: row.hypervolume for row in fronts(swept).qualities}

    # Boxes of 1 * 2 and 1 * 4; of 2 * 2 twice; of 0 * 1 and 2 * 1.
    assert qualities["m.w.a=0"].mean == 3.0
    # t(1) = 12.7062, and s / sqrt(2) = 1.
    assert qualities["m.w.a=0"].low == pytest.approx(3 - 12.7062, abs=1e-4)
    assert qualities["m.w.a=0"].high == pytest.approx(3 + 12.7062, abs=1e-4)
    assert qualities["m.w.a=1"].mean == 4.0
    assert qualities["m.w.a=2"].mean == 1.0
    # Seed 0: all lie under (2, 2). Seed 1: (1, 4) and (2, 2) make 4 + 2.
    assert (qualities[ALL].mean, qualities[ALL].n) == (5.0, 2)


def test_distances_are_to_the_front_of_all_runs(swept):
    quality = {row.family: row for row in fronts(swept).qualities}

    # That front is (1, 4) and (2, 2). From (1, 2): short of them by (0, 2) and (1, 0); from (1, 4)
    # by (0, 0) and (1, 0).
    assert quality["m.w.a=0"].igd_plus.mean == pytest.approx(((2 + 1) / 2 + (0 + 1) / 2) / 2)
    assert quality["m.w.a=0"].epsilon.mean == pytest.approx((2 + 1) / 2)
    # Together, seed 1 holds the front, from (1, 4) to (2, 2), and seed 0 lacks (1, 4) by (0, 2).
    assert quality[ALL].epsilon.mean == pytest.approx((2 + 0) / 2)
    assert quality[ALL].extent.mean == pytest.approx((0 + np.sqrt(5)) / 2)


def test_groups_that_differ_in_one_setting_make_one_front(swept, make_run):
    for seed in (0, 1):
        more = {"m": {"w": {"a": 0}, "kind": "other"}, "overrides": ["m.kind=other", "m.w.a=0"]}
        make_run(f"other{seed}", [returns(a=3.0, b=1.0)], seed=seed, **more)

    found = fronts(swept, along="m.w")

    assert [row.family for row in found.qualities] == ["m.kind=-", "m.kind=other", ALL]
    assert [row.hypervolume.mean for row in found.qualities[:2]] == [5.0, 3.0]
    assert [point.family for point in found.points] == ["m.kind=-"] * 3 + ["m.kind=other"]


def test_the_reference_point_is_the_evaluators(make_run, tmp_path):
    evaluation = {"evaluation": {"reference_point": {"b": -1.0}}}
    make_run("0", [returns(a=2.0, b=1.0)], **evaluation)

    found = fronts(tmp_path)

    assert found.reference == (0.0, -1.0)
    assert found.qualities[0].hypervolume.mean == 4.0


def test_the_lowest_of_several_reference_points_counts_and_all_are_shown(make_run, tmp_path):
    for name, point in (("0", {"a": 1.0}), ("1", {"b": -1.0}), ("2", {"b": -1.0})):
        evaluation = {"evaluation": {"reference_point": point}}
        make_run(name, [returns(a=2.0, b=1.0)], overrides=[f"w={name}"], w=name, **evaluation)

    found = fronts(tmp_path)

    assert found.references == [(1.0, 0.0), (0.0, -1.0)]
    assert found.reference == (0.0, -1.0)
    # 2 by 2 above (0, -1), for all of them.
    assert [row.hypervolume.mean for row in found.qualities] == [4.0] * 4
    words = "above (0, −1), the lowest of the runs' own reference points (1, 0; 0, −1);"
    assert words in page_of(tmp_path)


def test_a_single_reference_point_is_shown(swept):
    assert "above (0, 0); IGD+" in page_of(swept)


def test_a_run_of_one_objective_does_not_affect_the_reference(make_run, tmp_path):
    make_run("0", [returns(a=2.0, b=1.0)], evaluation={"reference_point": {"b": 0.5}})
    make_run("1", [{"reward/mean": 1.0}], overrides=["w=1"], w=1)

    assert fronts(tmp_path).references == [(0.0, 0.5)]


def test_a_run_that_was_made_twice_counts_once(swept, make_run):
    again = {"seed": 0, "overrides": ["m.w.a=1"], "m": {"w": {"a": 1}}}
    make_run("again", [returns(a=0.0, b=0.0), returns(a=2.0, b=2.0)], **again)

    found = fronts(swept)

    (point,) = [point for point in found.points if point.family == "m.w.a=1"]
    assert point.runs.tolist() == [[2, 2], [2, 2]]
    assert [row.hypervolume.n for row in found.qualities] == [2] * 4
    together = fronts(swept, along="m.w")
    assert [len(point.runs) for point in together.points] == [2, 2, 2]
    assert [row.hypervolume.mean for row in together.qualities] == [5.0]


@pytest.mark.parametrize("along", ["m.v", "m.w.aa", "w"])
def test_fronts_along_an_unknown_setting_are_refused(swept, along):
    with pytest.raises(ConfigError, match=rf"--along: no run has a setting '{along}'.*m\.w"):
        fronts(swept, along)


def test_fronts_along_an_equal_setting_are_the_fronts_without_it(swept):
    assert [row.family for row in fronts(swept, "phases").qualities][:1] == ["m.w.a=0"]


def test_a_reference_point_that_is_no_number_is_refused(make_run, tmp_path):
    evaluation = {"evaluation": {"reference_point": {"b": "low"}}}
    make_run("0", [returns(a=2.0, b=1.0)], **evaluation)

    with pytest.raises(DataError, match=r"evaluation.reference_point.b is 'low'"):
        fronts(tmp_path)


def test_a_run_that_has_not_finished_counts_nowhere(swept, make_run):
    make_run("9", [returns(a=9.0, b=9.0)], steps=2, overrides=["m.w.a=9"], m={"w": {"a": 9}})

    found = fronts(swept)

    assert "m.w.a=9" not in {point.family for point in found.points}
    assert "m.w.a=9" not in {row.family for row in found.qualities}
    assert {row.family: row.hypervolume.mean for row in found.qualities}[ALL] == 5.0
    (everything,) = fronts(swept, along="m.w").qualities
    assert everything.hypervolume.mean == 5.0


def points(panel, kind, of="at"):
    return [point[of] for point in panel["points"] if point["kind"] == kind]


def ringed(panel):
    return [point["at"] for point in panel["points"] if point["ring"]]


def test_a_sweep_is_drawn_with_its_front_ringed(swept):
    (panel,) = sweep_front(fronts(swept))

    assert (panel["x"], panel["y"]) == ("a", "b")
    assert points(panel, "mean") == [[1, 3], [2, 2], [1, 1]]
    assert points(panel, "mean", "label") == ["m.w.a=0", "m.w.a=1", "m.w.a=2"]
    assert points(panel, "mean", "family") == [0, 1, 2]
    assert ringed(panel) == [[1, 3], [2, 2]]
    # The seeds themselves.
    assert points(panel, "run") == [[1, 2], [1, 4], [2, 2], [2, 2], [0, 1], [2, 1]]


def test_the_way_of_a_run_is_a_panel_as_well():
    rows = [{"total": n, **returns(a=n, b=-n)} for n in (1, 5)] + [{"total": 7, **CONDITIONED}]

    (panel,) = run_front(rows, ["a", "b"])

    assert points(panel, "path") == [[1, -1], [5, -5], [0.4, 0.4]]
    assert points(panel, "path", "label") == ["step 1", "step 5", "step 7"]
    assert points(panel, "preference") == [[0, 1], [0.6, 0.6], [0.5, 0.5]]
    assert points(panel, "preference", "label") == ["0:1", "0.5:0.5", "1:0"]
    assert points(panel, "path", "family") == [0] * 3
    assert points(panel, "preference", "family") == [1] * 3
    assert ringed(panel) == [[0, 1], [0.6, 0.6]]


def test_a_run_is_drawn_from_its_first_evaluation_to_its_last():
    rows = [{"total": n, **returns(a=n, b=-n)} for n in (1, 5, 9)]

    (axes,) = run_figure(rows, ["a", "b"]).axes

    assert [[1, -1], [5, -5], [9, -9]] in scattered(axes).values()
    assert told(axes) == {"step 1": [1, -1], "step 9": [9, -9]}
    (cloud,) = axes.collections
    assert cloud.get_array().tolist() == [1, 5, 9]


def test_a_conditioned_run_is_drawn_with_its_last_returns():
    (axes,) = run_figure([{"total": 7, **CONDITIONED}], ["a", "b"]).axes

    assert told(axes) == {
        "step 7": [0.4, 0.4],
        "0:1": [0, 1],
        "0.5:0.5": [0.6, 0.6],
        "1:0": [0.5, 0.5],
    }
    assert scattered(axes)[ON_FRONT] == [[0, 1], [0.6, 0.6]]


def test_three_objectives_are_drawn_two_by_two(make_run, tmp_path):
    # In the first two objectives alone (1, 1, 3) would be dominated.
    make_run("0", [returns(a=1.0, b=1.0, c=3.0)], overrides=["w=0"], w=0)
    make_run("1", [returns(a=2.0, b=2.0, c=2.0)], overrides=["w=1"], w=1)

    panels = sweep_front(fronts(tmp_path))

    assert [(panel["x"], panel["y"]) for panel in panels] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert ringed(panels[0]) == [[1, 1], [2, 2]]
    assert ringed(panels[1]) == [[1, 3], [2, 2]]


def test_nothing_evaluated_is_nothing_drawn(make_run, tmp_path):
    make_run("0", [returns(a=1.0, b=1.0)], steps=5)

    assert run_figure([{"total": 1}], ["a", "b"]) is None
    assert run_front([{"total": 1}], ["a", "b"]) == []
    assert sweep_front(fronts(tmp_path)) == []


def page_of(folder, along=""):
    report([str(folder)], None, None, [], along)
    return (folder / "report.html").read_text()


def test_the_page_of_a_sweep_has_the_front_and_its_numbers(swept):
    page = page_of(swept)

    assert "<h2>Front</h2>" in page
    assert "<td>m.w.a=0</td><td" in page
    # Half of 25.4 supports no digit behind the point.
    assert '<td class="n">3 ± 13</td>' in page
    with (swept / "fronts.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] == "hypervolume"]
    assert {row["front"]: float(row["mean"]) for row in rows} == {
        "m.w.a=0": 3.0,
        "m.w.a=1": 4.0,
        "m.w.a=2": 1.0,
        ALL: 5.0,
    }


def test_the_page_of_a_run_shows_its_way(make_run):
    page = page_of(make_run("0", [returns(a=1.0, b=2.0), returns(a=2.0, b=1.0)]))

    assert "All evaluations of the run" in page
    assert '"label": "step 2"' in page


def test_a_page_without_objectives_has_no_front(make_run, tmp_path):
    folder = make_run("0", [{"reward/mean": 1.0}])

    assert "<h2>Front</h2>" not in page_of(folder)
    assert not (folder / "fronts.csv").exists()


def test_without_moocore_the_front_is_drawn_with_a_note(swept, monkeypatch):
    monkeypatch.setitem(sys.modules, "moocore", None)

    page = page_of(swept)

    assert "<h2>Front</h2>" in page
    assert "pip install &#39;rlcomp[pareto]&#39;" in page


def test_returns_conflicts_and_gaps_are_reported(make_run):
    row = {**CONDITIONED, **returns(a_low=0.1, a_high=0.9), "pareto/gap": 0.5}
    folder = make_run("0", [row | {"pareto/conflict/a": 0.0, "evaluation/hypervolume": 0.3}])

    page = page_of(folder)

    heads = re.findall(r'<th class="n">([^ <]*)', page.partition("<h2>Results</h2>")[2])
    assert heads[:5] == [
        "evaluation/return/a",
        "evaluation/return/b",
        "evaluation/hypervolume",
        "pareto/gap",
        "pareto/conflict/a",
    ]
    assert "0: evaluation/hypervolume = 0.3, n = 1 (one seed: no interval)" in page


def test_names_are_text_never_markup_and_no_formula(make_run):
    rows = [returns(**{HOSTILE: 1.0}, b=2.0)]

    page = page_of(make_run("0", rows))
    figure = run_figure([{"total": 1, **rows[0]}], [HOSTILE, "b"])

    assert "<script>alert" not in page
    assert page.count("<script") == 2  # the data and the script
    assert not figure.axes[0].xaxis.label.get_parse_math()


def test_the_end_of_a_run_draws_its_front(tmp_path):
    row = {"total": 1, "phase": "rl", "step": 1, **returns(a=1.0, b=2.0)}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")

    text = summarise(tmp_path)

    assert f"front of a, b: {tmp_path / 'front.png'}" in text
    assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")
