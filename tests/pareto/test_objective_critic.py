"""A critic with a value for each objective, and its estimate."""

import pytest
import torch
from tensordict import TensorDict

from components.value import ObjectiveValueEstimate
from rlcomp.engine.engine import Engine
from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.metrics import recording
from rlcomp.model.critics import Critic
from rlcomp.pareto.objective_critic import ObjectiveCritic
from rlcomp.run.stages import Nothing
from rlcomp.testing import example_batch, tiny_model
from rlcomp.text.tokenizer import character_tokenizer

KEYS = ("tokens", "attention_mask", "response_mask")


class Two(Nothing):
    """A stage of two objectives."""

    names = ("a", "b")

    def __init__(self):
        super().__init__()
        self.aggregated = torch.nn.Parameter(torch.ones(()))

    def per_objective(self, batch: TensorDict) -> TensorDict:
        raise NotImplementedError


def model():
    return tiny_model(character_tokenizer(characters="abcdef"))


@pytest.mark.parametrize("engine", [Engine(forward="packed"), Engine(forward="transformers")])
def test_each_column_is_what_a_critic_of_that_head_says(engine):
    base = model()
    critic = ObjectiveCritic(model=base, objectives=Two(), engine=engine)
    weight = torch.randn(critic.value_head.weight.shape)
    with torch.no_grad():
        critic.value_head.weight.copy_(weight)
        critic.value_head.bias.copy_(torch.tensor([0.5, -2.0]))

    values = critic(example_batch(KEYS))["objective_values"]

    for k, bias in enumerate((0.5, -2.0)):
        single = Critic(model=base, engine=engine)
        with torch.no_grad():
            single.value_head.weight.copy_(weight[:, k])
            single.value_head.bias.fill_(bias)
        torch.testing.assert_close(values[..., k], single(example_batch(KEYS))["value"])


def test_it_starts_at_0_and_holds_no_part_of_the_objectives():
    critic = ObjectiveCritic(model=model(), objectives=Two())

    assert not critic(example_batch(KEYS))["objective_values"].any()
    assert critic.value_head.bias.shape == (2,)
    assert not [name for name, _ in critic.named_parameters() if "aggregated" in name]


def test_one_objective_is_sent_to_the_plain_critic():
    with pytest.raises(ConfigError, match="take value=critic"):
        ObjectiveCritic(model=model(), objectives=Nothing())


def test_the_estimate_is_kept_twice_and_recorded_by_name():
    critic = ObjectiveCritic(model=model(), objectives=Two())
    with torch.no_grad():
        critic.value_head.weight.normal_()
        critic.value_head.bias.copy_(torch.tensor([0.25, -1.0]))

    with recording() as ledger:
        batch = ObjectiveValueEstimate(critic=critic)(example_batch(KEYS))

    mean = batch["objective_values"][batch["response_mask"]].mean(0).tolist()
    assert ledger.means() == pytest.approx({"value/mean/a": mean[0], "value/mean/b": mean[1]})
    assert mean != pytest.approx(batch["objective_values"].flatten(0, 1).mean(0).tolist())
    assert torch.equal(batch["objective_values"], batch["old_objective_values"])
    assert batch["objective_values"].data_ptr() != batch["old_objective_values"].data_ptr()
    assert not batch["objective_values"].requires_grad


def swapped():
    stage = Two()
    stage.names = ("b", "a")
    return ObjectiveCritic(model=model(), objectives=stage)


def test_heads_in_another_order_are_refused_by_name():
    critic = ObjectiveCritic(model=model(), objectives=Two())

    critic.load_run_state(critic.run_state())
    with pytest.raises(CheckpointError, match="of b, a in the checkpoint, of a, b here"):
        critic.load_run_state(swapped().run_state())


def test_values_of_other_objectives_than_the_rewards_of_the_batch_are_refused():
    batch = example_batch(KEYS)
    rewards = {"b": torch.zeros(len(batch)), "a": torch.ones(len(batch))}
    batch["rewards"] = TensorDict(rewards, batch_size=[len(batch)])

    ObjectiveValueEstimate(critic=swapped())(batch)
    with pytest.raises(ConfigError, match="values for a, b, but 'rewards' holds b, a"):
        ObjectiveValueEstimate(critic=ObjectiveCritic(model=model(), objectives=Two()))(batch)
