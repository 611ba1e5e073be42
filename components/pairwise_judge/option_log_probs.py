"""LLM-as-a-judge of pairs, by the probabilities of two options."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from tensordict import TensorDict

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt, Probability
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.interfaces.options import check_options
from rlcomp.interfaces.pairwise_judge import Shown
from rlcomp.interfaces.policy import Policy
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.tokenizer import encode_all, encode_prompts

_FIELD = re.compile(r"\{(prompt|first|second|rationale)\}")


class OptionLogProbs(metaclass=Checked):
    """LLM-as-a-judge of pairs: ``p(first) / (p(first) + p(second))`` after a template.

    ``p`` of an option is the probability of its text at temperature 1. None where both together
    have less than ``least_mass``, or where the context cannot hold the template. An answer is
    encoded as plain text: in it a field, an option or a special token has no meaning.

    Args:
        model: what reads the template. The policy can judge itself, and can then learn to please
            itself.
        template: holds ``{prompt}``, ``{first}`` and ``{second}``, and ``{rationale}`` under
            ``pairwise_judge=reasoned``.
        first_text: says that the first answer is better.
        second_text: says that the second one is.
        least_mass: of both options together, in [0, 1].
        batch_size: pairs in one forward pass.

    Raises:
        ConfigError: the template lacks a field, or one option begins with the other.

    Source:
        Lee et al. 2023 (RLAIF), arXiv:2309.00267, section 2.1 (soft labels).
    """

    def __init__(
        self,
        *,
        model: Policy,
        template: NonEmptyText,
        first_text: NonEmptyText = "1",
        second_text: NonEmptyText = "2",
        least_mass: Probability = 0.05,
        batch_size: PositiveInt = 64,
    ) -> None:
        for field in Shown._fields[:3]:
            if f"{{{field}}}" not in template:
                raise ConfigError(f"OptionLogProbs: template {template!r} must hold {{{field}}}")
        check_options("OptionLogProbs", first_text=first_text, second_text=second_text)
        self.model = model
        self.template = template
        self.first_text = first_text
        self.second_text = second_text
        self.least_mass = least_mass
        self.batch_size = batch_size
        self._options = encode_all(model.tokenizer, [first_text, second_text])

    def __call__(self, pairs: Sequence[Shown]) -> list[float | None]:
        """For each pair the share of the first option in the probability of both."""
        if not pairs:
            return []
        questions = encode_prompts(self.model.tokenizer, [self._asked(pair) for pair in pairs])
        longest = max(len(option) for option in self._options)
        limit = self.model.context_length
        read = [n for n, q in enumerate(questions) if limit is None or len(q) + longest <= limit]
        found: list[float | None] = [None] * len(pairs)
        for start in range(0, len(read), self.batch_size):
            some = read[start : start + self.batch_size]
            shares = self._shares([questions[number] for number in some])
            for number, share in zip(some, shares, strict=True):
                found[number] = share
        return found

    def _asked(self, pair: Shown) -> str:
        """The template with the texts, in one pass: a text that spells a field stays as it is."""
        texts = pair._asdict()
        return _FIELD.sub(lambda field: texts[field[1]], self.template)

    def _shares(self, questions: Sequence[Sequence[int]]) -> list[float | None]:
        heads = [question for question in questions for _ in self._options]
        rows: TensorDict = rows_from_ids(
            self.model.tokenizer, heads, [*self._options] * len(questions)
        )
        with torch.no_grad():
            log_probs = self.model.log_probs(rows.to(self.model.device), decoding=Decoding())
        masses = log_probs.sum(1).double().exp().view(-1, 2).tolist()
        return [
            first / (first + second) if 0 < first + second >= self.least_mass else None
            for first, second in masses
        ]
