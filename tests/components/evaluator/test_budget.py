import pytest
import torch
from tensordict import TensorDict

from components.evaluator.budget import BudgetForcing
from components.reward.function import FunctionReward
from components.worlds.addition.task import Addition
from rlcomp.engine.draw import SampledResponses
from rlcomp.errors import ConfigError, DataError
from rlcomp.metrics import recording
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_model
from rlcomp.text.rows import rollout_rows
from rlcomp.text.tokenizer import character_tokenizer

EOS = "."
# Two prompts with two samples: thoughts of 3 and 5 tokens; none, and one that never ends.
WRITTEN = ["12/7.", "1234/8.", "5.", "1234567"]


class Scripted(LanguageModel):
    """Policy with a script of responses; it records its prompts."""

    def __init__(self, *calls: list[str], context_length: int = 32) -> None:
        tokenizer = character_tokenizer(characters="0123456789+=/")
        model = tiny_model(tokenizer, context_length=context_length)
        from rlcomp.engine.decoding import Decoding

        super().__init__(model=model, tokenizer=tokenizer, decoding=Decoding())
        self.calls, self.asked, self.limits = list(calls), [], []

    def generate(self, prompts, *, group_size, max_new_tokens, **rest):
        del rest
        self.asked.append([self.tokenizer.decode(prompt) for prompt in prompts])
        self.limits.append(max_new_tokens)
        texts = self.calls.pop(0)
        assert len(texts) == len(prompts) * group_size
        rows = [
            [self.tokenizer.eos_token_id if c == EOS else self.tokenizer.get_vocab()[c] for c in t]
            for t in texts
        ]
        width = max(map(len, rows))
        tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        lengths = torch.tensor([len(row) for row in rows])
        truncated = torch.tensor([not text.endswith(EOS) for text in texts])
        sampled = SampledResponses(tokens, torch.zeros(tokens.shape), lengths, truncated)
        return rollout_rows(prompts, sampled, pad=0, version=0)


def sevens(response):
    """Return 1 for a 7 after the thought, None for a 9."""
    return None if response.endswith("/9") else float(response.endswith("/7"))


def budget(policy, **changed):
    torch.manual_seed(3)
    arguments = {
        "policy": policy,
        "task": Addition(digits=2, held_out=0.2),
        "reward": FunctionReward(function=sevens, correct_by="function"),
        "budgets": [4, 2],
        "think_end": "/",
        "num_prompts": 2,
        "samples_per_prompt": 2,
        "max_new_tokens": 2,
    }
    return BudgetForcing(**(arguments | changed))


def measured(part):
    with recording() as ledger:
        part(TensorDict({}, batch_size=[]))
    return {name.split("/")[1]: value for name, value in ledger.means().items()}


def test_two_budgets_by_hand():
    policy = Scripted(WRITTEN, ["8.", "8.", "7."], ["7.", "9."])
    part = budget(policy)

    metrics = measured(part)

    first, second = (example.prompt for example in part.examples)
    # Cut after two tokens: all but 5; after four: thoughts of five and more.
    assert policy.asked[1:] == [
        [f"{first}12/", f"{first}12/", f"{second}12/"],
        [f"{first}1234/", f"{second}1234/"],
    ]
    # 4 of thought, 1 that ends it, 2 of answer; then the answer alone.
    assert policy.limits == [7, 2, 2]
    assert metrics["forced@2"] == 3 / 4
    # 12/8 and 12/8; 5 and 12/7.
    assert metrics["accuracy@2"] == (0 + 1 / 2) / 2
    assert metrics["thinking_tokens@2"] == (2 + 2 + 0 + 2) / 4
    assert metrics["tokens_per_right@2"] == (5 + 5 + 2 + 5) / 1
    assert metrics["forced@4"] == 2 / 4
    # 12/7 unchanged and 1234/7; 5, and 1234/9 without a verdict.
    assert metrics["accuracy@4"] == (2 / 2 + 0 / 1) / 2
    assert metrics["thinking_tokens@4"] == (3 + 4 + 0 + 4) / 4
    assert metrics["tokens_per_right@4"] == (5 + 7 + 2) / 2
    # Without a budget 12/7 is right.
    assert metrics["length_right"] == 5
    assert metrics["length_wrong"] == (7 + 2 + 7) / 3
    assert metrics["invalid_fraction"] == 1 / (4 + 3 + 2)


def test_a_short_thought_is_not_cut():
    policy = Scripted(["12/7.", "1/8.", "5.", "/7."])

    metrics = measured(budget(policy, budgets=[3]))

    assert len(policy.asked) == 1
    assert (metrics["forced@3"], metrics["accuracy@3"]) == (0.0, 1 / 2)
    assert metrics["thinking_tokens@3"] == (3 + 2 + 0 + 1) / 4


def test_without_a_right_answer_there_are_no_tokens_per_right():
    policy = Scripted(["1/8.", "1/8.", "5.", "/."])

    assert "tokens_per_right@3" not in measured(budget(policy, budgets=[3]))


def test_a_budget_of_nothing_answers_at_once():
    policy = Scripted(WRITTEN, ["7.", "8", "7.", "8."])
    part = budget(policy, budgets=[0])

    metrics = measured(part)

    assert policy.asked[1][0] == f"{part.examples[0].prompt}/"
    assert (metrics["forced@0"], metrics["thinking_tokens@0"]) == (1.0, 0.0)
    assert metrics["accuracy@0"] == 1 / 2


def test_budgets_must_be_given_and_fit():
    with pytest.raises(ConfigError, match=r"budget.budgets is empty"):
        budget(Scripted(), budgets=[])
    with pytest.raises(DataError, match="with 7 more that is 13"):
        budget(Scripted(context_length=12))
