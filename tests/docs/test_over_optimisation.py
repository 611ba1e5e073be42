"""experiments/over_optimisation: its page says what its results say."""

import re
from pathlib import Path
from statistics import mean

import pytest

from rlcomp.files.json_lines import read_lines

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "over_optimisation"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = read_lines(FOLDER / "results.jsonl")


@pytest.mark.parametrize("members", ["one", "four"])
@pytest.mark.parametrize("coef", ["0", "0.03", "0.1", "0.3"])
def test_the_table_has_the_means_of_five_seeds(members, coef):
    rows = [row for row in ROWS if (row["members"], row["coef"]) == (members, coef)]
    line = re.search(rf"^\| {members} \| {coef} \| 5 \|(.*)\|$", PAGE, re.MULTILINE)[1]
    told = [float(cell.split()[0]) for cell in line.split("|")]
    by_step = [mean(r["gold"] for r in rows if r["step"] == step) for step in range(1, 41)]

    assert len(rows) == 5 * 40
    wanted = [by_step[0], max(by_step), mean(by_step[-5:])]
    assert told[:3] == pytest.approx(wanted, abs=0.0051)
    assert told[4] == by_step.index(max(by_step)) + 1


def test_without_kl_the_proxy_rises_on_while_gold_falls_in_every_seed():
    for members in ("one", "four"):
        for seed in "01234":
            found = [
                r for r in ROWS if (r["members"], r["coef"], r["seed"]) == (members, "0", seed)
            ]
            at = max(range(40), key=lambda step, found=found: found[step]["gold"])

            assert found[-1]["gold"] < found[at]["gold"] - 0.2
            assert found[-1]["proxy"] > found[at]["proxy"]


BEST_OF_N = read_lines(FOLDER / "best_of_n.jsonl")


@pytest.mark.parametrize("pairs", [512, 2048, 8192])
@pytest.mark.parametrize("members", ["one", "four"])
def test_the_table_of_best_of_n_has_the_means_of_five_seeds(pairs, members):
    rows = [row for row in BEST_OF_N if (row["pairs"], row["members"]) == (pairs, members)]
    line = re.search(rf"^\| {pairs} \| {members} \| 5 \|(.*)\|$", PAGE, re.MULTILINE)[1]
    told = [float(cell.split()[0]) for cell in line.split("|")]
    gold, kl, proxy = (
        [mean(row[key][n] for row in rows) for n in range(128)] for key in ("gold", "kl", "proxy")
    )
    at = gold.index(max(gold))

    assert sorted(row["seed"] for row in rows) == [0, 1, 2, 3, 4]
    agreement = mean(row["agreement"] for row in rows)
    assert told[:4] == pytest.approx([agreement, gold[0], gold[at], gold[-1]], abs=0.0051)
    assert told[4] == at + 1
    assert told[5] == pytest.approx(kl[at] ** 0.5, abs=0.0051)
    assert told[8:] == pytest.approx([proxy[0], proxy[at], proxy[-1]], abs=0.0051)


def test_the_proxy_of_best_of_n_rises_to_the_end_while_gold_falls_from_its_peak():
    for row in BEST_OF_N:
        assert row["proxy"] == sorted(row["proxy"])
        assert row["gold"][-1] < max(row["gold"])
