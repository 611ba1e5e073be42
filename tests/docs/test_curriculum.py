"""experiments/curriculum: its page says what its results say."""

import runpy
from pathlib import Path

from rlcomp.io.json_lines import read_lines

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "curriculum"
ROWS = read_lines(FOLDER / "results.jsonl")


def test_the_table_is_that_of_the_results():
    table = runpy.run_path(str(FOLDER / "tables.py"))["table"](ROWS)

    assert table in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_every_order_has_as_many_seeds_and_judgements():
    orders = {row["arm"] for row in ROWS}
    seeds = {order: sorted(r["seed"] for r in ROWS if r["arm"] == order) for order in orders}

    assert orders == {"easy_first", "hard_first", "in_turns"}
    assert all(found == seeds["easy_first"] for found in seeds.values())
    assert {row["judged_steps"] for row in ROWS} == {40}
