import json

import pytest

from rlcomp.errors import DataError
from rlcomp.report.evaluation import (
    ComparisonRow,
    compare,
    comparison_table,
    difference,
    mean,
    read_scores,
    scores,
    summary,
    write_verdicts,
)
from rlcomp.report.statistics import MeanEstimate


def verdict(problem, *correct, decoding="greedy"):
    responses = [{"correct": right} for right in correct]
    return {"problem": problem, "decoding": decoding, "responses": responses}


ROWS = [verdict(0, True), verdict(1, False), verdict(2, None), verdict(3, True)]
MORE = [verdict(0, True, False, None, decoding="sampled"), verdict(1, None, decoding="sampled")]


def test_a_score_is_the_share_of_right_ones_among_the_judged():
    assert scores([*ROWS, *MORE]) == {"greedy": {0: 1.0, 1: 0.0, 3: 1.0}, "sampled": {0: 0.5}}
    assert scores([verdict(0, None)]) == {"greedy": {}}


def test_problems_of_a_level_have_a_score_of_their_own():
    hard, easy = {"level": "hard"}, {"level": "easy"}
    rows = [verdict(0, True) | hard, verdict(1, False) | easy, verdict(2, None) | hard, *MORE]

    found = scores(rows)

    assert found["greedy"] == {0: 1.0, 1: 0.0}
    assert found["greedy, hard"] == {0: 1.0}
    assert found["greedy, easy"] == {1: 0.0}
    assert [*found] == ["greedy", "greedy, easy", "greedy, hard", "sampled"]


def test_yes_and_no_get_wilsons_interval():
    # 2 of 4: centre 1/2, half = z sqrt(1/16 + z^2/64) / (1 + z^2/4), z = 1.959964:
    # 1.959964 * sqrt(0.0625 + 0.0600228) / 1.960365 = 0.349957.
    found = mean([1.0, 0.0, 0.0, 1.0])

    assert (found.mean, found.n) == (0.5, 4)
    assert found.low == pytest.approx(0.150043, abs=1e-5)
    assert found.high == pytest.approx(0.849957, abs=1e-5)


def test_shares_get_the_bootstraps_interval():
    found = mean([0.5] * 20 + [1.0] * 20)

    # The standard error is 0.25 / sqrt(40) = 0.0395, 1.96 of them 0.077; of 2000 resamples, coarse.
    assert found.mean == 0.75
    assert found.low == pytest.approx(0.673, abs=0.012)
    assert found.high == pytest.approx(0.827, abs=0.012)
    assert mean([]) is None


def test_differences_are_paired_by_problem():
    found = difference({0: 1.0, 1: 1.0, 2: 0.5}, {0: 0.0, 1: 1.0, 7: 0.0})

    assert (found.mean, found.n) == (0.5, 2)
    assert (found.low, found.high) == (0.0, 1.0)
    assert difference({0: 1.0}, {1: 1.0}) is None


def test_equal_differences_have_the_width_of_what_was_not_seen():
    # Wilson's upper end of 0 in 4: z^2 / (4 + z^2) = 3.841459 / 7.841459 = 0.489891.
    found = difference(dict.fromkeys(range(4), 1.0), dict.fromkeys(range(4), 1.0))

    assert found.mean == 0.0
    assert found.low == pytest.approx(-0.489891, abs=1e-5)
    assert found.high == pytest.approx(0.489891, abs=1e-5)
    best = difference(dict.fromkeys(range(4), 1.0), dict.fromkeys(range(4), 0.0))
    assert (best.mean, best.high) == (1.0, 1.0)
    worst = difference(dict.fromkeys(range(4), 0.0), dict.fromkeys(range(4), 1.0))
    assert (worst.mean, worst.low) == (-1.0, -1.0)


def test_models_are_compared_with_the_first():
    one, two = {"greedy": {0: 0.0, 1: 1.0}}, {"greedy": {0: 1.0, 1: 1.0}, "sampled": {0: 1.0}}
    (line,) = compare({"sums": {"before": one, "after": two}})

    assert (line.suite, line.decoding) == ("sums", "greedy")
    assert [each.mean for each in line.means.values()] == [0.5, 1.0]
    assert {model: each.mean for model, each in line.differences.items()} == {"after": 0.5}
    first, second = compare({"sums": {"two": two, "one": one}})
    assert first.differences["one"].mean == -0.5
    assert second.decoding == "sampled"
    assert second.means["one"] is None


def test_one_line_of_one_model_is_a_table():
    table = comparison_table(
        [ComparisonRow("sums", "greedy", {"a": MeanEstimate(0.5123, 0.4, 0.62, 80)}, {})]
    )

    cells = {column.header: [*column.cells] for column in table.columns}
    assert cells == {
        "suite": ["sums"], "decoding": ["greedy"], "n": ["80"], "a": ["0.51 [0.40, 0.62]"],
    }  # fmt: skip


def test_the_table_shows_the_digits_that_the_intervals_support():
    half, none = MeanEstimate(0.5123, 0.4, 0.62, 80), MeanEstimate(0.0, -0.05, 0.05, 80)
    line = ComparisonRow("sums", "greedy", {"a": half, "b": half}, {"b": none})
    table = comparison_table(
        [line, ComparisonRow("ifeval", "greedy", {"a": half, "b": None}, {"b": None})]
    )

    assert [column.header for column in table.columns] == [
        "suite", "decoding", "n", "a", "b", "b − a",
    ]  # fmt: skip
    assert [[*column.cells] for column in table.columns] == [
        ["sums", "ifeval"],
        ["greedy", "greedy"],
        ["80", "80, 0"],
        ["0.51 [0.40, 0.62]", "0.51 [0.40, 0.62]"],
        ["0.51 [0.40, 0.62]", "none judged"],
        ["+0.00 [−0.05, +0.05]", "none judged"],
    ]
    assert summary([line])[0]["differences"] == {
        "b": {"mean": 0.0, "low": -0.05, "high": 0.05, "n": 80}
    }


def test_verdicts_are_kept_with_their_settings(tmp_path):
    file, header = tmp_path / "new" / "sums" / "a.jsonl", {"suite": "sums", "names": ("a",)}

    assert read_scores(file, header) is None
    assert write_verdicts(file, header, ROWS) == scores(ROWS)
    assert read_scores(file, header) == scores(ROWS)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == [{"suite": "sums", "names": ["a"]}, *ROWS]
    with pytest.raises(DataError, match=r"a.jsonl is no evaluation with these settings: name anot"):
        read_scores(file, {"suite": "others"})
    file.write_text("")
    with pytest.raises(DataError, match="is no evaluation with these settings"):
        read_scores(file, header)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{}\n", "line 3 of it is no verdict"),
        (json.dumps(verdict(1, "no")) + "\n", "line 3"),
        (json.dumps(verdict(1, 2)) + "\n", "line 3"),
        (json.dumps(verdict("a", True)) + "\n", "line 3"),
        (json.dumps(verdict(1, True) | {"responses": [{}]}) + "\n", "line 3"),
        (json.dumps(verdict(1, True) | {"responses": 5}) + "\n", "line 3"),
        (json.dumps(verdict(1, True, "yes")) + "\n", "line 3"),
        ('{"problem": 1, "deco', "its last line is cut off"),
    ],
)
def test_damaged_verdicts_are_refused(tmp_path, line, told):
    file = tmp_path / "gsm8k.jsonl"
    write_verdicts(file, {"seed": 0}, [verdict(0, True)])
    with file.open("a", encoding="utf-8") as opened:
        opened.write(line)

    with pytest.raises(DataError, match=f"is damaged, {told}"):
        read_scores(file, {"seed": 0})


def test_a_file_that_is_not_finished_is_not_left(tmp_path):
    def broken():
        yield ROWS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_verdicts(tmp_path / "a.jsonl", {}, broken())

    assert [*tmp_path.iterdir()] == []
