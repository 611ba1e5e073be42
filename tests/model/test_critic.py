import copy
from functools import partial

import pytest
import torch

from rlcomp.model.critics import Critic
from rlcomp.testing import check_component, example_batch, tiny_model
from rlcomp.text.tokenizer import character_tokenizer

KEYS = ("tokens", "attention_mask", "response_mask")

make_model = partial(tiny_model, character_tokenizer(characters="abcdef"), num_hidden_layers=2)


def make_critic(model):
    critic = Critic(model=model)
    torch.manual_seed(1)
    torch.nn.init.normal_(critic.value_head.weight)
    return critic


def change(module):
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape))


def same(critic, model):
    ours, theirs = critic.backbone.state_dict(), model.get_decoder().state_dict()
    return all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("rank", [0, 2])
def test_it_starts_from_the_model_as_its_first_phase_finds_it(tie, rank):
    model = make_model(tie_word_embeddings=tie, rank=rank)
    critic = make_critic(model)
    change(model)
    assert not same(critic, model)

    critic.begin_phase()

    assert same(critic, model)


def test_a_later_phase_leaves_it_as_it_has_become():
    model = make_model()
    critic = make_critic(model)
    critic.begin_phase()
    change(critic)
    learned = copy.deepcopy(critic.state_dict())

    critic.begin_phase()

    assert all(torch.equal(critic.state_dict()[name], learned[name]) for name in learned)


def test_a_critic_from_a_checkpoint_does_not_start_over():
    critic = make_critic(make_model())
    critic.begin_phase()
    change(critic)
    restored = make_critic(make_model())

    restored.load_state_dict(critic.state_dict())
    restored.begin_phase()

    assert torch.equal(restored(example_batch(KEYS))["value"], critic(example_batch(KEYS))["value"])


def test_training_it_leaves_the_model_alone():
    model = make_model(tie_word_embeddings=True)
    critic = make_critic(model)
    before = copy.deepcopy(model.state_dict())

    critic(example_batch(KEYS))["value"].sum().backward()
    change(critic)

    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.grad is not None for parameter in critic.parameters())


def test_it_has_no_output_head():
    model = make_model()

    own = sum(p.numel() for p in Critic(model=model).parameters())

    # Beside the backbone 16 weights and a bias.
    assert own == sum(p.numel() for p in model.get_decoder().parameters()) + 17


def test_with_adapters_only_they_and_the_head_learn():
    critic = make_critic(make_model(rank=2))

    learning = {name for name, p in critic.named_parameters() if p.requires_grad}

    assert {"value_head.weight", "value_head.bias"} < learning
    assert all("lora" in name for name in learning if name.startswith("backbone"))


def test_the_backbone_is_and_stays_in_eval_mode():
    critic = Critic(model=make_model().train())
    assert not critic.backbone.training

    torch.nn.ModuleList([critic]).train()

    assert critic.training
    assert not critic.backbone.training


def test_it_keeps_the_contract_of_components():
    check_component(make_critic(make_model()))


def test_values_stand_before_their_tokens():
    critic, batch = make_critic(make_model()), example_batch(KEYS)
    batch["response_mask"] = batch["attention_mask"]
    before = critic(batch.copy())["value"]
    batch["tokens"] = batch["tokens"].clone()
    batch["tokens"][:, 3] = (batch["tokens"][:, 3] + 1) % 8

    moved = (critic(batch)["value"] != before).any(0)

    assert not moved[:4].any()
    assert moved[4]
