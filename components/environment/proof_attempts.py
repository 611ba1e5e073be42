"""Whole proofs in attempts: the checker says where one fails, the next goes on from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt, Unbuilt
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.workers.call import load


class ProofAttempts(metaclass=Checked):
    r"""Checks a script of tactics, a tactic a line; what was accepted of a failed one stays.

    Where a script fails, the observation is the checker's message and the state that was reached,
    ``"no match\nh0:p\n⊢p∨q\n"``: the next attempt goes on from there. A script that ends with open
    goals is ``not over``; one that goes on behind the end of the proof fails, and is cut before the
    tactic that ended it. The attempt that completes the proof is paid 1 and ends the episode, as
    the last attempt does.

    Facts: ``attempts``, ``proven``, ``first_proven``; of episodes with a second attempt
    ``repaired``, whether a later one completed the proof.

    Args:
        prover: an environment whose states can be searched: a class, or its description.
        attempts: how many there are.
        tells: the ``message`` and the state; or ``nothing`` but ``again`` (control): then the
            policy does not know where it has to go on.
        again: what is said where nothing is told.
        stop: text that ends an attempt and is not part of it; EOS does as well.

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
        made: Any = (
            load(prover.target, prover.arguments) if isinstance(prover, Unbuilt) else prover()
        )
        self.prover = made
        self.attempts = attempts
        self.tells = tells
        self.again = again
        self.stop = stop
        self.stops = (stop,)
        self.state: Any = None
        self.verdicts: list[bool] = []

    def reset(self, example: Example, seed: int) -> Turn:
        """Begin; the prompt has told the goal."""
        del seed
        self.state = self.prover.start(example)
        return Turn(anchor=self.prover.text(self.state))

    def step(self, action: str) -> Turn:
        """Check a script."""
        script = [line for line in action.removesuffix(self.stop).split("\n") if line]
        message = self._checked(script)
        self.verdicts.append(not message)
        if not message:
            return Turn(reward=1.0, done=True)
        if len(self.verdicts) >= self.attempts:
            return Turn(done=True)
        state = self.prover.text(self.state)
        told = f"{message}\n{state}" if self.tells == "message" else self.again
        return Turn(observation=told, closing="\n", anchor=state)

    def _checked(self, script: list[str]) -> str:
        """Go on by a script as far as it holds; what is wrong with it, empty for a proof."""
        before = self.state
        for tactic in script:
            new = "no goals" if self.prover.solved(self.state) else None
            new = new or self.prover.apply(self.state, tactic)
            if isinstance(new, str):
                if self.prover.solved(self.state):
                    self.state = before
                return new
            before, self.state = self.state, new
        return "" if self.prover.solved(self.state) else "not over"

    def facts(self) -> Mapping[str, float]:
        """What became of the attempts."""
        facts = {
            "attempts": float(len(self.verdicts)),
            "proven": float(any(self.verdicts)),
            "first_proven": float(any(self.verdicts[:1])),
        }
        return facts | ({"repaired": float(self.verdicts[-1])} if len(self.verdicts) > 1 else {})

    def close(self) -> None:
        """Free what the prover holds."""
        self.prover.close()
