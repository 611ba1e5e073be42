"""Reward of a sequence classifier."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.interfaces.reward import write_reward
from rlcomp.model.text_classifier import classify, label_index, load_classifier


class Learned(Component):
    """Reward-model score: an output of a sequence classifier for prompt + response.

    It is the raw output: the scalar of a reward model, or the logit of a classifier. A response is
    ``correct`` if it is above 0. An empty text has no valid reward.

    Reads ``prompt``, ``response`` (``[B, W]`` uint8 texts). Writes ``reward``, float32 ``[B]``,
    ``rewards`` (``{learned: [B]}``), ``correct`` and ``reward_valid`` (bool ``[B]``). Records the
    metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        path: a folder with the model and its tokenizer, written by ``save_pretrained``
            (:func:`rlcomp.model.text_classifier.train_classifier` trains one).
        label: name of the output in the model's ``id2label``; None if there is only one.
        batch_size: texts per forward pass.

    Raises:
        DataError: there is no such model in the folder.
        ConfigError: the model has no such label, or it has several and none is named.
    """

    reads = ("prompt", "response")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    is_free = True

    def __init__(
        self, *, path: NonEmptyText, label: str | None = None, batch_size: PositiveInt = 32
    ) -> None:
        super().__init__()
        self.path = path
        self.label = label
        self.batch_size = batch_size
        self.model, self.tokenizer = load_classifier(path)
        self._output = label_index(self.model, label, path)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row."""
        pairs = zip(decode_texts(batch["prompt"]), decode_texts(batch["response"]), strict=True)
        texts = [prompt + response for prompt, response in pairs]
        rows = [row for row, text in enumerate(texts) if text]
        reward = torch.zeros(len(texts))
        # Sort texts by length to save padding. The model is in evaluation mode.
        rows.sort(key=lambda row: len(texts[row]))
        with torch.no_grad():
            for start in range(0, len(rows), self.batch_size):
                some = rows[start : start + self.batch_size]
                outputs = classify(self.model, self.tokenizer, [texts[row] for row in some])
                reward[some] = outputs[:, self._output].cpu()
        reward = reward.to(batch["response"].device)
        valid = torch.tensor([bool(text) for text in texts], device=reward.device)
        return write_reward(batch, reward, {"learned": reward}, reward > 0, valid, decides=False)
