import copy
from functools import partial

import pytest
import torch

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import ScoreHead, Scorer
from rlcomp.testing import check_component, tiny_model
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abcdef")
make_model = partial(tiny_model, TOKENIZER, num_hidden_layers=2)


def policy(**more):
    return LanguageModel(model=make_model(**more), tokenizer=TOKENIZER, decoding=Decoding())


def change(module):
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape))


def test_the_score_is_that_of_the_state_after_the_last_token_that_does_not_stop():
    scorer = Scorer(policy=policy())
    batch = encode_rows(TOKENIZER, ["ab", "c"], ["cab", "a"])  # rows end with EOS

    found = scorer.scores(batch)

    for score, text in zip(found, ("abcab", "ca"), strict=True):
        states = scorer.backbone(input_ids=torch.tensor([TOKENIZER.encode(text)]))
        wanted = states.last_hidden_state[0, -1] @ scorer.score_head.weight
        torch.testing.assert_close(score, wanted, atol=1e-5, rtol=1e-5)


def test_a_row_that_was_cut_off_is_read_to_its_end():
    scorer = Scorer(policy=policy())
    whole = encode_rows(TOKENIZER, ["ab"], ["cab"])

    cut = whole.copy()
    last = int(whole["attention_mask"].sum()) - 1
    cut["attention_mask"] = whole["attention_mask"].clone()
    cut["attention_mask"][0, last] = False

    torch.testing.assert_close(scorer.scores(cut), scorer.scores(whole))


def test_our_forward_pass_and_that_of_transformers_agree():
    model = policy()
    ours, theirs = Scorer(policy=model), Scorer(policy=model, engine=Engine(forward="transformers"))
    theirs.load_state_dict(ours.state_dict())
    batch = encode_rows(TOKENIZER, ["ab", "c", "c"], ["cab", "a", "ff"])

    torch.testing.assert_close(ours.scores(batch), theirs.scores(batch), atol=1e-5, rtol=1e-5)


def test_it_starts_from_the_policy_as_its_first_phase_finds_it_and_then_goes_its_own_way():
    model = policy()
    scorer = Scorer(policy=model)
    change(model)
    scorer.begin_phase()
    theirs = model.model.get_decoder().state_dict()
    assert all(torch.equal(scorer.backbone.state_dict()[name], theirs[name]) for name in theirs)

    change(model)
    learned = copy.deepcopy(scorer.state_dict())
    scorer.begin_phase()

    assert all(torch.equal(scorer.state_dict()[name], learned[name]) for name in learned)


def test_two_of_one_run_begin_with_different_heads():
    model = policy()
    torch.manual_seed(0)
    first = Scorer(policy=model)
    torch.manual_seed(1)

    assert not torch.equal(first.score_head.weight, Scorer(policy=model).score_head.weight)


def test_training_it_leaves_the_policy_alone():
    model = policy()
    scorer = Scorer(policy=model)

    scorer.scores(encode_rows(TOKENIZER, ["ab"], ["c"])).sum().backward()

    assert all(parameter.grad is not None for parameter in scorer.parameters())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_backbone_stays_in_eval_mode():
    scorer = Scorer(policy=policy())

    assert not scorer.train().backbone.training


@pytest.mark.parametrize("forward", ["packed", "transformers"])
def test_it_keeps_the_contract(forward):
    check_component(Scorer(policy=policy(), engine=Engine(forward=forward)))


def test_heads_begin_with_a_variance_of_one_over_the_width_and_one():
    model, same = tiny_model(TOKENIZER), torch.Generator()
    width = model.config.hidden_size
    head = ScoreHead(model, torch.Generator().manual_seed(3), outputs=2)

    wanted = torch.randn(width, 2, generator=same.manual_seed(3)) / (width + 1) ** 0.5
    assert torch.equal(head.weight, wanted)
