"""What a folder holds where a model is due, by its names and its configs."""

import json
import subprocess

import pytest

from rlcomp.config.model_folder import no_model, no_policy


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return str(folder)


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("LlamaForSequenceClassification", True),
        ("LlamaForTokenClassification", True),
        ("LlamaForRewardModel", True),
        ("LlamaForQuestionAnswering", True),
        ("LlamaForCausalLM", False),
        ("SequenceClassificationForCausalLM", False),
    ],
)
def test_a_classifier_says_no_tokens(tmp_path, kind, refused):
    folder = write(tmp_path, config={"architectures": [kind, "Other"]})

    told = no_policy(folder)
    assert (told is not None) is refused
    if refused:
        assert f"its config.json says {kind}" in told
        assert f"reward.path={folder}" in told


@pytest.mark.parametrize(
    "config", [{}, {"architectures": []}, {"architectures": "RewardModel"}, [1], "x"]
)
def test_a_config_that_says_nothing_may_be_a_policys(tmp_path, config):
    assert no_policy(write(tmp_path, config=config)) is None
    assert no_policy(str(tmp_path / "gone")) is None


def test_an_adapter_alone_is_merged_by_its_library(tmp_path):
    adapter = {"base_model_name_or_path": "mine/base"}
    folder = write(tmp_path / "a", adapter_config=adapter)

    told = no_policy(f"{folder}/")
    assert told.startswith("it holds an adapter of peft")
    assert f"base={folder}_merged" in told
    assert "AutoTokenizer.from_pretrained('mine/base')" in told
    assert no_policy(write(tmp_path / "b", adapter_config=adapter, config={})) is None
    told = no_policy(write(tmp_path / "c", adapter_config=adapter, tokenizer_config={}))
    assert f"AutoTokenizer.from_pretrained('{tmp_path}/c')" in told
    told = no_policy(write(tmp_path / "d", adapter_config={"base_model_name_or_path": 3}))
    assert f"AutoTokenizer.from_pretrained('{tmp_path}/d')" in told


def test_an_adapter_of_a_run_of_ours_is_merged_by_us(tmp_path):
    folder = write(tmp_path / "a", adapter_config={})
    card = tmp_path / "a" / "README.md"
    card.write_text("x" * 3980 + "trained with rlcomp")
    assert f"rlcomp-export RUN {folder}_merged --merge" in no_policy(folder)
    card.write_text("x" * 3983 + "trained with rlcomp")
    assert "python -c" in no_policy(folder)
    card.write_text("trained with another")
    told = no_policy(folder)
    code = told.partition("python -c ")[2].partition('", then')[0] + '"'
    seen = subprocess.run(f"printf %s {code}", shell=True, capture_output=True, text=True).stdout
    compile(seen, "x", "exec")


def test_a_folder_is_a_model_or_a_run_by_one_of_its_names(tmp_path):
    assert no_model("base", str(tmp_path / "gone")) is None
    for name in ("config.json", "adapter_config.json", "run.yaml", "checkpoints", "manifest.json"):
        folder = tmp_path / name.partition(".")[0]
        (folder / name).mkdir(parents=True)
        assert no_model("base", str(folder)) is None


def test_models_within_a_folder_are_named(tmp_path):
    for name in "bac":
        write(tmp_path / name, config={})
    write(tmp_path / ".hidden", config={})
    (tmp_path / "note.txt").write_text("")

    told = no_model("base", str(tmp_path))
    a, b, c = (f"{tmp_path}/{name}" for name in "abc")
    assert f"holds {a}, {b}, {c}; set base={a}" in told
    write(tmp_path / "d", config={})
    assert f"{c} and 1 more; set base={a}" in no_model("base", str(tmp_path))


def test_a_model_one_deeper_is_named_and_no_deeper(tmp_path):
    write(tmp_path / "x" / "y", config={})
    assert f"set base={tmp_path}/x/y" in no_model("base", str(tmp_path))

    write(tmp_path / "z" / "u" / "v" / "w", config={})
    assert "it holds u;" in no_model("base", str(tmp_path / "z"))


def test_what_a_folder_of_nothing_holds_is_told(tmp_path):
    assert "it is empty; a model has" in no_model("model.path", str(tmp_path))
    for name in "edcba":
        (tmp_path / name).write_text("")
        names = sorted(path.name for path in tmp_path.iterdir())
        more = ", …" if len(names) > 4 else ""
        assert f"it holds {', '.join(names[:4])}{more}; a model" in no_model("base", str(tmp_path))
