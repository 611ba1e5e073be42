"""Settings and groups that a config does not have: which setting, option or choice is named."""

import pytest
from omegaconf import OmegaConf

from rlcomp.advice import unknown_key as module
from rlcomp.advice.unknown_key import keys_below, unknown_key, unmatched_group
from rlcomp.config.compose import CommandLine


class Known(CommandLine):
    """A line whose words are told to it."""


@pytest.fixture(autouse=True)
def _alike_by_the_line(monkeypatch):
    monkeypatch.setattr(module, "equivalent_setting", lambda line, path: line.like(path))
    monkeypatch.setattr(module, "fit", lambda line, remedy: line.fit(remedy))


def line(config=None, *, lacks=None, like=None, fit=None, **choices):
    """The choices of a command line, of which is known what these say."""
    known = Known([], [], OmegaConf.create(config or {"seed": 0}), {"recipe": "grpo"} | choices)
    known.lacks = (lacks or {}).get
    known.like = (like or {}).get
    known.fit = lambda remedy: fit
    return known


def error(key, value=None):
    """What Hydra says of a setting that is not there."""
    more = "" if value is None else f"To append to your config use +{key}={value}"
    return f"Could not override '{key}'.\n{more}"


def told(key, value=None, beside=(), root=(), where=None):
    def keys(path):
        return [*root] if not path else [*beside]

    return unknown_key(key, error(key, value), keys, where)


@pytest.fixture
def options(tmp_path, monkeypatch):
    """Options by group and name, as yaml."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path.joinpath(*name.split("__")).with_suffix(".yaml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    monkeypatch.setattr(module, "config_directory", lambda: tmp_path)
    return write


def test_a_name_of_an_earlier_version_is_told_with_its_new_one():
    assert "rollout.decoding" in told("rollout.sampling")
    assert "decoding" in told("sampling")
    assert ".decoding" not in told("sampling")


def test_a_setting_of_a_phase_that_is_like_another_is_added_with_its_value():
    assert "+phases.sft.steps=5" in told("phases.sft.steps", "5", beside=["like"])
    assert "+phases.sft.every=..." in told("phases.sft.every", beside=["like", "stages"])
    for key, beside in (
        ("phases.sft.stepz", ["like"]),
        ("phases.sft.steps", ["stages"]),
        ("learner.steps", ["like"]),
    ):
        assert f"+{key}" not in told(key, "5", beside=beside)


def test_an_empty_part_is_added_to():
    empty = line({"adapter": {}, "learner": {"lr": 1}})

    assert "+adapter.colour=3" in told("adapter.colour", "3", where=empty)
    assert "+adapter.colour=..." in told("adapter.colour", where=empty)
    assert "+learner.colour" not in told("learner.colour", "3", beside=["lr"], where=empty)


def test_a_choice_of_parts_is_shown_where_it_stands():
    assert "optimizer=OPTION" in told("optimizer", beside=["optimizer"], root=["optimizer"])


def test_options_that_have_a_setting_are_named(options):
    own = {f"task__o{n}": "_target_: a\ncolour: 1\n" for n in range(6)}
    options(**own, task__without="_target_: a\n", task__list="colour: 1\n", other__x="colour: 1\n")

    found = told("task.colour", beside=["size"], where=line())

    for n in range(5):  # and no more: a line is read
        assert f"task=o{n}" in found
    assert "task=o5" not in found
    assert "…" in found
    for name in ("without", "list", "other"):
        assert name not in found
    options(task__o5="_target_: a\n")
    found = told("task.colour", beside=["size"], where=line())
    assert "task=o4" in found
    assert "…" not in found


def test_options_of_a_group_that_stands_elsewhere_are_written_so(options):
    options(evaluator__shifted="_target_: a\ncolour: 1\n")
    where = line(**{"evaluator@evaluation": "accuracy"})

    assert "evaluator@evaluation=shifted" in told("evaluation.colour", beside=["n"], where=where)


def test_a_part_without_settings_is_told_as_it_is_chosen(options):
    options(kl__none="", adapter__none="")

    assert "kl=OPTION" in told("kl.colour")
    assert "kl=OPTION" not in told("kl.colour", beside=["size"])
    assert "other=OPTION" not in told("other.colour")


def test_where_other_libraries_keep_settings_nothing_is_near():
    assert "=" not in told("actor_rollout_ref")
    assert "did you mean" not in told("actor_rollout_ref", root=["actor_rollout_rev"])
    assert "actor_rollout_rev" in told("actor_rollout_rex", root=["actor_rollout_rev"])


def test_a_setting_that_is_near_is_named():
    assert "'clip_high'" in told("loss.clip_hihg", beside=["clip_high", "_target_"])
    assert "'max_new_tokens'" in told("max_new", root=["max_new_tokens", "seed"])
    assert "_target_" not in told("loss.target", beside=["clip_high", "_target_"])


def test_phases_are_counted_in_steps():
    assert "phases.warm_start.steps" in told("phases.epochs", beside=["warm_start", "rl"])
    assert "phases.rl.steps" in told("phases.rl.epochs", beside=["stages"])
    assert "phases.rl.steps" in told("phases.epochs")


def test_an_option_that_was_written_as_a_setting_is_a_choice(options):
    options(loss__dapo="", kl__both="", reward__both="")

    assert "loss=dapo" in told("dapo")
    assert "=both" not in told("both")
    assert "=dapo" not in told("da.po")


def test_a_setting_that_one_part_alone_has_is_told_with_its_path(monkeypatch):
    monkeypatch.setattr(
        module, "groups_with", lambda name: {"colour": ["kl"], "size": ["a", "b"]}[name]
    )
    where = line(lacks={"kl": "kl=none has no colour"})

    found = told("colour", root=["seed"], where=where)
    assert "kl.colour" in found
    assert "kl=none has no colour" in found
    assert "kl.colour" not in told("colour", root=["seed"])
    assert "kl.colour" not in told("colour", root=["colours"], where=where)
    assert "a.size" not in told("size", root=["seed"], where=where)


def test_a_setting_of_few_places_is_told_with_them_unless_another_is_near():
    places = {name: {"warmth": 1} for name in ("a", "b", "c")}

    found = told("warmth", root=["seed"], where=line(places))
    assert "a.warmth or b.warmth or c.warmth" in found
    near = told("warmth", root=["warmths"], where=line(places))
    assert "did you mean 'warmths'" in near
    assert "a.warmth" not in near
    four = told("warmth", root=["seed"], where=line(places | {"d": {"warmth": 1}}))
    assert "a.warmth" not in four
    assert "here it is" not in told("warmth", root=["seed"], where=line())


def test_the_one_setting_that_has_to_be_given_is_named(options):
    options(task__file="", task__none="")
    where = line({"task": {"path": "???", "size": 1}, "kl": {"a": "???", "b": "???"}})

    assert "task.path=x.jsonl" in told("task.file", "x.jsonl", beside=["path", "size"], where=where)
    options(kl__none="")
    assert "=5" not in told("kl.colour", "5", beside=["a", "b"], where=where)


def test_a_group_of_a_line_that_lacks_it_is_told_with_what_has_it():
    text = "Could not override 'advantage'.\nNo match in the defaults list.\nuse +advantage=gae"
    lacking = line(lacks={"advantage": "recipe=grpo has it"})

    assert "recipe=grpo has it" in unmatched_group(text, lacking)
    assert unmatched_group(text, None).startswith("+advantage=gae"[1:])
    assert unmatched_group("Could not override 'a'.\nsomething else", lacking) is None
    assert unmatched_group("No match", lacking) is None


def test_a_group_that_stands_elsewhere_is_written_where_it_stands():
    text = (
        "Could not override 'loss'. Did you mean to override one of "
        "loss@learner.losses.kl, loss@learner.losses.sft?\nuse +loss=dapo"
    )
    one = "Could not override 'loss'. Did you mean to override loss@learner.x?\nuse +loss=dapo"

    found = unmatched_group(text, line())
    assert "loss@learner.losses.kl=dapo" in found
    assert "loss@learner.losses.sft=dapo" in found
    assert "loss@learner.x=dapo" in unmatched_group(one, None)


def test_a_group_that_others_hold_by_name_is_added_under_a_name(options):
    options(agent__tools="# Add one: +tool@agent.tools.NAME=OPTION\n")
    text = "Could not override 'tool'.\nNo match in the defaults list.\nuse +tool=calculator"

    found = unmatched_group(text, line(agent="plain"))
    assert "+tool@agent.tools.calculator=calculator" in found
    assert "agent=tools" in found
    assert "agent=tools" not in unmatched_group(text, line(agent="tools"))
    other = text.replace("'tool'", "'kind'").replace("+tool", "+kind")
    assert "@" not in unmatched_group(other, line(agent="tools"))


def test_a_setting_of_another_library_is_told_in_words_of_this_line():
    where = line({"learner": {"optimizer": {"lr": 1}}})
    assert "learner.optimizer.lr" in told("learning_rate", where=where)
    assert "sft_learner.optimizer.lr" in told(
        "learning_rate",
        where=line(like={"learner.optimizer.lr": "sft_learner.optimizer.lr"}),
    )
    lacking = line(lacks={"learner": "recipe=sft has it"})
    assert "recipe=sft has it" in told("learning_rate", where=lacking)
    assert "learner.optimizer.lr=0.1" in told(
        "learning_rate", "0.1", where=line(fit="learner.optimizer.lr=0.1")
    )


def test_the_same_setting_of_another_recipe_is_told_with_its_value():
    where = line(like={"prompts.batch_size": "demonstrations.batch_size"}, recipe="sft")

    found = told("prompts.batch_size", "8", where=where)

    assert "demonstrations.batch_size=8" in found
    assert "recipe=sft" in found
    assert "demonstrations.batch_size=" not in told("prompts.batch_size", where=where)


def test_the_keys_below_a_path_are_those_of_its_node(options):
    options(loss__dapo="", kl__none="")
    config = OmegaConf.create({"seed": 0, "task": {"path": "x", "size": 1}, "empty": {}})

    assert keys_below(config, "task") == ["path", "size"]
    assert keys_below(config, "empty") == keys_below(config, "gone") == []
    assert keys_below(config, "seed") == []
    assert sorted(keys_below(config, "")) == ["empty", "kl", "loss", "seed", "task"]


@pytest.mark.parametrize(
    ("choice", "option", "phase", "drops"),
    [
        ("offline", "bc", "online", True),
        ("offline@runs", "bc", "online", True),
        ("offline", "bc", "rl", False),
        ("offline", "no_such", "online", False),
    ],
)
def test_an_option_takes_a_phase_out_by_null(choice, option, phase, drops):
    assert module._drops(choice, option, phase) is drops
