"""A copy of a policy, which is trained apart."""

from functools import partial

import torch

from rlcomp.engine.decoding import Decoding
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import PolicyCopy
from rlcomp.testing import check_component, tiny_model
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abcdef")
make_model = partial(tiny_model, TOKENIZER)


def change(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape))


def test_the_copy_is_of_the_policy_as_the_first_phase_finds_it():
    policy = LanguageModel(model=make_model(), tokenizer=TOKENIZER, decoding=Decoding())
    scorer = PolicyCopy(policy=policy)
    rows = encode_rows(TOKENIZER, ["ab"], ["cab"])

    change(policy.model)
    scorer.begin_phase()
    begun = scorer.score(rows)
    torch.testing.assert_close(begun, policy.score(rows), rtol=0, atol=0)

    change(policy.model)
    scorer.begin_phase()
    torch.testing.assert_close(scorer.score(rows), begun, rtol=0, atol=0)
    assert not torch.allclose(policy.score(rows), begun)


def test_it_owns_its_weights_and_no_others():
    policy = LanguageModel(model=make_model(), tokenizer=TOKENIZER, decoding=Decoding())
    scorer = PolicyCopy(policy=policy)

    assert len([*scorer.parameters()]) == len([*policy.parameters()])
    assert not {*map(id, scorer.parameters())} & {*map(id, policy.parameters())}
    check_component(scorer)
