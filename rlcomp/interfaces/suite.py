"""Suite interface: held-out problems, who answers them and who judges the answers."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rlcomp.component import Component
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Example


@runtime_checkable
class Suite(Protocol):
    """What an evaluator of answers holds, such as ``evaluator=accuracy``.

    Attributes:
        examples: the problems, the same for the same seed.
        levels: of each problem, empty where there are none.
        policy: answers.
        reward: judges, writing ``correct`` and ``reward_valid``.
        prompt: how a problem becomes tokens.
        max_new_tokens: longest answer, in tokens.
        samples_per_prompt: sampled answers to each.
        seed: of its draws.
    """

    examples: list[Example]
    levels: list[str]
    policy: Policy
    reward: Component
    prompt: Prompt
    max_new_tokens: int
    samples_per_prompt: int
    seed: int
