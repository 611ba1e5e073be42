"""The packed forward pass agrees with transformers, in values and gradients."""

import copy
import random
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from rlcomp.component import limit_outputs
from rlcomp.engine import attention, packing, transformer
from rlcomp.engine.attention import Tile, attend_tiles
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.engine.native.build import build
from rlcomp.engine.native.tree_attention import tree_attention
from rlcomp.errors import DataError
from rlcomp.model.adapters import adapters_off
from rlcomp.model.critics import ActorCritic, Critic
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import make_batch, tiny_model
from rlcomp.text.answers import answer_prompts
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abcdef")
PACKED, OWN = Engine(forward="packed", linear="torch"), Engine(forward="transformers")
ARCHITECTURES = ["llama", "qwen2", "qwen3", "gpt2"]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]
# Settings that change the architecture.
ROTATIONS = {
    "linear": {"factor": 2.0},
    "llama3": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 8},
}  # fmt: skip
UNUSUAL = {
    **{
        f"llama-{kind}": ("llama", {"rope_parameters": more | {"rope_type": kind, "rope_theta": 5}})
        for kind, more in ROTATIONS.items()
    },
    "llama-biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-narrow-heads": ("llama", {"head_dim": 6}),
    "llama-coarse-norm": ("llama", {"rms_norm_eps": 0.5}),
    "qwen3-wide-heads": ("qwen3", {"head_dim": 10, "hidden_act": "gelu"}),
    "gpt2-unscaled": ("gpt2", {"scale_attn_weights": False}),
    "gpt2-scaled-by-depth": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    "gpt2-upcast": ("gpt2", {"reorder_and_upcast_attn": True}),
    "gpt2-relu": ("gpt2", {"activation_function": "relu"}),
}


@pytest.fixture(autouse=True)
def norms_in_full_precision(monkeypatch):
    """Compute norms in float64: transformers rounds them to float32, to 1e-7."""

    def forward(self, x):
        return self.weight * F.rms_norm(x, x.shape[-1:], eps=self.variance_epsilon)

    for kind in (LlamaRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm):
        monkeypatch.setattr(kind, "forward", forward)


def make_model(
    architecture="llama", *, dtype=torch.float64, tie=False, overrides=None, rank=0, width=16
):
    """Move every parameter far from its initialisation, biases and norms included."""
    model = tiny_model(
        TOKENIZER,
        seed=5,
        rank=rank,
        architecture=architecture,
        num_hidden_layers=2,
        hidden_size=width,
        num_attention_heads=4,
        num_key_value_heads=4 if architecture == "gpt2" else 2,
        context_length=32,
        tie_word_embeddings=tie,
        overrides=overrides,
    )
    return perturbed(model.to(dtype))


def perturbed(module, scale=0.3):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, dtype=parameter.dtype))
    return module


def policies(model, kind=LanguageModel, **settings):
    """Return the same model in both forward passes."""
    given = {"model": model, "tokenizer": TOKENIZER, "decoding": Decoding(**settings)}
    return kind(**given, engine=PACKED), kind(**given, engine=OWN)


def rows(seed=0, prompts=3, answers=3):
    """Return shuffled ragged answers with holes to shared prompts; one row has no response."""
    draw = torch.Generator().manual_seed(seed)

    def number(low, high):
        return int(torch.randint(low, high + 1, (), generator=draw))

    texts = [torch.randint(2, 8, (number(1, 5),), generator=draw) for _ in range(prompts)]
    width, count = 12, prompts * answers
    # Padding must have no effect.
    tokens = torch.full((count, width), -12345)
    filled = torch.zeros(count, width, dtype=torch.bool)
    mask = filled.clone()
    for row, place in enumerate(torch.randperm(count, generator=draw).tolist()):
        prompt, new = texts[row // answers], number(1, 6)
        length = len(prompt) + new
        tokens[place, :length] = torch.cat([prompt, torch.randint(8, (new,), generator=draw)])
        filled[place, :length] = True
        mask[place, len(prompt) : length] = torch.rand(new, generator=draw) < 0.8
    mask[-1] = False
    return make_batch(tokens=tokens, attention_mask=filled, response_mask=mask)


def gradients(output, parameters):
    """Return the gradients of a sum with different weights."""
    draw = torch.Generator().manual_seed(1)
    weights = torch.randn(output.shape, generator=draw).to(output)
    total = (output * weights).sum()
    actual = torch.autograd.grad(total, list(parameters), retain_graph=True, allow_unused=True)
    return [torch.zeros(()) if one is None else one for one in actual]


def check_same(ours, theirs, parameters, close=1e-10, relative=1e-10):
    """Check values, and gradients relative to the largest entry of each."""
    torch.testing.assert_close(ours, theirs, atol=close, rtol=0)
    parameters = [p for p in parameters if p.requires_grad]
    mine, others = gradients(ours, parameters), gradients(theirs, parameters)
    for left, right in zip(mine, others, strict=True):
        # At least 1: the bias of keys cancels in the softmax up to rounding.
        assert (left - right).abs().max() <= relative * right.abs().max().clamp(min=1.0)
    assert max(right.abs().max() for right in others) > 0.1


@pytest.mark.parametrize("tile", [128, 4])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_log_probs_and_gradients_agree_with_transformers(architecture, tile):
    model, batch = make_model(architecture), rows()
    packed, own = policies(model)

    with patch.object(attention, "_TILE", tile):
        ours = packed.log_probs(batch)

    assert ours.dtype == torch.float64
    check_same(ours, own.log_probs(batch), model.parameters())


def branched(seed, trees=3, branches=6):
    """Return episodes with observations (holes) and branches at any token."""
    draw = random.Random(seed)
    actual = list[tuple[list[int], list[bool]]]()
    for _ in range(trees):
        own = [([2, draw.randint(2, 7)], [False, False])]
        for _ in range(branches):
            ids, mask = own[draw.randrange(len(own))]
            at = draw.randint(2, len(ids))
            new = draw.randint(1, 8)
            ids = [*ids[:at], *(draw.randint(2, 7) for _ in range(new))]
            own.append((ids, [*mask[:at], *(draw.random() < 0.7 for _ in range(new))]))
        actual += own[1:]
    draw.shuffle(actual)
    width = max(len(ids) for ids, _ in actual)
    return make_batch(
        tokens=[[*ids, *[-12345] * (width - len(ids))] for ids, _ in actual],
        attention_mask=[[n < len(ids) for n in range(width)] for ids, _ in actual],
        response_mask=[[*m, *[False] * (width - len(m))] for _, m in actual],
    )


def native(model, checkpointing=False):
    """Return the model with the native library, in float32."""
    build()
    model = copy.deepcopy(model).float()
    engine = Engine(forward="packed", update="native", checkpointing=checkpointing)
    return LanguageModel(model=model, tokenizer=TOKENIZER, decoding=Decoding(), engine=engine)


@pytest.mark.parametrize("name", [*ARCHITECTURES, *UNUSUAL])
def test_native_log_probs_and_gradients_agree_with_float64(name):
    architecture, overrides = UNUSUAL.get(name, (name, None))
    model, batch = make_model(architecture, overrides=overrides), rows()
    own, theirs = native(model), policies(model)[1]
    called = []

    with patch.object(transformer, "tree_attention", spy(called)):
        ours = own.log_probs(batch)

    assert len(called) == 2
    torch.testing.assert_close(ours.double(), theirs.log_probs(batch), atol=1e-4, rtol=0)
    mine = gradients(ours, own.model.parameters())
    others = gradients(theirs.log_probs(batch), model.parameters())
    for left, right in zip(mine, others, strict=True):
        # The bias of keys cancels in the softmax up to rounding.
        assert (left - right).norm() <= 1e-4 * right.norm().clamp(min=1.0)


def spy(called):
    def told(*given):
        called.append(given)
        return tree_attention(*given)

    return told


@pytest.mark.parametrize("checkpointing", [False, True])
def test_native_attention_of_prefix_trees(checkpointing):
    model, batch = make_model("qwen3"), branched(seed=3)
    own, theirs = native(model, checkpointing), policies(model)[1]

    ours, expected = own.log_probs(batch), theirs.log_probs(batch)

    torch.testing.assert_close(ours.double(), expected, atol=1e-4, rtol=0)
    others = gradients(expected, model.parameters())
    for left, right in zip(gradients(ours, own.model.parameters()), others, strict=True):
        assert (left - right).norm() <= 1e-4 * right.norm().clamp(min=1.0)


def test_a_model_cast_to_float64_is_computed_by_torch():
    model, batch = make_model(), rows()
    own = native(model)
    own.double().model.load_state_dict(model.state_dict())

    torch.testing.assert_close(
        own.log_probs(batch), policies(model)[1].log_probs(batch), atol=1e-10, rtol=0
    )


@pytest.mark.parametrize("tile", [128, 6, 1])
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_packed_trees_agree_with_their_rows(architecture, tile):
    model, batch = make_model(architecture), branched(seed=tile)
    packed, own = policies(model)

    with patch.object(attention, "_TILE", tile):
        ours = packed.log_probs(batch)
        read = len(packing.pack(batch)[0].ids)

    check_same(ours, own.log_probs(batch), model.parameters())
    # More than a third of the tokens is not packed.
    assert read < 0.7 * int(batch["attention_mask"].sum())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_float32_agrees_to_rounding(architecture):
    model, batch = make_model(architecture, dtype=torch.float32), rows()
    packed, own = policies(model)

    ours, theirs = packed.log_probs(batch), own.log_probs(batch)

    check_same(ours, theirs, model.parameters(), close=1e-5, relative=1e-4)


@pytest.fixture(scope="module")
def both():
    return policies(make_model(dtype=torch.float32))


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**31),
    prompts=st.integers(1, 4),
    answers=st.integers(1, 4),
    tile=st.sampled_from([1, 3, 8, 20, 128]),
)
def test_random_rows_in_tiles_of_any_size_agree(both, seed, prompts, answers, tile):
    packed, own = both
    batch = rows(seed, prompts, answers)

    with torch.no_grad(), patch.object(attention, "_TILE", tile):
        torch.testing.assert_close(packed.log_probs(batch), own.log_probs(batch), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", UNUSUAL)
def test_settings_of_the_architecture_take_effect(name):
    architecture, overrides = UNUSUAL[name]
    model, batch = make_model(architecture, overrides=overrides), rows()
    packed, own = policies(model)
    plain = policies(make_model(architecture))[1]

    ours = packed.log_probs(batch)

    check_same(ours, own.log_probs(batch), model.parameters())
    # Weights of another dtype change the result by rounding.
    assert name == "gpt2-upcast" or (ours - plain.log_probs(batch)).abs().max() > 1e-4


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tied_head_adds_its_gradient_to_the_embedding(architecture):
    model, batch = make_model(architecture, tie=True), rows()
    packed, own = policies(model)
    assert not any("lm_head" in name for name, _ in model.named_parameters())

    check_same(packed.log_probs(batch), own.log_probs(batch), model.parameters())


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("architecture", ["qwen3", "gpt2"])
def test_other_weights_replace_the_parameters(architecture, tie):
    model, batch = make_model(architecture, tie=tie), rows()
    packed, own = policies(model)
    weights = {
        name: (value.detach() * 0.5).requires_grad_() for name, value in model.named_parameters()
    }

    ours, theirs = packed.log_probs(batch, weights), own.log_probs(batch, weights)

    assert (ours - packed.log_probs(batch)).abs().max() > 0.1
    check_same(ours, theirs, weights.values())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_adapters_take_effect_and_get_gradients(architecture):
    model, batch = make_model(architecture, rank=2), rows()
    packed, own = policies(model)

    check_same(packed.log_probs(batch), own.log_probs(batch), model.parameters())


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_disabled_adapters_have_no_effect(architecture):
    model, batch = make_model(architecture, rank=2), rows()
    packed, own = policies(model)
    adapted = packed.log_probs(batch)

    with adapters_off(model):
        base, expected = packed.log_probs(batch), own.log_probs(batch)

    torch.testing.assert_close(base, expected, atol=1e-10, rtol=0)
    assert (base - adapted).abs().max() > 0.1
    torch.testing.assert_close(packed.log_probs(batch), adapted)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_logit_functions_agree(architecture):
    model, batch = make_model(architecture), rows()
    packed, own = policies(model, temperature=0.7, top_p=0.9)

    with limit_outputs(["log_probs", "entropy"]):
        ours, theirs = packed(batch.copy()), own(batch.copy())

    for key in ("log_probs", "entropy"):
        check_same(ours[key], theirs[key], model.parameters())
    distributions = packed.log_distribution(batch), own.log_distribution(batch)
    # <pad> is suppressed: its log-prob is -inf on both sides, and no part of the comparison.
    finite = distributions[1].isfinite()
    assert torch.equal(distributions[0].isfinite(), finite)
    drawn = [torch.where(finite, one, 0.0) for one in distributions]
    check_same(*drawn, model.parameters())
    squares = packed.squared_probs(batch), own.squared_probs(batch)
    torch.testing.assert_close(*squares, atol=1e-10, rtol=0)
    assert (squares[0] > 0).equal(batch["response_mask"])


def test_recorded_masks_agree():
    model = make_model(dtype=torch.float32)
    packed, own = policies(model, top_k=3, replay=True)
    draw = torch.Generator().manual_seed(0)
    batch = answer_prompts(own, ["ab", "c"], group_size=3, max_new_tokens=5, generator=draw)
    perturbed(model, 0.05)

    ours, theirs = packed.log_probs(batch), own.log_probs(batch)

    check_same(ours, theirs, model.parameters(), close=1e-5, relative=1e-4)
    batch["sampling_mask"] = torch.zeros_like(batch["sampling_mask"])
    with pytest.raises(DataError, match=r"'sampling_mask' at .* excludes the token"):
        packed.log_probs(batch)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_values_of_an_actor_critic_agree(architecture):
    model, batch = make_model(architecture), rows()
    packed, own = policies(model, ActorCritic)
    for policy in (packed, own):
        torch.manual_seed(7)
        perturbed(policy.value_head.double(), 1.0)

    with limit_outputs(["log_probs", "value"]):
        ours, theirs = packed(batch.copy())["value"], own(batch.copy())["value"]

    check_same(ours, theirs, model.parameters())
    check_same(packed.values(batch), own.values(batch), model.parameters())
    mine = gradients(ours, packed.value_head.parameters())
    for left, right in zip(mine, gradients(theirs, own.value_head.parameters()), strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_values_of_a_critic_agree(architecture, rank):
    model, batch = make_model(architecture, rank=rank), rows()
    actual = []
    for engine in (PACKED, OWN):
        critic = Critic(model=model, engine=engine)
        torch.manual_seed(7)
        perturbed(critic.double())
        values = critic.values(batch)
        trained = [parameter for parameter in critic.parameters() if parameter.requires_grad]
        actual.append((values, gradients(values, trained)))

    (ours, left), (theirs, right) = actual
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)
    assert ours.abs().max() > 0.1
    for mine, other in zip(left, right, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("tile", [128, 4])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_row_is_independent_of_other_rows(architecture, tile):
    packed, batch = policies(make_model(architecture), ActorCritic)[0], rows()
    torch.nn.init.normal_(packed.value_head.double().weight)
    other = batch.clone()
    # All rows but the first get other answers of the same length.
    answers = other["response_mask"].clone()
    answers[0] = False
    other["tokens"] = torch.where(answers, 2 + (batch["tokens"] + 1) % 6, batch["tokens"])

    with torch.no_grad(), patch.object(attention, "_TILE", tile):
        before, after = packed(batch), packed(other)

    for key in ("log_probs", "entropy", "value"):
        assert torch.equal(before[key][0], after[key][0]), key
        assert (before[key][1:] - after[key][1:]).abs().max() > 1e-3, key


def test_the_gradient_of_a_row_is_independent_of_other_rows():
    model, batch = make_model(), rows()
    packed = policies(model)[0]
    alone = batch[1:2]

    together = gradients(packed.log_probs(batch)[1], model.parameters())

    for left, right in zip(
        together, gradients(packed.log_probs(alone)[0], model.parameters()), strict=True
    ):
        torch.testing.assert_close(left, right, atol=1e-10, rtol=1e-10)


def test_weights_changed_in_place_take_effect():
    model, batch = make_model(), rows()
    packed, own = policies(model)
    before = packed.log_probs(batch)

    perturbed(model)

    assert (packed.log_probs(batch) - before).abs().max() > 0.1
    torch.testing.assert_close(packed.log_probs(batch), own.log_probs(batch), atol=1e-10, rtol=0)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernel_bfloat16_is_close(architecture):
    model, batch = make_model(architecture, dtype=torch.float32), rows()
    exact = policies(model)[1].log_probs(batch)
    coarse = LanguageModel(
        model=model,
        tokenizer=TOKENIZER,
        decoding=Decoding(),
        engine=Engine(forward="packed", linear="bfloat16"),
    )

    rounded = coarse.log_probs(batch)

    # A factor is off by 2^-9 of itself, a product of two by 2^-8; errors of independent sign over
    # some ten products in a row give about 1 % of logits of size 5.
    assert 1e-4 < (rounded - exact).abs().max() < 0.1
    for left, right in zip(
        gradients(rounded, model.parameters()), gradients(exact, model.parameters()), strict=True
    ):
        assert (left - right).norm() <= 0.1 * max(right.norm(), 1.0)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_bfloat16_weights_are_scored_and_trained(architecture):
    model, batch = make_model(architecture, dtype=torch.bfloat16), rows()
    exact = make_model(architecture, dtype=torch.bfloat16).float()
    rounded = policies(model)[0].log_probs(batch)
    expected = policies(exact)[1].log_probs(batch)

    # Every step is rounded to 2^-9: the same error as with bfloat16 products.
    assert (rounded - expected).abs().max() < 0.1
    actual = gradients(rounded, model.parameters())
    for left, right in zip(actual, gradients(expected, exact.parameters()), strict=True):
        assert left.dtype == torch.bfloat16
        assert (left.float() - right).norm() <= 0.1 * max(right.norm(), 1.0)


@needs_gpu
@pytest.mark.parametrize("tile", [128, 4])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_gpu_agrees(architecture, tile):
    batch, actual = rows(), []
    for device in ("cpu", "cuda"):
        model = make_model(architecture).to(device)
        packed, own = policies(model)
        with patch.object(attention, "_TILE", tile):
            ours = packed.log_probs(batch.to(device))
        check_same(ours, own.log_probs(batch.to(device)), model.parameters())
        actual.append(ours.detach().cpu())

    # Rotations are float32 in every model, and a GPU rounds cosines differently.
    torch.testing.assert_close(*actual, atol=1e-6, rtol=0)


@needs_gpu
@pytest.mark.parametrize("tile", [128, 4])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_gpu_agrees_in_float32(architecture, tile):
    model, batch = make_model(architecture, dtype=torch.float32).cuda(), rows().to("cuda")
    packed, own = policies(model)

    with patch.object(attention, "_TILE", tile):
        ours = packed.log_probs(batch)

    check_same(ours, own.log_probs(batch), model.parameters(), close=1e-5, relative=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("trees", [False, True])
def test_compute_bfloat16_is_close_and_weights_stay_float32(architecture, trees, device):
    # Heads of 8 features: the minimum of flash kernels.
    model = make_model(architecture, dtype=torch.float32, width=32).to(device)
    batch = (branched(1) if trees else rows()).to(device)
    half = LanguageModel(
        model=model, tokenizer=TOKENIZER, decoding=Decoding(), engine=Engine(compute="bfloat16")
    )
    coarse = copy.deepcopy(model).bfloat16()
    own, theirs = policies(model)[1], policies(coarse)[1]

    actual = [
        (policy.log_probs(batch), policy.model.parameters()) for policy in (half, own, theirs)
    ]

    ours, expected, rounded = (log_probs[batch["response_mask"]] for log_probs, _ in actual)
    assert ours.dtype == torch.float32
    # Two layers round about as often as those of a model of bfloat16: at most half as much again.
    assert 1e-5 < (ours - expected).norm() < 1.5 * (rounded - expected).norm()
    mine, exact, others = (gradients(*each) for each in actual)
    assert {one.dtype for one in mine} == {torch.float32}
    left, middle, right = (
        torch.cat([one.float().flatten() for one in each]) for each in (mine, exact, others)
    )
    assert (left - middle).norm() < 1.5 * (right - middle).norm()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_the_residual_stream_is_not_rounded(architecture, device):
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    model = tiny_model(
        TOKENIZER,
        architecture=architecture,
        scale=4.0,
        num_hidden_layers=24,
        hidden_size=64,
        context_length=32,
        **heads,
    )
    with torch.no_grad():
        model.get_input_embeddings().weight.normal_()
    model, batch = model.to(device), rows().to(device)
    half = LanguageModel(
        model=model, tokenizer=TOKENIZER, decoding=Decoding(), engine=Engine(compute="bfloat16")
    )
    own, theirs = policies(model)[1], policies(copy.deepcopy(model).bfloat16())[1]

    ours, expected, rounded = (policy.log_probs(batch) for policy in (half, own, theirs))

    # In a bfloat16 stream every layer rounds the sum of all layers before it.
    assert (ours - expected).norm() < 0.5 * (rounded - expected).norm()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sampler_and_scorer_agree_in_bfloat16(architecture, device):
    model = make_model(architecture, dtype=torch.float32, width=32).to(device)
    half = LanguageModel(
        model=model, tokenizer=TOKENIZER, decoding=Decoding(), engine=Engine(compute="bfloat16")
    )
    generator = torch.Generator().manual_seed(0)

    batch = half.generate([[2, 3], [4]], group_size=8, max_new_tokens=8, generator=generator)

    apart = (half.score(batch) - batch["rollout_log_probs"])[batch["response_mask"]].abs()
    assert batch["rollout_log_probs"].dtype == torch.float32
    # Both round, at different places.
    assert apart.mean() < 2e-2


def test_adapters_in_bfloat16_get_float32_gradients():
    model, batch = make_model(dtype=torch.float32, rank=2), rows()
    half = LanguageModel(
        model=model, tokenizer=TOKENIZER, decoding=Decoding(), engine=Engine(compute="bfloat16")
    )
    _, own = policies(model)

    ours, expected = half.log_probs(batch), own.log_probs(batch)

    assert (ours - expected)[batch["response_mask"]].abs().mean() < 2e-2
    trained = [p for p in model.parameters() if p.requires_grad]
    for left, right in zip(gradients(ours, trained), gradients(expected, trained), strict=True):
        assert left.dtype == torch.float32
        assert (left - right).norm() <= 0.1 * max(right.norm(), 1.0)


@pytest.mark.parametrize("tokens", [2, 3])
def test_grouped_attention_for_any_number_of_tokens(tokens):
    # All keys are 0: attention is the mean of the values so far. Heads 0 and 1 use the
    # first of two, heads 2 and 3 the second.
    q, k = torch.ones(tokens, 4, 1), torch.zeros(tokens, 2, 1)
    v = torch.tensor([[[1.0], [10.0]], [[3.0], [30.0]], [[8.0], [20.0]]])[:tokens]

    attended = attend_tiles(q, k, v, [Tile(slice(0, tokens), None, None)], 1.0)

    means = [[1.0, 1.0, 10.0, 10.0], [2.0, 2.0, 20.0, 20.0], [4.0, 4.0, 20.0, 20.0]]
    torch.testing.assert_close(attended, torch.tensor(means[:tokens]))


def test_hooks_of_layers_are_called():
    model, batch = make_model(), rows()
    packed, own = policies(model)
    model.model.layers[0].self_attn.q_proj.register_forward_hook(lambda _, __, out: out + 0.5)
    model.model.norm.register_forward_hook(lambda _, __, out: 2 * out)

    check_same(packed.log_probs(batch), own.log_probs(batch), model.parameters())


@pytest.mark.parametrize("large", [attention._LARGE_MASK, 0])
def test_answers_longer_than_a_tile_agree(large):
    model, batch = make_model(), rows()
    packed, own = policies(model)

    with patch.object(attention, "_TILE", 1), patch.object(attention, "_LARGE_MASK", large):
        check_same(packed.log_probs(batch), own.log_probs(batch), model.parameters())
