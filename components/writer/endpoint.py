"""Writer that asks a model behind an endpoint."""

from __future__ import annotations

from collections.abc import Sequence

from rlcomp.arguments import Checked, PositiveInt
from rlcomp.interfaces.endpoint import Endpoint


class EndpointWriter(metaclass=Checked):
    """Writer of an endpoint's answers; an empty text if there is none.

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
