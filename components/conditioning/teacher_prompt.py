"""Prompt of a privileged teacher, with the solution."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError


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
