"""Measure TensorDicts in a GRPO step: ``python benchmarks/plumbing.py [STEPS] [WORKLOAD]``.

Every method of TensorDict is clocked (only the outermost call, which includes its inner calls). To
this is added the CPU time of calling an idle component, times the number of component calls in a
step. The decode loop must use no TensorDict: sampling more tokens must not add TensorDict calls.
"""

import argparse
import time
import types

import torch
from measure import emit, gate, row
from step_rlcomp import stages_of
from tensordict import TensorDict, TensorDictBase
from workloads import STEPS, build

from rlcomp import Component, Phase, run_phases
from rlcomp.text.answers import answer_prompts

GOAL = 0.01  # largest share of a step's CPU seconds
# Methods that Python itself calls, or that would call the clock again.
UNTOUCHED = {"__new__", "__init_subclass__", "__getattribute__", "__del__", "__class_getitem__"}


class Clock(Component):
    """The last stage: counts TensorDict calls, their CPU seconds, and component calls, by step."""

    def __init__(self):
        super().__init__()
        self.inside = False
        self.seconds, self.calls, self.components = 0.0, 0, 0
        self.started = 0.0
        self.steps = []

    def forward(self, batch):
        """Record the step that ends here, and begin the next."""
        now = time.process_time()
        self.steps.append((now - self.started, self.seconds, self.components))
        self.begin()
        return batch

    def begin(self):
        """Set everything to zero."""
        self.seconds, self.calls, self.components = 0.0, 0, 0
        self.started = time.process_time()

    def clocked(self, function):
        """Return the function with a clock, which runs only outside other clocked functions."""

        def call(*args, **kwargs):
            if self.inside:
                return function(*args, **kwargs)
            self.inside, start = True, time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.process_time() - start
                self.calls += 1
                self.inside = False

        return call

    def watch(self):
        """Clock the methods of TensorDict, and count component calls."""
        for owner in (TensorDictBase, TensorDict):
            for name, value in list(vars(owner).items()):
                if isinstance(value, types.FunctionType) and name not in UNTOUCHED:
                    setattr(owner, name, self.clocked(value))
        dispatch = TensorDict.__torch_function__.__func__
        TensorDict.__torch_function__ = classmethod(self.clocked(dispatch))
        original = Component.__call__

        def counted(component, *args):
            self.components += 1
            return original(component, *args)

        Component.__call__ = counted


class Idle(Component):
    """A component that does nothing."""

    def forward(self, batch):
        """Return the batch unchanged."""
        return batch


def idle_seconds(calls=2000):
    """Return the CPU seconds of calling a component that does nothing."""
    idle, batch = Idle(), TensorDict({}, batch_size=[])
    start = time.process_time()
    for _ in range(calls):
        idle(batch)
    return (time.process_time() - start) / calls


def decode_calls(clock, policy, texts, workload, limit):
    """Count the TensorDict calls of one rollout."""
    clock.begin()
    answer_prompts(
        policy,
        texts,
        group_size=workload.group_size,
        max_new_tokens=limit,
        generator=torch.Generator().manual_seed(0),
    )
    return clock.calls


def main(steps, name):
    """Measure the share of TensorDict and component calls in the steps of a workload."""
    torch.set_num_threads(1)
    workload, clock, component_seconds = STEPS[name], Clock(), idle_seconds()
    tokenizer, policy, texts = build(workload)
    stages, _ = stages_of(workload, tokenizer, policy, texts)
    clock.watch()
    short, long = (decode_calls(clock, policy, texts, workload, limit) for limit in (2, 8))
    nodes = {type(stage).__name__: stage for stage in stages}
    clock.begin()
    run_phases({"rl": Phase(steps + 1, [*stages, clock])}, nodes=nodes, seed=0)
    # The first step warms up.
    shares = [
        (inside + calls * component_seconds) / whole for whole, inside, calls in clock.steps[1:]
    ]
    facts = {
        "ours": sum(whole for whole, _, _ in clock.steps[1:]) / steps,
        "tensordict_milliseconds": 1e3 * sum(inside for _, inside, _ in clock.steps[1:]) / steps,
        "component_calls": clock.steps[-1][2],
        "spread": max(shares) / min(shares),
    }
    parity = [gate("TensorDict calls in 6 more decode steps", long - short, 0)]
    share = sum(shares) / steps
    emit([row(f"plumbing {name}", share, goal=GOAL, unit="%", most=True, parity=parity, **facts)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", type=int, nargs="?", default=3)
    parser.add_argument("workload", choices=STEPS, nargs="?", default="M")
    arguments = parser.parse_args()
    main(arguments.steps, arguments.workload)
