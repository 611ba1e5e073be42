"""A whole run whose pairs are judged behind an endpoint."""

import re

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

from .conftest import completion

KEY = "sk-very-secret"


def share(answer, wanted):
    return sum(map(str.__eq__, answer, wanted))


@pytest.mark.slow
def test_pairs_of_a_run_are_judged_and_nothing_it_writes_holds_the_key(
    server, tmp_path, monkeypatch
):
    def judge(prompt):
        digits, first, second = re.search(r"(\d+)>\n.*: (.*)\n.*: (.*)\n", prompt).groups()
        gap = share(first, sorted(digits)) - share(second, sorted(digits))
        return completion("1", {"1": 0.5 + 0.08 * gap, "2": 0.5 - 0.08 * gap})

    server.say = judge
    monkeypatch.setenv("JUDGE_KEY", KEY)
    config = compose_config(
        [
            "recipe=rlaif",
            "pairwise_judge@pairing.judge=endpoint",
            f"pairing.judge.endpoint.url=http://127.0.0.1:{server.server_port}/v1",
            "pairing.judge.endpoint.model=m",
            "pairing.judge.endpoint.key_variable=JUDGE_KEY",
            "prompts.batch_size=8",
            "phases.warm_start.steps=2",
            "phases.reward_model.steps=2",
            "phases.rl.steps=1",
            f"directory={tmp_path}",
        ]
    )

    launch(config, plan_of(config))

    rows = [row for row in read_lines(tmp_path / "metrics.jsonl") if row["phase"] == "reward_model"]
    assert [row["endpoint/failed"] for row in rows] == [0, 0]
    assert [row["pairing/agreement"] for row in rows] == [1.0, 1.0]
    # Both orders of each pair, once each.
    assert sum(row["endpoint/requests"] for row in rows) == len(server.asked) > 8
    assert set(server.keys) == {f"Bearer {KEY}"}
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(written) > 5
    assert not any(KEY.encode() in file.read_bytes() for file in written)
