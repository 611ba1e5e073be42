"""Greedy return of what the critics of runs prefer, beside their policies: ``critics.py RUNS``."""

import argparse
from pathlib import Path
from typing import cast

import torch
from omegaconf import DictConfig, OmegaConf
from tensordict.nn import TensorDictModule

from components.evaluator.episodes import first_return, greedy_steps
from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.state import owned_tensors
from rlcomp.model.control import bounded_actions
from rlcomp.report.runs import finished
from rlcomp.config.build import Builder
from rlcomp.config.plan import read

ARMS = ("iql", "td3_bc", "cql")
ACTIONS = 41  # of one number, between the bounds


def built(run, starts):
    """A run's loss and an evaluation from many starts, at its newest checkpoint."""
    saved = open_checkpoint(run)
    config = cast("DictConfig", OmegaConf.load(saved.path / "config.yaml"))
    config.evaluation_environment.num_envs = starts
    plan, _ = read(config)
    builder = Builder(plan, int(config.seed))
    loss, evaluation = (builder.build(plan.nodes[name]) for name in ("loss", "evaluation"))
    tensors = saved.tensors()
    with torch.no_grad():
        for name, tensor in owned_tensors(builder.built).items():
            if not name.startswith("evaluation_environment"):  # which has more copies here
                tensor.copy_(tensors[name])
    return loss.objective, evaluation


def values(objective, observation, action):
    """The smaller of the two critics."""
    found = []
    for params in objective.qvalue_network_params.unbind(0):
        with params.to_module(objective.qvalue_network):
            found.append(objective.qvalue_network(observation=observation, action=action))
    return torch.stack(found).amin(0)


def preferred(objective, space):
    """The policy ``argmax_a min(Q_1(s, a), Q_2(s, a))`` over a grid of actions."""
    grid = torch.linspace(space.low.item(), space.high.item(), ACTIONS)[:, None]

    def act(observation):
        seen = observation[:, None].expand(-1, ACTIONS, -1)
        worth = values(objective, seen, grid.expand(len(seen), -1, -1))[..., 0]
        return grid[worth.argmax(1)]

    return TensorDictModule(act, in_keys=["observation"], out_keys=["action"])


def greedy_return(evaluation, policy):
    """Mean return over the starts, which are the same for all policies of a seed."""
    environment = evaluation.environment
    steps = greedy_steps(environment, policy, evaluation.max_steps, evaluation.seed)
    return float(first_return(steps["reward"], steps["done"]).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--starts", type=int, default=1000)
    given = parser.parse_args()
    print("| | the policy, seeds | what its critics prefer, seeds |\n|---|---|---|")
    for arm in ARMS:
        cells = [[], []]
        for _, run in sorted(finished(given.runs / arm).items()):
            objective, evaluation = built(run.directory, given.starts)
            critics = preferred(objective, bounded_actions(evaluation.environment).space)
            with torch.no_grad():
                for cell, policy in zip(cells, (evaluation.policy, critics), strict=True):
                    cell.append(f"{greedy_return(evaluation, policy):.0f}")
        if cells[0]:
            print(f"| {arm} | {' | '.join(', '.join(cell) for cell in cells)} |")


if __name__ == "__main__":
    main()
