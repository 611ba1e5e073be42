import pytest
import torch

from components.reference.frozen import RefreshedReference
from rlcomp.model.auxiliary_forward import muted_eval
from rlcomp.testing import tiny_policy
from rlcomp.text.answers import encode_answers


def rows(policy):
    return encode_answers(policy, ["ab", "c"], ["c", "ab"])


def set_all(policy, value):
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.fill_(value)


def step(reference, policy, value):
    """One batch scored, then the policy moves."""
    batch = rows(policy)
    batch["rollout_log_probs"] = torch.zeros(batch["tokens"].shape)
    reference(batch)
    set_all(policy, value)


def weight(reference):
    """All copied weights are equal in these tests."""
    copies = reference.copied.weights().values()
    (value,) = {round(float(x), 6) for copy in copies for x in copy.flatten()}
    return value


def test_every_period_the_copy_is_mixed_with_the_policy():
    policy = tiny_policy("abc")
    set_all(policy, 0.0)
    reference = RefreshedReference(policy=policy, period=2, mix=0.6)

    found = []
    for value in (1.0, 1.0, 2.0, 2.0, 3.0):
        step(reference, policy, value)
        found.append(weight(reference))

    # Before batch 3: 0.6 * 1 + 0.4 * 0; before batch 5: 0.6 * 2 + 0.4 * 0.6.
    assert found == [0.0, 0.0, 0.6, 0.6, 1.44]


def test_the_first_batch_refreshes_nothing():
    policy = tiny_policy("abc")
    set_all(policy, 0.0)
    reference = RefreshedReference(policy=policy, period=1, mix=1.0)
    set_all(policy, 1.0)

    step(reference, policy, 2.0)

    assert weight(reference) == 0.0


def test_a_batch_is_scored_with_the_refreshed_copy():
    policy = tiny_policy("abc")
    reference = RefreshedReference(policy=policy, period=1, mix=1.0)
    batch = rows(policy)
    batch["rollout_log_probs"] = torch.zeros(batch["tokens"].shape)
    first = reference(batch.copy())["ref_log_probs"]
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(torch.randn(parameter.shape))

    second = reference(batch.copy())["ref_log_probs"]

    torch.testing.assert_close(second, policy.log_probs(batch).detach())
    assert (second - first).abs().max() > 0.1


def test_a_phase_starts_to_count_anew_from_a_fresh_copy():
    policy = tiny_policy("abc")
    set_all(policy, 0.0)
    reference = RefreshedReference(policy=policy, period=2, mix=1.0)
    step(reference, policy, 1.0)

    reference.begin_phase()
    for value in (2.0, 3.0):
        step(reference, policy, value)

    assert weight(reference) == 1.0


@pytest.mark.parametrize("done", [1, 2])
def test_the_count_travels_in_a_checkpoint(done):
    policy = tiny_policy("abc")
    set_all(policy, 0.0)
    reference, other = (RefreshedReference(policy=policy, period=3, mix=0.5) for _ in range(2))
    for _ in range(done):
        step(reference, policy, 1.0)

    other.load_state_dict(reference.state_dict())
    for _ in range(4 - done):
        step(reference, policy, 1.0)
        step(other, policy, 1.0)

    assert weight(other) == weight(reference) == 0.5


def test_what_is_scored_aside_is_not_counted():
    policy = tiny_policy("abc")
    set_all(policy, 0.0)
    reference = RefreshedReference(policy=policy, period=2, mix=1.0)
    step(reference, policy, 1.0)

    with muted_eval(reference):
        for _ in range(5):
            reference(rows(policy))
    assert weight(reference) == 0.0
    step(reference, policy, 2.0)
    step(reference, policy, 3.0)

    assert weight(reference) == 2.0
