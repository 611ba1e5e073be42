"""LLM-as-a-judge behind an endpoint: probability of "yes"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.endpoint import Endpoint
from rlcomp.interfaces.judge import NoVerdict
from rlcomp.interfaces.options import check_options, choices

_FIELD = re.compile(r"\{(prediction|reference)\}")
_TEMPLATE = (
    "Text: {reference}\n"
    "Prediction: {prediction}\n"
    "Do they agree as far as the shorter one goes? Answer with yes or no alone."
)


class EndpointJudge(metaclass=Checked):
    """LLM-as-a-judge behind an endpoint: probability of "yes" as the first word of its answer.

    ``p(yes) / (p(yes) + p(no))`` of the first token at the server's temperature 1, each summed over
    its spellings (``Yes``, ``"yes``). None if both together have less than ``least_mass``, or if
    there is no answer; one warning then shows the model's answer.

    Args:
        endpoint: the endpoint, whose model reads the template.
        template: text with ``{prediction}`` and ``{reference}``.
        yes_text: the answer that they agree.
        no_text: the answer that they do not.
        read: ``log_probs`` of the first token; ``text``: 1 or 0 by the begin of the answer, for
            servers without log-probs.
        least_mass: least probability of yes and no together, in [0, 1].
        alternatives: number of first tokens whose log-prob is requested; the server has a limit.

    Raises:
        ConfigError: the template lacks a field, one of yes and no begins with the other, or the
            server returns no log-probs.
    """

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        template: NonEmptyText = _TEMPLATE,
        yes_text: NonEmptyText = "yes",
        no_text: NonEmptyText = "no",
        read: Literal["log_probs", "text"] = "log_probs",
        least_mass: Probability = 0.05,
        alternatives: PositiveInt = 20,
    ) -> None:
        for field in ("prediction", "reference"):
            if f"{{{field}}}" not in template:
                raise ConfigError(f"EndpointJudge: template {template!r} must hold {{{field}}}")
        check_options("EndpointJudge", yes_text=yes_text, no_text=no_text)
        self.endpoint = endpoint
        self.template = template
        self.yes_text = yes_text
        self.no_text = no_text
        self.read = read
        self.least_mass = least_mass
        self.alternatives = alternatives
        self.no_verdict = NoVerdict("EndpointJudge")

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Return the probability of yes."""
        (probability,) = self.judge_all([(prediction, reference)])
        return probability

    def judge_all(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """Return the probability of yes for each pair, with parallel requests."""
        return choices(
            self.endpoint,
            [self._asked(*pair) for pair in pairs],
            (self.yes_text, self.no_text),
            read=self.read,
            least_mass=self.least_mass,
            alternatives=self.alternatives,
            no_verdict=self.no_verdict,
        )

    def _asked(self, prediction: str, reference: str) -> str:
        texts = {"prediction": prediction, "reference": reference}
        # One pass, so that a prediction that contains "{reference}" stays unchanged.
        return _FIELD.sub(lambda field: texts[field[1]], self.template)
