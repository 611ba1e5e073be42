"""Gradient checkpointing, and backward passes that are differentiable once."""

import copy

import pytest
import torch
from torch import nn

from rlcomp.engine.autograd import checkpoint_layers, differentiable_once
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
    """Count the numbers saved for the backward pass, each storage once."""
    actual = {}

    def pack(tensor):
        actual[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // 4
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return run(), sum(actual.values())


def gradients(part, value):
    value.square().sum().backward()
    return {n: p.grad.clone() for n, p in part.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("adapted", [False, True])
@pytest.mark.parametrize("forward", ["packed", "transformers"])
@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_checkpointing_gives_the_same_gradients_with_less_memory(forward, architecture, adapted):
    actual = []
    for checkpointing in (False, True):
        engine = Engine(forward=forward, linear="torch", checkpointing=checkpointing)
        policy = LanguageModel(
            model=model(architecture, adapted),
            tokenizer=TOKENIZER,
            decoding=Decoding(),
            engine=engine,
        )
        scored, numbers = kept(lambda policy=policy: policy.log_probs(ROWS))
        actual.append((scored.detach(), gradients(policy, scored), numbers))

    (plain, expected, much), (same, given, little) = actual
    assert torch.equal(plain, same)
    assert expected.keys() == given.keys()
    assert all(torch.equal(expected[name], given[name]) for name in expected)
    assert little < 0.6 * much


@pytest.mark.parametrize("forward", ["packed", "transformers"])
def test_checkpointing_of_a_critic(forward):
    actual = []
    for checkpointing in (False, True):
        engine = Engine(forward=forward, linear="torch", checkpointing=checkpointing)
        critic = Critic(model=model(), engine=engine)
        with torch.no_grad():
            critic.value_head.weight.fill_(0.1)
        values, numbers = kept(lambda critic=critic: critic.values(ROWS))
        actual.append((gradients(critic, values), numbers))

    (expected, much), (given, little) = actual
    assert all(torch.equal(expected[name], given[name]) for name in expected)
    assert little < 0.6 * much


def test_a_copy_checkpoints_its_own_layers():
    first = model()
    checkpoint_layers(first)
    checkpoint_layers(first)  # no effect
    second = copy.deepcopy(first)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(0.1)

    second(ROWS["tokens"]).logits.sum().backward()

    assert all(parameter.grad is None for parameter in first.parameters())
    assert all(parameter.grad is not None for parameter in second.parameters())


def test_without_gradients_layers_are_called_directly():
    policy = LanguageModel(
        model=model(),
        tokenizer=TOKENIZER,
        decoding=Decoding(),
        engine=Engine(checkpointing=True),
    )

    with torch.no_grad():
        _, numbers = kept(lambda: policy.log_probs(ROWS))

    assert numbers == 0


def test_a_model_without_checkpointable_layers_is_refused():
    with pytest.raises(ConfigError, match=r"Linear has no layers .* engine.checkpointing=false"):
        checkpoint_layers(nn.Linear(2, 2))


def test_checkpointing_with_other_weights_is_refused():
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


class Square(torch.autograd.Function):
    """x^2 of the first argument; the second has no gradient."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return x * x + 0 * y

    @staticmethod
    @differentiable_once
    def backward(ctx, gradient):
        assert not torch.is_grad_enabled()
        (x,) = ctx.saved_tensors
        return 2 * x * gradient, None


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @differentiable_once
    def backward(ctx, gradient):
        return 2 * gradient


def test_the_first_derivative_is_unchanged():
    x = torch.tensor([3.0], requires_grad=True)

    for graph in (False, True):
        (slope,) = torch.autograd.grad(Square.apply(x, torch.ones(1)), x, create_graph=graph)
        assert slope.item() == 6.0
        assert slope.requires_grad == graph
    assert torch.autograd.grad(Double.apply(x), x)[0].item() == 2.0


@pytest.mark.parametrize("of", [lambda x: Square.apply(x, torch.ones(1)), Double.apply])
@pytest.mark.parametrize("outer", [lambda y: y.sum(), lambda y: y.square().sum()])
def test_the_second_derivative_is_refused(of, outer):
    x = torch.tensor([3.0], requires_grad=True)
    (slope,) = torch.autograd.grad(outer(of(x)), x, create_graph=True)

    with pytest.raises(RuntimeError, match="differentiable once: for second derivatives use engin"):
        slope.square().sum().backward()
