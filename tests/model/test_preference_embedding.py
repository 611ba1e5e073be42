"""A model that reads preferences: through a linear map, by every way it can be computed."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from components.conditioning import TokenPrefix
from components.objectives import MultiObjectiveReward
from components.pareto.scalarisation import LinearScalarisation
from components.reward.surface import Brevity
from components.worlds.sorting.task import Sorting
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.errors import ConfigError, DataError
from rlcomp.model.adapters import lora
from rlcomp.model.build import load_causal_lm
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.preference_embedding import PreferenceEmbedding, conditioned
from rlcomp.testing import tiny_model
from rlcomp.text.answers import answer_prompts, encode_answers
from rlcomp.text.preference_tokens import preference_points, preference_tokenizer
from rlcomp.text.tokenizer import character_tokenizer, encode_prompts, suppressed_token_mask

PACKED, OWN = Engine(forward="packed", linear="torch"), Engine(forward="transformers")
ASKED = ["<preference:3:1>ab", "<preference:0:4>ab", "<preference:3:1>ab", "abc"]


def make_tokenizer(levels=4):
    tokenizer = character_tokenizer(characters="abcdef")
    return preference_tokenizer(tokenizer=tokenizer, num_objectives=2, levels=levels)


TOKENIZER = make_tokenizer()


@pytest.fixture(autouse=True)
def norms_in_full_precision(monkeypatch):
    """Norms of transformers are float32 in any model; as they are, float64 stops at 1e-7."""

    def forward(self, x):
        return self.weight * F.rms_norm(x, x.shape[-1:], eps=self.variance_epsilon)

    for kind in (LlamaRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm):
        monkeypatch.setattr(kind, "forward", forward)


def plain_model(architecture="qwen2", *, tie=False):
    sizes = {"num_hidden_layers": 2, "context_length": 32, "tie_word_embeddings": tie}
    model = tiny_model(TOKENIZER, seed=5, architecture=architecture, **sizes).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def make_policy(engine=PACKED, decoding=None, **model):
    made = conditioned(model=plain_model(**model), tokenizer=TOKENIZER)
    decoding = decoding or Decoding()
    return LanguageModel(model=made, tokenizer=TOKENIZER, decoding=decoding, engine=engine)


def table(policy):
    return policy.model.get_input_embeddings()


def rows(policy):
    return encode_answers(policy, ASKED, ["ab", "ab", "cdef", "f"])


@torch.no_grad()
def logits(policy, text):
    return policy.model(input_ids=torch.tensor(encode_prompts(TOKENIZER, [text]))).logits[0, -1]


def test_a_preference_is_one_token_behind_the_alphabet():
    # <pad>, <eos>, six letters; the points of the lattice follow.
    assert encode_prompts(TOKENIZER, ["<preference:1:3>ab"]) == [[11, 2, 3]]
    assert preference_points(TOKENIZER) == {
        8: (4, 0),
        9: (3, 1),
        10: (2, 2),
        11: (1, 3),
        12: (0, 4),
    }


def test_a_tokenizer_gets_preferences_once():
    with pytest.raises(ConfigError, match="already"):
        preference_tokenizer(tokenizer=make_tokenizer(), num_objectives=2, levels=4)


def test_the_embedding_of_a_preference_is_linear_in_it():
    embedding = table(make_policy())

    found = embedding(torch.tensor([[8, 12], [9, 3]]))

    first, last = embedding.preference_map.unbind(1)
    torch.testing.assert_close(found[0], torch.stack([first, last]))
    torch.testing.assert_close(found[1, 0], 0.75 * first + 0.25 * last)
    assert torch.equal(found[1, 1], embedding.weight[3])


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "llama", "gpt2"])
def test_our_own_pass_gives_the_values_and_gradients_of_transformers(architecture, tie):
    # The norm and attention kernels sum in another order.
    results = []
    for engine in (PACKED, OWN):
        policy = make_policy(engine, architecture=architecture, tie=tie)
        scored = policy(rows(policy))
        (scored["log_probs"].sum() + scored["entropy"].square().sum()).backward()
        grads = {name: p.grad for name, p in policy.model.named_parameters()}
        results.append((scored["log_probs"].detach(), scored["entropy"].detach(), grads))

    ours, theirs = results
    torch.testing.assert_close(ours[0], theirs[0])
    torch.testing.assert_close(ours[1], theirs[1])
    assert ours[2].keys() == theirs[2].keys()
    for name, grad in theirs[2].items():
        torch.testing.assert_close(ours[2][name], grad, msg=name)


def test_the_gradient_reaches_the_map_and_never_the_rows_it_replaces():
    policy = make_policy()
    policy.log_probs(rows(policy)).sum().backward()
    embedding = table(policy)

    assert bool((embedding.preference_map.grad.abs() > 1e-6).any(0).all())
    assert not bool(embedding.weight.grad[8:].any())
    assert bool(embedding.weight.grad[2:4].any())


def test_the_gradient_of_the_map_is_that_of_finite_differences():
    policy = make_policy()
    batch, weight = rows(policy), table(policy).preference_map
    policy.log_probs(batch).sum().backward()
    step = torch.zeros_like(weight)
    step[3, 1] = 1e-6

    with torch.no_grad():
        weight += step
        above = policy.log_probs(batch).sum()
        weight -= 2 * step
        below = policy.log_probs(batch).sum()

    # Central differences of step 1e-6 lose about 1e-8 in float64.
    assert float(weight.grad[3, 1]) == pytest.approx(float((above - below) / 2e-6), abs=1e-6)


def test_two_preferences_give_two_distributions():
    policy = make_policy()

    one, other = logits(policy, ASKED[0]), logits(policy, ASKED[1])

    assert float((one.softmax(0) - other.softmax(0)).abs().max()) > 1e-3


def test_preferences_are_read_and_never_written():
    suppressed = suppressed_token_mask(TOKENIZER, 14)
    assert suppressed.tolist() == [True, *[False] * 7, *[True] * 5, True]
    policy = make_policy(decoding=Decoding(temperature=5.0))

    batch = answer_prompts(
        policy, ASKED, group_size=20, max_new_tokens=8, generator=torch.Generator().manual_seed(0)
    )
    distribution = policy.log_distribution(batch)[batch["response_mask"]].exp()

    assert int(batch["tokens"][batch["response_mask"]].max()) < 8
    assert not bool(distribution[:, 8:].any())
    torch.testing.assert_close(distribution.sum(1), torch.ones(len(distribution)).double())


@pytest.mark.parametrize("tie", [False, True])
def test_our_own_decoding_answers_as_that_of_transformers(tie):
    ours, theirs = (
        answer_prompts(
            make_policy(engine, tie=tie),
            ASKED,
            group_size=5,
            max_new_tokens=8,
            generator=torch.Generator().manual_seed(3),
        )
        for engine in (PACKED, OWN)
    )

    assert torch.equal(ours["tokens"], theirs["tokens"])
    torch.testing.assert_close(ours["rollout_log_probs"], theirs["rollout_log_probs"])


def test_what_was_sampled_is_scored_the_same():
    policy = make_policy()

    batch = answer_prompts(
        policy, ASKED, group_size=5, max_new_tokens=8, generator=torch.Generator().manual_seed(3)
    )

    torch.testing.assert_close(policy.log_probs(batch), batch["rollout_log_probs"])


def test_tied_embeddings_stay_tied():
    model = make_policy(tie=True).model

    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_a_checkpoint_holds_the_map(tmp_path):
    saved, fresh = make_policy(), make_policy()
    with torch.no_grad():
        table(saved).preference_map += 1.0
    place = {"phase": 0, "step": 1, "total": 1, "trackers": {}}
    Checkpoint(directory=str(tmp_path), keep=1).save({"policy": saved}, place)

    Checkpoint(directory=str(tmp_path), keep=1).newest().restore({"policy": fresh})

    assert torch.equal(table(fresh).preference_map, table(saved).preference_map)
    assert torch.equal(logits(fresh, ASKED[0]), logits(saved, ASKED[0]))


def test_around_adapters_the_map_is_trained_with_them():
    model = lora(model=plain_model(), rank=2, alpha=4.0)

    trainable = [n for n, p in conditioned(model=model, tokenizer=TOKENIZER).named_parameters()
                 if p.requires_grad]  # fmt: skip

    assert [name for name in trainable if "lora_" not in name] == [
        "model.embed_tokens.preference_map"
    ]
    assert len(trainable) > 1


def test_the_map_is_drawn_as_large_as_the_other_embeddings():
    torch.manual_seed(0)
    plain = nn.Embedding(50, 400, _weight=torch.randn(50, 400) * 0.02)

    made = PreferenceEmbedding(plain, {48: (1, 0), 49: (0, 1)})

    # The std of 800 draws is off by 2.5 %, one standard error.
    assert float(made.preference_map.detach().std()) == pytest.approx(0.02, rel=0.15)


def test_construction_follows_the_global_seed():
    one, other = make_policy(), make_policy()

    assert torch.equal(table(one).preference_map, table(other).preference_map)
    assert float(table(one).preference_map.detach().std()) > 0


def test_a_tokenizer_without_preferences_is_refused():
    with pytest.raises(ConfigError, match="tokenizer=character_preference"):
        conditioned(model=plain_model(), tokenizer=character_tokenizer(characters="ab"))


def test_a_model_reads_preferences_once():
    with pytest.raises(ConfigError, match="wrap it once"):
        conditioned(model=make_policy().model, tokenizer=TOKENIZER)


def test_a_vocabulary_without_room_is_refused():
    with pytest.raises(ConfigError, match="vocab_size"):
        conditioned(model=plain_model(), tokenizer=make_tokenizer(levels=5))


def test_other_embeddings_share_the_weight_of_the_table():
    plain = nn.Embedding(4, 3)

    made = PreferenceEmbedding(plain, {3: (1, 1)})

    assert made.weight is plain.weight
    assert torch.equal(made(torch.tensor([0, 2])), plain(torch.tensor([0, 2])))


def stage(tokenizer=TOKENIZER, others=("b",), context_length=16):
    parts = {name: Brevity(longest=4) for name in others}
    return TokenPrefix(
        objectives=MultiObjectiveReward(
            parts=parts, aggregator=LinearScalarisation(weights=None), first="a"
        ),
        task=Sorting(length=1),
        tokenizer=tokenizer,
        context_length=context_length,
        max_new_tokens=4,
    )


def test_the_stage_asks_with_the_tokens_of_the_tokenizer():
    tokenizer = preference_tokenizer(
        tokenizer=character_tokenizer(characters="0123456789>"), num_objectives=2, levels=4
    )

    asked = stage(tokenizer=tokenizer).condition(["7>"], torch.tensor([0.3, 0.7]))

    # 1.2 and 2.8 fourths.
    assert asked == ["<preference:1:3>7>"]
    assert len(encode_prompts(tokenizer, asked)[0]) == 3


def test_preferences_of_another_number_of_objectives_are_refused():
    words = r"over 2 objectives, but there are 3 \(a, b, c\): set tokenizer.num_objectives=3"
    with pytest.raises(ConfigError, match=words):
        stage(others="bc")


def test_a_preference_that_leaves_no_room_for_the_answer_is_refused():
    tokenizer = preference_tokenizer(
        tokenizer=character_tokenizer(characters="0123456789>"), num_objectives=2, levels=4
    )

    # A preference, 2 of the prompt, 4 of the answer.
    stage(tokenizer=tokenizer, context_length=7)
    with pytest.raises(DataError, match="context_length 6"):
        stage(tokenizer=tokenizer, context_length=6)


def test_the_stage_needs_tokens_for_preferences():
    plain = character_tokenizer(characters="0123456789>")

    with pytest.raises(ConfigError, match="use tokenizer=character_preference model=tiny_cond"):
        stage(tokenizer=plain)


def test_a_folder_that_lost_the_map_is_no_pretrained_model(tmp_path):
    make_policy().model.save_pretrained(tmp_path)

    with pytest.raises(ConfigError, match="name its run's directory instead"):
        load_causal_lm(path=str(tmp_path), tokenizer=TOKENIZER, context_length=None)
