"""``base=DIR`` chooses model and tokenizer in every recipe with a language model."""

import pytest
from hydra.errors import HydraException

from rlcomp.wiring.base_model import with_base
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.explain import explain_composition
from rlcomp.wiring.options import config_directory
from rlcomp.wiring.plan import read

RECIPES = sorted(file.stem for file in (config_directory() / "recipe").glob("*.yaml"))
OF_CONTROL = [name for name in RECIPES if name.startswith("control_")]


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name not in OF_CONTROL])
def test_every_recipe_starts_from_it(recipe):
    plan, _ = read(compose_config([f"recipe={recipe}", "base=somewhere", "adapter=lora"]))

    policy = plan.nodes["policy"].arguments
    adapter, tokenizer = policy["model"], policy["tokenizer"]
    model = adapter.arguments["model"]
    assert adapter.target == "rlcomp.model.adapters.lora"
    assert model.target == "rlcomp.model.trained.pretrained_model"
    assert tokenizer.target == "rlcomp.model.trained.pretrained_tokenizer"
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
