"""Scoring of a rollout: ``python benchmarks/scoring.py log_probs|update [M] [REPEATS]``.

``log_probs`` is a forward without gradient, ``update`` the forward and backward of GRPO's loss,
without the optimiser's step. rlcomp and TRL read the same rollout with the same weights. With
``--linear torch`` rlcomp does not use oneDNN.
"""

import argparse
import copy
import importlib.util

import torch
from measure import absent, against, by_turns, emit, gate, largest
from parity import check_gradients, check_log_probs, grpo_loss, judged, update
from workloads import ROLLOUTS, build, sampled

# Least speed-ups over TRL.
GOALS = {"log_probs": 6.0, "update": 6.0}
# The goal of the update with --linear torch.
PORTABLE = 4.0
LABELS = {"log_probs": "log-prob forward", "update": "update"}


def log_prob_sides(policy, trainer, batch, inputs):
    """Return our forward, the peer's forward, and the gates of the log-probs."""
    from peer_trl import score_inputs

    arguments = score_inputs(inputs)

    @torch.no_grad()
    def ours(_):
        policy.log_probs(batch)
        return 1

    @torch.no_grad()
    def peer(_):
        trainer._get_per_token_logps_and_entropies(trainer.model, **arguments)
        return 1

    with torch.no_grad():
        own_log_probs = policy.log_probs(batch)
        theirs, _, _ = trainer._get_per_token_logps_and_entropies(trainer.model, **arguments)
    differences = own_log_probs[batch["response_mask"]] - theirs[inputs["completion_mask"].bool()]
    peer_gate = gate("peer's log-probs", float(differences.abs().max()), 1e-4)
    return ours, peer, [check_log_probs(policy, batch, own_log_probs), peer_gate]


def update_sides(policy, trainer, batch, inputs):
    """Return our update, the peer's update, and the gates of the gradients."""
    loss = grpo_loss()
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()

    def ours(_):
        policy.zero_grad()
        update(policy, loss, batch)
        return 1

    def peer(_):
        trainer.model.zero_grad()
        trainer.compute_loss(trainer.model, inputs).backward()
        return 1

    ours(0)
    peer(0)
    pairs = zip(policy.model.parameters(), trainer.model.parameters(), strict=True)
    difference = largest(float((a.grad - b.grad).norm() / b.grad.norm()) for a, b in pairs)
    peer_gate = gate("peer's gradients", difference, 1e-3)
    return ours, peer, [check_gradients(policy, batch), peer_gate]


def goal_of(what, name, linear):
    """Return the goal of a row, or None: only workload M has goals."""
    goals = {"update": PORTABLE} if linear == "torch" else GOALS
    return goals.get(what) if name == "M" else None


def main(what, name, repeats, linear):
    """Measure ``log_probs`` or ``update`` on a workload."""
    label, goal = f"{LABELS[what]} {name}", goal_of(what, name, linear)
    label += "" if linear == "auto" else f", linear={linear}"
    if importlib.util.find_spec("trl") is None:
        return emit([absent(label, goal)])
    from peer_trl import NAME, inputs_of, trainer_of

    torch.set_num_threads(1)
    workload = ROLLOUTS[name]
    tokenizer, policy, texts = build(workload, linear)
    batch = judged(sampled(policy, texts, workload, 0))
    trainer = trainer_of(copy.deepcopy(policy.model), tokenizer, texts, workload)
    inputs = inputs_of(batch, tokenizer.pad_token_id)
    sides = {"log_probs": log_prob_sides, "update": update_sides}[what]
    ours, peer, parity = sides(policy, trainer, batch, inputs)
    timings = by_turns({"rlcomp": ours, NAME: peer}, 1, repeats)
    emit([against(label, timings, NAME, goal=goal, parity=parity)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=GOALS)
    parser.add_argument("workload", choices=ROLLOUTS, nargs="?", default="M")
    parser.add_argument("repeats", type=int, nargs="?", default=5)
    parser.add_argument("--linear", choices=["auto", "torch", "onednn"], default="auto")
    arguments = parser.parse_args()
    main(arguments.what, arguments.workload, arguments.repeats, arguments.linear)
