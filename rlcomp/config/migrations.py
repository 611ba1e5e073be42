"""Old names in configs and checkpoints, with the current names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

# Targets of 0.1, or their modules.
_TARGETS = {
    "components.proximal": "components.old_log_probs",
    "rlcomp.generation.sampling.Sampling": "rlcomp.engine.decoding.Decoding",
    "rlcomp.model.bpe": "rlcomp.data.train_bpe",
    "rlcomp.model.engine": "rlcomp.engine.engine",
    "rlcomp.model.preference.conditioned": "rlcomp.model.preference_embedding.conditioned",
    "rlcomp.model.preference.preference_tokenizer": (
        "rlcomp.text.preference_tokens.preference_tokenizer"
    ),
    "rlcomp.model.soup": "rlcomp.model.model_soup",
    "rlcomp.model.tokenizer": "rlcomp.text.tokenizer",
    "rlcomp.run.trained": "rlcomp.model.load_model",
    "rlcomp.thoughts": "rlcomp.text.reasoning",
}
# Renamed classes and modules of 0.2; its checkpoints have the old names.
_RENAMED = json.loads(Path(__file__).with_name("renamed.json").read_text(encoding="utf-8"))
_CLASSES: dict[str, str] = _RENAMED["classes"]
_MODULES: dict[str, str] = _RENAMED["modules"]
# Arguments that a renamed class needs in addition to those of the old class.
_ARGUMENTS: dict[str, dict[str, Any]] = _RENAMED["arguments"]
# Groups, nodes and arguments of 0.1.
_NAMES = {"sampling": "decoding", "proximal": "old_log_probs", "never": "suppressed_tokens"}


def new_name(name: str) -> str | None:
    """Return the current name of a group, node or argument of 0.1.

    Examples:
        >>> new_name("sampling"), new_name("loss")
        ('decoding', None)
    """
    return _NAMES.get(name)


def new_target(target: str) -> str | None:
    """Return the current name of a target of 0.1.

    Examples:
        >>> new_target("components.proximal.rollout.FromRollout")
        'components.old_log_probs.RolloutLogProbs'
    """
    for old, new in _TARGETS.items():
        if target == old or target.startswith(f"{old}."):
            moved = new + target[len(old) :]
            return _current_name(moved) or moved
    return None


def update_classes(config: DictConfig) -> DictConfig:
    """Update the renamed classes of a saved config in place, and return it.

    The arguments that a renamed class needs in addition are added.

    Examples:
        >>> update_classes(OmegaConf.create({"_target_": "components.pairing.judged.Judged"}))
        {'_target_': 'components.pairing.JudgedPairs'}
    """
    for path, target in _targets(OmegaConf.to_container(config, resolve=False), ()):
        if (new := _current_name(target)) is not None:
            node: Any = config
            for key in path:
                node = node._get_node(key)
            node["_target_"] = new
            with open_dict(node):
                node.update(_ARGUMENTS.get(_moved(target), {}))
    return config


def _moved(target: str) -> str:
    """Return the target of a class of 0.2 in its current module; a listed class keeps its path."""
    module, _, name = target.rpartition(".")
    if target in _CLASSES or module not in _MODULES:
        return target
    return f"{_MODULES[module]}.{name}"


def _current_name(target: str) -> str | None:
    """Return the current name of a class of 0.2; None if it is unchanged."""
    moved = _moved(target)
    new = _CLASSES.get(moved, moved)
    return None if new == target else new


def renamed_class_messages(config: DictConfig) -> list[str]:
    """Return one message for each renamed class of a config."""
    targets = _targets(OmegaConf.to_container(config, resolve=False), ())
    return [
        f"{'.'.join(map(str, path))}._target_: {target} is now {new}{_settings(target)}"
        for path, target in targets
        if (new := _current_name(target)) is not None
    ]


def _settings(target: str) -> str:
    """Return the arguments that a renamed class needs, for a message."""
    true = [name for name, value in _ARGUMENTS.get(_moved(target), {}).items() if value is True]
    return "".join(f" with {name}: true" for name in true)


def version_0_1_message(config: DictConfig) -> str | None:
    """Return one message for all targets of 0.1 in a config; None if it has none."""
    messages = dict.fromkeys(
        f"{'.'.join(map(str, path))}._target_ {target} is now {new}"
        for path, target in _targets(OmegaConf.to_container(config, resolve=False), ())
        if (new := new_target(target)) is not None
    )
    if not messages:
        return None
    nodes = [f"the node '{old}' is now '{new}'" for old, new in _NAMES.items() if old in config]
    return "this config is of rlcomp 0.1: " + "; ".join([*messages, *nodes])


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
        for index, item in enumerate(value):
            yield from _targets(item, (*path, index))
