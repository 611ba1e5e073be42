"""Subgoals: scripts of ``have`` steps with holes, which are proven apart and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from components.worlds.tactics.natural_deduction import State, apply_tactic, run_script, state_text
from rlcomp.interfaces.task import Example

HOLE = "sorry"


class Sketch(NamedTuple):
    """A script with holes, checked with the holes assumed.

    Attributes:
        holes: the goal that each ``sorry`` leaves open, in their order.
        message: what is wrong with the script; empty where it is a proof but for its holes.
    """

    holes: tuple[State, ...]
    message: str


def sketch(state: State, script: Sequence[str]) -> Sketch:
    r"""Check a script in which ``sorry`` closes the first goal.

    Examples:
        >>> from components.worlds.tactics.natural_deduction import state_of
        >>> found = sketch(state_of("p→p∨q"), ["intro", "have p∨q", "sorry", "exact h1"])
        >>> found.message, [state_text(hole) for hole in found.holes]
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


def hole_examples(found: Sketch) -> list[Example]:
    """Each hole as an example of its own, as ``environment=tactics`` reads it."""
    return [Example(f"{state_text(hole)}\n", "", "") for hole in found.holes]


def assembled(script: Sequence[str], proofs: Sequence[Sequence[str]]) -> list[str]:
    """The script with a proof in place of each hole.

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
    """Reward of a decomposition.

    ``0`` where the script fails with its holes assumed; ``partial * closed / holes`` as long as a
    hole is open; ``1`` when the assembled script is accepted, and never before. Holes that are easy
    for no use pay, too: keep ``partial`` small.

    Args:
        state: what is to be proven.
        script: with holes.
        proofs: of each hole; None where none was found. One that fails closes nothing.
        partial: what is paid at most for an open proof.

    Raises:
        ValueError: there are more or fewer proofs than holes.
    """
    found = sketch(state, script)
    if found.message:
        return 0.0
    done = [
        proof
        for hole, proof in zip(found.holes, proofs, strict=True)
        if proof is not None and run_script(hole, proof)[::2] == ((), "")
    ]
    if len(done) < len(found.holes):
        return partial * len(done) / len(found.holes)
    whole = run_script(state, assembled(script, done))
    return float(not whole.message and not whole.state)
