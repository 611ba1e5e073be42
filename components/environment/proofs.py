"""Environments of proofs in Lean and of proof attempts."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt, Unbuilt
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.prover.lean import LeanBackend, LeanState, refusal
from rlcomp.prover.turns import ProofTurns
from rlcomp.workers.function_call import load


class _CheckedAbstract(Checked, ABCMeta):
    """Metaclass that checks arguments and abstract methods."""


class LeanEnvironment(ProofTurns[LeanState], metaclass=_CheckedAbstract):
    """Environment that answers a tactic of Lean with the open goals or with Lean's message.

    A tactic that could leave a hole, add an axiom or run code is refused
    (:func:`rlcomp.prover.lean.refusal`). A proof is complete, with the reward 1, if the backend
    has no open goals **and** Lean accepts the theorem with all its tactics as one file. A failure
    of the backend makes the episode invalid.

    Args:
        backend: the connection to Lean: ``lean_backend=replay|wasm|dojo``.
    """

    def __init__(self, *, backend: LeanBackend | Unbuilt) -> None:
        super().__init__()
        connection: Any = (
            load(backend.target, backend.arguments) if isinstance(backend, Unbuilt) else backend
        )
        self.backend: LeanBackend = connection

    def start(self, example: Example) -> LeanState:
        """Return the theorem of an example."""
        return self.backend.start(example)

    def apply(self, state: LeanState, action: str) -> LeanState | str:
        """Return the state after a tactic, or the error message."""
        message = refusal(action)
        if message:
            return message
        after = self.backend.run(state, action)
        if isinstance(after, str):
            return after
        if not after.completed:
            return after if after.goals else "no goals, and no proof"
        if reason := self.backend.rejection(after):
            return f"the file is not accepted: {reason}"
        return replace(after, accepted=True)

    def solved(self, state: LeanState) -> bool:
        """Return whether Lean has accepted the whole file."""
        return state.accepted

    def text(self, state: LeanState) -> str:
        """Return the open goals as Lean shows them."""
        return "\n\n".join(state.goals) or "no goals"

    def close(self) -> None:
        """End the processes of the backend."""
        self.backend.close()


class ProofAttempts(metaclass=Checked):
    r"""Environment that checks a script of tactics, one per line, in several attempts.

    The next attempt continues after the accepted tactics of a failed script. The observation is the
    checker's message and the state, ``"no match\nh0:p\n⊢p∨q\n"``. A script that ends with open
    goals has the message ``not over``. A script with tactics after the end of the proof fails, and
    is cut before the tactic that completed the proof. A proof has the reward 1 and ends the
    episode. The last attempt ends the episode, too.

    Facts: ``attempts``, the number of attempts; ``proven``, whether one of them completed the
    proof; ``first_proven``, whether the first one did; in episodes with a second attempt also
    ``repaired``, whether a later attempt completed the proof.

    Args:
        prover: environment of proofs, such as :class:`LeanEnvironment`: a class or its description.
        attempts: number of attempts.
        tells: observation after a failed attempt. ``message``: message and state. ``nothing``:
            ``again``, as a control without information.
        again: the observation with ``tells: nothing``.
        stop: text that ends an attempt and is not part of it; EOS also ends an attempt.

    Source:
        Xin et al. 2024 (DeepSeek-Prover-V1.5), arXiv:2408.08152, section 3.2 (truncate and resume);
        First et al. 2023 (Baldur), arXiv:2303.04910 (repair by the checker's message).
    """

    def __init__(
        self,
        *,
        prover: Callable[..., Any] | Unbuilt,
        attempts: PositiveInt = 2,
        tells: Literal["message", "nothing"] = "message",
        again: NonEmptyText = "again",
        stop: NonEmptyText = "\n\n",
    ) -> None:
        self.prover: Any = (
            load(prover.target, prover.arguments) if isinstance(prover, Unbuilt) else prover()
        )
        self.attempts = attempts
        self.tells = tells
        self.again = again
        self.stop = stop
        self.stops = (stop,)
        self.state: Any = None
        self.verdicts: list[bool] = []

    def reset(self, example: Example, seed: int) -> Turn:
        """Start the proof of the example, whose prompt holds the goal; ``seed`` is ignored."""
        del seed
        self.state = self.prover.start(example)
        return Turn(anchor=self.prover.text(self.state))

    def step(self, action: str) -> Turn:
        """Run a script; return the message and state, or end the episode."""
        script = [line for line in action.removesuffix(self.stop).split("\n") if line]
        message = self._run_script(script)
        self.verdicts.append(not message)
        if not message:
            return Turn(reward=1.0, done=True)
        if len(self.verdicts) >= self.attempts:
            return Turn(done=True)
        state = self.prover.text(self.state)
        observation = f"{message}\n{state}" if self.tells == "message" else self.again
        return Turn(observation=observation, closing="\n", anchor=state)

    def _run_script(self, script: list[str]) -> str:
        """Apply the tactics of a script; return the error message, empty for a proof."""
        previous = self.state
        for tactic in script:
            if self.prover.solved(self.state):
                self.state = previous
                return "no goals"
            result = self.prover.apply(self.state, tactic)
            if isinstance(result, str):
                return result
            previous, self.state = self.state, result
        return "" if self.prover.solved(self.state) else "not over"

    def facts(self) -> Mapping[str, float]:
        """Return the facts of the attempts."""
        facts = {
            "attempts": float(len(self.verdicts)),
            "proven": float(any(self.verdicts)),
            "first_proven": float(any(self.verdicts[:1])),
        }
        return facts | ({"repaired": float(self.verdicts[-1])} if len(self.verdicts) > 1 else {})

    def close(self) -> None:
        """Close the prover."""
        self.prover.close()
