import math

import pytest
import torch
import torch.nn.functional as F
from tensordict import TensorDict

from components.evaluator.forgetting import Forgetting
from components.worlds.addition.task import Addition
from rlcomp.errors import CheckpointError, DataError
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy

# Three prompts with four samples: right 1/2, 3/4 and none judged; then 1/2, 1/4 and 3/4.
BEFORE, NOW = "+-?? ++-+ ????", "++-- +--- +++-"


def forgetting(reward, policy=None, **changed):
    torch.manual_seed(3)
    arguments = {
        "policy": policy or tiny_policy(scale=3.0),
        "task": Addition(digits=2, held_out=0.2),
        "reward": reward,
        "num_prompts": 3,
        "max_new_tokens": 3,
    }
    return Forgetting(**(arguments | changed))


def measured(part):
    with recording() as ledger:
        part(TensorDict({}, batch_size=[]))
    return {name.split("/")[1]: value for name, value in ledger.means().items()}


def nats_a_token(policy, examples):
    """Of all demonstrations, by one forward pass of transformers a row."""
    tokenizer, nats = policy.tokenizer, []
    for example in examples:
        prompt = tokenizer(example.prompt, add_special_tokens=False)["input_ids"]
        answer = tokenizer(example.demonstration, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([*prompt, *answer, tokenizer.eos_token_id])
        logits = policy.model(ids[None]).logits[0].double()
        logits[:, tokenizer.pad_token_id] = -math.inf
        rows = slice(len(prompt) - 1, -1)
        nats += F.cross_entropy(logits[rows], ids[len(prompt) :], reduction="none").tolist()
    return sum(nats) / len(nats)


@torch.no_grad()
def move(policy):
    for number, parameter in enumerate(policy.parameters()):
        parameter.mul_(1 + 0.3 * (number % 3))


def test_now_against_the_beginning_of_the_phase(scripted):
    policy = tiny_policy(scale=3.0)
    part = forgetting(scripted(BEFORE, NOW), policy)
    before = nats_a_token(policy, part.examples)
    part.begin_phase()
    move(policy)

    metrics = measured(part)

    assert len({len(example.demonstration) for example in part.examples}) > 1  # tokens, not rows
    now = nats_a_token(policy, part.examples)
    assert abs(now - before) > 0.01
    losses = [metrics[name] for name in ("loss_before", "loss", "loss_change")]
    assert losses == pytest.approx([before, now, now - before], abs=1e-4)
    assert metrics["accuracy"] == pytest.approx((1 / 2 + 1 / 4 + 3 / 4) / 3)
    assert metrics["accuracy_before"] == pytest.approx((1 / 2 + 3 / 4) / 2)
    # Judged both times: 0 and -1/2. Both draws of a bootstrap are the same one half of the time.
    change = [metrics[f"accuracy_change{end}"] for end in ("", "_low", "_high")]
    assert change == [-1 / 4, -1 / 2, 0.0]
    assert metrics["invalid_fraction"] == 0.0


def test_at_the_beginning_nothing_has_changed(scripted):
    metrics = measured(forgetting(scripted(BEFORE)))  # by hand, without a phase

    assert (metrics["accuracy_change"], metrics["loss_change"]) == (0.0, 0.0)
    assert metrics["invalid_fraction"] == 6 / 12


def test_a_saved_state_is_restored(scripted):
    part, other = forgetting(scripted(BEFORE)), forgetting(scripted(NOW))
    part.begin_phase()

    other.load_run_state(part.run_state())

    assert measured(other)["accuracy_change"] == -1 / 4
    fresh = forgetting(scripted(NOW))
    fresh.load_run_state(forgetting(scripted()).run_state())
    assert measured(fresh)["accuracy_change"] == 0.0


@pytest.mark.parametrize(
    "state",
    [
        {"accuracy": [0.5], "loss": 1.0},
        {"accuracy": None, "loss": 1.0},
        {"accuracy": [0.5] * 3, "loss": None},
        {"accuracy": ["x"] * 3, "loss": 1.0},
        {"accuracy": [0.5] * 3},
        {"accuracy": None, "loss": None, "more": 1},
    ],
)
def test_a_malformed_state_is_refused(scripted, state):
    with pytest.raises(CheckpointError, match=r"accuracy|loss|more"):
        forgetting(scripted()).load_run_state(state)


def test_without_any_verdict_there_is_no_change(scripted):
    metrics = measured(forgetting(scripted("????" * 3)))

    assert {name for name in metrics if "accuracy" in name} == set()


def test_a_demonstration_that_does_not_fit_is_refused_at_once(scripted):
    examples = forgetting(scripted()).examples
    longest = max(len(example.prompt + example.demonstration) + 1 for example in examples)

    forgetting(scripted(), tiny_policy(context_length=longest), max_new_tokens=1)
    with pytest.raises(DataError, match=f"the limit is {longest - 1}"):
        forgetting(scripted(), tiny_policy(context_length=longest - 1), max_new_tokens=1)
