"""A chat policy from the command line: SFT on two turns, GRPO, and asked from its checkpoint."""

import json
import re

import pytest
import torch
from tokenizers import AddedToken
from transformers import AutoTokenizer, GenerationConfig

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.cli.export import export
from rlcomp.cli.sample import sample
from rlcomp.config.compose import compose_config
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import CheckpointError
from rlcomp.model.load_model import load_policy, load_prompt_format
from rlcomp.text.chat import ChatPrompt
from rlcomp.text.prompt import TextPrompt
from rlcomp.text.tokenizer import byte_tokenizer

# ChatML.
TEMPLATE = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHORT = (
    "context_length=128",
    "task.held_out=0.4",
    "max_new_tokens=3",
    "phases.warm_start.steps=2",
    "phases.rl.steps=2",
    "prompts.batch_size=4",
    "rollout.group_size=2",
    "evaluation.num_prompts=4",
    "evaluation.samples_per_prompt=1",
    "demonstrations.batch_size=4",
    "learner.num_minibatches=1",
)


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    where = tmp_path_factory.mktemp("chat")
    tokenizer = byte_tokenizer()
    marks = [AddedToken(text, normalized=False) for text in ("<|im_start|>", "<|im_end|>")]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(where / "tokenizer")
    with (where / "chat.jsonl").open("w") as file:
        for a in range(5):
            for b in range(5):
                talk = [("user", f"{a}?"), ("assistant", f"{a}"), ("user", f"plus {b}?")]
                talk.append(("assistant", f"{a + b}"))
                messages = [{"role": role, "content": text} for role, text in talk]
                file.write(json.dumps({"messages": messages}) + "\n")
    return where


@pytest.fixture(scope="module")
def words(given):
    return (
        "recipe=grpo",
        "task=file",
        f"task.path={given / 'chat.jsonl'}",
        "tokenizer=pretrained",
        f"tokenizer.path={given / 'tokenizer'}",
        *SHORT,
    )


def test_sft_and_grpo_of_a_chat_policy(rlcomp, words, tmp_path):
    run = tmp_path / "run"

    code = rlcomp(*words, "prompt=chat", "prompt.system=Add.", f"directory={run}")

    assert code == 0
    samples = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    assert len(samples) == 8  # four prompts behind each phase
    for row in samples:
        before, _, after = row["prompt"].partition("<|im_start|>user\nplus ")
        a = int(before.removesuffix("<|im_end|>\n")[-1])
        assert before == (
            f"<|im_start|>system\nAdd.<|im_end|>\n<|im_start|>user\n{a}?<|im_end|>\n"
            f"<|im_start|>assistant\n{a}<|im_end|>\n"
        )
        assert after == f"{int(row['answer']) - a}?<|im_end|>\n<|im_start|>assistant\n"
        assert "<|im" not in row["response"]

    policy, config = load_policy(run)
    file = open_checkpoint(run).path / "config.yaml"
    prompt = load_prompt_format(config, file, policy.tokenizer)
    asked = "<|im_start|>system\nAdd.<|im_end|>\n<|im_start|>user\n1?<|im_end|>\n"
    assert prompt.render(["1?"], [{}]) == [f"{asked}<|im_start|>assistant\n"]
    assert isinstance(prompt, ChatPrompt)
    assert_asked_in_the_same_way_outside(run, policy, f"{asked}<|im_start|>assistant\n", tmp_path)


def assert_asked_in_the_same_way_outside(run, policy, asked, place):
    """By ``rlcomp-sample`` and, with a system message, from the exported folder."""
    read = []
    for piece in re.split(r"(<\|im_(?:start|end)\|>)", asked):
        mark = policy.tokenizer.convert_tokens_to_ids(piece) if piece[:2] == "<|" else None
        read += [mark] if mark else policy.tokenizer(piece)["input_ids"]
    rows = policy.generate(
        [read],
        group_size=1,
        max_new_tokens=6,
        decoding=Decoding(temperature=0),
        generator=torch.Generator(),
    )
    wanted = policy.tokenizer.decode(
        rows["tokens"][rows["response_mask"]], skip_special_tokens=True
    )
    ((ours,),) = sample(
        checkpoint=run, prompts=["1?"], n=1, temperature=0.0, max_new_tokens=6, seed=0
    )
    assert ours == wanted

    export(run=run, directory=place / "out")
    tokenizer = AutoTokenizer.from_pretrained(place / "out")
    messages = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1?"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == asked
    told = GenerationConfig.from_pretrained(place / "out")
    assert told.eos_token_id == [tokenizer.convert_tokens_to_ids("<|im_end|>")]


def test_a_run_that_says_nothing_of_prompts_was_asked_in_texts(given):
    from omegaconf import OmegaConf

    tokenizer = byte_tokenizer()

    prompt = load_prompt_format(OmegaConf.create({"seed": 0}), given / "config.yaml", tokenizer)

    assert isinstance(prompt, TextPrompt)
    assert prompt.tokenizer is tokenizer


def test_a_prompt_format_that_is_no_part_of_rlcomp_is_not_built_for_a_stranger(given, words):
    config = compose_config([*words, f"directory={given}"])
    config.prompt = {"_target_": "builtins.dict"}

    with pytest.raises(CheckpointError, match=r"prompt\._target_ builtins\.dict"):
        load_prompt_format(config, given / "config.yaml", byte_tokenizer())
    assert load_prompt_format(config, given / "config.yaml", byte_tokenizer(), trust=True) == {}


def test_conversations_in_a_run_of_texts_end_with_what_takes_them(rlcomp, words, tmp_path, capsys):
    assert rlcomp(*words, f"directory={tmp_path / 'run'}") != 0
    assert "use prompt=chat" in capsys.readouterr().err.replace("\n", " ")


def test_a_tokenizer_without_a_template_ends_with_the_remedy(rlcomp, words, tmp_path, capsys):
    changed = [word for word in words if not word.startswith("tokenizer")]

    code = rlcomp(*changed, "prompt=chat", "tokenizer=byte", f"directory={tmp_path / 'run'}")

    assert code != 0
    assert "prompt.template=chat.jinja" in capsys.readouterr().err.replace("\n", " ")
