"""``rlcomp-describe``: what a recipe is made of, and how two differ. Never imports torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.utils import setup_globals
from omegaconf import DictConfig
from rich import box
from rich.console import Console
from rich.table import Table

from rlcomp.cli import guard
from rlcomp.errors import ConfigError, ConfigErrors
from rlcomp.keys import SCHEMA
from rlcomp.run.compare import changed
from rlcomp.run.declare import declare
from rlcomp.run.flow_source import flow_of, ran
from rlcomp.run.options import config_directory
from rlcomp.run.plan import PhasePlan, Plan, read
from rlcomp.run.resolve import check_plan
from rlcomp.run.wiring import Node

# Set by the running app; a description stands outside one.
_PLACEHOLDERS = ["directory=runs/..."]


def compose_config(overrides: Sequence[str], config_dirs: Sequence[str] = ()) -> DictConfig:
    """The config of a command line, outside the app.

    Args:
        overrides: as on the command line.
        config_dirs: directories of the user's own configs.
    """
    setup_globals()
    for place in config_dirs:
        if not Path(place).is_dir():
            raise ConfigError(f"--config-dir is {place}: there is no such directory")
    extra = [f"file://{Path(place).resolve()}" for place in config_dirs]
    search = [f"hydra.searchpath=[{','.join(extra)}]"] if extra else []
    placeholders = [
        text for text in _PLACEHOLDERS if not any(o.startswith("directory=") for o in overrides)
    ]
    with initialize_config_dir(str(config_directory()), version_base="1.3", job_name="rlcomp"):
        return compose("config", overrides=[*placeholders, *overrides, *search])


def main() -> None:
    """Print phases, stages, keys and shapes; with ``--against``, the difference of two recipes."""
    guard(_app)


def _app() -> None:
    parser = argparse.ArgumentParser(prog="rlcomp-describe", description=main.__doc__)
    parser.add_argument("overrides", nargs="*", help="as for rlcomp, e.g. recipe=grpo")
    parser.add_argument("--against", nargs="+", metavar="OVERRIDE", help="a second recipe")
    parser.add_argument("-cd", "--config-dir", action="append", default=[], help="your own configs")
    given = parser.parse_args()
    # No markup: a config may well hold "[/]".
    console = Console(width=None if sys.stdout.isatty() else 140, markup=False, emoji=False)
    config = compose_config(given.overrides, given.config_dir)
    if given.against:
        other = compose_config(given.against, given.config_dir)
        names = " ".join(given.overrides) or "default", " ".join(given.against)
        console.print(difference(config, other, names))
        return
    plan, errors = read(config)
    errors += check_plan(plan)
    try:
        for line in describe(plan):
            console.print(line)
    except ConfigError as error:  # a target that is not there is among the errors already
        errors += [] if errors else [str(error)]
    if errors:
        raise ConfigErrors(errors)


def describe(plan: Plan) -> list[Table | str]:
    """One table a phase."""
    return [_phase(name, phase) for name, phase in plan.phases.items()]


def _phase(name: str, phase: PhasePlan) -> Table:
    every = ", ".join(f"{node} every {period}" for node, (period, _) in phase.every.items())
    title = f"phase {name}: {phase.steps} steps" + (f"; {every}" if every else "")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("stage", "part", "reads", "writes"):
        table.add_column(column, overflow="fold")
    empty = []
    for stage in (*phase.stages, *(stage for _, stage in phase.every.values())):
        if isinstance(stage, Node) and declare(stage.target).name == "Nothing":
            empty.append(stage.path)
        elif isinstance(stage, Node):
            _rows(table, stage, 0)
    if empty:
        table.caption, table.caption_justify = f"empty slots: {', '.join(empty)}", "left"
    return table


def _rows(table: Table, node: Node, depth: int) -> None:
    declaration, flow = declare(node.target), flow_of(node)
    started = "a new batch: " if flow.fresh else ""
    unknown = "known once it is built" if flow.opaque and not flow.reads | flow.writes else ""
    own = frozenset(node.keys.get(key, key) for key in declaration.writes)
    writes = own if depth or declaration.contained else flow.writes
    table.add_row(
        "  " * depth + node.path,
        declaration.name,
        unknown or _keys(flow.reads, declaration.optional),
        unknown or started + _keys(writes),
    )
    for child in ran(node, declaration):
        _rows(table, child, depth + 1)


def _keys(keys: frozenset[str], optional: Sequence[str] = ()) -> str:
    shown = [f"{key}{_shape(key)}" for key in sorted(keys & SCHEMA.keys())]
    shown += [f"({key}{_shape(key)})" for key in sorted(set(optional) - keys)]
    shown += sorted(keys - SCHEMA.keys())
    return ", ".join(shown) or "-"


def _shape(key: str) -> str:
    return f"[{','.join(SCHEMA[key].shape.split())}]"


def difference(one: DictConfig, other: DictConfig, names: tuple[str, str]) -> Table | str:
    """What differs between two configs, as a table of config paths."""
    differing = {path: pair for path, pair in changed(one, other).items() if path != "directory"}
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
