"""A process reward model: scores after every token."""

from functools import partial

import torch

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import TokenScorer
from rlcomp.testing import tiny_model
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abcdef")
make_model = partial(tiny_model, TOKENIZER, num_hidden_layers=2)


def policy():
    return LanguageModel(model=make_model(), tokenizer=TOKENIZER, decoding=Decoding())


def test_the_score_of_a_token_is_that_of_the_state_after_it():
    scorer = TokenScorer(policy=policy())
    batch = encode_rows(TOKENIZER, ["ab", "c"], ["cab", "a"])  # rows end with EOS

    found = scorer.token_scores(batch)

    for row, width in ((0, 6), (1, 3)):
        ids = batch["tokens"][row : row + 1, :width]
        states = scorer.backbone(input_ids=ids).last_hidden_state[0]
        wanted = torch.zeros(found.shape[1])
        wanted[:width] = states @ scorer.score_head.weight
        wanted = torch.where(batch["response_mask"][row], wanted, 0.0)
        torch.testing.assert_close(found[row], wanted, atol=1e-5, rtol=1e-5)


def test_that_of_the_answer_is_the_one_of_its_last_token_that_does_not_stop():
    scorer = TokenScorer(policy=policy())
    batch = encode_rows(TOKENIZER, ["ab", "c"], ["cab", "a"])

    found = scorer(batch.copy())

    torch.testing.assert_close(found["model_score"], scorer.scores(batch), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found["model_score"][0], found["token_score"][0, 4])


def test_the_score_before_a_token_is_that_after_the_one_in_front():
    scorer = TokenScorer(policy=policy())
    batch = encode_rows(TOKENIZER, ["ab"], ["cab"])

    after, before = scorer.token_scores(batch), scorer.scores_before(batch)

    torch.testing.assert_close(before[0, 3:6], after[0, 2:5], atol=1e-5, rtol=1e-5)


def test_our_forward_pass_and_that_of_transformers_agree():
    model = policy()
    ours = TokenScorer(policy=model)
    theirs = TokenScorer(policy=model, engine=Engine(forward="transformers"))
    theirs.load_state_dict(ours.state_dict())
    batch = encode_rows(TOKENIZER, ["ab", "c", "c"], ["cab", "a", "ff"])

    for name in ("token_scores", "scores_before"):
        one, other = (getattr(each, name)(batch) for each in (ours, theirs))
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
