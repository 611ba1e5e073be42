import pytest

from rlcomp.errors import ConfigError
from rlcomp.files.lock import locked


def test_a_directory_belongs_to_one_run_at_a_time(tmp_path):
    with (
        locked(tmp_path / "run"),
        pytest.raises(ConfigError, match="another run is going on"),
        locked(tmp_path / "run"),
    ):
        pass


def test_a_directory_is_free_again_when_its_run_is_over(tmp_path):
    with locked(tmp_path):
        pass

    with locked(tmp_path):
        assert (tmp_path / ".lock").is_file()


def test_a_directory_is_made_with_those_it_is_in(tmp_path):
    with locked(tmp_path / "sweep" / "0"):
        assert (tmp_path / "sweep" / "0" / ".lock").is_file()


def test_a_directory_that_cannot_be_made_is_told():
    with pytest.raises(ConfigError, match="choose one you can write"), locked("/dev/null/x"):
        pass
