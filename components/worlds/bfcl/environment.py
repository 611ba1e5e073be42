"""BFCL's multi-turn episodes with simulated services, judged by their state."""

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
from rlcomp.episodes.tool_calls import ToolCall, parse_calls, parse_python_calls
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.verify.columns import column
from rlcomp.verify.tool_calls import CLOSE


class BfclEnvironment(metaclass=Checked):
    r"""Environment with functions of simulated services and several requests (``task=bfcl``).

    A turn of the policy with calls gets their answers. A turn without a call says that the request
    is done, and gets the user's next request, which is never cut. After the last request the
    episode is over.

    It is solved, and pays 1, if two conditions hold. The state of every service equals the state
    after the calls of the ground truth. Every value that the last request only asks for (calls that
    change nothing) was answered to a call of the policy since that request. The policy's words are
    not judged. The working directory is not part of the state, but of the anchor.

    The services follow BFCL's function documents, because its data does not include the classes.
    So answers may be worded differently.

    Args:
        protocol: format of calls: ``json``, one object in each pair of ``<tool_call>`` tags;
            ``python``, a turn that is a list such as ``[cd(folder='x'), ls()]``.
        wording: template of a request, with ``{question}``.
        stops: texts that end a turn of the policy; EOS always does. ``python`` needs others.

    Raises:
        DataError: (at the begin of an episode) a column is missing, or the ground truth is refused.

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
        """Start with the first request, which the prompt holds; nothing is random."""
        del seed
        self.requests = list(_told(example, "requests"))
        self.gold = run_gold(_world(example), _told(example, "ground_truth"))
        self.world = _world(example)
        return Turn(anchor=self._anchor())

    def step(self, action: str) -> Turn:
        """Answer the calls of a turn; without a call return the next request."""
        calls = self._read(action)
        if calls:
            turn = self.calls.turn(calls)
            return replace(turn, anchor=self._anchor())
        self.done += 1
        if self.done < len(self.requests):
            self.answered = []
            request = self.wording.replace("{question}", self.requests[self.done])
            return Turn(closing=request, anchor=self._anchor())
        self.solved = self.world.state() == self.gold.state and all(
            value in self.answered for value in self.gold.values
        )
        return Turn(reward=float(self.solved), done=True)

    def _read(self, action: str) -> list[ToolCall] | str:
        """Return the calls of a turn, or the error message."""
        if self.protocol == "json":
            return parse_calls(action)
        text = action.strip()
        return parse_python_calls(text) if text.startswith("[") else []

    def _called(self, call: ToolCall) -> tuple[str, bool]:
        result = self.world.call(call)
        self.answered.append(result)
        return json.dumps(result, ensure_ascii=False), "error" in result

    def _anchor(self) -> str:
        """Return the hash of the services' states and the number of requests done."""
        text = json.dumps([self.done, self.world.snapshot()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def facts(self) -> Mapping[str, float]:
        """Return ``calls``, ``failed`` calls, ``requests`` done and ``solved``."""
        own = {"requests": float(self.done), "solved": float(self.solved)}
        return {**self.calls.facts(), **own}

    def close(self) -> None:
        """No-op: it holds nothing."""


def _told(example: Example, name: str) -> Any:  # noqa: ANN401
    return column(example.columns, name, "environment=bfcl")


def _world(example: Example) -> World:
    excluded = example.columns.get("excluded_function") or ()
    assert isinstance(excluded, Sequence)
    config = _told(example, "initial_config")
    return World(_told(example, "involved_classes"), config, excluded)
