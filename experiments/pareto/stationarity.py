"""How far from Pareto-stationary: ``python experiments/pareto/stationarity.py RUNS --batches 16``.

``RUNS`` is what text.sh has written. Of every checkpoint of ``RUNS/METHOD/alike`` the gradients of
the expected objectives are estimated on fresh prompts and answers, and of these the square of the
least convex combination, ``min_c |sum_k c_k g_k|^2``: what PAMA's theorem says goes to 0. Each run
keeps its own as ``stationarity.json``.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import cast

import torch
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDict

from rlcomp.functional.min_norm import min_norm
from rlcomp.checkpoint.reader import SavedCheckpoint, open_checkpoint
from rlcomp.checkpoint.state import owned_tensors
from rlcomp.pareto.objectives import centre_rewards, stack_rewards
from rlcomp.report.runs import find_runs
from rlcomp.report.statistics import estimate
from rlcomp.seed import named_seed
from rlcomp.config.build import Builder
from rlcomp.config.plan import read

SAMPLED = ("prompts", "rollout", "reward")
GROUP = 8


def products(rows):
    """Inner products of M estimates of K gradients, ``[M, M, K, K]``, of rows ``[M, K, D]``."""
    rows = rows.double()
    return torch.einsum("mkd,nld->mnkl", rows, rows)


def unbiased_gram(inner):
    """``E[g] E[g]^T``, of products of different estimates only: one with itself holds its noise."""
    count = len(inner)
    own = torch.einsum("mmkl->kl", inner)
    return (inner.sum((0, 1)) - own) / (count * (count - 1))


def weights_of(gram):
    """Convex weights of least norm; what noise has made of a square below 0 is cut off first."""
    values, vectors = torch.linalg.eigh((gram + gram.T) / 2)
    return min_norm((vectors * values.clamp(min=0)) @ vectors.T)


def least_square(inner):
    """``|sum_k c_k g_k|^2``: c of least norm by one half of the estimates, the square by the other.

    Both ways round, and their mean: without bias for these c, whose square is at least the least.
    """
    first, second = inner[::2, ::2], inner[1::2, 1::2]
    return (_square(first, second) + _square(second, first)) / 2


def _square(chooses, measures):
    weights = weights_of(unbiased_gram(chooses))
    return float(weights @ unbiased_gram(measures) @ weights)


def noise_of(inner, weights):
    """Standard deviation that the square would have, were the gradient 0.

    The mean of ``M (M - 1)`` products of uncorrelated estimates, each of them counted twice.
    """
    along = torch.einsum("mnkl,k,l->mn", inner, weights, weights)
    centred = along - along.mean(0) - along.mean(1)[:, None] + along.mean()
    between = centred - centred.diagonal().diag()
    return float((2 * between.square().sum()).sqrt()) / (len(along) * (len(along) - 1))


def built(saved: SavedCheckpoint, prompts):
    """What a run samples with, at a checkpoint's weights, with random numbers of its own."""
    config = cast("DictConfig", OmegaConf.load(saved.path / "config.yaml"))
    config.prompts.batch_size, config.group_size = prompts, GROUP
    plan, _ = read(config)
    builder = Builder(plan, named_seed(int(config.seed), "stationarity"))
    nodes = {name: builder.build(plan.nodes[name]) for name in (*SAMPLED, "objectives", "policy")}
    tensors = saved.tensors()
    with torch.no_grad():
        for name, tensor in owned_tensors(builder.built).items():
            tensor.copy_(tensors[name])
    return nodes


def gradients(nodes):
    """From one batch: names, mean rewards ``[K]``, gradients of the expected rewards ``[K, D]``.

    REINFORCE with the mean of the group's other answers as baseline: without bias.
    """
    batch = TensorDict(batch_size=[])
    for name in SAMPLED:
        batch = nodes[name](batch)
    names, rewards = stack_rewards(nodes["objectives"].per_objective(batch))
    advantages = centre_rewards(rewards, batch["group_id"]) * GROUP / (GROUP - 1)
    batch = nodes["policy"](batch)
    log_probs = torch.where(batch["response_mask"], batch["log_probs"], 0.0).sum(1)
    weights = [*nodes["policy"].weights().values()]
    rows = []
    for advantage in advantages:
        expected = (advantage.to(log_probs) * log_probs).mean()
        parts = torch.autograd.grad(expected, weights, retain_graph=True)
        rows.append(torch.cat([part.flatten() for part in parts]))
    return names, rewards.mean(0), torch.stack(rows)


def measured(path, batches, prompts):
    """What one checkpoint gives."""
    nodes = built(open_checkpoint(path), prompts)
    names, returns, found = zip(*(gradients(nodes) for _ in range(batches)), strict=True)
    inner = products(torch.stack(found))
    gram = unbiased_gram(inner)
    weights = weights_of(gram)
    return {
        "batches": batches,
        "answers": batches * prompts * GROUP,
        "names": names[0],
        "returns": torch.stack(returns).mean(0).tolist(),
        "gram": gram.tolist(),
        "weights": weights.tolist(),
        "least": least_square(inner),
        "noise": noise_of(inner, weights),
    }


def of_run(run, *size):
    """What each checkpoint of a run gives, by its steps; measured once."""
    file = run.directory / "stationarity.json"
    found = json.loads(file.read_text()) if file.is_file() else {}
    for path in sorted((run.directory / "checkpoints").glob("step-*")):
        if path.name not in found:
            found[path.name] = measured(path, *size)
            file.write_text(json.dumps(found))
    return [found[name] for name in sorted(found)]


def cell(values):
    """A mean over seeds with its 95 % interval, in thousandths."""
    got = estimate([1000 * value for value in values])
    ends = "" if got.low is None else f" ({got.low:.2f} to {got.high:.2f})"
    return f"{got.mean:.2f}{ends}"


def line(name, found, before):
    """One row of the table, of what each seed gave; ``before`` training as well."""
    returns = zip(*(one["returns"] for one in found.values()), strict=True)
    cells = [name, str(len(found)), " ".join(f"{mean(each):.2f}" for each in returns)]
    places = [(0, 0), (1, 1), (0, 1)]
    cells += [cell([one["gram"][k][j] for one in found.values()]) for k, j in places]
    cells += [cell([one[key] for one in found.values()]) for key in ("least", "noise")]
    fallen = [found[seed]["least"] - before[seed]["least"] for seed in found if seed in before]
    return "| " + " | ".join([*cells, cell(fallen) if fallen else "-"]) + " |"


def table(folders, *size):
    """Markdown: before training (of the runs that kept that checkpoint) and at the end."""
    ends, before = defaultdict(dict), {}
    for folder in folders:
        for run in find_runs([str(folder)]):
            if run.state == "finished":
                *first, ends[folder.parent.name][run.seed] = of_run(run, *size)
                if first:
                    before[run.seed] = first[0]
    one, other = next(iter(before.values()))["names"]
    head = ["method", "seeds", f"{one}, {other}", f"square of {one}'s gradient"]
    head += [f"square of {other}'s", "product", "least square", "noise", "less that before"]
    rows = [line("before", before, {})]
    rows += [line(name, found, before) for name, found in ends.items()]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *rows])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--prompts", type=int, default=16, help="of a batch, each answered 8 times")
    given = parser.parse_args()
    if given.batches < 4:
        parser.error(f"--batches is {given.batches}: must be at least 4, two in each half")
    places = sorted(given.runs.glob("*/alike"))
    print("Squares in thousandths.\n\n" + table(places, given.batches, given.prompts))
