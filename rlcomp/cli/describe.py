"""``rlcomp-describe``: print or diff recipes. Never imports torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from omegaconf import DictConfig
from rich import box
from rich.console import Console
from rich.table import Table

from rlcomp.cli.command_arguments import Parser
from rlcomp.cli.error_handler import run_program
from rlcomp.cli.model_facts import model_facts
from rlcomp.config.checks.distributed import describe_ranks, worker_labels
from rlcomp.config.choices import repeated_choices
from rlcomp.config.compare import config_differences
from rlcomp.config.equation import equations
from rlcomp.config.flow_source import flow_of, run_children
from rlcomp.config.plan import PhasePlan, Plan, read
from rlcomp.config.reader import Node
from rlcomp.config.resolve import check, compose_or_explain, raise_or_warn
from rlcomp.errors import ConfigErrors
from rlcomp.keys import CONTROL, lookup


def main() -> None:
    """Print phases, stages, keys and shapes; with ``--against``, the difference of two recipes.

    ``--equation`` prints the losses as equations, with the numbers of the config. ``base=DIR`` adds
    the contents of the folder, and the memory and compute of a step.
    """
    run_program(_app)


def _app() -> None:
    parser = Parser(prog="rlcomp-describe", description=main.__doc__)
    parser.add_argument("overrides", nargs="*", help="as for rlcomp, e.g. recipe=grpo")
    parser.add_argument("--against", nargs="+", metavar="OVERRIDE", help="a second recipe")
    parser.add_argument("--equation", action="store_true", help="the losses, as equations")
    parser.add_argument("-cd", "--config-dir", action="append", default=[], help="your own configs")
    options = parser.parse()
    # No markup: a config may well hold "[/]".
    console = Console(width=None if sys.stdout.isatty() else 140, markup=False, emoji=False)
    for overrides in (options.overrides, options.against or []):
        if faults := repeated_choices(overrides, "rlcomp-describe"):
            raise ConfigErrors(faults)
    config = compose_or_explain(options.overrides, options.config_dir)
    if options.against:
        other = compose_or_explain(options.against, options.config_dir)
        names = " ".join(options.overrides) or "default", " ".join(options.against)
        console.print(difference(config, other, names))
        return
    plan, errors = read(config, options.overrides)
    findings = check(plan)
    for line in equations(plan) if options.equation else (*model_facts(plan), *describe(plan)):
        console.print(line, soft_wrap=isinstance(line, str))
    raise_or_warn(plan, errors, findings)


def describe(plan: Plan) -> list[Table | str]:
    """Return a table for each list of stages, and a line on the ranks."""
    labels = worker_labels(plan)
    tables = [
        table for name, phase in plan.phases.items() for table in _phase_tables(name, phase, labels)
    ]
    return [*tables, *describe_ranks(plan.reached())]


def _phase_tables(name: str, phase: PhasePlan, labels: Mapping[str, str]) -> list[Table | str]:
    if not phase.later:
        return [_table(f"phase {name}: {phase.steps} steps", phase.stages, phase, labels)]
    starts = [1, *phase.later]
    ends = [*(start - 1 for start in phase.later), phase.steps]
    return [
        _table(f"phase {name}: steps {start} to {end} of {phase.steps}", stages, phase, labels)
        for start, end, stages in zip(starts, ends, phase.lists(), strict=True)
    ]


def _table(
    title: str, stages: Sequence[object], phase: PhasePlan, labels: Mapping[str, str]
) -> Table:
    every = ", ".join(f"{node} every {period}" for node, (period, _) in phase.every.items())
    title += f"; {every}" if every else ""
    begin = ", ".join(node.path for node in phase.on_begin)
    title += f"; at the beginning {begin}" if begin else ""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("stage", "part", "reads", "writes"):
        table.add_column(column, overflow="fold")
    empty = []
    for stage in (*stages, *(stage for _, stage in phase.every.values())):
        if isinstance(stage, Node) and stage.declaration.name == "Nothing":
            empty.append(stage.path)
        elif isinstance(stage, Node):
            _add_rows(table, stage, 0, labels)
    if empty:
        table.caption, table.caption_justify = f"empty slots: {', '.join(empty)}", "left"
    return table


def _add_rows(table: Table, node: Node, depth: int, labels: Mapping[str, str]) -> None:
    declaration, flow = node.declaration, flow_of(node)
    prefix = "a new batch: " if flow.fresh else ""
    unknown = "known once it is built" if flow.opaque and not flow.reads | flow.writes else ""
    suffix = ", and the prompt's keys" if declaration.keeps_prompt else ""
    own_writes = frozenset(node.keys.get(key, key) for key in declaration.written(node.arguments))
    writes = own_writes if depth or declaration.contained else flow.writes
    table.add_row(
        " ".join(["  " * depth + node.path, *filter(None, [labels.get(node.path)])]),
        declaration.name,
        unknown or _keys(flow.reads, declaration.optional),
        unknown or prefix + _keys(writes, declaration.may_write) + suffix,
    )
    for child in run_children(node):
        _add_rows(table, child, depth + 1, labels)


def _keys(keys: frozenset[str], conditional: Sequence[str] = ()) -> str:
    """Return keys with their shapes: certain keys, conditional ones in brackets, unknown ones."""
    shown = [f"{key}{_shape(key)}" for key in sorted(keys) if _shape(key)]
    shown += [f"({key}{_shape(key)})" for key in sorted(set(conditional) - keys)]
    shown += sorted(key for key in keys if not _shape(key))
    return ", ".join(shown) or "-"


def _shape(key: str) -> str:
    spec = lookup(key) or CONTROL.get(key)
    return f"[{','.join(spec.shape.split())}]" if spec else ""


def difference(one: DictConfig, other: DictConfig, names: tuple[str, str]) -> Table | str:
    """Return the difference of two configs, as a table of config paths."""
    differing = {
        path: pair for path, pair in config_differences(one, other).items() if path != "directory"
    }
    if not differing:
        return f"no difference between {names[0]} and {names[1]}"
    table = Table(title=f"{names[0]} against {names[1]}", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("config path", *names):
        table.add_column(column, overflow="fold")
    for path, pair in differing.items():
        table.add_row(path, *pair)
    return table


if __name__ == "__main__":
    main()
