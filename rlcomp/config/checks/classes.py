"""Checks of classes by their source: losses of other libraries, and values that are not returned.

Nothing is imported: the names of their modules identify the losses.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from rlcomp.config.bases import lineage
from rlcomp.config.finding import Finding, refuse
from rlcomp.config.plan import Plan, losses_of
from rlcomp.config.source import find
from rlcomp.errors import ConfigError

_LLM = "torchrl.objectives.llm"
_ROWS = "reads chat rows ('tokens.full', 'log_probs.full', 'history'), which no stage here writes"
# Further fault of each loss of torchrl, and the option that replaces it; measured with 0.14.1.
_REPLACEMENTS = {
    "GRPOLoss": (", and averages its KL over the prompt and padding as well", "loss=grpo"),
    "DAPO": (", and averages its KL over the prompt and padding as well", "loss=dapo"),
    "CISPOLoss": (
        ", and has no gradient where the ratio is clipped, which CISPO keeps",
        "loss=cispo",
    ),
    "SFTLoss": ("", "loss=sft"),
    "DistillationLoss": ("", "kl=in_loss_full with reference=frozen_full"),
}
_RETURN_BATCH = (
    "forward must return the batch: write into it, batch['advantage'] = ..., and return batch"
)


def check_foreign_losses(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each loss of a learner that is known not to run."""
    for node in plan.nodes.values():
        for loss in losses_of(node):
            if reason := foreign_loss_fault(*loss.target.rpartition(".")[::2]):
                yield refuse(f"{loss.path}._target_ is {loss.target}: {reason}")


def foreign_loss_fault(module: str, name: str) -> str | None:
    """Return why a class of another library cannot be a loss here; None: no reason is known.

    Examples:
        >>> foreign_loss_fault("torchrl.objectives.llm.sft", "SFTLoss").partition("; ")[2]
        'use loss=sft'
        >>> foreign_loss_fault("torchrl.objectives.ppo", "ClipPPOLoss") is None
        True
    """
    if module == _LLM or module.startswith(f"{_LLM}."):
        fault, instead = _REPLACEMENTS.get(name, ("", "a loss of conf/loss"))
        return f"it {_ROWS}{fault}; use {instead}"
    if module == "torch.nn" or module.startswith("torch.nn."):
        return (
            "it reads tensors, but a loss reads a TensorDict and writes a scalar 'loss...' into a "
            "new one; subclass rlcomp.TokenLoss or rlcomp.RowLoss"
        )
    return None


def check_return_values(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each stage whose ``forward`` surely returns no batch.

    A case that the source does not decide is checked when the stage runs.
    """
    for node in plan.nodes.values():
        part = node.declaration
        has_keys = part.reads or part.writes or part.optional
        if not part.opaque and has_keys and (fault := return_fault(node.target)):
            yield refuse(f"{node.path}._target_ is {node.target}: {fault}; {_RETURN_BATCH}")


def check_reward_functions(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each reward function of the user that returns no score."""
    for node in plan.nodes.values():
        path = node.arguments.get("function")
        if not node.target.endswith("reward.function.FunctionReward") or not isinstance(path, str):
            continue
        if (line := _line_without_return(path)) is not None:
            yield refuse(
                f"{node.path}.function is {path!r}: it returns nothing (line {line}), so that "
                "every row would be invalid; end it with the score, return reward"
            )


def _line_without_return(path: str) -> int | None:
    """Return the line of a function that surely returns nothing; None: it may return something."""
    module, _, name = path.rpartition(".")
    try:
        binding = find(module, name) if module else None
    except ConfigError:
        return None  # its import reports the fault
    if binding is None or not isinstance(binding[1], (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    syntax = [*_body_syntax(binding[1])]
    returns_value = any(isinstance(part, ast.Return) and part.value is not None for part in syntax)
    other = (ast.Yield, ast.YieldFrom, ast.Raise)
    if returns_value or any(isinstance(part, other) for part in syntax):
        return None
    return binding[1].lineno


def return_fault(target: str) -> str | None:
    """Return why a component's ``forward`` surely returns no batch; None: it may return one."""
    module, _, name = target.rpartition(".")
    definition = find(module, name)
    if definition is None or not isinstance(definition[1], ast.ClassDef):
        return None
    for _, cls in lineage(definition[0], definition[1]):
        for statement in cls.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "forward":
                return _forward_fault(statement)
    return None


def _forward_fault(forward: ast.FunctionDef) -> str | None:
    syntax = [*_body_syntax(forward)]
    if any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in syntax):
        return f"its forward is a generator (line {forward.lineno})"
    returns = [part for part in syntax if isinstance(part, ast.Return)]
    if not returns:
        ends = any(isinstance(part, ast.Raise) for part in syntax)
        return None if ends else f"its forward returns nothing (line {forward.lineno})"
    arguments = forward.args.args[1:2]
    batch = arguments[0].arg if arguments else ""
    values = _values_of_names(syntax)
    for statement in returns:
        if statement.value is None or _is_other_value(statement.value, batch, values):
            shown = "nothing" if statement.value is None else ast.unparse(statement.value)
            return f"its forward returns {shown:.80} (line {statement.lineno})"
    return None


def _body_syntax(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """Yield the syntax nodes of a function's body, except for inner functions."""
    stack: list[ast.AST] = [*function.body]
    while stack:
        part = stack.pop()
        yield part
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            stack += ast.iter_child_nodes(part)


def _values_of_names(syntax: list[ast.AST]) -> dict[str, ast.expr]:
    """Return the values of names that are bound once, by an assignment."""
    values: dict[str, ast.expr] = {}
    for part in syntax:
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            values[part.targets[0].id] = part.value
    names = [part for part in syntax if isinstance(part, ast.Name)]
    bound = Counter(name.id for name in names if isinstance(name.ctx, ast.Store))
    return {name: value for name, value in values.items() if bound[name] == 1}


def _is_other_value(value: ast.expr, batch: str, values: dict[str, ast.expr]) -> bool:
    """Return whether a value is surely no batch: an entry, a constant, or computed from these.

    ``values`` has the values of names; a followed name is dropped, so that a circle ends.
    """
    if isinstance(value, (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Compare)):
        return True
    if isinstance(value, ast.Subscript):
        return (
            isinstance(value.value, ast.Name)
            and value.value.id == batch
            and isinstance(value.slice, ast.Constant)
            and isinstance(value.slice.value, str)
        )
    if isinstance(value, ast.BinOp):
        sides = (value.left, value.right)
        return any(_is_other_value(side, batch, values) for side in sides) and not any(
            isinstance(side, ast.Name) and side.id == batch for side in sides
        )
    if isinstance(value, ast.Name) and value.id in values:
        others = {name: other for name, other in values.items() if name != value.id}
        return _is_other_value(values[value.id], batch, others)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return _is_other_value(value.func.value, batch, values)
    return False
