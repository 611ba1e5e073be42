"""Next-token prediction without thinking, against transformers' own logits."""

import pytest
import torch

from components.evaluator.likelihood import NextTokenEvaluator
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy
from rlcomp.text.token_bytes import token_bytes
from rlcomp.text.tokenizer import byte_tokenizer


class Held:
    """Four held-out positions; the answers continue after their first token."""

    held_out = 1.0
    rows = (("to be", " or"), ("né", "é!"), ("or not t", "o"), ("that", "\n is"))

    def __len__(self):
        return len(self.rows)

    def example(self, index):
        context, answer = self.rows[index]
        ends = tuple(range(1, len(answer.encode()) + 1))  # one token a byte
        return Example(f"{context}<think>", answer, "", answer_ends=ends)


@pytest.fixture(scope="module")
def policy():
    # A low temperature: the metrics are at temperature 1.
    cold = Decoding(temperature=0.3)
    return tiny_policy(tokenizer=byte_tokenizer(), context_length=32, decoding=cold)


def recorded(policy, **arguments):
    with recording() as ledger:
        NextTokenEvaluator(policy=policy, task=Held(), **arguments)()
    return ledger.means()


def logits_of(policy, context):
    ids = torch.tensor([policy.tokenizer(context)["input_ids"]])
    with torch.no_grad():
        logits = policy.model(input_ids=ids).logits[0, -1]
    logits[policy.tokenizer.pad_token_id] = -torch.inf  # a policy never chooses it
    return logits


def test_the_likeliest_token_is_none_of_those_that_are_no_text(policy):
    first = [int(logits_of(policy, context).argmax()) for context, _ in Held.rows]
    names = [policy.tokenizer.convert_ids_to_tokens(token) for token in dict.fromkeys(first)]
    evaluator = NextTokenEvaluator(policy=policy, task=Held(), suppressed_tokens=names)

    expected = []
    for context in evaluator.contexts:
        logits = logits_of(policy, context)
        logits[first] = -torch.inf
        expected.append(bytes_of(policy, int(logits.argmax())))
    assert evaluator._likeliest() == expected
    assert (
        recorded(policy, suppressed_tokens=names)["evaluation/nats"]
        == recorded(policy)["evaluation/nats"]
    )


def bytes_of(policy, token):
    return token_bytes(policy.tokenizer)[token]


def test_a_suppressed_text_must_be_one_token(policy):
    with pytest.raises(
        ConfigError, match="suppressed_tokens names 'to be', which is not one token"
    ):
        NextTokenEvaluator(policy=policy, task=Held(), suppressed_tokens=["to be"])


def test_nats_are_those_of_the_first_byte_after_the_bare_context(policy):
    firsts = [policy.tokenizer(answer)["input_ids"][0] for _, answer in Held.rows]
    # é is two tokens; the whole character is scored, as a prediction must write all of it.
    expected = []
    for (context, answer), first in zip(Held.rows, firsts, strict=True):
        nats = -float(logits_of(policy, context).log_softmax(-1)[first])
        if answer.startswith("é"):
            ids = policy.tokenizer(context)["input_ids"] + [first]
            second = policy.tokenizer(answer)["input_ids"][1]
            with torch.no_grad():
                logits = policy.model(input_ids=torch.tensor([ids])).logits[0, -1]
            logits[policy.tokenizer.pad_token_id] = -torch.inf
            nats -= float(logits.log_softmax(-1)[second])
        expected.append(nats)

    metrics = recorded(policy)["evaluation/nats"]

    assert metrics == pytest.approx(sum(expected) / 4, abs=1e-5)


def test_direct_is_the_share_of_positions_whose_likeliest_token_is_the_true_one(policy):
    table = policy.tokenizer
    likeliest = [int(logits_of(policy, context).argmax()) for context, _ in Held.rows]
    firsts = [table(answer)["input_ids"][0] for _, answer in Held.rows]
    right = sum(a == b for a, b in zip(likeliest, firsts, strict=True))

    whole = [
        index for index, token in enumerate(likeliest) if "\ufffd" not in table.decode([token])
    ]
    easy = next(index for index in whole if likeliest[index] != firsts[index])

    class Easier(Held):
        # At one position the truth is now the likeliest token.
        def example(self, index):
            if index != easy:
                return super().example(index)
            text = table.decode([likeliest[easy]])
            return Example(f"{self.rows[easy][0]}<think>", text, "", answer_ends=(len(text),))

    with recording() as ledger:
        NextTokenEvaluator(policy=policy, task=Easier(), name="easy")()

    assert ledger.means()["easy/direct"] == (right + 1) / 4
    assert recorded(policy)["evaluation/direct"] == right / 4


def test_direct_is_the_share_with_wilson_s_interval(policy):
    table = policy.tokenizer
    likeliest = [table.decode([int(logits_of(policy, c).argmax())]) for c, _ in Held.rows]
    easy = next(index for index, text in enumerate(likeliest) if "\ufffd" not in text)

    class OneRight(Held):
        def example(self, index):
            wrong = "a" if likeliest[index] == "o" else "o"
            text = likeliest[index] if index == easy else wrong
            return Example(f"{self.rows[index][0]}<think>", text, "", answer_ends=(len(text),))

    with recording() as ledger:
        NextTokenEvaluator(policy=policy, task=OneRight(), name="one")()

    # Wilson, n = 4, z = 1.96, p = 1/4: (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) over
    # 1 + z^2 / n = (0.73018 -+ 0.64081) / 1.96036.
    means = ledger.means()
    assert means["one/direct"] == 0.25
    assert means["one/direct_low"] == pytest.approx(0.04559, abs=1e-5)
    assert means["one/direct_high"] == pytest.approx(0.69936, abs=1e-5)
