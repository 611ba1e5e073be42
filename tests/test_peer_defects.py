"""Defects that were found in other people's losses: ``check_loss`` catches each of them by a law.

The numbers are those of the specification's list of defects and edge cases. What a law of losses
cannot see (a wrong estimator, a wrong default) has a test beside the part it concerns.
"""

import pytest
import torch
from tensordict import TensorDict

from components.loss.reduction import TokenMean
from rlcomp.errors import ContractError
from rlcomp.functional.divergence import kl_estimate
from rlcomp.functional.ratio import log_ratio
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.testing import check_loss

NEVER_ON_POLICY = "at ratio 1 the gradient is -advantage * loss_weight"
SPLIT = "micro-batches sum to the whole"


class Surrogate(TokenLoss):
    """A sound loss, -sum w A r, for the defects to be put into."""

    reads = ("response_mask", "log_probs", "old_log_probs", "rollout_log_probs", "advantage")
    runs = ("reduction",)
    contained = True

    def __init__(self):
        super().__init__(reduction=TokenMean())

    def ratio(self, batch):
        mask = batch["response_mask"]
        return log_ratio(batch["log_probs"], batch["old_log_probs"], mask).exp()

    def weight(self, batch):
        mask = batch["response_mask"]
        return log_ratio(batch["old_log_probs"], batch["rollout_log_probs"], mask).exp().detach()

    def advantage(self, batch):
        return masked(batch["advantage"].detach(), batch["response_mask"])

    def per_token(self, batch):
        return -self.weight(batch) * self.ratio(batch) * self.advantage(batch)

    def reduce(self, per_token, batch):
        return (per_token * batch["loss_weight"]).sum()

    def forward(self, batch: TensorDict) -> TensorDict:
        batch = self.weighted(batch)
        return scalars(loss=self.reduce(self.per_token(batch), batch))


class NaNOnPaddingLeaks(Surrogate):
    """6: a mask that multiplies lets NaN on padding through."""

    def advantage(self, batch):
        return batch["advantage"].detach() * batch["response_mask"]


class NaNForAnEmptyBatch(Surrogate):
    """6: a denominator of 0."""

    def reduce(self, per_token, batch):
        return masked(per_token, batch["response_mask"]).sum() / batch["response_mask"].sum()


class LocalTokenMean(Surrogate):
    """Section 6: the tokens of the micro-batch stand for those of the step."""

    def reduce(self, per_token, batch):
        count = batch["response_mask"].sum().clamp(min=1)
        return masked(per_token, batch["response_mask"]).sum() / count


class DividedByThePaddedWidth(Surrogate):
    """7: a constant length that changes with the padding."""

    def reduce(self, per_token, batch):
        return masked(per_token, batch["response_mask"]).sum() / per_token.numel()


class EmptyRowsAveraged(Surrogate):
    """10, 5.1: the mean over rows counts those without a token."""

    def prepare(self, batch):
        mask = batch["response_mask"]
        weight = mask / mask.sum(1, keepdim=True).clamp(min=1) / mask.shape[0]
        return TensorDict({"loss_weight": weight}, batch_size=batch.batch_size)


class ReductionIgnored(Surrogate):
    """8: a sequence loss that averages rows whatever the reduction says."""

    def reduce(self, per_token, batch):
        mask = batch["response_mask"]
        rows = (masked(per_token, mask) / mask.sum(1, keepdim=True).clamp(min=1)).sum(1)
        return rows.sum() / mask.any(1).sum().clamp(min=1)


class UnclampedRatio(Surrogate):
    """10: exp of a log-ratio of 100."""

    def ratio(self, batch):
        mask = batch["response_mask"]
        old = masked(batch["old_log_probs"].detach(), mask)
        return (masked(batch["log_probs"], mask) - old).exp()


class UnclampedSamplerWeight(Surrogate):
    """16: a sampler weight without a bound, although documented with one."""

    def weight(self, batch):
        mask = batch["response_mask"]
        old, rollout = batch["old_log_probs"], batch["rollout_log_probs"]
        return (masked(old, mask) - masked(rollout, mask)).exp().detach()


class WeightWithGradient(Surrogate):
    """11: an importance weight that is not detached moves the policy a second time."""

    def weight(self, batch):
        mask = batch["response_mask"]
        return log_ratio(batch["log_probs"], batch["rollout_log_probs"], mask).exp()


class GradientIntoTheSampler(Surrogate):
    """18: the old side of a difference keeps its graph."""

    def ratio(self, batch):
        mask = batch["response_mask"]
        gap = masked(batch["log_probs"], mask) - masked(batch["old_log_probs"], mask)
        return gap.clamp(-20, 20).exp()


class WhitenedInTheMicroBatch(Surrogate):
    """2.4: statistics of whatever rows came along."""

    def advantage(self, batch):
        advantage = super().advantage(batch)
        inside = advantage[batch["response_mask"]]
        return advantage / inside.square().mean().sqrt().clamp(min=1e-6)


class CovarianceOfTheMicroBatch(Surrogate):
    """5.3, 24: what is picked from the step is picked from the micro-batch."""

    def advantage(self, batch):
        advantage = super().advantage(batch)
        highest = advantage.abs().amax()
        return torch.where(advantage.abs() < highest, advantage, torch.zeros_like(advantage))


class RejectionShrinksTheDenominator(Surrogate):
    """Section 7: rejected tokens leave the mask, and the micro-batch's mean with it."""

    def reduce(self, per_token, batch):
        kept = batch["response_mask"] & (self.weight(batch) < 1.1)
        return masked(per_token, kept).sum() / kept.sum().clamp(min=1)


class KLOverPadding(TokenLoss):
    """12: the mean of the KL counts padding."""

    reads = ("response_mask", "log_probs", "ref_log_probs")
    runs = ("reduction",)
    contained = True

    def __init__(self):
        super().__init__(reduction=TokenMean())

    def forward(self, batch: TensorDict) -> TensorDict:
        mask = batch["response_mask"]
        kl = kl_estimate(batch["log_probs"], batch["ref_log_probs"], mask, "k3")
        return scalars(loss=kl.mean())


DEFECTS = {
    NaNOnPaddingLeaks: "nothing outside the mask matters",
    NaNForAnEmptyBatch: SPLIT,
    LocalTokenMean: SPLIT,
    DividedByThePaddedWidth: "padding on the right changes nothing",
    EmptyRowsAveraged: "an empty response changes nothing",
    ReductionIgnored: SPLIT,
    UnclampedRatio: "extreme log-ratios stay finite",
    UnclampedSamplerWeight: "extreme log-ratios stay finite",
    WeightWithGradient: NEVER_ON_POLICY,
    GradientIntoTheSampler: "no gradient reaches data",
    WhitenedInTheMicroBatch: SPLIT,
    CovarianceOfTheMicroBatch: SPLIT,
    RejectionShrinksTheDenominator: SPLIT,
    KLOverPadding: "padding on the right changes nothing",
}


def test_the_loss_without_a_defect_passes():
    check_loss(Surrogate())


@pytest.mark.parametrize("broken", DEFECTS, ids=lambda cls: cls.__name__)
def test_a_defect_is_caught_by_a_law(broken):
    with pytest.raises(ContractError) as caught:
        check_loss(broken())

    assert DEFECTS[broken] in str(caught.value)
