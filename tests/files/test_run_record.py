import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from rlcomp.files.run_record import read_run_record, write_run_record

CONFIG = {"seed": 3, "steps": 5, "phases": {"rl": {"steps": "${steps}"}}, "later": "???"}


@pytest.fixture(autouse=True)
def outside_an_app(monkeypatch):
    """Another test of this process may have run one."""
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)


def test_what_was_accepted_comes_back_as_it_was_written(tmp_path):
    write_run_record(OmegaConf.create(CONFIG), tmp_path)

    found = read_run_record(tmp_path)

    assert OmegaConf.to_container(found.config, resolve=False) == CONFIG
    assert found.config.phases.rl.steps == 5
    assert (found.overrides, found.choices) == ([], {})


def test_what_is_accepted_later_takes_the_place_of_what_was(tmp_path):
    for seed in (3, 4):
        write_run_record(OmegaConf.create(CONFIG | {"seed": seed}), tmp_path)

    assert read_run_record(tmp_path).config.seed == 4
    assert [file.name for file in tmp_path.iterdir()] == ["run.yaml"]


def test_where_nothing_was_kept_nothing_is_known(tmp_path):
    assert read_run_record(tmp_path).config is None


def test_overrides_are_kept_as_they_were_written_without_what_they_stand_for(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "12345")
    words = ["name=${oc.env:SECRET}", "model=${oc.env:NOT_SET}"]
    cfg = {"hydra": {"overrides": {"task": words}, "runtime": {"choices": {"loss": "grpo"}}}}
    monkeypatch.setattr(HydraConfig.instance(), "cfg", OmegaConf.create(cfg))

    write_run_record(OmegaConf.create(CONFIG), tmp_path)

    assert "12345" not in (tmp_path / "run.yaml").read_text()
    found = read_run_record(tmp_path)
    assert (found.overrides, found.choices) == (words, {"loss": "grpo"})


def test_the_environment_is_kept_with_the_attempt(tmp_path):
    write_run_record(OmegaConf.create(CONFIG), tmp_path, {"torch": "2.13.0", "commit": "abc+"})
    assert read_run_record(tmp_path).environment == {"torch": "2.13.0", "commit": "abc+"}

    write_run_record(OmegaConf.create(CONFIG), tmp_path)
    assert read_run_record(tmp_path).environment == {}
