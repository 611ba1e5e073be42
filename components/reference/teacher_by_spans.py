"""Teacher with another tokenizer, compared over common spans of text."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.functional.span_alignment import span_log_ratio
from rlcomp.interfaces.policy import Policy
from rlcomp.metrics import record, record_total
from rlcomp.text.answers import encode_answers
from rlcomp.text.token_bytes import token_bytes


class TeacherBySpans(Component):
    """Teacher with another tokenizer, by aligned spans of text.

    The text is cut where a token ends in both tokenizations. ``ref_log_probs`` is ``log pi(a_t)``
    plus, at the last token of each span, ``sum_S log pi_T - sum_S log pi``. So
    ``advantage=distilled`` reads the difference of the spans. The end of a response is its own
    span; a response that was cut off has none. If the sampled tokens differ from the bytes of the
    decoded text, only spans before that place are compared.

    Reads ``tokens``, ``response_mask``, ``rollout_log_probs`` ``[B, T]``, ``prompt``, ``response``
    ``[B, W]``. Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient.

    Records ``teacher/tokens``, the teacher's scored tokens, and ``kl/reference``, the mean of
    ``rollout_log_probs - ref_log_probs`` per token.

    Args:
        policy: the student.
        teacher: the teacher, with its own tokenizer; reads the prompt as plain text.

    Source:
        Boizard et al. 2024 (universal logit distillation across tokenizers), arXiv:2402.12030, on
        the problem; the sum over common spans is the chain rule.
    """

    reads = (
        "tokens",
        "response_mask",
        "rollout_log_probs",
        "prompt",
        "response",
    )
    writes = ("ref_log_probs",)

    policy: Policy
    teacher: Policy

    def __init__(self, *, policy: Policy, teacher: Policy) -> None:
        super().__init__()
        # Not submodules: the nodes of the models own the tensors.
        object.__setattr__(self, "policy", policy)
        object.__setattr__(self, "teacher", teacher)
        self._own, self._theirs = (token_bytes(each.tokenizer) for each in (policy, teacher))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the texts and write the spans' differences to the student's tokens."""
        mask, own = batch["response_mask"], batch["rollout_log_probs"].detach()
        texts = decode_texts(batch["response"])
        rows = encode_answers(self.teacher, decode_texts(batch["prompt"]), texts)
        with torch.no_grad():
            scored = self.teacher.log_probs(rows).to(own)
        reference = torch.where(mask, own, 0.0)
        for row, text in enumerate(texts):
            there, theirs = mask[row], rows["response_mask"][row]
            written = text.encode()
            reference[row, there] += span_log_ratio(
                own[row, there],
                _ends(self._own, batch["tokens"][row][there], written),
                scored[row, theirs],
                _ends(self._theirs, rows["tokens"][row][theirs], written),
                len(written) + 1,
            )
        batch["ref_log_probs"] = reference
        record_total("teacher/tokens", float(rows["response_mask"].sum()))
        record("kl/reference", own - reference, where=mask)
        return batch


def _ends(table: list[bytes], tokens: Tensor, text: bytes) -> list[int]:
    """Return the end of each token in a text; the end of the response is one byte after it.

    From the first token on that differs from the text, all ends lie beyond both texts.
    """
    ends, place = list[int](), 0
    for token in tokens.tolist():
        piece = table[token]
        if place <= len(text) and text.startswith(piece, place):
            place = place + len(piece) if piece else len(text) + 1
        else:
            place = len(text) + 2
        ends.append(place)
    return ends
