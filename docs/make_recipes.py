"""Writes ``recipes.md`` from the recipes' yaml files: ``python docs/make_recipes.py``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.utils import setup_globals
from omegaconf import OmegaConf
import yaml

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"
PAGE = Path(__file__).with_name("recipes.md")
CLAIMS = yaml.safe_load(Path(__file__).with_name("mechanisms.yaml").read_text(encoding="utf-8"))

# What makes a policy-optimisation method, in the order of the flow.
SLOTS = (
    "position",
    "dynamic_sampling",
    "curriculum",
    "collector",
    "decoding",
    "feedback",
    "shaping",
    "old_log_probs",
    "kl",
    "kl_controller",
    "value",
    "value_warm_up",
    "conditioning",
    "advantage",
    "advantage@advantage.advantage",
    "pareto@advantage.aggregator",
    "pareto@learner.aggregator",
    "filter",
    "loss",
    "loss/ratio",
    "loss/trust_region",
    "loss/weight",
    "loss/reduction",
    "entropy_bonus",
    "imitation",
)
# Chosen unless a recipe says otherwise, and no part of any paper.
PLAIN = {"none", "full", "group", "rollout", "fixed", "frozen"}

INTRODUCTION = """\
# Recipes: paper, parts, config, test

Every method below is a point in one space: a choice of parts, by name. `python
docs/make_recipes.py` makes this page from `conf/recipe`.

`rlcomp recipe=NAME` runs a method on the sorting task. Methods with a `position` run on text, from
a model of `recipe=pretrain` (`base=DIR`); `rlvr_code` runs on expressions. `rlcomp-describe
recipe=NAME` shows the flow, and `rlcomp-describe recipe=NAME --against recipe=grpo` the
differences. Any part can be replaced on the command line: `rlcomp recipe=dapo
advantage=leave_one_out loss/trust_region=dual_clip`. The table leaves out slots at `none`, plain
choices (`collector=group`, `decoding=full`, `old_log_probs=rollout`, `kl_controller=fixed`) and
numbers that are those of `grpo`. [experiments/recipes](../experiments/recipes/README.md) measures
whether each of them learns.

| recipe | paper | parts | numbers set | tests |
|---|---|---|---|---|
"""

MECHANISMS = """
## Is the mechanism at work?

Each recipe has a number that shows its own mechanism in a run of `rlcomp recipe=NAME`, seed 0
(recipes on text with the run of `recipe=pretrain` as `base=`). The number is the mean over the
steps of the last phase, unless it is a change or the last value. One run shows that a mechanism is
at work, not what it is worth. The table is made from [mechanisms.yaml](mechanisms.yaml); tests
hold small runs to the same bounds.

| recipe | metric | found | must be | what it is |
|---|---|---|---|---|
"""


def recipes() -> list[str]:
    """Return all policy-optimisation recipes: ``grpo`` and those derived from it."""
    built_on = [name for name in sorted(_names()) if "grpo" in _lineage(name)]
    plain = parts("grpo")
    return [name for name in built_on if name == "grpo" or parts(name) != plain]


def _names() -> list[str]:
    return [file.stem for file in (CONF / "recipe").glob("*.yaml")]


def _lineage(name: str) -> list[str]:
    """A recipe and those it starts from."""
    text = (CONF / "recipe" / f"{name}.yaml").read_text(encoding="utf-8")
    first = re.search(r"^defaults:\n\s+- (\w+)$", text, re.MULTILINE)
    return [name, *(_lineage(first[1]) if first and first[1] in _names() else [])]


def paper(name: str) -> str:
    """Return the comment above a recipe."""
    lines = (CONF / "recipe" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    words = [line.removeprefix("# ") for line in takewhile(lambda line: line[:1] == "#", lines)]
    return " ".join(line for line in words if not line.startswith("@package"))


@cache
def parts(name: str) -> dict[str, str]:
    """Slot -> the option a recipe chooses for it, those that choose nothing aside."""
    setup_globals()
    overrides = [f"recipe={name}", "directory=x"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        chosen = compose("config", overrides, return_hydra_config=True).hydra.runtime.choices
    found: dict[str, str] = {}
    for key, option in chosen.items():
        # The policy loss alone: demonstrations and KL have reductions of their own.
        slot = key.removesuffix(".collector").removesuffix("@rollout")
        if slot in SLOTS and option not in PLAIN:
            found[slot] = option if isinstance(option, str) else "+".join(option)
    return {slot: found[slot] for slot in SLOTS if slot in found}


def numbers(name: str) -> str:
    """Return the settings of a recipe and its bases up to ``grpo``, as overrides."""
    lineage = _lineage(name)
    found: dict[str, object] = {}
    for recipe in reversed(lineage[: lineage.index("grpo")] or ["grpo"]):
        # As it is written: what it refers to stands in other files.
        file = OmegaConf.load(CONF / "recipe" / f"{recipe}.yaml")
        found |= dict(_flat(OmegaConf.to_container(file, resolve=False), ""))
    # The KL coefficient that a recipe does not pay is no number of it.
    unused = ("defaults",) if "kl" in parts(name) else ("defaults", "kl_controller")
    own = {path: value for path, value in found.items() if path.split(".")[0] not in unused}
    return ", ".join(f"`{path}={value}`" for path, value in own.items() if "stages" not in path)


def _flat(tree: object, prefix: str) -> Iterator[tuple[str, object]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _flat(value, f"{prefix}{key}.")
    else:
        yield prefix.removesuffix("."), tree


def tests(chosen: dict[str, str]) -> list[str]:
    """The test files of the classes behind the options."""
    found: dict[str, None] = {}
    for slot, options in chosen.items():
        for option in options.split("+"):
            for target in _targets(slot.partition("@")[0], option):
                found.update(dict.fromkeys(_tests_of(*target)))
    return list(found)


def _targets(group: str, option: str) -> Iterator[tuple[str, str]]:
    """(module, class) of an option and of those it starts from."""
    text = (CONF / group / f"{option}.yaml").read_text(encoding="utf-8")
    for module, name in re.findall(r"_target_: ([\w.]+)\.(\w+)", text):
        if name != "Nothing":
            yield module, name
    for other in re.findall(r"^  - (\w+)$", text, re.MULTILINE):
        if other != "_self_":
            yield from _targets(group, other)
    for other_group, other in re.findall(r"^  - /([\w/]+)(?:@\S+)?: (\w+)$", text, re.MULTILINE):
        yield from _targets(other_group, other)


def _tests_of(module: str, name: str) -> list[str]:
    """Return the test file of a class: the one of its name, of its module, or the first with it."""
    place = ROOT / "tests" / Path(*module.removeprefix("rlcomp.").split("."))
    folder = place if place.is_dir() else place.parent
    files = sorted(folder.glob("test_*.py"))
    holding = [f for f in files if re.search(rf"\b{name}\b", f.read_text(encoding="utf-8"))]
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])", "_", name).lower()
    named = [f for f in holding if f.stem == f"test_{snake}"]
    own = [f for f in holding if module.split(".")[-1] in f.stem]
    return [f.relative_to(ROOT).as_posix() for f in (named or own or holding)[:1]]


def recipes_page() -> str:
    """The whole page."""
    rows = []
    for name in recipes():
        chosen = parts(name)
        listed = "; ".join(f"{slot}={option}" for slot, option in chosen.items())
        links = " ".join(f"[{Path(t).stem}](../{t})" for t in tests(chosen))
        config = f"[{name}](../conf/recipe/{name}.yaml)"
        rows.append(f"| {config} | {paper(name)} | {listed} | {numbers(name)} | {links} |")
    return INTRODUCTION + "\n".join(rows) + "\n" + MECHANISMS + "\n".join(mechanisms()) + "\n"


def mechanisms() -> Iterator[str]:
    """A row for each number that shows a mechanism."""
    for name, claims in CLAIMS.items():
        for claim in claims:
            bounds = [f"{way} {claim[way]}" for way in ("above", "below") if way in claim]
            of = f", {claim['of']}" if "of" in claim else ""
            yield (
                f"| `{name}` | `{claim['metric']}`{of} | {claim['found']:.3g} "
                f"| {', '.join(bounds)} | {claim['shows']} |"
            )


if __name__ == "__main__":
    PAGE.write_text(recipes_page(), encoding="utf-8")
