"""Tool interface: what answers a call of an agent, in text."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rlcomp.interfaces.task import Example


class ToolError(Exception):
    """The call was wrong (a bad query, a program's error): its message is told to the policy.

    Any other exception is the tool's own failure, and the episode becomes invalid.
    """


class Tool(Protocol):
    """What answers a call. An object for each episode: it may remember what it was asked.

    What is expensive and the same for all episodes (an index) is kept by the tool's module.
    """

    def __call__(self, query: str) -> str:
        """Answer a call; "" where nothing was found.

        Raises:
            ToolError: the call was wrong.
        """
        ...


@runtime_checkable
class KnowsExample(Protocol):
    """Interface of tools that are told the example of their episode before the first call."""

    def begin(self, example: Example) -> None:
        """Take what the tool needs of the example's columns."""
        ...
