"""NaN and infinities at every boundary of the flow: nothing trains on them in silence.

What is put into a column between two stages stops the run with a message that names the key, and no
parameter has moved.
"""

import re
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

from rlcomp.checkpoint.state import collect, restore
from rlcomp.component import Component
from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import NumericalError
from rlcomp.keys import lookup
from rlcomp.run.phase import Phase
from rlcomp.run.program import run_phases

VALUES = ["nan", "inf", "-inf"]
SMALL = [
    "directory=x",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "model.num_hidden_layers=1",
    # Half of all answers are right: the groups vary.
    "reward=regex",
    "reward.pattern='^[0-4]'",
    "learner.num_minibatches=1",
    "learner/non_finite=stop",
]
RECIPES = {
    "grpo": ["recipe=grpo", "prompts.batch_size=4", "group_size=4"],
    "ppo": [
        "recipe=ppo",
        "prompts.batch_size=16",
        "value_learner.num_minibatches=1",
        "learner/non_finite@value_learner.non_finite=stop",
    ],
}
# The floats that the stages of a recipe write, by the class that does, and which key is told:
# NaN in rollout_log_probs means "not recorded", and old_log_probs is its copy.
GRPO = {
    ("GroupCollector", "rollout_log_probs"),
    ("Regex", "reward"),
    ("RolloutLogProbs", "old_log_probs"),
    ("FrozenReference", "ref_log_probs"),
    ("GroupMeanStd", "advantage"),
}
CRITIC = {
    ("KLInTokenReward", "token_reward"),
    ("ValueEstimate", "value"),
    ("ValueEstimate", "old_value"),
    ("GAE", "advantage"),
    ("GAE", "returns"),
}
WRITTEN = {"grpo": GRPO, "ppo": (GRPO - {("GroupMeanStd", "advantage")}) | CRITIC}


class Listening(Component):
    """Notes which floats are new, or others than before."""

    def __init__(self, before: "Listening | None") -> None:
        super().__init__()
        self.before = [before]
        self.seen: dict[str, torch.Tensor] = {}

    def forward(self, batch: TensorDict) -> TensorDict:
        specs = {key: lookup(key) for key in batch.keys()}
        floats = [key for key, spec in specs.items() if spec and spec.dtype == "float"]
        self.seen = {key: batch[key].clone() for key in floats}
        return batch

    def new(self):
        old = self.before[0].seen if self.before[0] else {}
        return [
            key for key in self.seen if key not in old or not torch.equal(old[key], self.seen[key])
        ]


class Injecting(Component):
    """Puts a value at the first response token, or into its row."""

    def __init__(self, key: str, value: str) -> None:
        super().__init__()
        self.key, self.value = key, float(value)

    def forward(self, batch: TensorDict) -> TensorDict:
        row, place = batch["response_mask"].nonzero()[0].tolist()
        entry = batch[self.key].clone()
        entry[(row, place) if entry.ndim > 1 else row] = self.value
        return batch.set(self.key, entry)


class Poisoned:
    """A recipe's RL phase of one step, which can be run again from its start."""

    def __init__(self, recipe):
        plan = plan_of(compose_config([*SMALL, *RECIPES[recipe]]))
        builder = Builder(plan, seed=0)
        self.nodes = builder.all()
        self.stages = builder.value(plan.phases["rl"].stages)
        self.start = collect(self.nodes)
        self.places = self.boundaries()

    def run(self, stages):
        tensors, state = self.start
        if "kl:kl" in tensors:
            self.nodes["kl"].kl.fill_(tensors["kl:kl"])  # NaN: nothing is measured yet
        restore(Path("x"), self.nodes, dict(tensors), state, keep_generators=False)
        run_phases({"rl": Phase(1, stages)}, nodes=self.nodes, seed=0)

    def boundaries(self):
        """Behind which stage, by its place and class, which floats are written."""
        heard, stages = [], []
        for stage in self.stages:
            heard.append(Listening(heard[-1] if heard else None))
            stages += [stage, heard[-1]]
        self.run(stages)
        kinds = [type(stage).__name__ for stage in self.stages]
        return [(i, kind, key) for i, kind in enumerate(kinds) for key in heard[i].new()]

    def stopped(self, place, key, value):
        """What a run says that gets the value behind a stage."""
        stages = [*self.stages[: place + 1], Injecting(key, value), *self.stages[place + 1 :]]
        with pytest.raises(NumericalError) as error:
            self.run(stages)
        return "\n".join([str(error.value), *error.value.__notes__])

    def moved(self):
        """Parameters that are not as they were at the start."""
        found = collect(self.nodes)[0]
        start = self.start[0]
        named = {
            f"{path}:{name}"
            for path, node in self.nodes.items()
            if isinstance(node, torch.nn.Module)
            for name, _ in node.named_parameters()
        }
        return [key for key in named & found.keys() if not torch.equal(found[key], start[key])]


@pytest.fixture(scope="module", params=list(RECIPES))
def poisoned(request):
    made = Poisoned(request.param)
    assert {(kind, key) for _, kind, key in made.places} == WRITTEN[request.param]
    return made


@pytest.mark.parametrize("value", VALUES)
def test_nothing_that_is_not_finite_is_trained_on_in_silence(poisoned, value):
    for place, _, key in poisoned.places:
        told = poisoned.stopped(place, key, value)

        # Not recorded is no fault; that there is then no old log-prob is one.
        bad = "old_log_probs" if (key, value) == ("rollout_log_probs", "nan") else key
        assert re.search(rf"first bad key(?: of the batch)?: '{bad}' is {value} at \[", told), told
        # The critic's own targets are read behind the step of the policy, which does not need them.
        late = key in ("returns", "old_value")
        assert {name.partition(".")[0].partition(":")[0] for name in poisoned.moved()} == (
            {"model"} if late else set()
        ), key


def test_without_an_injection_both_learners_move_their_parameters(poisoned):
    poisoned.run(poisoned.stages)

    assert poisoned.moved() != []
