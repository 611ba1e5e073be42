"""A policy that writes what it is told to."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch.utils.hooks import RemovableHandle

from rlcomp.model.language_model import LanguageModel
from rlcomp.text.tokenizer import encode_all, encode_prompts

Answers = Mapping[str, Sequence[str]]


class _Script:
    """Bends a model's logits; the answers to a prompt must begin with the same token."""

    def __init__(self, policy: LanguageModel, answers: Answers) -> None:
        eos = policy.tokenizer.eos_token_id
        self.texts = {
            tuple(encode_prompts(policy.tokenizer, [prompt])[0]): [
                [*ids, eos] for ids in encode_all(policy.tokenizer, texts)
            ]
            for prompt, texts in answers.items()
        }
        self.asked: list[list[list[int]]] = []
        self.step = 0

    def __call__(self, model: object, args: object, kwargs: dict[str, Any], output: Any) -> Any:
        ids = kwargs["input_ids"]
        if kwargs.get("past_key_values") is None:
            # Padded on the left, with an id that no prompt holds.
            self.asked = [self.texts[tuple(t for t in row if t)] for row in ids.tolist()]
            self.step = -1
        self.step += 1
        times = len(ids) // len(self.asked)
        answers = [texts[n % len(texts)] for texts in self.asked for n in range(times)]
        wanted = torch.tensor([text[min(self.step, len(text) - 1)] for text in answers])
        output.logits = torch.full_like(output.logits, -100.0)
        output.logits[:, -1, :].scatter_(1, wanted[:, None], 0.0)
        return output


@pytest.fixture
def scripted() -> Callable[[LanguageModel, Answers], RemovableHandle]:
    """Make a policy give the answers to a prompt in turn, until the handle is removed."""

    def script(policy: LanguageModel, answers: Answers) -> RemovableHandle:
        hook: Any = _Script(policy, answers)
        return policy.model.register_forward_hook(hook, with_kwargs=True)

    return script
