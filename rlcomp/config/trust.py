"""Trust in the config of a checkpoint, a run or a downloaded folder.

Such a config is untrusted: building it calls its ``_target_`` s with its arguments. Only a policy
is built from it, or a learner whose step is repeated. So without ``--trust`` (``trust=true``) it
may name the targets that rlcomp ships for these, and optimisers, schedulers and modules of torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from omegaconf import DictConfig

from rlcomp.arguments import NonNegativeInt, problem
from rlcomp.config.checks.values import check_arguments, check_settings
from rlcomp.config.finding import messages
from rlcomp.config.options import config_directory
from rlcomp.config.plan import Plan, below, read
from rlcomp.config.reader import Node
from rlcomp.errors import CheckpointError, RlcompError, in_one_line

_OF_TORCH = re.compile(r"torch\.(?:optim\.(?:lr_scheduler\.)?|nn\.)[A-Z]\w*")
_SHIPPED = re.compile(r"^[^#\n]*_target_: *([\w.]+)", re.MULTILINE)
# Groups of the parts of a policy; a tokenizer is trained on a task's texts.
POLICY = ("adapter", "model", "tokenizer", "engine", "decoding", "task")
# Groups of the parts of a learner.
LEARNER = (*POLICY, "kl_controller", "learner", "loss", "optimizer", "pareto", "schedule", "value")
_POLICY = "rlcomp.model.language_model.LanguageModel"
# It downloads a data set of any name, in any format that `datasets` reads.
_HUB_TASK = "components.task.file.HubTask"
# Functions that read a folder, or else the hub.
_FROM_HUB = (
    "rlcomp.model.build.load_causal_lm",
    "rlcomp.model.load_model.pretrained_model",
    "rlcomp.model.load_model.pretrained_tokenizer",
    "rlcomp.text.tokenizer.load_tokenizer",
)


@cache
def _shipped_targets(groups: tuple[str, ...]) -> frozenset[str]:
    files = [file for group in groups for file in (config_directory() / group).rglob("*.yaml")]
    targets = {
        target for file in files for target in _SHIPPED.findall(file.read_text(encoding="utf-8"))
    }
    return frozenset({*targets, _POLICY, *_FROM_HUB} - {_HUB_TASK})


def is_shipped(target: str, groups: tuple[str, ...] = POLICY) -> bool:
    """Return whether a target belongs to groups of ``conf``, or is torch's optimiser or module.

    Parts of other groups are not safe: an environment, say, imports a module by its name.

    Examples:
        >>> is_shipped("rlcomp.model.build.causal_lm"), is_shipped("torch.optim.SGD")
        (True, True)
        >>> is_shipped("os.system"), is_shipped("torch.load"), is_shipped("torch.nn.init.os.system")
        (False, False, False)
    """
    return target in _shipped_targets(groups) or _OF_TORCH.fullmatch(target) is not None


def check_targets(
    nodes: Iterable[Node], file: Path, trust: bool, groups: tuple[str, ...] = POLICY
) -> None:
    """Refuse a saved config that names code which rlcomp does not ship, or models of the hub.

    A config cannot vouch for itself, nor for another config that it reads: every argument ``trust``
    gets the value of ``trust`` here.

    Args:
        nodes: the nodes to build.
        file: file of the config, for the message.
        trust: True if the user trusts the config.
        groups: groups of ``conf`` whose parts may be built.

    Raises:
        CheckpointError: names every such target, or the hub's name, and how to allow it.
    """
    nodes = list(nodes)
    for node in nodes:
        if "trust" in node.arguments:
            node.arguments["trust"] = trust
        if node.target in _FROM_HUB and not trust:
            _check_folder(node, file)
    named = [
        f"{node.path}._target_ {node.target}"
        for node in nodes
        if not is_shipped(node.target, groups)
    ]
    if named and not trust:
        raise CheckpointError(
            f"{file} names code that rlcomp does not ship ({'; '.join(dict.fromkeys(named))}), and "
            "building it would run that code: if you know whose it is, allow it with trust=true "
            "(rlcomp-sample, rlcomp-replay: --trust)"
        )


@contextmanager
def build_errors(file: Path, trust: bool) -> Iterator[None]:
    """Turn an error in the context, which builds nodes of a saved config, into a CheckpointError.

    Args:
        file: file of the config, for the message.
        trust: True if the user trusts the config: errors of its code stay as they are.

    Raises:
        CheckpointError: a node cannot be built; an RlcompError stays as it is.
    """
    try:
        yield
    except RlcompError:
        raise
    except Exception as error:
        if trust:
            raise
        raise CheckpointError(
            f"{file} is not a config that rlcomp wrote ({in_one_line(error)}): copy the checkpoint "
            "again from its source"
        ) from error


def _check_folder(node: Node, file: Path) -> None:
    path = node.arguments.get("path")
    if not isinstance(path, str) or not Path(path).is_dir():
        raise CheckpointError(
            f"{file}: {node.path}.path is {path!r:.200}, no folder here, and what a checkpoint "
            "names is not fetched from the Hugging Face hub: name a folder, or allow it with "
            "trust=true (rlcomp-sample, rlcomp-replay: --trust)"
        )


def saved_node(
    config: DictConfig, name: str, file: Path, trust: bool, groups: tuple[str, ...] = POLICY
) -> tuple[Plan, Node] | None:
    """Return a checked node of a saved config and its plan; None: there is no such node.

    Args:
        config: the saved config.
        name: config path of the node.
        file: file of the config, for the message.
        trust: as for :func:`check_targets`.
        groups: as for :func:`check_targets`.

    Raises:
        CheckpointError: :func:`check_targets` refuses the node; a value of the config cannot be
            read; a setting or an argument is wrong; or there is no seed.
    """
    plan, errors = read(config)
    node = plan.nodes.get(name)
    if node is None:
        return None
    nodes = [node, *below(node)]
    check_targets(nodes, file, trust, groups)  # first: the other checks read the code it names
    built = Plan(plan.tree, {node.path: node for node in nodes}, {})
    errors += messages([*check_settings(built), *check_arguments(built)])
    if errors or problem(NonNegativeInt, plan.tree.get("seed")):
        faults = "; ".join(errors[:3]) or "it has no seed"
        raise CheckpointError(f"{file} is not a config that rlcomp wrote: {faults}")
    return plan, node
