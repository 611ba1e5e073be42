"""Teacher with another tokenizer: log-probs compared over common spans of text."""

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

    Both texts are cut where a token ends in both. ``ref_log_probs`` is ``log pi(a_t)`` plus, at the
    last token of each span, ``sum_S log pi_T - sum_S log pi``: what ``advantage=distilled`` reads
    of it is the difference of the spans. The end of a response is a span of its own; one that was
    cut off has none. Where the sampled tokens are not the bytes of the decoded text, only spans
    before that place are compared.

    Reads ``tokens``, ``response_mask``, ``rollout_log_probs`` ``[B, T]``, ``prompt``, ``response``
    ``[B, W]``. Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient.

    Records ``teacher/tokens``, the teacher's tokens it scored, and ``kl/reference``, mean of
    ``rollout_log_probs - ref_log_probs`` a token.

    Args:
        policy: the student.
        teacher: with a tokenizer of its own; reads the prompt as plain text.

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
        # Past nn.Module: their tensors belong to the nodes that they are.
        object.__setattr__(self, "policy", policy)
        object.__setattr__(self, "teacher", teacher)
        self._own, self._theirs = (token_bytes(each.tokenizer) for each in (policy, teacher))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the texts, and put the spans' differences at the student's tokens."""
        mask, own = batch["response_mask"], batch["rollout_log_probs"].detach()
        texts = decode_texts(batch["response"])
        rows = encode_answers(self.teacher, decode_texts(batch["prompt"]), texts)
        with torch.no_grad():
            scored = self.teacher.log_probs(rows).to(own)
        found = torch.where(mask, own, 0.0)
        for row, text in enumerate(texts):
            there, theirs = mask[row], rows["response_mask"][row]
            written = text.encode()
            found[row, there] += span_log_ratio(
                own[row, there],
                _ends(self._own, batch["tokens"][row][there], written),
                scored[row, theirs],
                _ends(self._theirs, rows["tokens"][row][theirs], written),
                len(written) + 1,
            )
        batch["ref_log_probs"] = found
        record_total("teacher/tokens", float(rows["response_mask"].sum()))
        record("kl/reference", own - found, where=mask)
        return batch


def _ends(table: list[bytes], tokens: Tensor, text: bytes) -> list[int]:
    """Where each token ends in a text, the end of the response one byte behind it.

    From the first token on that is not what stands there, all end beyond both.
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
