"""Steps in environments with goals."""

from __future__ import annotations

from typing import ClassVar

from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase

from components.collector.steps import StepCollector
from rlcomp.arguments import PositiveInt
from rlcomp.errors import ConfigError

_GOALS = ("achieved_goal", "desired_goal", "trajectory")


class GoalStepCollector(StepCollector):
    """Collector of steps with desired goal, achieved goal and the number of the episode.

    Everything else is as in :class:`~components.collector.steps.StepCollector`.

    Args:
        environment: writes ``achieved_goal``, ``desired_goal`` and ``trajectory`` as well.
        policy: the policy that draws actions.
        exploration: the stage that changes the actions; ``Nothing`` leaves them.
        num_steps: steps of each copy per batch.

    Raises:
        ConfigError: the environment has no goals; names the key that is not there.
    """

    writes: ClassVar[tuple[str, ...]] = (
        *StepCollector.writes,
        *("achieved_goal", "desired_goal", "trajectory", "next.achieved_goal"),
        "next.desired_goal",
    )

    def __init__(
        self,
        *,
        environment: EnvBase,
        policy: TensorDictModuleBase,
        exploration: TensorDictModuleBase,
        num_steps: PositiveInt = 50,
    ) -> None:
        super().__init__(
            environment=environment, policy=policy, exploration=exploration, num_steps=num_steps
        )
        spec = environment.observation_spec
        missing = [key for key in _GOALS if key not in spec]
        if missing:
            raise ConfigError(
                f"the environment shows no '{missing[0]}' ({', '.join(map(str, spec))}): hindsight "
                "needs goals, as the environment of recipe=her has them; or begin with recipe=sac"
            )
