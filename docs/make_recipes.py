"""Writes ``recipes.md`` from the recipes' yaml files: ``python docs/make_recipes.py``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.utils import setup_globals

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"
PAGE = Path(__file__).with_name("recipes.md")

# What makes a policy-optimisation method, in the order of the flow.
SLOTS = (
    "dynamic_sampling",
    "curriculum",
    "collector",
    "sampling",
    "feedback",
    "shaping",
    "proximal",
    "kl",
    "kl_controller",
    "value",
    "advantage",
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

Every method below is a point in one space: a choice of parts, by name. This page is made from
`conf/recipe` by `python docs/make_recipes.py`.

`rlcomp recipe=NAME` runs one on the sorting task, `rlcomp-describe recipe=NAME` shows its flow and
`rlcomp-describe recipe=NAME --against recipe=grpo` what differs. Any part can be replaced on the
command line: `rlcomp recipe=dapo advantage=leave_one_out loss/trust_region=dual_clip`.
Whether each of them learns is measured in [experiments/recipes](../experiments/recipes/README.md).

| recipe | paper | parts | numbers set | tests |
|---|---|---|---|---|
"""


def recipes() -> list[str]:
    """Every policy-optimisation recipe: those built on the flow of ``grpo``."""
    return sorted(name for name in _names() if "grpo" in _lineage(name))


def _names() -> list[str]:
    return [file.stem for file in (CONF / "recipe").glob("*.yaml")]


def _lineage(name: str) -> list[str]:
    """A recipe and those it starts from."""
    text = (CONF / "recipe" / f"{name}.yaml").read_text(encoding="utf-8")
    first = re.search(r"^defaults:\n\s+- (\w+)$", text, re.MULTILINE)
    return [name, *(_lineage(first[1]) if first and first[1] in _names() else [])]


def paper(name: str) -> str:
    """What the comment above a recipe says."""
    lines = (CONF / "recipe" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    words = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    return " ".join(line for line in words if not line.startswith("@package"))


def parts(name: str) -> dict[str, str]:
    """Slot -> the option a recipe chooses for it, those that choose nothing aside."""
    setup_globals()
    overrides = [f"recipe={name}", "directory=x"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        chosen = compose("config", overrides, return_hydra_config=True).hydra.runtime.choices
    found: dict[str, str] = {}
    for key, option in chosen.items():
        slot, _, package = key.partition("@")
        # The policy loss alone: demonstrations and KL have reductions of their own.
        own = not package or package in ("rollout", "rollout.collector", "advantage.advantage")
        if slot in SLOTS and own and option not in PLAIN:
            found[slot] = option if isinstance(option, str) else "+".join(option)
    return {slot: found[slot] for slot in SLOTS if slot in found}


def numbers(name: str) -> str:
    """What a recipe sets beside its choices, as overrides."""
    from omegaconf import OmegaConf

    raw = OmegaConf.load(CONF / "recipe" / f"{name}.yaml")
    own = {key: value for key, value in raw.items() if key not in ("defaults",)}
    return ", ".join(f"`{path}={value}`" for path, value in _flat(own, "") if "stages" not in path)


def _flat(tree: object, prefix: str) -> Iterator[tuple[str, object]]:
    if hasattr(tree, "items"):
        for key, value in tree.items():
            yield from _flat(value, f"{prefix}{key}.")
    else:
        yield prefix.removesuffix("."), tree


def tests(chosen: dict[str, str]) -> list[str]:
    """The test files of the classes behind the options."""
    found: dict[str, None] = {}
    for slot, options in chosen.items():
        for option in options.split("+"):
            text = (CONF / slot / f"{option}.yaml").read_text(encoding="utf-8")
            for target in re.findall(r"_target_: components\.([\w.]+)\.(\w+)", text):
                found.update(dict.fromkeys(_tests_of(*target)))
    return list(found)


def _tests_of(module: str, name: str) -> list[str]:
    folder = ROOT / "tests" / "components" / Path(*module.split(".")[:-1])
    files = sorted(folder.glob("test_*.py"))
    holding = [f for f in files if re.search(rf"\b{name}\b", f.read_text(encoding="utf-8"))]
    own = [f for f in holding if module.split(".")[-1] in f.stem]
    return [f.relative_to(ROOT).as_posix() for f in (own or holding)[:1]]


def recipes_page() -> str:
    """The whole page."""
    rows = []
    for name in recipes():
        chosen = parts(name)
        listed = "; ".join(f"{slot}={option}" for slot, option in chosen.items())
        links = " ".join(f"[{Path(t).stem}](../{t})" for t in tests(chosen))
        config = f"[{name}](../conf/recipe/{name}.yaml)"
        rows.append(f"| {config} | {paper(name)} | {listed} | {numbers(name)} | {links} |")
    return INTRODUCTION + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(recipes_page(), encoding="utf-8")
