"""BFCL's multi-turn episodes: services that are simulated, and judged by their state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from components.worlds.bfcl.service import Result
from components.worlds.bfcl.world import Gold, World, run_gold
from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.episodes.answered_calls import AnsweredCalls
from rlcomp.episodes.tool_calls import Call, parse_calls, parse_python_calls
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.verify.columns import column
from rlcomp.verify.tool_calls import CLOSE


class BfclEnvironment(metaclass=Checked):
    r"""Calls functions of simulated services for a user who asks several times (``task=bfcl``).

    A turn of the policy with calls gets their answers. One without a call tells the user that his
    request is done, and gets the next, which is never cut; after the last the episode is over.

    It is solved, and pays 1, if the state of every service is that after the calls of the ground
    truth, and if every value that the last request only asks for (calls that change nothing) was
    answered to a call of the policy since that request. What the policy says is not judged. The
    working directory is no part of the state, but of the anchor.

    The services are written after BFCL's function documents, as its classes are no part of its
    data: answers may be worded otherwise than there.

    Args:
        protocol: of calls: ``json``, one object in each pair of ``<tool_call>`` tags; ``python``, a
            turn that is a list as ``[cd(folder='x'), ls()]``.
        wording: of a request, ``{question}`` filled in.
        stops: texts that end a turn of the policy; EOS always does. ``python`` needs others.

    Raises:
        DataError: when an episode begins: a column is missing, or the ground truth is refused.

    Source:
        Patil et al. 2025, the Berkeley Function Calling Leaderboard (multi-turn, state-based).
    """

    def __init__(
        self,
        *,
        protocol: Literal["json", "python"] = "json",
        wording: NonEmptyText = "\n{question}\n",
        stops: Sequence[NonEmptyText] = (CLOSE,),
    ) -> None:
        self.protocol = protocol
        self.wording = wording
        self.stops = tuple(stops)
        self.world = World((), {})
        self.gold = Gold({}, [])
        self.requests: list[str] = []
        self.calls = AnsweredCalls(self._called)
        self.done = 0
        self.solved = False
        self.answered: list[Result] = []

    def reset(self, example: Example, seed: int) -> Turn:
        """Begin with the first request, which stands in the prompt; nothing is drawn."""
        del seed
        self.requests = list(_told(example, "requests"))
        self.gold = run_gold(_world(example), _told(example, "ground_truth"))
        self.world = _world(example)
        return Turn(anchor=self._anchor())

    def step(self, action: str) -> Turn:
        """Answer the calls of a turn; without one go on to the next request."""
        calls = self._read(action)
        if calls:
            turn = self.calls.turn(calls)
            return replace(turn, anchor=self._anchor())
        self.done += 1
        if self.done < len(self.requests):
            self.answered = []
            asked = self.wording.replace("{question}", self.requests[self.done])
            return Turn(closing=asked, anchor=self._anchor())
        self.solved = self.world.state() == self.gold.state and all(
            value in self.answered for value in self.gold.values
        )
        return Turn(reward=float(self.solved), done=True)

    def _read(self, action: str) -> list[Call] | str:
        """The calls of a turn, or what is wrong with them."""
        if self.protocol == "json":
            return parse_calls(action)
        said = action.strip()
        return parse_python_calls(said) if said.startswith("[") else []

    def _called(self, call: Call) -> tuple[str, bool]:
        result = self.world.call(call)
        self.answered.append(result)
        return json.dumps(result, ensure_ascii=False), "error" in result

    def _anchor(self) -> str:
        """Of the services, and how many requests are done."""
        told = json.dumps([self.done, self.world.snapshot()], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def facts(self) -> Mapping[str, float]:
        """``calls``, ``failed`` ones, ``requests`` done, and whether it is ``solved``."""
        own = {"requests": float(self.done), "solved": float(self.solved)}
        return {**self.calls.facts(), **own}

    def close(self) -> None:
        """Nothing is held."""


def _told(example: Example, name: str) -> Any:  # noqa: ANN401
    return column(example.columns, name, "environment=bfcl")


def _world(example: Example) -> World:
    excluded = example.columns.get("excluded_function") or ()
    assert isinstance(excluded, Sequence)
    config = _told(example, "initial_config")
    return World(_told(example, "involved_classes"), config, excluded)
