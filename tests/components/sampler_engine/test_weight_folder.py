"""Weights of a version appear as a whole, and their place says which they are."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from components.sampler_engine.weight_folder import drop_others, write_weights
from rlcomp.errors import ConfigError, RlcompError
from rlcomp.testing import tiny_policy


def make_model(**changes):
    return tiny_policy("abc", **changes).model


def names(folder):
    return sorted(one.name for one in folder.iterdir())


def test_a_version_is_a_folder_that_transformers_reads(tmp_path):
    model = make_model()

    place = write_weights(tmp_path / "new" / "weights", 7, model)

    assert place == tmp_path / "new" / "weights" / "version-7"
    found = AutoModelForCausalLM.from_pretrained(place).state_dict()
    assert all(torch.equal(found[name], value) for name, value in model.state_dict().items())
    assert names(place.parent) == ["current", "version-7"]


def test_the_link_is_that_of_the_last_version_and_what_was_there_is_replaced(tmp_path):
    one, other = make_model(seed=1), make_model(seed=2)
    (tmp_path / ".version-3").mkdir()  # of a run that was killed
    (tmp_path / ".version-3" / "half").write_text("")
    (tmp_path / ".current").symlink_to("nowhere")
    write_weights(tmp_path, 3, one)
    write_weights(tmp_path, 4, other)
    assert (tmp_path / "current").resolve().name == "version-4"

    write_weights(tmp_path, 3, other)

    assert (tmp_path / "current").resolve().name == "version-3"
    assert (tmp_path / "current").readlink().name == "version-3"  # relative: the folder may move
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "current").state_dict()
    assert torch.equal(found["lm_head.weight"], other.state_dict()["lm_head.weight"])
    assert not (tmp_path / "version-3" / "half").exists()
    assert names(tmp_path) == ["current", "version-3", "version-4"]


def test_other_versions_are_dropped_and_nothing_else(tmp_path):
    kept = ["base", "my-version-3", "version-1.5", "version-12", "version-mine"]
    for name in ("version-1", "version-2", ".version-5", *kept):
        (tmp_path / name).mkdir()

    drop_others(tmp_path, 12)

    assert names(tmp_path) == kept


def test_adapters_are_refused(tmp_path):
    with pytest.raises(
        ConfigError, match=r"set adapter=none, or sampler_engine=transformers_batch"
    ):
        write_weights(tmp_path, 0, make_model(rank=2))
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(RlcompError, match=r"version 2 cannot be written into .*file.*two versions"):
        write_weights(tmp_path / "file", 2, make_model())
