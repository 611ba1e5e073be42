import pytest
import yaml
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError

from rlcomp.advice.explain import explain_composition, unreadable_yaml
from rlcomp.advice.unknown_key import keys_below


def told(error, keys=()):
    return explain_composition(error, [], lambda parent: keys)


def test_an_override_that_cannot_be_read():
    error = OverrideParseException("a=[", "no end\nsecond line")

    assert told(error) == (
        "a=[: cannot be read; a quote or a bracket is not closed or is misplaced"
    )


def test_an_unknown_option_names_those_there_are(tmp_path):
    (tmp_path / "kl").mkdir()
    (tmp_path / "kl" / "mine.yaml").touch()
    error = HydraException("Could not find 'kl/min'\nAvailable options: ...")

    message = explain_composition(error, [str(tmp_path)], lambda parent: ())
    assert message.startswith("kl=min: there is no such option; did you mean 'mine'? (known: ")
    assert "in_loss" in message


def unknown(key):
    return ConfigAttributeError(f"Key '{key}' is not in struct\n    full_key: {key}\n    object_t")


def test_an_unknown_key_names_those_beside_it():
    assert told(unknown("a.bed"), ["bad", "good"]) == (
        "a.bed is not in the config; did you mean 'bad'? (known: bad, good); a + before it adds a "
        "new key"
    )


def test_a_key_that_is_a_choice_of_parts_is_told_so():
    assert told(unknown("filter"), ["filter"]) == (
        "filter is a group of options, whose settings have other paths; rlcomp ... filter=OPTION "
        "--cfg job shows them"
    )


@pytest.mark.parametrize(
    ("key", "told_as"), [("prompts.size", "prompts.size"), ("hydra.run.dir", "directory")]
)
def test_a_variable_that_is_not_set_names_the_key_and_the_remedy(key, told_as):
    error = HydraException(f"Environment variable 'A B' not found\n    full_key: {key}")

    assert told(error) == (
        f"{told_as}: the environment variable A B is not set; set it, or give a default: "
        "${oc.env:A B,DEFAULT}"
    )


def test_of_other_errors_the_noise_is_left_out_and_nothing_is_said_twice():
    error = HydraException("It failed\nConfig search path:\nprovider=main, path=x\n  full_key: a")
    error.__cause__ = ValueError("It failed\nbecause of this\nobject_type=dict")

    assert told(error) == "It failed\nbecause of this"


def test_the_keys_below_a_path_and_at_the_root_the_groups_as_well():
    config = OmegaConf.create({"a": {"b": 1, "c": None}, "d": 3, "e": "???"})

    assert keys_below(config, "a") == ["b", "c"]
    assert keys_below(config, "d") == []
    assert keys_below(config, "e") == keys_below(config, "no.such") == []
    assert {"a", "d", "recipe", "loss"} <= set(keys_below(config, ""))


def test_the_yaml_that_cannot_be_read_is_named(tmp_path):
    for name, data in {"a": b"\xff", "b": b"x: y: z", "c": b"x: &l [*l]", "d": b"x: 1"}.items():
        (tmp_path / f"{name}.yaml").write_bytes(data)

    def named(error):
        return unreadable_yaml(error, [str(tmp_path)]).split(": ")

    with pytest.raises(yaml.YAMLError) as told:
        yaml.safe_load("x: y: z")
    assert named(told.value)[:2] == [
        f"{tmp_path}/b.yaml",
        f'mapping values are not allowed here in "{tmp_path}/b.yaml", line 1, column 5',
    ]
    assert named(RecursionError())[0] == f"{tmp_path}/c.yaml"
    assert named(RecursionError())[1] == "an alias (*name) refers to a node that contains it"
    with pytest.raises(UnicodeDecodeError) as told:
        b"\xff".decode()
    assert named(told.value)[0] == f"{tmp_path}/a.yaml"
    assert unreadable_yaml(yaml.YAMLError("what\n is"), []) == "a yaml cannot be read: what is"


OTHERS = ["learner", "evaluation", "phases"]


def overriding(whole, key):
    told = f"Could not override '{whole}'.\nTo append to your config use +{whole}=3"
    error = HydraException(told)
    error.__cause__ = unknown(key)
    return error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (unknown("num_generations"), "num_generations is not in the config; here it is group_size"),
        (
            overriding("algorithm.kl_ctrl.kl_coef", "algorithm"),
            "algorithm.kl_ctrl.kl_coef is not in the config; here it is kl_controller.kl_coef=3",
        ),
        (
            overriding("optim.lr_scheduler_type", "optim"),
            "optim.lr_scheduler_type is not in the config; here it is "
            "schedule@learner.schedule=linear (or constant, cosine)",
        ),
        (
            unknown("learner.weight_decay"),
            "learner.weight_decay is not in the config; here it is learner.optimizer.weight_decay",
        ),
    ],
)
def test_another_librarys_word_is_told_by_ours(error, message):
    assert told(error, OTHERS) == message


@pytest.mark.parametrize("key", ["evaluation.n", "learner.temperature"])
def test_below_a_key_of_ours_the_word_of_another_place_is_no_guess(key):
    assert told(unknown(key), OTHERS).startswith(f"{key} is not in the config (known: ")


def test_below_a_key_of_ours_a_mistyped_one_is_told_by_the_nearest():
    message = told(overriding("learner.optimizr.lr", "learner.optimizr"), [*OTHERS, "optimizer"])

    assert message.startswith("learner.optimizr is not in the config; did you mean 'optimizer'?")


def test_a_word_alone_is_told_with_the_group_it_is_an_option_of(tmp_path):
    (tmp_path / "kl").mkdir()
    (tmp_path / "kl" / "mine.yaml").touch()

    def message(word):
        error = OverrideParseException(word, "no viable input")
        return explain_composition(error, [str(tmp_path)], lambda parent: ())

    assert message("grpo") == (
        "grpo: of what? options are chosen by group=option, such as recipe=grpo"
    )
    assert message("mine").endswith("such as kl=mine")
    assert message("nine").startswith("nine: cannot be read: settings are written key=value")


def test_an_option_of_another_library_is_told_by_ours():
    assert told(HydraException("Could not find 'advantage/rloo'")) == (
        "advantage=rloo: there is no such option; here: advantage=leave_one_out"
    )
