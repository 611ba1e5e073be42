"""Names of 0.1 that configs and checkpoints may still use, with what they are called now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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


def of_version_0_1(config: DictConfig) -> str | None:
    """One message for all old targets of a config; None where it has none."""
    found = dict.fromkeys(_old_targets(OmegaConf.to_container(config, resolve=False), ""))
    if not found:
        return None
    told = "; ".join(f"{path}._target_ {old} is now {new}" for path, old, new in found)
    nodes = [f"the node '{old}' is now '{new}'" for old, new in _NAMES.items() if old in config]
    return "this config is of rlcomp 0.1: " + "; ".join([told, *nodes])


def _old_targets(value: object, path: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, Mapping):
        target = value.get("_target_")
        new = new_target(target) if isinstance(target, str) else None
        if new is not None:
            yield path, str(target), new
        for key, item in value.items():
            yield from _old_targets(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _old_targets(item, f"{path}.{place}")
