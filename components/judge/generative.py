"""Generative judge (LLM-as-a-judge): probability of "yes"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlcomp.arguments import Checked, NonEmptyText, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import NoVerdict
from rlcomp.interfaces.options import check_options
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import Prompt
from rlcomp.text.two_options import TwoOptions

_FIELD = re.compile(r"\{(prediction|reference)\}")
_TEMPLATE = (
    "Text: {reference}\n"
    "Prediction: {prediction}\n"
    "Do they agree as far as the shorter one goes? Answer yes or no.\n"
    "Answer:"
)


class Generative(metaclass=Checked):
    """LLM-as-a-judge: probability of "yes" after a template with both texts.

    ``p(yes) / (p(yes) + p(no))`` at temperature 1, each summed over its spellings (``Yes``,
    ``"yes``; :func:`rlcomp.verify.options.spellings`). None if yes and no together have less than
    ``least_mass``, or if the template with the reference exceeds the context; one warning then
    shows the model's likely answer. 0 if only the prediction makes the text exceed the context, so
    that no prediction escapes judgement by its length.

    Args:
        model: the model that reads the template. The policy can judge itself but may then learn to
            please itself: name another model for anything but a trial.
        template: text with ``{prediction}`` and ``{reference}``.
        yes_text: the answer that they agree.
        no_text: the answer that they do not.
        least_mass: least probability of yes and no together, in [0, 1].
        prompt: how the template becomes tokens; by default the chat template of the model's
            tokenizer, or plain text if it has none.

    Raises:
        ConfigError: the template lacks a field, or one of yes and no begins with the other.

    Source:
        A model that judges the next segment: Li et al. 2025 (RLPT), arXiv:2509.19249.
    """

    def __init__(
        self,
        *,
        model: Policy,
        template: NonEmptyText = _TEMPLATE,
        yes_text: NonEmptyText = "yes",
        no_text: NonEmptyText = "no",
        least_mass: Probability = 0.05,
        prompt: Prompt | None = None,
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
        self.no_verdict = NoVerdict("Generative")
        self._choice = TwoOptions(
            model,
            (yes_text, no_text),
            prompt=prompt,
            least_mass=least_mass,
            no_verdict=self.no_verdict,
        )
        self.prompt = self._choice.prompt

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Return the probability of yes."""
        (share,) = self.judge_all([(prediction, reference)])
        return share

    def judge_all(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """Return the probability of yes for each pair."""
        if not pairs:
            return []
        encode, fits = self._choice.encode, self._choice.fits
        questions = encode([self._question(*pair) for pair in pairs])
        shares = self._choice.shares(questions)
        for number, ((_, reference), question) in enumerate(zip(pairs, questions, strict=True)):
            if not fits(question) and fits(encode([self._question("", reference)])[0]):
                shares[number] = 0.0
        return shares

    def _question(self, prediction: str, reference: str) -> str:
        texts = {"prediction": prediction, "reference": reference}
        # One pass, so that a prediction that contains "{reference}" stays unchanged.
        return _FIELD.sub(lambda field: texts[field[1]], self.template)
