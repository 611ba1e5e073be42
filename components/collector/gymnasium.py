"""Environment steps from torchrl's collector."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.collectors import Collector
from torchrl.envs import EnvBase

from rlcomp.arguments import NonNegativeInt, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.component import check_arguments
from rlcomp.metrics import record, record_total
from rlcomp.seed import named_seed, new_generator


class GymnasiumCollector(TensorDictModuleBase):  # type: ignore[misc]
    """Collector of ``num_steps`` steps per environment copy; episodes continue across batches.

    Writes a new batch ``[N, num_steps]`` of ``N`` copies of the environment with torchrl's keys
    of the environment and of the policy. Records ``episode/return`` and ``episode/length``
    over the episodes that ended, and ``collector/frames``, the steps of all copies together.

    The environments cannot be rewound: a resumed run restores weights and optimizer but starts new
    episodes, so its numbers differ from those of an uninterrupted run.

    Args:
        environment: the environment; writes ``episode_reward`` and ``step_count``.
        policy: the policy; draws actions and writes their log-probs.
        num_steps: steps of each copy per batch.
    """

    def __init__(
        self, *, environment: EnvBase, policy: TensorDictModuleBase, num_steps: PositiveInt = 128
    ) -> None:
        super().__init__()
        check_arguments(
            type(self), (), {"environment": environment, "policy": policy, "num_steps": num_steps}
        )
        self.environment = environment
        self.policy = policy
        self.num_steps = num_steps
        self.generator = new_generator()
        self.seed = torch.initial_seed()
        self.frames = 0
        self.collector: Collector | None = None
        self.in_keys: list[str] = []
        specified = environment.fake_tensordict().keys(include_nested=True, leaves_only=True)
        self.out_keys = list(dict.fromkeys([*specified, *policy.out_keys]))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the next ``num_steps`` steps of every copy; ignores the incoming batch."""
        rollout = self._next()
        self.frames += rollout.numel()
        after = rollout["next"]
        record("episode/return", after["episode_reward"], where=after["done"])
        record("episode/length", after["step_count"], where=after["done"])
        record_total("collector/frames", rollout.numel())
        return rollout

    def _next(self) -> TensorDict:
        # The policy draws from the global generator; it has this node's state meanwhile.
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.generator.get_state())
            if self.collector is None:  # environment and policy are on their device only now
                self.collector = self._collector()
            rollout: TensorDict = self.collector.next()
            self.generator.set_state(torch.get_rng_state())
        return rollout

    def _collector(self) -> Collector:
        frames = self.num_steps * self.environment.batch_size.numel()
        return Collector(
            self.environment,
            self.policy,
            frames_per_batch=frames,
            total_frames=-1,
            auto_register_policy_transforms=False,
        )

    def run_state(self) -> dict[str, object]:
        """Return the number of frames collected."""
        return {"frames": self.frames}

    def load_run_state(self, state: dict[str, int]) -> None:
        """Continue with new episodes and new seeds."""
        self.frames = field(state, "frames", NonNegativeInt)
        start = named_seed(self.seed, f"after {self.frames} frames")
        self.environment.set_seed(start % 2**31)  # environments accept at most 31 bits
