"""Trials of engines, environments and rewards before a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tensordict import TensorDict

from rlcomp.batch import encode_texts
from rlcomp.checkpoint.random_state import random_state, set_random_state
from rlcomp.config.plan import Plan
from rlcomp.data.examples import prompt_batch
from rlcomp.episodes.host import EnvironmentFailure, Start
from rlcomp.episodes.player import Player
from rlcomp.errors import ConfigErrors, UserError
from rlcomp.interfaces.reward import SupportsTrial
from rlcomp.interfaces.sampler_engine import RemoteEngine
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.run.check_tasks import first_examples, tasks_with_rewards


def try_engines(nodes: Mapping[str, object]) -> None:
    """Reach every engine in another process.

    Args:
        nodes: nodes of the run, by path.

    Raises:
        ConfigError: an engine cannot be reached, as the first rollout would show.
    """
    for node in nodes.values():
        if isinstance(node, RemoteEngine):
            node.reach()


# Number of examples. A reward scores the demonstration of each, and an empty response to it; an
# environment is reset on each.
_EXAMPLES = 2


def try_rewards(plan: Plan, built: Mapping[str, object]) -> None:
    """Let every reward that needs it score a few responses to its task; drop the scores.

    Nothing is recorded, and the random number generators are restored.

    Args:
        plan: plan of the run.
        built: nodes by path; nodes that are not built yet are skipped.

    Raises:
        ConfigErrors: a reward fails; or it scores none, and the run would stop for that later.
    """
    errors: list[str] = []
    state = random_state()
    try:
        for path, reward, batch in _trials(plan, built):
            try:
                with recording():
                    fault = reward.trial(batch)
            except UserError as error:
                fault = str(error)
            else:
                fault = fault if _stops_without_rewards(plan) else None
            if fault:
                errors.append(
                    f"{path}.function {reward.function_name}, tried before the run: {fault}"
                )
    finally:
        set_random_state(state)
    if errors:
        raise ConfigErrors(errors)


def _trials(
    plan: Plan, built: Mapping[str, object]
) -> Iterator[tuple[str, SupportsTrial, TensorDict]]:
    """Yield each reward to test, once, with rows of the first of its tasks."""
    tried_paths: set[str] = set()
    for tasks, rewards in tasks_with_rewards(plan):
        examples = (first_examples(built.get(tasks[0].path), _EXAMPLES) or []) if tasks else []
        for node in rewards if examples else ():
            reward = built.get(node.path)
            if isinstance(reward, SupportsTrial) and node.path not in tried_paths:
                tried_paths.add(node.path)
                yield node.path, reward, _rows(examples)


def _rows(examples: list[Example]) -> TensorDict:
    batch = prompt_batch([example for example in examples for _ in range(2)])
    texts = [text for example in examples for text in (example.demonstration, "")]
    batch["response"] = encode_texts(texts)
    return batch


def _stops_without_rewards(plan: Plan) -> bool:
    """Return whether the run stops when no reward is valid."""
    limits = (node.arguments.get("max_invalid_fraction") for node in plan.nodes.values())
    return any(isinstance(limit, (int, float)) and limit < 1 for limit in limits)


def try_environments(nodes: Mapping[str, object]) -> None:
    """Reset the environment of each player on examples of the node ``task``; drop the episodes.

    Without a task nothing is tried. The random number generators are restored.

    Args:
        nodes: nodes of the run, by path.

    Raises:
        ConfigErrors: no reset of an environment succeeds.
    """
    examples = first_examples(nodes.get("task"), _EXAMPLES) or []
    starts = [Start(example, 0) for example in examples]
    players = {path: node for path, node in nodes.items() if isinstance(node, Player)}
    errors, state = [], random_state()
    try:
        for path, player in players.items() if starts else ():
            turns = player.host.open(starts)
            player.host.close()
            reset_errors = [turn.reason for turn in turns if isinstance(turn, EnvironmentFailure)]
            if len(reset_errors) == len(turns):
                errors.append(
                    f"{path}.environment: reset on the first examples of the task, tried before "
                    f"the run: {reset_errors[0]}"
                )
    finally:
        set_random_state(state)
    if errors:
        raise ConfigErrors(errors)
