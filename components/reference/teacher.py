"""Teachers as references."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.arguments import MinLen, NonEmptyText
from rlcomp.batch import decode_columns, decode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError, DataError, nearest
from rlcomp.functional.distillation import span_log_ratio
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.reference import Reference, full_distribution_policy
from rlcomp.keys import Key
from rlcomp.metrics import record, record_total
from rlcomp.text.answers import encode_answers
from rlcomp.text.token_bytes import token_bytes


class TeacherReference(Reference):
    """Teacher as the reference policy: another node of the run with its current weights.

    The teacher may have any size. It is frozen in phases whose learners do not name it.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and if present
    ``rollout_log_probs`` ``[B, T]`` and ``sampling_mask`` ``[B, T, V/8]``, a bit for each token
    that passed the sampler's filters. Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient,
    under the teacher's decoding, and with ``full`` ``ref_log_distribution`` ``[B, T, V]``, at the
    teacher's temperature before any filter.

    Records ``teacher/tokens``, the number of response tokens that the teacher scored, and
    ``kl/reference``.

    Args:
        policy: the student.
        teacher: the model that scores the student's responses.
        full: whether the log-probs of all tokens are written too, for a divergence over the
            vocabulary, at the cost of ``B * T * V`` numbers during the whole step.

    Raises:
        ConfigError: student and teacher number their tokens differently, or ``full`` is true and
            the teacher has no ``log_distribution``.
    """

    optional: ClassVar[tuple[Key, ...]] = ("rollout_log_probs", "sampling_mask")
    writes_if: ClassVar[dict[str, tuple[Key, ...]]] = {"full": ("ref_log_distribution",)}

    teacher: Policy

    def __init__(self, *, policy: Policy, teacher: Policy, full: bool = False) -> None:
        super().__init__()
        if policy.tokenizer.get_vocab() != teacher.tokenizer.get_vocab():
            raise ConfigError(
                "reference.teacher has another tokenizer than the policy: choose a teacher with "
                "the same one, or reference=teacher_by_spans with advantage=distilled"
            )
        if full:
            full_distribution_policy("reference.teacher", teacher)
        # Not a submodule: the teacher's node owns the tensors.
        object.__setattr__(self, "teacher", teacher)
        self.full = full

    def log_probs(self, batch: TensorDict) -> Tensor:
        """Return the log-prob of each response token under the teacher."""
        # Recorded expert routes belong to the student's weights; the teacher takes its own.
        return self.teacher.log_probs(batch.exclude("routed_experts"))

    def log_distribution(self, batch: TensorDict) -> Tensor:
        """Return the log-probs of all tokens under the teacher."""
        teacher = full_distribution_policy("reference.teacher", self.teacher)
        return teacher.log_distribution(batch.exclude("routed_experts"))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the response tokens."""
        record_total("teacher/tokens", float(batch["response_mask"].sum()))
        return super().forward(batch)


class DomainTeachers(Component):
    """References by domain: the specialist of a row's domain scores the row.

    Reads the entries that the references read, and ``columns``. Writes ``ref_log_probs``
    ``[B, T]``, and with ``full`` ``ref_log_distribution`` ``[B, T, V]``, nats, without gradient.
    Records the references' metrics over all rows.

    Args:
        references: references by domain, such as a ``reference=teacher`` for each teacher.
        column: column of the examples with the name of the domain.
        full: whether the references write the log-probs of all tokens, for ``loss=distil``.

    Raises:
        ConfigError: ``full`` is true and a reference writes no distribution.
        DataError: (when called) an example has no such column, or the column names no domain.

    Source:
        DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv:2512.02556, section 3: specialist distillation.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("columns", "rollout_log_probs")
    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs",)
    writes_if: ClassVar[dict[str, tuple[Key, ...]]] = {"full": ("ref_log_distribution",)}
    runs = ("references",)
    column_remedy: ClassVar[str] = "write it into the task's data, or set reference.column"

    def __init__(
        self,
        *,
        references: Annotated[dict[str, Component], MinLen(1)],
        column: NonEmptyText = "verify_with",
        full: bool = False,
    ) -> None:
        super().__init__()
        for name, reference in references.items():
            if full and "ref_log_distribution" not in reference.writes:
                raise ConfigError(
                    f"reference.references.{name} is a {type(reference).__name__}, which writes no "
                    "distribution: use reference=teacher_full for it, or reference=teachers here"
                )
        self.references = nn.ModuleDict(references)
        self.column = column
        self.full = full

    @property
    def needed_columns(self) -> frozenset[str]:
        """Return the column with the name of the domain."""
        return frozenset({self.column})

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row with the reference of its domain."""
        scores: dict[str, Tensor] = {}
        for domain, rows in self._rows_by_domain(batch).items():
            scored = self.references[domain](batch[rows].copy())
            for key in map(str, self.writes):
                empty = scored[key].new_zeros(len(batch), *scored[key].shape[1:])
                scores.setdefault(key, empty)[rows] = scored[key]
        return batch.update(scores)

    def _rows_by_domain(self, batch: TensorDict) -> dict[str, list[int]]:
        """Return the row numbers of each domain in the batch."""
        rows: dict[str, list[int]] = {}
        for row, columns in enumerate(decode_columns(batch, only=[self.column])):
            domain = columns.get(self.column)
            if not isinstance(domain, str) or domain not in self.references:
                near = nearest(str(domain), [*self.references])
                raise DataError(
                    f"DomainTeachers: row {row} has {domain!r} in its column {self.column!r}, but "
                    f"no reference has that name{near}: write the name of a reference into the "
                    "data, or set reference.column"
                )
            rows.setdefault(domain, []).append(row)
        return rows


class SpanTeacher(Component):
    """Teacher with another tokenizer, by aligned spans of text.

    A span ``S`` ends where a token ends in both tokenizations. ``ref_log_probs`` is
    ``log pi(a_t)`` plus, at the last token of each span, ``sum_S log pi_T - sum_S log pi``, for
    ``advantage=distilled``. The end of a response is a span of its own, unless it is truncated. If
    the sampled tokens differ from the bytes of the decoded text, only the spans before the first
    difference are compared.

    Reads ``tokens``, ``response_mask``, ``rollout_log_probs`` ``[B, T]``, ``prompt``, ``response``
    ``[B, W]``. Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient.

    Records ``teacher/tokens``, the number of tokens that the teacher scored, and ``kl/reference``,
    the mean of ``rollout_log_probs - ref_log_probs``, nats per token.

    Args:
        policy: the student.
        teacher: the teacher, with its own tokenizer; reads the prompt as plain text.

    Raises:
        ConfigError: a tokenizer does not give the bytes of its tokens.

    Source:
        Boizard et al. 2024 (universal logit distillation), arXiv:2402.12030, for distillation
        across tokenizers; the sum over common spans is the chain rule.
    """

    reads = ("tokens", "response_mask", "rollout_log_probs", "prompt", "response")
    writes = ("ref_log_probs",)

    policy: Policy
    teacher: Policy

    def __init__(self, *, policy: Policy, teacher: Policy) -> None:
        super().__init__()
        # Not submodules: the nodes of the models own the tensors.
        object.__setattr__(self, "policy", policy)
        object.__setattr__(self, "teacher", teacher)
        self._student_bytes = token_bytes(policy.tokenizer)
        self._teacher_bytes = token_bytes(teacher.tokenizer)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the texts and add the difference of each span to its last token."""
        mask, student = batch["response_mask"], batch["rollout_log_probs"].detach()
        texts = decode_texts(batch["response"])
        rows = encode_answers(self.teacher, decode_texts(batch["prompt"]), texts)
        with torch.no_grad():
            teacher = self.teacher.log_probs(rows).to(student)
        reference = torch.where(mask, student, 0.0)
        for row, text in enumerate(texts):
            student_mask, teacher_mask = mask[row], rows["response_mask"][row]
            utf8 = text.encode()
            reference[row, student_mask] += span_log_ratio(
                student[row, student_mask],
                _token_ends(self._student_bytes, batch["tokens"][row][student_mask], utf8),
                teacher[row, teacher_mask],
                _token_ends(self._teacher_bytes, rows["tokens"][row][teacher_mask], utf8),
                len(utf8) + 1,  # EOS ends here; ends beyond it are never common
            )
        batch["ref_log_probs"] = reference
        record_total("teacher/tokens", float(rows["response_mask"].sum()))
        record("kl/reference", student - reference, where=mask)
        return batch


def _token_ends(table: list[bytes], tokens: Tensor, text: bytes) -> list[int]:
    """Return the byte offset at the end of each token ``[N]`` of a text in UTF-8.

    EOS, which has no bytes in the table, ends one byte after the text. A token that differs from
    the text, and all later tokens, end two bytes after the text.
    """
    ends, offset = list[int](), 0
    for token in tokens.tolist():
        piece = table[token]
        if offset <= len(text) and text.startswith(piece, offset):
            offset = offset + len(piece) if piece else len(text) + 1
        else:
            offset = len(text) + 2
        ends.append(offset)
    return ends
