"""Names of 0.1 that configs and checkpoints may still use, with what they are called now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

# Targets, or the modules they were in.
_TARGETS = {
    "components.proximal": "components.old_log_probs",
    "rlcomp.generation.sampling.Sampling": "rlcomp.engine.decoding.Decoding",
    "rlcomp.model.bpe": "rlcomp.data.train_bpe",
    "rlcomp.model.engine": "rlcomp.engine.engine",
    "rlcomp.model.preference.conditioned": "rlcomp.model.preference_embedding.conditioned",
    "rlcomp.model.preference.preference_tokenizer": (
        "rlcomp.text.preference_tokens.preference_tokenizer"
    ),
    "rlcomp.model.soup": "rlcomp.model.merge",
    "rlcomp.model.tokenizer": "rlcomp.text.tokenizer",
    "rlcomp.run.trained": "rlcomp.model.trained",
    "rlcomp.thoughts": "rlcomp.text.thoughts",
}
# Classes whose names stood for two; checkpoints of 0.2 may have the old ones.
_CLASSES = {
    "components.environment.bfcl.Bfcl": "components.environment.bfcl.BfclEnvironment",
    "components.environment.maze.Maze": "components.environment.maze.MazeEnvironment",
    "components.environment.reasoning_gym.ReasoningGym": (
        "components.environment.reasoning_gym.ReasoningGymEnvironment"
    ),
    "components.pairing.judged.Judged": "components.pairing.judged.JudgedPairs",
    "components.pairwise_judge.learned.Learned": "components.pairwise_judge.learned.LearnedJudge",
    "components.reward.countdown.Countdown": "components.reward.countdown.CountdownReward",
    "components.reward.reasoning_gym.ReasoningGym": (
        "components.reward.reasoning_gym.ReasoningGymReward"
    ),
    "components.sampler.labelled_texts.LabelledTexts": (
        "components.sampler.labelled_texts.LabelledTextsSampler"
    ),
    "components.shaping.shuffled.Shuffled": "components.shaping.shuffled.ShuffledShaping",
}
# Groups, nodes and arguments.
_NAMES = {"sampling": "decoding", "proximal": "old_log_probs", "never": "suppressed_tokens"}


def new_name(name: str) -> str | None:
    """What a group, node or argument of 0.1 is called now.

    Examples:
        >>> new_name("sampling"), new_name("loss")
        ('decoding', None)
    """
    return _NAMES.get(name)


def new_target(target: str) -> str | None:
    """Where a target of 0.1 is now.

    Examples:
        >>> new_target("components.proximal.rollout.FromRollout")
        'components.old_log_probs.rollout.FromRollout'
    """
    for old, new in _TARGETS.items():
        if target == old or target.startswith(f"{old}."):
            return new + target[len(old) :]
    return None


def update_classes(config: DictConfig) -> DictConfig:
    """Give the renamed classes of a saved config their new names, in place.

    Examples:
        >>> update_classes(OmegaConf.create({"_target_": "components.pairing.judged.Judged"}))
        {'_target_': 'components.pairing.judged.JudgedPairs'}
    """
    for path, target in _targets(OmegaConf.to_container(config, resolve=False), ()):
        if target in _CLASSES:
            node: Any = config
            for key in path:
                node = node._get_node(key)
            node["_target_"] = _CLASSES[target]
    return config


def renamed_classes(config: DictConfig) -> list[str]:
    """Return one message for each class of a config that has another name now."""
    targets = _targets(OmegaConf.to_container(config, resolve=False), ())
    return [
        f"{'.'.join(map(str, path))}._target_: {target} is now {_CLASSES[target]}"
        for path, target in targets
        if target in _CLASSES
    ]


def of_version_0_1(config: DictConfig) -> str | None:
    """One message for all old targets of a config; None where it has none."""
    renamed = dict.fromkeys(
        f"{'.'.join(map(str, path))}._target_ {target} is now {new}"
        for path, target in _targets(OmegaConf.to_container(config, resolve=False), ())
        if (new := new_target(target)) is not None
    )
    if not renamed:
        return None
    nodes = [f"the node '{old}' is now '{new}'" for old, new in _NAMES.items() if old in config]
    return "this config is of rlcomp 0.1: " + "; ".join([*renamed, *nodes])


def _targets(
    value: object, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each ``_target_`` of a plain config, with the path of its node."""
    if isinstance(value, Mapping):
        if isinstance(target := value.get("_target_"), str):
            yield path, target
        for key, item in value.items():
            yield from _targets(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _targets(item, (*path, place))
