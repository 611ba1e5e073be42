"""GRPO steps by rlcomp, one at each turn: started by ``step.py``."""

import sys

import torch
from parity import check_gradients, check_log_probs, grpo_loss, judged
from torch.optim import AdamW
from turn import Turns
from workloads import STEPS, brevity, build, sampled

from components.advantage.group import GroupMeanStd
from components.collector.group import GroupCollector
from components.kl_controller import FixedKL
from components.learner.gradient import Learner
from components.loss.kl import KLLoss
from components.loss.reduction import SequenceMean
from components.old_log_probs import RolloutLogProbs
from components.reference.frozen import FrozenReference
from components.reward.function import FunctionReward
from components.sampler.prompts import Epochs
from rlcomp import Component, Phase, run_phases
from rlcomp.interfaces.task import Example


class Prompts:
    """The workload's prompts as a task."""

    held_out = 0.0

    def __init__(self, texts):
        self.texts = texts

    def __len__(self):
        return len(self.texts)

    def example(self, index):
        """Return an example with a prompt and no answer."""
        return Example(prompt=self.texts[index], answer="", demonstration="")


class TakeTurns(Component):
    """The last stage: ends a turn, waits for the next one, and seeds the sampling with its draw."""

    reads = ("response_mask",)

    def __init__(self, turns, generator):
        super().__init__()
        self.turns = turns
        self.generator = generator

    def begin(self):
        """Wait for the next turn, and seed its sampling."""
        self.generator.manual_seed(self.turns.begin())

    def forward(self, batch):
        """End the turn; begin the next one if there is one."""
        if self.turns.end(int(batch["response_mask"].sum())):
            self.begin()
        return batch


def adamw(parameters):
    """Return AdamW as TRL's trainer has it; with this learning rate the weights hardly move."""
    return AdamW(parameters, lr=1e-9, weight_decay=0.0, fused=True)


def stages_of(workload, tokenizer, policy, texts, micro_batch_tokens=None):
    """Return ``recipe=grpo``'s stages with one optimiser step, and the sampling's generator."""
    lengths = {
        "context_length": workload.longest + workload.max_new_tokens,
        "max_new_tokens": workload.max_new_tokens,
    }
    sampler = Epochs(
        task=Prompts(texts), tokenizer=tokenizer, batch_size=workload.prompts, **lengths
    )
    collector = GroupCollector(
        policy=policy, group_size=workload.group_size, max_new_tokens=workload.max_new_tokens
    )
    losses, reference = {"policy": grpo_loss()}, []
    if workload.kl:
        reference = [FrozenReference(policy=policy)]
        losses["kl"] = KLLoss(
            controller=FixedKL(kl_coef=workload.kl), estimator="k3", reduction=SequenceMean()
        )
    learner = Learner(
        model=policy,
        losses=losses,
        optimizer=adamw,
        max_grad_norm=1.0,
        micro_batch_tokens=micro_batch_tokens,
    )
    stages = [
        sampler,
        collector,
        FunctionReward(function=brevity),
        RolloutLogProbs(),
        *reference,
        GroupMeanStd(),
        learner,
    ]
    return stages, collector.generator


def main(name, steps, linear):
    """Run a step at each turn, then check log-probs and gradients."""
    torch.set_num_threads(1)
    workload, turns = STEPS[name], Turns(steps)
    tokenizer, policy, texts = build(workload, linear)
    stages, generator = stages_of(workload, tokenizer, policy, texts)
    last = TakeTurns(turns, generator)
    last.begin()
    phase = Phase(steps, [*stages, last])
    nodes = {type(stage).__name__: stage for stage in phase.stages}
    run_phases({"rl": phase}, nodes=nodes, seed=0)
    batch = judged(sampled(policy, texts, workload, 0))
    log_probs = check_log_probs(policy, batch, batch["rollout_log_probs"])
    turns.answer(parity=[log_probs, check_gradients(policy, batch)])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
