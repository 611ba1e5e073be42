"""Judges of a response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt, Probability
from rlcomp.interfaces.judge import NoVerdict, check_options, option_preferences
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.protocols import Endpoint
from rlcomp.text.template import Template
from rlcomp.text.two_options import TwoOptions


class ExactMatchJudge(metaclass=Checked):
    r"""Judge by exact match of the word sequences: 1 if equal up to white space, else 0.

    Examples:
        >>> ExactMatchJudge()(" the\ncat", "the cat "), ExactMatchJudge()("The cat", "the cat")
        (1.0, 0.0)
    """

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Return the score; None for a reference without words."""
        words = reference.split()
        return float(prediction.split() == words) if words else None


class WordOverlapJudge(metaclass=Checked):
    """Judge by bag-of-words F1 (as in SQuAD).

    ``F1 = 2 * |P & T| / (|P| + |T|)`` over the word multisets of prediction P and reference T.

    Source:
        Rajpurkar et al. 2016 (SQuAD), arXiv:1606.05250, section 6.1.

    Examples:
        >>> WordOverlapJudge()("the cat sat", "cat the ran the mat")  # 2 shared of 3 and of 5
        0.5
    """

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Return the score; None for a reference without words."""
        predicted, true = Counter(prediction.split()), Counter(reference.split())
        if not true:
            return None
        return 2 * (predicted & true).total() / (predicted.total() + true.total())


class WordPrefixJudge(metaclass=Checked):
    """Prefix judge: 1 if one text is a word prefix of the other, else 0.

    The end of a segment is arbitrary, so a shorter or longer prediction is not penalised. The
    common prefix must have at least ``least`` words, or all of a shorter reference.

    Args:
        least: least number of common words.

    Source:
        Prefix agreement as a reward for the next segment: Li et al. 2025 (RLPT), arXiv:2509.19249,
        where a language model judges (``judge=generative``).

    Examples:
        >>> judge = WordPrefixJudge(least=2)
        >>> judge("the cat", "the cat sat"), judge("the cat sat down", "the cat sat")
        (1.0, 1.0)
        >>> judge("the", "the cat sat"), judge("the ca", "the cat sat")
        (0.0, 0.0)
    """

    def __init__(self, *, least: PositiveInt = 3) -> None:
        self.least = least

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Return the score; None for a reference without words."""
        predicted, true = prediction.split(), reference.split()
        if not true:
            return None
        shared = min(len(predicted), len(true))
        enough = shared >= min(self.least, len(true))
        return float(enough and predicted[:shared] == true[:shared])


_FIELDS = ("prediction", "reference")
_TEMPLATE = (
    "Text: {reference}\n"
    "Prediction: {prediction}\n"
    "Do they agree as far as the shorter one goes? Answer yes or no.\n"
    "Answer:"
)


class GenerativeJudge(metaclass=Checked):
    """LLM-as-a-judge: probability of "yes" after a template with both texts.

    ``p(yes) / (p(yes) + p(no))`` at temperature 1, each summed over its spellings (``Yes``,
    ``"yes``; :func:`rlcomp.verify.judge_reply.spellings`). None if yes and no together have less
    than ``least_mass``, or if the template with the reference exceeds the context; one warning then
    shows the model's likely answer. 0 if only the prediction makes the text exceed the context, so
    that no prediction escapes judgement by its length.

    Args:
        model: the model that reads the template. The policy can judge itself but may then learn to
            please itself: name another model for anything but a trial.
        template: text with ``{prediction}`` and ``{reference}``.
        yes_text: the answer that they agree.
        no_text: the answer that they do not agree.
        least_mass: least probability of yes and no together, in [0, 1].
        prompt: the format of the template; by default the chat template of the model's tokenizer,
            or plain text if it has none.

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
        prompt: PromptFormat | None = None,
    ) -> None:
        self._template = Template("GenerativeJudge", template, required=_FIELDS)
        check_options("GenerativeJudge", yes_text=yes_text, no_text=no_text)
        self.model = model
        self.template = template
        self.yes_text = yes_text
        self.no_text = no_text
        self.least_mass = least_mass
        self.no_verdict = NoVerdict("GenerativeJudge")
        self._options = TwoOptions(
            model,
            (yes_text, no_text),
            prompt=prompt,
            least_mass=least_mass,
            no_verdict=self.no_verdict,
        )
        self.prompt = self._options.prompt

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Return the probability of yes."""
        (share,) = self.judge_all([(prediction, reference)])
        return share

    def judge_all(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """Return the probability of yes for each pair."""
        if not pairs:
            return []
        encode, fits = self._options.encode, self._options.fits
        questions = encode([self._question(*pair) for pair in pairs])
        shares = self._options.shares(questions)
        for number, ((_, reference), question) in enumerate(zip(pairs, questions, strict=True)):
            if not fits(question) and fits(encode([self._question("", reference)])[0]):
                shares[number] = 0.0
        return shares

    def _question(self, prediction: str, reference: str) -> str:
        return self._template.fill({"prediction": prediction, "reference": reference})


_REQUEST = (
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
        no_text: the answer that they do not agree.
        read: ``log_probs`` of the first token; ``text``: 1 or 0 by the beginning of the answer, for
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
        template: NonEmptyText = _REQUEST,
        yes_text: NonEmptyText = "yes",
        no_text: NonEmptyText = "no",
        read: Literal["log_probs", "text"] = "log_probs",
        least_mass: Probability = 0.05,
        alternatives: PositiveInt = 20,
    ) -> None:
        self._template = Template("EndpointJudge", template, required=_FIELDS)
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
        return option_preferences(
            self.endpoint,
            [self._question(*pair) for pair in pairs],
            (self.yes_text, self.no_text),
            read=self.read,
            least_mass=self.least_mass,
            alternatives=self.alternatives,
            no_verdict=self.no_verdict,
        )

    def _question(self, prediction: str, reference: str) -> str:
        return self._template.fill({"prediction": prediction, "reference": reference})
