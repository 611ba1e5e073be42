"""Whole runs whose rollouts another engine makes."""

import pytest
import torch

from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.endpoint.completions import serving_policy
from rlcomp.endpoint.server import RefusedError
from rlcomp.errors import ConfigError, RlcompError
from rlcomp.files.json_lines import read_lines
from rlcomp.model.load_model import load_policy
from rlcomp.run.launch import launch

SMALL = [
    "model=micro",
    "prompts.batch_size=4",
    "group_size=4",
    "evaluation.num_prompts=4",
    "phases.warm_start.steps=4",
    "phases.warm_start.every={checkpoint: 4}",
    "phases.rl.every={checkpoint: 1}",
]


def run(*words):
    config = compose_config(["recipe=grpo", *SMALL, *words])
    launch(config, plan_of(config))


def build(*words, node="policy"):
    plan = plan_of(compose_config(["recipe=grpo", *SMALL, *words]))
    return Builder(plan, seed=5).build(plan.nodes[node])


def rl_rows(folder):
    return [row for row in read_lines(folder / "metrics.jsonl") if row["phase"] == "rl"]


def same(one, other):
    """Metrics, but times."""
    return {key: value for key, value in one.items() if not key.startswith("time/")} == {
        key: value for key, value in other.items() if not key.startswith("time/")
    }


class Breaking:
    """The route of a server that is down while it has the weights of one version."""

    def __init__(self, route):
        self.route, self.down = route, None

    def admits(self, path):
        return self.route.admits(path)

    def __call__(self, method, path, body):
        if path == "/v1/completions" and self.route.version == self.down:
            raise RefusedError("down", 503)
        return self.route(method, path, body)


@pytest.mark.slow
def test_a_server_makes_the_rollouts_and_a_resumed_run_goes_on_with_its_version(tmp_path):
    with serving_policy(build()) as server:
        route = server.route = Breaking(server.route)
        words = [
            "sampler_engine=server",
            f"sampler_engine.url={server.address}/v1",
            "sampler_engine.tries=1",
            "phases.rl.steps=3",
        ]
        run(*words, f"directory={tmp_path / 'whole'}")
        whole = rl_rows(tmp_path / "whole")
        assert route.route.version == "7"  # 4 of the warm start, 3 before the last evaluation

        route.down = "6"
        with pytest.raises(RlcompError, match=r"it did not answer prompt.*503.*last checkpoint"):
            run(*words, f"directory={tmp_path / 'cut'}")
        route.down = None
        with torch.no_grad():  # the server is another one
            for weight in route.route.policy.model.parameters():
                weight.zero_()
        run(*words, f"directory={tmp_path / 'cut'}")

    policy, _ = load_policy(tmp_path / "whole", trust=False)
    assert policy.sampler_engine is None  # what is read from a run asks no server
    assert policy.version == 7
    assert all(row["mismatch/mean"] < 1e-5 and row["mismatch/ess"] > 0.999 for row in whole)
    assert all(row["sampler_engine/requests"] >= 4 for row in whole)
    assert len(whole) == 3
    assert all(same(*rows) for rows in zip(whole, rl_rows(tmp_path / "cut"), strict=True))


@pytest.mark.slow
def test_the_batching_of_transformers_makes_the_rollouts(tmp_path):
    run(
        "sampler_engine=transformers_batching",
        "phases.rl.steps=2",
        f"directory={tmp_path}",
    )

    rows = rl_rows(tmp_path)
    assert len(rows) == 2
    assert all(row["mismatch/mean"] < 1e-5 for row in rows)


URL = ["sampler_engine=server", "sampler_engine.url=http://127.0.0.1:9/v1"]


def test_an_engine_that_is_not_ours_is_watched_and_a_recipes_own_choice_stays():
    plan = plan_of(compose_config(["recipe=grpo", *URL]))
    assert {"old_log_probs", "mismatch"} <= {*plan.nodes}
    assert plan.nodes["mismatch"].target.endswith("MismatchMonitor")
    assert plan.nodes["old_log_probs"].target.endswith("RecomputedLogProbs")

    plan = plan_of(compose_config(["recipe=grpo", *URL, "mismatch=none"]))
    assert not plan.nodes["mismatch"].target.endswith("MismatchMonitor")


def test_our_own_engine_is_no_node():
    assert "sampler_engine" not in plan_of(compose_config(["recipe=grpo"])).nodes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["recipe=agent", *URL], "samples whole responses only.*sampler_engine=own"),
        (["recipe=grpo", *URL, "decoding=nucleus"], "set policy.decoding=full"),
    ],
)
def test_what_a_server_cannot_do_is_refused_before_the_run(words, message):
    plan = plan_of(compose_config(words))

    with pytest.raises(ConfigError, match=message):
        Builder(plan, seed=0).build(plan.nodes["rollout"])
