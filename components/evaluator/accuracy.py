"""How often answers to held-out prompts are right."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.batch import decode_texts, encode_texts
from rlcomp.check import NonNegativeInt, PositiveInt
from rlcomp.component import Component
from rlcomp.data import Task
from rlcomp.functional.pass_at_k import bootstrap_interval, pass_at_k
from rlcomp.generation.sampling import Sampling
from rlcomp.model.language_model import LanguageModel
from rlcomp.run.record import record, record_sample, recording
from rlcomp.sampling import held_out_examples


class Accuracy(Component):
    """Sampled and greedy accuracy and pass@k on held-out prompts; runs beside the training batch.

    Records ``evaluation/sampled``, ``evaluation/greedy``, ``evaluation/pass@k`` for k = 1, 2, 4,
    ... up to ``samples_per_prompt``, each with a 95 % bootstrap interval over prompts, and the
    first ``num_shown`` greedy answers as samples.

    Args:
        policy: the model that answers, with its own sampling settings and greedily.
        task: its held-out part is asked.
        reward: writes ``correct`` and ``reward_valid``.
        num_prompts: how many held-out prompts; fewer when the task has fewer.
        samples_per_prompt: sampled answers per prompt.
        max_new_tokens: longest answer, in tokens.
        num_shown: how many answers are kept to be read.
    """

    def __init__(
        self,
        *,
        policy: LanguageModel,
        task: Task,
        reward: Component,
        num_prompts: PositiveInt = 256,
        samples_per_prompt: PositiveInt = 4,
        max_new_tokens: PositiveInt,
        num_shown: NonNegativeInt = 8,
    ) -> None:
        super().__init__()
        self.policy = policy
        self.reward = reward
        self.samples_per_prompt = samples_per_prompt
        self.max_new_tokens = max_new_tokens
        self.num_shown = num_shown
        # The same prompts and the same draws at every evaluation: differences are the policy's.
        self.seed = torch.initial_seed()
        self.examples = held_out_examples(task, num_prompts, self.seed)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; the batch is not looked at."""
        greedy = self._answers(1, Sampling(temperature=0.0))
        sampled = self._answers(self.samples_per_prompt, None)
        right = sampled["correct"].cpu().view(len(self.examples), -1)
        self._record("greedy", greedy["correct"].cpu().double())
        self._record("sampled", right.double().mean(1))
        asked = torch.full((len(right),), right.shape[1])
        k = 1
        while k <= self.samples_per_prompt:
            self._record(f"pass@{k}", pass_at_k(asked, right.sum(1), k))
            k *= 2
        self._show(greedy)
        return batch

    def _answers(self, group_size: int, sampling: Sampling | None) -> TensorDict:
        answered = self.policy.generate(
            [example.prompt for example in self.examples],
            group_size=group_size,
            max_new_tokens=self.max_new_tokens,
            sampling=sampling,
            generator=torch.Generator().manual_seed(self.seed),
        )
        answers = encode_texts([example.answer for example in self.examples])
        answered["answer"] = answers.repeat_interleave(group_size, 0)
        with recording():  # the reward's own metrics are the training reward's
            return self.reward(answered)

    def _record(self, name: str, per_prompt: torch.Tensor) -> None:
        record(f"evaluation/{name}", per_prompt)
        draws = torch.Generator().manual_seed(self.seed)
        low, high = bootstrap_interval(per_prompt, level=0.95, generator=draws)
        record(f"evaluation/{name}_low", low)
        record(f"evaluation/{name}_high", high)

    def _show(self, greedy: TensorDict) -> None:
        shown = greedy[: self.num_shown]
        responses, correct = decode_texts(shown["response"]), shown["correct"].tolist()
        for example, response, right in zip(self.examples, responses, correct, strict=False):
            record_sample(
                prompt=example.prompt, response=response, answer=example.answer, correct=right
            )
