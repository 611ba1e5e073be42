"""PPO on CartPole through the same loop as the language-model recipes."""

import shutil
import sys

import gymnasium
import pytest
import torch
from torchrl.collectors import Collector
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

SHORT = [
    "recipe=control_ppo",
    "phases.rl.steps=3",
    "phases.rl.every.checkpoint=1",
    "environment.num_envs=4",
    "collector.num_steps=32",
    "evaluation_environment.num_envs=2",
    "evaluation.max_steps=20",
]


def plan(directory, *overrides):
    config = compose_config([f"directory={directory}", *overrides])
    return config, plan_of(config)


def play(directory, *overrides):
    launch(*plan(directory, *overrides))
    return directory


def nodes(directory, *overrides):
    return Builder(plan(directory, *SHORT, *overrides)[1], seed=0).all()


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return play(tmp_path_factory.mktemp("control") / "run", *SHORT)


def test_torchrls_own_parts_are_the_nodes(tmp_path):
    made = nodes(tmp_path)

    with torch.no_grad():
        made["collector"](None)
    kinds = [type(part) for part in (made["collector"].collector, made["advantage"], made["loss"])]
    assert kinds == [Collector, GAE, ClipPPOLoss]


def test_every_metric_is_a_finite_number(metrics, short):
    values = [v for row in metrics(short) for v in row.values() if not isinstance(v, str)]

    assert len(values) > 3
    assert bool(torch.tensor(values).isfinite().all())


def test_returns_of_training_and_of_the_greedy_policy_are_recorded(metrics, short):
    first, *_, last = metrics(short)

    # 4 x 32 steps of a random policy, whose episodes last about 20: some end in the first batch.
    assert 8 <= first["episode/return"] <= 32
    assert 8 <= last["evaluation/return"] <= 20
    assert first["collector/frames"] == 128


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(metrics, tmp_path, short):
    again = metrics(play(tmp_path / "again", *SHORT))

    assert again == metrics(short)


@pytest.mark.slow
def test_another_seed_gives_other_numbers(metrics, tmp_path, short):
    other = metrics(play(tmp_path / "other", *SHORT, "seed=1"))

    assert other[0]["loss/control"] != metrics(short)[0]["loss/control"]


@pytest.mark.slow
def test_the_numbers_do_not_depend_on_evaluations(metrics, tmp_path, short):
    seldom = metrics(play(tmp_path / "seldom", *SHORT, "evaluation.max_steps=5"))

    for row, other in zip(seldom, metrics(short), strict=True):
        assert row["loss/control"] == other["loss/control"]


def test_a_stopped_run_goes_on_to_its_end(metrics, tmp_path, short):
    shutil.copytree(short, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000003")

    rows = metrics(play(tmp_path / "run", *SHORT, "resume=must"))

    # Up to the checkpoint the numbers are those of before; after it there are new episodes.
    assert rows[:2] == metrics(short)[:2]
    assert [row["total"] for row in rows] == [1, 2, 3]
    assert rows[2]["loss/control"] != metrics(short)[2]["loss/control"]


def test_weights_come_back_into_the_loss_that_trains_them(tmp_path, short):
    saved = open_checkpoint(short)
    made = nodes(tmp_path)
    saved.restore(made)

    tensors = saved.tensors()
    trained = dict(made["loss"].actor_network_params.named_parameters())
    assert len(trained) == 6
    for name, weight in made["actor"].named_parameters():
        assert torch.equal(weight, tensors[f"actor:{name}"])
        assert any(weight is other for other in trained.values())


def test_without_gymnasium_the_command_names_the_extra(tmp_path, rlcomp, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gymnasium", None)

    assert rlcomp(*SHORT, f"directory={tmp_path}") == 2
    assert "pip install 'rlcomp[envs]'" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:collector.*no phase of this run uses collector")
def test_a_learner_without_a_collector_names_what_is_missing(tmp_path, rlcomp, capsys):
    code = rlcomp(*SHORT, f"directory={tmp_path}", "phases.rl.stages=[advantage,learner]")

    assert code == 2
    assert "reads 'next.done', 'next.observation', 'next.reward'" in capsys.readouterr().err


@pytest.mark.slow
def test_cartpole_is_learned(metrics, tmp_path, at_work):
    # Half of the recipe's steps.
    half = ("recipe=control_ppo", "phases.rl.steps=25", "phases.rl.every.evaluation=25")
    rows = metrics(play(tmp_path / "run", *half))

    # Over 10 seeds (these networks have one engine): the last ten returns of training were mean
    # 318, sd 57, least 234, those of the likeliest actions mean 484, sd 19, least 452, in
    # gymnasium's own mean 468, sd 45, least 375; at learning rate 0 they were 22, 10 and 9. So the
    # bounds are 4.3, 15 and 6 sd below; 195 is where gymnasium's first CartPole counted as solved.
    returns = [row["episode/return"] for row in rows if "episode/return" in row]
    assert sum(returns[-10:]) / 10 >= 75
    assert rows[-1]["evaluation/return"] >= 195
    at_work("control_ppo", rows)
    made = Builder(plan(tmp_path, *half)[1], seed=0).all()
    open_checkpoint(tmp_path / "run").restore(made)
    assert mean_return_in_gymnasium(made["actor"].module[0]) >= 195


def mean_return_in_gymnasium(logits, episodes=10):
    """Without any of our parts: gymnasium's single environment, the network's likeliest action."""
    alone, total = gymnasium.make("CartPole-v1"), 0.0
    for episode in range(episodes):
        seen, ended = alone.reset(seed=1000 + episode)[0], False
        while not ended:
            with torch.no_grad():
                action = int(logits(torch.from_numpy(seen)).argmax())
            seen, reward, terminated, truncated, _ = alone.step(action)
            total += float(reward)
            ended = terminated or truncated
    return total / episodes
