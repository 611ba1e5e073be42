import copy
import pickle

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from rlcomp.batch import decode_texts
from rlcomp.component import limit_outputs
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.errors import ConfigError, DataError, NumericalError, UserError
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.text.answers import answer_prompts, encode_answers
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer

OWN, PACKED = Engine(forward="transformers"), Engine(forward="packed")
ARCHITECTURES = ["llama", "qwen2", "qwen3", "gpt2"]
PAD, EOS = 0, 1


def make_policy(characters="abc", **settings):
    """A tiny policy whose distributions are far from uniform."""
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2}
    sizes = {"hidden_size": 32, "intermediate_size": 48, "context_length": 24}
    return tiny_policy(characters, seed=5, scale=8.0, **heads, **sizes, **settings)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(policy, seed=0, count=6, width=9):
    """Random ragged rows whose response masks have holes; the last row has no response."""
    draw = generator(seed)
    tokens = torch.randint(len(policy.tokenizer), (count, width), generator=draw)
    lengths = torch.randint(4, width + 1, (count, 1), generator=draw)
    filled = torch.arange(width) < lengths
    mask = filled & (torch.arange(width) >= 2)
    mask &= torch.rand(count, width, generator=draw) < 0.7
    mask[-1] = False
    return make_batch(tokens=tokens, attention_mask=filled, response_mask=mask)


def tokens_read(policy):
    """A list that grows by the number of tokens of each forward pass."""
    seen = []
    policy.model.get_input_embeddings().register_forward_pre_hook(
        lambda _, given: seen.append(given[0].numel())
    )
    return seen


def one_by_one(policy, batch, temperature=1.0):
    """Log-probs by the textbook: each row alone, unpadded, plain forward and log_softmax.

    <pad> is never drawn; where a row holds it all the same, it is one of the choices.
    """
    result = torch.zeros(batch["tokens"].shape)
    for row in range(len(batch["tokens"])):
        length = int(batch["attention_mask"][row].sum())
        ids = batch["tokens"][row, :length]
        logits = policy.model(input_ids=ids[None]).logits[0] / temperature
        for t in range(1, length):
            if batch["response_mask"][row, t]:
                suppressed = (torch.arange(logits.shape[1]) == PAD) & (ids[t] != PAD)
                log_probs = logits[t - 1].masked_fill(suppressed, -torch.inf).log_softmax(-1)
                result[row, t] = log_probs[ids[t]]
    return result


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("engine", [OWN, PACKED])
def test_log_probs_are_those_of_a_plain_forward(architecture, temperature, engine):
    decoding = Decoding(temperature=temperature)
    policy = make_policy("abcdefgh", architecture=architecture, decoding=decoding, engine=engine)
    batch = rows(policy)

    expected = one_by_one(policy, batch, temperature)

    torch.testing.assert_close(policy(batch)["log_probs"], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(policy.log_probs(batch), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("engine", [OWN, PACKED])
def test_gradients_are_those_of_a_plain_forward(architecture, tie, engine):
    policy = make_policy(
        "abcdefgh", architecture=architecture, tie_word_embeddings=tie, engine=engine
    )
    batch = rows(policy)
    weights = torch.randn(batch["tokens"].shape, generator=generator(1))
    parameters = list(policy.model.parameters())

    ours = torch.autograd.grad((policy.log_probs(batch) * weights).sum(), parameters)
    plain = torch.autograd.grad((one_by_one(policy, batch) * weights).sum(), parameters)

    for left, right in zip(ours, plain, strict=True):
        # Relative to the largest entry: single entries cancel down to rounding.
        assert (left - right).abs().max() <= 1e-5 * right.abs().max()


def test_a_model_without_logits_to_keep_is_scored_alike():
    policy = make_policy(engine=OWN)
    batch = rows(policy)
    expected = policy.log_probs(batch)

    forward = policy.model.forward
    policy.model.forward = lambda input_ids, use_cache: forward(
        input_ids=input_ids, use_cache=use_cache
    )
    plain = LanguageModel(
        model=policy.model, tokenizer=policy.tokenizer, decoding=Decoding(), engine=OWN
    )

    torch.testing.assert_close(plain.log_probs(batch), expected)


@pytest.mark.parametrize("engine", [OWN, PACKED])
def test_garbage_in_padding_changes_nothing(engine):
    policy = make_policy(engine=engine)
    batch = rows(policy)
    expected = policy.log_probs(batch)

    garbage = torch.where(batch["attention_mask"], batch["tokens"], -12345)
    batch["tokens"] = garbage

    assert torch.equal(policy.log_probs(batch), expected)


def test_log_probs_and_entropy_are_zero_outside_the_response():
    policy = make_policy()
    result = policy(rows(policy))

    outside = ~result["response_mask"]
    assert (result["log_probs"][outside] == 0).all()
    assert (result["entropy"][outside] == 0).all()
    assert (result["entropy"][~outside] > 0).all()


def test_entropy_is_that_of_the_tempered_distribution():
    policy = make_policy(decoding=Decoding(temperature=2.0, top_k=2))
    batch = make_batch(
        tokens=[[2, 3, 4]],
        attention_mask=torch.ones(1, 3, dtype=torch.bool),
        response_mask=[[False, False, True]],
    )
    # The first id is <pad>, which cannot be drawn.
    logits = policy.model(input_ids=batch["tokens"]).logits[0, 1, 1:] / 2.0
    expected = torch.distributions.Categorical(logits=logits).entropy()

    torch.testing.assert_close(policy(batch)["entropy"][0, 2], expected)


@pytest.mark.parametrize("engine", [OWN, PACKED])
def test_a_batch_without_response_scores_zero_with_a_zero_gradient(engine):
    policy = make_policy(engine=engine)
    batch = rows(policy)
    batch["response_mask"] = torch.zeros_like(batch["response_mask"])

    log_probs = policy.log_probs(batch)
    log_probs.sum().backward()

    assert not log_probs.any()
    assert all(not parameter.grad.any() for parameter in policy.model.parameters())


@pytest.mark.parametrize("engine", [OWN, PACKED])
def test_the_first_token_has_no_log_prob(engine):
    policy = make_policy(engine=engine)
    batch = rows(policy)
    expected = policy.log_probs(batch)
    batch["response_mask"] = batch["response_mask"].clone()
    batch["response_mask"][:, 0] = True

    assert torch.equal(policy.log_probs(batch), expected)


def test_entropy_carries_a_graph_only_when_asked_for():
    policy = make_policy()

    with limit_outputs(["log_probs"]):
        silent = policy(rows(policy))
    with limit_outputs(["log_probs", "entropy"]):
        asked_for = policy(rows(policy))

    assert (silent["entropy"].requires_grad, silent["log_probs"].requires_grad) == (False, True)
    assert asked_for["entropy"].requires_grad
    assert torch.equal(silent["entropy"], asked_for["entropy"])


@pytest.mark.parametrize("engine", [OWN, PACKED])
def test_weights_handed_over_replace_the_models_own(engine):
    policy, other = make_policy(engine=engine), make_policy(engine=engine)
    with torch.no_grad():
        for parameter in other.model.parameters():
            parameter.add_(0.1)
    batch = rows(policy)

    swapped = policy.log_probs(batch, dict(other.model.named_parameters()))

    torch.testing.assert_close(swapped, other.log_probs(batch))


def test_recorded_experts_are_taken_with_its_own_weights_only():
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2}
    settings = {"architecture": "mixtral", "overrides": experts}
    policy = make_policy(decoding=Decoding(keep_routing="rollout"), **settings)
    free = make_policy(**settings)
    with torch.no_grad():
        for weight in [*policy.model.parameters(), *free.model.parameters()]:
            if weight.ndim == 3:  # the experts', small as they are made
                weight.mul_(8)
    batch, width = rows(policy), 9
    batch["routed_experts"] = torch.arange(2, dtype=torch.uint8).expand(6, width, 2, 2).contiguous()
    weights = {name: value.detach().clone() for name, value in policy.weights().items()}

    chosen = free.log_probs(batch)

    torch.testing.assert_close(policy.log_probs(batch, weights), chosen)
    assert (policy.log_probs(batch) - chosen).abs().max() > 0.1


def test_the_model_is_and_stays_in_eval_mode():
    made = make_policy()
    policy = LanguageModel(model=made.model.train(), tokenizer=made.tokenizer, decoding=Decoding())
    assert not policy.model.training

    torch.nn.ModuleList([policy]).train()

    assert policy.training
    assert not policy.model.training


def test_a_greedy_policy_is_not_trained_in_silence():
    policy = make_policy(decoding=Decoding(temperature=0))
    batch = rows(policy)

    with pytest.raises(ConfigError, match=r"decoding\.temperature is 0"):
        policy(batch)
    with torch.no_grad():
        assert not policy(batch)["log_probs"].any()


def test_rows_stand_prompt_by_prompt():
    policy = make_policy()

    batch = answer_prompts(
        policy, ["a", "bc"], group_size=3, max_new_tokens=4, generator=generator()
    )

    assert batch.batch_size == torch.Size([6])
    assert batch["group_id"].tolist() == [0, 0, 0, 1, 1, 1]
    assert decode_texts(batch["prompt"]) == ["a"] * 3 + ["bc"] * 3
    assert batch["tokens"][:3, 0].tolist() == [2, 2, 2]
    assert batch["tokens"][3:, :2].tolist() == [[3, 4]] * 3


def test_masks_mark_prompt_response_and_padding():
    policy = make_policy()

    batch = answer_prompts(
        policy, ["a", "bcb"], group_size=8, max_new_tokens=6, generator=generator()
    )
    lengths = batch["attention_mask"].sum(1)
    starts = torch.tensor([1] * 8 + [3] * 8)
    column = torch.arange(batch["tokens"].shape[1])

    assert torch.equal(batch["attention_mask"], column < lengths[:, None])
    assert torch.equal(
        batch["response_mask"], batch["attention_mask"] & (column >= starts[:, None])
    )
    assert (batch["tokens"][~batch["attention_mask"]] == PAD).all()


@pytest.mark.parametrize("pad_is_eos", [False, True])
def test_eos_is_a_sampled_action_and_nothing_follows_it(pad_is_eos):
    policy = make_policy("a")
    if pad_is_eos:
        policy.tokenizer.pad_token = policy.tokenizer.eos_token

    batch = answer_prompts(policy, ["a"], group_size=64, max_new_tokens=5, generator=generator())
    ended = ~batch["truncated"]
    last = batch["attention_mask"].sum(1) - 1
    at_end = torch.arange(64), last

    assert 0 < ended.sum() < 64
    assert torch.equal(batch["tokens"][at_end] == EOS, ended)
    assert batch["response_mask"][at_end].all()
    assert (batch["rollout_log_probs"][at_end][ended] < 0).all()
    before = batch["response_mask"].clone()
    before[at_end] = False
    assert (batch["tokens"][before] != EOS).all()
    assert (batch["response_mask"].sum(1)[~ended] == 5).all()


def test_the_first_sampled_token_has_its_log_prob():
    policy = make_policy()

    batch = answer_prompts(policy, ["ab"], group_size=4, max_new_tokens=3, generator=generator())

    # The first id is <pad>, which cannot be drawn.
    logits = policy.model(input_ids=torch.tensor([[2, 3]])).logits[0, -1, 1:]
    expected = logits.log_softmax(-1)[batch["tokens"][:, 2] - 1]
    torch.testing.assert_close(batch["rollout_log_probs"][:, 2], expected)


def test_recorded_log_probs_know_the_temperature():
    policy = make_policy(decoding=Decoding(temperature=0.3))

    batch = answer_prompts(policy, ["ab"], group_size=8, max_new_tokens=4, generator=generator())

    cold = one_by_one(policy, batch, 0.3)
    torch.testing.assert_close(batch["rollout_log_probs"], cold, atol=1e-5, rtol=1e-5)
    assert (cold - one_by_one(policy, batch, 1.0)).abs().max() > 0.1


def test_the_pad_token_is_never_an_answer():
    policy = make_policy("a")

    batch = answer_prompts(policy, ["a"], group_size=64, max_new_tokens=5, generator=generator())

    inside = batch["tokens"][batch["response_mask"]]
    assert set(inside.tolist()) == {EOS, 2}
    # Two choices are left, and their probabilities add up to 1.
    sampled = zip(batch["tokens"][:, 1], batch["rollout_log_probs"][:, 1], strict=True)
    first = {int(token): log_prob.exp() for token, log_prob in sampled}
    assert sum(first.values()) == pytest.approx(1.0, abs=1e-6)


def test_ids_without_a_token_are_never_sampled_and_scored_alike():
    # 6 tokens, <pad> and <eos> among them, in a vocabulary of 40.
    policy = make_policy("abcd", vocab_size=40)

    batch = answer_prompts(policy, ["a"], group_size=64, max_new_tokens=5, generator=generator())

    assert int(batch["tokens"].max()) < 6
    torch.testing.assert_close(
        policy.log_probs(batch), batch["rollout_log_probs"], atol=1e-5, rtol=0
    )


def test_a_given_pad_token_has_a_finite_log_prob():
    policy = make_policy()
    batch = encode_answers(policy, ["a"], ["b"])
    batch["tokens"] = torch.tensor([[2, PAD, EOS]])

    assert policy.log_probs(batch)[0, 1] < 0
    assert policy.log_probs(batch).isfinite().all()


def test_responses_are_texts_without_special_tokens():
    policy = make_policy("ab")

    batch = answer_prompts(policy, ["a"], group_size=16, max_new_tokens=4, generator=generator())

    for row, text in enumerate(decode_texts(batch["response"])):
        ids = batch["tokens"][row][batch["response_mask"][row]].tolist()
        assert text == "".join("ab"[i - 2] for i in ids if i > EOS)


def test_the_same_generator_gives_the_same_rows():
    policy = make_policy()
    ask = {"group_size": 5, "max_new_tokens": 4}

    first = answer_prompts(policy, ["a"], generator=generator(3), **ask)
    second = answer_prompts(policy, ["a"], generator=generator(3), **ask)

    assert torch.equal(first["tokens"], second["tokens"])


def test_sampling_can_be_overridden_per_call():
    policy = make_policy()

    batch = answer_prompts(
        policy,
        ["a"],
        group_size=8,
        max_new_tokens=3,
        decoding=Decoding(temperature=0),
        generator=generator(),
    )

    assert (batch["tokens"] == batch["tokens"][0]).all()
    assert not batch["rollout_log_probs"].any()


@pytest.mark.parametrize("engine", [OWN, PACKED])
def test_a_prompt_is_read_once_per_group(engine):
    policy = make_policy(engine=engine)
    seen = tokens_read(policy)

    answer_prompts(policy, ["ab", "bc"], group_size=8, max_new_tokens=3, generator=generator())

    # Two prompts of two tokens, then at most one token of each of 16 rows.
    assert seen[0] == 4
    assert len(seen) == 3
    assert max(seen[1:]) <= 16


@pytest.mark.parametrize("engine", [OWN, PACKED])
def test_generation_stops_when_every_row_has_ended(engine):
    policy = make_policy("a", engine=engine)
    seen = tokens_read(policy)

    batch = answer_prompts(policy, ["a"], group_size=1, max_new_tokens=20, generator=generator(1))

    assert not batch["truncated"].item()
    assert len(seen) == int(batch["response_mask"].sum()) < 20


def test_the_version_of_the_policy_is_noted_at_its_tokens():
    policy = make_policy()

    for _ in range(7):
        policy.updated()
    batch = answer_prompts(policy, ["a"], group_size=4, max_new_tokens=3, generator=generator())

    assert torch.equal(batch["policy_version"], 7 * batch["response_mask"].long())


def test_generation_has_no_gradient():
    policy = make_policy()

    batch = answer_prompts(policy, ["a"], group_size=2, max_new_tokens=3, generator=generator())

    assert not batch["rollout_log_probs"].requires_grad
    policy.log_probs(batch).sum().backward()


def test_an_empty_prompt_starts_from_eos():
    policy = make_policy()

    batch = answer_prompts(
        policy, ["", "ab"], group_size=2, max_new_tokens=2, generator=generator()
    )

    assert batch["tokens"][:2, 0].tolist() == [EOS, EOS]
    assert batch["response_mask"][:, 0].tolist() == [False] * 4


def test_a_prompt_beyond_the_context_is_named():
    policy = make_policy()

    with pytest.raises(DataError, match=r"prompt 'abab.*' has 20 tokens; with 5 more that is 25"):
        answer_prompts(
            policy, ["a", "ab" * 10], group_size=1, max_new_tokens=5, generator=generator()
        )


def test_the_whole_context_can_be_used():
    policy = make_policy()

    batch = answer_prompts(
        policy, ["ab" * 10], group_size=2, max_new_tokens=4, generator=generator()
    )

    assert policy.log_probs(batch).isfinite().all()


def test_characters_outside_the_alphabet_are_named():
    policy = make_policy()

    with pytest.raises(DataError, match="no token for 'z'"):
        answer_prompts(policy, ["az"], group_size=1, max_new_tokens=1, generator=generator())
    with pytest.raises(DataError, match="no token for 'z'"):
        encode_answers(policy, ["a"], ["z"])


def test_no_prompts_are_refused():
    with pytest.raises(DataError, match="no prompts"):
        answer_prompts(make_policy(), [], group_size=1, max_new_tokens=1, generator=generator())


def test_a_tokenizer_without_eos_is_refused():
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0})))
    policy = make_policy()

    with pytest.raises(ConfigError, match="no EOS token"):
        LanguageModel(model=policy.model, tokenizer=tokenizer, decoding=Decoding())


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused():
    larger = character_tokenizer(characters="abcd")

    with pytest.raises(ConfigError, match="policy: vocab_size is 5, but the tokenizer has 6"):
        LanguageModel(model=make_policy().model, tokenizer=larger, decoding=Decoding())


def test_a_model_that_is_not_finite_stops_the_run():
    policy = make_policy()
    with torch.no_grad():
        policy.model.lm_head.weight.fill_(torch.nan)

    with pytest.raises(NumericalError, match="not finite"):
        answer_prompts(policy, ["a"], group_size=1, max_new_tokens=2, generator=generator())


def test_given_answers_become_rows_that_end_in_eos():
    policy = make_policy()

    batch = encode_answers(policy, ["a", "abc"], ["bc", ""])

    assert batch["tokens"].tolist() == [[2, 3, 4, EOS], [2, 3, 4, EOS]]
    assert batch["attention_mask"].all()
    assert batch["response_mask"].int().tolist() == [[0, 1, 1, 1], [0, 0, 0, 1]]


def test_given_answers_of_unequal_length_are_padded():
    policy = make_policy(tokenizer=byte_tokenizer())

    batch = encode_answers(policy, ["a", ""], ["é", "b"])

    assert batch["attention_mask"].sum(1).tolist() == [4, 3]
    assert batch["response_mask"].sum(1).tolist() == [3, 2]
    assert batch["tokens"][1, 0] == EOS


def test_a_given_answer_beyond_the_context_is_refused():
    with pytest.raises(DataError, match="the limit is 24"):
        encode_answers(make_policy(), ["a"], ["b" * 23])


def test_an_encoded_response_scores_as_it_was_sampled():
    policy = make_policy("abcdefgh")
    sampled = answer_prompts(policy, ["ab"], group_size=32, max_new_tokens=6, generator=generator())
    whole = ~sampled["truncated"]
    assert whole.any()
    sampled = sampled[whole]

    batch = encode_answers(
        policy, decode_texts(sampled["prompt"]), decode_texts(sampled["response"])
    )

    width = batch["tokens"].shape[1]
    torch.testing.assert_close(
        policy.log_probs(batch), sampled["rollout_log_probs"][:, :width], atol=1e-5, rtol=1e-5
    )


def bos_tokenizer():
    """<s> 0, </s> 1, a 2, b 3; puts <s> in front of a text."""
    backend = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "a": 2, "b": 3}))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )


def test_prompts_start_with_bos_in_generation_and_in_given_rows():
    policy = make_policy(tokenizer=bos_tokenizer())

    sampled = answer_prompts(policy, ["ab"], group_size=1, max_new_tokens=1, generator=generator())
    given = encode_answers(policy, ["ab"], ["b"])

    assert sampled["tokens"][0, :3].tolist() == [0, 2, 3]
    assert given["tokens"].tolist() == [[0, 2, 3, 3, 1]]
    assert given["response_mask"].int().tolist() == [[0, 0, 0, 1, 1]]


@pytest.mark.parametrize(("group_size", "max_new_tokens"), [(0, 1), (1, 0), (-1, 1)])
def test_nothing_to_generate_is_refused(group_size, max_new_tokens):
    name, value = ("group_size", group_size) if group_size < 1 else ("max_new_tokens", 0)

    with pytest.raises(ConfigError, match=f"{name} is {value}: .* at least 1"):
        answer_prompts(
            make_policy(),
            ["a"],
            group_size=group_size,
            max_new_tokens=max_new_tokens,
            generator=generator(),
        )


def test_only_the_last_column_of_a_prompt_gets_logits():
    policy = make_policy(engine=OWN)
    widths = []
    policy.model.lm_head.register_forward_hook(lambda _, __, out: widths.append(out.shape[1]))

    answer_prompts(policy, ["abcabc"], group_size=2, max_new_tokens=2, generator=generator())

    assert widths == [1, 1]


@pytest.mark.parametrize("engine", [OWN, PACKED])
def test_without_gradient_rows_are_read_in_pieces_that_fit(monkeypatch, engine):
    policy = make_policy("abcdefgh", engine=engine)
    batch = rows(policy, count=12)
    with torch.enable_grad():
        expected = policy.log_probs(batch).detach()
    seen = tokens_read(policy)
    monkeypatch.setattr("rlcomp.model.causal_forward._NO_GRAD_TOKENS", 16)

    with torch.no_grad():
        scored = policy.log_probs(batch)

    torch.testing.assert_close(scored, expected, atol=1e-5, rtol=0)
    assert len(seen) > 2
    assert all(count <= 16 for count in seen)


@pytest.mark.parametrize("engine", [OWN, PACKED])
def test_a_row_beyond_the_budget_is_read_alone(monkeypatch, engine):
    policy = make_policy(engine=engine)
    batch = encode_answers(policy, ["a", "a"], ["abcabc", "b"])
    expected = policy.log_probs(batch).detach()
    seen = tokens_read(policy)
    monkeypatch.setattr("rlcomp.model.causal_forward._NO_GRAD_TOKENS", 2)

    with torch.no_grad():
        torch.testing.assert_close(policy.log_probs(batch), expected, atol=1e-5, rtol=0)

    # Each row is read up to the token before its last: <a, 6 letters> and <a, b>.
    assert sorted(seen) == [2, 7]


def test_large_vocabularies_count_in_the_budget(monkeypatch):
    policy = make_policy(engine=OWN)
    batch = rows(policy)
    seen = tokens_read(policy)
    # 5 ids: room for 10 tokens at a time, and 6 rows of up to 9.
    monkeypatch.setattr("rlcomp.model.causal_forward._NO_GRAD_LOGITS", 50)

    with torch.no_grad():
        policy.log_probs(batch)

    assert len(seen) >= 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_copy_is_the_same_policy_with_weights_of_its_own(copied):
    policy = make_policy()
    batch = rows(policy)
    expected = policy.log_probs(batch)

    twin = copied(policy)
    with torch.no_grad():
        policy.model.lm_head.weight.zero_()

    assert torch.equal(twin.log_probs(batch), expected)
    ask = {"group_size": 2, "max_new_tokens": 3}
    answer_prompts(twin, ["a"], generator=generator(), **ask)


def test_scoring_leaves_the_inputs_alone():
    policy = make_policy()
    batch = rows(policy)
    before = copy.deepcopy(batch)

    policy(batch)

    assert all(torch.equal(batch[key], before[key]) for key in before.sorted_keys)


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        (["a"], "generate takes token ids"),
        ([1, 2], "a list of token ids for each prompt"),
        (torch.zeros(1, 2, dtype=torch.int64), "a list of token ids for each prompt"),
        ([[2], []], "a prompt has no tokens: .*at least one token"),
        ([[2, 200]], "token id 200, .*policy's 0 to 4"),
        ([[-2]], "token id -2, .*policy's 0 to 4"),
    ],
)
def test_prompts_that_are_no_lists_of_known_ids_are_refused(prompts, words):
    with pytest.raises(UserError, match=words):
        make_policy().generate(prompts, group_size=1, max_new_tokens=1, generator=generator())
