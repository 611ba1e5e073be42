"""Compare log-probs and gradients with a plain Hugging Face forward pass."""

import torch
from measure import gate, largest

from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import SequenceMean
from components.loss.trust_region.clip import Clip
from rlcomp.component import limit_outputs

LOG_PROBS = 1e-5
GRADIENTS = 1e-4


def grpo_loss():
    """GRPO's loss; the peers compute the same."""
    return PolicyLoss(ratio=TokenRatio(), trust_region=Clip(), reduction=SequenceMean())


def judged(rollout):
    """A rollout with what the loss reads beside the log-probs: old ones, and an advantage."""
    batch = rollout.copy()
    batch["old_log_probs"] = batch["rollout_log_probs"]
    lengths = batch["response_mask"].sum(1).float()
    advantage = (lengths - lengths.mean()) / (lengths.std() + 1e-6)
    batch["advantage"] = torch.where(batch["response_mask"], advantage[:, None], 0.0)
    return batch


def update(policy, loss, batch):
    """Forward and backward by rlcomp, as the learner does them."""
    with torch.enable_grad(), limit_outputs({"log_probs"}):
        loss(policy(batch.copy()))["loss"].backward()


def plain_log_probs(model, batch):
    """``[B, T]`` from the padded rows, the whole vocabulary and nothing clever."""
    tokens, mask = batch["tokens"], batch["response_mask"]
    output = model(input_ids=tokens, attention_mask=batch["attention_mask"].long(), use_cache=False)
    scores = output.logits[:, :-1].log_softmax(-1)
    taken = scores.gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return torch.where(mask, torch.nn.functional.pad(taken, (1, 0)), 0.0)


@torch.no_grad()
def check_log_probs(policy, batch, log_probs, what="log-probs"):
    """The largest difference at a response token, nats."""
    plain = plain_log_probs(policy.model, batch)
    return gate(what, float((plain - log_probs)[batch["response_mask"]].abs().max()), LOG_PROBS)


def check_gradients(policy, batch):
    """The largest relative difference (in norm) of a parameter's gradient."""
    loss = grpo_loss()
    policy.zero_grad()
    update(policy, loss, batch)
    own = {name: p.grad.clone() for name, p in policy.model.named_parameters()}
    policy.zero_grad()
    rows = batch.copy()
    with torch.enable_grad():
        rows["log_probs"] = plain_log_probs(policy.model, batch)
        loss(rows)["loss"].backward()
    worst = largest(
        float((own[name] - p.grad).norm() / p.grad.norm())
        for name, p in policy.model.named_parameters()
    )
    policy.zero_grad()
    return gate("gradients", worst, GRADIENTS)
