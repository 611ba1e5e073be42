"""Checks for overrides of a command line that change nothing.

A recipe may set values that only some of its options use, so only overrides are checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from omegaconf import DictConfig, OmegaConf

from rlcomp.config.checks.values import SETTINGS
from rlcomp.config.compose import CommandLine
from rlcomp.config.finding import Finding, refuse, warn
from rlcomp.config.options import config_directory
from rlcomp.config.plan import RUN_NODES, Plan, collect, losses_of
from rlcomp.config.reader import Node
from rlcomp.errors import nearest

# Nodes at the root that the program itself reads, or that another check covers.
_ALWAYS_READ = ("phases", "hydra", "tracker")
# An override that chooses or sets a trust region; its group is the path of the loss.
_CLIP = re.compile(r"\+{0,2}(\w+(?:\.\w+)*?)[./]trust_region(?:\.\w+)*=(?!none$)")


def check_added(config: DictConfig, words: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding on each unused value that is added at the root (``+name=1``).

    Args:
        config: a whole config.
        words: overrides, which may refer to the value too.
    """
    matches = (re.match(r"\+{1,2}(\w+)(?=[.=])", word) for word in words)
    names = dict.fromkeys(match[1] for match in matches if match)
    others = {*map(str, config)} - names.keys()
    text = "\n".join([OmegaConf.to_yaml(config, resolve=False), *words]) if names else ""
    for name in names:
        if _is_value(config, name) and not _is_referred_to(name, text):
            here = _our_name(config, name)
            hint = f"; here it is {here}" if here else nearest(name, others)
            yield refuse(f"{name} is added, but nothing in this config refers to it{hint}")


def _is_value(config: DictConfig, name: str) -> bool:
    """Return whether a name is a plain value: no part, no option and no setting of every run."""
    # A name that is absent is a group, whose option stands at another path.
    node = config.get(name, {"_target_": ""})
    plain = not isinstance(node, Mapping) or "_target_" not in node
    return plain and name not in {*SETTINGS, "phases"} and not (config_directory() / name).is_dir()


def _is_referred_to(name: str, text: str) -> bool:
    return re.search(rf"\${{[^}}]*\b{re.escape(name)}\b", text) is not None


def _our_name(config: DictConfig, name: str) -> str | None:
    from rlcomp.advice.foreign_options import our_name

    inner = [*config[name]] if isinstance(config[name], Mapping) else []
    return our_name(".".join([name, *map(str, inner[:1])]))


def check_unread(
    config: DictConfig,
    words: Sequence[str],
    choices: Mapping[str, str],
    config_dirs: Sequence[str] = (),
) -> Iterator[Finding]:
    """Yield a finding on each override of a value that nothing reads.

    Args:
        config: a whole config.
        words: overrides.
        choices: the option of each group.
        config_dirs: directories of the user's own configs.
    """
    line = CommandLine([], config_dirs, config, choices)
    for word in unread(config, words):
        reason = line.lacks(_path(word)[0]) or "leave it out"
        yield refuse(f"{word}: nothing in this run reads it: {reason}")


def unread(config: DictConfig, words: Sequence[str]) -> list[str]:
    """Return the overrides of a value that nothing reads."""
    # +a.b=1 is left out: check_added looks at keys that the config does not have.
    dotted = [word for word in words if re.match(r"(\+\+)?\w+(\.\w+)+=", word)]
    if not dotted:
        return []
    text = "\n".join([OmegaConf.to_yaml(config, resolve=False), *words])
    return [word for word in dotted if not _is_read(config, _path(word), text)]


def _path(word: str) -> list[str]:
    return word.lstrip("+").partition("=")[0].split(".")


def _is_read(config: DictConfig, path: Sequence[str], text: str) -> bool:
    if path[0] in _ALWAYS_READ or _is_referred_to(path[0], text):
        return True
    node = OmegaConf.to_container(config, resolve=False)
    for name in path:
        if not isinstance(node, Mapping) or name not in node or "_target_" in node:
            return True  # a part takes it; or it is reached by a reference or an index
        node = node[name]
    return "_target_" in str(node)  # a mapping is read with the parts in it


def check_no_effect(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on every override that the other choices make ineffective."""
    used: dict[str, Node] = {}
    for phase in plan.phases.values():
        if phase.steps:
            collect((phase.lists(), phase.every, phase.on_begin), used)
    for word in plan.words:
        if reason := _unused_reason(plan, used, word) or _unclipped_reason(plan, word):
            yield warn(f"{word}: it changes nothing: {reason}")


def _unused_reason(plan: Plan, used: dict[str, Node], word: str) -> str | None:
    """Return that no phase runs the node of a setting; None if one does, or it sets no such node.

    Args:
        plan: plan of the run.
        used: nodes that a phase of at least one step runs, and the nodes within them.
        word: the override.
    """
    names = _path(word)
    paths = [".".join(names[:end]) for end in range(1, len(names))]
    node = next((path for path in paths if path in plan.nodes), None)
    if node is None or names[0] in RUN_NODES or {*paths} & used.keys():
        return None
    return f"no phase of this run uses {node}; leave it out"


def _unclipped_reason(plan: Plan, word: str) -> str | None:
    """Return why each ratio of a trust region is 1, so that it never clips; None: it may clip."""
    match = _CLIP.match(word)
    loss = match and plan.nodes.get(match[1])
    ratio = loss and loss.arguments.get("ratio")
    if not loss or not isinstance(ratio, Node):
        return None
    if ratio.target.endswith("ratio.NoRatio"):
        return f"with {loss.path}/ratio=none every ratio is 1; add {loss.path}/ratio=token"
    learners = [node for node in plan.nodes.values() if loss in losses_of(node)]
    delayed = any(node.target.endswith(".DelayedCollector") for node in plan.nodes.values())
    if [_optimiser_steps(node) for node in learners] != [1] or delayed:
        return None
    return (
        f"with one optimiser step a batch the policy is still the one that sampled, and every "
        f"ratio is 1; set {learners[0].path}.num_minibatches=4, or {learners[0].path}.epochs=2"
    )


def _optimiser_steps(learner: Node) -> object:
    """Return the number of optimiser steps for each batch; None if it is unknown."""
    counts = [learner.arguments.get(name, 1) for name in ("num_minibatches", "epochs")]
    return counts[0] * counts[1] if all(isinstance(count, int) for count in counts) else None
