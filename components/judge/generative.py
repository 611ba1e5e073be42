"""Generative judge (LLM-as-a-judge): probability of "yes"."""

from __future__ import annotations

import re

import torch
from tensordict import TensorDict

from rlcomp.arguments import Checked, NonEmptyText, Probability
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.interfaces.options import check_options
from rlcomp.interfaces.policy import Policy
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.tokenizer import encode_all, encode_prompts

_FIELD = re.compile(r"\{(prediction|reference)\}")


class Generative(metaclass=Checked):
    """LLM-as-a-judge: probability of "yes" after a template with both texts.

    ``p(yes) / (p(yes) + p(no))`` at temperature 1. None where yes and no together have less than
    ``least_mass``, or where the template with the reference exceeds the context; 0 where the
    prediction makes it do so, so that none is too long to be judged.

    Args:
        model: what reads the template. The policy can judge itself, and can then learn to please
            itself: name another model for anything but a trial.
        template: holds ``{prediction}`` and ``{reference}``.
        yes_text: says that they agree.
        no_text: says that they do not.
        least_mass: of yes and no together, in [0, 1].

    Raises:
        ConfigError: the template lacks a field, or one of yes and no begins with the other.

    Source:
        A model that judges the next segment: Li et al. 2025 (RLPT), arXiv:2509.19249.
    """

    def __init__(
        self,
        *,
        model: Policy,
        template: NonEmptyText,
        yes_text: NonEmptyText = "yes",
        no_text: NonEmptyText = "no",
        least_mass: Probability = 0.05,
    ) -> None:
        for field in ("prediction", "reference"):
            if f"{{{field}}}" not in template:
                raise ConfigError(f"Generative: template {template!r} must hold {{{field}}}")
        check_options("Generative", yes_text=yes_text, no_text=no_text)
        self.model = model
        self.template = template
        self.yes_text = yes_text
        self.no_text = no_text
        self.least_mass = least_mass
        self._answers = encode_all(model.tokenizer, [yes_text, no_text])

    def __call__(self, prediction: str, reference: str) -> float | None:
        """The probability of yes."""
        rows = self._rows(prediction, reference)
        limit = self.model.context_length
        if limit is not None and rows["tokens"].shape[1] > limit:
            return None if self._rows("", reference)["tokens"].shape[1] > limit else 0.0
        with torch.no_grad():
            log_probs = self.model.log_probs(rows.to(self.model.device), decoding=Decoding()).sum(1)
        yes, no = log_probs.double().exp().tolist()
        return yes / (yes + no) if 0 < yes + no >= self.least_mass else None

    def _rows(self, prediction: str, reference: str) -> TensorDict:
        """The template with both texts, answered by yes and by no."""
        texts = {"prediction": prediction, "reference": reference}
        # In one pass, so that a prediction that spells {reference} stays what it is.
        asked = _FIELD.sub(lambda field: texts[field[1]], self.template)
        question = encode_prompts(self.model.tokenizer, [asked])
        return rows_from_ids(self.model.tokenizer, question * 2, self._answers)
