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


class TwoObjectives(Nothing):
    names = ("a", "b")

    def __init__(self):
        super().__init__()
        self.aggregated = torch.nn.Parameter(torch.ones(()))

    def per_objective(self, batch: TensorDict) -> TensorDict:
        raise NotImplementedError


def model():
    return tiny_model(character_tokenizer(characters="abcdef"))


@pytest.mark.parametrize("engine", [Engine(forward="packed"), Engine(forward="transformers")])
def test_each_column_equals_a_critic_with_that_head(engine):
    base = model()
    critic = ObjectiveCritic(model=base, objectives=TwoObjectives(), engine=engine)
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


def test_values_start_at_0_and_parameters_exclude_the_objectives():
    critic = ObjectiveCritic(model=model(), objectives=TwoObjectives())

    assert not critic(example_batch(KEYS))["objective_values"].any()
    assert critic.value_head.bias.shape == (2,)
    assert not [name for name, _ in critic.named_parameters() if "aggregated" in name]


def test_one_objective_raises_with_the_plain_critic_as_remedy():
    with pytest.raises(ConfigError, match="take value=critic"):
        ObjectiveCritic(model=model(), objectives=Nothing())


def test_the_estimate_writes_two_copies_and_records_means_by_name():
    critic = ObjectiveCritic(model=model(), objectives=TwoObjectives())
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
    stage = TwoObjectives()
    stage.names = ("b", "a")
    return ObjectiveCritic(model=model(), objectives=stage)


def test_heads_in_another_order_raise_with_their_names():
    critic = ObjectiveCritic(model=model(), objectives=TwoObjectives())

    critic.load_run_state(critic.run_state())
    with pytest.raises(CheckpointError, match="of b, a in the checkpoint, of a, b here"):
        critic.load_run_state(swapped().run_state())


def test_values_in_another_order_than_the_rewards_raise():
    batch = example_batch(KEYS)
    rewards = {"b": torch.zeros(len(batch)), "a": torch.ones(len(batch))}
    batch["rewards"] = TensorDict(rewards, batch_size=[len(batch)])

    ObjectiveValueEstimate(critic=swapped())(batch)
    with pytest.raises(ConfigError, match="values for a, b, but 'rewards' holds b, a"):
        ObjectiveValueEstimate(critic=ObjectiveCritic(model=model(), objectives=TwoObjectives()))(
            batch
        )
