import pytest
import torch
from tensordict import TensorDict

from components.sampler.demonstrations import Demonstrations
from components.task.addition import Addition
from rlcomp.batch import decode_texts
from rlcomp.data import is_held_out
from rlcomp.errors import ConfigError


class Bytes:
    """Encodes texts as their bytes, EOS as 1; as a language model would."""

    def encode(self, prompts: list[str], responses: list[str]) -> TensorDict:
        texts = [p.encode() + r.encode() + b"\1" for p, r in zip(prompts, responses, strict=True)]
        width = max(map(len, texts))
        tokens = torch.tensor([list(text.ljust(width, b"\0")) for text in texts])
        starts = torch.tensor([[len(prompt)] for prompt in prompts])
        filled = tokens > 0
        answers = filled & (torch.arange(width) >= starts)
        return TensorDict(
            {"tokens": tokens, "attention_mask": filled, "response_mask": answers},
            batch_size=[len(texts)],
        )


def demonstrations(**changes) -> Demonstrations:
    return Demonstrations(**{"task": Addition(), "policy": Bytes(), "batch_size": 5, **changes})


def test_a_row_is_prompt_demonstration_and_eos_with_the_mask_on_what_is_imitated():
    batch = demonstrations()()

    for row, prompt in zip(batch, decode_texts(batch["prompt"]), strict=True):
        left, right = map(int, prompt.removesuffix("=").split("+"))
        imitated = bytes(row["tokens"][row["response_mask"]].tolist())
        whole = bytes(row["tokens"][row["attention_mask"]].tolist())
        assert imitated == f"{left + right}\1".encode()
        assert whole == prompt.encode() + imitated


def test_a_batch_holds_what_is_declared_and_nothing_else():
    draw = demonstrations()

    assert set(draw().keys()) == set(draw.writes)


def test_held_out_prompts_are_not_shown():
    draw = demonstrations(task=Addition(digits=1, held_out=0.5), batch_size=20)

    shown = [text for _ in range(10) for text in decode_texts(draw()["prompt"])]

    assert not any(is_held_out(prompt, 0.5) for prompt in shown)


def test_a_resumed_sampler_goes_on_exactly():
    walked, resumed = demonstrations(), demonstrations()
    walked()

    resumed.load_run_state(walked.run_state())

    assert torch.equal(resumed()["tokens"], walked()["tokens"])


def test_a_task_with_too_few_training_examples_is_refused():
    with pytest.raises(ConfigError, match="batch_size is 101"):
        demonstrations(task=Addition(digits=1), batch_size=101)
