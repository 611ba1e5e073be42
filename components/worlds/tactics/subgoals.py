"""Subgoals: scripts of ``have`` steps with holes that are proven separately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from components.worlds.tactics.natural_deduction import State, apply_tactic, run_script, state_text
from rlcomp.interfaces.task import Example

HOLE = "sorry"


class Sketch(NamedTuple):
    """Script with holes, checked with the holes assumed.

    Attributes:
        holes: the open goal of each ``sorry``, in order.
        message: error message of the script; empty if it is a proof except for its holes.
    """

    holes: tuple[State, ...]
    message: str


def sketch(state: State, script: Sequence[str]) -> Sketch:
    r"""Check a script in which ``sorry`` closes the first goal.

    Examples:
        >>> from components.worlds.tactics.natural_deduction import state_of
        >>> checked = sketch(state_of("p→p∨q"), ["intro", "have p∨q", "sorry", "exact h1"])
        >>> checked.message, [state_text(hole) for hole in checked.holes]
        ('', ['h0:p\n⊢p∨q'])
    """
    holes = list[State]()
    for tactic in script:
        if tactic == HOLE and state:
            holes.append(state[:1])
            state = state[1:]
            continue
        new = apply_tactic(state, tactic)
        if isinstance(new, str):
            return Sketch(tuple(holes), new)
        state = new
    return Sketch(tuple(holes), "not over" if state else "")


def hole_examples(script: Sketch) -> list[Example]:
    """Return each hole as an example for ``environment=tactics``."""
    return [Example(f"{state_text(hole)}\n", "", "") for hole in script.holes]


def assembled(script: Sequence[str], proofs: Sequence[Sequence[str]]) -> list[str]:
    """Return the script with a proof in place of each hole.

    Raises:
        ValueError: there are more or fewer proofs than holes.

    Examples:
        >>> assembled(["have p", "sorry", "exact h1"], [["exact h0"]])
        ['have p', 'exact h0', 'exact h1']
    """
    filled = iter(proofs)
    if list(script).count(HOLE) != len(proofs):
        raise ValueError(f"{len(proofs)} proofs for {list(script).count(HOLE)} holes")
    return [step for tactic in script for step in (next(filled) if tactic == HOLE else [tactic])]


def subgoal_reward(
    state: State,
    script: Sequence[str],
    proofs: Sequence[Sequence[str] | None],
    partial: float = 0.5,
) -> float:
    """Return the reward of a decomposition.

    ``0`` if the script fails with its holes assumed; ``partial * closed / holes`` while a hole is
    open; ``1`` only if the assembled script is accepted. Easy but useless holes are paid too, so
    keep ``partial`` small.

    Args:
        state: the state to prove.
        script: script with holes.
        proofs: proof of each hole, or None. A proof that fails closes no hole.
        partial: largest pay for an open proof.

    Raises:
        ValueError: there are more or fewer proofs than holes.
    """
    checked = sketch(state, script)
    if checked.message:
        return 0.0
    done = [
        proof
        for hole, proof in zip(checked.holes, proofs, strict=True)
        if proof is not None and run_script(hole, proof)[::2] == ((), "")
    ]
    if len(done) < len(checked.holes):
        return partial * len(done) / len(checked.holes)
    whole = run_script(state, assembled(script, done))
    return float(not whole.message and not whole.state)
