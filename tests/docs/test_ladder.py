"""experiments/ladder: its data hold out what they say, its page says what its results say."""

import json
import re
import runpy
from pathlib import Path
from statistics import mean

import pytest

from rlcomp.files.json_lines import read_lines

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "ladder"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = read_lines(FOLDER / "results.jsonl")
RUNGS = runpy.run_path(str(FOLDER / "tables.py"))["RUNGS"]


@pytest.mark.parametrize("rung", RUNGS)
def test_the_table_has_the_means_of_five_seeds(rung):
    rows = [row for row in ROWS if row["rung"] == rung]
    line = re.search(rf"^\| {re.escape(RUNGS[rung])} \| 5 \|(.*)\|$", PAGE, re.MULTILINE)[1]
    sampled, greedy, less, _, _, tokens, _, _ = (cell.strip() for cell in line.split("|"))

    assert sorted(row["seed"] for row in rows) == ["0", "1", "2", "3", "4"]
    told = [float(cell.split()[0]) for cell in (sampled, greedy)]
    means = [mean(row[key] for row in rows) for key in ("sampled", "greedy")]
    assert told == pytest.approx(means, abs=0.0051)
    assert int(tokens.replace(",", "")) == pytest.approx(mean(row["tokens"] for row in rows), abs=1)
    if rung != "rl":
        rl = mean(row["sampled"] for row in ROWS if row["rung"] == "rl")
        assert float(less.split()[0]) == pytest.approx(rl - means[0], abs=0.0051)


def test_neither_the_base_nor_a_label_has_a_number_of_the_test(tmp_path, monkeypatch):
    words = ["data.py", str(tmp_path), "7", "--texts", "300"]
    monkeypatch.setattr("sys.argv", words)
    runpy.run_path(str(FOLDER / "data.py"), run_name="__main__")
    rows = {
        path.stem: [json.loads(line) for line in path.read_text().splitlines()]
        for path in tmp_path.glob("*.jsonl")
    }
    test = {row["question"].removesuffix(">") for row in rows["test"]}
    read = {
        number
        for name in ("base", "labelled")
        for row in rows[name]
        for number in re.findall(r"(\d+)>", row["question"])
    }

    assert len(rows["labelled"]) == 256
    assert len(read) > 400
    assert test.isdisjoint(read)
    for asked, shown in zip(rows["test"], rows["test_with_examples"], strict=True):
        assert asked["answer"] == shown["answer"] == "".join(sorted(asked["question"][:-1]))
        assert shown["question"].endswith("," + asked["question"])
        assert shown["question"].count(">") == 3
