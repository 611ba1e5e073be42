"""``base=DIR``, and checks of the folders of models."""

import json
import subprocess

import pytest
from hydra.errors import HydraException

from rlcomp.advice.explain import explain_composition
from rlcomp.config.checks.models import check_base, no_model_fault, policy_fault
from rlcomp.config.checks.values import check_arguments
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.options import config_directory
from rlcomp.config.overrides import with_base
from rlcomp.config.plan import read

RECIPES = sorted(file.stem for file in (config_directory() / "recipe").glob("*.yaml"))
OF_CONTROL = [
    *("bc", "contrastive", "control_ppo", "dagger", "dqn", "her", "hil_serl", "rlpd"),
    *("sac", "td3", "trpo", "flow_grpo", "action_grpo", "offline_to_online"),
]


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name not in OF_CONTROL])
def test_every_recipe_starts_from_it(recipe):
    plan, errors = read(compose_config([f"recipe={recipe}", "base=somewhere", "adapter=lora"]))

    # Nothing of the recipe's own model or tokenizer is left; a path may still have to be given.
    assert [told for told in [*errors, *messages(check_arguments(plan))] if "???" not in told] == []
    policy = plan.nodes["policy"].arguments
    adapter, tokenizer = policy["model"], policy["tokenizer"]
    model = adapter.arguments["model"]
    assert adapter.target == "rlcomp.model.adapters.lora"
    assert model.target == "rlcomp.model.load_model.pretrained_model"
    assert tokenizer.target == "rlcomp.model.load_model.pretrained_tokenizer"
    assert model.arguments["path"] == tokenizer.arguments["path"] == "somewhere"
    assert model.arguments["tokenizer"] is tokenizer


def test_recipes_without_a_language_model_say_so():
    assert OF_CONTROL

    for recipe in OF_CONTROL:
        with pytest.raises(HydraException) as raised:
            compose_config([f"recipe={recipe}", "base=somewhere"])
        told = explain_composition(raised.value, [], lambda _: [])
        assert told.startswith("this recipe has no model: base=DIR, model, tokenizer and adapter")


def test_a_home_directory_is_written_out(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert with_base(["task.path=~/a", "~phases.rl"]) == [f"task.path={tmp_path}/a", "~phases.rl"]
    assert with_base(["base=~/m"])[0] == f"base={tmp_path}/m"
    plan, _ = read(compose_config(["base='~/models/tiny'"]))
    (told,) = messages(check_base(plan))
    assert told.startswith(
        f"base is '~/models/tiny': write {tmp_path}/models/tiny, for ~ is not read in quotes; "
    )


def test_a_folder_of_checkpoints_names_the_newest(tmp_path):
    for name in ("checkpoint-500", "checkpoint-1500", "checkpoint-x", "other"):
        (tmp_path / name).mkdir()
    plan, _ = read(compose_config(["recipe=grpo", f"base={tmp_path}"]))

    (told,) = messages(check_base(plan))
    assert told.endswith(f"it holds checkpoint-1500; set base={tmp_path}/checkpoint-1500")
    (tmp_path / "config.json").touch()
    assert messages(check_base(plan)) == []


@pytest.mark.parametrize(
    ("inner", "sign", "told"),
    [
        (
            ["0", "1", "2", "3"],
            "run.yaml",
            "but holds {0}/0, {0}/1, {0}/2 and 1 more; set base={0}/0",
        ),
        (
            ["snapshots/0a1b"],
            "config.json",
            "but holds {0}/snapshots/0a1b; set base={0}/snapshots/",
        ),
        ([], "", "it is empty; a model has config.json, model.safetensors and tokenizer.json; set"),
        (["logs"], "a.txt", "it holds logs; a model has config.json"),
    ],
)
def test_a_folder_of_runs_or_of_nothing_is_no_base(tmp_path, inner, sign, told):
    for name in inner:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / sign).touch()
    plan, _ = read(compose_config(["recipe=grpo", f"base={tmp_path}"]))

    (said,) = messages(check_base(plan))
    assert told.format(tmp_path) in said


def test_every_path_without_a_folder_is_told(tmp_path):
    words = ["recipe=grpo", "model=pretrained", "tokenizer=pretrained"]
    plan, _ = read(compose_config([*words, "model.path=/x", f"tokenizer.path=/{'y' * 300}"]))

    assert sorted(one[:12] for one in messages(check_base(plan))) == [
        "model.path i",
        "tokenizer.pa",
    ]


def test_an_adapter_alone_is_no_base(tmp_path):
    (tmp_path / "adapter_config.json").touch()
    plan, _ = read(compose_config(["recipe=grpo", f"base={tmp_path}"]))

    (told,) = messages(check_base(plan))
    assert "it holds an adapter of peft (adapter_config.json) and no model: write " in told
    (tmp_path / "config.json").touch()
    assert messages(check_base(plan)) == []


def test_an_adapter_is_told_the_command_that_merges_it(tmp_path):
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "its/model"}')

    told = policy_fault("base", str(tmp_path))

    assert told is not None
    # Its own folder has no tokenizer: that of its model.
    assert "AutoTokenizer.from_pretrained('its/model')" in told
    assert f"Model.from_pretrained('{tmp_path}').merge_and_unload()" in told
    assert told.endswith(f"then base={tmp_path}_merged")


@pytest.mark.parametrize("tied", [True, False])
def test_a_reward_model_is_no_policy(tmp_path, tied):
    config = {"architectures": ["Qwen2ForSequenceClassification"], "tie_word_embeddings": tied}
    (tmp_path / "config.json").write_text(json.dumps(config))

    plan, _ = read(compose_config(["recipe=grpo", *with_base([f"base={tmp_path}"])]))

    (told,) = messages(check_base(plan))
    assert told.startswith(f"base is '{tmp_path}': its config.json says Qwen2ForSequence")
    assert told.endswith(f"reward=learned reward.path={tmp_path}")


@pytest.mark.parametrize(
    "text",
    ['{"architectures": ["Qwen2ForCausalLM"]}', '{"architectures": []}', "{}", "[1]", "not JSON"],
)
def test_of_other_folders_nothing_is_said(tmp_path, text):
    (tmp_path / "config.json").write_text(text)

    assert policy_fault("base", str(tmp_path)) is None
    assert policy_fault("base", "a/hub-name") is None


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

    told = policy_fault("base", folder)
    assert (told is not None) is refused
    if refused:
        assert f"its config.json says {kind}" in told
        assert f"reward.path={folder}" in told


@pytest.mark.parametrize(
    "config", [{}, {"architectures": []}, {"architectures": "RewardModel"}, [1], "x"]
)
def test_a_config_that_says_nothing_may_be_a_policys(tmp_path, config):
    assert policy_fault("base", write(tmp_path, config=config)) is None
    assert policy_fault("base", str(tmp_path / "gone")) is None


def test_an_adapter_alone_is_merged_by_its_library(tmp_path):
    adapter = {"base_model_name_or_path": "mine/base"}
    folder = write(tmp_path / "a", adapter_config=adapter)

    told = policy_fault("base", f"{folder}/")
    assert "it holds an adapter of peft" in told
    assert f"base={folder}_merged" in told
    assert "AutoTokenizer.from_pretrained('mine/base')" in told
    assert policy_fault("base", write(tmp_path / "b", adapter_config=adapter, config={})) is None
    told = policy_fault("base", write(tmp_path / "c", adapter_config=adapter, tokenizer_config={}))
    assert f"AutoTokenizer.from_pretrained('{tmp_path}/c')" in told
    told = policy_fault(
        "base", write(tmp_path / "d", adapter_config={"base_model_name_or_path": 3})
    )
    assert f"AutoTokenizer.from_pretrained('{tmp_path}/d')" in told


def test_an_adapter_of_a_run_of_ours_is_merged_by_us(tmp_path):
    folder = write(tmp_path / "a", adapter_config={})
    card = tmp_path / "a" / "README.md"
    card.write_text("x" * 3980 + "trained with rlcomp")
    assert f"rlcomp-export RUN {folder}_merged --merge" in policy_fault("base", folder)
    card.write_text("x" * 3983 + "trained with rlcomp")
    assert "python -c" in policy_fault("base", folder)
    card.write_text("trained with another")
    told = policy_fault("base", folder)
    code = told.partition("python -c ")[2].partition('", then')[0] + '"'
    seen = subprocess.run(f"printf %s {code}", shell=True, capture_output=True, text=True).stdout
    compile(seen, "x", "exec")


def test_a_folder_is_a_model_or_a_run_by_one_of_its_names(tmp_path):
    assert no_model_fault("base", str(tmp_path / "gone")) is None
    for name in ("config.json", "adapter_config.json", "run.yaml", "checkpoints", "manifest.json"):
        folder = tmp_path / name.partition(".")[0]
        (folder / name).mkdir(parents=True)
        assert no_model_fault("base", str(folder)) is None


def test_models_within_a_folder_are_named(tmp_path):
    for name in "bac":
        write(tmp_path / name, config={})
    write(tmp_path / ".hidden", config={})
    (tmp_path / "note.txt").write_text("")

    told = no_model_fault("base", str(tmp_path))
    a, b, c = (f"{tmp_path}/{name}" for name in "abc")
    assert f"holds {a}, {b}, {c}; set base={a}" in told
    write(tmp_path / "d", config={})
    assert f"{c} and 1 more; set base={a}" in no_model_fault("base", str(tmp_path))


def test_a_model_one_deeper_is_named_and_no_deeper(tmp_path):
    write(tmp_path / "x" / "y", config={})
    assert f"set base={tmp_path}/x/y" in no_model_fault("base", str(tmp_path))

    write(tmp_path / "z" / "u" / "v" / "w", config={})
    assert "it holds u;" in no_model_fault("base", str(tmp_path / "z"))


def test_what_a_folder_of_nothing_holds_is_told(tmp_path):
    assert "it is empty; a model has" in no_model_fault("model.path", str(tmp_path))
    for name in "edcba":
        (tmp_path / name).write_text("")
        names = sorted(path.name for path in tmp_path.iterdir())
        more = ", …" if len(names) > 4 else ""
        told = no_model_fault("base", str(tmp_path))
        assert f"it holds {', '.join(names[:4])}{more}; a model" in told
