"""Muon for matrices, AdamW for the rest; and a run with it."""

import copy

import pytest
import torch

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigError, ConfigErrors
from rlcomp.model.optimizer import MuonAdamW


def newton_schulz(singular_value):
    # torch's coefficients on one singular value, five times: x <- a x + b x^3 + c x^5.
    for _ in range(5):
        x = singular_value
        singular_value = 3.4445 * x - 4.775 * x**3 + 2.0315 * x**5
    return singular_value


def parameters():
    torch.manual_seed(0)
    shapes = {
        "model.embed_tokens.weight": (5, 3),
        "model.layers.0.self_attn.q_proj.weight": (3, 2),
        "model.norm.weight": (3,),
        "lm_head.weight": (5, 3),
        "value_head.weight": (3, 2),
        "model.layers.0.mlp.up_proj.weight": (4, 3),
    }
    return {name: torch.nn.Parameter(torch.randn(shape)) for name, shape in shapes.items()}


def trained(named, steps, optimizer):
    for step in range(steps):
        for number, parameter in enumerate(named.values()):
            parameter.grad = torch.full_like(parameter, 1.0 + number + step)
        optimizer.step()


def test_hidden_matrices_are_muons_and_the_rest_adamws():
    made = MuonAdamW(parameters().items())

    muon, adamw = (group["param_names"] for group in made.param_groups)
    assert muon == ["model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.up_proj.weight"]
    assert adamw == [
        "model.embed_tokens.weight",
        "model.norm.weight",
        "lm_head.weight",
        "value_head.weight",
    ]


@pytest.mark.parametrize(
    ("name", "is_muons"),
    [
        ("score.weight", False),
        ("model.output.weight", False),
        ("reward_head.weight", False),
        ("head.weight", False),
        ("classifier.weight", False),
        ("model.layers.0.attention.output.dense.weight", True),
        ("layers.0.multihead_attn.out_proj.weight", True),
    ],
)
def test_heads_are_known_by_their_usual_names(name, is_muons):
    made = MuonAdamW([*parameters().items(), (name, torch.nn.Parameter(torch.ones(2, 3)))])

    assert (name in made.param_groups[0]["param_names"]) is is_muons


def test_the_first_step_of_a_matrix_is_its_orthogonalised_gradient():
    weight = torch.nn.Parameter(torch.zeros(2, 8))
    made = MuonAdamW([("layer.weight", weight)], lr=0.1)
    # One singular value; the gradient is scaled to norm 1 before it is orthogonalised.
    weight.grad = torch.zeros(2, 8)
    weight.grad[0, 3] = 7.0

    made.step()

    expected = torch.zeros(2, 8)
    expected[0, 3] = -0.1 * 0.2 * 8**0.5 * newton_schulz(1.0)
    # torch orthogonalises in bfloat16, which has 8 bits.
    assert torch.allclose(weight.detach(), expected, rtol=0.02, atol=1e-6)


def test_the_others_take_the_step_of_adamw():
    named, other = parameters(), parameters()
    plain = ["model.embed_tokens.weight", "model.norm.weight"]
    made = MuonAdamW(named.items(), lr=0.1, betas=(0.8, 0.9), weight_decay=0.3)
    adamw = torch.optim.AdamW(
        [other[name] for name in plain], lr=0.1, betas=(0.8, 0.9), weight_decay=0.3
    )

    trained(named, 3, made)
    trained(other, 3, adamw)

    for name in plain:
        assert torch.equal(named[name], other[name])


def test_a_rate_that_the_learner_sets_is_the_rate_of_both():
    named = parameters()
    before = {name: parameter.detach().clone() for name, parameter in named.items()}
    made = MuonAdamW(named.items(), weight_decay=1.0)
    for group in made.param_groups:
        group["lr"] = 0.0

    trained(named, 1, made)

    assert all(torch.equal(named[name], before[name]) for name in named)


def test_it_goes_on_where_it_was_saved():
    named = parameters()
    made = MuonAdamW(named.items(), lr=0.1)
    trained(named, 2, made)
    state = copy.deepcopy(made.state_dict())
    other = {n: torch.nn.Parameter(p.detach().clone()) for n, p in named.items()}
    trained(named, 2, made)

    resumed = MuonAdamW(other.items(), lr=0.1)
    resumed.load_state_dict(state)
    trained(other, 2, resumed)

    assert all(torch.equal(named[name], other[name]) for name in named)
    assert {"momentum_buffer"} in [set(entry) for entry in state["state"].values()]


@pytest.mark.parametrize(
    ("params", "not_muon", "told"),
    [
        ([torch.nn.Parameter(torch.zeros(2, 2))], "x", "by name"),
        ([("norm.weight", torch.nn.Parameter(torch.zeros(2)))], "x", "choose optimizer=adamw"),
        (parameters().items(), "weight", "choose optimizer=adamw"),
        (parameters().items(), "(", r"not_muon is '\(': must be a regular expression \(missing \)"),
    ],
)
def test_what_it_cannot_split_is_refused(params, not_muon, told):
    with pytest.raises(ConfigError, match=told):
        MuonAdamW(params, not_muon=not_muon)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("lr=-1", "must be at least 0"),
        ("lr=inf", "must be finite"),
        ("momentum=2", "must be less than 1"),
        ("betas=[0.9]", "must be a list of 2"),
        ("betas=[0.9,0.95,0.99]", "must be a list of 2"),
        ("betas=[2,0.9]", "must be less than 1"),
        ("weight_decay=-5", "must be at least 0"),
        ("not_muon='['", "must be a regular expression"),
    ],
)
def test_its_mistakes_are_told_with_their_path_before_a_model_is_built(word, told):
    words = ["recipe=grpo", "optimizer@learner.optimizer=muon", "directory=x"]
    words.append(f"learner.optimizer.{word}")

    with pytest.raises(ConfigErrors, match=told) as error:
        plan_of(compose_config(words))

    name = word.partition("=")[0]
    assert str(error.value).startswith(f"learner.optimizer.{name} is ")


def test_without_anything_for_adamw_muon_works_alone():
    weight = torch.nn.Parameter(torch.eye(2))
    made = MuonAdamW([("layer.weight", weight)])

    trained({"layer.weight": weight}, 1, made)

    assert not torch.equal(weight, torch.eye(2))


WORDS = (
    "optimizer@learner.optimizer=muon",
    "optimizer@sft_learner.optimizer=muon",
    "model.hidden_size=16",
    "model.intermediate_size=16",
)


@pytest.mark.slow
def test_a_run_with_it_is_continued_bit_identically(play, bits, continued, tmp_path):
    whole = play(tmp_path / "whole", *WORDS)

    assert bits(continued(whole, tmp_path / "again", 4, *WORDS)) == bits(whole)
