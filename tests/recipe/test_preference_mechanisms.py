"""Every preference loss moves the built-in pairs in its own way: never as its neighbour does."""

from functools import cache

import pytest
import torch
from tensordict import TensorDict

from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.options import config_directory
from rlcomp.config.plan import Plan, below
from rlcomp.config.resolve import plan_of
from rlcomp.metrics import recording

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]

STEPS = 4
STAGES = ("pairs", "reference", "kl_baseline", "learner")
# A few steps show more at this rate.
LOUD = ("learner.optimizer.lr=3e-3", "pairs.batch_size=32")


@cache
def moved(*words):
    """What some steps on the built-in pairs change: the metrics of each, and the weights."""
    plan = plan_of(compose_config(["recipe=dpo", *LOUD, *words]))
    nodes = [n for name in STAGES for n in (plan.nodes[name], *below(plan.nodes[name]))]
    builder = Builder(Plan(plan.tree, {node.path: node for node in nodes}, {}), 0)
    stages = [builder.build(plan.nodes[name]) for name in STAGES]
    told = []
    for step in range(STEPS):
        with recording(progress=(step + 1) / (STEPS + 1), step=step) as ledger, torch.no_grad():
            batch = TensorDict({}, [])
            for stage in stages:
                batch = stage(batch)
        told.append(ledger.means())
    weights = builder.built["policy"].weights().values()
    return told, torch.cat([one.detach().flatten() for one in weights])


def pairs_of(*words):
    """The settings of the built-in pairs that a loss brings."""
    task = compose_config(["recipe=dpo", *words]).task
    return (f"task.position={task.position}", f"task.uneven={task.uneven}")


# A loss or an option of one, and what it would be without its mechanism.
NEIGHBOURS = [
    (("loss=ld_dpo",), ("loss=dpo",)),
    (("loss=ld_dpo",), ("loss=ld_dpo", "loss.score.alpha=0.4")),
    (("loss=dpo_norm",), ("loss=dpo",)),
    (("loss=dpop",), ("loss=dpo", "loss.link.beta=0.3")),
    (("loss=dpop",), ("loss=dpop", "loss.score.penalty=5")),
    (("loss=f_dpo",), ("loss=dpo",)),
    (("loss=f_dpo",), ("loss=f_dpo", "loss.score.divergence=jensen_shannon")),
    (
        ("loss=f_dpo", "loss.score.divergence=alpha"),
        ("loss=f_dpo", "loss.score.divergence=alpha", "loss.score.alpha=0.2"),
    ),
    (("loss=tdpo",), ("loss=dpo",)),
    (("loss=tdpo",), ("loss=tdpo", "loss.score.alpha=0.1")),
    (("loss=tdpo",), ("loss=tdpo", "loss.score.detach_chosen=false")),
    (("loss=tdpo1",), ("loss=tdpo", "loss.score.alpha=1")),
    (("loss=cdpo",), ("loss=dpo",)),
    (("loss=robust_dpo",), ("loss=cdpo",)),
    (("loss=dpo_nll",), ("loss=dpo",)),
    (("loss=ipo",), ("loss=dpo_norm",)),
    (("loss=ipo_sum",), ("loss=ipo",)),
    (("loss=hinge",), ("loss=dpo",)),
    (("loss=exo",), ("loss=dpo",)),
    (("loss=exo",), ("loss=exo", "loss.link.epsilon=0.01")),
    (("loss=discopop",), ("loss=dpo",)),
    (("loss=discopop",), ("loss=discopop", "loss.link.tau=1")),
    (("loss=nca",), ("loss=bco",)),
    (("loss=bco",), ("loss=dpo",)),
    (("loss=apo",), ("loss=apo_down",)),
    (("loss=apo",), ("loss=dpo",)),
    (("loss=sppo",), ("loss=ipo_sum",)),
    (("loss=simpo",), ("loss=simpo", "loss.link.gamma=0")),
    (("loss=simpo",), ("loss=simpo", "loss.score.alpha=0.5")),
    (("loss=simpo",), ("loss=simpo", "loss.score.length=sum")),
    (("loss=cpo",), ("loss=cpo", "loss.nll_coef=0")),
    (("loss=orpo",), ("loss=orpo", "loss.pair_coef=0")),
    (("loss=step_dpo",), ("loss=dpo",)),
    (("loss=kto",), ("loss=kto", "loss.beta=0.5")),
    (("loss=kto",), ("loss=kto", "loss.desirable_weight=1.3")),
    (("loss=kto",), ("loss=kto", "loss.undesirable_weight=1.3")),
    (("loss=dpo",), ("loss=dpo", "loss.link.beta=0.5")),
]


@pytest.mark.parametrize(("words", "neighbour"), NEIGHBOURS, ids=lambda words: ",".join(words))
def test_a_loss_on_the_built_in_pairs_differs_from_its_neighbour(words, neighbour):
    own = pairs_of(*words)

    here, there = moved(*words, *own)[1], moved(*neighbour, *own)[1]

    assert here.isfinite().all()
    start = moved(*words, *own, "learner.optimizer.lr=1e-12")[1]
    assert (here - there).norm() > 1e-3 * (here - start).norm() > 0


def test_every_preference_loss_has_a_neighbour():
    files = (config_directory() / "loss").glob("*.yaml")
    texts = {file.stem: file.read_text() for file in files}
    own = {
        name
        for name, text in texts.items()
        if "loss.preference." in text or "\n  - dpo\n" in text or name == "kto"
    }

    assert own == {words[0].partition("=")[2] for pair in NEIGHBOURS for words in pair}


def test_the_reference_point_of_kto_is_above_0_on_its_pairs():
    told, _ = moved("loss=kto", *pairs_of("loss=kto"))

    assert [one["preference/baseline"] > 0 for one in told] == [False, True, True, True]


def test_pairs_of_a_file_are_as_they_are():
    task = compose_config(["recipe=dpo", "loss=kto", "task=preferences", "task.path=x"]).task

    assert not {"position", "uneven"} & set(task)
