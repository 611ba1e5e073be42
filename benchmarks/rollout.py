"""Sampling against Hugging Face generate and our torch loop: ``python benchmarks/rollout.py S``.

DRAWS and REPEATS may follow the workload.
"""

import argparse

import torch
from measure import against, by_turns, emit
from parity import check_log_probs
from workloads import ROLLOUTS, build, sampled

from rlcomp import LanguageModel
from rlcomp.engine.engine import Engine

PEER = "transformers"
LOOP = "torch loop"
GOALS = {"S": 12.0, "L": 7.0}


def peer_generate(model, tokenizer, texts, workload, seed):
    """Generate from the same prompts by Hugging Face; return the number of tokens up to EOS."""
    torch.manual_seed(seed)
    repeated = [text for text in texts for _ in range(workload.group_size)]
    rows = tokenizer(repeated, padding=True, padding_side="left", return_tensors="pt")
    output = model.generate(
        input_ids=rows["input_ids"],
        attention_mask=rows["attention_mask"],
        max_new_tokens=workload.max_new_tokens,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return int((output[:, rows["input_ids"].shape[1] :] != tokenizer.pad_token_id).sum())


def main(name, draws, repeats):
    """Measure one workload."""
    torch.set_num_threads(1)
    workload = ROLLOUTS[name]
    tokenizer, policy, texts = build(workload)

    def ours(draw):
        return int(sampled(policy, texts, workload, draw)["response_mask"].sum())

    def peer(draw):
        return peer_generate(policy.model, tokenizer, texts, workload, draw)

    torch_policy = LanguageModel(
        model=policy.model,
        tokenizer=tokenizer,
        decoding=policy.decoding,
        engine=Engine(decode="torch"),
    )

    def loop(draw):
        return int(sampled(torch_policy, texts, workload, draw)["response_mask"].sum())

    batch = sampled(policy, texts, workload, 0)
    parity = [check_log_probs(policy, batch, batch["rollout_log_probs"])]
    timings = by_turns({"rlcomp": ours, PEER: peer, LOOP: loop}, draws, repeats)
    against_peer = against(f"rollout {name}", timings, PEER, goal=GOALS.get(name), parity=parity)
    emit([against_peer, against(f"rollout {name}, C++ against torch", timings, LOOP, goal=None)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=ROLLOUTS)
    parser.add_argument("draws", type=int, nargs="?")
    parser.add_argument("repeats", type=int, nargs="?", default=2)
    arguments = parser.parse_args()
    draws = arguments.draws or (3 if arguments.workload == "L" else 4)
    main(arguments.workload, draws, arguments.repeats)
