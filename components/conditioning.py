"""Policies conditioned on preferences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.batch import decode_columns, decode_texts, encode_texts, keep_prompt
from rlcomp.columns import CONVERSATION
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.functional.min_norm import lattice
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Task
from rlcomp.pareto.conditioning import Conditioning
from rlcomp.text.preference_tokens import preference_points, preference_token
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.text.rows import pad_rows
from rlcomp.text.tokenizer import encode_all


class PolicyPromptRows(Component):
    """Stage that re-encodes demonstration rows with ``policy_prompt`` instead of ``prompt``.

    It serves the warm start (SFT) of a preference-conditioned policy, which would otherwise see
    preferences only in its rollouts.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``prompt``,
    ``policy_prompt`` ``[B, W]`` and ``columns`` (conversations) if present. Writes a new batch
    of ``tokens``, ``attention_mask`` and ``response_mask`` ``[B, T']``, in which the tokens after
    ``prompt`` follow ``policy_prompt``. The prompt's entries stay.

    Args:
        tokenizer: the tokenizer of the rows.
        prompt: the format of prompts; null: plain text.
    """

    reads = ("tokens", "attention_mask", "response_mask", "prompt", "policy_prompt")
    writes = ("tokens", "attention_mask", "response_mask")
    optional = ("columns",)
    fresh = True
    keeps_prompt = True

    def __init__(
        self, *, tokenizer: PreTrainedTokenizerBase, prompt: PromptFormat | None = None
    ) -> None:
        super().__init__()
        self.prompt = resolve_prompt_format(prompt, tokenizer)
        self.tokenizer = tokenizer

    def forward(self, batch: TensorDict) -> TensorDict:
        """Re-encode the rows."""
        texts = (decode_texts(batch[key]) for key in ("prompt", "policy_prompt"))
        columns = decode_columns(batch, [CONVERSATION])
        old_prompts, new_prompts = (self.prompt.encode(prompts, columns) for prompts in texts)
        lengths = batch["attention_mask"].sum(1).tolist()
        rows, masks = [], []
        for index, (old, new) in enumerate(zip(old_prompts, new_prompts, strict=True)):
            answer = slice(len(old), lengths[index])
            rows.append([*new, *batch["tokens"][index, answer].tolist()])
            masks.append([*[0] * len(new), *batch["response_mask"][index, answer].tolist()])
        pad, eos = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        tokens, attention_mask = pad_rows(rows, int(eos if pad is None else pad))
        entries = {
            "tokens": tokens,
            "attention_mask": attention_mask,
            "response_mask": pad_rows(masks, 0)[0].bool(),
        }
        device = batch["tokens"].device
        result = TensorDict(entries, batch_size=batch.batch_size).to(device)
        return keep_prompt(result, batch, torch.arange(len(batch), device=device))


class TokenPrefix(Conditioning):
    """Stage that prepends a preference token; its embedding is linear in the preference.

    The tokens belong to the tokenizer (``tokenizer=character_preference``), the map to the model
    (``model=tiny_conditioned``).

    Reads ``prompt`` ``[P, W]``. Writes ``preference``, float32 ``[P, K]``, each row of sum 1, and
    ``policy_prompt`` ``[P, W]``.

    Args:
        objectives: the stage that writes the rewards of several objectives.
        alpha: concentration of the Dirichlet distribution of preferences; 1: uniform; below 1:
            most weight is on one objective.
        task: the task, whose prompts must leave room for one more token.
        tokenizer: the policy's tokenizer; has one token per preference of a grid.
        context_length: largest number of tokens of prompt and answer.
        max_new_tokens: largest number of tokens of an answer.
        prompt: the format of prompts; null: plain text.

    Raises:
        ConfigError: there is only one objective, or the tokenizer has no tokens for preferences
            over this number of objectives.
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
        prompt: PromptFormat | None = None,
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
        self.check_fits(self.preference_text(lattice(len(self.names), self.levels)[0].tolist()))

    def preference_text(self, steps: Sequence[int]) -> str:
        """Return the preference token, as text."""
        return preference_token(steps)

    def _check_number(self) -> None:
        """Refuse a tokenizer whose preferences have another number of objectives."""
        point, *_ = preference_points(self.tokenizer).values()
        if len(point) != len(self.names):
            raise ConfigError(
                f"the tokenizer has tokens for preferences over {len(point)} objectives, but there "
                f"are {len(self.names)} ({', '.join(self.names)}): set "
                f"tokenizer.num_objectives={len(self.names)}"
            )


def _levels(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the number of levels that the tokenizer's preferences divide."""
    points = preference_points(tokenizer)
    if not points:
        raise ConfigError(
            "the tokenizer has no tokens for preferences: use tokenizer=character_preference "
            "model=tiny_conditioned, or conditioning=text_prefix"
        )
    return sum(next(iter(points.values())))


class TeacherPrompt(Component):
    """Stage that writes the prompt of a privileged teacher, which contains the solution.

    The policy does not see the solution. Reads ``prompt``, ``answer`` ``[P, W]``. Writes
    ``teacher_prompt`` ``[P, W]``, an entry of the prompt. ``reference=self_teacher`` scores the
    policy's answers after this prompt.

    Args:
        template: text in which ``{prompt}`` stands for the prompt and ``{answer}`` for the solution
            of the example.

    Raises:
        ConfigError: the template does not contain ``{prompt}``.

    Source:
        Vapnik & Vashist 2009, learning using privileged information; Snell et al. 2022 (context
        distillation), arXiv:2209.15189.
    """

    reads = ("prompt", "answer")
    writes = ("teacher_prompt",)

    def __init__(self, *, template: NonEmptyText = "{answer}={prompt}") -> None:
        super().__init__()
        if "{prompt}" not in template:
            raise ConfigError(f"template is {template!r}: it must hold {{prompt}}")
        self.template = template

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the teacher's prompts."""
        # Split first: ``{answer}`` in a prompt and ``{prompt}`` in an answer are text.
        pairs = zip(decode_texts(batch["prompt"]), decode_texts(batch["answer"]), strict=True)
        texts = [
            prompt.join(
                part.replace("{answer}", answer) for part in self.template.split("{prompt}")
            )
            for prompt, answer in pairs
        ]
        batch["teacher_prompt"] = encode_texts(texts).to(batch["prompt"].device)
        return batch


class TextPrefix(Conditioning):
    """Stage that prepends the preference as text: the steps of each objective.

    With the defaults and two objectives, the weights 7/9 and 2/9 are written ``"72:"``. More than 9
    levels need a separator between the numbers, such as ``template="{steps},"``.

    Reads ``prompt`` ``[P, W]``. Writes ``preference``, float32 ``[P, K]``, each row of sum 1, and
    ``policy_prompt`` ``[P, W]``.

    Args:
        objectives: the stage that writes the rewards of several objectives.
        alpha: concentration of the Dirichlet distribution of preferences; 1: uniform; below 1:
            most weight is on one objective.
        levels: number of steps that a preference divides among the objectives; a weight is the
            objective's steps divided by ``levels``.
        template: text of one objective; ``{steps}`` stands for its steps, ``{name}`` for its name.
        end: text between the steps and the prompt.
        task: the task, whose prompts must leave room for the prefix.
        tokenizer: the policy's tokenizer; needs every character of the prefix.
        context_length: largest number of tokens of prompt and answer.
        max_new_tokens: largest number of tokens of an answer.
        prompt: the format of prompts; null: plain text.

    Raises:
        ConfigError: there is only one objective, or two preferences would have the same text.
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
        prompt: PromptFormat | None = None,
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

    def preference_text(self, steps: Sequence[int]) -> str:
        """Return the text prefix."""
        parts = zip(self.names, steps, strict=True)
        return "".join(self._objective_text(name, count) for name, count in parts) + self.end

    def _objective_text(self, name: str, steps: int) -> str:
        """Return the text of one objective."""
        return self.template.replace("{steps}", str(steps)).replace("{name}", name)

    def _longest(self, name: str) -> str:
        """Return the text of an objective with the most tokens."""
        texts = [self._objective_text(name, steps) for steps in range(self.levels + 1)]
        return max(zip(map(len, encode_all(self.tokenizer, texts)), texts, strict=True))[1]

    def _check_readable(self) -> None:
        """Refuse a template whose text does not determine the steps."""
        if "{steps}" not in self.template:
            raise ConfigError(f"template is {self.template!r}: it must hold {{steps}}")
        # A name, or text other than digits, separates the numbers of two objectives.
        is_unique = "{name}" in self.template or not self._objective_text("", 0).isdigit()
        if self.levels > 9 and not is_unique:
            raise ConfigError(
                f"levels is {self.levels}, and with template {self.template!r} the steps 1 and 12 "
                "have the text of 11 and 2: set levels=9, or template='{steps},'"
            )
