"""Suite interface: held-out problems, the answering policy and the judging reward."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rlcomp.component import Component
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Example


@runtime_checkable
class Suite(Protocol):
    """Attributes of an evaluator of answers such as ``evaluator=accuracy``.

    Attributes:
        examples: the problems, the same for the same seed.
        levels: level of each problem, empty if there are none.
        policy: answers the problems.
        reward: judges the answers; writes ``correct`` and ``reward_valid``.
        prompt: converts a problem to tokens.
        max_new_tokens: longest answer, in tokens.
        samples_per_prompt: sampled answers to each problem.
        seed: seed of its draws.
    """

    examples: list[Example]
    levels: list[str]
    policy: Policy
    reward: Component
    prompt: Prompt
    max_new_tokens: int
    samples_per_prompt: int
    seed: int
