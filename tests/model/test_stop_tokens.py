import pytest
import torch
from transformers import AddedToken

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.errors import ConfigError, DataError
from rlcomp.model.causal_forward import stop_ids
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer


def chat_tokenizer():
    """<pad> 0, <eos> 1, a 2, b 3, c 4; then <turn> 5, special, and <word> 6, which is not."""
    tokenizer = character_tokenizer(characters="abc")
    tokenizer.add_tokens([AddedToken("<turn>", special=True), AddedToken("<word>", special=False)])
    return tokenizer


def stopping(named, stop_tokens=()):
    tokenizer = chat_tokenizer()
    model = tiny_model(tokenizer)
    model.generation_config.eos_token_id = named
    return stop_ids(model, tokenizer, stop_tokens)


@pytest.mark.parametrize(
    ("named", "stop_tokens", "ids"),
    [
        (None, (), [1]),
        (5, (), [1, 5]),
        ([5, 1, 0], (), [1, 5, 0]),
        ([5, 3, 6], (), [1, 5]),  # b and <word> are ordinary tokens
        (None, ["<word>", "b"], [1, 6, 3]),
    ],
)
def test_what_ends_a_response(named, stop_tokens, ids):
    assert stopping(named, stop_tokens) == ids


@pytest.mark.parametrize("named", [7, -1, [1, "2"], True, 1.5, {"a": 1}])
def test_an_eos_that_is_no_id_is_refused(named):
    with pytest.raises(DataError, match=r"generation_config.json says .* its tokens are 0 to 6"):
        stopping(named)


def test_a_stop_token_that_is_none_is_refused():
    with pytest.raises(ConfigError, match=r"policy.stop_tokens: '<end>' is not a token"):
        stopping(None, ["<end>"])


@pytest.mark.parametrize("forward", ["packed", "transformers"])
def test_a_response_ends_at_any_of_them_and_keeps_it(forward):
    tokenizer = chat_tokenizer()
    model = tiny_model(tokenizer, seed=1)
    model.generation_config.eos_token_id = [5, 0]
    policy = LanguageModel(
        model=model, tokenizer=tokenizer, decoding=Decoding(), engine=Engine(forward=forward)
    )

    rows = policy.generate(
        [[2, 3], [4]], group_size=40, max_new_tokens=8, generator=torch.Generator().manual_seed(0)
    )

    lasts, inner = set(), set()
    for tokens, mask, cut in zip(
        rows["tokens"], rows["response_mask"], rows["truncated"], strict=True
    ):
        *before, last = tokens[mask].tolist()
        inner |= set(before)
        assert cut == (last not in {0, 1, 5})
        lasts |= set() if cut else {last}
    assert lasts == {0, 1, 5}, "the pad token as well, for it ends a response here"
    assert inner == {2, 3, 4, 6}
    with torch.no_grad():
        scored = policy.log_probs(rows)
    torch.testing.assert_close(scored, rows["rollout_log_probs"], atol=1e-5, rtol=0)
