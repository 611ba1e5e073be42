"""What a stranger's config may name, and what is refused of it."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rlcomp.config.reader import Node
from rlcomp.config.trust import LEARNER, build_errors, check_targets, is_shipped, saved_node
from rlcomp.errors import CheckpointError, ConfigError

FILE = Path("there/config.yaml")
OURS = "rlcomp.model.build.causal_lm"


@pytest.mark.parametrize(
    ("target", "taken"),
    [
        (OURS, True),
        ("rlcomp.model.language_model.LanguageModel", True),
        ("torch.optim.AdamW", True),
        ("torch.optim.lr_scheduler.LambdaLR", True),
        ("torch.nn.Linear", True),
        ("torch.nn.init.uniform_", False),
        ("torch.nn.Linear.forward", False),
        ("torch.load", False),
        ("os.system", False),
        ("components.task.file.HubTask", False),
        ("components.loss.policy.PolicyLoss", False),
    ],
)
def test_what_policies_are_built_of_is_shipped(target, taken):
    assert is_shipped(target) is taken


def test_what_learners_are_built_of_is_shipped_for_them_alone():
    assert is_shipped("components.loss.policy.PolicyLoss", LEARNER)
    assert not is_shipped("components.task.file.HubTask", LEARNER)


def test_each_target_that_is_not_ours_is_named_once():
    nodes = [Node("a", "os.system"), Node("a", "os.system"), Node("b", OURS), Node("c", "x.Y")]

    told = r"there/config\.yaml names code .* \(a\._target_ os\.system; c\._target_ x\.Y\), and"
    with pytest.raises(CheckpointError, match=told):
        check_targets(nodes, FILE, trust=False)
    check_targets(nodes, FILE, trust=True)
    check_targets([Node("b", OURS)], FILE, trust=False)


def test_a_config_cannot_vouch_for_itself():
    for trust in (True, False):
        nodes = [Node("a", OURS, {"trust": not trust}), Node("b", OURS, {"size": 1})]
        check_targets(iter(nodes), FILE, trust)
        assert [node.arguments for node in nodes] == [{"trust": trust}, {"size": 1}]


@pytest.mark.parametrize("function", ["load_causal_lm", "causal_lm"])
def test_nothing_is_fetched_for_a_stranger(function, tmp_path):
    def node(path):
        return [Node("model", f"rlcomp.model.build.{function}", {"path": path})]

    check_targets(node(str(tmp_path)), FILE, trust=False)
    for path in ("mine/model", None, str(tmp_path / "gone")):
        check_targets(node(path), FILE, trust=True)
        if function == "causal_lm":  # reads no folder
            check_targets(node(path), FILE, trust=False)
            continue
        with pytest.raises(CheckpointError, match=r"model\.path is .*, no folder here"):
            check_targets(node(path), FILE, trust=False)


def test_what_a_node_raises_is_the_fault_of_a_config_that_nobody_vouches_for():
    told = r"is not a config that rlcomp wrote \(.*boom"
    with pytest.raises(CheckpointError, match=told), build_errors(FILE, trust=False):
        raise ValueError("boom")
    with pytest.raises(ValueError, match="boom"), build_errors(FILE, trust=True):
        raise ValueError("boom")
    for trust in (True, False):
        with pytest.raises(ConfigError, match="of ours"), build_errors(FILE, trust):
            raise ConfigError("of ours")


def config(**changes):
    task = {"_target_": "components.worlds.sorting.task.Sorting", "length": 2}
    other = {"_target_": "os.system", "command": "true"}
    phases = {"one": {"steps": 1, "stages": ["${other}"]}}
    return OmegaConf.create({"seed": 3, "task": task, "other": other, "phases": phases} | changes)


def test_a_saved_node_is_read_with_its_plan():
    plan, node = saved_node(config(), "task", FILE, trust=False)

    assert (node.path, node.target) == ("task", "components.worlds.sorting.task.Sorting")
    assert node.arguments == {"length": 2}
    assert plan.tree["seed"] == 3
    assert saved_node(config(), "gone", FILE, trust=False) is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seed": None}, "seed is None"),
        ({"seed": -1}, "seed is -1"),
        ({"task": {"_target_": "components.worlds.sorting.task.Sorting", "length": -1}}, "length"),
        ({"task": {"_target_": "components.worlds.sorting.task.Sorting", "size": 1}}, "size"),
        ({"task": {"_target_": "os.system"}}, "names code that rlcomp does not ship"),
    ],
)
def test_a_saved_node_that_nobody_wrote_is_refused(changes, told):
    with pytest.raises(CheckpointError, match=told):
        saved_node(config(**changes), "task", FILE, trust=False)
