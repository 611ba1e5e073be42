"""Losses of other libraries that cannot run here, with what is missing and what to take instead.

Known by the names of their modules: no torch is imported to refuse them.
"""

from __future__ import annotations

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
    """Why a class of another library is no loss for a learner here; None where nothing is known.

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


def check_foreign(plan: Plan) -> list[str]:
    """Return a message on each loss of a plan's learners that is known not to run."""
    return [
        f"{loss.path}._target_ is {loss.target}: {reason}"
        for node in plan.nodes.values()
        for loss in losses_of(node)
        if (reason := refusal(*loss.target.rpartition(".")[::2]))
    ]


def losses_of(node: Node) -> list[Node]:
    """Return the losses of a learner's node."""
    return children(Node(node.path, node.target, {"losses": node.arguments.get("losses")}))
