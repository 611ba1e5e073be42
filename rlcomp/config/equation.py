"""Equations of a plan: its losses with their parts, and terms of the reward."""

from __future__ import annotations

import re

from rlcomp.config.flow_source import run_children
from rlcomp.config.plan import PhasePlan, Plan, children, losses_of
from rlcomp.config.reader import Node

_FIELD = re.compile(r"\{(?P<name>\w+)(?:(?P<formula>:formula)|\|(?P<null>[^}]*))?\}")
# Estimators of rlcomp.functional.divergence: d_t = log pi(a_t) - log pi_ref(a_t), rho_t is
# pi / pi_old, sg[] stops the gradient.
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
    """Return a line for each loss of the learners, and one for each part of a loss.

    The equation of a stage itself (a KL in the reward, a combination of gradients) comes first.
    With several phases, each has a heading.
    """
    phases = {name: _phase_rows(phase) for name, phase in plan.phases.items()}
    width = max((len(name) for rows in phases.values() for name, _ in rows), default=0)
    lines: list[str] = []
    for name, rows in phases.items():
        lines += [f"phase {name}:"] if len(phases) > 1 and rows else []
        lines += [f"{path:{width}}  {equation}" for path, equation in rows]
    return lines


def _phase_rows(phase: PhasePlan) -> list[tuple[str, str]]:
    # Keyed by path, since a node may be listed twice.
    stages = {stage.path: stage for stage in phase.listed_stages() if isinstance(stage, Node)}
    return [row for stage in stages.values() for row in _stage_rows(stage)]


def _stage_rows(node: Node) -> list[tuple[str, str]]:
    equation, losses = fill_equation(node.declaration.equation, node), losses_of(node)
    inside = [row for child in children(node) for row in _stage_rows(child)]
    rows = [row for loss in losses for row in _loss_rows(loss, 0)] if losses else inside
    return [(node.path, equation), *rows] if equation else rows


def _loss_rows(node: Node, depth: int) -> list[tuple[str, str]]:
    declaration = node.declaration
    equation = (
        fill_equation(declaration.equation, node) or f"{declaration.name}: states no equation"
    )
    below = [row for child in run_children(node) for row in _loss_rows(child, depth + 1)]
    return [("  " * depth + node.path, equation), *below]


def fill_equation(equation: str, node: Node) -> str:
    """Return an equation with the arguments of a node filled in.

    ``{name}`` is the argument, or inf if it is null; ``{name|text}`` is the argument, or the text
    if it is null; ``{name:formula}`` is the formula of an estimator of the KL.

    Examples:
        >>> fill_equation("clip(r_t, 1 - {low})", Node("loss", "Clip", {"low": 0.2}))
        'clip(r_t, 1 - 0.2)'
    """

    def fill(match: re.Match[str]) -> str:
        value = node.arguments.get(match["name"])
        if match["formula"]:
            return _KL.get(str(value), str(value))
        return (match["null"] or "inf") if value is None else _format_value(value)

    return _FIELD.sub(fill, equation)


def _format_value(value: object) -> str:
    if isinstance(value, Node):
        plain = {k: v for k, v in value.arguments.items() if isinstance(v, (int, float, str, Node))}
        inside = ", ".join(f"{name}={_format_value(argument)}" for name, argument in plain.items())
        return f"{value.target.rpartition('.')[2]}" + (f"({inside})" if inside else "")
    return str(value)
