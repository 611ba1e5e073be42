"""Checkpoints on opening: the state and the config beside it are of one run."""

import json

import pytest

from rlcomp.checkpoint.manifest import write_manifest
from rlcomp.checkpoint.reader import list_checkpoints, newest_readable, open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.errors import CheckpointError, RlcompWarning


def saved(directory, total=1, config="seed: 3\n", **place):
    """A checkpoint after so many steps, without nodes."""
    whole = {"phase": 0, "step": total, "total": total, "seed": 3, "trackers": {}} | place
    Checkpoint(directory=str(directory), keep=9, config=config).save({}, whole)
    return directory / f"step-{total:08d}"


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ("seed: 3\n", {}),
        (None, {}),
        ("lr: 1\n", {}),  # told elsewhere
        ("seed: ${lr}\n", {"seed": 9}),
    ],
)
def test_a_config_of_the_same_seed_or_of_none_is_taken(tmp_path, config, place):
    if config == "seed: ${lr}\n":
        config = "lr: 9\nseed: ${lr}\n"
    path = saved(tmp_path, config=config, **place)

    assert open_checkpoint(path).path == path


def test_a_config_of_another_seed_is_another_runs(tmp_path):
    path = saved(tmp_path, config="seed: 4\n")

    with pytest.raises(CheckpointError, match=r"state\.json: 'seed' is 3, but 4 in config\.yaml"):
        open_checkpoint(path)


def test_a_state_without_a_seed_goes_with_any(tmp_path):
    path = saved(tmp_path, config="seed: 4\n")
    state = json.loads((path / "state.json").read_text())
    del state["place"]["seed"]
    (path / "state.json").write_text(json.dumps(state))
    (path / "manifest.json").unlink()
    write_manifest(path)

    assert open_checkpoint(path).position()["total"] == 1


def test_a_config_that_calls_resolvers_is_read_and_one_that_is_none_refused(tmp_path):
    path = saved(tmp_path, config="seed: 3\nuser: ${oc.env:HOME}\n")
    assert open_checkpoint(path).path == path

    path = saved(tmp_path, 2, config="[]")
    with pytest.raises(CheckpointError, match=r"config\.yaml is not a config"):
        open_checkpoint(path)


def test_the_newest_that_is_whole_is_taken_and_the_others_are_told(tmp_path):
    paths = [saved(tmp_path, total) for total in (1, 2, 3)]
    (tmp_path / "step-1").mkdir()
    assert list_checkpoints(tmp_path) == paths[::-1]
    assert open_checkpoint(tmp_path).path == paths[2]
    (paths[2] / "state.json").write_text("{}")

    with pytest.warns(RlcompWarning, match=f"passed over: {paths[2]}"):
        found = open_checkpoint(tmp_path)

    assert (found.path, found.older) == (paths[1], (paths[0],))


def test_a_checkpoint_without_its_config_is_passed_over_where_one_is_needed(tmp_path):
    first, second = saved(tmp_path, 1), saved(tmp_path, 2, config=None)

    assert newest_readable([second, first]).path == second
    with pytest.warns(RlcompWarning, match=r"has no config\.yaml"):
        assert newest_readable([second, first], with_config=True).path == first
    with pytest.raises(CheckpointError, match=r"nothing can be continued: .*has no config"):
        newest_readable([second], with_config=True)


def test_what_is_no_run_says_what_it_is(tmp_path):
    for names, told in (
        ((), "no whole checkpoint there"),
        (("one/checkpoints",), f"a folder of runs, {tmp_path}/one: "),
        (("two/checkpoints", "three/checkpoints", "x/checkpoints"), "x?, …"),
    ):
        for name in names:
            (tmp_path / name).mkdir(parents=True)
        with pytest.raises(CheckpointError, match=told):
            open_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="a folder of transformers"):
        open_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="it is a file"):
        open_checkpoint(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match="there is no such folder"):
        open_checkpoint(tmp_path / "gone")


def test_a_run_that_begins_with_another_seed_keeps_what_it_draws(tmp_path):
    import torch

    path = saved(tmp_path)
    found = open_checkpoint(path)
    found.restore({}, seed=3)
    first = torch.rand(1)
    found.restore({}, seed=3)
    assert torch.equal(torch.rand(1), first)
    found.restore({}, seed=4)
    assert not torch.equal(torch.rand(1), first)
    found.restore({})
    assert torch.equal(torch.rand(1), first)
