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
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Task
from rlcomp.pareto.conditioning import Conditioning
from rlcomp.text.preference_tokens import preference_points, preference_token
from rlcomp.text.prompt import or_text
from rlcomp.text.rows import padded
from rlcomp.text.tokenizer import encode_all


class PolicyPromptRows(Component):
    """Stage that re-encodes demonstration rows with ``policy_prompt`` instead of ``prompt``.

    It serves the warm start (SFT) of a preference-conditioned policy, which would otherwise meet
    preferences only in its rollouts.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``prompt``,
    ``policy_prompt`` ``[B, W]`` and ``columns`` (conversations). Writes a new batch with the first
    three, in which the tokens after the prompt follow ``policy_prompt``; of a conversation, these
    are all trained tokens. The prompt's entries stay.

    Args:
        tokenizer: the one the rows were encoded with.
        prompt: how prompts became tokens; plain text if not given.
    """

    reads = ("tokens", "attention_mask", "response_mask", "prompt", "policy_prompt")
    writes = ("tokens", "attention_mask", "response_mask")
    optional = ("columns",)
    fresh = True
    keeps_prompt = True

    def __init__(self, *, tokenizer: PreTrainedTokenizerBase, prompt: Prompt | None = None) -> None:
        super().__init__()
        self.prompt = or_text(prompt, tokenizer)
        self.tokenizer = tokenizer

    def forward(self, batch: TensorDict) -> TensorDict:
        """Re-encode the rows."""
        texts = (decode_texts(batch[key]) for key in ("prompt", "policy_prompt"))
        known = decode_columns(batch, [CONVERSATION])
        before, after = (self.prompt.encode(each, known) for each in texts)
        lengths = batch["attention_mask"].sum(1).tolist()
        rows, masks = [], []
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            behind = slice(len(old), lengths[index])
            rows.append([*new, *batch["tokens"][index, behind].tolist()])
            masks.append([*[0] * len(new), *batch["response_mask"][index, behind].tolist()])
        pad, eos = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        tokens, filled = padded(rows, int(eos if pad is None else pad))
        columns = {
            "tokens": tokens,
            "attention_mask": filled,
            "response_mask": padded(masks, 0)[0].bool(),
        }
        device = batch["tokens"].device
        entries = {key: column.to(device) for key, column in columns.items()}
        rows = TensorDict(entries, batch_size=batch.batch_size)
        return keep_prompt(rows, batch, torch.arange(len(batch), device=device))


class TokenPrefix(Conditioning):
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


class TeacherPrompt(Component):
    """Stage that writes the prompt of a privileged teacher, with the solution.

    The policy does not see the solution. Reads ``prompt``, ``answer`` ``[P, W]``. Writes
    ``teacher_prompt`` ``[P, W]``, an entry of the prompt: ``reference=self_teacher`` scores the
    policy's answers after it.

    Args:
        template: text with ``{prompt}`` and ``{answer}`` for those of the example.

    Raises:
        ConfigError: the template has no place for the prompt.

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
