"""The rewards of single steps, in standard deviations of all steps of the group."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.process_reward import step_advantage
from rlcomp.interfaces.advantage import put_advantage
from rlcomp.metrics import record


class Process(Component):
    """Process supervision: a token is credited with the steps that end at it or after it.

    The steps of all answers to a prompt are standardised together, ``(r - mean_g) / (std_g +
    epsilon)``. The outcome ``reward`` plays no part. Price the KL in the loss (``kl=in_loss``): in
    the reward it would be taken for a part of the steps' rewards.

    Reads ``reward_valid``, ``group_id`` ``[B]``, ``token_reward``, ``step_end``, ``response_mask``
    ``[B, T]``. Writes ``advantage`` ``[B, T]``: 0 for invalid rewards and in groups in which fewer
    than two answers have a rewarded step or all steps are rewarded alike.

    Args:
        epsilon: added to the standard deviation, in reward units.

    Source:
        Shao et al. 2024, arXiv:2402.03300, section 4.1.3.
    """

    reads = ("reward_valid", "group_id", "token_reward", "step_end", "response_mask")
    writes = ("advantage",)
    min_group_size = 2

    def __init__(self, *, epsilon: PositiveFloat = 1e-6) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        mask = batch["response_mask"]
        advantage = step_advantage(
            batch["token_reward"],
            batch["step_end"] & mask,
            batch["group_id"],
            batch["reward_valid"],
            self.epsilon,
        )
        record("advantage/abs", advantage.abs(), where=mask)
        record("advantage/zero_fraction", advantage == 0, where=mask)
        return put_advantage(batch, advantage)
