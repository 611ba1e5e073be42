"""Environment interface: what answers a policy, turn by turn, in text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rlcomp.interfaces.task import Example


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What an environment says after a reset or a step.

    Attributes:
        observation: appended to what the policy reads next; "" appends nothing. A long one is cut.
        closing: stands behind the observation and is never cut, such as ``</information>``.
        reward: for the action, in reward units; 0 after a reset.
        done: the episode is over.
        anchor: the state in which the next turn is decided, where states can be compared; equal
            text, equal state.
        seat: which player moves next.
    """

    observation: str = ""
    closing: str = ""
    reward: float = 0.0
    done: bool = False
    anchor: str | None = None
    seat: int = 0


@runtime_checkable
class Environment(Protocol):
    """One episode: reset once, then stepped until it is done. Single use.

    Attributes:
        stops: texts that end a turn of the policy; EOS always does.
    """

    stops: tuple[str, ...]

    def reset(self, example: Example, seed: int) -> Turn:
        """Begin: the observation stands behind the example's prompt.

        Args:
            example: of the task; its ``columns`` hold what the environment needs besides.
            seed: whatever the environment draws follows from it.
        """
        ...

    def step(self, action: str) -> Turn:
        """Answer an action: the text of a turn, its stop text included."""
        ...

    def facts(self) -> Mapping[str, float]:
        """Numbers about the episode so far, by name: tool calls, hits."""
        ...

    def close(self) -> None:
        """Free what it holds; called once, also after an error."""
        ...


def checked(turn: object) -> Turn:
    """What an environment returned.

    Raises:
        TypeError: it is no turn.
    """
    if not isinstance(turn, Turn):
        raise TypeError(f"returned {turn!r:.60}: must be a Turn (rlcomp.interfaces.environment)")
    return turn
