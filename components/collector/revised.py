"""Revisions: the policy criticises and rewrites its own answers."""

from __future__ import annotations

import re

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import Prompt
from rlcomp.metrics import record
from rlcomp.seed import new_generator
from rlcomp.text.answers import answers_where_room
from rlcomp.text.prompt import or_text
from rlcomp.text.rewritten import with_responses

_FIELD = re.compile(r"\{(prompt|response)\}")


class Revised(Component):
    """Critique and revision (Constitutional AI): the policy's own revision replaces each answer.

    The policy answers ``template`` with a critique, ``separator`` and the revision, which is what
    stands behind the first separator. Rows are then the original prompt and the revision, as
    demonstrations are: to be imitated, and not on-policy. A row without a separator, with nothing
    behind it, that was cut off or that the context has no room to revise is left out.

    Reads ``prompt``, ``response`` ``[B, W]``, ``group_id`` ``[B]``. Writes a new batch of at most
    ``B`` rows: ``tokens``, ``attention_mask``, ``response_mask`` ``[B', T]``, ``prompt``,
    ``response``, ``group_id``; what belongs to the prompt stays.

    Records ``revision/told``, the share of answers that got a revision, and ``revision/changed``,
    the share of these that it changes.

    Args:
        policy: the model that criticises and revises.
        template: holds ``{prompt}`` and ``{response}``; it names the principle, where the policy is
            not taught it.
        separator: between critique and revision.
        max_new_tokens: of critique and revision together.
        prompt: how texts become tokens; plain text if not given.

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
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__()
        for field in ("{prompt}", "{response}"):
            if field not in template:
                raise ConfigError(f"Revised: template is {template!r}: must hold {field}")
        self.prompt = or_text(prompt, policy.tokenizer)
        self.policy = policy
        self.template = template
        self.separator = separator
        self.max_new_tokens = max_new_tokens
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Rows of the revisions."""
        prompts, responses = (decode_texts(batch[key]) for key in ("prompt", "response"))
        told = self._revisions(prompts, responses)
        record("revision/told", torch.tensor([text is not None for text in told]).double())
        changed = [text != old for text, old in zip(told, responses, strict=True) if text]
        record("revision/changed", torch.tensor(changed, dtype=torch.float64))
        rows = with_responses(
            batch,
            [text or "" for text in told],
            prompt=self.prompt,
            tokenizer=self.policy.tokenizer,
        )
        return rows[torch.tensor([text is not None for text in told], device=rows.device)]

    def _revisions(self, prompts: list[str], responses: list[str]) -> list[str | None]:
        """What stands behind the separator; None where nothing does."""
        both = zip(prompts, responses, strict=True)
        asked = [self._asked({"prompt": each, "response": text}) for each, text in both]
        answers = answers_where_room(
            self.policy,
            asked,
            prompt_ids=self.prompt.encode(asked, [{}] * len(asked)),
            max_new_tokens=self.max_new_tokens,
            generator=self.generator,
        )
        whole = [answer.text if answer and not answer.truncated else "" for answer in answers]
        return [text.partition(self.separator)[2] or None for text in whole]

    def _asked(self, texts: dict[str, str]) -> str:
        """The template with the texts, in one pass: a text that spells a field stays as it is."""
        return _FIELD.sub(lambda field: texts[field[1]], self.template)
