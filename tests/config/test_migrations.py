"""Old names get one message with the new one."""

import pytest
from omegaconf import OmegaConf

from rlcomp.checkpoint.reader import SavedCheckpoint
from rlcomp.config.compose import compose_config
from rlcomp.config.declarations import read_declaration
from rlcomp.config.migrations import (
    _ARGUMENTS,
    _CLASSES,
    _MODULES,
    _TARGETS,
    new_target,
    update_classes,
    version_0_1_message,
)
from rlcomp.config.resolve import plan_of
from rlcomp.config.trust import saved_node
from rlcomp.errors import CheckpointError, ConfigErrors
from rlcomp.files.untrusted import read_saved_config
from rlcomp.model.load_model import load_policy
from rlcomp.run.resume import check_same_config

OLD = {
    "sampling": {"_target_": "rlcomp.generation.sampling.Sampling", "temperature": 1.0},
    "tokenizer": {"_target_": "rlcomp.model.tokenizer.byte_tokenizer"},
    "losses": [{"_target_": "components.proximal.rollout.FromRollout"}],
    "seed": 0,
    "phases": {"rl": {"steps": 1, "stages": ["sampling"]}},
}


def test_all_old_targets_of_a_config_are_told_in_one_message():
    told = version_0_1_message(OmegaConf.create(OLD))

    assert told == (
        "this config is of rlcomp 0.1: "
        "sampling._target_ rlcomp.generation.sampling.Sampling is now "
        "rlcomp.engine.decoding.Decoding; "
        "tokenizer._target_ rlcomp.model.tokenizer.byte_tokenizer is now "
        "rlcomp.text.tokenizer.byte_tokenizer; "
        "losses.0._target_ components.proximal.rollout.FromRollout is now "
        "components.old_log_probs.RolloutLogProbs; "
        "the node 'sampling' is now 'decoding'"
    )


def test_such_a_config_has_no_other_mistake_told():
    with pytest.raises(ConfigErrors) as caught:
        plan_of(OmegaConf.create(OLD))

    assert caught.value.messages == [version_0_1_message(OmegaConf.create(OLD))]


def test_a_config_of_today_has_none():
    assert version_0_1_message(compose_config(["recipe=grpo"])) is None


def test_a_users_own_node_called_like_an_old_one_is_theirs():
    assert (
        version_0_1_message(OmegaConf.create({"sampling": {"_target_": "mine.Sampling"}})) is None
    )
    assert new_target("rlcomp.model.tokenizers.Mine") is None


@pytest.mark.parametrize("new", sorted(_MODULES.values()))
def test_every_module_of_a_world_is_there(new):
    __import__(new)


@pytest.mark.parametrize("new", sorted({*_TARGETS.values(), *_CLASSES.values()}))
def test_every_new_place_is_there(new):
    if new.rpartition(".")[2][0].isupper() or new.count(".") > 2:
        assert read_declaration(new).target == new
    else:
        __import__(new)


@pytest.fixture
def saved(tmp_path):
    (tmp_path / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(OLD)))
    return SavedCheckpoint(tmp_path)


def test_a_checkpoint_with_such_a_config_is_not_sampled_from(saved, monkeypatch):
    monkeypatch.setattr("rlcomp.model.load_model.open_checkpoint", lambda path: saved)

    with pytest.raises(CheckpointError, match=r"of rlcomp 0\.1: .*; train it again, or take"):
        load_policy(saved.path)


def test_a_checkpoint_with_such_a_config_is_not_continued(saved):
    with pytest.raises(CheckpointError, match=r"of rlcomp 0\.1: .*; choose another directory"):
        check_same_config(saved, compose_config(["recipe=grpo"]))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("sampling=nucleus", "sampling is not in the config: since 0.2 it is decoding"),
        ("proximal=recomputed", "proximal is not in the config: since 0.2 it is old_log_probs"),
        (
            "evaluation.never=[a]",
            "evaluation.never is not in the config: since 0.2 it is evaluation.suppressed_tokens",
        ),
        (
            "+policy.sampling=1",
            "policy.sampling: policy (LanguageModel) takes no such argument; it is now 'decoding'",
        ),
    ],
)
def test_old_names_on_the_command_line(rlcomp, capsys, tmp_path, word, message):
    assert rlcomp(word, f"directory={tmp_path}/run") == 2

    assert capsys.readouterr().err.strip() == f"rlcomp: {message}"


@pytest.mark.parametrize("old", sorted(_CLASSES))
def test_a_renamed_class_is_told_by_its_new_name(old):
    with pytest.raises(ConfigErrors) as caught:
        plan_of(OmegaConf.create({"part": {"inner": [{"_target_": old}]}}))

    (message,) = caught.value.messages
    assert message.startswith(f"part.inner.0._target_: {old} is now {_CLASSES[old]}")
    assert ("with full: true" in message) == bool(_ARGUMENTS.get(old, {}).get("full"))


def test_a_class_that_moved_and_was_renamed_is_told_by_its_new_name():
    old = "components.advantage.gdpo.Gdpo"
    with pytest.raises(ConfigErrors) as caught:
        plan_of(OmegaConf.create({"advantage": {"_target_": old}}))

    new = "components.advantage.group.GDPO"
    assert caught.value.messages == [f"advantage._target_: {old} is now {new}"]


@pytest.mark.parametrize("option", ["frozen", "frozen_full", "refreshed_full"])
@pytest.mark.parametrize("module", ["frozen", "own"])
def test_a_saved_reference_gets_the_argument_that_replaced_its_class(option, module):
    now = compose_config(["recipe=grpo", f"reference={option}"])
    old = now.copy()
    name = option.title().replace("_", "")
    place = "frozen" if module == "frozen" else option
    old.reference = {k: v for k, v in old.reference.items() if k != "full"}
    old.reference._target_ = f"components.reference.{place}.{name}"

    assert update_classes(old) == now


def test_a_class_of_a_module_that_moved_is_told_by_its_new_place():
    with pytest.raises(ConfigErrors) as caught:
        plan_of(OmegaConf.create({"task": {"_target_": "components.task.sorting.Sorting"}}))

    new = "components.worlds.sorting.task.Sorting"
    assert caught.value.messages == [f"task._target_: components.task.sorting.Sorting is now {new}"]


def old_countdown(folder):
    config = compose_config(["recipe=grpo", "task=countdown", "reward=countdown"])
    text = OmegaConf.to_yaml(config)
    for new, old in [
        ("worlds.countdown.reward.CountdownReward", "reward.countdown.Countdown"),
        ("worlds.countdown.task.Countdown", "task.countdown.Countdown"),
    ]:
        assert f"components.{new}\n" in text
        text = text.replace(f"components.{new}\n", f"components.{old}\n")
    (folder / "config.yaml").write_text(text)
    return config


def test_a_checkpoint_with_a_renamed_class_is_continued(tmp_path):
    config = old_countdown(tmp_path)

    check_same_config(SavedCheckpoint(tmp_path), config)
    assert update_classes(read_saved_config(tmp_path / "config.yaml", trust=True)) == config


def test_a_checkpoint_with_a_renamed_class_is_read(tmp_path):
    old_countdown(tmp_path)
    config = update_classes(read_saved_config(tmp_path / "config.yaml", trust=True))

    assert saved_node(config, "reward", tmp_path, True) is not None


def test_update_classes_leaves_other_values_as_they_are():
    config = OmegaConf.create({"a": "${b}", "b": [1, None, "components.pairing.Judged"]})

    assert update_classes(config.copy()) == config
