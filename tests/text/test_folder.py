"""Names on the hub: asked for once, and told by their setting where they are not to be had."""

import pytest

from rlcomp.errors import ConfigErrors, DataError
from rlcomp.text import folder
from rlcomp.text.folder import check_available, check_folder, hub_reachable, local_only
from rlcomp.text.untrusted_input import JSON_FILES


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """What the hub is asked, and how it answers; nothing is cached, and no variable is set."""
    asked, answers = [], {"up": False}

    class Session:
        def head(self, address, timeout):
            asked.append((address, timeout))
            if not answers["up"]:
                raise OSError("no route")

    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(folder, "get_session", Session)
    monkeypatch.setattr(folder, "try_to_load_from_cache", lambda name, file: answers.get(name))
    monkeypatch.setattr(folder.constants, "ENDPOINT", "https://hub")
    hub_reachable.cache_clear()
    yield asked, answers
    hub_reachable.cache_clear()


def test_an_unreachable_hub_is_checked_once_and_names_the_setting(hub, tmp_path):
    asked, answers = hub
    answers["kept/model"] = "/cache/config.json"

    with pytest.raises(ConfigErrors) as error:
        check_available(
            {"base": "a/b", "model.path": "kept/model", "tokenizer.path": str(tmp_path)}
        )

    assert error.value.messages == [
        "base is 'a/b': the hub cannot be reached and it is not in the local cache: go online, "
        "download it (hf download a/b), or set base=FOLDER"
    ]
    assert local_only("c/d")
    assert asked == [("https://hub", 5)]


def test_a_reachable_hub_passes_the_check(hub):
    asked, answers = hub
    answers["up"] = True

    check_available({"base": "a/b"})

    assert not local_only("a/b")
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("name", "beside", "told"),
    [
        ("model.gguf", [], "GGUF is for inference: take the model's repository with safetensors"),
        ("model.safetensors", ["config.json"], "; set base={folder}"),
        ("model.safetensors", [], "put it into a folder with its config.json and tokenizer"),
    ],
)
def test_a_file_in_place_of_a_folder_raises_with_the_remedy(hub, tmp_path, name, beside, told):
    for file in (name, *beside):
        (tmp_path / file).touch()

    with pytest.raises(ConfigErrors) as error:
        check_available({"base": str(tmp_path / name)})

    (message,) = error.value.messages
    assert message.startswith(f"base is '{tmp_path / name}', a file: must be a folder")
    assert told.format(folder=tmp_path) in message
    assert hub[0] == []


def test_each_file_that_transformers_reads_is_checked(tmp_path):
    check_folder(tmp_path / "gone")
    for name in JSON_FILES:
        (tmp_path / name).write_text("{}")
    check_folder(tmp_path)

    for name in JSON_FILES:
        for broken in ("{", "[]", '{"a": 1, "a": 2}'):
            (tmp_path / name).write_text(broken)
            with pytest.raises(DataError, match=name):
                check_folder(tmp_path)
        (tmp_path / name).write_text("{}")


def test_a_tokenizer_that_is_no_file_raises(tmp_path):
    (tmp_path / "tokenizer.json").mkdir()

    with pytest.raises(DataError, match=r"tokenizer\.json"):
        check_folder(tmp_path)
