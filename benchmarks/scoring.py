"""Reading a rollout again: ``python benchmarks/scoring.py log_probs|update [M] [REPEATS]``.

``log_probs`` is a forward without gradient, ``update`` the forward and backward of GRPO's loss,
without the optimiser's step. Both engines read the same rollout with the same weights.
``--linear torch`` keeps oneDNN out of ours.
"""

import argparse
import copy
import importlib.util

import torch
from measure import absent, against, by_turns, emit, gate, largest
from parity import check_gradients, check_log_probs, grpo_loss, judged, update
from workloads import ROLLOUTS, build, sampled

GOALS = {"log_probs": 6.0, "update": 6.0}
# Of the update, where linear layers are torch's own.
PORTABLE = 4.0
LABELS = {"log_probs": "log-prob forward", "update": "update"}


def log_prob_sides(policy, trainer, batch, inputs):
    """Ours and the peer's, and the gates."""
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
        own = policy.log_probs(batch)
        theirs, _, _ = trainer._get_per_token_logps_and_entropies(trainer.model, **arguments)
    apart = own[batch["response_mask"]] - theirs[inputs["completion_mask"].bool()]
    peers = gate("peer's log-probs", float(apart.abs().max()), 1e-4)
    return ours, peer, [check_log_probs(policy, batch, own), peers]


def update_sides(policy, trainer, batch, inputs):
    """Ours and the peer's, and the gates."""
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
    apart = largest(float((a.grad - b.grad).norm() / b.grad.norm()) for a, b in pairs)
    peers = gate("peer's gradients", apart, 1e-3)
    return ours, peer, [check_gradients(policy, batch), peers]


def goal_of(what, name, linear):
    """Return the goal of a row, or None."""
    portable = {"update": PORTABLE}
    return (portable if linear == "torch" else GOALS).get(what) if name == "M" else None


def main(what, name, repeats, linear):
    """Measure one of the two."""
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
