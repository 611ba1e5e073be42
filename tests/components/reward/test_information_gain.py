import copy
import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.advantage.group import LeaveOneOut
from components.reward.thought import InformationGain
from rlcomp.batch import encode_texts
from rlcomp.data.examples import prompt_batch
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import byte_tokenizer

TOKENIZER = byte_tokenizer()

# Far from uniform.
make_policy = partial(
    tiny_policy,
    tokenizer=TOKENIZER,
    num_hidden_layers=2,
    context_length=64,
    scale=4.0,
    vector_scale=4.0,
    decoding=Decoding(temperature=0.5),
)


def answered(responses, *, prompt="ab<think>"):
    """One row a response, EOS included."""
    batch = prompt_batch([Example(prompt, "xyz", "", (1, 2, 3))] * len(responses))
    return batch.update(encode_rows(TOKENIZER, [prompt] * len(responses), responses))


def change(policy, seed=1):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))


def fill(policy, value):
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.fill_(value)


def level(reward):
    """Of ``phi``, all of whose weights are equal."""
    copies = reward.copied.weights().values()
    (value,) = {round(float(x), 6) for copy in copies for x in copy.flatten()}
    return value


def at_step(reward, batch, step):
    reward.policy.updates.fill_(step)
    with recording() as ledger:
        result = reward(batch.copy())
    return result, ledger


def log_prob(model, context, target):
    """Return a continuation's log-prob by transformers' forward pass, without the pad token."""
    ids = torch.tensor([TOKENIZER(context + target)["input_ids"]])
    start = len(TOKENIZER(context)["input_ids"])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0].double()
    logits[:, TOKENIZER.pad_token_id] = -math.inf
    steps = logits.log_softmax(-1)[start - 1 : -1]
    return float(steps.gather(1, ids[0, start:, None]).sum())


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize(("num_tokens", "target"), [(1, "x"), (2, "xy")])
def test_it_is_the_gain_over_the_slow_policy_without_the_thought(num_tokens, target, rank):
    policy = make_policy(rank=rank)
    reward = InformationGain(policy=policy, tau=1.0, num_tokens=num_tokens)
    batch = answered(["so</think>no", "hm, so"])
    at_step(reward, batch, 0)
    slow = copy.deepcopy(policy.model)
    change(policy)

    result, ledger = at_step(reward, batch, 1)

    thoughts = ["ab<think>so</think>", "ab<think>hm, so</think>"]
    behind = [log_prob(policy.model, context, target) for context in thoughts]
    without = log_prob(slow, "ab", target)
    expected = [score - without for score in behind]
    assert result["reward"].tolist() == pytest.approx(expected, abs=1e-4)
    assert result["rewards", "information_gain"].equal(result["reward"])
    assert result["correct"].tolist() == [gain > 0 for gain in expected]
    means = ledger.means()
    assert means["reward/with_thought"] == pytest.approx(sum(behind) / 2, abs=1e-4)
    assert means["reward/without_thought"] == pytest.approx(without, abs=1e-4)
    assert means["reward/mean"] == pytest.approx(sum(expected) / 2, abs=1e-4)


def test_correct_is_a_thought_that_gains():
    result = InformationGain(policy=make_policy())(answered(["so", "b", "hm", "a", "}"]))

    gains = result["reward"].tolist()
    assert min(gains) < 0 < max(gains)
    assert result["correct"].tolist() == [gain > 0 for gain in gains]


def blind_policy():
    """Its next token hangs on the token before it alone: attention adds nothing."""
    policy = make_policy(num_hidden_layers=1)
    with torch.no_grad():
        policy.model.get_decoder().layers[0].self_attn.o_proj.weight.zero_()
    return policy


BLIND = InformationGain(policy=blind_policy(), num_tokens=2)


@settings(max_examples=15, deadline=None)
@given(st.text(alphabet="ab <>/", max_size=12))
def test_a_thought_that_changes_nothing_gains_nothing(thought):
    # The context a> and the thought's end both end with >.
    result = BLIND(answered([thought], prompt="a><think>"))

    assert result["reward"].item() == pytest.approx(0.0, abs=1e-6)


def test_an_attended_thought_has_a_gain():
    result = InformationGain(policy=make_policy())(answered(["so", "b"], prompt="a><think>"))

    assert result["reward"].abs().min() > 1e-3


def test_leave_one_out_of_it_is_rlps_advantage():
    # Mean 0.1; G / (G - 1) = 4 / 3 of -0.3, 0, 0.3, 0.
    batch = answered(["a", "b", "c", "d"])
    batch["reward"] = torch.tensor([-0.2, 0.1, 0.4, 0.1])
    batch["reward_valid"] = torch.ones(4).bool()
    batch["group_id"] = torch.zeros(4, dtype=torch.int64)

    advantage = LeaveOneOut()(batch)["advantage"]

    first = batch["response_mask"].int().argmax(1)
    result = advantage[torch.arange(4), first]
    torch.testing.assert_close(result, torch.tensor([-0.4, 0.0, 0.4, 0.0]))


def test_the_default_decay_is_999_thousandths():
    assert InformationGain(policy=make_policy()).tau == 0.999


def test_the_slow_policy_follows_after_each_step():
    policy, batch = make_policy(), answered(["so"])
    reward = InformationGain(policy=policy, tau=0.75)
    fill(policy, 0.0)

    result = []
    for step, value in enumerate((1.0, 1.0, 2.0)):
        at_step(reward, batch, step)
        result.append(level(reward))
        fill(policy, value)  # the optimiser step

    # phi_0 = theta_0 = 0; then 0.75 * 0 + 0.25 * 1 and 0.75 * 0.25 + 0.25 * 1.
    assert result == [0.0, 0.25, 0.4375]


def test_the_first_batch_is_scored_with_the_policy_itself():
    policy, batch = make_policy(), answered(["so"])
    reward = InformationGain(policy=policy)
    change(policy)

    _, ledger = at_step(reward, batch, 7)

    assert ledger.means()["reward/without_thought"] == pytest.approx(
        log_prob(policy.model, "ab", "x"), abs=1e-4
    )


def test_several_calls_in_a_step_move_the_slow_policy_once():
    policy, batch = make_policy(), answered(["so"])
    reward = InformationGain(policy=policy, tau=0.75)
    fill(policy, 0.0)
    at_step(reward, batch, 0)
    fill(policy, 1.0)

    at_step(reward, batch, 0)  # an evaluation after the learner
    before = level(reward)
    for _ in range(3):  # a refill
        at_step(reward, batch, 1)

    assert (before, level(reward)) == (0.0, 0.25)


def test_a_phase_begins_with_the_current_policy():
    policy, batch = make_policy(), answered(["so"])
    reward = InformationGain(policy=policy, tau=0.75)
    fill(policy, 0.0)
    at_step(reward, batch, 0)
    fill(policy, 1.0)

    reward.begin_phase()
    at_step(reward, batch, 1)

    assert level(reward) == 1.0


@pytest.mark.parametrize("done", [1, 2])
def test_the_slow_policy_travels_in_a_checkpoint(done):
    policy, batch = make_policy(), answered(["so"])
    reward, other = (InformationGain(policy=policy, tau=0.5) for _ in range(2))
    for step in range(done):
        at_step(reward, batch, step)
        change(policy, seed=step)

    other.load_state_dict(reward.state_dict())
    for step in range(done, 3):
        (first, _), (second, _) = (at_step(part, batch, step) for part in (reward, other))
        assert first["reward"].equal(second["reward"])
        change(policy, seed=step)

    copies, others = reward.copied.weights(), other.copied.weights()
    assert all(torch.equal(copies[name], others[name]) for name in copies)


def test_no_gradient_flows_and_the_policy_s_tensors_stay_its_own():
    policy = make_policy()
    reward = InformationGain(policy=policy)
    with torch.enable_grad():
        batch = reward(answered(["so"]))

    assert not batch["reward"].requires_grad
    assert not list(reward.parameters())
    assert list(reward.children()) == [reward.copied]


def test_the_policy_prompt_is_the_context_if_it_differs_from_the_prompt():
    policy = make_policy()
    batch = answered(["so"], prompt="7:ab<think>")
    batch["policy_prompt"], batch["prompt"] = batch["prompt"], encode_texts(["ab"])

    result = InformationGain(policy=policy)(batch)

    behind = log_prob(policy.model, "7:ab<think>so</think>", "x")
    expected = behind - log_prob(policy.model, "7:ab", "x")
    assert result["reward"].item() == pytest.approx(expected, abs=1e-4)


def test_a_row_that_the_context_cannot_hold_is_not_valid():
    # ab<think> is 9 tokens, the thought with its end 10 or 18, the target 1: 20 and 28.
    policy = make_policy(context_length=20)

    with recording() as ledger:
        batch = InformationGain(policy=policy)(answered(["so</think>", "so and so</think>"]))

    assert batch["reward_valid"].tolist() == [True, False]
    assert batch["reward"][1].item() == batch["rewards", "information_gain"][1].item() == 0.0
    behind = log_prob(policy.model, "ab<think>so</think>", "x")
    assert ledger.means()["reward/with_thought"] == pytest.approx(behind, abs=1e-4)
    assert ledger.counts["reward/with_thought"] == ledger.counts["reward/without_thought"] == 1


def test_a_prompt_that_starts_no_thought_is_refused():
    with pytest.raises(DataError, match=r"task\.template end with it"):
        InformationGain(policy=make_policy())(answered(["so"], prompt="ab"))
