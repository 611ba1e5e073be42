"""Gradient checkpointing: the same numbers, with less memory."""

import copy

import pytest
import torch
from torch import nn

from rlcomp.engine.checkpointing import checkpoint_layers
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.errors import ConfigError
from rlcomp.model.adapters import lora
from rlcomp.model.critics import Critic
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_model
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abc")
ROWS = encode_rows(TOKENIZER, ["ab", "c", "ab"], ["cab", "a", "bbbb"])


def model(architecture="qwen2", adapted=False):
    made = tiny_model(TOKENIZER, seed=2, architecture=architecture, num_hidden_layers=3)
    return lora(model=made, rank=2, alpha=4.0) if adapted else made


def kept(run):
    """Numbers that a forward pass keeps for its backward pass, each storage once."""
    found = {}

    def pack(tensor):
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // 4
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return run(), sum(found.values())


def gradients(part, value):
    value.square().sum().backward()
    return {n: p.grad.clone() for n, p in part.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("adapted", [False, True])
@pytest.mark.parametrize("forward", ["packed", "transformers"])
@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_gradients_are_the_same_and_less_is_kept(forward, architecture, adapted):
    found = []
    for checkpointing in (False, True):
        engine = Engine(forward=forward, linear="torch", checkpointing=checkpointing)
        policy = LanguageModel(
            model=model(architecture, adapted),
            tokenizer=TOKENIZER,
            decoding=Decoding(),
            engine=engine,
        )
        scored, numbers = kept(lambda policy=policy: policy.log_probs(ROWS))
        found.append((scored.detach(), gradients(policy, scored), numbers))

    (plain, wanted, much), (same, given, little) = found
    assert torch.equal(plain, same)
    assert wanted.keys() == given.keys()
    assert all(torch.equal(wanted[name], given[name]) for name in wanted)
    assert little < 0.6 * much


@pytest.mark.parametrize("forward", ["packed", "transformers"])
def test_a_critic_is_checkpointed_as_well(forward):
    found = []
    for checkpointing in (False, True):
        engine = Engine(forward=forward, linear="torch", checkpointing=checkpointing)
        critic = Critic(model=model(), engine=engine)
        with torch.no_grad():
            critic.value_head.weight.fill_(0.1)
        values, numbers = kept(lambda critic=critic: critic.values(ROWS))
        found.append((gradients(critic, values), numbers))

    (wanted, much), (given, little) = found
    assert all(torch.equal(wanted[name], given[name]) for name in wanted)
    assert little < 0.6 * much


def test_a_copy_computes_its_own_layers_again():
    first = model()
    checkpoint_layers(first)
    checkpoint_layers(first)  # once is enough
    second = copy.deepcopy(first)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(0.1)

    second(ROWS["tokens"]).logits.sum().backward()

    assert all(parameter.grad is None for parameter in first.parameters())
    assert all(parameter.grad is not None for parameter in second.parameters())


def test_without_gradient_it_is_a_plain_call():
    policy = LanguageModel(
        model=model(),
        tokenizer=TOKENIZER,
        decoding=Decoding(),
        engine=Engine(checkpointing=True),
    )

    with torch.no_grad():
        _, numbers = kept(lambda: policy.log_probs(ROWS))

    assert numbers == 0


def test_a_model_without_such_layers_is_refused():
    with pytest.raises(ConfigError, match=r"Linear has no layers .* engine.checkpointing=false"):
        checkpoint_layers(nn.Linear(2, 2))


def test_gradients_at_other_weights_are_refused():
    policy = LanguageModel(
        model=model(),
        tokenizer=TOKENIZER,
        decoding=Decoding(),
        engine=Engine(checkpointing=True),
    )
    own = policy.weights()

    with pytest.raises(ConfigError, match="set it to false for gradients at other weights"):
        policy.log_probs(ROWS, own)
    with torch.no_grad():
        torch.testing.assert_close(policy.log_probs(ROWS, own), policy.log_probs(ROWS))
