import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigError
from rlcomp.run.launch import launch
from rlcomp.run.trials import try_engines


class Engine:
    def __init__(self, found):
        self.found = found

    def reach(self):
        self.found.append(self)


def test_every_engine_that_samples_elsewhere_is_reached_and_nothing_else():
    found = []
    engines = [Engine(found), Engine(found)]

    try_engines({"a": engines[0], "task": object(), "b": engines[1]})

    assert found == engines


def test_a_run_without_its_server_ends_before_its_first_step(tmp_path):
    words = ["recipe=grpo", "sampler_engine=server", "loss/weight=[tis]", "model.hidden_size=16"]
    url = "http://127.0.0.1:1/v1"
    config = compose_config([*words, f"sampler_engine.url={url}", f"directory={tmp_path}/run"])

    with pytest.raises(ConfigError, match=rf"sampler_engine.url is {url}: no server answers"):
        launch(config, plan_of(config))
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
