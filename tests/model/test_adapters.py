import pytest
import torch

from rlcomp.errors import ConfigError
from rlcomp.model.adapters import adapters_off, has_adapters, lora, merge_adapters
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

IDS = torch.tensor([[2, 3, 2]])


def make_model(architecture="qwen2"):
    tokenizer = character_tokenizer(characters="ab")
    return tiny_model(tokenizer, architecture=architecture, num_hidden_layers=2)


def disturb(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()


@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_adapters_start_as_the_identity(architecture):
    model = make_model(architecture)
    before = model(IDS).logits

    adapted = lora(model=model, rank=2, alpha=4.0)

    torch.testing.assert_close(adapted(IDS).logits, before)


def test_only_adapters_are_trainable():
    model = lora(model=make_model(), rank=2, alpha=4.0)

    trainable = {name for name, value in model.named_parameters() if value.requires_grad}

    # Two factors for each of q, k, v, o, gate, up, down in two layers; the head stays as it is.
    assert len(trainable) == 2 * 7 * 2
    assert all("lora_" in name for name in trainable)


def test_layers_can_be_chosen():
    model = lora(model=make_model(), rank=2, alpha=4.0, target_modules=["q_proj"])

    trainable = [name for name, value in model.named_parameters() if value.requires_grad]

    assert len(trainable) == 2 * 2
    assert all("q_proj" in name for name in trainable)


def test_switched_off_the_base_model_speaks():
    model = make_model()
    before = model(IDS).logits
    lora(model=model, rank=2, alpha=4.0)
    disturb(model)
    adapted = model(IDS).logits

    with adapters_off(model):
        torch.testing.assert_close(model(IDS).logits, before)

    assert not torch.allclose(adapted, before)
    torch.testing.assert_close(model(IDS).logits, adapted)


def test_adapters_come_back_trainable_after_an_error():
    model = lora(model=make_model(), rank=2, alpha=4.0)
    count = sum(value.requires_grad for value in model.parameters())

    with pytest.raises(RuntimeError), adapters_off(model):
        raise RuntimeError

    assert sum(value.requires_grad for value in model.parameters()) == count
    disturb(model)
    with adapters_off(model):
        base = model(IDS).logits
    assert not torch.allclose(model(IDS).logits, base)


def test_construction_follows_the_global_seed():
    factors = []
    for _ in range(2):
        torch.manual_seed(3)
        model = lora(model=make_model(), rank=2, alpha=4.0)
        factors.append(next(v for name, v in model.named_parameters() if "lora_A" in name))

    assert torch.equal(*factors)


def test_a_model_knows_whether_it_has_adapters():
    model = make_model()

    assert not has_adapters(model)
    assert has_adapters(lora(model=model, rank=2, alpha=4.0))


def test_a_second_set_of_adapters_is_refused():
    model = lora(model=make_model(), rank=2, alpha=4.0)

    with pytest.raises(ConfigError, match="adapters already"):
        lora(model=model, rank=2, alpha=4.0)


def test_layers_that_are_not_there_are_refused():
    with pytest.raises(ConfigError, match=r"'q_projj'.*q_proj"):
        lora(model=make_model(), rank=2, alpha=4.0, target_modules=["q_projj"])


def test_releases_that_do_not_go_together_are_named(monkeypatch):
    model = make_model()

    def refuse(config):
        raise ValueError("a later PEFT is needed")

    monkeypatch.setattr(model, "add_adapter", refuse)

    with pytest.raises(ConfigError, match=r"peft \S+ and transformers \S+ .*a later PEFT"):
        lora(model=model, rank=2, alpha=4.0)


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings")
@pytest.mark.parametrize("layer", ["embed_tokens", "lm_head"])
def test_tied_weights_with_an_adapter_at_one_end_are_merged_apart(layer):
    model = tiny_model(character_tokenizer(characters="ab"), tie_word_embeddings=True)
    adapted = lora(model=model, rank=2, alpha=4.0, target_modules=[layer])
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.normal_()
        expected = adapted(IDS).logits

        merged = merge_adapters(adapted)
        torch.testing.assert_close(merged(IDS).logits, expected)
