"""Scripts of ``have`` steps with holes (subgoals) that are proven separately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from components.worlds.tactics.natural_deduction import State, apply_tactic, run_script, state_text
from rlcomp.interfaces.task import Example

HOLE = "sorry"


class Sketch(NamedTuple):
    """Result of a script with holes, whose goals are assumed to hold.

    Attributes:
        holes: the goal that each ``sorry`` closes, in order.
        message: error message of the script; empty if it is a proof apart from its holes.
    """

    holes: tuple[State, ...]
    message: str


def check_sketch(state: State, script: Sequence[str]) -> Sketch:
    r"""Run a script in which ``sorry`` closes the first goal, and return the result.

    Examples:
        >>> from components.worlds.tactics.natural_deduction import initial_state
        >>> script = ["intro", "have p∨q", "sorry", "exact h1"]
        >>> sketch = check_sketch(initial_state("p→p∨q"), script)
        >>> sketch.message, [state_text(hole) for hole in sketch.holes]
        ('', ['h0:p\n⊢p∨q'])
    """
    holes = list[State]()
    for tactic in script:
        if tactic == HOLE and state:
            holes.append(state[:1])
            state = state[1:]
            continue
        next_state = apply_tactic(state, tactic)
        if isinstance(next_state, str):
            return Sketch(tuple(holes), next_state)
        state = next_state
    return Sketch(tuple(holes), "not over" if state else "")


def hole_examples(sketch: Sketch) -> list[Example]:
    """Return each hole as an example for ``environment=tactics``."""
    return [Example(f"{state_text(hole)}\n", "", "") for hole in sketch.holes]


def fill_holes(script: Sequence[str], proofs: Sequence[Sequence[str]]) -> list[str]:
    """Return the script with a proof in place of each hole.

    Raises:
        ValueError: the numbers of proofs and holes differ.

    Examples:
        >>> fill_holes(["have p", "sorry", "exact h1"], [["exact h0"]])
        ['have p', 'exact h0', 'exact h1']
    """
    if list(script).count(HOLE) != len(proofs):
        raise ValueError(f"{len(proofs)} proofs for {list(script).count(HOLE)} holes")
    next_proof = iter(proofs)
    return [
        step for tactic in script for step in (next(next_proof) if tactic == HOLE else [tactic])
    ]


def subgoal_reward(
    state: State,
    script: Sequence[str],
    proofs: Sequence[Sequence[str] | None],
    partial: float = 0.5,
) -> float:
    """Return the reward of a decomposition.

    The reward is 0 if the script fails with its holes assumed; ``partial * closed / holes`` if a
    hole has no valid proof; and 1 if the script with the proofs in its holes is a proof. Easy but
    useless holes increase the partial reward, so keep ``partial`` small.

    Args:
        state: the state to prove.
        script: script with holes.
        proofs: proof of each hole; None: the hole has no proof.
        partial: upper bound of the reward of a script with an open hole.

    Raises:
        ValueError: the numbers of proofs and holes differ.
    """
    sketch = check_sketch(state, script)
    if sketch.message:
        return 0.0
    valid_proofs = [
        proof
        for hole, proof in zip(sketch.holes, proofs, strict=True)
        if proof is not None and run_script(hole, proof).is_proof
    ]
    if len(valid_proofs) < len(sketch.holes):
        return partial * len(valid_proofs) / len(sketch.holes)
    return float(run_script(state, fill_holes(script, valid_proofs)).is_proof)
