import pytest
import torch
from tensordict import TensorDict

from components.loss.policy import PolicyLoss
from components.loss.ratio import SequenceRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import NoTrustRegion
from rlcomp.canonical import canonical
from rlcomp.component import Component
from rlcomp.errors import ConfigError, ContractError, DataError, ShapeError
from rlcomp.model.backbone import token_rows
from rlcomp.testing import check_component, example_batch, make_batch


class Weighted(Component):
    """Reward of each row times its number of response tokens, at each of them."""

    reads = ("reward", "response_mask")
    writes = ("advantage",)

    def forward(self, batch):
        mask = batch["response_mask"]
        value = batch["reward"] * mask.sum(1)
        batch["advantage"] = torch.where(mask, value[:, None], 0.0)
        return batch


class Signed(Component):
    reads = ("advantage", "response_mask")
    writes = ("surrogate",)

    def forward(self, batch):
        batch["surrogate"] = torch.where(batch["response_mask"], batch["advantage"], 0.0)
        return batch


def rows(**entries):
    mask = torch.tensor([[True, False], [True, True]])
    return TensorDict({"response_mask": mask} | entries, batch_size=[2])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32])
def test_a_mask_of_numbers_is_a_mask(dtype):
    batch = rows(reward=torch.tensor([3.0, 5.0]))
    batch["response_mask"] = batch["response_mask"].to(dtype)

    result = Weighted()(batch)

    assert result["advantage"].tolist() == [[3.0, 0.0], [10.0, 10.0]]
    # It is the batch that came in, and what was only read is as it was.
    assert result is batch
    assert batch["response_mask"].dtype == dtype


@pytest.mark.parametrize("value", [0.5, 2.0, float("nan")])
def test_a_mask_of_other_numbers_is_refused_by_name(value):
    batch = rows(reward=torch.zeros(2))
    batch["response_mask"] = torch.tensor([[1.0, 0.0], [value, 1.0]])

    with pytest.raises(ConfigError, match=r"Weighted: 'response_mask' has dtype float32 .* bool"):
        Weighted()(batch)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_one_advantage_a_row_goes_along_the_row_where_a_batch_is_square(shape):
    # Two rows of two tokens: broadcasting would give [[3, 0], [3, 5]].
    result = Signed()(rows(advantage=torch.tensor([3.0, 5.0]).view(shape)))

    assert result["surrogate"].tolist() == [[3.0, 0.0], [5.0, 5.0]]


def test_a_reward_in_a_column_is_one_a_row():
    # [2, 1] times [2] would be [2, 2].
    result = Weighted()(rows(reward=torch.tensor([[3.0], [5.0]])))

    assert result["advantage"].tolist() == [[3.0, 0.0], [10.0, 10.0]]


def test_another_shape_is_refused_by_name():
    with pytest.raises(
        ShapeError, match=r"Weighted: 'reward' has shape \[2, 2\], but must be \[B\]"
    ):
        Weighted()(rows(reward=torch.zeros(2, 2)))


def test_floats_where_ids_belong_are_refused():
    batch = make_batch(group_id=[0.5, 1.0])

    with pytest.raises(ConfigError, match=r"Mine: 'group_id' has dtype float32, but must be int64"):
        canonical("Mine", batch, ["group_id"])


def test_a_sequence_ratio_of_half_floats_is_taken_in_float32_with_its_gradient():
    # Log-ratios -2^-8, 0, 0, 0: the mean is -2^-10, whose exp rounds to 1 in bfloat16.
    new, old = -0.5 - 2.0**-8, -0.5
    log_probs = torch.tensor([[new, old, old, old]], dtype=torch.bfloat16, requires_grad=True)
    batch = make_batch(
        log_probs=log_probs,
        old_log_probs=torch.full((1, 4), old, dtype=torch.bfloat16),
        response_mask=torch.ones(1, 4, dtype=torch.int64),
    )

    ratio = SequenceRatio()(batch)["ratio"]
    ratio.sum().backward()

    assert ratio.dtype == torch.float32
    assert ratio[0].tolist() == pytest.approx([0.99902391] * 4, abs=1e-7)  # exp(-2^-10)
    # The four ratios move by s / 4 each with a token: 0.999, as bfloat16 holds it.
    assert log_probs.grad.float()[0].tolist() == pytest.approx([1.0] * 4, abs=4e-3)


def test_what_a_loss_prepares_sees_it_as_well():
    loss = PolicyLoss(ratio=SequenceRatio(), trust_region=NoTrustRegion(), reduction=TokenMean())
    batch = rows(advantage=torch.tensor([3.0, 5.0]))
    batch["response_mask"] = batch["response_mask"].float()

    prepared = loss.prepare(loss.view(batch))

    third = pytest.approx(1 / 3)
    assert prepared["loss_weight"].tolist() == [[third, 0.0], [third, third]]


def test_a_canonical_batch_is_the_one_that_is_handed_on():
    batch = example_batch(["reward", "response_mask", "group_id", "rewards"])

    assert canonical("Mine", batch, [*batch.keys(), "value"]) is batch


def test_under_another_name_it_holds_as_well():
    batch = rows(shaped=torch.tensor([[3.0], [5.0]], dtype=torch.bfloat16))

    result = Weighted().set_keys(reward="shaped")(batch)

    assert result["advantage"].tolist() == [[3.0, 0.0], [10.0, 10.0]]
    assert result["shaped"].dtype == torch.bfloat16
    assert "reward" not in result.keys()


def test_a_component_that_looks_past_its_view_is_caught():
    class Past(Weighted):
        def view(self, batch):
            return batch

    with pytest.raises(ContractError):
        check_component(Past())


@pytest.mark.parametrize("key", ["token_reward", "response_mask", "advantage"])
def test_an_entry_of_another_width_than_the_tokens_is_refused(key):
    # Beside three tokens a reward [B, 1] would be paid at each of them.
    entry = torch.ones(2, 5 if key == "advantage" else 1)
    batch = TensorDict({"tokens": torch.zeros(2, 3, dtype=torch.int64), key: entry}, [2])

    with pytest.raises(
        ShapeError, match=rf"Mine: '{key}' has shape \[2, \d\], but must be \[B, T\]"
    ):
        canonical("Mine", batch, [key])


class WritesOneARow(Component):
    reads = ("tokens",)
    writes = ("token_weight",)

    def forward(self, batch):
        return batch.set("token_weight", torch.ones(3))


def test_what_is_written_with_one_value_a_row_is_refused():
    # B == T: read along tokens, it would go unnoticed.
    batch = make_batch(tokens=torch.zeros(3, 3, dtype=torch.int64))

    with pytest.raises(ShapeError, match=r"WritesOneARow writes 'token_weight' with shape \[3\]"):
        WritesOneARow()(batch)


class Dense(Component):
    """Hands on the rewards it was made with."""

    reads = ("response_mask",)
    writes = ("token_reward",)

    def __init__(self, values):
        super().__init__()
        self.values = values

    def forward(self, batch):
        batch["token_reward"] = torch.tensor(self.values)
        return batch


NAN = float("nan")


@pytest.mark.parametrize("bad", [NAN, float("inf"), -float("inf")])
def test_a_reward_of_a_token_that_is_not_finite_is_told_where_it_is_scored(bad):
    told = rf"Dense: 'token_reward' is {bad} at row 1, token 0: .* reward_valid False"
    with pytest.raises(DataError, match=told):
        Dense([[1.0, 2.0], [bad, 3.0]])(rows())

    with pytest.raises(DataError, match=told):
        Dense([[1.0, 2.0], [bad, 3.0]]).set_keys(token_reward="dense")(rows())


def test_outside_the_response_and_in_invalid_rows_a_reward_may_be_anything():
    padded, invalid = [[1.0, NAN], [2.0, 3.0]], [[1.0, NAN], [NAN, 3.0]]
    valid = torch.tensor([True, False])

    assert Dense(padded)(rows())["token_reward"][1].tolist() == [2.0, 3.0]
    assert Dense(invalid)(rows(reward_valid=valid))["token_reward"][0, 0].item() == 1.0
    with pytest.raises(DataError):
        Dense(invalid)(rows(reward_valid=~valid))


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        ([[1, 1, 0], [0, 0, 1]], "row 1 of 'attention_mask' is padded on the left"),
        ([[1, 0, 1], [1, 1, 1]], "row 0 of 'attention_mask' has a hole before column 2"),
        ([[1, 1, 0], [1, 1, 0]], "'response_mask' is true at row 1, column 2"),
    ],
)
@pytest.mark.parametrize("keys", [["tokens"], ["attention_mask"], ["tokens", "attention_mask"]])
def test_rows_are_padded_on_the_right_wherever_tokens_are_read(mask, told, keys):
    response = torch.tensor([[0, 1, 0], [0, 1, 1]]).bool()
    batch = make_batch(tokens=torch.ones(2, 3).long())
    batch["attention_mask"], batch["response_mask"] = torch.tensor(mask).bool(), response

    with pytest.raises(ShapeError, match=f"Mine: {told}"):
        canonical("Mine", batch, keys)
    canonical("Mine", batch, ["response_mask"])  # what reads no tokens does not mind


def test_rows_of_padding_only_and_without_it_are_layouts_as_well():
    mask = torch.tensor([[True, True], [False, False]])
    rows = {"tokens": torch.ones(2, 2).long(), "attention_mask": mask}
    batch = TensorDict(rows, batch_size=[2])

    assert canonical("Mine", batch, ["tokens"]) is batch


@pytest.mark.parametrize(
    ("tokens", "place", "token"),
    [
        ([[0, 9], [4, 9]], None, None),  # the largest id, and padding that is anything
        ([[0, 9], [4, 10]], None, None),
        ([[0, 9], [4, -1]], None, None),
        ([[0, 10], [4, 9]], "0, 1", 10),
        ([[0, 9], [-1, 9]], "1, 0", -1),
        ([[0, 9], [12, 10]], "1, 0", 12),
    ],
)
def test_tokens_are_ids_of_the_model(tokens, place, token):
    mask = torch.tensor([[True, True], [True, False]])
    batch = make_batch(tokens=tokens, attention_mask=mask, response_mask=mask)

    if place is None:
        assert token_rows("Mine", batch, vocabulary=10)["tokens"].tolist() == tokens
    else:
        pattern = rf"Mine: 'tokens' at \[{place}\] is {token}, but the model has ids 0 to 9"
        with pytest.raises(ConfigError, match=pattern):
            token_rows("Mine", batch, vocabulary=10)
    assert token_rows("Mine", batch)["tokens"].tolist() == tokens


def test_rows_without_tokens_or_without_an_entry_are_refused():
    nothing = {
        name: torch.zeros(2, 0, dtype=torch.bool) for name in ("attention_mask", "response_mask")
    }
    batch = make_batch(tokens=torch.zeros(2, 0, dtype=torch.int64), **nothing)

    with pytest.raises(ShapeError, match=r"'tokens' has shape \[2, 0\]: it holds no token"):
        token_rows("Mine", batch)
    with pytest.raises(KeyError, match="attention_mask"):
        token_rows("Mine", batch.exclude("attention_mask"))
    mask = torch.ones(2, 1, dtype=torch.bool)
    batch = make_batch(tokens=mask.long(), attention_mask=mask, more=mask, other=mask)
    found = token_rows("Mine", batch, ["tokens", "attention_mask"], ["more", "gone"])
    assert sorted(found.keys()) == ["attention_mask", "more", "tokens"]
