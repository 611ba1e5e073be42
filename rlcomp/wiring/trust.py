"""What a config may name that came with a checkpoint, a run or a downloaded folder.

Such a file is a stranger's until its reader says otherwise: building it calls whatever its
``_target_`` s name, with the arguments that it gives. Only its policy is ever built, or a learner
whose step is repeated, so without ``--trust`` (``trust=true``) that is what rlcomp ships to build
these of, and optimisers, schedulers and modules of torch; nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from rlcomp.errors import CheckpointError
from rlcomp.wiring.options import config_directory
from rlcomp.wiring.reader import Node

_OF_TORCH = re.compile(r"torch\.(?:optim\.(?:lr_scheduler\.)?|nn\.)[A-Z]\w*")
_SHIPPED = re.compile(r"^[^#\n]*_target_: *([\w.]+)", re.MULTILINE)


# What a policy is made of; a tokenizer is trained on a task's texts.
POLICY = ("model", "tokenizer", "engine", "decoding", "task")
# What a learner is made of, to repeat a step of it.
LEARNER = (*POLICY, "kl_controller", "learner", "loss", "optimizer", "pareto", "schedule", "value")
_POLICY = "rlcomp.model.language_model.LanguageModel"
# Its data sets come by a name that a stranger chose, in any format that `datasets` reads.
_OUTSIDE = "components.task.hub.Hub"


@cache
def _shipped(groups: tuple[str, ...]) -> frozenset[str]:
    files = [file for group in groups for file in (config_directory() / group).rglob("*.yaml")]
    found = {
        target for file in files for target in _SHIPPED.findall(file.read_text(encoding="utf-8"))
    }
    return frozenset({*found, _POLICY} - {_OUTSIDE})


def shipped(target: str, groups: tuple[str, ...] = POLICY) -> bool:
    """Whether rlcomp ships a target to build policies of, or it is an optimiser, a module of torch.

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

    A config cannot vouch for itself, nor for another that it reads: wherever it says ``trust``,
    what its reader says takes that place.

    Args:
        nodes: all that is about to be built.
        file: the config, for the message.
        trust: whether its reader vouches for it.
        groups: of ``conf``, whose parts may be built.

    Raises:
        CheckpointError: names every such target, and how to allow them.
    """
    nodes = list(nodes)
    for node in nodes:
        if "trust" in node.arguments:
            node.arguments["trust"] = trust
    named = [
        f"{node.path}._target_ {node.target}" for node in nodes if not shipped(node.target, groups)
    ]
    if named and not trust:
        raise CheckpointError(
            f"{file} names code that rlcomp does not ship ({'; '.join(dict.fromkeys(named))}), and "
            "building it would run that code: if you know whose it is, allow it with trust=true "
            "(rlcomp-sample, rlcomp-replay: --trust)"
        )
