import pytest
import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component, is_loss_input, limit_outputs, per_token
from rlcomp.errors import ConfigError, ContractError
from rlcomp.functional.reduction import masked
from rlcomp.testing import make_batch


class Double(Component):
    """Advantage = factor x reward."""

    reads = ("reward",)
    writes = ("advantage",)

    def __init__(self, *, factor: PositiveFloat = 2.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, batch: TensorDict) -> TensorDict:
        batch["advantage"] = self.factor * batch["reward"]
        return batch


def rewards(**more: torch.Tensor) -> TensorDict:
    return make_batch(reward=[1.0, 3.0], **more)


def test_a_component_writes_its_key():
    assert Double()(rewards())["advantage"].tolist() == [2.0, 6.0]


def test_declared_keys_are_the_modules_keys():
    double = Double()

    assert (double.in_keys, double.out_keys) == (["reward"], ["advantage"])


def test_an_unknown_key_is_refused_when_the_class_is_made():
    with pytest.raises(ConfigError, match=r"Wrong: 'rewrad' .* did you mean 'reward'"):
        type("Wrong", (Component,), {"reads": ("rewrad",)})


def test_a_missing_key_is_named_with_what_there_is():
    batch = make_batch(value=torch.zeros(2))

    with pytest.raises(
        KeyError, match=r"Double reads 'reward' \[B\] .*, the batch has \['value'\]"
    ):
        Double()(batch)


def test_all_missing_keys_are_told_at_once_with_their_shapes_and_what_is_like_them():
    reading = type("Reading", (Component,), {"reads": ("reward", "tokens", "reward_valid")})
    batch = make_batch(rewards=torch.zeros(2), tokens=torch.zeros(2))

    with pytest.raises(KeyError) as told:
        reading()(batch)
    assert told.value.args == (
        "Reading reads 'reward' [B] (float: scalar outcome; stage 'reward' writes it) and "
        "'reward_valid' [B] (bool: the reward could be computed; stage 'reward' writes it), the "
        "batch has ['rewards', 'tokens']; by 'rewards', did you mean 'reward'?",
    )


def test_an_argument_out_of_range_is_refused():
    with pytest.raises(ConfigError, match=r"Double: factor is -1: must be greater than 0"):
        Double(factor=-1)


def test_an_argument_of_another_type_is_refused():
    with pytest.raises(ConfigError, match="Double: factor is 'two': must be a number"):
        Double(factor="two")


def test_an_unknown_argument_is_refused():
    with pytest.raises(ConfigError, match=r"Double: .*'facto'"):
        Double(facto=2.0)


def test_an_argument_by_position_is_refused():
    with pytest.raises(ConfigError, match="Double: too many positional arguments"):
        Double(2.0)


def test_a_renamed_key_is_read_and_written_under_its_new_name():
    double = Double().set_keys(reward="shaped", advantage="gain")

    batch = double(rewards(shaped=torch.tensor([5.0, 7.0])))

    assert batch["gain"].tolist() == [10.0, 14.0]
    assert batch["reward"].tolist() == [1.0, 3.0]
    assert "advantage" not in set(batch.keys())


def test_a_renamed_key_shows_among_the_modules_keys():
    double = Double().set_keys(reward="shaped")

    assert (double.in_keys, double.out_keys) == (["shaped"], ["advantage"])


def test_a_missing_renamed_key_is_named_by_its_new_name():
    with pytest.raises(KeyError, match="'shaped'"):
        Double().set_keys(reward="shaped")(rewards())


def test_a_key_the_component_does_not_have_cannot_be_renamed():
    with pytest.raises(ConfigError, match=r"Double has no key 'rewards'; did you mean 'reward'"):
        Double().set_keys(rewards="shaped")


def test_a_component_that_reads_nothing_needs_no_batch():
    class Start(Component):
        writes = ("reward",)
        fresh = True

        def forward(self, batch: TensorDict) -> TensorDict:
            return make_batch(reward=torch.ones(3))

    assert Start()()["reward"].tolist() == [1.0] * 3


def test_outside_a_learner_every_key_is_asked_for():
    assert is_loss_input("entropy")


def test_inside_a_learner_only_the_losses_keys_are_asked_for():
    with limit_outputs(["log_probs"]):
        assert is_loss_input("log_probs")
        assert not is_loss_input("entropy")
    assert is_loss_input("entropy")


def test_masked_values_are_exactly_0_outside_whatever_stands_there():
    values = torch.tensor([1.0, float("nan"), float("inf")])

    assert masked(values, torch.tensor([True, False, False])).tolist() == [1.0, 0.0, 0.0]


def test_per_token_keys_are_those_of_shape_b_t():
    batch = rewards(value=torch.zeros(2, 3), tokens=torch.zeros(2, 3, dtype=torch.long))

    assert sorted(per_token(batch)) == ["tokens", "value"]


class Fresh(Component):
    """Starts a new batch."""

    writes = ("reward",)
    fresh = True

    def forward(self, batch: TensorDict) -> TensorDict:
        return rewards()


def test_a_new_batch_too_is_written_under_its_new_name():
    result = Fresh().set_keys(reward="shaped")()

    assert sorted(result.keys()) == ["shaped"]


class Positive(Component):
    """Keeps the rows of positive reward, by reading or by writing it."""

    reads = ("reward",)
    drops_rows = True

    def forward(self, batch: TensorDict) -> TensorDict:
        assert sorted(key for key in batch.keys() if key.isidentifier()) == ["reward", "value"]
        return batch[batch["reward"] > 0]


class PositiveDoubled(Positive):
    writes = ("reward",)

    def forward(self, batch: TensorDict) -> TensorDict:
        batch = super().forward(batch)
        batch["reward"] = 2 * batch["reward"]
        return batch


def test_a_part_that_drops_rows_keeps_the_original_of_a_key_it_knows_by_another_name():
    shaped, value = torch.tensor([-5.0, 7.0]), torch.tensor([11.0, 13.0])

    for part, wanted in ((Positive(), 7.0), (PositiveDoubled(), 14.0)):
        result = part.set_keys(reward="shaped")(rewards(shaped=shaped, value=value))

        kept = {key: entry.tolist() for key, entry in result.items()}
        assert kept == {"reward": [3.0], "shaped": [wanted], "value": [13.0]}


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, "Returns returned nothing: forward must return the batch (batch['advantage'] = "),
        (
            torch.zeros(2, 3),
            "Returns returned a Tensor of shape [2, 3]: forward must return the ba",
        ),
        ({"reward": 1}, "Returns returned a dict: forward must return the batch"),
    ],
)
def test_what_is_no_batch_is_refused_by_the_class_that_returned_it(returned, told):
    class Returns(Component):
        """Returns something."""

        def forward(self, batch):
            return returned

    with pytest.raises(ContractError) as refused:
        Returns()()
    assert str(refused.value).startswith(told)


class Halve(Component):
    """Halves the reward of a step."""

    reads = ("next.reward",)
    writes = ("next.reward",)

    def forward(self, batch: TensorDict) -> TensorDict:
        batch["next", "reward"] = batch["next", "reward"] / 2
        return batch


def control(**entries: float) -> TensorDict:
    after = {key: torch.full((2, 1), value) for key, value in entries.items()}
    return make_batch(next=TensorDict(after, batch_size=[2]))


def test_a_dotted_key_is_a_nested_one():
    halve = Halve()

    assert (halve.in_keys, halve.out_keys) == ([("next", "reward")], [("next", "reward")])
    assert halve(control(reward=4.0))["next", "reward"].tolist() == [[2.0], [2.0]]


def test_a_missing_nested_key_is_named_with_its_dot():
    with pytest.raises(KeyError, match=r"Halve reads 'next\.reward'"):
        Halve()(control(done=0.0))


def test_a_nested_key_can_be_renamed():
    halve = Halve().set_keys(**{"next.reward": "next.shaped"})
    batch = control(reward=4.0, shaped=6.0)

    result = halve(batch)

    assert result["next", "shaped"].tolist() == [[3.0], [3.0]]
    assert result["next", "reward"].tolist() == [[4.0], [4.0]]


def test_an_unknown_nested_key_suggests_the_nearest():
    with pytest.raises(ConfigError, match=r"'next\.rewrad' .* did you mean 'next\.reward'"):
        type("Wrong", (Component,), {"reads": ("next.rewrad",)})


class Weighted(Component):
    """A component whose keys depend on an argument."""

    reads = ("reward",)
    writes = ("advantage",)
    writes_if = {"weighted": ("loss_weight",)}

    def __init__(self, *, weighted: bool) -> None:
        super().__init__()
        self.weighted = weighted

    def forward(self, batch: TensorDict) -> TensorDict:
        batch["advantage"] = batch["reward"]
        return batch


def test_a_key_of_an_argument_is_written_only_if_the_argument_is_true():
    plain, weighted = Weighted(weighted=False), Weighted(weighted=True)

    assert (plain.out_keys, weighted.out_keys) == (["advantage"], ["advantage", "loss_weight"])
    assert (Weighted.writes, weighted.writes) == (("advantage",), ("advantage", "loss_weight"))


def test_an_unknown_key_of_an_argument_is_refused_when_the_class_is_made():
    with pytest.raises(ConfigError, match="'rewrad'"):
        type("Wrong", (Weighted,), {"writes_if": {"weighted": ("rewrad",)}})


def test_keys_by_argument_are_a_dict_of_tuples():
    with pytest.raises(ConfigError, match=r"Wrong\.writes_if is .*: must be a dict of keys"):
        type("Wrong", (Weighted,), {"writes_if": {"weighted": "reward"}})
