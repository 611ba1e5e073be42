"""Critique and revision of answers by the policy itself."""

from __future__ import annotations

import re

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.metrics import record
from rlcomp.seed import new_generator
from rlcomp.text.answers import answer_prompts_in_context
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.text.rows import response_rows

_FIELD = re.compile(r"\{(prompt|response)\}")


class Revised(Component):
    """Critique and revision (Constitutional AI): the policy's revision replaces each answer.

    The policy answers ``template`` with a critique, ``separator`` and a revision: the text after
    the first separator. Rows then hold the original prompt and the revision, as demonstrations. A
    row is dropped if the policy's text has no separator or nothing after it, if it was truncated,
    or if the context has no room for ``max_new_tokens`` after the filled template.

    Reads ``prompt``, ``response`` ``[B, W]``, ``group_id`` ``[B]``, and ``columns`` (conversations)
    if present. Writes a new batch of at most ``B`` rows: ``tokens``, ``attention_mask``,
    ``response_mask`` ``[B', T]``, ``prompt``, ``response``, ``group_id``; other entries of the
    prompt stay.

    Records ``revision/told``, the share of answers with a revision, and ``revision/changed``, the
    share of revisions that differ from their answers.

    Args:
        template: text with ``{prompt}`` and ``{response}``, and the principle unless the policy has
            learnt it.
        separator: text between critique and revision.
        max_new_tokens: maximum number of tokens of critique and revision together.
        prompt: prompt format; None: plain text.

    Raises:
        ConfigError: the template lacks a field.

    Source:
        Bai et al. 2022 (Constitutional AI), arXiv:2212.08073, section 3.1.
    """

    reads = ("prompt", "response", "group_id")
    optional = ("columns",)
    writes = ("tokens", "attention_mask", "response_mask", "prompt", "response", "group_id")
    fresh = True
    keeps_prompt = True

    def __init__(
        self,
        *,
        policy: Policy,
        template: NonEmptyText = "{prompt}{response}:",
        separator: NonEmptyText = "=",
        max_new_tokens: PositiveInt,
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        for field in ("{prompt}", "{response}"):
            if field not in template:
                raise ConfigError(f"Revised: template is {template!r}: must hold {field}")
        self.prompt = resolve_prompt_format(prompt, policy.tokenizer)
        self.policy = policy
        self.template = template
        self.separator = separator
        self.max_new_tokens = max_new_tokens
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of the revisions."""
        prompts, responses = (decode_texts(batch[key]) for key in ("prompt", "response"))
        revisions = self._revisions(prompts, responses)
        record("revision/told", torch.tensor([text is not None for text in revisions]).double())
        changed = [text != old for text, old in zip(revisions, responses, strict=True) if text]
        record("revision/changed", torch.tensor(changed, dtype=torch.float64))
        rows = response_rows(
            batch,
            [text or "" for text in revisions],
            prompt=self.prompt,
            tokenizer=self.policy.tokenizer,
        )
        return rows[torch.tensor([text is not None for text in revisions], device=rows.device)]

    def _revisions(self, prompts: list[str], responses: list[str]) -> list[str | None]:
        """Return the texts after the separator; None if there is no such text."""
        requests = [
            self._fill({"prompt": prompt, "response": response})
            for prompt, response in zip(prompts, responses, strict=True)
        ]
        answers = answer_prompts_in_context(
            self.policy,
            requests,
            # Without columns: a filled template does not continue the row's conversation.
            prompt_ids=self.prompt.encode(requests, [{}] * len(requests)),
            max_new_tokens=self.max_new_tokens,
            generator=self.generator,
        )
        texts = [answer.text if answer and not answer.truncated else "" for answer in answers]
        return [text.partition(self.separator)[2] or None for text in texts]

    def _fill(self, texts: dict[str, str]) -> str:
        """Fill the template in one pass, so that a field's name in a text has no effect."""
        return _FIELD.sub(lambda field: texts[field[1]], self.template)
