"""Texts answered by a model: as the model itself samples them."""

import torch

from components.writer import LanguageModelWriter
from rlcomp.batch import decode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.model.build import causal_lm
from rlcomp.model.language_model import LanguageModel
from rlcomp.text.answers import answer_prompts
from rlcomp.text.tokenizer import byte_tokenizer


def model():
    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    built = causal_lm(
        tokenizer=tokenizer,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=16,
        context_length=16,
    )
    return LanguageModel(model=built, tokenizer=tokenizer, decoding=Decoding(temperature=0.0))


def test_it_answers_each_prompt_as_its_model_does():
    policy = model()
    prompts = ["ab", "c", "ab"]

    told = LanguageModelWriter(model=policy, max_new_tokens=5)(prompts)

    rows = answer_prompts(
        policy, prompts, group_size=1, max_new_tokens=5, generator=torch.Generator()
    )
    assert told == decode_texts(rows["response"])
    assert told[0] == told[2]
    assert LanguageModelWriter(model=policy)([]) == []


def test_what_leaves_no_room_is_answered_by_nothing_and_spoils_no_other():
    writer = LanguageModelWriter(model=model(), max_new_tokens=5)

    # 11 bytes and 5 tokens are 16, the context.
    assert writer(["a" * 12]) == [""]
    assert writer(["a" * 12, "a" * 11])[1] == writer(["a" * 11])[0]
