"""What a config may name that came with a checkpoint, a run or a downloaded folder.

Such a file is a stranger's until its reader says otherwise: building it calls whatever its
``_target_`` s name, with the arguments that it gives. Without ``--trust`` (``trust=true``) that is
the parts that rlcomp ships, and optimisers, schedulers and modules of torch; nothing else.
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


@cache
def _shipped() -> frozenset[str]:
    files = config_directory().rglob("*.yaml")
    return frozenset(
        target for file in files for target in _SHIPPED.findall(file.read_text(encoding="utf-8"))
    )


def shipped(target: str) -> bool:
    """Whether rlcomp's own configs name a target, or it is an optimiser or a module of torch.

    Examples:
        >>> shipped("components.loss.policy.PolicyLoss"), shipped("torch.optim.SGD")
        (True, True)
        >>> shipped("os.system"), shipped("torch.load"), shipped("torch.nn.init.os.system")
        (False, False, False)
    """
    return target in _shipped() or _OF_TORCH.fullmatch(target) is not None


def check_targets(nodes: Iterable[Node], file: Path, trust: bool) -> None:
    """Refuse a saved config that names code which rlcomp does not ship.

    Args:
        nodes: all that is about to be built.
        file: the config, for the message.
        trust: whether its reader vouches for it.

    Raises:
        CheckpointError: names every such target, and how to allow them.
    """
    named = [f"{node.path}._target_ {node.target}" for node in nodes if not shipped(node.target)]
    if named and not trust:
        raise CheckpointError(
            f"{file} names code that rlcomp does not ship ({'; '.join(dict.fromkeys(named))}), and "
            "building it would run that code: if you know whose it is, allow it with trust=true "
            "(rlcomp-sample: --trust)"
        )
