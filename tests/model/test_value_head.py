from functools import partial
from types import SimpleNamespace

import pytest
import torch

import rlcomp.model.backbone
from rlcomp.engine.engine import Engine
from rlcomp.model.backbone import read_values, spread_values
from rlcomp.model.critics import ValueHead
from rlcomp.testing import make_batch, tiny_model
from rlcomp.text.tokenizer import character_tokenizer

ENGINES = [Engine(forward="packed"), Engine(forward="transformers")]

make_model = partial(tiny_model, character_tokenizer(characters="abc"))


def make_head(*weight, bias=0.0):
    head = ValueHead(make_model())
    head.weight = torch.nn.Parameter(torch.tensor(weight))
    head.bias = torch.nn.Parameter(torch.tensor(bias))
    return head


class Positions(torch.nn.Module):
    """A model whose hidden state is the position of the last token it has read."""

    def forward(self, input_ids, use_cache):
        position = torch.arange(input_ids.shape[1], dtype=torch.float32)
        return SimpleNamespace(last_hidden_state=position.expand(input_ids.shape)[..., None])


def rows(response_mask):
    mask = torch.tensor(response_mask).bool()
    return make_batch(
        tokens=torch.full(mask.shape, 2),
        attention_mask=torch.ones_like(mask),
        response_mask=mask,
    )


def test_a_value_is_of_the_state_before_its_token():
    # The state before token t has read tokens 0 to t - 1: a model that says where it stands says
    # t - 1. Nothing precedes token 0; outside the response stands 0.
    batch = rows([[1, 1, 1, 0, 1, 0], [0, 0, 1, 1, 0, 0]])

    values = read_values(Positions(), None, make_head(1.0, bias=10.0), batch)

    assert values.tolist() == [[0, 10, 11, 0, 13, 0], [0, 0, 11, 12, 0, 0]]


def test_a_value_is_linear_in_the_hidden_state():
    states = torch.tensor([[[1.0, 2.0], [3.0, 5.0]]])

    values = make_head(2.0, -1.0, bias=0.5)(states)

    # 2 * 1 - 2 + 0.5 and 2 * 3 - 5 + 0.5.
    assert values.tolist() == [[0.5, 1.5]]


def test_states_that_no_response_token_follows_do_not_matter():
    states = torch.tensor([[[1.0], [torch.nan], [2.0]]])
    head = make_head(3.0)

    values = spread_values(head, states, torch.tensor([[False, True, False, True]]))
    values.sum().backward()

    assert values.tolist() == [[0.0, 3.0, 0.0, 6.0]]
    assert head.weight.grad.tolist() == [3.0]


def test_without_a_critic_s_knowledge_every_value_is_0_and_the_head_can_learn():
    head = ValueHead(make_model())
    states = torch.ones(1, 2, 16)

    values = spread_values(head, states, torch.tensor([[False, True, True]]))
    values.sum().backward()

    assert values.tolist() == [[0.0, 0.0, 0.0]]
    assert head.weight.grad.tolist() == [2.0] * 16


def test_making_a_head_draws_nothing():
    model = make_model()
    before = torch.get_rng_state()

    ValueHead(model)

    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_without_response_has_values_0_and_a_zero_gradient(engine):
    head, model = make_head(*[1.0] * 16), make_model()
    batch = rows([[0, 0, 0], [0, 0, 0]])

    values = read_values(model.get_decoder(), engine.transformer(model), head, batch)
    values.sum().backward()

    assert values.tolist() == [[0.0] * 3] * 2
    assert head.weight.grad.tolist() == [0.0] * 16


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("budget", [1, 6, 8])
def test_without_gradient_rows_are_read_in_pieces_and_nothing_changes(monkeypatch, engine, budget):
    model, head = make_model(), make_head(*torch.linspace(-1, 1, 16).tolist())
    batch = rows([[0, 1, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0]])
    batch["tokens"] = torch.arange(24).reshape(4, 6) % 5
    parts = (model.get_decoder(), engine.transformer(model), head)
    seen = []
    model.get_input_embeddings().register_forward_pre_hook(
        lambda _, given: seen.append(given[0].numel())
    )
    expected = read_values(*parts, batch).detach()
    seen.clear()

    monkeypatch.setattr(rlcomp.model.backbone, "_NO_GRAD_TOKENS", budget)
    with torch.no_grad():
        got = read_values(*parts, batch)

    torch.testing.assert_close(got, expected)
    assert len(seen) > 1
    # A row longer than the budget is a piece by itself.
    assert max(seen) <= max(budget, 5)


def test_a_head_of_several_outputs_gives_a_value_of_each():
    def heads(states):
        return torch.cat([states, 3 * states], -1)

    values = spread_values(
        heads, torch.tensor([[[2.0], [5.0]]]), torch.tensor([[False, True, True]])
    )

    assert values.tolist() == [[[0, 0], [2, 6], [5, 15]]]
