"""Peers of ``gpu.py``: transformers' generate, and TRL if it is installed."""

import copy
import importlib.util
import itertools
import statistics
import time

import torch
from gpu_models import DEVICE, peak_gib, seconds, synchronize
from measure import row

# Rows in one forward and backward pass of TRL.
ROWS = 16


def generate(model, workload, prompts):
    """Return the seconds, tokens and decode steps of transformers' generate, in bfloat16."""
    peer = copy.deepcopy(model).bfloat16()
    rows = [prompt for prompt in prompts for _ in range(workload.group_size)]
    ids = torch.tensor(rows, device=DEVICE)  # all prompts are equally long
    pad, answers = 0, []

    def sample(max_new_tokens):
        output = peer.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=max_new_tokens,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            pad_token_id=pad,
            eos_token_id=1,
        )
        answers.append(output[:, ids.shape[1] :])

    sample(4)
    torch.manual_seed(0)
    spent = seconds(lambda: sample(workload.max_new_tokens))
    return spent, int((answers[-1] != pad).sum()), answers[-1].shape[1]


def trainer(model, tokenizer, workload, **changes):
    """Return TRL's trainer: on a GPU in its default precision; each prompt repeats one word."""
    from peer_trl import trainer_of

    words = [f"{tokenizer.convert_ids_to_tokens(2 + n)}" for n in range(workload.prompts)]
    between = " " if len(tokenizer) > 100 else ""
    texts = [between.join([word] * workload.longest) for word in words]
    return trainer_of(model, tokenizer, texts, workload, half=DEVICE.type == "cuda", **changes)


def update_by_trl(model, tokenizer, workload, batch):
    """Describe TRL's loss and backward pass in words: seconds, tokens a second, peak memory."""
    if importlib.util.find_spec("trl") is None:
        return "not installed"
    from peer_trl import inputs_of

    peer = trainer(copy.deepcopy(model), tokenizer, workload)
    inputs = inputs_of(batch, tokenizer.pad_token_id)
    peer.current_gradient_accumulation_steps = 1
    peer.model.train()

    def step(rows):
        for start in range(0, rows, ROWS):
            rows_of_pass = slice(start, start + ROWS)
            part = {k: v[rows_of_pass] if v.dim() else v for k, v in inputs.items()}
            with peer.compute_loss_context_manager():
                loss = peer.compute_loss(peer.model, part)
            loss.backward()

    step(1)
    peak_gib(reset=True)
    spent = seconds(lambda: step(len(batch)))
    answers = int(batch["response_mask"].sum())
    peak = peak_gib()
    memory = "" if peak is None else f", peak {peak:.1f} GiB"
    return f"{spent:.2f} s, {answers / spent:.0f} answer tokens/s{memory}"


def train(name, model_of, workload, tokenizer, steps):
    """Return the row of whole GRPO steps by TRL."""
    if importlib.util.find_spec("trl") is None:
        return {"row": name, "met": None, "note": "trl: not installed"}
    from transformers import TrainerCallback

    ends = []

    class Clock(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            synchronize()
            means = peer._metrics["train"]["completions/mean_length"]
            ends.append((time.perf_counter(), means[-1]))

    peer = trainer(
        model_of(workload, tokenizer), tokenizer, workload, steps=steps, callbacks=[Clock()]
    )
    peak_gib(reset=True)
    peer.train()
    rows = workload.prompts * workload.group_size
    tokens = statistics.mean(mean for _, mean in ends[1:]) * rows
    step_seconds = statistics.median(b[0] - a[0] for a, b in itertools.pairwise(ends))
    figures = {"s": f"{step_seconds:.2f}"}
    figures["peak GiB"] = "-" if peak_gib() is None else f"{peak_gib():.1f}"
    return row(name, tokens / step_seconds, goal=None, unit="tokens/s", figures=figures)
