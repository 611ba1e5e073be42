"""Write ``recipes.md`` from the recipes' yaml files: ``python docs/make_recipes.py``."""

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

# The groups of options that make a policy-optimisation method, in the order of the flow.
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
# Options that are chosen unless a recipe says otherwise, and belong to no paper.
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
    """Return ``grpo`` and the recipes that are derived from it and choose other parts."""
    derived = [name for name in sorted(_names()) if "grpo" in _lineage(name)]
    return [name for name in derived if name == "grpo" or parts(name) != parts("grpo")]


def _names() -> list[str]:
    return [file.stem for file in (CONF / "recipe").glob("*.yaml")]


def _lineage(name: str) -> list[str]:
    """Return a recipe, the recipe it starts from, and so on."""
    text = (CONF / "recipe" / f"{name}.yaml").read_text(encoding="utf-8")
    base = re.search(r"^defaults:\n\s+- (\w+)$", text, re.MULTILINE)
    return [name, *(_lineage(base[1]) if base and base[1] in _names() else [])]


def paper(name: str) -> str:
    """Return the comment above a recipe."""
    lines = (CONF / "recipe" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    words = [line.removeprefix("# ") for line in takewhile(lambda line: line[:1] == "#", lines)]
    return " ".join(line for line in words if not line.startswith("@package"))


@cache
def parts(name: str) -> dict[str, str]:
    """Return the option that a recipe chooses, by slot, without plain options."""
    setup_globals()
    overrides = [f"recipe={name}", "directory=x"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        chosen = compose("config", overrides, return_hydra_config=True).hydra.runtime.choices
    options: dict[str, str] = {}
    for key, option in chosen.items():
        # Other losses have reductions under other keys (loss/reduction@...), which are no slots.
        slot = key.removesuffix(".collector").removesuffix("@rollout")
        if slot in SLOTS and option not in PLAIN:
            options[slot] = option if isinstance(option, str) else "+".join(option)
    return {slot: options[slot] for slot in SLOTS if slot in options}


def numbers(name: str) -> str:
    """Return the settings of a recipe and its bases up to ``grpo``, as overrides."""
    lineage = _lineage(name)
    settings: dict[str, object] = {}
    for recipe in reversed(lineage[: lineage.index("grpo")] or ["grpo"]):
        file = OmegaConf.load(CONF / "recipe" / f"{recipe}.yaml")
        # Unresolved, because the nodes of ${...} are in other files.
        settings |= dict(_flat(OmegaConf.to_container(file, resolve=False), ""))
    # A recipe without KL does not use its KL coefficient.
    unused = ("defaults",) if "kl" in parts(name) else ("defaults", "kl_controller")
    used = {path: value for path, value in settings.items() if path.split(".")[0] not in unused}
    return ", ".join(f"`{path}={value}`" for path, value in used.items() if "stages" not in path)


def _flat(tree: object, prefix: str) -> Iterator[tuple[str, object]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _flat(value, f"{prefix}{key}.")
    else:
        yield prefix.removesuffix("."), tree


def tests(chosen: dict[str, str]) -> list[str]:
    """Return the test files of the classes that the options build."""
    files: dict[str, None] = {}
    for slot, options in chosen.items():
        for option in options.split("+"):
            for target in _targets(slot.partition("@")[0], option):
                files.update(dict.fromkeys(_tests_of(*target)))
    return list(files)


def _targets(group: str, option: str) -> Iterator[tuple[str, str]]:
    """Yield module and class of an option, and of the options in its defaults."""
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
    """Return the test file of a class, in a list; empty if no file has the class.

    It is the file with the name of the class, else with the name of its module, else the first one
    that mentions the class.
    """
    path = ROOT / "tests" / Path(*module.removeprefix("rlcomp.").split("."))
    folder = path if path.is_dir() else path.parent
    files = sorted(folder.glob("test_*.py"))
    mentioning = [f for f in files if re.search(rf"\b{name}\b", f.read_text(encoding="utf-8"))]
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])", "_", name).lower()
    of_class = [f for f in mentioning if f.stem == f"test_{snake}"]
    of_module = [f for f in mentioning if module.split(".")[-1] in f.stem]
    return [f.relative_to(ROOT).as_posix() for f in (of_class or of_module or mentioning)[:1]]


def recipes_page() -> str:
    """Return the text of the page."""
    rows = []
    for name in recipes():
        chosen = parts(name)
        listed = "; ".join(f"{slot}={option}" for slot, option in chosen.items())
        links = " ".join(f"[{Path(t).stem}](../{t})" for t in tests(chosen))
        config = f"[{name}](../conf/recipe/{name}.yaml)"
        rows.append(f"| {config} | {paper(name)} | {listed} | {numbers(name)} | {links} |")
    return INTRODUCTION + "\n".join(rows) + "\n" + MECHANISMS + "\n".join(mechanisms()) + "\n"


def mechanisms() -> Iterator[str]:
    """Yield a row for each number that shows a mechanism."""
    for name, claims in CLAIMS.items():
        for claim in claims:
            bounds = [f"{side} {claim[side]}" for side in ("above", "below") if side in claim]
            statistic = f", {claim['of']}" if "of" in claim else ""
            yield (
                f"| `{name}` | `{claim['metric']}`{statistic} | {claim['found']:.3g} "
                f"| {', '.join(bounds)} | {claim['shows']} |"
            )


if __name__ == "__main__":
    PAGE.write_text(recipes_page(), encoding="utf-8")
