import copy
import math
from functools import partial

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.objectives import llm

from components.learner.anomaly import SkipNonFinite
from components.learner.gradient import Learner
from components.loss.imitation import SFTLoss
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import SequenceMean, TokenMean
from components.loss.trust_region.clip import Clip
from components.loss.trust_region.covariance import KLCov
from rlcomp.component import Component, is_loss_input
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import CheckpointError, ConfigError, NumericalError, ShapeError
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import recording
from rlcomp.testing import make_batch, tiny_policy


class Table(Component):
    """One log-prob per token id: gradients can be had by hand."""

    reads = ("tokens", "response_mask")
    writes = ("log_probs", "entropy")

    def __init__(self, start: float = 0.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4,), start, dtype=torch.float64))
        self.asked_for: list[bool] = []

    def forward(self, batch: TensorDict) -> TensorDict:
        self.asked_for.append(is_loss_input("entropy"))
        batch["log_probs"] = masked(self.weight[batch["tokens"]], batch["response_mask"])
        batch["entropy"] = batch["tokens"].double() + 1
        return batch


def sft(reduction=None) -> SFTLoss:
    return SFTLoss(reduction=reduction or TokenMean())


def learner(model, losses=None, **changed) -> Learner:
    torch.manual_seed(0)
    arguments = {
        "model": model,
        "losses": losses or {"sft": sft()},
        "optimizer": partial(torch.optim.SGD, lr=1.0),
        "schedule": lambda progress: 1.0,
        "num_minibatches": 1,
        "epochs": 1,
        "micro_batch_tokens": None,
        "max_grad_norm": None,
    }
    return Learner(**(arguments | changed))


def batch() -> TensorDict:
    # Response tokens: 1, 1, 2 and 3; id 0 is padding.
    tokens = torch.tensor([[1, 1, 2], [3, 0, 0]])
    filled = tokens > 0
    return make_batch(tokens=tokens, attention_mask=filled, response_mask=filled)


def many_rows() -> TensorDict:
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(2, 10, (9, 12), generator=draw)
    filled = torch.arange(12)[None, :] < torch.randint(4, 13, (9, 1), generator=draw)
    response = filled & (torch.arange(12)[None, :] >= 2)
    log_probs = -2 - torch.rand(9, 12, generator=draw, dtype=torch.float64)
    return make_batch(
        tokens=tokens,
        attention_mask=filled,
        response_mask=response,
        old_log_probs=log_probs,
        advantage=torch.randn(9, 12, generator=draw, dtype=torch.float64),
    )


def weights(module):
    return [parameter.detach().clone() for parameter in module.parameters()]


def test_a_step_follows_the_gradient_of_the_loss():
    table = Table()

    learner(table)(batch())

    # loss = -(2 w1 + w2 + w3) / 4, learning rate 1.
    assert table.weight.tolist() == [0.0, 0.5, 0.25, 0.25]


@pytest.mark.parametrize("micro_batch_tokens", [None, 3])
def test_a_row_without_a_valid_reward_is_not_learnt_from(micro_batch_tokens):
    table, rows = Table(), batch().set("reward_valid", torch.tensor([True, False]))

    learner(table, micro_batch_tokens=micro_batch_tokens)(rows)

    # loss = -(2 w1 + w2) / 3, learning rate 1: the second row counts nowhere.
    wanted = [0.0, 2 / 3, 1 / 3, 0.0]
    torch.testing.assert_close(table.weight.tolist(), wanted, atol=1e-7, rtol=0)


def test_losses_are_added_up():
    table = Table()

    learner(table, {"one": sft(), "two": sft(SequenceMean())})(batch())

    # The second: -((2 w1 + w2) / 3 + w3) / 2.
    wanted = [0.0, 0.5 + 1 / 3, 0.25 + 1 / 6, 0.25 + 1 / 2]
    torch.testing.assert_close(table.weight.tolist(), wanted, atol=1e-7, rtol=0)


@pytest.mark.parametrize("reduction", [TokenMean(), SequenceMean()])
@pytest.mark.parametrize("budget", [1, 12, 40])
def test_micro_batches_change_no_parameter(reduction, budget):
    policy = tiny_policy().double()
    other = copy.deepcopy(policy)
    parts = {"ratio": TokenRatio(), "trust_region": Clip(clip_low=0.2, clip_high=0.2)}
    loss = PolicyLoss(**parts, reduction=reduction)

    learner(policy, {"policy": loss})(many_rows())
    learner(other, {"policy": loss}, micro_batch_tokens=budget)(many_rows())

    for whole, split in zip(weights(policy), weights(other), strict=True):
        torch.testing.assert_close(split, whole, rtol=1e-6, atol=1e-12)


def test_micro_batches_change_no_recorded_loss():
    with recording() as whole:
        learner(Table(1.0))(batch())
    with recording() as split:
        learner(Table(1.0), micro_batch_tokens=1)(batch())

    assert whole.means()["loss/sft"] == pytest.approx(-1.0)
    assert split.means() == pytest.approx(whole.means())
    assert whole.counts["loss/sft"] == 1


def test_the_gradient_is_scaled_down_to_its_largest_norm():
    table = Table()

    with recording() as ledger:
        learner(table, max_grad_norm=0.1)(batch())

    # |(0.5, 0.25, 0.25)| = sqrt(0.375); recorded before it is cut.
    assert ledger.means()["learner/grad_norm"] == pytest.approx(0.375**0.5)
    assert table.weight.norm().item() == pytest.approx(0.1, rel=1e-5)


def test_a_small_gradient_is_left_as_it_is():
    table = Table()

    learner(table, max_grad_norm=10.0)(batch())

    assert table.weight.tolist() == [0.0, 0.5, 0.25, 0.25]


def test_the_response_tokens_of_all_optimiser_steps_are_recorded():
    with recording() as ledger:
        learner(Table(), epochs=3, num_minibatches=2)(batch())

    # Three tokens and one, three times.
    assert ledger.means()["learner/tokens"] == 12


def test_the_schedule_multiplies_the_learning_rate():
    table = Table()

    with recording(progress=0.25) as ledger:
        learner(table, schedule=lambda progress: 2 * progress)(batch())

    assert ledger.means()["learner/lr"] == 0.5
    assert table.weight.tolist() == [0.0, 0.25, 0.125, 0.125]


def test_epochs_times_minibatches_are_the_steps():
    table = Table()

    with recording() as ledger:
        learner(table, epochs=3, num_minibatches=2)(batch())

    assert ledger.counts["learner/grad_norm"] == 6
    # Each row alone is a minibatch: -(2 w1 + w2) / 3 and -w3, three times each.
    torch.testing.assert_close(table.weight.tolist(), [0.0, 2.0, 1.0, 3.0])


def test_fewer_rows_than_minibatches_are_as_many_steps(recwarn):
    table, rows = Table(), batch()
    made = learner(table, num_minibatches=len(rows) + 1)

    with recording() as ledger:
        made(rows)

    assert ledger.counts["learner/grad_norm"] == len(rows)
    (told,) = recwarn
    assert f"a batch has only {len(rows)} units" in str(told.message)


def test_minibatches_are_drawn_anew_in_every_epoch_from_the_learners_generator():
    made = learner(Table(), epochs=2, num_minibatches=2)
    before = made.generator.get_state()

    made(batch())

    assert not torch.equal(made.generator.get_state(), before)


def test_rows_that_one_loss_pairs_share_a_micro_batch_for_all_losses():
    seen = []

    class Pairs(SFTLoss):
        unit_rows = 2

        def forward(self, rows: TensorDict) -> TensorDict:
            seen.append(len(rows))
            return super().forward(rows)

    losses = {"single": sft(), "pairs": Pairs(reduction=TokenMean())}
    learner(Table(), losses, micro_batch_tokens=1)(torch.cat([batch(), batch()]))

    assert seen == [2, 2]


def test_the_batch_is_handed_on_untouched():
    rows = batch()

    result = learner(Table())(rows)

    assert set(result.keys()) == {"tokens", "attention_mask", "response_mask"}


@pytest.mark.parametrize("call", ["forward", "accumulate"])
def test_rows_padded_on_the_left_are_refused_before_anything_changes(call):
    made, rows = learner(Table()), batch()
    before = [parameter.clone() for parameter in made.trained]
    rows["attention_mask"] = torch.ones_like(rows["response_mask"])
    rows["attention_mask"][0, 0] = False
    rows["response_mask"] = rows["response_mask"] & rows["attention_mask"]

    update = made if call == "forward" else made.accumulate
    with pytest.raises(
        ShapeError, match="Learner: row 0 of 'attention_mask' is padded on the left"
    ):
        update(rows)

    assert all(parameter.grad is None for parameter in made.trained)
    assert all(map(torch.equal, made.trained, before))


def test_a_foreign_loss_with_micro_batches_is_refused():
    foreign = TensorDictModule(torch.nn.Linear(1, 1), in_keys=["reward"], out_keys=["loss_x"])

    with pytest.raises(ConfigError, match="micro_batch_tokens is 8, but loss 'theirs' is a mean"):
        learner(Table(), {"theirs": foreign}, micro_batch_tokens=8)


def test_a_foreign_loss_with_its_own_model_is_trained():
    linear = torch.nn.Linear(1, 1, bias=False)
    before = linear.weight.item()

    class AsScalar(torch.nn.Module):
        in_keys = ["reward"]
        out_keys = ["loss_x", "largest"]

        def __init__(self) -> None:
            super().__init__()
            self.linear = linear

        def forward(self, rows):
            loss, largest = linear(rows["reward"][:, None]).mean(), rows["reward"].max()
            return TensorDict({"loss_x": loss, "largest": largest}, batch_size=[])

    rows = make_batch(reward=[1.0, 3.0])
    with recording() as ledger:
        learner(None, {"theirs": AsScalar()})(rows)

    assert ledger.means()["theirs/largest"] == 3.0
    assert ledger.means()["loss/theirs"] == pytest.approx(2 * before)
    assert linear.weight.item() == pytest.approx(before - 2.0)  # mean of the rewards


def test_a_loss_of_ours_may_hold_its_own_parameters():
    class Holding(TokenLoss):
        reads = ("tokens", "response_mask")
        runs = ("reduction",)
        contained = True

        def __init__(self) -> None:
            super().__init__(reduction=TokenMean())
            self.weight = torch.nn.Parameter(torch.zeros(4))

        def forward(self, batch: TensorDict) -> TensorDict:
            rows = self.weighted(batch)
            return scalars(loss=-(self.weight[rows["tokens"]] * rows["loss_weight"]).sum())

    loss = Holding()

    learner(None, {"own": loss})(batch())

    assert loss.weight.tolist() == [0.0, 0.5, 0.25, 0.25]


def test_rows_go_to_the_device_of_the_trained_parameters():
    # Tensors on the device meta have no values: only where the rows go can be asked.
    made = learner(Table().to("meta"))

    rows = made._select_rows(batch().set("reward", torch.ones(2)))

    assert {key: entry.device.type for key, entry in rows.items()} == dict.fromkeys(
        ("tokens", "attention_mask", "response_mask"), "meta"
    )


def test_a_gradient_that_is_not_finite_stops_the_run_and_names_the_parameter():
    table = Table()
    with torch.no_grad():
        table.weight[1] = float("nan")

    class Square(TokenLoss):
        reads = ("response_mask", "log_probs")
        runs = ("reduction",)
        contained = True

        def forward(self, rows: TensorDict) -> TensorDict:
            return scalars(loss=(rows["log_probs"] ** 2 * rows["loss_weight"]).sum())

    losses, guard = {"square": Square(reduction=TokenMean())}, SkipNonFinite(limit=1)
    with pytest.raises(NumericalError, match=r"the gradient of model\.weight is not finite"):
        learner(table, losses, non_finite=guard)(batch())


def test_parameters_before_it_whose_gradient_is_finite_or_missing_are_not_named():
    class Logged(Table):
        def __init__(self) -> None:
            super().__init__()
            self.unread = torch.nn.Parameter(torch.ones(1))
            self.odds = torch.nn.Parameter(torch.tensor([1.0, 1.0, 0.0, 1.0]))

        def forward(self, batch: TensorDict) -> TensorDict:
            batch = super().forward(batch)
            batch["log_probs"] = batch["log_probs"] + self.odds.log()[batch["tokens"]]
            return batch

    # d log(x) / dx at 0 is infinite; the weights' gradient is that of the plain loss.
    with pytest.raises(NumericalError, match=r"the gradient of model\.odds is not finite"):
        learner(Logged(), non_finite=SkipNonFinite(limit=1))(batch())


class Numbered(TokenLoss):
    """Reads own keys that are called as the learner might call what it adds."""

    keys = {"row": ("B", "float", "of a user"), "prepared": ("B", "float", "of a user")}
    reads = ("response_mask", "log_probs", "row", "prepared")
    runs = ("reduction",)
    contained = True
    needs_full_batch_forward = True

    def forward(self, rows):
        pairs = torch.stack([rows["row"], rows["prepared"]], 1).tolist()
        self.seen = [*getattr(self, "seen", []), *pairs]
        return scalars(loss=(rows["log_probs"] * rows["loss_weight"]).sum())


def test_own_keys_may_be_called_row_and_prepared():
    loss = Numbered(reduction=TokenMean())
    rows = batch()
    rows["row"] = torch.arange(len(rows)) + 0.5
    rows["prepared"] = torch.arange(len(rows)) + 10.5

    learner(Table(), {"numbered": loss}, micro_batch_tokens=4)(rows)

    assert sorted(loss.seen) == [[n + 0.5, n + 10.5] for n in range(len(rows))]


def test_the_model_computes_only_the_keys_that_losses_read():
    table = Table()

    learner(table)(batch())

    assert table.asked_for == [False]


def test_the_entropy_of_the_response_is_recorded():
    with recording() as ledger:
        learner(Table())(batch())

    # Of tokens 1, 1, 2 and 3 one more each.
    assert ledger.means()["policy/entropy"] == 11 / 4
    assert ledger.counts["policy/entropy"] == 4


def test_the_stage_works_where_gradients_are_off():
    table = Table()

    with torch.no_grad():
        learner(table)(batch())

    assert table.weight.tolist() == [0.0, 0.5, 0.25, 0.25]


def test_frozen_parameters_stay():
    table = Table()
    table.frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)

    made = learner(table)
    made(batch())

    assert len(made.trained) == 1
    assert table.frozen.tolist() == [1.0, 1.0]


def test_the_optimisers_state_goes_on_where_it_was_saved():
    adam = partial(torch.optim.Adam, lr=0.1)
    table, other = Table(), Table()
    made = learner(table, optimizer=adam)
    made(batch())
    state, at = copy.deepcopy(made.run_state()), table.weight.detach().clone()
    made(batch())

    resumed = learner(other, optimizer=adam)
    with torch.no_grad():
        other.weight.copy_(at)
    resumed.load_run_state(state)
    resumed(batch())

    assert other.weight.tolist() == table.weight.tolist()


def test_a_fused_optimiser_follows_a_gradient_that_lies_otherwise_in_memory():
    class Wide(Table):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(2, 3))

    wide = Wide()
    made = learner(wide, optimizer=partial(torch.optim.AdamW, lr=0.5, fused=True, weight_decay=0.0))
    wide.weight.grad = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]]).t()
    made.step(progress=0.5)

    # The first step of Adam is the learning rate against the gradient's sign.
    wanted = torch.tensor([[-0.5, 0.5, -0.5], [0.5, -0.5, -0.5]])
    torch.testing.assert_close(wide.weight.detach(), wanted)


def test_a_fused_optimiser_is_refused_where_a_parameter_has_gaps():
    table = Table()
    table.weight = torch.nn.Parameter(torch.zeros(4, 2, dtype=torch.float64)[:, 0])

    with pytest.raises(ConfigError, match=r"shape \[4\] is a view with strides \[2\].*fused=false"):
        learner(table, optimizer=partial(torch.optim.AdamW, fused=True))

    learner(table, optimizer=partial(torch.optim.AdamW, fused=False))


class Shifted(Table):
    """A table with a second parameter."""

    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(()))

    def forward(self, rows):
        rows = super().forward(rows)
        rows["log_probs"] = rows["log_probs"] + self.shift
        return rows


def test_moments_are_matched_by_name_in_any_order_of_parameters():
    def backwards(named):
        return torch.optim.Adam(list(named)[::-1], lr=0.1)

    table, other = Shifted(), Shifted()
    made = learner(table, optimizer=partial(torch.optim.Adam, lr=0.1))
    made(batch())
    other.load_state_dict(copy.deepcopy(table.state_dict()))
    state = copy.deepcopy(made.run_state())
    made(batch())

    resumed = learner(other, optimizer=backwards)
    resumed.load_run_state(state)
    resumed(batch())

    assert other.weight.tolist() == table.weight.tolist()
    assert other.shift.item() == table.shift.item()


def test_the_state_of_another_optimiser_is_refused_by_name():
    made = learner(Table(), optimizer=partial(torch.optim.Adam, lr=0.1))
    made(batch())

    other = learner(Table(), optimizer=partial(torch.optim.SGD, lr=0.1, momentum=0.9))
    with pytest.raises(
        CheckpointError, match=r"learner\.optimizer .* had amsgrad, betas, .*momentum"
    ):
        other.load_run_state(copy.deepcopy(made.run_state()))


def test_a_loss_without_a_loss_is_refused_by_name():
    class Silent(TokenLoss):
        reads = ("log_probs",)
        runs = ("reduction",)
        contained = True

        def forward(self, rows: TensorDict) -> TensorDict:
            return scalars(value=rows["log_probs"].sum())

    with pytest.raises(ConfigError, match=r"learner.losses.silent returned \['value'\]"):
        learner(Table(), {"silent": Silent(reduction=TokenMean())})(batch())


def test_a_part_of_a_loss_may_read_another_key():
    rows = batch()
    rows["mine"] = torch.full(rows["tokens"].shape, -math.log(2))
    rows["advantage"] = torch.ones(rows["tokens"].shape)
    ratio = TokenRatio().set_keys(old_log_probs="mine")
    loss = PolicyLoss(ratio=ratio, trust_region=Clip(), reduction=TokenMean())

    with recording() as ledger:
        learner(Table(), {"policy": loss})(rows)

    # The table's log-probs are 0, the old ones -log 2: the ratio is 2.
    assert ledger.means()["ratio/mean"] == pytest.approx(2.0)


def test_a_renamed_loss_prepares_from_the_renamed_key():
    # Highest covariance under "other" is the first token, under "advantage" the last.
    loss = PolicyLoss(ratio=TokenRatio(), trust_region=KLCov(share=0.3), reduction=TokenMean())
    rows = make_batch(
        response_mask=torch.ones(1, 3, dtype=torch.bool),
        log_probs=[[-1.0, -2.0, -3.0]],
        old_log_probs=[[-1.5, -2.0, -3.5]],
        advantage=[[-1.0, 0.0, -3.0]],
        other=[[3.0, 0.0, 1.0]],
    )

    loss.set_keys(advantage="other")

    assert loss.prepare(loss.view(rows))["selected"].tolist() == [[True, False, False]]


def test_a_renamed_output_of_the_model_is_not_there_yet_when_a_loss_prepares():
    loss = PolicyLoss(ratio=TokenRatio(), trust_region=Clip(), reduction=TokenMean())
    loss.set_keys(advantage="mine")
    rows = make_batch(response_mask=torch.ones(1, 3, dtype=torch.bool))

    assert "advantage" not in loss.view(rows).keys()


@pytest.mark.parametrize(
    ("kind", "instead"),
    [
        (llm.GRPOLoss, "averages its KL over the prompt and padding as well; use loss=grpo"),
        (
            llm.CISPOLoss,
            "no gradient where the ratio is clipped, which CISPO keeps; use loss=cispo",
        ),
        (llm.SFTLoss, "which no stage here writes; use loss=sft"),
    ],
)
def test_torchrls_losses_of_chat_rows_are_refused_with_ours(kind, instead):
    policy = tiny_policy()
    foreign = kind(actor_network=policy, tokenizer=policy.tokenizer)

    with pytest.raises(ConfigError, match=f"^learner.losses.policy is a .*{instead}$"):
        learner(policy, {"policy": foreign})


def test_a_module_that_is_no_loss_is_refused():
    with pytest.raises(ConfigError, match=r"^learner.losses.policy is a Linear: it reads tensors"):
        learner(Table(), {"policy": torch.nn.Linear(2, 2)})


def test_a_tensordict_module_that_writes_no_loss_is_refused():
    score = TensorDictModule(torch.nn.Identity(), in_keys=["log_probs"], out_keys=["score"])

    with pytest.raises(ConfigError, match=r"policy is a TensorDictModule: it writes \['score'\]"):
        learner(Table(), {"policy": score})


def test_a_foreign_loss_of_each_row_is_refused():
    module = TensorDictModule(lambda p: -p.sum(1), in_keys=["log_probs"], out_keys=["loss"])

    with pytest.raises(ConfigError, match=r"policy returned 'loss' of shape \[\d+\]: must be a"):
        learner(Table(), {"policy": module})(batch())


@pytest.mark.parametrize(("num_minibatches", "epochs"), [(2, 1), (1, 2), (2, 2), (3, 3)])
def test_several_steps_need_the_sampling_masks_of_truncated_sampling(num_minibatches, epochs):
    steps = {"num_minibatches": num_minibatches, "epochs": epochs}
    replaying = tiny_policy(decoding=Decoding(top_k=3, replay=True))

    said = rf"num_minibatches \* learner.epochs is {num_minibatches * epochs}: .*decoding=full"
    with pytest.raises(ConfigError, match=said):
        learner(tiny_policy(decoding=Decoding(top_k=3)), **steps)
    with pytest.raises(ConfigError, match=r"the batch has no sampling_mask.*decoding=full"):
        learner(replaying, **steps)(many_rows())


@pytest.mark.parametrize("replay", [False, True])
def test_one_step_on_truncated_sampling_needs_no_mask(replay):
    policy = tiny_policy(decoding=Decoding(top_k=3, replay=replay))
    before = weights(policy)

    learner(policy)(many_rows())

    assert not all(map(torch.equal, weights(policy), before))


def test_a_policy_is_one_version_further_after_each_batch():
    policy = tiny_policy()
    made, versions = learner(policy, num_minibatches=2, epochs=2), [policy.version]

    for _ in range(2):
        made(many_rows())
        versions.append(policy.version)

    assert versions == [0, 1, 2]
