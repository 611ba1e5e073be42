"""Accuracy of an agent: episodes with an environment on held-out prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDict

from components.evaluator.accuracy import Accuracy
from rlcomp.arguments import NonEmptyText, NonNegativeInt, PositiveInt, Unbuilt
from rlcomp.batch import encode_texts
from rlcomp.component import Component
from rlcomp.data.examples import Split, prompt_batch
from rlcomp.engine.decoding import Decoding
from rlcomp.episodes.host import Hosts
from rlcomp.episodes.player import Player
from rlcomp.interfaces.environment import Environment
from rlcomp.interfaces.policy import TakesTurns
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.reward import without_failed
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record, recording


class AgentAccuracy(Accuracy):
    """Accuracy and pass@k of episodes with an environment, on held-out prompts.

    As :class:`components.evaluator.accuracy.Accuracy`, with episodes for answers: records the same
    and ``<name>/turns``, of the sampled episodes. Episodes whose environment failed are left out.

    Args:
        policy: takes the turns, with its own sampling settings and greedily.
        environment: as of the collector.
        hosts: where environments live; in the process if not given.
        task: its held-out part is asked.
        reward: writes ``correct`` and ``reward_valid`` of an episode.
        max_turns: of the policy, in an episode.
        max_new_tokens: longest turn, in tokens.
        observation_tokens: longest observation, its closing text aside.
        split: ``"training"`` asks prompts that training may ask as well.
        num_prompts: how many prompts; fewer when the task has fewer.
        samples_per_prompt: sampled episodes per prompt.
        num_shown: how many episodes are kept to be read.
        name: what its metrics are called; another beside it needs another.
        by: levels of difficulty, or domains, as of the accuracy.
        prompt: how prompts become tokens, as in training; plain text if not given.

    Raises:
        ConfigError: as the accuracy; the environment cannot be made; or the policy takes no turns.
        DataError: a held-out prompt and its first turn may exceed the policy's context.
    """

    def __init__(
        self,
        *,
        policy: TakesTurns,
        environment: Callable[..., Environment] | Unbuilt,
        hosts: Hosts | None = None,
        task: Task,
        reward: Component,
        max_turns: PositiveInt,
        max_new_tokens: PositiveInt,
        observation_tokens: PositiveInt = 256,
        split: Split = "held_out",
        num_prompts: PositiveInt = 256,
        samples_per_prompt: PositiveInt = 4,
        num_shown: NonNegativeInt = 8,
        name: NonEmptyText = "evaluation",
        by: NonEmptyText | None = None,
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(
            policy=policy,
            task=task,
            reward=reward,
            split=split,
            num_prompts=num_prompts,
            samples_per_prompt=samples_per_prompt,
            max_new_tokens=max_new_tokens,
            num_shown=num_shown,
            name=name,
            by=by,
            prompt=prompt,
        )
        self.player = Player(
            policy,
            environment,
            hosts,
            max_turns=max_turns,
            max_new_tokens=max_new_tokens,
            observation_tokens=observation_tokens,
            prompt=prompt,
        )

    def measure(self, greedy: TensorDict, sampled: TensorDict) -> None:
        """Record the metrics of the episodes."""
        super().measure(greedy, sampled)
        whole = without_failed(sampled, torch.ones_like(sampled["reward_valid"]))
        record(f"{self.name}/turns", sampled["turn_id"].amax(1) + 1.0, where=whole)

    def answers(
        self, asked: Sequence[str], group_size: int, decoding: Decoding | None
    ) -> TensorDict:
        """Episodes of the held-out prompts with rewards, ``group_size`` rows per prompt."""
        batch = prompt_batch(self.examples)
        batch["policy_prompt"] = encode_texts(asked)
        rows = self.player.play(
            batch,
            group_size=group_size,
            decoding=decoding,
            generator=torch.Generator().manual_seed(self.seed),
            seed=self.seed,
        )
        with recording():  # the reward's own metrics are the training reward's
            judged: TensorDict = self.reward(rows)
        judged["reward_valid"] = without_failed(rows, judged["reward_valid"])
        return judged
