"""Parses and checks a composed config: reports all mistakes at once, before importing torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from omegaconf import DictConfig, OmegaConf

from rlcomp.arguments import NonEmptyText, NonNegativeInt, problem, remedy
from rlcomp.errors import ConfigError, ConfigErrors, nearest
from rlcomp.wiring.arguments import check_arguments
from rlcomp.wiring.base_model import check_base
from rlcomp.wiring.begun import check_begun
from rlcomp.wiring.doubts import check_bounds, tell_doubts
from rlcomp.wiring.flow_source import check_flow
from rlcomp.wiring.foreign import check_foreign
from rlcomp.wiring.options import config_directory
from rlcomp.wiring.origin import trace
from rlcomp.wiring.plan import Plan, read
from rlcomp.wiring.ranks import check_ranks
from rlcomp.wiring.reader import BROKEN, Node
from rlcomp.wiring.remote import check_remote
from rlcomp.wiring.returned import check_returned, check_scoring
from rlcomp.wiring.watched import check_watched


def plan_of(config: DictConfig, words: Sequence[str] = ()) -> Plan:
    """Read and check a config.

    Args:
        config: of a run.
        words: its overrides, as the command line wrote them.

    Raises:
        ConfigErrors: everything that is wrong with it.
    """
    plan, errors = read(config)
    errors += check_plan(plan)
    if errors:
        raise ConfigErrors(as_typed(errors, words, plan))
    tell_doubts(plan.reached(), words)
    return plan


def as_typed(errors: Iterable[str], words: Sequence[str], plan: Plan) -> list[str]:
    """Return messages that name the words which were typed, each message once.

    Args:
        errors: messages about a plan.
        words: overrides.
        plan: that the messages are about.
    """
    traced = (trace(message, plan.origins, words) for message in errors)
    return list(dict.fromkeys(as_written(message, words) for message in traced))


@contextmanager
def traced_errors(plan: Plan, words: Sequence[str]) -> Iterator[None]:
    """Name the words which were typed in every ConfigError that is raised within.

    Args:
        plan: whose nodes are built.
        words: overrides.
    """
    try:
        yield
    except ConfigError as error:
        error.args = ("\n".join(as_typed(str(error).splitlines(), words, plan)),)
        raise


def check_plan(plan: Plan) -> list[str]:
    """Return the mistakes in a plan that could be read; of nodes that it needs, but for names."""
    reached = plan.reached()
    refused = check_foreign(reached)
    # What a foreign loss asks for is no news beside that it cannot run.
    return (
        check_settings(plan)
        + _check_tracker(plan)
        + _check_adapters(reached)
        + _check_patches(plan)
        + _check_randomise(plan)
        + _check_rates(reached)
        + check_base(reached)
        + (refused or check_arguments(plan))
        + check_returned(reached)
        + check_scoring(reached)
        + check_bounds(reached)
        + check_flow(plan)
        + check_begun(plan)
        + check_watched(plan)
        + check_remote(reached)
        + check_ranks(reached)
    )


def _check_patches(plan: Plan) -> list[str]:
    """Yamls of one's own that would change nothing: their settings stand below their group."""
    return [
        f"{name} is a node of its own, which nothing reads: the first line of its yaml must be "
        "'# @package _global_'"
        for name in ("recipe", "experiment")
        if plan.tree.get(name)
    ]


def _check_rates(plan: Plan) -> list[str]:
    """Learning rates of torch's optimisers, which would compare a list only once they are made."""
    return [
        f"{node.path}.lr is {rate!r}: must be a number; "
        + (
            f"a sweep has no brackets, rlcomp -m {node.path}.lr=1e-4,1e-3"
            if isinstance(rate, list)
            else f"set {node.path}.lr=1e-4"
        )
        for node in plan.nodes.values()
        if node.target.startswith("torch.optim.")
        and isinstance(rate := node.arguments.get("lr"), (str, bool, list))
    ]


def _check_adapters(plan: Plan) -> list[str]:
    """A reference that switches adapters off, of a policy whose model has none."""
    policy = plan.nodes.get("policy")
    model = policy.arguments.get("model") if policy else None
    target = model.target if isinstance(model, Node) else ""
    bare = target.startswith("rlcomp.model.") and not re.search("lora|adapter", target)
    return [
        f"{node.path} is adapter_off: it switches the adapters of the policy off, and with "
        "adapter=none there are none: add adapter=lora, or take reference=frozen"
        for node in plan.nodes.values()
        if bare and node.target.endswith("adapter_off.AdapterOff")
    ]


def _check_randomise(plan: Plan) -> list[str]:
    """Dynamics that shall be drawn, where there is no environment that has any."""
    environment = plan.tree.get("environment")
    if not isinstance(environment, Mapping) or "_target_" in environment:
        return []
    if set(environment) != {"randomise"}:
        return []
    return [
        "randomise draws the dynamics of 'environment', which this recipe has not: set "
        "randomise=none, or choose a recipe of control"
    ]


def _check_tracker(plan: Plan) -> list[str]:
    """Settings of a tracker that was not chosen: nothing would be logged."""
    tracker = plan.tree.get("tracker")
    if not isinstance(tracker, Mapping) or "_target_" in tracker:
        return []
    return ["tracker has settings, but none is chosen: add tracker=wandb (or tracker=tensorboard)"]


def added(words: Sequence[str]) -> list[str]:
    """The names that overrides add at the root of the config: ``+name=1``, ``++name.of.it=1``."""
    found = (re.match(r"\+{1,2}(\w+)(?=[.=])", word) for word in words)
    return list(dict.fromkeys(one[1] for one in found if one))


def as_written(told: str, words: Iterable[str]) -> str:
    """A message with its number as the command line wrote it; a sign may have been left out.

    Args:
        told: begins with ``PATH is NUMBER: ``.
        words: overrides.

    Examples:
        >>> as_written("a.lr is 1000000.0: too much; set a.lr=...", ["b=1", "a.lr=1e6"])
        'a.lr is 1e6: too much; set a.lr=1e-6, if that is meant'
        >>> as_written("a.lr is 0.0: too small; set a.lr=...", ["a.lr=0"])
        'a.lr is 0: too small; set a.lr=...'
        >>> as_written("a.lr is 'x': no number", ["a.lr=x"])
        "a.lr is 'x': no number"
    """
    given = dict(word.lstrip("+").partition("=")[::2] for word in words)
    lacks = re.search(r", which no earlier stage writes: choose ([\w@./]+)=", told)
    if lacks and given.get(lacks[1]) == "none":  # the user's own word
        return told.replace("no earlier stage writes", f"{lacks[1]}=none leaves out", 1)
    found = re.match(r"([\w.]+) is (-?\d[\w.+-]*): ", told)
    if found is None or not re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", given.get(found[1], ""), re.I):
        return told
    path, text = found[1], given[found[1]]
    told = f"{path} is {text}: {told[found.end() :]}"
    slip = re.fullmatch(r"([\d.]+e)\+?(\d)", text, re.I)
    if slip is None or "integer" in told:  # of those none is below 1
        return told
    meant = f"set {path}={slip[1]}-{slip[2]}, if that is meant"
    return told.replace(f"set {path}=...", meant)


def check_used(config: DictConfig, added: Iterable[str], words: Iterable[str]) -> list[str]:
    """Values that were added at the root and that nothing refers to: they would change nothing.

    Args:
        config: a whole one.
        added: names at the root that the command line adds.
        words: its overrides, which may refer to them.
    """
    own = {*map(str, config)} - {*added}
    text = "\n".join([OmegaConf.to_yaml(config, resolve=False), *words])
    return [
        f"{name} is added, but nothing in this config refers to it"
        + (f"; here it is {here}" if (here := _here(config, name)) else nearest(name, own))
        for name in added
        if _is_value(config, name) and not re.search(rf"\${{[^}}]*\b{re.escape(name)}\b", text)
    ]


def _is_value(config: DictConfig, name: str) -> bool:
    """Whether it is there, as no part, no choice of one and none of what every run has."""
    node = config.get(name, {"_target_": ""})  # what is not there is a group: it stands elsewhere
    plain = not isinstance(node, Mapping) or "_target_" not in node
    return plain and name not in {*SETTINGS, "phases"} and not (config_directory() / name).is_dir()


def _here(config: DictConfig, name: str) -> str | None:
    from rlcomp.advice.foreign_options import word_here

    inner = [*config[name]] if isinstance(config[name], Mapping) else []
    return word_here(".".join([name, *map(str, inner[:1])]))


SETTINGS = {
    "seed": NonNegativeInt,
    "device": NonEmptyText,
    "directory": NonEmptyText,
    "resume": NonEmptyText,
    "trust": bool,
    "overwrite": bool,
    "accept_changed_files": bool,
}

_CHOICES = {"resume": "auto, must, never, or the path of a run or of one of its checkpoints"}


def check_settings(plan: Plan) -> list[str]:
    """The plain values that every run has."""
    return [
        f"{name} is {plan.tree[name]!r}: {fault}; "
        + (
            f"set {name}={_CHOICES[name]}"
            if name in _CHOICES
            else remedy(name, plan.tree[name], fault)
        )
        for name, kind in SETTINGS.items()
        if name in plan.tree
        and plan.tree[name] is not BROKEN
        and (fault := problem(kind, plan.tree[name]))
    ]
