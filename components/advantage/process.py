"""GRPO with process supervision: group-standardised step rewards, summed to go."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.process_reward import step_advantage
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.metrics import record


class Process(Component):
    """GRPO advantage with process supervision (DeepSeekMath).

    ``A_it = sum_{j: end(j) >= t} (r_ij - mean_g(r)) / (std_g(r) + eps)``; mean and unbiased std
    over the step rewards of all responses of the group.

    The outcome ``reward`` is not used. Put the KL penalty in the loss (``kl=in_loss``): in the
    token reward it would be mixed into the step rewards.

    Reads ``reward_valid``, ``group_id`` ``[B]``, ``token_reward``, ``step_end``, ``response_mask``
    ``[B, T]``. Writes ``advantage`` ``[B, T]``: 0 for invalid rewards and in groups in which fewer
    than two answers have a rewarded step or all steps are rewarded alike.

    Args:
        epsilon: eps, in reward units.

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
        return write_advantage(batch, advantage)
