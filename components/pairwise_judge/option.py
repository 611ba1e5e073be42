"""LLM judges that answer with one of two options: their probabilities are the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt, Probability
from rlcomp.interfaces.judge import AnswerPair, NoVerdict, check_options, option_preferences
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.protocols import Endpoint
from rlcomp.text.template import Template
from rlcomp.text.two_options import TwoOptions

_TEMPLATE = "Prompt: {prompt}\n1: {first}\n2: {second}\nWhich answer is better, 1 or 2?\nAnswer:"


class OptionLogProbJudge(metaclass=Checked):
    """LLM-as-a-judge of pairs by a local model: ``p(first) / (p(first) + p(second))``.

    ``p`` of an option is its probability at temperature 1, summed over its spellings (``**1``,
    ``"1``; :func:`rlcomp.verify.judge_reply.spellings`). None if both together have less than
    ``least_mass``, or if the context cannot hold the filled template; one warning then shows the
    model's likely answer. A field or a special token within an answer is plain text to the judge.

    Args:
        model: a model; the policy can judge itself but may then learn to please itself.
        template: text with ``{prompt}``, ``{first}`` and ``{second}``, and with ``{rationale}``
            under ``pairwise_judge=reasoned``.
        first_text: the option that the first answer is better.
        second_text: the option that the second one is better.
        least_mass: least probability of both options together.
        batch_size: pairs in one forward pass.
        prompt: prompt format; None: the chat template of the model's tokenizer, or plain text.

    Raises:
        ConfigError: the template lacks a field, one option begins with the other, or the model's
            tokenizer does not give the bytes of its tokens.

    Source:
        Lee et al. 2023 (RLAIF), arXiv:2309.00267, section 2.1 (soft labels).
    """

    def __init__(
        self,
        *,
        model: Policy,
        template: NonEmptyText = _TEMPLATE,
        first_text: NonEmptyText = "1",
        second_text: NonEmptyText = "2",
        least_mass: Probability = 0.05,
        batch_size: PositiveInt = 64,
        prompt: PromptFormat | None = None,
    ) -> None:
        self._template = Template(
            "OptionLogProbJudge",
            template,
            required=("prompt", "first", "second"),
            optional=("rationale",),
        )
        check_options("OptionLogProbJudge", first_text=first_text, second_text=second_text)
        self.no_verdict = NoVerdict("OptionLogProbJudge")
        self._options = TwoOptions(
            model,
            (first_text, second_text),
            prompt=prompt,
            least_mass=least_mass,
            no_verdict=self.no_verdict,
            batch_size=batch_size,
        )
        self.prompt = self._options.prompt

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the probability that the first is better."""
        if not pairs:
            return []
        questions = [self._template.fill(pair._asdict()) for pair in pairs]
        return self._options.shares(self._options.encode(questions))


_ENDPOINT_TEMPLATE = (
    "Prompt: {prompt}\n"
    "Answer 1: {first}\n"
    "Answer 2: {second}\n"
    "Which answer is better? Say 1 or 2 alone."
)


class EndpointPairJudge(metaclass=Checked):
    """LLM-as-a-judge of pairs behind an endpoint: ``p(first) / (p(first) + p(second))``.

    ``p`` is the probability of the first token, summed over the spellings of an option (``**1**``,
    ``"1``). None if both options together have less than ``least_mass``, if an answer under
    ``read=text`` begins with neither, or if there is no answer; one warning then shows the model's
    answer.

    Args:
        endpoint: the endpoint of the judging model.
        template: text with ``{prompt}``, ``{first}`` and ``{second}``, and with ``{rationale}``
            under ``pairwise_judge=reasoned``.
        first_text: the option that the first answer is better.
        second_text: the option that the second one is better.
        least_mass: least probability of both options together.
        read: ``log_probs`` of the first token; ``text``: 1 or 0 by the beginning of the answer, for
            servers without log-probs.
        alternatives: number of first tokens whose log-prob is requested; the server has a limit.

    Raises:
        ConfigError: the template lacks a field, one option begins with the other, or the server
            returns no log-probs.

    Source:
        Lee et al. 2023 (RLAIF), arXiv:2309.00267, section 2.1 (soft labels).
    """

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        template: NonEmptyText = _ENDPOINT_TEMPLATE,
        first_text: NonEmptyText = "1",
        second_text: NonEmptyText = "2",
        read: Literal["log_probs", "text"] = "log_probs",
        least_mass: Probability = 0.05,
        alternatives: PositiveInt = 20,
    ) -> None:
        self._template = Template(
            "EndpointPairJudge",
            template,
            required=("prompt", "first", "second"),
            optional=("rationale",),
        )
        check_options("EndpointPairJudge", first_text=first_text, second_text=second_text)
        self.endpoint = endpoint
        self.first_text = first_text
        self.second_text = second_text
        self.read = read
        self.least_mass = least_mass
        self.alternatives = alternatives
        self.no_verdict = NoVerdict("EndpointPairJudge")

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the probability that the first is better."""
        return option_preferences(
            self.endpoint,
            [self._template.fill(pair._asdict()) for pair in pairs],
            (self.first_text, self.second_text),
            read=self.read,
            least_mass=self.least_mass,
            alternatives=self.alternatives,
            no_verdict=self.no_verdict,
        )
