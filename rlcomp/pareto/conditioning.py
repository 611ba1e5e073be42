"""Preference conditioning: policies conditioned on objective weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import PositiveFloat, PositiveInt
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.data.examples import check_prompts_fit
from rlcomp.errors import ShapeError
from rlcomp.functional.min_norm import dirichlet, nearest_point
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Example, Task
from rlcomp.metrics import record
from rlcomp.pareto.objectives import as_multi_objective
from rlcomp.seed import new_generator
from rlcomp.text.prompt import resolve_prompt_format


class Conditioning(Component):
    """Preference conditioning: draws a preference per prompt and prepends it to the prompt.

    ``w ~ Dirichlet(alpha, ..., alpha)``, rounded to multiples of ``1 / levels``.

    The policy reads exactly the weights that combine its objectives. All responses to a prompt
    share them. A subclass defines :meth:`preference_text`.

    Reads ``prompt`` ``[P, W]``. Writes ``preference``, float32 ``[P, K]``, each row of sum 1, and
    ``policy_prompt`` ``[P, W]``; ``prompt`` is unchanged, for verifiers. Records
    ``preference/<objective>``, the mean weights.

    Args:
        objectives: the stage with several objectives.
        alpha: concentration of the distribution; 1 is uniform, smaller values prefer one objective
            at a time.
        levels: units of a preference to distribute among the objectives.
        task: its prompts must leave room for the preference.
        tokenizer: tokenizer of the policy.
        context_length: tokens the model can hold.
        max_new_tokens: largest number of tokens of an answer.
        prompt: format of prompts; by default plain text.

    Raises:
        ConfigError: there is only one objective.
        DataError: the tokenizer cannot write a preference, or a prompt with one leaves no room for
            the answer.

    Source:
        Dirichlet preferences: Abels et al. 2019, arXiv:1809.07803; in the prompt: Yang et al. 2024,
        arXiv:2402.10207 (Rewards-in-Context).
    """

    reads = ("prompt",)
    writes = ("preference", "policy_prompt")

    def __init__(
        self,
        *,
        objectives: Component,
        alpha: PositiveFloat,
        levels: PositiveInt,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        context_length: PositiveInt,
        max_new_tokens: PositiveInt,
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        self.objectives = as_multi_objective(objectives, "ask for none with conditioning=none")
        self.alpha = alpha
        self.levels = levels
        self.task = task
        self.tokenizer = tokenizer
        self.context_length = context_length
        self.max_new_tokens = max_new_tokens
        self.prompt = resolve_prompt_format(prompt, tokenizer)
        self.generator = new_generator()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the objectives, in the order of the weights."""
        return self.objectives.names

    @abstractmethod
    def preference_text(self, steps: Sequence[int]) -> str:
        """Return the text of a preference; ``steps`` are ``K`` numbers of sum ``levels``."""
        raise NotImplementedError

    def check_fits(self, longest: str) -> None:
        """Raise DataError if prompts with the longest preference leave no room for a response."""
        task = _PrefixedTask(self.task.held_out, self.task, longest)
        sizes = (self.context_length, self.max_new_tokens)
        check_prompts_fit(task, self.tokenizer, *sizes, self.prompt)

    def condition(self, prompts: Sequence[str], weights: Tensor) -> list[str]:
        """Round the weights of ``P`` prompts to multiples of 1 / levels; prepend their texts.

        Weights are ``[K]`` or ``[P, K]``. ShapeError if there is not one for each objective;
        ConfigError if they are negative or NaN, or do not sum to 1.
        """
        if weights.shape[-1] != len(self.names):
            raise ShapeError(
                f"'weights' has shape {list(weights.shape)}, but there are {len(self.names)} "
                f"objectives: {', '.join(self.names)}"
            )
        steps = nearest_point(weights, self.levels).expand(len(prompts), -1)
        return [
            self.preference_text(row) + prompt
            for row, prompt in zip(steps.tolist(), prompts, strict=True)
        ]

    def forward(self, batch: TensorDict) -> TensorDict:
        """Draw preferences; write ``preference`` and ``policy_prompt``."""
        prompts = decode_texts(batch["prompt"])
        weights = dirichlet(len(prompts), len(self.names), self.alpha, self.generator)
        preference = nearest_point(weights, self.levels) / self.levels
        for name, column in zip(self.names, preference.unbind(1), strict=True):
            record(f"preference/{name}", column)
        device = batch["prompt"].device
        batch["preference"] = preference.to(device)
        batch["policy_prompt"] = encode_texts(self.condition(prompts, preference)).to(device)
        return batch


@dataclass
class _PrefixedTask:
    """Task with a prefix before every prompt."""

    held_out: float
    task: Task
    prefix: str

    def __len__(self) -> int:
        return len(self.task)

    def example(self, index: int) -> Example:
        example = self.task.example(index)
        return replace(example, prompt=self.prefix + example.prompt)
