"""Environment of BFCL's multi-turn episodes with simulated services."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from components.worlds.bfcl.episode_services import EpisodeServices, GoldSolution, run_gold
from components.worlds.bfcl.service import Result
from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.episodes.tool_calls import ToolCall, parse_calls, parse_python_calls
from rlcomp.episodes.tool_execution import ToolCallExecutor
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.verify.answers import column
from rlcomp.verify.tool_calls import CLOSE


class BfclEnvironment(metaclass=Checked):
    r"""Environment with functions of simulated services and several requests (``task=bfcl``).

    After a turn with calls, the observation is their results. A turn without a call ends the
    request; its observation is the user's next request, never truncated. The episode ends after the
    last request.

    The reward is 1 if two conditions hold, and else 0:

    - The state of every service equals the state after the calls of the ground truth.
    - The policy's calls since the last request have returned the result of each ground-truth call
      of this request that changes nothing.

    The policy's text is not judged. The working directory is part of the anchor (the hash that
    identifies a state in groups), but not of the compared state.

    The services follow BFCL's function documents, because its data does not include the classes.
    So their answers may differ from BFCL's in wording.

    Args:
        protocol: format of calls. ``json``: one object in each pair of ``<tool_call>`` tags.
            ``python``: a turn that is a list such as ``[cd(folder='x'), ls()]``.
        wording: template of a request, with ``{question}``.
        stops: texts that end a turn of the policy, in addition to EOS. The default is for
            ``protocol=json``.

    Raises:
        DataError: (at the beginning of an episode) a column is missing, or a call of the ground
            truth fails.

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
        self.services = EpisodeServices((), {})
        self.gold = GoldSolution({}, [])
        self.requests: list[str] = []
        self.calls = ToolCallExecutor(self._answer_call)
        self.done_requests = 0
        self.solved = False
        # Results of the policy's calls since the last request.
        self.results: list[Result] = []

    def reset(self, example: Example, seed: int) -> Turn:
        """Start the services of an example; its prompt holds the first request.

        Args:
            example: example of ``task=bfcl``.
            seed: ignored, because nothing is random.
        """
        del seed
        self.requests = list(_read_column(example, "requests"))
        self.gold = run_gold(_start_services(example), _read_column(example, "ground_truth"))
        self.services = _start_services(example)
        return Turn(anchor=self._anchor())

    def step(self, action: str) -> Turn:
        """Return the results of a turn's calls; without a call, the next request."""
        calls = self._parse_calls(action)
        if calls:
            turn = self.calls.turn(calls)
            return replace(turn, anchor=self._anchor())
        self.done_requests += 1
        if self.done_requests < len(self.requests):
            self.results = []
            request = self.wording.replace("{question}", self.requests[self.done_requests])
            return Turn(closing=request, anchor=self._anchor())
        self.solved = self.services.state() == self.gold.state and all(
            value in self.results for value in self.gold.values
        )
        return Turn(reward=float(self.solved), done=True)

    def _parse_calls(self, action: str) -> list[ToolCall] | str:
        """Return the calls of a turn, or the error message."""
        if self.protocol == "json":
            return parse_calls(action)
        text = action.strip()
        return parse_python_calls(text) if text.startswith("[") else []

    def _answer_call(self, call: ToolCall) -> tuple[str, bool]:
        """Return the JSON text of a call's result, and whether the call failed."""
        result = self.services.call(call)
        self.results.append(result)
        return json.dumps(result, ensure_ascii=False), "error" in result

    def _anchor(self) -> str:
        """Return a hash of the number of finished requests and the services' snapshots."""
        text = json.dumps([self.done_requests, self.services.snapshot()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def facts(self) -> Mapping[str, float]:
        """Return ``calls``, ``failed``, finished ``requests`` and ``solved`` (0 or 1).

        ``failed`` counts failed calls and malformed turns.
        """
        outcome = {"requests": float(self.done_requests), "solved": float(self.solved)}
        return {**self.calls.facts(), **outcome}

    def close(self) -> None:
        """No-op."""


def _read_column(example: Example, name: str) -> Any:  # noqa: ANN401
    return column(example.columns, name, "environment=bfcl")


def _start_services(example: Example) -> EpisodeServices:
    excluded = example.columns.get("excluded_function") or ()
    assert isinstance(excluded, Sequence)
    config = _read_column(example, "initial_config")
    return EpisodeServices(_read_column(example, "involved_classes"), config, excluded)
