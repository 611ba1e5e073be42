"""Writers of answers."""

from __future__ import annotations

from collections.abc import Sequence

from rlcomp.arguments import Checked, PositiveInt
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.protocols import Endpoint
from rlcomp.seed import new_generator
from rlcomp.text.answers import answer_prompts_in_context
from rlcomp.text.chat import prompt_format_of_model


class LanguageModelWriter(metaclass=Checked):
    """Writer of a language model's sampled answers, with its own decoding settings.

    A text that leaves no room for ``max_new_tokens`` in the model's context gets an empty answer.

    Args:
        model: the model. As the writer of a judge, the policy judges itself and may learn to please
            itself.
        max_new_tokens: the longest answer.
        prompt: the format of prompts; by default the chat template of the model's tokenizer, or
            plain text if it has none.

    Raises:
        ConfigError: the model does not stop where the template ends a turn.
    """

    def __init__(
        self,
        *,
        model: Policy,
        max_new_tokens: PositiveInt = 512,
        prompt: PromptFormat | None = None,
    ) -> None:
        self.model = model
        self.max_new_tokens = max_new_tokens
        self.prompt = prompt_format_of_model(prompt, model.tokenizer)
        self.prompt.check_policy(model)
        self.generator = new_generator()

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        """Return a sampled answer for each prompt."""
        if not prompts:
            return []
        answers = answer_prompts_in_context(
            self.model,
            prompts,
            prompt_ids=self.prompt.encode(prompts, [{}] * len(prompts)),
            max_new_tokens=self.max_new_tokens,
            generator=self.generator,
        )
        return [answer.text if answer else "" for answer in answers]


class EndpointWriter(metaclass=Checked):
    """Writer of an endpoint's answers; a prompt without an answer gets an empty text.

    Args:
        endpoint: the endpoint, with its own temperature.
        max_new_tokens: the longest answer.
    """

    def __init__(self, *, endpoint: Endpoint, max_new_tokens: PositiveInt = 512) -> None:
        self.endpoint = endpoint
        self.max_new_tokens = max_new_tokens

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        """Return an answer for each prompt."""
        replies = self.endpoint.ask(prompts, max_tokens=self.max_new_tokens)
        return [reply.text if reply else "" for reply in replies]
