"""Interface of environments that answer the turns of a policy, in text."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Protocol, runtime_checkable

from rlcomp.interfaces.task import Example

_LARGEST = (2 - 2.0**-23) * 2.0**127  # largest float32
_TURN = "from rlcomp.interfaces.environment import Turn"
_FORM = (
    ": it needs stops = ('>',), reset(example, seed) and step(action) that return "
    "Turn(observation=, reward=, done=), facts() and close() (docs/how_to/own_environment.md); "
    "for Gymnasium's own: environment=gymnasium_text"
)
# Each fact is a metric of the run.
_MOST_FACTS = 64


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Answer of an environment to a reset or a step.

    Attributes:
        observation: text for the policy's next input, perhaps empty. A long one is cut.
        closing: text after the observation that is never cut, such as ``</information>``.
        reward: reward of the action, in reward units; 0 after a reset.
        done: whether the episode is over.
        anchor: text of the state of the next turn, if states can be compared; equal texts are equal
            states.
        seat: the player who moves next and gets the observation.
        payoffs: additional reward of each player; may be empty.
    """

    observation: str = ""
    closing: str = ""
    reward: float = 0.0
    done: bool = False
    anchor: str | None = None
    seat: int = 0
    payoffs: tuple[float, ...] = ()


@runtime_checkable
class Environment(Protocol):
    """Environment of one episode: one reset, then steps until the episode is done.

    Attributes:
        stops: texts that end a turn of the policy; EOS always does.
    """

    stops: tuple[str, ...]

    def reset(self, example: Example, seed: int) -> Turn:
        """Begin the episode; the observation follows the example's prompt.

        Args:
            example: example of the task; its ``columns`` hold the environment's other inputs.
            seed: seeds all draws of the environment.
        """
        ...

    def step(self, action: str) -> Turn:
        """Answer an action: the text of a turn, including its stop text."""
        ...

    def facts(self) -> Mapping[str, float]:
        """Return numbers about the episode so far, by name: tool calls, hits."""
        ...

    def close(self) -> None:
        """Free all resources; called once, also after an error."""
        ...


@runtime_checkable
class Forkable(Environment, Protocol):
    """An environment that can be copied; other environments are replayed with the same seed."""

    def fork(self) -> Environment:
        """Return an episode in the same state that shares nothing mutable."""
        ...


def check_turn(turn: object) -> Turn:
    """Return the checked turn of an environment, with numbers of NumPy or torch as Python's.

    Raises:
        TypeError: ``turn`` is not a Turn, or an entry has another type.
        ValueError: a text holds a lone surrogate, or the reward or a payoff is not finite in
            float32.
    """
    if not isinstance(turn, Turn):
        written = f"write return {_as_turn(turn)}" if isinstance(turn, tuple) else _TURN
        raise TypeError(f"returned {turn!r:.60}: must be a Turn; {written}")
    reward = _number("reward", turn.reward)
    if math.isnan(reward):
        raise ValueError("reward is nan: must be a number")
    if turn.done not in (False, True):
        raise TypeError(f"done is {turn.done!r:.60}: must be True or False")
    if not isinstance(turn.seat, Integral):
        raise TypeError(f"seat is {turn.seat!r:.60}: must be an integer")
    return Turn(
        observation=_text("observation", turn.observation),
        closing=_text("closing", turn.closing),
        reward=reward,
        done=bool(turn.done),
        anchor=None if turn.anchor is None else _text("anchor", turn.anchor),
        seat=int(turn.seat),
        payoffs=_payoffs(turn.payoffs),
    )


def _payoffs(payoffs: object) -> tuple[float, ...]:
    if not isinstance(payoffs, (tuple, list)):
        raise TypeError(f"payoffs is {payoffs!r:.60}: must be a number for each player")
    numbers = tuple(_number("an entry of payoffs", each) for each in payoffs)
    if any(map(math.isnan, numbers)):
        raise ValueError("payoffs holds nan: must be numbers")
    return numbers


def _as_turn(turn: tuple[object, ...]) -> str:
    """Return the source text of a Turn with the entries of Gymnasium's tuple of a step."""
    names = ("observation", "reward", "done")
    values = turn[:3] if len(turn) > 2 else turn[:1]
    return f"Turn({', '.join(f'{n}={v!r:.40}' for n, v in zip(names, values, strict=False))})"


def check_facts(facts: object) -> dict[str, float]:
    """Return the checked facts of an environment about its episode.

    Raises:
        TypeError: ``facts`` is not a mapping from texts to numbers.
        ValueError: a name is empty or holds a lone surrogate, a number is infinite in float32 (NaN
            is allowed), or there are more than 64 numbers.
    """
    if not isinstance(facts, Mapping):
        raise TypeError(f"facts returned {facts!r:.60}: must be numbers by name")
    if len(facts) > _MOST_FACTS:
        raise ValueError(f"facts returned {len(facts)} numbers: must be at most {_MOST_FACTS}")
    if not all(facts):
        raise ValueError("facts holds a number without a name")
    return {
        _text("a name of facts", name): _number(f"facts[{name!r:.40}]", value)
        for name, value in facts.items()
    }


def check_stops(environment: Environment) -> tuple[str, ...]:
    """Check that an environment has all methods; return the texts that end a turn.

    Raises:
        TypeError: the environment lacks a method, or its ``reset`` takes Gymnasium's ``options``;
            or the stops are not texts, or are a single text, so that each of its characters would
            end a turn.
        ValueError: a stop text is empty, or holds a lone surrogate.
    """
    methods, kind = ("reset", "step", "facts", "close"), type(environment).__name__
    if lacks := [name for name in methods if not callable(getattr(environment, name, None))]:
        raise TypeError(f"{kind} has no method {' and no '.join(lacks)}{_FORM}")
    if "options" in inspect.signature(environment.reset).parameters:
        raise TypeError(f"{kind} has Gymnasium's interface, reset(seed, options){_FORM}")
    stops: object = getattr(environment, "stops", None)
    if not isinstance(stops, Iterable) or isinstance(stops, (str, bytes)):
        raise TypeError(f"stops is {stops!r:.60}: must be a tuple of texts, such as ('>',)")
    texts = tuple(_text("an entry of stops", text) for text in stops)
    if "" in texts:
        raise ValueError(f"stops is {stops!r:.60}: an empty text would end a turn anywhere")
    return texts


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r:.60}: must be a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        surrogate = value[error.start]
        raise ValueError(
            f"{name} holds {surrogate!r}, a lone surrogate: repair the text"
        ) from error
    return value


def _number(name: str, value: object) -> float:
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError(f"{name} is {value!r:.60}: must be a number")
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} is a {type(value).__name__}: must be a number") from error
    if abs(number) > _LARGEST:
        raise ValueError(f"{name} is beyond 3.4e38: must be finite in float32")
    return number
