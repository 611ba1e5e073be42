"""An exported folder generates, in transformers alone, what the policy generates."""

import pytest
import torch
from tensordict import TensorDict
from transformers import (
    AutoModelForCausalLM,
    AutoModelForTokenClassification,
    AutoTokenizer,
    GenerationConfig,
)

from components.reward.reward_model import LearnedReward
from rlcomp.batch import encode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.model.adapters import lora
from rlcomp.model.critics import Critic
from rlcomp.model.export import export_critic, export_policy, export_scorer
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.load_model import pretrained_model, pretrained_tokenizer
from rlcomp.model.preference_embedding import conditioned
from rlcomp.model.scorer import Scorer
from rlcomp.testing import tiny_model
from rlcomp.text.answers import answer_prompts
from rlcomp.text.preference_tokens import preference_tokenizer
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abc")
PROMPTS = ["a", "abbacab", "ba"]
SIZES = {"num_hidden_layers": 2, "context_length": 32}
# Architectures that people use, and what a small one of them needs.
OF = {
    "gpt2": {},
    "gpt_neox": {},
    "llama": {},
    "smollm3": {},
    "qwen2": {},
    "qwen3": {},
    "mistral": {"sliding_window": 4},
    "gemma2": {"sliding_window": 4},
    "gemma3_text": {"sliding_window": 4},
    "phi3": {"sliding_window": 4},
    "olmo": {},
    "olmo2": {},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
}


def sharpened(model):
    """With larger weights, so that greedy choices are clear and rows differ."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(4.0)
    return model


def made(architecture="qwen2", *, adapted=False, tokenizer=TOKENIZER, decoding=None, **more):
    model = tiny_model(
        tokenizer, seed=3, architecture=architecture, overrides=OF[architecture], **SIZES | more
    )
    sharpened(model)
    if adapted:
        lora(model=model, rank=2, alpha=4.0)
        torch.manual_seed(1)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_()
    return LanguageModel(model=model, tokenizer=tokenizer, decoding=decoding or Decoding())


def greedy(policy):
    rows = answer_prompts(
        policy,
        PROMPTS,
        group_size=1,
        max_new_tokens=12,
        decoding=Decoding(temperature=0),
        generator=torch.Generator().manual_seed(0),
    )
    return [
        tokens[mask].tolist()
        for tokens, mask in zip(rows["tokens"], rows["response_mask"], strict=True)
    ]


def generated(folder, **own):
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        whole = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12, **own
        )
        found.append(whole[0, ids.shape[1] :].tolist())
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("architecture", OF)
def test_transformers_generates_what_the_policy_does(architecture, tied, tmp_path):
    policy = made(architecture, tie_word_embeddings=tied)
    ours = greedy(policy)

    export_policy(policy, tmp_path, merge=False, base_model=None)

    assert generated(tmp_path) == ours
    back = pretrained_model(
        path=str(tmp_path), tokenizer=pretrained_tokenizer(path=str(tmp_path)), context_length=32
    )
    ids = torch.tensor([[2, 3, 4, 2, 2, 3]])
    with torch.no_grad():
        torch.testing.assert_close(back(ids).logits, policy.model(ids).logits)
    shared = back.get_output_embeddings().weight is back.get_input_embeddings().weight
    assert shared == tied


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("architecture", ["qwen2", "gpt2", "gpt_neox", "qwen3_moe"])
def test_merged_adapters_are_in_the_weights(architecture, tied, tmp_path):
    policy = made(architecture, adapted=True, tie_word_embeddings=tied)
    ours = greedy(policy)
    assert ours != greedy(made(architecture, tie_word_embeddings=tied))

    export_policy(policy, tmp_path, merge=True, base_model=None)

    assert generated(tmp_path) == ours
    assert not (tmp_path / "adapter_config.json").exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_adapters_alone_go_onto_the_model_that_they_name(architecture, tmp_path):
    base = made(architecture)
    base.model.save_pretrained(tmp_path / "base")
    policy = made(architecture, adapted=True)
    ours = greedy(policy)

    export_policy(policy, tmp_path / "adapters", merge=False, base_model=str(tmp_path / "base"))

    # With adapters alone transformers takes the generation config of their model.
    own = GenerationConfig.from_pretrained(tmp_path / "adapters")
    assert generated(tmp_path / "adapters", generation_config=own) == ours
    assert not (tmp_path / "adapters" / "model.safetensors").exists()


def test_adapters_of_a_model_that_nobody_has_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"their base model .*--merge"):
        export_policy(made(adapted=True), tmp_path, merge=False, base_model=None)
    assert list(tmp_path.iterdir()) == []


def test_a_policy_that_reads_preferences_is_refused(tmp_path):
    characters = character_tokenizer(characters="abc")  # which is changed
    tokenizer = preference_tokenizer(tokenizer=characters, num_objectives=2, levels=2)
    model = conditioned(model=tiny_model(tokenizer), tokenizer=tokenizer)
    policy = LanguageModel(model=model, tokenizer=tokenizer, decoding=Decoding())

    with pytest.raises(ConfigError, match=r"preferences .* use rlcomp-sample"):
        export_policy(policy, tmp_path, merge=False, base_model=None)


def test_the_generation_config_tells_how_it_was_sampled(tmp_path):
    decoding = Decoding(temperature=0.7, top_k=3, top_p=0.9, min_p=0.05)
    policy = made(decoding=decoding, vocab_size=8)  # <pad> 0, <eos> 1, a, b, c, and three of none
    policy.generation.stops = [1, 4]

    export_policy(policy, tmp_path, merge=False, base_model=None)

    told = GenerationConfig.from_pretrained(tmp_path)
    assert (told.do_sample, told.temperature, told.top_k, told.top_p) == (True, 0.7, 3, 0.9)
    assert told.min_p == 0.05
    assert told.eos_token_id == [1, 4]
    assert told.pad_token_id == 0
    assert told.suppress_tokens == [0, 5, 6, 7]


def test_greedy_decoding_is_told_as_such(tmp_path):
    export_policy(made(decoding=Decoding(temperature=0)), tmp_path, merge=False, base_model=None)

    told = GenerationConfig.from_pretrained(tmp_path)
    assert told.do_sample is False
    assert told.temperature in (None, 1.0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("architecture", ["qwen2", "llama", "gpt2", "mistral", "gpt_neox"])
def test_a_critic_is_a_token_classifier(architecture, tmp_path):
    critic = Critic(model=made(architecture).model)
    torch.manual_seed(2)
    with torch.no_grad():
        critic.value_head.weight.normal_()
        critic.value_head.bias.fill_(0.5)
    batch = encode_rows(TOKENIZER, ["ab", "c"], ["cab", "a"])
    values = critic.values(batch).detach()

    export_critic(critic, TOKENIZER, tmp_path)

    model = AutoModelForTokenClassification.from_pretrained(tmp_path)
    assert model.config.num_labels == 1
    for tokens, filled, mask, value in zip(
        batch["tokens"], batch["attention_mask"], batch["response_mask"], values, strict=True
    ):
        with torch.no_grad():
            read = model(tokens[filled][None]).logits[0, :, 0]
        at = mask.nonzero().flatten()
        torch.testing.assert_close(read[at - 1], value[at], atol=1e-5, rtol=1e-5)


def test_critics_that_transformers_cannot_read_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="no token classifier of the architecture 'olmo2'"):
        export_critic(Critic(model=made("olmo2").model), TOKENIZER, tmp_path)
    with pytest.raises(ConfigError, match="the critic has adapters: export"):
        export_critic(Critic(model=made(adapted=True).model), TOKENIZER, tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "architecture", ["qwen2", "llama", "gpt2", "mistral", "gpt_neox", "gemma2"]
)
def test_a_reward_model_is_a_sequence_classifier_of_the_same_scores(architecture, tmp_path):
    scorer = Scorer(policy=made(architecture))
    prompts, responses = ["ab", "c", "b"], ["cab", "a", ""]
    scores = scorer.scores(encode_rows(TOKENIZER, prompts, responses)).detach()

    export_scorer(scorer, tmp_path)

    texts = {"prompt": encode_texts(prompts), "response": encode_texts(responses)}
    found = LearnedReward(path=str(tmp_path))(TensorDict(texts, batch_size=[3]))
    torch.testing.assert_close(found["reward"], scores, atol=1e-5, rtol=1e-5)


def test_reward_models_that_transformers_cannot_read_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="no sequence classifier of the architecture 'olmoe'"):
        export_scorer(Scorer(policy=made("olmoe")), tmp_path)
    with pytest.raises(ConfigError, match="the reward model has adapters: export"):
        export_scorer(Scorer(policy=made(adapted=True)), tmp_path)
