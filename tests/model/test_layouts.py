"""Rows padded on the left, with holes, of padding only, and masks of another dtype."""

import pytest
import torch
from tensordict import TensorDict

from rlcomp.batch import pad_right
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.errors import ConfigError, ShapeError
from rlcomp.model.critics import ActorCritic, Critic
from rlcomp.model.language_critic import LanguageCritic
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import LabelClassifier, Scorer, TokenScorer
from rlcomp.testing import make_batch, tiny_model
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abcdef")
ENGINES = {
    "auto": Engine(),
    "portable": Engine(decode="torch", update="torch", linear="torch"),
    "transformers": Engine(forward="transformers"),
    "bfloat16": Engine(compute="bfloat16"),
}
DTYPES = [torch.int64, torch.int32, torch.uint8, torch.float32, torch.bfloat16]
WIDTH = 7


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    return ENGINES[request.param]


@pytest.fixture(scope="module")
def readers(engine):
    """What reads rows by a method of its own, by name."""
    same = {"model": tiny_model(TOKENIZER), "tokenizer": TOKENIZER}
    policy = LanguageModel(**same, decoding=Decoding(), engine=engine)
    shared = ActorCritic(**same, decoding=Decoding(), engine=engine)
    words = LanguageCritic(**same, words={"a": 0.0, "b": 1.0}, engine=engine)
    token = TokenScorer(policy=policy, engine=engine)
    critic = Critic(model=policy.model, engine=engine)
    with torch.no_grad():
        for head in (shared.value_head, critic.value_head):
            head.weight.add_(1.0)
    return {
        "score": policy.score,
        "log_probs": policy.log_probs,
        "log_distribution": policy.log_distribution,
        "squared_probs": policy.squared_probs,
        "shared values": shared.values,
        "values": critic.values,
        "values of words": words.values,
        "scores": Scorer(policy=policy, engine=engine).scores,
        "token_scores": token.token_scores,
        "scores_before": token.scores_before,
        "logits": LabelClassifier(policy=policy, labels=["x", "y"], engine=engine).logits,
    }


READERS = [
    *("score", "log_probs", "log_distribution", "squared_probs", "shared values", "values"),
    *("values of words", "scores", "token_scores", "scores_before", "logits"),
]


def rows(*starts, lengths=(5, 4)):
    """Rows of two prompt tokens and an answer, which begin at a column."""
    tokens = torch.zeros(len(starts), WIDTH, dtype=torch.int64)
    mask, response = (torch.zeros(tokens.shape, dtype=torch.bool) for _ in range(2))
    for row, (start, length) in enumerate(zip(starts, lengths, strict=False)):
        tokens[row, start : start + length] = torch.arange(length) % 5 + 3
        mask[row, start : start + length] = True
        response[row, start + 2 : start + length] = True
    return make_batch(tokens=tokens, attention_mask=mask, response_mask=response)


@pytest.mark.parametrize("reader", READERS)
def test_rows_that_are_padded_on_the_left_are_refused_by_name(readers, reader):
    with pytest.raises(ShapeError, match=r"row 1 of 'attention_mask' is padded on the left.*right"):
        readers[reader](rows(0, 3))


@pytest.mark.parametrize("reader", READERS)
def test_rows_padded_on_both_sides_or_with_a_hole_are_refused(readers, reader):
    hole = rows(0, 0)
    hole["attention_mask"][1, 1] = False

    with pytest.raises(ShapeError, match="row 0 of 'attention_mask' is padded on the left"):
        readers[reader](rows(1, 0))
    with pytest.raises(ShapeError, match="row 1 of 'attention_mask' has a hole before column 2"):
        readers[reader](hole)


@pytest.mark.parametrize("reader", READERS)
def test_moved_to_the_left_they_are_read_as_rows_padded_on_the_right(readers, reader):
    torch.testing.assert_close(
        readers[reader](pad_right(rows(2, 3))), readers[reader](rows(0, 0)), rtol=0, atol=0
    )


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_of_zeros_and_ones_is_one_in_every_dtype(readers, reader, dtype):
    batch = rows(0, 0)
    for key in ("attention_mask", "response_mask"):
        batch[key] = batch[key].to(dtype)

    torch.testing.assert_close(readers[reader](batch), readers[reader](rows(0, 0)), rtol=0, atol=0)


@pytest.mark.parametrize("reader", READERS)
def test_a_row_of_padding_only_has_nothing_and_changes_nothing(readers, reader):
    batch = rows(0, 0)
    batch["attention_mask"][1] = batch["response_mask"][1] = False

    found = readers[reader](batch)

    torch.testing.assert_close(found[:1], readers[reader](rows(0, 0)[:1]), rtol=0, atol=1e-5)
    assert not found[1].any()


@pytest.mark.parametrize("reader", READERS)
def test_masks_that_do_not_fit_the_tokens_are_refused(readers, reader):
    good = rows(0, 0)
    for mask in (
        good["attention_mask"][:1],  # it would broadcast
        good["attention_mask"][:, :-1],
        good["attention_mask"][..., None],
        good["attention_mask"][0],
    ):
        batch = TensorDict({**good, "attention_mask": mask}, batch_size=[])
        with pytest.raises(ShapeError, match="'attention_mask' has shape"):
            readers[reader](batch)


def test_an_additive_mask_is_refused(readers):
    batch = rows(0, 0)
    batch["attention_mask"] = torch.where(batch["attention_mask"], 0.0, -torch.inf)

    with pytest.raises(ConfigError, match="'attention_mask' has dtype float32 and holds other"):
        readers["score"](batch)


def test_a_response_in_padding_is_refused(readers):
    batch = rows(0, 0)
    batch["response_mask"][1, 5] = True

    with pytest.raises(ShapeError, match="'response_mask' is true at row 1, column 5"):
        readers["score"](batch)


@pytest.mark.parametrize("token", [-100, len(TOKENIZER) + 40])
def test_a_token_that_the_model_lacks_is_refused_also_the_last_one(readers, token):
    batch = rows(0, 0)
    batch["tokens"][1, 6] = token  # in padding it may be anything
    readers["score"](batch)
    batch["tokens"][0, 4] = token

    with pytest.raises(ConfigError, match=rf"'tokens' at \[0, 4\] is {token}, but the model has"):
        readers["score"](batch)


def test_no_rows_no_columns_and_no_mask_are_told(readers):
    for empty in (rows(0, 0)[:0], TensorDict({k: v[:, :0] for k, v in rows(0).items()}, [1])):
        with pytest.raises(ShapeError, match="it holds no token"):
            readers["score"](empty)
    with pytest.raises(KeyError, match="reads 'attention_mask'"):
        readers["score"](rows(0, 0).exclude("attention_mask"))
