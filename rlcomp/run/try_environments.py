"""Early check that environments begin an episode on the first examples."""

from __future__ import annotations

from collections.abc import Mapping

from rlcomp.checkpoint.random_state import random_state, set_random_state
from rlcomp.episodes.host import Broken, Start
from rlcomp.episodes.player import Player
from rlcomp.errors import ConfigErrors
from rlcomp.run.try_rewards import first_examples


def try_environments(nodes: Mapping[str, object]) -> None:
    """Reset the environment of each player on examples of the task, and forget the episodes.

    Args:
        nodes: nodes of the run, by path.

    Raises:
        ConfigErrors: every episode failed at once, as it would after the warm start.
    """
    starts = [Start(example, 0) for example in first_examples(nodes.get("task"))]
    players = {path: node for path, node in nodes.items() if isinstance(node, Player)}
    errors, state = [], random_state()
    try:
        for path, player in players.items() if starts else ():
            turns = player.host.open(starts)
            player.host.close()
            broken = [turn.why for turn in turns if isinstance(turn, Broken)]
            if len(broken) == len(turns):
                message = (
                    f"reset on the first examples of the task, tried before the run: {broken[0]}"
                )
                errors.append(f"{path}.environment: {message}")
    finally:
        set_random_state(state)
    if errors:
        raise ConfigErrors(errors)
