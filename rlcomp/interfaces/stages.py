"""Phase actions, the base of collectors, and functions that several concepts share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.errors import ConfigError, nearest
from rlcomp.functional.reduction import masked
from rlcomp.keys import Key
from rlcomp.metrics import record
from rlcomp.seed import next_request


@runtime_checkable
class PhaseAction(Protocol):
    """An entry of ``phases.NAME.on_begin``, which runs once before the first step of the phase.

    Actions run in the order of the list. Every component is an action, too: a reference copies the
    weights when a phase begins. A resumed run does not repeat an action, so that the effect of the
    action must be part of the checkpoint.
    """

    def begin_phase(self) -> None:
        """Run the action."""
        ...


class Collector(Component):
    """Base class of collectors, which return a new batch of rollouts for a batch of prompts.

    A collector that writes more keys extends the list: ``writes = (*Collector.writes, "greedy")``.
    :func:`rlcomp.batch.keep_prompt` copies the entries of a prompt (``per_prompt`` in its
    :class:`rlcomp.keys.Spec`) to each of its rows.

    Each call is a request: its draws from the collector's generators depend only on their seed and
    on its number (:func:`rlcomp.seed.next_request`).

    Class attributes:
        splits: True if the rows of a prompt stay the same when a batch is divided among several
            collectors. The collector must draw one number for each row
            (:func:`rlcomp.engine.uniforms.uniform`) and sample equally many rows for each prompt.
        refills: True if a worker may sample its rows by refilled decode slots
            (:class:`rlcomp.interfaces.cluster.RefillingCollector`).
    """

    reads: ClassVar[tuple[Key, ...]] = ("prompt",)
    optional: ClassVar[tuple[Key, ...]] = ("policy_prompt",)
    writes: ClassVar[tuple[Key, ...]] = (
        "tokens",
        "attention_mask",
        "response_mask",
        "rollout_log_probs",
        "group_id",
        "truncated",
        "prompt",
        "response",
        "policy_version",
    )
    may_write = ("sampling_mask", "routed_experts")
    fresh = True
    keeps_prompt = True
    splits: ClassVar[bool] = False
    refills: ClassVar[bool] = False

    def __call__(self, batch: TensorDict | None = None) -> TensorDict:
        """Return a new batch of rollouts, and seed the generators for the next request."""
        rows = super().__call__(batch)
        for value in vars(self).values():
            if isinstance(value, torch.Generator):
                next_request(value)
        return rows


@runtime_checkable
class HasModes(Protocol):
    """A distribution over points with known modes.

    Attributes:
        centres: the modes, ``[M, D]``.
    """

    centres: Tensor

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw points and return them, ``[rows, D]``."""
        ...


def nearest_mode(points: Tensor, centres: Tensor) -> Tensor:
    """Return the index of the mode nearest to each point.

    Args:
        points: shape ``[B, D]``.
        centres: shape ``[M, D]``.

    Returns:
        Shape ``[B]``, int64.

    Examples:
        >>> nearest_mode(torch.tensor([[0.9], [0.2]]), torch.tensor([[0.0], [1.0]]))
        tensor([1, 0])
    """
    return torch.cdist(points, centres).argmin(1)


Range = tuple[float, float]


def named_ranges(
    nominal: Mapping[str, float],
    ranges: Mapping[str, Sequence[float]],
    default_range: Callable[[float], Range],
    minimum: float,
) -> dict[str, Range]:
    """Return the range of each random parameter; a range of one value is left out.

    Args:
        nominal: nominal value of every parameter of the environment.
        ranges: ``[low, high]`` of each random parameter; empty: all parameters are random.
        default_range: function of a nominal value that returns the range around it.
        minimum: exclusive lower bound of the given ranges; default ranges are not checked.

    Raises:
        ConfigError: a parameter is unknown, or a range is not ``[low, high]`` with ``low <= high``
            above ``minimum``.
    """
    for name, bounds in ranges.items():
        where = f"environment.randomise.ranges.{name}"
        if name not in nominal:
            raise ConfigError(
                f"{where}: the environment has no such parameter{nearest(name, nominal)}"
            )
        if len(bounds) != 2 or not minimum < bounds[0] <= bounds[1]:
            raise ConfigError(
                f"{where} is {list(bounds)}: must be [low, high], low at most high and above "
                f"{minimum:g}"
            )
    result = {name: (float(low), float(high)) for name, (low, high) in ranges.items()}
    if not ranges:
        result = {name: default_range(value) for name, value in nominal.items()}
    return {name: (low, high) for name, (low, high) in result.items() if low < high}


def response_length(batch: TensorDict) -> Tensor:
    """Count the sampled tokens of each response, EOS included, tool output excluded.

    Returns:
        Shape ``[B]``, float32, or float64 if the reward is float64.
    """
    dtype = torch.promote_types(batch["reward"].dtype, torch.float32)
    length: Tensor = batch["response_mask"].sum(1).to(dtype)
    return length


def add_token_reward(batch: TensorDict, reward: Tensor) -> TensorDict:
    """Add rewards to ``token_reward`` and return the batch.

    Args:
        batch: holds ``response_mask`` ``[B, T]``, and ``token_reward`` ``[B, T]`` if an earlier
            stage wrote it.
        reward: rewards of tokens, ``[B, T]``, in reward units, 0 outside the mask.
    """
    if "token_reward" in batch.keys():
        reward = reward + masked(batch["token_reward"].detach(), batch["response_mask"])
    batch["token_reward"] = reward
    return batch


def write_shaped_reward(batch: TensorDict, name: str, part: Tensor, reward: Tensor) -> TensorDict:
    """Write a shaped reward and the shaper's contribution; both are 0 in invalid rows.

    Records ``reward/<name>`` and ``reward/shaped``, over valid rows.

    Args:
        batch: gets ``reward`` and a new ``rewards`` with the part in it.
        name: name of the part.
        part: shape ``[B]``, in reward units.
        reward: shape ``[B]``, the reward for later stages.

    Returns:
        The batch.
    """
    valid = batch["reward_valid"]
    part, reward = masked(part, valid), masked(reward, valid)
    batch["reward"] = reward
    batch["rewards"] = batch["rewards"].copy().set(name, part)
    record(f"reward/{name}", part, where=valid)
    record("reward/shaped", reward, where=valid)
    return batch
