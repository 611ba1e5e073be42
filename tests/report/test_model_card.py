"""What a model card says of held-out results."""

import json

from rlcomp.report.model_card import held_out


def test_an_interval_stands_behind_the_number_of_its_own_row(tmp_path):
    rows = [
        {"evaluation/a": 0.5, "evaluation/a_low": 0.1, "evaluation/a_high": 0.9},
        {"evaluation/b": 0.25, "evaluation/b_low": 0.125, "loss/policy": 1.0},
        {"evaluation/a": 0.75},
        {"evaluation/a": 1.0, "evaluation/a_low": 0.5, "evaluation/a_high": 1.5},
    ]
    lines = [json.dumps({"total": n, "phase": "rl", **row}) for n, row in enumerate(rows, start=1)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")

    lower = {"evaluation/b": "0.25", "evaluation/b_low": "0.125"}
    assert held_out(tmp_path, 1) == {"evaluation/a": "0.5 (0.1 to 0.9)"}
    assert held_out(tmp_path, 3) == {"evaluation/a": "0.75", **lower}
    assert held_out(tmp_path, None) == {"evaluation/a": "1 (0.5 to 1.5)", **lower}


def test_the_mean_of_a_reward_without_verdicts_stands_under_its_name(tmp_path):
    row = {"total": 1, "evaluation/sampled": 7.5, "evaluation/reward/length/sampled": 7.5}
    row |= {"evaluation/sampled_low": 7.0, "evaluation/sampled_high": 8.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")

    assert held_out(tmp_path, None) == {"evaluation/reward/length/sampled": "7.5 (7 to 8)"}
