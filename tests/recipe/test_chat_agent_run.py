"""An agent that is spoken to in a chat: a whole run from a folder, and what its rows read."""

import json

import pytest
import torch
from tokenizers import AddedToken

from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import byte_tokenizer

# ChatML.
TEMPLATE = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHORT = (
    "context_length=256",
    "max_new_tokens=6",
    "phases.warm_start.steps=2",
    "phases.rl.steps=2",
    "prompts.batch_size=4",
    "group_size=4",
    "evaluation.num_prompts=4",
    "evaluation.samples_per_prompt=1",
    "demonstrations.batch_size=4",
    "+evaluator@rollouts=rollouts",
    "+phases.rl.every.rollouts=1",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of bytes whose turns end with a token of its chats; it often asks for a ``p``."""
    where = tmp_path_factory.mktemp("chat")
    tokenizer = byte_tokenizer()
    marks = [AddedToken(text, normalized=False) for text in ("<|im_start|>", "<|im_end|>")]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.chat_template = TEMPLATE
    model = tiny_model(tokenizer, context_length=256)
    asked = tokenizer("<p>")["input_ids"]
    with torch.no_grad():  # "<p>" behind a line end; what is read decides what is written
        for before, after in zip([tokenizer("\n")["input_ids"][0], *asked], asked, strict=False):
            model.model.embed_tokens.weight[before] = torch.randn(16)
            model.lm_head.weight[after] = 40.0 * model.model.embed_tokens.weight[before]
    model.save_pretrained(where)
    tokenizer.save_pretrained(where)
    return where


@pytest.mark.parametrize("role", ["user", pytest.param("tool", marks=pytest.mark.slow)])
def test_an_agent_is_trained_in_a_chat(role, folder, rlcomp, tmp_path):
    run = tmp_path / "run"

    code = rlcomp(
        "recipe=agent",
        f"base={folder}",
        "prompt=chat",
        f"prompt.observations={role}",
        *SHORT,
        f"directory={run}",
    )

    assert code == 0
    samples = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    logged = [sample for sample in samples if "tokens" in sample]
    assert len(logged) == 2 * 2 * 4  # two steps, two groups of four
    several = [sample for sample in logged if max(sample["turn"]) > 0]
    assert several
    for sample in several:
        said = [""] * (max(sample["turn"]) + 1)
        told = ""
        for token, trained, turn in zip(
            sample["tokens"], sample["trained"], sample["turn"], strict=True
        ):
            assert trained == (turn >= 0)
            if trained:
                said[turn] += token
            else:
                told += token
        # All turns but the last asked, and so ended by a text: the frame closes them.
        frame = f"<|im_end|>\n<|im_start|>{role}\n", "|<|im_end|>\n<|im_start|>assistant\n"
        parts = told.split(frame[1])
        assert len(parts) == len(said)
        assert parts[-1] == ""
        assert all(part[:-1] == frame[0] and len(part[-1]) == 1 for part in parts[:-1])
        assert all(text.endswith(">") for text in said[:-1])
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    # Of each question the frame and two bytes, at least.
    observed = [row["episode/observed"] for row in rows if "episode/observed" in row]
    assert min(observed) > 0
