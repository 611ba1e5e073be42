"""Steps in environments of control; a resume is exact if the environment can be rewound."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase, ExplorationType, set_exploration_type

from rlcomp.arguments import NonNegativeInt, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.component import Component
from rlcomp.interfaces.rewinds import Rewinds
from rlcomp.metrics import record, record_total
from rlcomp.seed import named_seed, new_generator


class StepCollector(Component):
    """Collector of ``num_steps`` steps per environment copy; episodes continue across batches.

    Writes a new batch ``[N, num_steps]`` of ``N`` copies, with every entry of the environment and
    of the policy. Records ``episode/return`` and ``episode/length`` over the episodes that ended,
    and ``collector/frames``, the steps of all copies together.

    An environment whose state is tensors (:class:`rlcomp.interfaces.rewinds.Rewinds`) continues
    from a checkpoint bit by bit. Others cannot be rewound: a resumed run restores weights,
    optimiser and replay but starts new episodes.

    Args:
        environment: writes ``episode_reward`` and ``step_count``. Collectors may share one; each
            starts with new episodes.
        policy: the policy that draws actions.
        exploration: the stage that changes the actions; ``Nothing`` leaves them.
        num_steps: steps of each copy per batch.
    """

    writes: ClassVar[tuple[str, ...]] = (
        *("observation", "action", "step_count", "next.observation", "next.reward", "next.done"),
        *("next.terminated", "next.truncated", "next.step_count", "next.episode_reward"),
    )
    may_write = (
        *("action_log_prob", "trajectory", "achieved_goal", "desired_goal", "next.achieved_goal"),
        *("expert_action", "intervened"),
    )
    fresh = True

    def __init__(
        self,
        *,
        environment: EnvBase,
        policy: TensorDictModuleBase,
        exploration: TensorDictModuleBase,
        num_steps: PositiveInt = 4,
    ) -> None:
        super().__init__()
        self.environment = environment
        self.policy = policy
        self.exploration = exploration
        self.num_steps = num_steps
        self.generator = new_generator()
        self.seed = torch.initial_seed()
        self.frames = 0
        self.seen: TensorDict | None = None

    @torch.no_grad()
    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the next ``num_steps`` steps of every copy; ignores the incoming batch."""
        # The policy draws from the global generator; it has this node's state meanwhile.
        with torch.random.fork_rng(devices=[]), set_exploration_type(ExplorationType.RANDOM):
            torch.set_rng_state(self.generator.get_state())
            rollout = self._steps()
            self.generator.set_state(torch.get_rng_state())
        self.frames += rollout.numel()
        after = rollout["next"]
        record("episode/return", after["episode_reward"], where=after["done"])
        record("episode/length", after["step_count"], where=after["done"])
        record_total("collector/frames", rollout.numel())
        return rollout

    def _steps(self) -> TensorDict:
        observed, steps = self._seen(), []
        for _ in range(self.num_steps):
            acted = self.exploration(self.policy(observed))
            stepped, observed = self.environment.step_and_maybe_reset(acted)
            steps.append(stepped)
        self.seen = observed
        rollout: TensorDict = torch.stack(steps, dim=1)
        return rollout

    def _seen(self) -> TensorDict:
        if self.frames and isinstance(self.environment, Rewinds):
            return self.environment.present()
        return self.environment.reset() if self.seen is None else self.seen

    def run_state(self) -> dict[str, object]:
        """Return the number of frames collected."""
        return {"frames": self.frames}

    def load_run_state(self, state: dict[str, int]) -> None:
        """Continue, with new episodes and seeds if the environment cannot be rewound."""
        self.frames, self.seen = field(state, "frames", NonNegativeInt), None
        if not isinstance(self.environment, Rewinds):
            start = named_seed(self.seed, f"after {self.frames} frames")
            self.environment.set_seed(start % 2**31)  # gymnasium accepts at most 31 bits
