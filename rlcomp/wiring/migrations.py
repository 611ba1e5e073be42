"""Old names that configs and checkpoints may still use, with the names of today."""

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
# Classes whose names stood for two; checkpoints of 0.2 may have the old names.
_CLASSES = {
    "components.environment.bfcl.Bfcl": "components.worlds.bfcl.environment.BfclEnvironment",
    "components.environment.maze.Maze": "components.worlds.maze.environment.MazeEnvironment",
    "components.environment.reasoning_gym.ReasoningGym": (
        "components.environment.reasoning_gym.ReasoningGymEnvironment"
    ),
    "components.pairing.judged.Judged": "components.pairing.judged.JudgedPairs",
    "components.pairwise_judge.learned.Learned": "components.pairwise_judge.learned.LearnedJudge",
    "components.reward.countdown.Countdown": "components.worlds.countdown.reward.CountdownReward",
    "components.reward.reasoning_gym.ReasoningGym": (
        "components.reward.reasoning_gym.ReasoningGymReward"
    ),
    "components.sampler.labelled_texts.LabelledTexts": (
        "components.sampler.labelled_texts.LabelledTextsSampler"
    ),
    "components.shaping.shuffled.Shuffled": "components.shaping.shuffled.ShuffledShaping",
}
# Modules that moved: into the folder of their world, or out of the room io.
_MODULES = {
    "components.agent.folding": "components.worlds.lookup.folding_agent",
    "components.agent.lookup": "components.worlds.lookup.agent",
    "components.distribution.ring_of_gaussians": "components.worlds.ring.distribution",
    "components.environment.bfcl": "components.worlds.bfcl.environment",
    "components.environment.lookup": "components.worlds.lookup.environment",
    "components.environment.lookup_paid": "components.worlds.lookup.paid",
    "components.environment.matrix_game": "components.worlds.matrix_game.environment",
    "components.environment.maze": "components.worlds.maze.environment",
    "components.environment.reach": "components.worlds.point_maze.reach",
    "components.environment.tactics": "components.worlds.tactics.environment",
    "components.environment.track": "components.worlds.track.environment",
    "components.environment.u_maze": "components.worlds.point_maze.u_maze",
    "components.evaluator.exploitability": "components.worlds.matrix_game.exploitability",
    "components.expert.clumsy_reacher": "components.worlds.point_maze.clumsy_reacher",
    "components.expert.track_driver": "components.worlds.track.expert",
    "components.expert.u_maze_guide": "components.worlds.point_maze.guide",
    "components.reward.countdown": "components.worlds.countdown.reward",
    "components.reward.mode_distance": "components.worlds.ring.reward",
    "components.reward.share_in_place": "components.worlds.sorting.positional_accuracy",
    "components.reward.stack_program": "components.worlds.stack_language.reward",
    "components.task.addition": "components.worlds.addition.task",
    "components.task.bfcl": "components.worlds.bfcl.task",
    "components.task.calculation": "components.worlds.calculation.task",
    "components.task.countdown": "components.worlds.countdown.task",
    "components.task.digit_sum": "components.worlds.digit_sum.task",
    "components.task.expression": "components.worlds.expression.task",
    "components.task.form": "components.worlds.form.task",
    "components.task.hops": "components.worlds.hops.task",
    "components.task.letter_walk": "components.worlds.letter_walk.task",
    "components.task.lookup": "components.worlds.lookup.task",
    "components.task.maze": "components.worlds.maze.task",
    "components.task.median": "components.worlds.median.task",
    "components.task.moves": "components.worlds.matrix_game.moves",
    "components.task.planted": "components.worlds.planted_calls.task",
    "components.task.program": "components.worlds.stack_language.task",
    "components.task.repeat_digit": "components.worlds.repeat_digit.task",
    "components.task.revisions": "components.worlds.sorting.revisions",
    "components.task.running_sum": "components.worlds.running_sum.task",
    "components.task.sorting": "components.worlds.sorting.task",
    "components.task.sorting_graded": "components.worlds.sorting.graded",
    "components.task.sorting_pairs": "components.worlds.sorting.pairs",
    "components.task.substitution": "components.worlds.sorting.substitution",
    "components.task.tactic_scripts": "components.worlds.tactics.scripts",
    "components.task.tactic_steps": "components.worlds.tactics.steps",
    "components.task.tactics": "components.worlds.tactics.task",
    "components.task.two_orders": "components.worlds.sorting.two_orders",
    "components.task.two_scripts": "components.worlds.sorting.two_scripts",
    "components.task.unsaid_order": "components.worlds.sorting.unsaid_order",
    "components.task.verdicts": "components.worlds.sorting.verdicts",
    "components.tool.fixed": "components.worlds.planted_calls.fixed_answer",
    "components.tool.stack": "components.worlds.stack_language.tool",
    "rlcomp.io.checkpoint": "rlcomp.checkpoint.writer",
    "rlcomp.io.tensorboard_files": "rlcomp.trackers.tensorboard",
    "rlcomp.io.tracking": "rlcomp.trackers.tracker",
    "rlcomp.io.wandb_run": "rlcomp.trackers.wandb",
}
# Groups, nodes and arguments.
_NAMES = {"sampling": "decoding", "proximal": "old_log_probs", "never": "suppressed_tokens"}


def new_name(name: str) -> str | None:
    """Return the name that a group, node or argument of 0.1 has now.

    Examples:
        >>> new_name("sampling"), new_name("loss")
        ('decoding', None)
    """
    return _NAMES.get(name)


def new_target(target: str) -> str | None:
    """Return the name that a target of 0.1 has now.

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
        if (new := _current(target)) is not None:
            node: Any = config
            for key in path:
                node = node._get_node(key)
            node["_target_"] = new
    return config


def _current(target: str) -> str | None:
    """Return the name that a class of 0.2 has now; None if it is unchanged."""
    if target in _CLASSES:
        return _CLASSES[target]
    module, _, name = target.rpartition(".")
    return f"{_MODULES[module]}.{name}" if module in _MODULES else None


def renamed_classes(config: DictConfig) -> list[str]:
    """Return one message for each class of a config that has another name now."""
    targets = _targets(OmegaConf.to_container(config, resolve=False), ())
    return [
        f"{'.'.join(map(str, path))}._target_: {target} is now {new}"
        for path, target in targets
        if (new := _current(target)) is not None
    ]


def of_version_0_1(config: DictConfig) -> str | None:
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
        for place, item in enumerate(value):
            yield from _targets(item, (*path, place))
