"""Held-out returns of all objectives, and their hypervolume over a grid of preferences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from components.evaluator.accuracy import Accuracy
from rlcomp.arguments import NonNegativeInt, PositiveInt
from rlcomp.component import Component
from rlcomp.errors import ConfigError, nearest, require
from rlcomp.functional.min_norm import lattice, nearest_point
from rlcomp.functional.pareto_front import hypervolume
from rlcomp.functional.statistics import rank_correlation
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.pareto.conditioning import Conditioning
from rlcomp.pareto.objectives import as_multi_objective


class ObjectivesEvaluator(Accuracy):
    """Evaluator of accuracy, of the returns of every objective and of their hypervolume.

    Records the metrics of :class:`Accuracy` on held-out prompts; ``evaluation/return/<objective>``,
    the mean reward of the sampled answers, with a 95 % interval over prompts (``_low``, ``_high``;
    as for ``Accuracy``), unweighted and before any shaping; ``evaluation/hypervolume``, the volume
    that these returns dominate above the reference point. Answers without an objective's reward do
    not count for it.

    A policy that is conditioned on a preference is evaluated with equal weights, and then, with one
    sampled answer per prompt, with every preference of a grid. Then
    ``evaluation/return/<objective>@<weights>`` (``@0.333:0.667``, in the order of the objectives)
    are the returns of each preference, ``evaluation/hypervolume`` is the volume of all, and
    ``evaluation/response/<objective>`` is the rank correlation of an objective's return with its
    weight: 1 if a larger weight always gives a larger return.

    Args:
        policy: the model that answers, with its own sampling settings and greedily.
        task: the task with the held-out prompts.
        reward: writes ``reward``, ``correct`` and ``reward_valid``.
        objectives: the stage that has several objectives; its weights are not used or changed.
        conditioning: the conditioning of the policy on a preference; none: no conditioning.
        preference_steps: n: the weights of the grid are multiples of ``1/n``; at most the
            conditioning's levels. 3 makes 4 preferences of two objectives, 10 of three.
        reference_point: reference point of the hypervolume, by objective; 0 if left out.
        num_prompts: number of held-out prompts; fewer if the task has fewer.
        samples_per_prompt: sampled answers per prompt.
        max_new_tokens: longest answer, in tokens.
        num_shown: number of answers saved as samples.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        ConfigError: the run has one objective only, ``reference_point`` names an unknown objective,
            or the conditioning has other objectives; or as in :class:`Accuracy`.
        MissingExtra: moocore is not installed.

    Source:
        Evaluation of one policy on a grid of preferences: Yang et al. 2024, arXiv:2402.10207.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        task: Task,
        reward: Component,
        objectives: Component,
        conditioning: Component | None = None,
        preference_steps: PositiveInt = 3,
        reference_point: dict[str, float] | None = None,
        num_prompts: PositiveInt = 256,
        samples_per_prompt: PositiveInt = 4,
        max_new_tokens: PositiveInt,
        num_shown: NonNegativeInt = 8,
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__(
            policy=policy,
            task=task,
            reward=reward,
            num_prompts=num_prompts,
            samples_per_prompt=samples_per_prompt,
            max_new_tokens=max_new_tokens,
            num_shown=num_shown,
            prompt=prompt,
        )
        require("moocore", "pareto")  # fail now, not after the first phase
        remedy = "evaluate with evaluator@evaluation=accuracy"
        self.objectives = as_multi_objective(objectives, remedy)
        self.conditioning = conditioning if isinstance(conditioning, Conditioning) else None
        names = self.objectives.names
        self.reference = _reference(reference_point or {}, names)
        self.plain_prompts = self.policy_prompts
        self.preferences = torch.zeros(0, len(names))
        if self.conditioning is not None:
            self.preferences = _preference_grid(self.conditioning, names, preference_steps)
            equal = torch.full((len(names),), 1 / len(names), dtype=torch.float64)
            self.policy_prompts = self.conditioning.condition(self.plain_prompts, equal)

    def measure(self, greedy: TensorDict, sampled: TensorDict) -> None:
        """Record accuracies, returns and the hypervolume."""
        super().measure(greedy, sampled)
        returns = self._returns(sampled)
        for name, per_prompt in zip(self.objectives.names, returns, strict=True):
            self.record_mean(f"return/{name}", per_prompt[per_prompt.isfinite()])
        points = returns.nanmean(1)[None]
        if self.conditioning is not None:
            points = self._grid_returns(self.conditioning)
        reached = points[points.isfinite().all(1)]
        if len(reached):
            record("evaluation/hypervolume", hypervolume(reached, self.reference))

    def _returns(self, answered: TensorDict) -> Tensor:
        """Return the mean reward of each prompt's answers, ``[K, P]``; NaN if there is none."""
        rewards = self.objectives.per_objective(answered)
        rows = [rewards[name].detach().double().cpu() for name in self.objectives.names]
        return torch.stack(rows).view(len(rows), len(self.examples), -1).nanmean(2)

    def _grid_returns(self, conditioning: Conditioning) -> Tensor:
        """Return the returns at every preference of the grid, ``[G, K]``."""
        rows = [self._conditioned_returns(conditioning, each) for each in self.preferences]
        points = torch.stack(rows)
        for index, name in enumerate(self.objectives.names):
            finite = points[:, index].isfinite()
            weights, returns = self.preferences[finite, index], points[finite, index]
            if len(returns) > 1:
                record(f"evaluation/response/{name}", rank_correlation(weights, returns))
        return points

    def _conditioned_returns(self, conditioning: Conditioning, weights: Tensor) -> Tensor:
        """Return the returns of the policy conditioned on these weights, ``[K]``."""
        prompts = conditioning.condition(self.plain_prompts, weights)
        point = self._returns(self.answers(prompts, 1, None)).nanmean(1)
        label = ":".join(f"{weight:.3g}" for weight in weights.tolist())
        for name, value in zip(self.objectives.names, point, strict=True):
            record(f"evaluation/return/{name}@{label}", value, where=value.isfinite())
        return point


def _preference_grid(conditioning: Conditioning, names: tuple[str, ...], steps: int) -> Tensor:
    """Return the grid of preferences to evaluate, ``[G, K]``, rounded as the conditioning does."""
    if conditioning.names != names:
        raise ConfigError(
            f"conditioning.objectives are {list(conditioning.names)}, but the objectives are "
            f"{list(names)}: give both the same stage"
        )
    steps = min(steps, conditioning.levels)
    nearest_written = nearest_point(lattice(len(names), steps) / steps, conditioning.levels)
    return nearest_written.double() / conditioning.levels


def _reference(point: dict[str, float], names: Sequence[str]) -> list[float]:
    """Return the reference point of the hypervolume in the order of the objectives."""
    for name in point:
        if name not in names:
            raise ConfigError(f"reference_point names {name!r}{nearest(name, names)}")
    return [point.get(name, 0.0) for name in names]
