"""Preference conditioning by one embedding token before the prompt."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import PositiveFloat, PositiveInt
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.functional.simplex import lattice
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Task
from rlcomp.pareto.conditioning import Conditioning
from rlcomp.text.preference_tokens import preference_points, preference_token


class Embedding(Conditioning):
    """Stage that prepends a preference token; its embedding is linear in the preference.

    The tokens belong to the tokenizer (``tokenizer=character_preference``), the map to the model
    (``model=tiny_conditioned``).

    Reads ``prompt`` ``[P, W]``. Writes ``preference``, float32 ``[P, K]``, each row of sum 1, and
    ``policy_prompt`` ``[P, W]``.

    Args:
        objectives: the stage that has several objectives.
        alpha: concentration of the Dirichlet distribution; 1 is uniform, less prefers one objective
            at a time.
        task: the task, whose prompts must leave room for one more token.
        tokenizer: the policy's tokenizer; has a token for every preference on a grid of steps.
        context_length: tokens the model can hold.
        max_new_tokens: tokens an answer may take.
        prompt: how prompts become tokens; plain text if not given.

    Raises:
        ConfigError: there is one objective only, or the tokenizer has no tokens for preferences
            of that number of objectives.
        DataError: a prompt leaves no room for the answer.
    """

    def __init__(
        self,
        *,
        objectives: Component,
        alpha: PositiveFloat = 1.0,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        context_length: PositiveInt,
        max_new_tokens: PositiveInt,
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(
            objectives=objectives,
            alpha=alpha,
            levels=_levels(tokenizer),
            task=task,
            tokenizer=tokenizer,
            context_length=context_length,
            max_new_tokens=max_new_tokens,
            prompt=prompt,
        )
        self._check_number()
        self.check_fits(self.written(lattice(len(self.names), self.levels)[0].tolist()))

    def written(self, steps: Sequence[int]) -> str:
        """Return the preference token, as text."""
        return preference_token(steps)

    def _check_number(self) -> None:
        point, *_ = preference_points(self.tokenizer).values()
        if len(point) != len(self.names):
            raise ConfigError(
                f"the tokenizer's tokens for preferences are of {len(point)} objectives, but there "
                f"are {len(self.names)} ({', '.join(self.names)}): set "
                f"tokenizer.num_objectives={len(self.names)}"
            )


def _levels(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the number of steps (levels) of the tokenizer's preferences."""
    points = preference_points(tokenizer)
    if not points:
        raise ConfigError(
            "the tokenizer has no tokens for preferences: use tokenizer=character_preference "
            "model=tiny_conditioned, or conditioning=text_prefix"
        )
    return sum(next(iter(points.values())))
