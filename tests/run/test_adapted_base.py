"""Adapters on a base in fewer bits: trained in float32, and gone on with to the bit."""

import pytest
import torch

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

SMALL = [
    "phases.warm_start.steps=1",
    "phases.rl.steps=2",
    "phases.rl.every={checkpoint: 1}",
    "checkpoint.keep=9",
    "demonstrations.batch_size=4",
    "evaluation.num_prompts=4",
    "prompts.batch_size=4",
    "rollout.group_size=4",
    "reward=brevity",
    "reward.longest=8",
    "reference=adapter_off",
    "device=cpu",
]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    tokenizer = character_tokenizer(characters="0123456789+-*/=()>: ,?")
    size = {"context_length": 32, "hidden_size": 64, "intermediate_size": 64}
    tiny_model(tokenizer, seed=1, **size).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run(base, directory, *words):
    config = compose_config([*SMALL, f"base={base}", f"directory={directory}", *words])
    launch(config, plan_of(config))
    return open_checkpoint(directory).tensors()


@pytest.mark.slow
# Of a row of one token, whose embedding needs no gradient: there is nothing to lose.
@pytest.mark.filterwarnings("ignore:bitsandbytes.*an autograd kernel was not registered")
@pytest.mark.parametrize("words", [("adapter=lora", "model.dtype=bfloat16"), ("adapter=qlora",)])
def test_a_run_is_gone_on_with_to_the_bit(words, base, tmp_path, monkeypatch):
    monkeypatch.setattr("rlcomp.model.adapters._has_gpu", lambda: True)
    whole = run(base, tmp_path / "whole", *words)
    from_there = f"resume={tmp_path}/whole/checkpoints/step-00000002"
    parts = run(base, tmp_path / "parts", *words, from_there)

    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    adapters = {name: value for name, value in whole.items() if "lora_" in name}
    assert {value.dtype for value in adapters.values()} == {torch.float32}
    assert any(value.abs().max() > 0 for name, value in adapters.items() if "lora_B" in name)
    frozen = {name: value for name, value in whole.items() if "base_layer.weight" in name}
    kinds = {value.dtype for value in frozen.values()}
    assert kinds == {torch.uint8 if "adapter=qlora" in words else torch.bfloat16}
