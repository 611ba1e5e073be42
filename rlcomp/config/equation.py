"""Equations of a plan: its losses with their parts, and terms of the reward."""

from __future__ import annotations

import re

from rlcomp.config.flow_source import ran
from rlcomp.config.plan import PhasePlan, Plan, children, losses_of
from rlcomp.config.reader import Node

_PLACE = re.compile(r"\{(?P<name>\w+)(?:(?P<formula>:formula)|\|(?P<null>[^}]*))?\}")
# rlcomp.functional.divergence, with d_t = log pi(a_t) - log pi_ref(a_t).
_KL = {
    "k1": "d_t",
    "k2": "d_t^2 / 2",
    "k3": "(exp(-d_t) - 1 + d_t)",
    "abs": "|d_t|",
    "k1_plus": "(sg[d_t - d_t^2 / 2] + d_t^2 / 2)",
    "k3_plus": "(sg[exp(-d_t) - 1 + d_t - d_t^2 / 2] + d_t^2 / 2)",
    "k1_ratio": "rho_t d_t",
    "k2_ratio": "sg[rho_t] d_t^2 / 2",
    "k3_ratio": "rho_t (exp(-d_t) - 1 + d_t)",
}


def equations(plan: Plan) -> list[str]:
    """Return a line for each loss of the phases' learners, and one below for each of its parts.

    Before them what a stage states (a KL paid in the reward, a learner that combines gradients).
    Where there are several phases, each has a head.
    """
    phases = {name: _of_phase(phase) for name, phase in plan.phases.items()}
    width = max((len(name) for rows in phases.values() for name, _ in rows), default=0)
    lines: list[str] = []
    for name, rows in phases.items():
        lines += [f"phase {name}:"] if len(phases) > 1 and rows else []
        lines += [f"{path:{width}}  {equation}" for path, equation in rows]
    return lines


def _of_phase(phase: PhasePlan) -> list[tuple[str, str]]:
    # A node that stands in a phase twice is told once.
    stages = {stage.path: stage for stage in phase.all_stages() if isinstance(stage, Node)}
    return [row for stage in stages.values() for row in _of_stage(stage)]


def _of_stage(node: Node) -> list[tuple[str, str]]:
    own, losses = filled(node.declaration.equation, node), losses_of(node)
    inside = [row for child in children(node) for row in _of_stage(child)]
    rows = [row for loss in losses for row in _rows(loss, 0)] if losses else inside
    return [(node.path, own), *rows] if own else rows


def _rows(node: Node, depth: int) -> list[tuple[str, str]]:
    declaration = node.declaration
    own = filled(declaration.equation, node) or f"{declaration.name}: states no equation"
    below = [row for child in ran(node) for row in _rows(child, depth + 1)]
    return [("  " * depth + node.path, own), *below]


def filled(equation: str, node: Node) -> str:
    """Fill the arguments of a node into an equation.

    ``{name}`` is the argument, inf where it is null; ``{name|text}`` has the text for null;
    ``{name:formula}`` is the formula of an estimator of the KL.

    Examples:
        >>> filled("clip(r_t, 1 - {low})", Node("loss", "Clip", {"low": 0.2}))
        'clip(r_t, 1 - 0.2)'
    """

    def put(found: re.Match[str]) -> str:
        value = node.arguments.get(found["name"])
        if found["formula"]:
            return _KL.get(str(value), str(value))
        return (found["null"] or "inf") if value is None else _shown(value)

    return _PLACE.sub(put, equation)


def _shown(value: object) -> str:
    if isinstance(value, Node):
        plain = {k: v for k, v in value.arguments.items() if isinstance(v, (int, float, str, Node))}
        inside = ", ".join(f"{name}={_shown(one)}" for name, one in plain.items())
        return f"{value.target.rpartition('.')[2]}" + (f"({inside})" if inside else "")
    return str(value)
