"""The contract of advantage estimators, beside the contract of every component."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.keys import Key, spec
from rlcomp.testing.batch import example_batch
from rlcomp.testing.subject import Subject

# Reward and size of groups of equal rewards. Their means are not exact in float32, in any order of
# summation.
_EQUAL = ((0.35, 7), (0.7, 12), (0.1, 8))
# Rewards of a group of nearly equal rewards.
_NEARLY = [0.35] * 7 + [0.95]
# Largest size of a bounded advantage.
_LIMIT = 100.0


def check_advantage(component: Component, batch: TensorDict | None = None) -> None:
    """Check the laws of a component that writes ``advantage``, as :func:`check_component` does.

    - the advantage is 0 outside the mask
    - it stays bounded in groups of (nearly) equal rewards; for a group baseline
      (``min_group_size`` of 2 or more) it is 0 where all rewards are equal, although their float32
      mean is not exact
    - it is 0 in a group of one (group baselines) and where the reward is not valid, and an invalid
      reward changes no other row
    - a batch of empty responses gives finite advantages

    Args:
        component: the component under test.
        batch: replaces the :func:`example_batch` of the keys it reads; only the first law is then
            checked.

    Raises:
        ContractError: names the law and the fault.
    """
    subject = Subject(component, batch)
    try:
        _check_outside_mask(subject)
        if batch is None:
            _check_rewards(subject)
            _check_empty_responses(subject)
    finally:
        subject.restore()


def _advantage(subject: Subject, batch: TensorDict) -> Tensor:
    advantage: Tensor = subject.run(batch)[subject.name("advantage")]
    return advantage


def _check_outside_mask(subject: Subject) -> None:
    advantage = _advantage(subject, subject.batch)
    outside = torch.where(subject.inside, torch.zeros_like(advantage), advantage)
    subject.hold_equal(
        "the advantage is 0 outside the mask", "advantage", outside, torch.zeros_like(outside)
    )


def _check_rewards(subject: Subject) -> None:
    if subject.name("reward") not in subject.reads:
        return
    equal = _group_batch(subject, [[value] * n for value, n in _EQUAL])
    advantage = _advantage(subject, equal)
    is_group_baseline = subject.component.min_group_size >= 2
    _check_bounded(subject, advantage, "in groups of equal rewards")
    if is_group_baseline:
        law = "equal rewards give advantage 0"
        subject.hold_equal(law, "advantage", advantage, torch.zeros_like(advantage))
    nearly = _group_batch(subject, [_NEARLY])
    _check_bounded(subject, _advantage(subject, nearly), "for rewards 0.35 x 7 and 0.95")
    if is_group_baseline:
        alone = _advantage(subject, _group_batch(subject, [[0.7], [0.0, 1.0]]))[0]
        law = "a group of one has advantage 0"
        subject.hold_equal(law, "advantage", alone, torch.zeros_like(alone))
    if subject.name("reward_valid") in subject.reads:
        _check_invalid_reward(subject)


def _check_bounded(subject: Subject, advantage: Tensor, where: str) -> None:
    size = float(advantage.abs().max())
    if not size <= _LIMIT:
        subject.refuse("advantages do not explode", f"'advantage' reaches {size:.3g} {where}")


def _group_batch(subject: Subject, rewards: list[list[float]]) -> TensorDict:
    """Return a batch of groups with these rewards, all valid."""
    values = torch.tensor([value for group in rewards for value in group])
    groups = torch.tensor([index for index, group in enumerate(rewards) for _ in group])
    keys = {subject.names.get(key, key) for key in subject.reads}
    batch = example_batch(sorted(keys), rows=len(values))
    fixed: dict[Key, Tensor] = {
        "reward": values,
        "group_id": groups,
        "reward_valid": torch.ones(len(values), dtype=torch.bool),
    }
    is_first = torch.tensor([row == 0 for group in rewards for row in range(len(group))])
    fixed |= {key: is_first for key in keys if spec(key).example == "first_of_group"}
    entries = {
        key: fixed.get(subject.names.get(key, key), batch[subject.names.get(key, key)])
        for key in subject.reads
    }
    return TensorDict(entries, batch_size=[len(values)])


def _check_invalid_reward(subject: Subject) -> None:
    reward, valid = subject.name("reward"), subject.name("reward_valid")
    batch = _group_batch(subject, [[0.0, 1.0, 0.5], [1.0, 0.0]])
    batch[valid] = torch.tensor([True, False, True, True, True])
    expected = _advantage(subject, batch)
    for value in (1e6, float("nan")):
        other = batch.copy()
        other[reward] = torch.where(batch[valid], batch[reward], value)
        law = "an invalid reward changes nothing"
        subject.hold_equal(law, "advantage", _advantage(subject, other), expected)
    law = "an invalid reward has advantage 0"
    subject.hold_equal(law, "advantage", expected[1], torch.zeros_like(expected[1]))


def _check_empty_responses(subject: Subject) -> None:
    mask = subject.name("response_mask")
    if mask not in subject.reads:
        return
    batch = subject.batch.copy()
    batch[mask] = torch.zeros_like(batch[mask])
    if not bool(_advantage(subject, batch).isfinite().all()):
        subject.refuse("a batch of empty responses is harmless", "'advantage' is not finite")
