"""Data of the charts: from hand-made runs whose lines are known."""

import json

import pytest

from rlcomp.cli.report import report
from rlcomp.report import charts as module
from rlcomp.report.charts import axes_of, charts, sort_metrics
from rlcomp.report.groups import group_runs
from rlcomp.report.runs import find_runs


def drawn(folder, *chosen):
    groups = group_runs(find_runs([str(folder)]))
    metrics = sort_metrics(groups, chosen)
    return metrics, charts(groups, metrics)


def test_a_mean_and_its_seeds_along_steps_tokens_and_seconds(make_run, tmp_path):
    for seed, tokens in ((0, 10), (1, 30)):
        rows = [{"reward/mean": seed + 0.5, "rollout/tokens": tokens} for _ in range(2)]
        rows[1]["reward/mean"] += 1 + seed
        make_run(str(seed), rows, seed=seed)

    _, (chart, tokens) = drawn(tmp_path, "reward/mean")

    assert (chart["metric"], chart["better"], chart["chosen"]) == ("reward/mean", "higher", True)
    mean, first, second = chart["lines"]
    # (0.5 + 1.5) / 2, then (1.5 + 3.5) / 2; a step takes two seconds.
    assert (mean["kind"], mean["seed"], mean["y"]) == ("mean", None, [1.0, 2.5])
    assert (mean["low"], mean["high"]) == ([0.5, 1.5], [1.5, 3.5])
    assert mean["x"] == [[1, 2], [20, 40], [2, 4]]
    assert (first["kind"], first["seed"], first["y"]) == ("seed", "0", [0.5, 1.5])
    assert second["x"] == [[1, 2], [30, 60], [2, 4]]
    assert (tokens["metric"], tokens["chosen"]) == ("rollout/tokens", False)


def test_a_single_run_is_a_mean_and_an_unfinished_run_is_open(make_run, tmp_path):
    make_run("0", [{"reward/mean": 0.5}, {"reward/mean": 1.0}])
    make_run("1", [{"reward/mean": 0.5}], seed=1, steps=5)

    _, (chart,) = drawn(tmp_path, "reward/mean")

    assert [(line["kind"], line["seed"]) for line in chart["lines"]] == [
        ("mean", "0"),
        ("open", "1"),
    ]


def test_constant_metrics_are_folded_and_times_and_ends_are_left_out(make_run, tmp_path):
    ends = {"evaluation/greedy_low": 0.1, "evaluation/greedy_high": 0.9, "a_low": 1.0}
    constant = {"kl/coef": 0.04, "evaluation/greedy": 0.5}
    make_run("0", [{"m": 1.0, **constant, **ends}, {"m": None, "n": 1.0}, {"m": 2.0, "n": 3.0}])

    metrics, _ = drawn(tmp_path, "n", "evaluation/greedy")

    assert metrics.chosen == ["n"]
    assert metrics.others == ["m"]
    assert metrics.constant == {"evaluation/greedy": 0.5, "kl/coef": 0.04, "a_low": 1.0}


def test_axes_along_which_nothing_moves_are_not_offered(make_run, tmp_path):
    make_run("0", [{"m": 1.0}, {"m": 2.0}])
    assert axes_of(drawn(tmp_path, "m")[1]) == ["steps", "seconds"]
    assert axes_of([]) == ["steps"]


def test_long_lines_are_thinned_to_means_and_keep_their_end(make_run, tmp_path, monkeypatch):
    make_run("0", [{"m": float(n)} for n in range(1, 8)])
    monkeypatch.setattr(module, "_MAX_LINE_POINTS", 4)

    _, (chart,) = drawn(tmp_path, "m")

    # (1, 2), (3, 4), (5, 6), and 7.
    assert chart["lines"][0]["y"] == [1.5, 3.5, 5.5, 7.0]
    assert chart["lines"][0]["x"][0] == [1.5, 3.5, 5.5, 7.0]


def test_too_many_lines_leave_only_means(make_run, tmp_path, monkeypatch):
    for seed in range(3):
        make_run(str(seed), [{"m": 1.0}, {"m": 2.0 + seed}], seed=seed)
    monkeypatch.setattr(module, "MOST_POINTS", 7)

    _, (chart,) = drawn(tmp_path, "m")

    assert [line["kind"] for line in chart["lines"]] == ["mean"]
    assert chart["lines"][0]["y"] == [1.0, 3.0]


def test_the_data_of_the_script_are_never_markup(make_run):
    hostile = "</script><script>alert(1)</script>"
    folder = make_run("a", [{hostile: 1.0}, {hostile: 2.0}])

    report([str(folder)], None, None, [hostile])

    text = (folder / "report.html").read_text()
    assert text.count("<script") == 2
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert [chart["metric"] for chart in data["charts"]] == [hostile]


@pytest.mark.slow
def test_the_page_of_a_large_sweep_is_small(make_run, tmp_path):
    for number in range(70):
        rows = [{f"m/{m}": step * m + number / 7 for m in range(20)} for step in range(30)]
        samples = [
            {
                "total": 200,
                "phase": "rl",
                "step": 200,
                "prompt": f"{n}" * 9000,
                "response": "é" * 9000,
            }
            for n in range(40)
        ]
        make_run(str(number), rows, overrides=[f"p={number}"], p=number, samples=samples)

    report([str(tmp_path)], None, None, [])

    assert (tmp_path / "report.html").stat().st_size < 3_000_000


@pytest.mark.slow
def test_the_page_of_a_long_run_is_small(make_run):
    tokens = {"tokens": ["word"] * 9000, "trained": [1] * 9000, "advantage": [0.12345] * 9000}
    samples = [
        {
            "total": 1,
            "phase": "rl",
            "step": 1,
            "prompt": "é" * 9000,
            "response": "é" * 9000,
            **tokens,
        }
        for _ in range(50)
    ]
    rows = [{f"m/{m}": float(step * m) for m in range(60)} for step in range(500)]
    folder = make_run("0", rows, samples=samples)

    report([str(folder)], None, None, [])

    assert (folder / "report.html").stat().st_size < 3_000_000
