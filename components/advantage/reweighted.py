"""Advantages that reweight rows or the advantage of another estimator."""

from __future__ import annotations

from typing import Literal

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.branching import share_centred, share_std
from rlcomp.functional.distillation import distillation_advantage
from rlcomp.functional.group_statistics import difficulty_weighted, group_accuracy
from rlcomp.interfaces.advantage import broadcast, rewards_to_go, write_advantage
from rlcomp.interfaces.turns import roots
from rlcomp.metrics import record


class DifficultyWeightedAdvantage(Component):
    """GRPO-LEAD advantage reweighting by prompt difficulty.

    ``A' = A * w(q)`` if ``A > 0``, else ``A * w(1 - q)``, with
    ``w(q) = a + (b - a) / (1 + exp(k (q - q0)))`` and ``q`` the group's accuracy.

    ``w`` falls from b at low accuracy to a at high accuracy. The sign of ``A`` never changes.

    Runs the estimator without dense rewards. Reads ``correct``, ``reward_valid``, ``group_id``
    ``[B]``, ``response_mask`` ``[B, T]``, and ``token_reward`` ``[B, T]`` if present, whose
    reward-to-go is added to ``A'``. Writes ``advantage`` ``[B, T]``. Records
    ``advantage/group_accuracy``.

    Args:
        advantage: the estimator of ``A``.
        low: a, weight of easy prompts.
        high: b, weight of hard prompts.
        midpoint: q0, accuracy at which ``w = (a + b) / 2``.
        steepness: k, per unit of accuracy.

    Source:
        Zhang and Zuo 2025 (GRPO-LEAD), arXiv:2504.09696, section 3.3.
    """

    reads = ("correct", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    runs = ("advantage",)
    min_group_size = 2

    def __init__(
        self,
        *,
        advantage: Component,
        low: NonNegativeFloat = 0.4,
        high: NonNegativeFloat = 1.5,
        midpoint: Probability = 0.75,
        steepness: PositiveFloat = 10.0,
    ) -> None:
        super().__init__()
        self.advantage = advantage
        self.low = low
        self.high = high
        self.midpoint = midpoint
        self.steepness = steepness

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run the estimator and reweight its advantage."""
        # Dense rewards (KL) are added after the reweighting, which must not change them.
        estimated = self.advantage(batch.exclude("token_reward"))
        valid = batch["reward_valid"]
        accuracy = group_accuracy(batch["correct"], batch["group_id"], valid)
        record("advantage/group_accuracy", accuracy, where=valid)
        weighted = difficulty_weighted(
            estimated["advantage"], accuracy, self.low, self.high, self.midpoint, self.steepness
        )
        return write_advantage(batch, weighted + rewards_to_go(batch))


class Noon(Component):
    """Noon ("no negative"): positive advantages only.

    ``A_t <- max(A_t, 0)`` with ``A`` of another estimator.

    Tokens with negative advantage have zero loss and gradient and stay in the denominator of the
    loss.

    Runs the estimator and overwrites its ``advantage`` ``[B, T]``; reads ``response_mask``
    ``[B, T]``, and ``reward_valid`` ``[B]`` if present. Records ``advantage/dropped_negative``, the
    share of tokens whose advantage was negative.

    Args:
        advantage: the estimator; choose it by ``advantage@advantage.advantage=leave_one_out``.

    Source:
        He et al. 2025, arXiv:2508.07768 (PAMA: Noon PPO).
    """

    reads = ("response_mask",)
    optional = ("reward_valid",)
    writes = ("advantage",)
    runs = ("advantage",)

    def __init__(self, *, advantage: Component) -> None:
        super().__init__()
        self.advantage = advantage

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run the estimator, then clamp its advantage at 0 from below."""
        batch = self.advantage(batch)
        negative = batch["advantage"] < 0
        record("advantage/dropped_negative", negative, where=batch["response_mask"])
        return write_advantage(batch, batch["advantage"].clamp(min=0))


class BranchShareAdvantage(Component):
    """Group advantage in which a row is weighted by its share of an independent episode.

    ``A_i = (R_i - sum_j s_j R_j / S) / (std + eps)``, ``S = sum_j s_j``, with ``s`` =
    ``branch_share`` and ``std^2 = sum_j s_j (R_j - mean)^2 / (S - 1)``. Without branches it is
    GRPO's advantage. The loss must weigh rows by ``s``, too (``attribution=share`` sets both).

    With ``baseline=others`` the mean excludes the row's own tree. With ``baseline=others`` and
    ``norm=none`` the expected gradient is exact for every branching rule and a fixed number of
    trees.

    Reads ``reward``, ``reward_valid``, ``group_id``, ``trajectory_id``, ``branch_parent``,
    ``branch_share`` ``[B]``, ``response_mask`` ``[B, T]``, and ``token_reward`` ``[B, T]`` if
    present. Writes ``advantage`` ``[B, T]``: 0 for invalid rewards, in groups of equal rewards, and
    with ``baseline=others`` in groups of one tree, up to the reward-to-go of dense rewards.

    Args:
        baseline: ``group``: mean over all trees of the group; ``others``: mean over the other trees
            of the group.
        norm: ``std``: divide by the standard deviation; ``none``: do not divide.
        epsilon: added to the standard deviation, in reward units.

    Source:
        The group baseline of Shao et al. 2024, arXiv:2402.03300, eq. 3, over the trees of Dong et
        al. 2025 (ARPO), arXiv:2507.19849.
    """

    reads = (
        *("reward", "reward_valid", "group_id", "trajectory_id", "branch_parent"),
        *("branch_share", "response_mask"),
    )
    optional = ("token_reward",)
    writes = ("advantage",)
    min_group_size = 2

    def __init__(
        self,
        *,
        baseline: Literal["group", "others"] = "group",
        norm: Literal["std", "none"] = "std",
        epsilon: PositiveFloat = 1e-6,
    ) -> None:
        super().__init__()
        self.others = baseline == "others"
        self.epsilon = epsilon if norm == "std" else None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        reward, share = batch["reward"], batch["branch_share"]
        group, valid = batch["group_id"], batch["reward_valid"]
        root = roots(batch["trajectory_id"], batch["branch_parent"])
        advantage = share_centred(reward, share, root, group, valid, others=self.others)
        if self.epsilon is not None:
            advantage = advantage / (share_std(reward, share, group, valid) + self.epsilon)
        return broadcast(batch, advantage)


class DistillationAdvantage(Component):
    """Distillation advantage: on-policy distillation with the policy gradient.

    ``A_t = c * (log pi_T(a_t) - log pi(a_t))``; with ``horizon: sequence`` the sum of this term
    over ``a_t`` and all later tokens. It is added to the advantage of another estimator, if any.

    ``sequence`` gives the gradient of ``KL(pi(y) || pi_T(y))`` in expectation, with the noise of
    all later tokens. ``token`` gives the gradient of the next-token KL at the sampled prefixes
    (``loss=distil`` computes it without sampling noise); it is biased for the KL of responses.

    Reads ``response_mask``, ``rollout_log_probs``, ``ref_log_probs`` ``[B, T]``, and
    ``reward_valid`` ``[B]`` if present. Log-probs that the sampler did not record (NaN) are not
    replaced. Writes ``advantage`` ``[B, T]``, nats. Records ``advantage/distilled``, the mean of
    ``log pi_T(a_t) - log pi(a_t)`` before clipping, nats per token, and
    ``advantage/distilled_clipped``, the share of clipped tokens.

    Args:
        horizon: ``token`` credits a token with its own term; ``sequence`` with its own term and the
            terms of all later tokens.
        clip: largest absolute value of one token's term, nats; null: no bound.
        coef: c, weight of the teacher.
        advantage: the estimator whose advantage is added; null: only the teacher's term.

    Source:
        Gu et al. 2023 (MiniLLM), arXiv:2306.08543, eq. 2; Lu & Thinking Machines Lab 2025,
        "On-Policy Distillation".
    """

    reads = ("response_mask", "rollout_log_probs", "ref_log_probs")
    optional = ("reward_valid",)
    writes = ("advantage",)
    runs = ("advantage",)

    def __init__(
        self,
        *,
        horizon: Literal["token", "sequence"] = "token",
        clip: PositiveFloat | None = 10.0,
        coef: NonNegativeFloat = 1.0,
        advantage: Component | None = None,
    ) -> None:
        super().__init__()
        self.horizon = horizon
        self.clip = clip
        self.coef = coef
        self.advantage = advantage

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        mask, student = batch["response_mask"], batch["rollout_log_probs"]
        teacher = batch["ref_log_probs"]
        record("advantage/distilled", teacher - student, where=mask)
        if self.clip is not None:
            clipped = (teacher - student).abs() > self.clip
            record("advantage/distilled_clipped", clipped, where=mask)
        to_go = self.horizon == "sequence"
        advantage = self.coef * distillation_advantage(student, teacher, mask, to_go, self.clip)
        if self.advantage is not None:
            batch = self.advantage(batch)
            advantage = advantage + batch["advantage"]
        return write_advantage(batch, advantage)
