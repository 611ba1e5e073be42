"""Every law catches the mistake it is for, and quotes its name."""

import pytest
import torch
from tensordict import TensorDict

from components.advantage.group import GroupMean, GroupMeanStd
from components.kl_controller import FixedKL
from components.loss.imitation import SFTLoss
from components.loss.kl import KLLoss
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import FixedLength, SequenceMean, SequenceSum, TokenMean
from components.loss.trust_region.clip import Clip
from rlcomp.batch import keep_prompt
from rlcomp.component import Component
from rlcomp.errors import ConfigError, ContractError
from rlcomp.functional.ratio import log_ratio
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.advantage import broadcast
from rlcomp.interfaces.loss import RowLoss, TokenLoss, scalars
from rlcomp.keys import SCHEMA
from rlcomp.seed import new_generator
from rlcomp.testing import check_advantage, check_component, check_loss, example_batch, make_batch

NAN = float("nan")


class Gradient(TokenLoss):
    """A sound loss: -sum w A r. The broken ones below change one thing each."""

    reads = ("response_mask", "log_probs", "old_log_probs", "advantage")
    runs = ("reduction",)
    contained = True

    def __init__(self) -> None:
        super().__init__(reduction=TokenMean())

    def mask(self, batch):
        return batch["response_mask"]

    def log_ratio(self, batch):
        return log_ratio(batch["log_probs"], batch["old_log_probs"], self.mask(batch))

    def advantage(self, batch):
        return masked(batch["advantage"].detach(), self.mask(batch))

    def reduce(self, per_token, batch):
        return (per_token * batch["loss_weight"]).sum()

    def forward(self, batch: TensorDict) -> TensorDict:
        batch = self.weighted(batch)
        per_token = self.log_ratio(batch).exp() * self.advantage(batch)
        return scalars(loss=-self.reduce(per_token, batch))


class MultipliesByTheMask(Gradient):
    def advantage(self, batch):
        return batch["advantage"].detach() * batch["response_mask"]


class MeanOverPadding(Gradient):
    def reduce(self, per_token, batch):
        return per_token.mean()


class MeanOverTheMicroBatch(Gradient):
    def reduce(self, per_token, batch):
        return per_token.sum() / batch["response_mask"].sum().clamp(min=1)


class OldSideWithGradient(Gradient):
    def log_ratio(self, batch):
        new, old = (masked(batch[k], self.mask(batch)) for k in ("log_probs", "old_log_probs"))
        return (new - old).clamp(-20, 20)


class AdvantageWithGradient(Gradient):
    def advantage(self, batch):
        return masked(batch["advantage"], self.mask(batch))


class AdvantageInPlace(Gradient):
    def advantage(self, batch):
        with torch.no_grad():
            return masked(batch["advantage"].data.mul_(0.5), self.mask(batch))


class CountsEmptyResponses(Gradient):
    def reduce(self, per_token, batch):
        return per_token.sum(1).mean()

    def prepare(self, batch):
        weight = batch["response_mask"] / batch["response_mask"].shape[0]
        return TensorDict({"loss_weight": weight}, batch_size=batch.batch_size)


class PaddedWidth(Gradient):
    def reduce(self, per_token, batch):
        return (per_token * batch["loss_weight"]).sum() / per_token.shape[1]


class DiscountsObservations(Gradient):
    """Counts every column from the first of the response on as a step."""

    def advantage(self, batch):
        steps = (batch["response_mask"].cumsum(1) > 0).cumsum(1)
        return super().advantage(batch) * 0.9**steps


class ClampsTheOldSide(Gradient):
    def log_ratio(self, batch):
        old = batch["old_log_probs"].clamp(min=-1.0)
        return log_ratio(batch["log_probs"], old, self.mask(batch))


class FlippedRatio(Gradient):
    def log_ratio(self, batch):
        return -super().log_ratio(batch)


class PromptTokens(Gradient):
    reads = (*Gradient.reads, "attention_mask")

    def mask(self, batch):
        return batch["attention_mask"]

    def prepare(self, batch):
        mask = batch["attention_mask"]
        return TensorDict({"loss_weight": mask / mask.sum().clamp(min=1)}, batch_size=batch.shape)


class NaNWhenEmpty(Gradient):
    def prepare(self, batch):
        mask = batch["response_mask"]
        return TensorDict({"loss_weight": mask / mask.sum()}, batch_size=batch.batch_size)


class MixesRows(Gradient):
    def advantage(self, batch):
        return super().advantage(batch).roll(1, 0)


class NormalisesTheMicroBatch(Gradient):
    def advantage(self, batch):
        advantage = super().advantage(batch)
        return advantage / advantage.abs().max().clamp(min=1e-6)


class Unclamped(Gradient):
    def log_ratio(self, batch):
        old = batch["old_log_probs"].detach()
        return masked(batch["log_probs"], self.mask(batch)) - masked(old, self.mask(batch))


class AddsAConstant(Gradient):
    def reduce(self, per_token, batch):
        return super().reduce(per_token, batch) + 0.01


class EntropyBesides(Gradient):
    """Pushes log-probs whatever the advantage."""

    def reduce(self, per_token, batch):
        log_probs = masked(batch["log_probs"], batch["response_mask"])
        return super().reduce(per_token - 0.01 * log_probs, batch)


class PerToken(Gradient):
    def forward(self, batch):
        batch = self.weighted(batch)
        return scalars(loss=self.log_ratio(batch).exp() * batch["loss_weight"])


class WritesIntoTheBatch(Gradient):
    def forward(self, batch):
        batch["ratio"] = self.log_ratio(batch).exp().detach()
        return super().forward(batch)


class Unnamed(Gradient):
    def forward(self, batch):
        return scalars(objective=super().forward(batch)["loss"])


class NoGradientAtAll(Gradient):
    def forward(self, batch):
        return scalars(loss=super().forward(batch)["loss"].detach())


BROKEN_LOSSES = {
    MultipliesByTheMask: "nothing outside the mask matters",
    MeanOverPadding: "padding on the right changes nothing",
    MeanOverTheMicroBatch: "micro-batches sum to the whole",
    OldSideWithGradient: "no gradient reaches data",
    AdvantageWithGradient: "no gradient reaches data",
    AdvantageInPlace: "no tensor is changed in place",
    CountsEmptyResponses: "micro-batches sum to the whole",
    PaddedWidth: "padding on the right changes nothing",
    DiscountsObservations: "observations within a response change nothing",
    ClampsTheOldSide: "at ratio 1 the gradient is -advantage * loss_weight",
    FlippedRatio: "at ratio 1 the gradient is -advantage * loss_weight",
    PromptTokens: "the gradient is 0 outside the mask",
    NaNWhenEmpty: "an empty batch has loss 0 and gradient 0",
    MixesRows: "rows may come in any order",
    NormalisesTheMicroBatch: "micro-batches sum to the whole",
    Unclamped: "extreme log-ratios stay finite",
    AddsAConstant: "micro-batches sum to the whole",
    EntropyBesides: "a zero advantage gives no gradient",
    PerToken: "a loss returns scalars",
    WritesIntoTheBatch: "a loss leaves the batch alone",
    Unnamed: "a loss returns scalars",
    NoGradientAtAll: "the loss has a gradient",
}


def test_a_sound_loss_passes():
    check_loss(Gradient())


@pytest.mark.parametrize("broken", BROKEN_LOSSES, ids=lambda cls: cls.__name__)
def test_a_broken_loss_is_caught_by_its_law(broken):
    with pytest.raises(ContractError) as caught:
        check_loss(broken())

    assert str(caught.value).startswith(f"{broken.__name__} breaks '{BROKEN_LOSSES[broken]}'")


@pytest.mark.parametrize(
    ("broken", "key"),
    [(OldSideWithGradient, "old_log_probs"), (AdvantageWithGradient, "advantage")],
)
def test_a_gradient_that_reaches_data_is_refused_with_the_remedy(broken, key):
    with pytest.raises(ContractError, match=rf"detach it, batch\['{key}'\]\.detach\(\)$"):
        check_loss(broken())


class ClippedValue(TokenLoss):
    """Of a critic: reads neither log-probs nor advantage."""

    reads = ("response_mask", "value", "old_value", "returns")
    runs = ("reduction",)
    contained = True

    def forward(self, batch: TensorDict) -> TensorDict:
        batch = self.weighted(batch)
        mask = batch["response_mask"]
        value, old, returns = (masked(batch[k], mask) for k in ("value", "old_value", "returns"))
        near = old.detach() + (value - old.detach()).clamp(-0.2, 0.2)
        worse = torch.maximum((value - returns.detach()) ** 2, (near - returns.detach()) ** 2)
        return scalars(loss_value=0.5 * (worse * batch["loss_weight"]).sum())


class Preference(RowLoss):
    """Of pairs: rows 2k and 2k + 1, nonlinear in the sum over a row."""

    reads = ("response_mask", "log_probs", "ref_log_probs")
    unit_rows = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        batch = self.weighted(batch)
        mask = batch["response_mask"]
        gain = log_ratio(batch["log_probs"], batch["ref_log_probs"], mask).sum(1)
        margin = 0.1 * (gain[::2] - gain[1::2])
        return scalars(
            loss=-(torch.nn.functional.logsigmoid(margin) * batch["row_weight"][::2]).sum()
        )


class Bonuses(Gradient):
    """The policy's and terms of its own beside it, all in one loss."""

    reads = (*Gradient.reads, "entropy", "value", "returns", "ref_log_probs")

    def reduce(self, per_token, batch):
        mask = batch["response_mask"]
        entropy, value, returns = (masked(batch[k], mask) for k in ("entropy", "value", "returns"))
        away = log_ratio(batch["log_probs"], batch["ref_log_probs"], mask)
        terms = 0.1 * entropy - 0.5 * (value - returns.detach()) ** 2 - 0.1 * away
        return super().reduce(per_token + terms, batch)


class Reinforce(Gradient):
    """No old side: always at ratio 1."""

    reads = ("response_mask", "log_probs", "advantage")

    def log_ratio(self, batch):
        log_probs = masked(batch["log_probs"], batch["response_mask"])
        return log_probs - log_probs.detach()


@pytest.mark.parametrize("loss", [Bonuses, Reinforce])
def test_sound_policy_losses_of_other_kinds_pass(loss):
    check_loss(loss())


def test_a_batch_in_float32_is_judged_like_one_in_float64():
    check_loss(Gradient(), example_batch(Gradient.reads))


def flipped(sound):
    class Flipped(sound):
        def log_ratio(self, batch):
            return -super().log_ratio(batch)

    return Flipped


def halved(sound):
    class Halved(sound):
        def advantage(self, batch):
            return super().advantage(batch) / 2

    return Halved


@pytest.mark.parametrize("sound", [Bonuses, Reinforce])
@pytest.mark.parametrize("change", [flipped, halved])
def test_a_wrong_gradient_at_ratio_1_is_caught_for_any_further_keys(change, sound):
    with pytest.raises(ContractError, match=r"'at ratio 1 the gradient is -advantage \* loss_w"):
        check_loss(change(sound)())


@pytest.mark.parametrize("loss", [ClippedValue(reduction=TokenMean()), Preference()])
def test_sound_losses_of_other_kinds_pass(loss):
    check_loss(loss)


def test_a_loss_of_pairs_that_says_nothing_of_pairs_is_caught():
    class Unpaired(Preference):
        unit_rows = 1

    with pytest.raises(ContractError, match="rows may come in any order"):
        check_loss(Unpaired())


def test_a_denominator_that_counts_empty_responses_is_caught():
    class AllRows(Gradient):
        def prepare(self, batch):
            weight = batch["response_mask"] / batch["response_mask"].shape[0]
            return TensorDict({"loss_weight": weight}, batch_size=batch.batch_size)

    with pytest.raises(ContractError, match="'an empty response changes nothing'"):
        check_loss(AllRows())


def test_an_error_says_the_key_the_size_and_the_place():
    with pytest.raises(ContractError, match=r"'old_log_probs' differs by [\d.]+ at \[\d, \d\]"):
        check_loss(OldSideWithGradient())


class Baseline(Component):
    """A sound advantage; the broken ones below change one thing each."""

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    min_group_size = 2

    def centred(self, reward, group_id, valid):
        same = (group_id[:, None] == group_id[None, :]) & valid[None, :]
        mean = torch.where(same, reward[None, :], 0.0).sum(1) / same.sum(1).clamp(min=1)
        return torch.where(valid, reward - mean, torch.zeros_like(reward))

    def forward(self, batch: TensorDict) -> TensorDict:
        args = (batch["reward"], batch["group_id"], batch["reward_valid"])
        return broadcast(batch, self.centred(*args))


class ZeroesTheReward(Baseline):
    def forward(self, batch):
        batch["reward"] = torch.zeros_like(batch["reward"])
        return super().forward(batch)


class WritesReturnsToo(Baseline):
    def forward(self, batch):
        batch["returns"] = batch["response_mask"].float()
        return super().forward(batch)


class WrongRank(Baseline):
    def forward(self, batch):
        return batch.set("advantage", batch["reward"] - batch["reward"].mean())


class WrongType(Baseline):
    def forward(self, batch):
        return batch.set("advantage", batch["response_mask"].long())


class Nothing(Baseline):
    def forward(self, batch):
        return batch


class ByPosition(Baseline):
    def centred(self, reward, group_id, valid):
        reward = torch.where(valid, reward, torch.zeros_like(reward))
        return (reward.view(-1, reward.shape[0] // 2) - reward.mean()).flatten().cumsum(0)


class ByLabel(Baseline):
    def centred(self, reward, group_id, valid):
        return super().centred(reward, group_id, valid) * group_id / 10


class NaNAlone(Baseline):
    def centred(self, reward, group_id, valid):
        same = (group_id[:, None] == group_id[None, :]) & valid[None, :]
        return super().centred(reward, group_id, valid) / (same.sum(1) > 1)


class RawAlone(Baseline):
    def centred(self, reward, group_id, valid):
        alone = (group_id[:, None] == group_id[None, :]).sum(1) == 1
        return torch.where(alone, reward, super().centred(reward, group_id, valid))


class Explodes(Baseline):
    def centred(self, reward, group_id, valid):
        same = group_id[:, None] == group_id[None, :]
        centred = super().centred(reward, group_id, valid)
        size = torch.where(same, centred.abs()[None, :], 0.0).amax(1)
        return centred / (size + 1e-10)


class CountsInvalidRewards(Baseline):
    def centred(self, reward, group_id, valid):
        return super().centred(reward, group_id, torch.ones_like(valid))


class LeavesInvalidRewards(Baseline):
    def forward(self, batch):
        batch = super().forward(batch)
        learnt = batch["reward_valid"][:, None] | ~batch["response_mask"]
        batch["advantage"] = torch.where(learnt, batch["advantage"], -1.0)
        return batch


class InPlace(Baseline):
    def forward(self, batch):
        batch["reward"].sub_(1.0)
        return super().forward(batch)


class PadsWithNaN(Baseline):
    def forward(self, batch):
        batch = super().forward(batch)
        outside = ~batch["response_mask"]
        batch["advantage"] = batch["advantage"].masked_fill(outside, NAN)
        return batch


class OutsideToo(Baseline):
    def forward(self, batch):
        batch = super().forward(batch)
        batch["advantage"] = batch["advantage"].masked_fill(~batch["response_mask"], 1.0)
        return batch


class KeepsTheGraph(Baseline):
    def forward(self, batch):
        advantage = super().centred(batch["reward"], batch["group_id"], batch["reward_valid"])
        mask = batch["response_mask"]
        return batch.set("advantage", masked(advantage[:, None].expand(mask.shape), mask))


class DrawsGlobally(Baseline):
    def centred(self, reward, group_id, valid):
        noise = torch.rand(())
        return noise * super().centred(reward, group_id, valid)


class OverThePaddedWidth(Baseline):
    def forward(self, batch):
        batch = super().forward(batch)
        batch["advantage"] = batch["advantage"] / batch["advantage"].shape[1]
        return batch


class BySpan(Baseline):
    """Divides by the columns from the first to the last token of a response."""

    def forward(self, batch):
        mask = batch["response_mask"]
        place = torch.arange(mask.shape[1])
        ends = [torch.where(mask, place, end).T for end in (mask.shape[1], -1)]
        span = (ends[1].amax(0) - ends[0].amin(0)).clamp(min=0) + 1
        batch = super().forward(batch)
        return batch.set("advantage", batch["advantage"] / span[:, None])


class GetsTired(Baseline):
    """State outside buffers and ``run_state``: a resumed run would differ."""

    calls = 0

    def centred(self, reward, group_id, valid):
        self.calls += 1
        return super().centred(reward, group_id, valid) / self.calls


BROKEN_ADVANTAGES = {
    ZeroesTheReward: "nothing else changes",
    WritesReturnsToo: "what is written is declared",
    WrongRank: "the schema's shape and dtype",
    WrongType: "the schema's shape and dtype",
    Nothing: "what is declared is written",
    ByPosition: "rows may come in any order",
    ByLabel: "group ids are only labels",
    NaNAlone: "what is written is finite",
    RawAlone: "a group of one has advantage 0",
    Explodes: "equal rewards give advantage 0",
    CountsInvalidRewards: "nothing outside the mask matters",
    LeavesInvalidRewards: "an invalid reward has advantage 0",
    InPlace: "no tensor is changed in place",
    PadsWithNaN: "no NaN is left outside the mask",
    OutsideToo: "the advantage is 0 outside the mask",
    KeepsTheGraph: "what is written has no graph",
    DrawsGlobally: "the same state gives the same result",
    GetsTired: "the same state gives the same result",
    BySpan: "observations within a response change nothing",
    OverThePaddedWidth: "padding on the right changes nothing",
}


def test_a_sound_advantage_passes():
    check_component(Baseline())


@pytest.mark.parametrize("broken", BROKEN_ADVANTAGES, ids=lambda cls: cls.__name__)
def test_a_broken_advantage_is_caught_by_its_law(broken):
    with pytest.raises(ContractError) as caught:
        check_component(broken())

    assert str(caught.value).startswith(f"{broken.__name__} breaks '{BROKEN_ADVANTAGES[broken]}'")


def test_without_a_group_baseline_advantages_may_be_large_but_not_explode():
    class Inverse(Component):
        reads = ("reward", "response_mask")
        writes = ("advantage",)

        def forward(self, batch: TensorDict) -> TensorDict:
            above = batch["reward"] - batch["reward"].min()
            return broadcast(batch, batch["reward"] / (above + 1e-10))

    with pytest.raises(ContractError, match="advantages do not explode"):
        check_advantage(Inverse())


def test_a_reduction_that_counts_padding_is_caught():
    class MeanOverEverything(Component):
        reads = ("response_mask",)
        writes = ("loss_weight",)

        def forward(self, batch: TensorDict) -> TensorDict:
            mask = batch["response_mask"]
            return batch.set("loss_weight", mask / mask.numel())

    with pytest.raises(ContractError, match="'padding on the right changes nothing'"):
        check_component(MeanOverEverything())


def test_a_number_per_row_that_depends_on_the_padded_width_is_caught():
    class PerColumn(Component):
        reads = ("token_reward", "response_mask")
        writes = ("reward",)

        def forward(self, batch: TensorDict) -> TensorDict:
            inside = masked(batch["token_reward"], batch["response_mask"])
            return batch.set("reward", inside.mean(1))

    with pytest.raises(ContractError, match="'padding on the right changes nothing': 'reward'"):
        check_component(PerColumn())


@pytest.mark.parametrize("detached", [True, False])
def test_returns_with_a_graph_are_caught(detached):
    class Returns(Component):
        reads = ("value", "token_reward", "response_mask")
        writes = ("returns",)

        def forward(self, batch: TensorDict) -> TensorDict:
            value = batch["value"].detach() if detached else batch["value"]
            mask = batch["response_mask"]
            total = masked(value, mask) + masked(batch["token_reward"].detach(), mask)
            return batch.set("returns", total)

    if detached:
        check_component(Returns())
    else:
        with pytest.raises(ContractError, match="what is written has no graph': 'returns'"):
            check_component(Returns())


def test_entries_that_a_loss_differentiates_may_have_a_graph():
    class Ratio(Component):
        reads = ("log_probs", "old_log_probs", "response_mask")
        writes = ("ratio",)

        def forward(self, batch: TensorDict) -> TensorDict:
            mask = batch["response_mask"]
            new, old = masked(batch["log_probs"], mask), masked(batch["old_log_probs"], mask)
            return batch.set("ratio", (new - old).exp())

    check_component(Ratio())


def test_a_gradient_that_leaks_into_padding_is_caught():
    class Leaky(Component):
        reads = ("log_probs", "response_mask")
        writes = ("ratio",)

        def forward(self, batch: TensorDict) -> TensorDict:
            mean = batch["log_probs"].nan_to_num().clamp(-3, 0).mean(1, keepdim=True)
            inside = masked(batch["log_probs"], batch["response_mask"])
            batch["ratio"] = inside + mean - mean.detach()
            return batch

    with pytest.raises(ContractError, match="the gradient is 0 outside the mask"):
        check_component(Leaky())


def test_a_fresh_component_that_keeps_old_entries_is_caught():
    class Keeps(Component):
        writes = ("reward",)
        fresh = True

        def forward(self, batch: TensorDict) -> TensorDict:
            rows = batch.batch_size or [2]
            return TensorDict({**batch, "reward": torch.zeros(rows)}, batch_size=rows)

    with pytest.raises(ContractError, match="a fresh component keeps nothing"):
        check_component(Keeps())


def test_a_component_that_draws_with_its_generator_passes():
    class Noise(Component):
        reads = ("reward",)
        writes = ("reward",)

        def __init__(self) -> None:
            super().__init__()
            self.generator = new_generator()

        def forward(self, batch: TensorDict) -> TensorDict:
            noise = torch.rand(batch.shape, generator=self.generator)
            batch["reward"] = batch["reward"] + noise
            return batch

    noise = Noise()
    before = noise.generator.get_state()

    check_component(noise)

    assert torch.equal(noise.generator.get_state(), before)


def test_a_key_that_is_no_key_of_the_schema_is_caught():
    component = Baseline()
    component.in_keys = [*component.in_keys, "lenght"]

    with pytest.raises(ContractError, match=r"the schema's or declared.*'lenght'"):
        check_component(component)


def test_renamed_components_are_checked_under_their_names():
    check_component(GroupMean().set_keys(reward="shaped", advantage="gain"))


def test_a_batch_of_ones_own_is_used_instead_of_the_example():
    class Picky(Component):
        reads = ("reward",)
        writes = ("correct",)

        def forward(self, batch: TensorDict) -> TensorDict:
            assert batch["reward"].shape == (3,)
            return batch.set("correct", batch["reward"] > 0)

    check_component(Picky(), make_batch(reward=[1.0, 0.0, 2.0]))


REDUCTIONS = [TokenMean(), SequenceMean(), SequenceSum(), FixedLength(length=8)]


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda part: type(part).__name__)
def test_our_losses_pass_with_every_reduction(reduction):
    ratio, clip = TokenRatio(), Clip(clip_low=0.2, clip_high=0.28)
    check_component(PolicyLoss(ratio=ratio, trust_region=clip, reduction=reduction))
    controller = FixedKL(kl_coef=0.1)
    check_component(KLLoss(controller=controller, estimator="k3", reduction=reduction))
    check_component(SFTLoss(reduction=reduction))


@pytest.mark.parametrize("component", [GroupMean(), GroupMeanStd(epsilon=1e-6)])
def test_our_advantages_pass(component):
    check_component(component)


def test_an_example_holds_every_corner():
    batch = example_batch(SCHEMA)
    mask, filled, groups = batch["response_mask"], batch["attention_mask"], batch["group_id"]

    position = torch.arange(mask.shape[1])
    first = torch.where(mask, position, 99).amin(1)
    last = torch.where(mask, position, -1).amax(1)
    assert int(mask.sum(1).min()) == 0
    assert bool(((last - first + 1) > mask.sum(1))[mask.any(1)].any()), "no holes"
    assert bool((mask & ~filled).any()) is False
    assert bool(mask[:, 0].any()) is False
    assert sorted(groups.bincount().tolist())[-3:] == [1, 3, 4]
    assert int((~batch["reward_valid"]).sum()) == 1
    assert float(batch["log_probs"][~mask].max()) > 5
    assert float(batch["log_probs"][mask].max()) < 0


def test_an_entry_of_an_example_does_not_depend_on_the_other_keys():
    assert torch.equal(
        example_batch(("reward",))["reward"], example_batch(("value", "reward"))["reward"]
    )


def test_an_example_with_an_unknown_key_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'reward'"):
        example_batch(("rewrad",))


class Forgetful(Component):
    """Answers every prompt, and hands on one of the keys that belong to it."""

    reads = ("prompt",)
    writes = ("prompt", "response")
    may_write = ("sampling_mask",)
    fresh = True
    keeps_prompt = True

    def forward(self, batch: TensorDict) -> TensorDict:
        answered = batch.select("prompt", "example_id", strict=False)
        return answered.set("response", batch["prompt"])


class Careful(Forgetful):
    def forward(self, batch: TensorDict) -> TensorDict:
        answered = keep_prompt(super().forward(batch), batch, torch.arange(len(batch)))
        return answered.set("sampling_mask", torch.zeros(len(batch), 3, 1, dtype=torch.uint8))


class OfAnotherDtype(Careful):
    def forward(self, batch: TensorDict) -> TensorDict:
        return super().forward(batch).set("sampling_mask", torch.zeros(len(batch), 3))


def test_a_collector_that_drops_entries_of_the_prompt_is_caught():
    with pytest.raises(ContractError, match=r"what is declared is written.*'answer' is not"):
        check_component(Forgetful())


def test_optional_outputs_are_allowed_and_have_their_dtype():
    check_component(Careful())
    with pytest.raises(ContractError, match=r"schema's shape and dtype.*'sampling_mask'"):
        check_component(OfAnotherDtype())


@pytest.mark.parametrize(
    ("source", "key", "told"),
    [
        (
            "rewards",
            "advantages",
            r"it is detached advantage of each objective, .*; did you mean 'advantage'\?",
        ),
        (
            "reward",
            "advantage",
            r"it is A_t: .*; x\[:, None\].expand_as",
        ),
    ],
)
def test_the_error_of_a_wrong_shape_gives_the_meaning_of_the_key(source, key, told):
    class OneEachRow(Component):
        reads = (source, "response_mask")
        writes = (key,)

        def forward(self, batch: TensorDict) -> TensorDict:
            return batch.set(key, batch[source].clone())

    with pytest.raises(ContractError, match=told):
        check_component(OneEachRow())


class SumsTheParts(Component):
    """It reads the parts of an invalid reward, although the row has a mask."""

    reads = ("rewards", "reward_valid")
    writes = ("reward",)

    def forward(self, batch: TensorDict) -> TensorDict:
        batch["reward"] = sum(batch["rewards"].values()).mean().expand(batch.shape).clone()
        return batch


def test_parts_of_an_invalid_reward_change_no_other_row():
    with pytest.raises(ContractError, match="nothing outside the mask matters"):
        check_component(SumsTheParts())
