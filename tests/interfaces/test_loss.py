import pytest
import torch
from tensordict import TensorDict

from components.loss.reduction import FixedLength, SequenceMean, SequenceSum, TokenMean
from rlcomp.component import Component
from rlcomp.errors import ConfigError, ContractError, ShapeError
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import LossPart, RowLoss, TokenLoss, scalars
from rlcomp.metrics import record
from rlcomp.testing import check_loss, make_batch


class Sum(TokenLoss):
    reads = ("response_mask", "log_probs")
    runs = ("reduction",)
    contained = True

    def forward(self, batch: TensorDict) -> TensorDict:
        batch = self.weighted(batch)
        return scalars(loss=(batch["log_probs"] * batch["loss_weight"]).sum())


def batch() -> TensorDict:
    mask = torch.tensor([[True, True, True], [True, False, False]])
    log_probs = torch.tensor([[1.0, 2.0, 3.0], [6.0, 0.0, 0.0]])
    return make_batch(response_mask=mask, log_probs=log_probs)


def test_by_itself_a_loss_weighs_its_own_batch():
    assert Sum(reduction=TokenMean())(batch())["loss"].item() == 3.0  # (1 + 2 + 3 + 6) / 4


# Rows of 1, 2 and 3 tokens, log-probs 1; 2 3; 4 5 6, and one without a token; the second row has no
# valid reward. 4 tokens in 2 responses are left: token_mean 1/4; sequence_mean 1/2, and 1/2 / 3 in
# the long row; sequence_sum 1/2; fixed_length(5) 1 / (2 * 5).
DENOMINATORS = [
    (TokenMean(), [0.25, 0.25], (1 + 4 + 5 + 6) / 4),
    (SequenceMean(), [1 / 2, 1 / 6], (1 + (4 + 5 + 6) / 3) / 2),
    (SequenceSum(), [1 / 2, 1 / 2], (1 + 4 + 5 + 6) / 2),
    (FixedLength(length=5), [0.1, 0.1], (1 + 4 + 5 + 6) / 10),
]


@pytest.mark.parametrize(("reduction", "weights", "value"), DENOMINATORS)
def test_a_row_without_a_valid_reward_adds_nothing_and_is_not_counted(reduction, weights, value):
    mask = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0]]).bool()
    rows = make_batch(
        response_mask=mask,
        log_probs=[[1.0, 0, 0], [2, 3, 0], [4, 5, 6], [0, 0, 0]],
        reward_valid=[True, False, True, True],
    )
    loss = Sum(reduction=reduction)
    short, long = weights

    found = loss.prepare(loss.view(rows))["loss_weight"]

    wanted = torch.tensor([[short, 0, 0], [0, 0, 0], [long] * 3, [0, 0, 0]])
    torch.testing.assert_close(found, wanted, atol=1e-7, rtol=0)
    assert loss(rows)["loss"].item() == pytest.approx(value, abs=1e-6)
    assert rows["response_mask"] is mask


# Rows of 3 tokens and 1, log-probs 1 2 3; 6. Without the first token 3 tokens are left, and in the
# mean of rows the first row has 2 of them; without the last one a row is left.
@pytest.mark.parametrize(
    ("reduction", "old", "value"),
    [
        (TokenMean(), [[1, 0, 0], [0, 0, 0]], (2 + 3 + 6) / 3),
        (SequenceMean(), [[1, 0, 0], [0, 0, 0]], ((2 + 3) / 2 + 6) / 2),
        (TokenMean(), [[0, 0, 0], [1, 0, 0]], (1 + 2 + 3) / 3),
        (SequenceMean(), [[0, 0, 0], [1, 1, 1]], 2),
        (TokenMean(), [[1, 1, 1], [1, 0, 0]], 0),
    ],
)
def test_a_token_that_is_too_old_adds_nothing_and_is_not_counted(reduction, old, value):
    rows = batch().set("too_old", torch.tensor(old).bool())

    loss = Sum(reduction=reduction)

    assert loss(loss.view(rows))["loss"].item() == pytest.approx(value, abs=1e-6)
    assert rows["response_mask"].sum() == 4


def test_without_any_valid_reward_the_loss_is_0():
    rows = batch().set("reward_valid", torch.tensor([False, False]))

    assert Sum(reduction=TokenMean())(rows)["loss"].item() == 0.0


class CountsInvalidRows(Sum):
    def view(self, batch):
        return Component.view(self, batch)

    def forward(self, batch):
        batch = self.weighted(batch)
        inside = masked(batch["log_probs"], batch["response_mask"])
        return scalars(loss=(inside * batch["loss_weight"]).sum())


def test_optional_keys_of_its_own_leave_the_valid_reward_among_them():
    own = type("Own", (Sum,), {"optional": ("entropy",)})

    assert own.optional == ("entropy", "reward_valid", "too_old")
    assert Sum.optional == ("reward_valid", "too_old")


def test_a_loss_that_counts_invalid_rows_is_caught():
    with pytest.raises(ContractError, match="a unit without a valid row changes nothing"):
        check_loss(CountsInvalidRows(reduction=TokenMean()))


def test_prepared_weights_hold_for_a_part_of_the_batch():
    loss, rows = Sum(reduction=TokenMean()), batch()
    rows.update(loss.prepare(rows))

    assert loss(rows[:1])["loss"].item() == 1.5  # (1 + 2 + 3) / 4
    assert loss(rows[1:])["loss"].item() == 1.5


def test_preparing_gives_the_weights_alone_and_leaves_the_batch_alone():
    rows = batch()

    prepared = Sum(reduction=TokenMean()).prepare(rows)

    assert list(prepared.keys()) == ["loss_weight"]
    assert set(rows.keys()) == {"response_mask", "log_probs"}


def test_scalars_have_no_batch_size():
    result = scalars(loss=torch.tensor(1.0), loss_kl=torch.tensor(2.0))

    assert result.batch_size == torch.Size([])
    assert result["loss_kl"].item() == 2.0


class Margin(RowLoss):
    """Of pairs: the difference of their sums of log-probs."""

    reads = ("response_mask", "log_probs")
    unit_rows = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        batch = self.weighted(batch)
        total = masked(batch["log_probs"], batch["response_mask"]).sum(1)
        gain = total[::2] - total[1::2]
        record("margin/gain", gain, where=batch["row_weight"][::2] > 0)
        return scalars(loss=-(gain * batch["row_weight"][::2]).sum())


def pairs(**more) -> TensorDict:
    # Sums 1, 3 | 10, 4 | 100, 0: gains -2, 6 and 100, of pairs that are not equally long.
    sums = [[1.0, 0.0], [1.0, 2.0], [10.0, 0.0], [4.0, 0.0], [99.0, 1.0], [0.0, 0.0]]
    mask = torch.tensor([[1, 0], [1, 1], [1, 0], [1, 0], [1, 1], [1, 0]]).bool()
    columns = {"log_probs": torch.tensor(sums), "response_mask": mask} | more
    return TensorDict(columns, batch_size=[6])


def test_pairs_of_any_length_weigh_the_same():
    assert Margin()(pairs())["loss"].item() == pytest.approx(-104 / 3)  # (-2 + 6 + 100) / 3


def test_a_pair_counts_where_both_of_its_rows_are_valid():
    # The first has one valid row, the third none: what is left is the second's 6.
    valid = torch.tensor([True, False, True, True, False, False])

    prepared = Margin().prepare(pairs(reward_valid=valid))

    assert list(prepared.keys()) == ["row_weight"]
    assert prepared["row_weight"].tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    assert Margin()(pairs(reward_valid=valid))["loss"].item() == -6.0


def test_a_pair_that_a_filter_emptied_leaves_the_denominator():
    rows = pairs()
    rows["response_mask"][2] = False  # the second pair's chosen side: (-2 + 100) / 2 is left

    assert Margin()(rows)["loss"].item() == pytest.approx(-49.0)


def test_a_row_without_its_partner_is_refused():
    with pytest.raises(ShapeError, match="there are 5 rows, no multiple of the 2 of a unit"):
        Margin().prepare(pairs()[:5])


def test_nothing_valid_is_a_loss_of_zero():
    assert Margin()(pairs(reward_valid=torch.zeros(6).bool()))["loss"].item() == 0.0


def test_prepared_rows_are_weighed_by_the_whole_step():
    loss, rows = Margin(), pairs()
    rows.update(loss.prepare(rows))

    assert loss(rows[:2])["loss"].item() == pytest.approx(2 / 3)
    assert loss(rows[2:])["loss"].item() == pytest.approx(-106 / 3)


def test_a_loss_of_rows_reads_reward_valid_even_if_undeclared():
    class Named(Margin):
        optional = ("chosen",)

    class Reading(Margin):
        reads = (*Margin.reads, "reward_valid")
        optional = ()

    assert Named.optional == ("chosen", "reward_valid")
    assert Reading.optional == ()


def test_the_contract_of_losses_knows_pairs():
    check_loss(Margin())


def test_a_mean_over_the_rows_at_hand_is_no_loss_of_the_step():
    class OfTheRowsAtHand(Margin):
        def weighted(self, batch):
            return batch.copy().update(self.prepare(batch))

    with pytest.raises(ContractError, match="micro-batches sum to the whole"):
        check_loss(OfTheRowsAtHand())


def test_a_pair_that_no_reward_could_judge_must_not_count():
    class Blind(Margin):
        def prepare(self, batch):
            return super().prepare(batch.exclude("reward_valid"))

    with pytest.raises(ContractError, match="a unit without a valid row changes nothing"):
        check_loss(Blind())


def test_a_metric_of_the_rows_at_hand_is_caught():
    class Counting(Margin):
        def forward(self, batch):
            record("margin/rows", float(len(batch["log_probs"])))
            return super().forward(batch)

    with pytest.raises(ContractError, match="micro-batches keep the metrics"):
        check_loss(Counting())


class Bounded(LossPart):
    """Its bounds are the least and the largest log-prob of the whole optimiser step."""

    reads = ("log_probs",)
    keys = {
        "floor": ("B", "float", "least log-prob of the step, nats"),
        "ceiling": ("B", "float", "largest log-prob of the step, nats"),
    }
    step_keys = ("floor", "ceiling")

    def prepare(self, batch: TensorDict) -> TensorDict:
        values, count = batch["log_probs"], len(batch)
        bounds = {"floor": values.min().expand(count), "ceiling": values.max().expand(count)}
        return batch.select().update(bounds)


@pytest.mark.parametrize("given", [{}, {"floor": torch.tensor([-7.0, -7.0])}])
def test_a_part_by_itself_prepares_all_its_keys_from_its_own_batch(given):
    rows = batch().update(given)

    prepared = Bounded().prepared(rows)

    assert prepared["floor"].tolist() == [0.0, 0.0]
    assert prepared["ceiling"].tolist() == [6.0, 6.0]
    assert "ceiling" not in rows.keys()


def test_a_part_uses_the_keys_prepared_from_the_whole_step():
    bounds = {"floor": torch.tensor([-7.0, -7.0]), "ceiling": torch.tensor([9.0, 9.0])}

    prepared = Bounded().prepared(batch().update(bounds))

    assert prepared["floor"].tolist() == [-7.0, -7.0]
    assert prepared["ceiling"].tolist() == [9.0, 9.0]


def test_a_forward_pass_of_the_step_is_for_parts_whose_step_keys_need_it():
    class FromData(Bounded):
        needs_forward = False

    found = []
    for part in (Bounded(), FromData(), LossPart()):
        loss = Sum(reduction=TokenMean())
        loss.part = part
        found.append(loss.needs_full_batch_forward)

    assert found == [True, False, False]


def test_step_keys_without_the_comma_are_refused():
    with pytest.raises(ConfigError, match=r"Lettered.step_keys is 'floor': must be a tuple"):
        type("Lettered", (LossPart,), {"step_keys": "floor"})
