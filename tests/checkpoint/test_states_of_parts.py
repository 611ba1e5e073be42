"""What the parts of a run refuse to take out of a checkpoint: a table of states that none wrote."""

from functools import partial

import pytest
import torch
from tensordict import TensorDict

from components.collector.delay import DelayedCollector
from components.early_stop import Alarm, KLBudget, Plateau
from components.learner.gradient import Learner
from components.loss.imitation import SFTLoss
from components.loss.reduction import TokenMean
from components.sampler.curriculum import Curriculum
from components.sampler.pools import TaskPools
from components.sampler.task_curriculum import Frontier
from components.worlds.sorting.task import Sorting
from rlcomp.checkpoint.optimizer_state import check_moments, check_optimizer_state
from rlcomp.checkpoint.random_state import check_random_state, random_state
from rlcomp.checkpoint.state import collect, restore
from rlcomp.component import Component
from rlcomp.data.sampling import ShuffledEpochs
from rlcomp.errors import CheckpointError
from rlcomp.pareto.aggregator import RunningMeans
from rlcomp.text.tokenizer import byte_tokenizer

NAN, NAME = float("nan"), "evaluation/sampled"
SAMPLER = {
    "tokenizer": byte_tokenizer(),
    "batch_size": 4,
    "context_length": 8,
    "max_new_tokens": 2,
}
TASKS = {"easy": Sorting(length=1), "hard": Sorting(length=2)}
WEIGHTS = {"easy": 1.0, "hard": 1.0}


class Table(Component):
    """One log-prob per token id, and a shift of all."""

    reads = ("tokens", "response_mask")
    writes = ("log_probs",)

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4))
        self.shift = torch.nn.Parameter(torch.zeros(1))

    def forward(self, batch):
        batch["log_probs"] = self.weight[batch["tokens"]] + self.shift
        return batch


class Rolls(Component):
    """A collector of one row."""

    writes = ("tokens", "response_mask", "policy_version", "rewards")
    fresh = True

    def forward(self, batch):
        row = torch.ones(1, 3, dtype=torch.int64)
        rewards = {"right": torch.ones(1)}
        values = {"tokens": row, "policy_version": row, "rewards": rewards}
        return TensorDict({**values, "response_mask": row > 0}, batch_size=[1])


def learner(optimizer):
    made = Learner(
        model=Table(),
        losses={"sft": SFTLoss(reduction=TokenMean())},
        optimizer=optimizer,
        schedule=lambda progress: 1.0,
        num_minibatches=1,
        epochs=1,
        micro_batch_tokens=None,
        max_grad_norm=None,
    )
    tokens = torch.tensor([[1, 2, 3]])
    mask = tokens > 0
    rows = {"tokens": tokens, "attention_mask": mask, "response_mask": mask}
    made(TensorDict(rows, batch_size=[1]))
    return made


def delayed():
    made = DelayedCollector(collector=Rolls())
    made(TensorDict({}, batch_size=[]))
    return made


def curriculum():
    made = Curriculum(task=Sorting(length=2), **SAMPLER)
    made.tell({3: 0.5, 7: 0.25})
    return made


def stop(part, **seen):
    part.state, part.known = seen, {NAME}
    return part


def means():
    made = RunningMeans(0.5)
    made.update("right", 0.5)
    return made


PARTS = {
    "means": means,
    "examples": lambda: ShuffledEpochs(Sorting(length=2), 3),
    "curriculum": curriculum,
    "frontier": lambda: Frontier(tasks=TASKS, **SAMPLER),
    "pools": lambda: TaskPools(tasks=TASKS, weights_start=WEIGHTS, weights_end=WEIGHTS, **SAMPLER),
    "delayed": delayed,
    "plateau": lambda: stop(Plateau(metric=NAME), best=0.5, mark=0.5, waited=1),
    "alarm": lambda: stop(Alarm(metric=NAME, watch="reward/mean", low=0.1), row=1),
    "kl_budget": lambda: stop(KLBudget(metric=NAME, budget=0.5), kl=[0.1, NAN]),
    "adam": lambda: learner(partial(torch.optim.AdamW, lr=0.1)),
    "sgd": lambda: learner(partial(torch.optim.SGD, lr=0.1, momentum=0.9)),
}


def at(*keys, value):
    def change(state):
        for key in keys[:-1]:
            state = state[key]
        state[keys[-1]] = value

    return change


def without(*keys):
    def change(state):
        for key in keys[:-1]:
            state = state[key]
        del state[keys[-1]]

    return change


MOMENTS = ("optimizer", "state")
GROUP = ("optimizer", "param_groups", 0)
ROW = torch.ones(1, 3, dtype=torch.int64)

STATES = {
    "means, infinite": ("means", at("right", value=float("inf")), "'right' is inf: must be fin"),
    "means, truth": ("means", at("right", value=True), "'right' is True: must be a number"),
    "epoch below 0": ("examples", at("epoch", value=-1), "'epoch' is -1: must be at least 0"),
    "cursor a text": ("examples", at("cursor", value="3"), "'cursor' is '3': must be an integer"),
    "cursor below 0": ("examples", at("cursor", value=-1), "'cursor' is -1"),
    "cursor behind the end": ("examples", at("cursor", value=101), "'cursor' is 101: must be less"),
    "seed a share": ("examples", at("seed", value=0.5), "'seed' is 0.5"),
    "no seed": ("examples", without("seed"), "'seed' is missing"),
    "epochs a list": ("curriculum", at("examples", value=[]), "'examples' is"),
    "tried floats": ("curriculum", at("tried", value=torch.zeros(2)), "float32: must be"),
    "tried a list": ("curriculum", at("tried", value=[3, 7]), "must be a tensor"),
    "tried below 0": ("curriculum", at("tried", value=torch.tensor([-1, 7])), "indices of the ta"),
    "tried behind the end": ("curriculum", at("tried", value=torch.tensor([3, 100])), "indices"),
    "tried twice": ("curriculum", at("tried", value=torch.tensor([3, 3])), "none of them twice"),
    "tried in a table": (
        "curriculum",
        at("tried", value=torch.tensor([[3, 7]])),
        r"'tried' is \[1, 2\] torch.int64: must be \[any number\]",
    ),
    "rates too few": (
        "curriculum",
        at("pass_rates", value=torch.ones(1, dtype=torch.float64)),
        r"'pass_rates' is \[1\] torch.float64: must be \[2\]",
    ),
    "rates above 1": (
        "curriculum",
        at("pass_rates", value=torch.tensor([0.5, 1.5], dtype=torch.float64)),
        r"must lie in \[0, 1\]",
    ),
    "rates not numbers": (
        "curriculum",
        at("pass_rates", value=torch.tensor([0.5, NAN], dtype=torch.float64)),
        r"must lie in \[0, 1\]",
    ),
    "a frontier behind the last": ("frontier", at("frontier", value=2), "must be less than 2"),
    "a frontier as text": ("frontier", at("frontier", value="1"), "'frontier' is '1'"),
    "a task without its place": ("frontier", at("examples", value=[]), "ValueError"),
    "a task's place a number": ("frontier", at("examples", 1, value=3), "the state is 3"),
    "a pool without its place": ("pools", without("easy"), "'easy' is missing"),
    "a pool nobody has": ("pools", at("other", value={}), "'other' is no field"),
    "a queue of numbers": ("delayed", at("queue", value=[3]), "'queue' is 3: must be a mapping"),
    "a queue that is none": ("delayed", at("queue", value=3), "'queue' is 3: must be a list"),
    "a rollout without a key": ("delayed", without("queue", 0, "rewards"), "has no 'rewards'"),
    "a rollout without its version": (
        "delayed",
        without("queue", 0, "policy_version"),
        "has no 'policy_version'",
    ),
    "a rollout of a text": ("delayed", at("queue", 0, "tokens", value="x"), "no batch of tensors"),
    "a rollout of two lengths": (
        "delayed",
        at("queue", 0, "tokens", value=torch.ones(2, 3)),
        "no batch of tensors",
    ),
    "best not a number": ("plateau", at("state", "best", value=NAN), "'best' is nan"),
    "a mark alone": ("plateau", without("state", "waited"), "'waited' is missing"),
    "no mark": ("plateau", without("state", "mark"), "'mark' is missing"),
    "waited below 0": ("plateau", at("state", "waited", value=-1), "'waited' is -1"),
    "known a text": ("plateau", at("known", value="abc"), "'known' is 'abc': must be a list"),
    "a measure more": ("plateau", at("more", value=1), "'more' is no field"),
    "no measure": ("plateau", without("better"), "'better' is missing"),
    "alarms a share": ("alarm", at("state", "row", value=0.5), "'row' is 0.5"),
    "KL of texts": (
        "kl_budget",
        at("state", "kl", value=[0.1, "x"]),
        "'kl' holds 'x': must be numbers",
    ),
    "KL a number": ("kl_budget", at("state", "kl", value=3), "'kl' is 3: must be a list"),
    "no optimiser": ("adam", without("optimizer"), "'optimizer' is missing"),
    "no groups": ("adam", without("optimizer", "param_groups"), "'param_groups' is missing"),
    "groups of numbers": ("adam", at("optimizer", "param_groups", value=[3]), "must be a mapping"),
    "parameters of texts": ("adam", at(*GROUP, "params", value=["0", 1]), "must be an integer"),
    "a parameter twice": ("adam", at(*GROUP, "params", value=[0, 0]), "a parameter twice"),
    "names too few": ("adam", at(*GROUP, "param_names", value=["weight"]), "differ in length"),
    "moments of nobody": ("adam", at(*MOMENTS, 9, value={}), "parameter 9, but no group"),
    "moments a list": ("adam", at(*MOMENTS, 0, value=[]), "must be a mapping"),
    "a step that is none": ("adam", at(*MOMENTS, 0, "step", value=torch.tensor(NAN)), "is nan"),
    "a step below 0": ("adam", at(*MOMENTS, 0, "step", value=torch.tensor(-1.0)), "'step' is ten"),
    "a step that no run reaches": (
        "adam",
        at(*MOMENTS, 0, "step", value=torch.tensor(1e30)),
        r"'step' is tensor\(1.0000e\+30\): must be a number of steps, from 0 to 16,777,216",
    ),
    "half a step": ("adam", at(*MOMENTS, 0, "step", value=torch.tensor(1.5)), "'step' is ten"),
    "a mean that is none": (
        "adam",
        at(*MOMENTS, 0, "exp_avg", value=torch.tensor([0.0, NAN, 0.0, 0.0])),
        "'exp_avg' of parameter 0 is not finite",
    ),
    "a square without end": (
        "adam",
        at(*MOMENTS, 0, "exp_avg_sq", value=torch.full((4,), float("inf"))),
        "'exp_avg_sq' of parameter 0 is not finite",
    ),
    "a square below 0": (
        "adam",
        at(*MOMENTS, 0, "exp_avg_sq", value=torch.tensor([0.0, 0.0, 0.0, -1e-9])),
        "'exp_avg_sq' of parameter 0 is below 0",
    ),
    "a step a text": ("adam", at(*MOMENTS, 0, "step", value="1"), "'step' is '1'"),
    "a step of many": ("adam", at(*MOMENTS, 0, "step", value=torch.ones(4)), "'step' is tensor"),
    "no step": ("adam", without(*MOMENTS, 0, "step"), "exp_avg, exp_avg_sq: one is missing"),
    "no second moment": ("adam", without(*MOMENTS, 1, "exp_avg_sq"), "exp_avg, step: one is mis"),
    "a moment that spreads": (
        "adam",
        at(*MOMENTS, 0, "exp_avg", value=torch.ones(1)),
        r"'exp_avg' of parameter 0 is \[1\]: must be \[4\]",
    ),
    "a moment a number": (
        "adam",
        at(*MOMENTS, 0, "exp_avg_sq", value=torch.tensor(1.0)),
        r"'exp_avg_sq' of parameter 0 is \[\]",
    ),
    "momentum of one of two": (
        "sgd",
        at(*MOMENTS, 1, value={"other": torch.ones(1)}),
        "parameter 1 has the moments other: one is missing",
    ),
}


def saved(name):
    part = PARTS[name]()
    return part, part.run_state()


@pytest.mark.parametrize("name", STATES)
def test_a_state_that_nobody_wrote_is_refused_with_part_and_field(tmp_path, name):
    kind, change, told = STATES[name]
    part, state = saved(kind)
    change(state)
    part.run_state = lambda: state
    tensors, held = collect({kind: part})
    part = PARTS[kind]()

    with pytest.raises(CheckpointError, match=rf"{tmp_path}: the state of '{kind}:': .*{told}"):
        restore(tmp_path, {kind: part}, tensors, held, keep_generators=True)


@pytest.mark.parametrize("kind", PARTS)
def test_a_state_that_was_written_is_taken(tmp_path, kind):
    part, other = PARTS[kind](), PARTS[kind]()
    tensors, held = collect({kind: part})

    restore(tmp_path, {kind: other}, tensors, held, keep_generators=False)

    again, same = collect({kind: other})
    assert repr(same["nodes"]) == repr(held["nodes"])
    assert all(torch.equal(again[key], tensor) for key, tensor in tensors.items() if ":" in key)


def test_what_other_optimisers_keep_is_not_looked_into():
    class Mine(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

    optimizer = Mine([torch.nn.Parameter(torch.zeros(4))])

    check_moments({0: {"exp_avg": torch.ones(2, 2)}}, optimizer)


@pytest.mark.parametrize("name", ["Adafactor", "Adamax", "ASGD", "LBFGS", "NAdam", "Rprop"])
def test_the_moments_of_torchs_optimisers_pass(name):
    parameters = [torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.ones(2))]
    optimizer = getattr(torch.optim, name)(parameters, lr=0.1)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    closure = {"closure": lambda: torch.tensor(1.0)} if name == "LBFGS" else {}
    optimizer.step(**closure)

    check_moments(check_optimizer_state(optimizer.state_dict())["state"], optimizer)


def test_words_of_zero_and_every_place_of_a_generator_pass():
    state = random_state()
    words = (0, *state["python"][1][1:624], 624)
    keys = torch.cat([torch.tensor([0, 2**32 - 1]), state["numpy"][1][2:]])

    for position in (0, 624):
        state["python"] = (3, (*words[:-1], position), 0.5)
        state["numpy"] = ["MT19937", keys, position, 1, 0.5]
        assert check_random_state(state) is state


WORDS = tuple(range(624))
KEYS = torch.arange(624)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("python", [3, (*WORDS, 624), None]),
        ("python", (2, (*WORDS, 624), None)),
        ("python", (3, (*WORDS, 624))),
        ("python", (3, (*WORDS, 624), "a")),
        ("python", (3, [*WORDS, 624], None)),
        ("python", (3, WORDS, None)),
        ("python", (3, (*WORDS, 7, 624), None)),
        ("python", (3, (-1, *WORDS[1:], 624), None)),
        ("python", (3, (2**32, *WORDS[1:], 624), None)),
        ("python", (3, (*WORDS, 625), None)),
        ("numpy", ("MT19937", KEYS, 624, 0, 0.0)),
        ("numpy", ["PCG64", KEYS, 624, 0, 0.0]),
        ("numpy", ["MT19937", KEYS, 624, 0]),
        ("numpy", ["MT19937", KEYS[1:], 624, 0, 0.0]),
        ("numpy", ["MT19937", KEYS - 1, 624, 0, 0.0]),
        ("numpy", ["MT19937", KEYS + (2**32 - 623), 624, 0, 0.0]),
        ("numpy", ["MT19937", KEYS, 625, 0, 0.0]),
        ("numpy", ["MT19937", KEYS, -1, 0, 0.0]),
        ("numpy", ["MT19937", KEYS, 624, 2, 0.0]),
        ("numpy", ["MT19937", KEYS, 624, -1, 0.0]),
        ("numpy", ["MT19937", KEYS, 624, 0, None]),
    ],
)
def test_a_state_that_is_none_of_its_generator_is_refused(name, value):
    sound = {"python": (3, (*WORDS, 624), None), "numpy": ["MT19937", KEYS, 624, 0, 0.0]}
    assert check_random_state(random_state() | sound)

    with pytest.raises(CheckpointError, match=f"^'{name}'"):
        check_random_state(random_state() | sound | {name: value})
