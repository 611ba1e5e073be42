import pytest

from rlcomp.errors import ConfigError
from rlcomp.files.atomic_write import atomic_write
from rlcomp.files.run_record import directory_lock, write_run_record


def test_a_file_is_replaced_as_a_whole(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("old")

    with atomic_write(file) as draft:
        draft.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_what_fails_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("old")

    def write_half():
        with atomic_write(file) as draft:
            draft.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_folder_of_its_draft_s_name_makes_way(tmp_path):
    (tmp_path / ".tmp-a.csv" / "more").mkdir(parents=True)

    with atomic_write(tmp_path / "a.csv") as draft:
        draft.write_text("new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.csv", "new")]


def test_what_a_kill_has_left_is_replaced(tmp_path):
    (tmp_path / ".tmp-a.csv").write_text("half")

    with atomic_write(tmp_path / "a.csv") as draft:
        draft.write_text("new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.csv", "new")]


@pytest.mark.parametrize("draft_too", [False, True])
def test_what_a_link_leads_to_is_not_touched(tmp_path, draft_too):
    theirs = tmp_path / "theirs"
    theirs.write_text("precious")
    file = tmp_path / "a.csv"
    file.symlink_to(theirs)
    if draft_too:
        (tmp_path / ".tmp-a.csv").symlink_to(theirs)

    with atomic_write(file) as draft:
        draft.write_text("new")
    assert theirs.read_text() == "precious"
    assert file.read_text() == "new"
    assert not file.is_symlink()


def test_a_lock_that_is_a_link_is_refused_and_one_that_is_there_is_not_cut(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.write_text("precious")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".lock").symlink_to(theirs)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / ".lock").write_text("precious")

    with (
        pytest.raises(ConfigError, match="choose one you can write"),
        directory_lock(tmp_path / "linked"),
    ):
        pass
    with directory_lock(tmp_path / "plain"):
        pass
    assert theirs.read_text() == "precious"
    assert (tmp_path / "plain" / ".lock").read_text() == "precious"


def test_an_attempt_is_written_through_no_link(tmp_path):
    from omegaconf import OmegaConf

    theirs = tmp_path / "theirs"
    theirs.write_text("precious")
    for name in ("run.yaml", ".tmp-run.yaml"):
        (tmp_path / name).symlink_to(theirs)

    write_run_record(OmegaConf.create({"seed": 1}), tmp_path)
    assert theirs.read_text() == "precious"
    assert "seed: 1" in (tmp_path / "run.yaml").read_text()
