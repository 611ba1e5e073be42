import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from rlcomp.errors import ConfigError
from rlcomp.files.run_record import directory_lock, read_run_record, write_run_record

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


def test_the_config_of_an_unreadable_checkpoint_is_not_taken(tmp_path):
    for name, seed in {"step-00000002": 4, "unreadable-step-00000003": 5}.items():
        folder = tmp_path / "checkpoints" / name
        folder.mkdir(parents=True)
        OmegaConf.save(OmegaConf.create(CONFIG | {"seed": seed}), folder / "config.yaml")

    assert read_run_record(tmp_path).config.seed == 4


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


def test_a_directory_belongs_to_one_run_at_a_time(tmp_path):
    with (
        directory_lock(tmp_path / "run"),
        pytest.raises(ConfigError, match="another run is going on"),
        directory_lock(tmp_path / "run"),
    ):
        pass


def test_a_directory_is_free_again_when_its_run_is_over(tmp_path):
    with directory_lock(tmp_path):
        pass

    with directory_lock(tmp_path):
        assert (tmp_path / ".lock").is_file()


def test_a_directory_is_made_with_those_it_is_in(tmp_path):
    with directory_lock(tmp_path / "sweep" / "0"):
        assert (tmp_path / "sweep" / "0" / ".lock").is_file()


def test_a_directory_that_cannot_be_made_is_told():
    with (
        pytest.raises(ConfigError, match="choose one you can write"),
        directory_lock("/dev/null/x"),
    ):
        pass
