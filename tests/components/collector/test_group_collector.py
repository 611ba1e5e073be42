import torch
from tensordict import TensorDict

from components.collector.group import GroupCollector
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.metrics import recording
from rlcomp.model.build import causal_lm
from rlcomp.model.language_model import LanguageModel
from rlcomp.text.tokenizer import character_tokenizer


def make_policy() -> LanguageModel:
    torch.manual_seed(0)
    tokenizer = character_tokenizer(characters="0123456789+=>")
    model = causal_lm(
        tokenizer=tokenizer,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=24,
        context_length=16,
    )
    return LanguageModel(model=model, tokenizer=tokenizer, decoding=Decoding(temperature=1.0))


def prompts() -> TensorDict:
    entries = {"prompt": encode_texts(["1+2=", "7="]), "answer": encode_texts(["3", "7"])}
    return TensorDict(entries, batch_size=[2])


def collector() -> GroupCollector:
    torch.manual_seed(1)
    return GroupCollector(policy=make_policy(), group_size=3, max_new_tokens=4)


def test_every_prompt_is_answered_group_size_times():
    batch = collector()(prompts())

    assert batch["group_id"].tolist() == [0, 0, 0, 1, 1, 1]
    assert decode_texts(batch["prompt"]) == ["1+2="] * 3 + ["7="] * 3
    assert decode_texts(batch["answer"]) == ["3"] * 3 + ["7"] * 3


def test_it_writes_what_it_declares():
    assert set(collector()(prompts()).keys()) == {*GroupCollector.writes} - {
        *GroupCollector.optional
    }


def test_the_number_of_the_example_goes_with_its_answers():
    batch = collector()(prompts().set("example_id", torch.tensor([12, 5])))

    assert batch["example_id"].tolist() == [12] * 3 + [5] * 3


def test_answers_keep_to_their_length():
    batch = collector()(prompts())

    assert int(batch["response_mask"].sum(1).max()) <= 4


def test_the_next_batch_is_another_draw_and_the_same_again_from_the_same_state():
    made = collector()
    state = made.generator.get_state()
    first, second = made(prompts()), made(prompts())
    made.generator.set_state(state)

    assert decode_texts(first["response"]) != decode_texts(second["response"])
    assert decode_texts(made(prompts())["response"]) == decode_texts(first["response"])


def test_tokens_and_lengths_are_recorded():
    with recording() as ledger:
        batch = collector()(prompts())

    tokens = float(batch["response_mask"].sum())
    assert ledger.means()["rollout/tokens"] == tokens
    assert ledger.means()["rollout/length"] == tokens / 6
    assert ledger.means()["rollout/truncated"] == batch["truncated"].double().mean().item()
