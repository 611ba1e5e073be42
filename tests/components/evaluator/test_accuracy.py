import pytest
import torch
from tensordict import TensorDict

from components.evaluator.accuracy import Accuracy
from components.reward.function import Function
from components.task.addition import Addition
from rlcomp.batch import decode_texts
from rlcomp.generation.sampling import Sampling
from rlcomp.model.build import causal_lm
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.tokenizer import character_tokenizer
from rlcomp.run.record import recording

SEED, PROMPTS, SAMPLES = 3, 12, 4


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
    return LanguageModel(model=model, tokenizer=tokenizer, sampling=Sampling(temperature=1.0))


def has_an_even_digit(response):
    return float(any(digit in response for digit in "02468"))


def evaluator(policy, **changed) -> Accuracy:
    torch.manual_seed(SEED)
    arguments = {
        "policy": policy,
        "task": Addition(digits=2, held_out=0.2),
        "reward": Function(function=has_an_even_digit),
        "num_prompts": PROMPTS,
        "samples_per_prompt": SAMPLES,
        "max_new_tokens": 3,
        "num_shown": 2,
    }
    return Accuracy(**(arguments | changed))


def empty() -> TensorDict:
    return TensorDict({}, batch_size=[])


def right_by_hand(policy, examples, group_size, sampling):
    """Which of the answers are right, [prompts, group_size]: generated and judged here."""
    answered = policy.generate(
        [example.prompt for example in examples],
        group_size=group_size,
        max_new_tokens=3,
        sampling=sampling,
        generator=torch.Generator().manual_seed(SEED),
    )
    judged = [has_an_even_digit(text) for text in decode_texts(answered["response"])]
    return torch.tensor(judged).view(-1, group_size)


def test_accuracies_are_the_shares_of_right_answers():
    policy = make_policy()
    accuracy = evaluator(policy)

    with recording() as ledger:
        accuracy(empty())

    means = ledger.means()
    greedy = right_by_hand(policy, accuracy.examples, 1, Sampling(temperature=0.0))
    sampled = right_by_hand(policy, accuracy.examples, SAMPLES, None)
    assert 0 < sampled.mean().item() < 1
    assert means["evaluation/greedy"] == pytest.approx(greedy.mean().item())
    assert means["evaluation/sampled"] == pytest.approx(sampled.mean().item())
    assert means["evaluation/pass@1"] == pytest.approx(sampled.mean().item())
    assert means["evaluation/pass@4"] == pytest.approx(sampled.amax(1).mean().item())


def test_pass_at_k_is_reported_for_powers_of_two_with_intervals_around_it():
    with recording() as ledger:
        evaluator(make_policy())(empty())

    means = ledger.means()
    names = ["greedy", "sampled", "pass@1", "pass@2", "pass@4"]
    ends = ["", "_low", "_high"]
    assert set(means) == {f"evaluation/{name}{end}" for name in names for end in ends}
    for name in names:
        low, mean, high = (means[f"evaluation/{name}{end}"] for end in ("_low", "", "_high"))
        assert low <= mean <= high


def test_a_second_evaluation_of_the_same_policy_gives_the_same_numbers():
    accuracy = evaluator(make_policy())

    with recording() as first:
        accuracy(empty())
    with recording() as second:
        accuracy(empty())

    assert first.means() == second.means()


def test_the_first_greedy_answers_are_shown():
    with recording() as ledger:
        accuracy = evaluator(make_policy())
        accuracy(empty())

    assert [sample["prompt"] for sample in ledger.samples] == [
        example.prompt for example in accuracy.examples[:2]
    ]
    for sample in ledger.samples:
        assert sample["correct"] == bool(has_an_even_digit(sample["response"]))


def test_nothing_is_shown_when_nothing_is_asked_for():
    with recording() as ledger:
        evaluator(make_policy(), num_shown=0)(empty())

    assert ledger.samples == []


def test_the_batch_is_handed_on_as_it_is():
    batch = TensorDict({"reward": torch.ones(2)}, batch_size=[2])

    result = evaluator(make_policy())(batch)

    assert list(result.keys()) == ["reward"]
    assert result["reward"].tolist() == [1.0, 1.0]
