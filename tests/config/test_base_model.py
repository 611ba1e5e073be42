"""``base=DIR`` chooses model and tokenizer in every recipe with a language model."""

import json

import pytest
from hydra.errors import HydraException

from rlcomp.advice.explain import explain_composition
from rlcomp.config.base_model import check_base, with_base
from rlcomp.config.checks.arguments import check_arguments
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.model_folder import no_policy
from rlcomp.config.options import config_directory
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


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["a=1"], []),
        (["base="], []),
        (["base=null"], []),
        (["base=x", "base=null"], []),
        (["-m", "base=x,y"], ["model=pretrained", "tokenizer=pretrained"]),
        (["+base=x"], ["model=pretrained", "tokenizer=pretrained"]),
        (["model=soup", "base=x"], ["tokenizer=pretrained"]),
        (["base=x", "tokenizer=byte"], ["model=pretrained"]),
        (["based=x"], []),
    ],
)
def test_what_is_chosen_stays(words, more):
    assert with_base(words) == [*words, *more]


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

    told = no_policy(str(tmp_path))

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

    assert no_policy(str(tmp_path)) is None
    assert no_policy("a/hub-name") is None
