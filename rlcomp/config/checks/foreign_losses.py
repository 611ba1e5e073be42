"""Check for losses of other libraries that cannot run here.

The names of their modules identify them, so torch is not imported.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlcomp.config.finding import Finding, refuse
from rlcomp.config.plan import Plan, children
from rlcomp.config.reader import Node

_LLM = "torchrl.objectives.llm"
_ROWS = "reads chat rows ('tokens.full', 'log_probs.full', 'history'), which no stage here writes"
# Measured with torchrl 0.14.1.
_INSTEAD = {
    "GRPOLoss": (", and averages its KL over the prompt and padding as well", "loss=grpo"),
    "DAPO": (", and averages its KL over the prompt and padding as well", "loss=dapo"),
    "CISPOLoss": (
        ", and has no gradient where the ratio is clipped, which CISPO keeps",
        "loss=cispo",
    ),
    "SFTLoss": ("", "loss=sft"),
    "DistillationLoss": ("", "kl=in_loss_full with reference=frozen_full"),
}


def refusal(module: str, name: str) -> str | None:
    """Return why a class of another library cannot be a loss here; None: no reason is known.

    Examples:
        >>> refusal("torchrl.objectives.llm.sft", "SFTLoss").partition("; ")[2]
        'use loss=sft'
        >>> refusal("torchrl.objectives.ppo", "ClipPPOLoss") is None
        True
    """
    if module == _LLM or module.startswith(f"{_LLM}."):
        fault, instead = _INSTEAD.get(name, ("", "a loss of conf/loss"))
        return f"it {_ROWS}{fault}; use {instead}"
    if module == "torch.nn" or module.startswith("torch.nn."):
        return (
            "it reads tensors, but a loss reads a TensorDict and writes a scalar 'loss...' into a "
            "new one; subclass rlcomp.TokenLoss or rlcomp.RowLoss"
        )
    return None


def check_foreign(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each loss of a learner that is known not to run."""
    for node in plan.nodes.values():
        for loss in losses_of(node):
            if reason := refusal(*loss.target.rpartition(".")[::2]):
                yield refuse(f"{loss.path}._target_ is {loss.target}: {reason}")


def losses_of(node: Node) -> list[Node]:
    """Return the losses of a learner's node."""
    return children(Node(node.path, node.target, {"losses": node.arguments.get("losses")}))
