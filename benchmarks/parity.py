"""Compare log-probs and gradients with a plain Hugging Face forward pass."""

import torch
from measure import gate, largest

from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import SequenceMean
from components.loss.trust_region.clip import Clip
from rlcomp.component import limit_outputs

LOG_PROBS = 1e-5  # nats
GRADIENTS = 1e-4  # relative, in norm


def grpo_loss():
    """Return GRPO's loss; the peers compute the same one."""
    return PolicyLoss(ratio=TokenRatio(), trust_region=Clip(), reduction=SequenceMean())


def judged(rollout):
    """Return a rollout with old log-probs, and with an advantage made from the lengths."""
    batch = rollout.copy()
    batch["old_log_probs"] = batch["rollout_log_probs"]
    lengths = batch["response_mask"].sum(1).float()
    advantage = (lengths - lengths.mean()) / (lengths.std() + 1e-6)
    batch["advantage"] = torch.where(batch["response_mask"], advantage[:, None], 0.0)
    return batch


def update(policy, loss, batch):
    """Run forward and backward by rlcomp, as the learner does."""
    with torch.enable_grad(), limit_outputs({"log_probs"}):
        loss(policy(batch.copy()))["loss"].backward()


def plain_log_probs(model, batch):
    """Return log-probs ``[B, T]`` by ``log_softmax`` of all logits of the padded rows."""
    tokens, mask = batch["tokens"], batch["response_mask"]
    output = model(input_ids=tokens, attention_mask=batch["attention_mask"].long(), use_cache=False)
    scores = output.logits[:, :-1].log_softmax(-1)
    taken = scores.gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return torch.where(mask, torch.nn.functional.pad(taken, (1, 0)), 0.0)


@torch.no_grad()
def check_log_probs(policy, batch, log_probs, what="log-probs"):
    """Return the gate of the largest difference at a response token, in nats."""
    plain = plain_log_probs(policy.model, batch)
    return gate(what, float((plain - log_probs)[batch["response_mask"]].abs().max()), LOG_PROBS)


def check_gradients(policy, batch):
    """Return the gate of the largest relative difference (in norm) of a parameter's gradient."""
    loss = grpo_loss()
    policy.zero_grad()
    update(policy, loss, batch)
    ours = {name: p.grad.clone() for name, p in policy.model.named_parameters()}
    policy.zero_grad()
    rows = batch.copy()
    with torch.enable_grad():
        rows["log_probs"] = plain_log_probs(policy.model, batch)
        loss(rows)["loss"].backward()
    worst = largest(
        float((ours[name] - p.grad).norm() / p.grad.norm())
        for name, p in policy.model.named_parameters()
    )
    policy.zero_grad()
    return gate("gradients", worst, GRADIENTS)
