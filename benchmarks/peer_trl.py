"""TRL's trainer as the peer, and our batch in TRL's layout. Needs the extra ``bench``."""

import os
import tempfile

import torch
from workloads import brevity

os.environ.setdefault("HF_HUB_OFFLINE", "1")
NAME = "trl"


def trainer_of(model, tokenizer, texts, workload, *, steps=1, callbacks=(), half=False):
    """Return TRL's GRPOTrainer, in float32 and without gradient checkpointing, as rlcomp runs.

    With ``half``, on a GPU, it has TRL's defaults, bfloat16 and checkpointing, and 16 rows a pass.

    The learning rate is too small to move the weights: every step samples answers of the same
    lengths. Neither side has dropout.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    rows = workload.prompts * workload.group_size
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=not half,
        bf16=half,
        gradient_checkpointing=half,
        per_device_train_batch_size=min(rows, 16) if half else rows,
        gradient_accumulation_steps=-(-rows // 16) if half else 1,
        generation_batch_size=rows,
        num_generations=workload.group_size,
        max_completion_length=workload.max_new_tokens,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        beta=workload.kl,
        loss_type="grpo",
        learning_rate=1e-9,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        max_steps=steps,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    # TRL loads the reference model from the path in the model's config.
    with tempfile.TemporaryDirectory() as folder:
        if workload.kl:
            model.save_pretrained(folder)
            model.config._name_or_path = folder
        return GRPOTrainer(
            model=model,
            reward_funcs=_reward,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": texts}),
            processing_class=tokenizer,
            callbacks=list(callbacks),
        )


def _reward(completions, **_):
    return [brevity(text) for text in completions]


def inputs_of(batch, pad):
    """Return our batch in TRL's layout: prompts padded on the left, answers on the right."""
    prompts, answers = [], []
    for row in batch:
        prompts.append(row["tokens"][row["attention_mask"] & ~row["response_mask"]])
        answers.append(row["tokens"][row["response_mask"]])
    advantages = torch.stack([row["advantage"][row["response_mask"]][0] for row in batch])
    prompt_ids, prompt_mask = _padded(prompts, pad, "left")
    completion_ids, completion_mask = _padded(answers, pad, "right")
    return {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": completion_ids,
        "completion_mask": completion_mask,
        "advantages": advantages,
        "num_items_in_batch": completion_mask.sum(),
    }


def score_inputs(inputs):
    """Return the arguments of TRL's log-prob forward."""
    return {
        "input_ids": torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1),
        "attention_mask": torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1),
        "logits_to_keep": inputs["completion_ids"].shape[1],
    }


def _padded(rows, value, side):
    pad = torch.nn.utils.rnn.pad_sequence
    masks = [torch.ones_like(row) for row in rows]
    return pad(rows, True, value, side), pad(masks, True, 0, side)
