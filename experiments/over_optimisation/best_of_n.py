"""Best-of-n by reward models of few and many pairs: ``best_of_n.py RESULTS.jsonl 0 1``."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from functools import partial
from itertools import islice, pairwise
from pathlib import Path

import torch
from torch.optim import AdamW

from components import Demonstrations, Learner, SFTLoss, Sorting, TokenMean
from rlcomp import Decoding, LanguageModel, Make, Phase, Schedule, answer_prompts, causal_lm
from rlcomp import character_tokenizer, decode_texts, run_phases
from rlcomp.functional.best_of import best_of_n, best_of_n_kl
from rlcomp.functional.reward_model import combine_scores
from rlcomp.functional.reward_model import bradley_terry_loss
from rlcomp.model.scorer import Scorer

PAIRS, MEMBERS = (512, 2048, 8192), 4
# Of a noisy rater: the difference of gold at which the better answer leads in .73 of pairs.
TEMPERATURE = 0.15
LONGEST = 11


def gold(prompt, response):
    """``(kept - extra) / 6 + (up - down) / 5 - surplus / 10``.

    ``kept`` of the prompt's six digits are in the answer, ``extra`` of the answer's are not in the
    prompt; ``up`` of its neighbours ascend or are equal, ``down`` descend; ``surplus`` of its
    digits are too many.
    """
    asked = Counter(prompt.strip(">"))
    kept = (asked & Counter(response)).total()
    up = sum(x <= y for x, y in pairwise(response))
    down = max(len(response) - 1, 0) - up
    surplus = max(len(response) - asked.total(), 0)
    return (2 * kept - len(response)) / 6 + (up - down) / 5 - surplus / 10


def base_policy(make, task, steps):
    """A policy that has seen a few demonstrations of sorting."""
    tokenizer = character_tokenizer(characters="0123456789+-*/=()>: ,?")
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "context_length": 32}
    size = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 96, **heads}
    model = make("model", causal_lm, tokenizer=tokenizer, **size)
    policy = make("policy", LanguageModel, model=model, tokenizer=tokenizer, decoding=Decoding())
    data = {"task": task, "tokenizer": tokenizer, "context_length": 32, "batch_size": 128}
    supervised = {"model": policy, "losses": {"sft": SFTLoss(reduction=TokenMean())}}
    stages = [make("demonstrations", Demonstrations, **data)]
    stages += [make("sft", Learner, optimizer=partial(AdamW, lr=2e-3), **supervised)]
    run_phases({"warm_start": Phase(steps, stages)}, nodes=make.nodes, seed=make.seed, trackers=[])
    return policy


def answered(policy, prompts, group_size, generator):
    """Sampled answers and their gold."""
    sizes = {"group_size": group_size, "max_new_tokens": LONGEST}
    with torch.no_grad():
        rows = answer_prompts(policy, prompts, **sizes, generator=generator)
    texts = zip(decode_texts(rows["prompt"]), decode_texts(rows["response"]), strict=True)
    return rows, torch.tensor([gold(*text) for text in texts], dtype=torch.float64)


def reward_model(policy, rows, first, seed, batch=32):
    """A scorer of pairs, each seen once: rows 2k and 2k + 1, ``first`` where raters like 2k."""
    torch.manual_seed(seed)
    scorer = Scorer(policy=policy)
    scorer.begin_phase()
    optimizer = AdamW(scorer.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0)
    steps = len(first) // batch
    schedule = Schedule(name="linear", warmup=0.0667, final=0.1)
    for step in range(steps):
        at = slice(step * batch, (step + 1) * batch)
        score = scorer.scores(rows[2 * at.start : 2 * at.stop]).view(-1, 2)
        liked = torch.where(first[at], score[:, 0], score[:, 1])
        loss = bradley_terry_loss(liked, score.sum(1) - liked).mean()
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * schedule((step + 1) / steps)
        optimizer.step()
    return scorer


def scored(scorers, rows, where):
    """Scores ``[members, P, N]``; equal answers are scored once, so that they are equal."""
    first = torch.full((int(where.max()) + 1,), where.numel())
    first.scatter_reduce_(0, where.flatten(), torch.arange(where.numel()), "amin")
    with torch.no_grad():
        every = torch.stack([scorer.scores(rows[first]).double() for scorer in scorers])[:, where]
    # Each in its standard deviations, or the widest one would decide.
    return (every - every.mean((1, 2), True)) / every.std((1, 2), keepdim=True)


def agreement(proxy, value):
    """Of pairs of answers to a prompt, how often raters and the proxy agree, in expectation."""
    left, right = proxy[:, ::2], proxy[:, 1::2]
    better = torch.sigmoid((value[:, ::2] - value[:, 1::2]) / TEMPERATURE)
    return float(torch.where(left > right, better, 1 - better)[left != right].mean())


def curves(proxy, value):
    """Gold, proxy and KL by n: means over prompts."""
    numbers = range(1, proxy.shape[1] + 1)
    found = {
        "gold": [best_of_n(proxy, value, n) for n in numbers],
        "proxy": [best_of_n(proxy, proxy, n) for n in numbers],
        "kl": [best_of_n_kl(proxy, n) for n in numbers],
    }
    return {key: [round(float(x.mean()), 4) for x in each] for key, each in found.items()}


def of_seed(seed, given):
    """The rows of results of a seed: each number of pairs, with one and with four members."""
    began, make, task = time.process_time(), Make(seed), Sorting(length=6, held_out=0.1)
    policy = base_policy(make, task, given.steps)
    generator = torch.Generator().manual_seed(seed)
    order = (task.example(int(i)) for i in torch.randperm(len(task), generator=generator))
    split = [(e.prompt, e.is_held_out(task.held_out)) for e in islice(order, given.examples)]
    training = [prompt for prompt, held_out in split if not held_out][: max(given.pairs)]
    held_out = [prompt for prompt, held_out in split if held_out][: given.prompts]
    compared, value = answered(policy, training, 2, generator)
    likes = torch.sigmoid((value[::2] - value[1::2]) / TEMPERATURE)
    first = torch.rand(len(likes), generator=generator, dtype=torch.float64) < likes
    rows, value = answered(policy, held_out, given.draws, generator)
    where = rows["tokens"].unique(dim=0, return_inverse=True)[1].view(len(held_out), -1)
    value = value.view_as(where)
    for pairs in given.pairs:
        some = compared[: 2 * pairs], first[:pairs]
        scorers = [reward_model(policy, *some, 100 * seed + each) for each in range(MEMBERS)]
        normal = scored(scorers, rows, where)
        for name, proxy in {"one": normal[0], "four": combine_scores(normal, "min", 0.0)}.items():
            head = {"pairs": pairs, "members": name, "seed": seed}
            found = {**head, "agreement": round(agreement(proxy, value), 4)}
            yield {**found, **curves(proxy, value), "cpu": round(time.process_time() - began, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--pairs", type=int, nargs="+", default=PAIRS)
    parser.add_argument("--steps", type=int, default=100, help="of fine-tuning of the base")
    parser.add_argument("--examples", type=int, default=10_000, help="training and held out")
    parser.add_argument("--prompts", type=int, default=96, help="of the evaluation")
    parser.add_argument("--draws", type=int, default=128, help="answers to each of them")
    given = parser.parse_args()
    with given.results.open("w") as file:
        for seed in given.seeds:
            file.writelines(f"{json.dumps(row)}\n" for row in of_seed(seed, given))
            file.flush()


if __name__ == "__main__":
    main()
