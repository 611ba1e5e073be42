import pytest
import torch
from tensordict import TensorDict

from rlcomp.component import limit_outputs
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.model.adapters import lora
from rlcomp.model.critics import ActorCritic
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import make_batch, tiny_model
from rlcomp.text.answers import answer_prompts
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abc")
# Sliding windows, parallel blocks, scaled logits, projections around the decoder, experts.
ARCHITECTURES = ["cohere", "falcon", "gemma2", "gpt2", "granite", "mixtral", "opt", "qwen2"]
OWN = {"gemma2": {"sliding_window": 4}, "opt": {"word_embed_proj_dim": 8}}


def make_model(architecture="qwen2", **settings):
    sizes = {"num_hidden_layers": 2, "context_length": 32, "overrides": OWN.get(architecture)}
    return tiny_model(TOKENIZER, seed=3, scale=4.0, architecture=architecture, **sizes, **settings)


def make_policy(model=None, *, kind=ActorCritic, engine=AUTO):
    model = model or make_model()
    policy = kind(model=model, tokenizer=TOKENIZER, decoding=Decoding(), engine=engine)
    if kind is ActorCritic:
        torch.manual_seed(4)
        torch.nn.init.normal_(policy.value_head.weight)
    return policy


def rows(count=5, width=9):
    """Ragged rows whose response masks have holes; the last row has no response."""
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(5, (count, width), generator=draw)
    filled = torch.arange(width) < torch.randint(4, width + 1, (count, 1), generator=draw)
    mask = filled & (torch.arange(width) >= 2)
    mask &= torch.rand(count, width, generator=draw) < 0.7
    mask[-1] = False
    return make_batch(tokens=tokens, attention_mask=filled, response_mask=mask)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_values_are_those_of_each_row_read_alone(architecture):
    policy, batch = make_policy(make_model(architecture)), rows()
    head, expected = policy.value_head, torch.zeros(batch["tokens"].shape)
    for row, t in batch["response_mask"].nonzero().tolist():
        # The output head is replaced by nothing: what it would have read comes out.
        ids = batch["tokens"][row : row + 1, :t]
        states = policy.model.get_decoder()(ids).last_hidden_state
        expected[row, t] = (states[0, -1] * head.weight).sum() + head.bias

    torch.testing.assert_close(policy(batch)["value"], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(policy.values(batch), expected, atol=1e-5, rtol=1e-5)


def test_a_value_knows_the_token_before_and_not_its_own():
    policy, batch = make_policy(), rows()
    batch["response_mask"] = batch["attention_mask"]
    before = policy.values(batch)
    changed = batch.copy()
    changed["tokens"] = batch["tokens"].clone()
    changed["tokens"][:, 3] = (batch["tokens"][:, 3] + 1) % 5

    moved = (policy.values(changed) != before).any(0)

    assert not moved[:4].any()
    assert moved[4]


def test_sampling_and_log_probs_are_those_of_the_policy_alone():
    plain, policy = make_policy(make_model(), kind=LanguageModel), make_policy(make_model())
    batch = rows()

    def sampled(model):
        draw = torch.Generator().manual_seed(1)
        return answer_prompts(model, ["ab", "c"], group_size=3, max_new_tokens=6, generator=draw)

    for key, column in sampled(plain).items():
        assert torch.equal(sampled(policy)[key], column), key
    expected, found = plain(batch.copy()), policy(batch.copy())
    assert torch.equal(found["log_probs"], expected["log_probs"])
    assert torch.equal(found["entropy"], expected["entropy"])
    assert torch.equal(policy.log_probs(batch), plain.log_probs(batch))


@pytest.mark.parametrize("forward", ["packed", "transformers"])
def test_one_forward_pass_gives_log_probs_and_values(forward):
    policy, passes = make_policy(engine=Engine(forward=forward)), []
    policy.model.get_input_embeddings().register_forward_hook(lambda *_: passes.append(1))

    policy(rows())

    assert len(passes) == 1


@pytest.mark.parametrize("forward", ["packed", "transformers"])
def test_no_hook_is_left_behind_when_a_forward_fails(forward):
    policy, batch = make_policy(engine=Engine(forward=forward)), rows()

    def fail(*_):
        raise IndexError

    policy.model.get_input_embeddings().register_forward_pre_hook(fail)

    with pytest.raises(IndexError):
        policy(batch)

    assert not policy.model.get_decoder()._forward_hooks


def test_garbage_and_more_padding_change_nothing():
    policy, batch = make_policy(), rows()
    expected = policy(batch.copy())["value"]
    wide = TensorDict(
        {key: torch.nn.functional.pad(column, (0, 3)) for key, column in batch.items()},
        batch_size=batch.batch_size,
    )
    wide["tokens"] = torch.where(wide["attention_mask"], wide["tokens"], -12345)

    torch.testing.assert_close(policy(wide)["value"][:, :9], expected)
    torch.testing.assert_close(policy.values(wide)[:, :9], expected)
    assert not policy(wide)["value"][~wide["response_mask"]].any()


def test_values_carry_a_graph_only_when_asked_for():
    policy = make_policy()

    with limit_outputs(["log_probs"]):
        silent = policy(rows())["value"]
    with limit_outputs(["log_probs", "value"]):
        asked_for = policy(rows())["value"]

    assert (silent.requires_grad, asked_for.requires_grad) == (False, True)
    assert torch.equal(silent, asked_for)


@pytest.mark.parametrize("adapters", [False, True])
def test_head_and_backbone_get_the_gradient_of_the_values(adapters):
    model = lora(model=make_model(), rank=2, alpha=4.0) if adapters else make_model()
    policy = make_policy(model)

    policy(rows())["value"].square().sum().backward()
    moved = {name for name, p in policy.named_parameters() if p.grad is not None and p.grad.any()}

    assert {"value_head.weight", "value_head.bias"} < moved
    trained = {name for name in moved if name.startswith("model")}
    assert all(("lora" in name) == adapters for name in trained)
    assert not any("lm_head" in name for name in trained)
