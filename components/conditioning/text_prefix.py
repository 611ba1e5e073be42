"""Preference conditioning by a text prefix (Rewards-in-Context)."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Task
from rlcomp.pareto.conditioning import Conditioning
from rlcomp.text.tokenizer import encode_all


class TextPrefix(Conditioning):
    """Stage that prepends the preference as text: the steps of each objective.

    With the defaults and two objectives, weights 7/9 and 2/9 are written ``"72:"``. More than 9
    levels need a separator between the numbers: ``template="{steps},"``.

    Reads ``prompt`` ``[P, W]``. Writes ``preference``, float32 ``[P, K]``, each row of sum 1, and
    ``policy_prompt`` ``[P, W]``.

    Args:
        objectives: the stage that has several objectives.
        alpha: concentration of the Dirichlet distribution; 1 is uniform, less prefers one objective
            at a time.
        levels: number of steps that a preference divides among the objectives.
        template: text of one objective; ``{steps}`` stands for its steps, ``{name}`` for its name.
        end: text between the prefix and the prompt.
        task: the task, whose prompts must leave room for the prefix.
        tokenizer: the policy's tokenizer; needs every character of the prefix.
        context_length: tokens the model can hold.
        max_new_tokens: tokens an answer may take.
        prompt: how prompts become tokens; plain text if not given.

    Raises:
        ConfigError: there is one objective only, or two preferences would have the same text.
        DataError: the tokenizer cannot write the prefix, or a prompt after it leaves no room for
            the answer.

    Source:
        Yang et al. 2024, arXiv:2402.10207 (Rewards-in-Context), section 3.1.
    """

    def __init__(
        self,
        *,
        objectives: Component,
        alpha: PositiveFloat = 1.0,
        levels: PositiveInt = 9,
        template: NonEmptyText = "{steps}",
        end: str = ":",
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        context_length: PositiveInt,
        max_new_tokens: PositiveInt,
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(
            objectives=objectives,
            alpha=alpha,
            levels=levels,
            task=task,
            tokenizer=tokenizer,
            context_length=context_length,
            max_new_tokens=max_new_tokens,
            prompt=prompt,
        )
        self.template = template
        self.end = end
        self._check_readable()
        self.check_fits("".join(map(self._longest, self.names)) + end)

    def written(self, steps: Sequence[int]) -> str:
        """Return the text prefix."""
        parts = zip(self.names, steps, strict=True)
        return "".join(self._one(name, count) for name, count in parts) + self.end

    def _one(self, name: str, steps: int) -> str:
        return self.template.replace("{steps}", str(steps)).replace("{name}", name)

    def _longest(self, name: str) -> str:
        """Return the longest prefix, in tokens."""
        texts = [self._one(name, steps) for steps in range(self.levels + 1)]
        return max(zip(map(len, encode_all(self.tokenizer, texts)), texts, strict=True))[1]

    def _check_readable(self) -> None:
        if "{steps}" not in self.template:
            raise ConfigError(f"template is {self.template!r}: it must hold {{steps}}")
        told_apart = "{name}" in self.template or not self._one("", 0).isdigit()
        if self.levels > 9 and not told_apart:
            raise ConfigError(
                f"levels is {self.levels}, and with template {self.template!r} 1 and 12 steps read "
                "like 11 and 2: set levels=9, or template='{steps},'"
            )
