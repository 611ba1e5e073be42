"""Targets that a config of a checkpoint, a run or a downloaded folder may name.

Such a file is a stranger's until its reader says otherwise: building it calls whatever its
``_target_`` s name, with the arguments that it gives. Only its policy is ever built, or a learner
whose step is repeated, so without ``--trust`` (``trust=true``) that is what rlcomp ships to build
these of, and optimisers, schedulers and modules of torch; nothing else.
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


# What a policy is made of; a tokenizer is trained on a task's texts.
POLICY = ("adapter", "model", "tokenizer", "engine", "decoding", "task")
# What a learner is made of, to repeat a step of it.
LEARNER = (*POLICY, "kl_controller", "learner", "loss", "optimizer", "pareto", "schedule", "value")
_POLICY = "rlcomp.model.language_model.LanguageModel"
# Its data sets come by a name that a stranger chose, in any format that `datasets` reads.
_OUTSIDE = "components.task.file.HubTask"
# Read from a folder, or else from the hub.
_FROM_HUB = (
    "rlcomp.model.build.load_causal_lm",
    "rlcomp.model.load_model.pretrained_model",
    "rlcomp.model.load_model.pretrained_tokenizer",
    "rlcomp.text.tokenizer.load_tokenizer",
)


@cache
def _shipped(groups: tuple[str, ...]) -> frozenset[str]:
    files = [file for group in groups for file in (config_directory() / group).rglob("*.yaml")]
    targets = {
        target for file in files for target in _SHIPPED.findall(file.read_text(encoding="utf-8"))
    }
    return frozenset({*targets, _POLICY, *_FROM_HUB} - {_OUTSIDE})


def shipped(target: str, groups: tuple[str, ...] = POLICY) -> bool:
    """Return whether a target is one of rlcomp's for policies, or torch's optimiser or module.

    Parts of other concepts are not among them: an environment, say, imports what its name says.
    ``groups`` names those of ``conf`` whose parts are.

    Examples:
        >>> shipped("rlcomp.model.build.causal_lm"), shipped("torch.optim.SGD")
        (True, True)
        >>> shipped("os.system"), shipped("torch.load"), shipped("torch.nn.init.os.system")
        (False, False, False)
    """
    return target in _shipped(groups) or _OF_TORCH.fullmatch(target) is not None


def check_targets(
    nodes: Iterable[Node], file: Path, trust: bool, groups: tuple[str, ...] = POLICY
) -> None:
    """Refuse a saved config that names code which rlcomp does not ship to build policies of.

    Nor may it name a tokenizer or a model on the Hugging Face hub, which would be fetched. A config
    cannot vouch for itself, nor for another that it reads: wherever it says ``trust``, what its
    reader says takes that place.

    Args:
        nodes: all that is about to be built.
        file: the config, for the message.
        trust: whether its reader vouches for it.
        groups: of ``conf``, whose parts may be built.

    Raises:
        CheckpointError: names every such target, or the name, and how to allow it.
    """
    nodes = list(nodes)
    for node in nodes:
        if "trust" in node.arguments:
            node.arguments["trust"] = trust
        if node.target in _FROM_HUB and not trust:
            _check_folder(node, file)
    named = [
        f"{node.path}._target_ {node.target}" for node in nodes if not shipped(node.target, groups)
    ]
    if named and not trust:
        raise CheckpointError(
            f"{file} names code that rlcomp does not ship ({'; '.join(dict.fromkeys(named))}), and "
            "building it would run that code: if you know whose it is, allow it with trust=true "
            "(rlcomp-sample, rlcomp-replay: --trust)"
        )


@contextmanager
def built_from(file: Path, trust: bool) -> Iterator[None]:
    """Context in which nodes of a saved config are built, whose errors are the config's fault.

    Args:
        file: the config, for the message.
        trust: whether its reader vouches for it; errors of its code are then raised as they are.

    Raises:
        CheckpointError: a node cannot be built.
    """
    try:
        yield
    except RlcompError:
        raise
    except Exception as error:
        if trust:
            raise
        raise CheckpointError(
            f"{file} is no config that rlcomp wrote ({in_one_line(error)}): copy the checkpoint "
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
    """Return a node of a saved config and its plan, once all that it is built of is checked.

    Args:
        config: the saved config.
        name: config path of the node.
        file: that the config was read from, for the message.
        trust: as for :func:`check_targets`.
        groups: as for :func:`check_targets`.

    Returns:
        None: there is no such node.

    Raises:
        CheckpointError: it cannot be read or built, or names what it should not.
    """
    plan, errors = read(config)
    wanted = plan.nodes.get(name)
    if wanted is None:
        return None
    nodes = [wanted, *below(wanted)]
    check_targets(nodes, file, trust, groups)  # first: the others look into the code it names
    built = Plan(plan.tree, {node.path: node for node in nodes}, {})
    errors += messages([*check_settings(built), *check_arguments(built)])
    if errors or problem(NonNegativeInt, plan.tree.get("seed")):
        faults = "; ".join(errors[:3]) or "it has no seed"
        raise CheckpointError(f"{file} is no config that rlcomp wrote: {faults}")
    return plan, wanted
