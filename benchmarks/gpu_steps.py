"""Whole GRPO steps of rlcomp on a device, for ``gpu.py``."""

import itertools
import statistics
import time

from gpu_models import synchronize
from step_rlcomp import stages_of
from workloads import texts_of

from rlcomp import Component, Phase, run_phases


class Clock(Component):
    """The last stage: records when a step ended, and how many tokens it sampled."""

    reads = ("response_mask",)

    def __init__(self):
        super().__init__()
        self.ends = []

    def forward(self, batch):
        """Record the end of the step."""
        synchronize()
        self.ends.append((time.perf_counter(), int(batch["response_mask"].sum())))
        return batch


def steps_of(policy, tokenizer, workload, steps, micro):
    """Return the median seconds and the mean tokens of a step, without the first step."""
    texts = texts_of(workload, tokenizer)
    stages, generator = stages_of(workload, tokenizer, policy, texts, micro_batch_tokens=micro)
    generator.manual_seed(0)
    clock = Clock()
    phase = Phase(steps, [*stages, clock])
    run_phases({"rl": phase}, nodes={type(stage).__name__: stage for stage in phase.stages}, seed=0)
    spent = [b[0] - a[0] for a, b in itertools.pairwise(clock.ends)]
    return statistics.median(spent), statistics.mean(tokens for _, tokens in clock.ends[1:])
